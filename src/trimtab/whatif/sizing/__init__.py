"""Sizing of a file system and the load of its drives; see `sizing.size`."""
