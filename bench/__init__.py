"""The benchmarks: `make bench`, or `python -m bench --help`."""
