"""Plans: frozen, hashed and signed lists of deletion candidates, with evidence of publication.

::

    staging ─▶ candidates.parquet ─▶ freeze ─▶ plan.json, signature      (never changed again)
                                                    │
                                     notice ────────┤  published.json    (once all lists are out)
                                                    ▼
                                     load_plan ─▶ run (guards)

A plan is a root-owned directory, mode 0700. Its bindings (file system, root, index, policy) are in
``plan.json``; `plan_directory.load_plan` returns it only if every signed byte is unchanged. Nothing
here deletes: `trimtab.purge.run.run_guard` decides whether a plan may be carried out now.
"""
