"""All stored data of all sites: the database, raw outputs, journals, and root-only files.

`trimtab.store.store.Store` is the only access to the database. Verdicts and incidents are computed
in other rooms and only stored here.
"""
