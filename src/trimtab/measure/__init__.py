"""What to run and how to read what it printed: one file per benchmark.

Each has ``command(...)``, the exact arguments, and ``parse(...)``, which turns the output into a
`measurement.Measurement`. Both are pure: nothing here starts a program or opens a file. ``table``
lists the benchmarks and how each is found; ``workload`` confirms that a run did what was asked.
"""
