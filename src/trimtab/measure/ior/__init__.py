"""IOR, the parallel file system benchmark of the field: its command, and what it prints."""

from trimtab.measure.ior.running import FILE_NAME, command, parse, version

__all__ = ["FILE_NAME", "command", "parse", "version"]
