"""The tests of the package and of the notebooks."""
