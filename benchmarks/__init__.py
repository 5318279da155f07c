"""Benchmarks: ratios in one process, never absolute times. Run one as ``python -m benchmarks.<name>``."""
