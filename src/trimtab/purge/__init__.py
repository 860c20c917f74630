"""Keep a file system under its limit without ever deleting the wrong file.

In the order of data flow: `index` (which files exist), `following` (the index kept current from
changelogs), `policy_file` and `rules_in_force` (which files may be deleted), `horizon` (which must
be, to reach the target), `plan` (the frozen list, and its notices to users) and `run` (deletion,
each file checked again, and its report). `trimtab.watch` decides when a purge is due, and
`trimtab.reach.lustre` talks to the servers of a Lustre.
"""
