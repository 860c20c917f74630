"""The driver of a file system that is mounted on this host: ext4, xfs, or any directory.

``describe`` and ``devices`` find the mount and devices beneath a path; ``mballoc``, ``free_space``,
``smart`` and ``trim`` cover one subject each, with pure parsers; ``telemetry`` and ``settings`` map
the results to the contract's names; ``driver`` joins them. Only `trimtab.launch.bounded` touches
the path itself.
"""
