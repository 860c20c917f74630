"""The metadata index: what is known of every name of a file system, and how far to trust it.

::

    scan ────────────────▶ shards (Parquet) ─┬▶ tally, select (`trimtab._core`)
    importers ▶ write ───▶   + manifest.json └▶ query

An index is a directory that holds ``manifest.json`` and the shards that it names. It appears under
its name when it is whole. ``manifest`` says what is in it, ``schema`` has its columns,
``importers`` read the lists of other tools, ``importing`` makes an index of one, ``query`` asks
questions.
"""
