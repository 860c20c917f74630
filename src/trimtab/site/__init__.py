"""The site that a command is about: its file, its driver, its store, and its log book.

The file's fields are values of `trimtab.base.site`; drivers are in `trimtab.reach`, and what a
probe measures is in `trimtab.probe`.
"""
