"""Formats of benchmarks and other tools: the commands that run them, and readers of their output.

One file per tool, or a few that begin with its name; `trimtab.formats.format_table` lists them.
Readers are pure: text in, a `trimtab.formats.measurement.Measurement` out. Nothing here starts a
program or opens a file, except `trimtab.formats.darshan_dump`, which is a program of its own.
"""
