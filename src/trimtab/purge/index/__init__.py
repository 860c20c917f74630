"""The metadata index: a row for every name of a file system, and how far to trust it.

::

    scan ────────────────▶ shards (Parquet) ─┬▶ tally, select (`trimtab._core`)
    importers ▶ write ───▶   + manifest.json └▶ query

An index is a directory with ``manifest.json`` and the shards that it lists. It gets its name only
when complete. ``manifest`` describes it, ``schema`` has its columns, ``importers`` read the lists
of other tools, ``importing`` builds an index from one, ``query`` runs queries.
"""
