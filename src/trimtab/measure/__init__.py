"""Benchmarks: how to run each and how to read its output, one file per benchmark.

Each has ``command(...)``, which returns the exact arguments, and ``parse(...)``, which turns the
output into a `measurement.Measurement`. Both are pure: nothing here starts a program or opens a
file. ``table`` lists the benchmarks; ``workload`` confirms that a run did what was requested.
"""
