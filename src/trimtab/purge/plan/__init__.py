"""Plans: frozen, hashed and signed lists of what will be deleted, and that they were published.

::

    staging ─▶ candidates.parquet ─▶ freeze ─▶ plan.json, signature      (never changed again)
                                                    │
                                     notice ────────┤  published.json    (once all lists are out)
                                                    ▼
                                     load_plan ─▶ run (guards)

A plan is a directory of root's, 0700. What it is bound to (file system, root, index, policy) stands
in ``plan.json``; `load_plan` gives it back only if every byte is what was signed;
`trimtab.purge.run.guards` says why it may not be carried out now.
"""
