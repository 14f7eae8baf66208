"""Speed and weight beside other libraries, as ratios of one run; no test asserts a clock."""
