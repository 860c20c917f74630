"""Keep an index up to date from the changelogs of a Lustre file system.

::

    records ──▶ decide ──▶ files to look at ──▶ place ──▶ rows under paths ──▶ index.delta: changes
       ▲         marks                                                            │
       └──────── clear up to the mark ◀──────────── one manifest with both ◀──────┘

A record only says which files to look at; the index then gets the file's current state under all
its current names. So neither the order of records nor duplicates matter. `follow_decision` and
`lustre_changes.place` are pure; changelog readers are in `trimtab.reach.lustre`.
"""
