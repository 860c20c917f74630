"""Change settings of a file system, trim it, balance its targets, and revert what was changed.

`decide` makes plans, and nothing else. The rest carries a plan out, journals each instruction,
reads it back and keeps the ledger. How a target is reached and written to is in `reach`; files are
deleted in `purge`.
"""
