"""Everything that is kept of all sites: the database, raw outputs, journals, and root-only files.

`trimtab.store.store.Store` is the only door to the database. Verdicts and incidents are worked out
in other rooms and only kept here.
"""
