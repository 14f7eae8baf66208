"""Measurements of what the book promises: `python -m benchmarks`."""
