"""An index kept up to date from the changelogs of a Lustre.

::

    records ──▶ decide ──▶ files to look at ──▶ place ──▶ rows under paths ──▶ index.delta: changes
       ▲         marks                                                            │
       └──────── clear up to the mark ◀──────────── one manifest with both ◀──────┘

A record only says which files to look at: what an index has of a file is what the file system
says of it now, under every name that it has now. So the order of records does not matter, nor that
some come twice. `decide` and `place` are pure.
"""
