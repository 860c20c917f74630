"""The metadata index: a row for every name of a file system, and how far to trust it.

::

    scan ────────────────▶ shards (Parquet) ─┬▶ tally, select (`trimtab._core`)
    *_list ▶ list_import ▶   + manifest.json └▶ index_query

An index is a directory with ``manifest.json`` and the shards that it lists. It gets its name only
when complete. `manifest` describes it, `shard` has its columns, the ``*_list`` files read the lists
of other tools, `list_import` builds an index from one, `index_view` reads and changes it, and
`index_query` answers queries. Which files may be deleted is not decided here.
"""
