"""The driver of a file system that is mounted on this host: ext4, xfs, or any directory.

``describe`` and ``devices`` find what a path stands on; ``mballoc``, ``free_space``, ``smart`` and
``trim`` read one subject each, their parsers pure; ``telemetry`` and ``settings`` put that under
the contract's names; ``driver`` joins them. Only `trimtab.launch.bounded` touches the path itself.
"""
