"""Probes: planned, run on the file system of a site, confirmed, and removed again."""
