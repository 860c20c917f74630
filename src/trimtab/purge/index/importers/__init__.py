"""Lists that other tools make, one file a format.

Each has ``read(file, reading, ...)``, a generator of frames with the columns of the index but
``last_use_s`` (see `trimtab.purge.index.schema.completed` for those that may be missing). What else
it learns goes into the `trimtab.purge.index.reading.Reading`. An importer streams, takes nothing
apart by guessing, and refuses a record rather than to take half of it.
"""
