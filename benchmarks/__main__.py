"""All benchmarks in turn: `make bench`; one alone: `python -m benchmarks.NAME`."""

from benchmarks import attention, pages, widgets

for benchmark in (attention, widgets, pages):
    print(f"\n{benchmark.__doc__}")
    benchmark.main()
