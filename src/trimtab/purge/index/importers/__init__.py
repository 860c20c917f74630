"""Importers for lists of other tools, one file per format.

Each has ``read(file, reading, ...)``, a generator of frames with the columns of the index except
``last_use_s`` (see `trimtab.purge.index.schema.completed` for columns that may be missing).
Everything else it learns goes into the `trimtab.purge.index.reading.Reading`. An importer streams,
never guesses how to split a record, and rejects a record rather than reading part of it.
"""
