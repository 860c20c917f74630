"""Shared means of all commands to show a result: pages, charts, terminal output, and options.

The pages and documents of single commands are in the rooms of their subjects; JSON is in
`trimtab.base.encode`.
"""
