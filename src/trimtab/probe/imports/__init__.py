"""``trimtab import`` and ``trimtab judge --csv FILE``: results of other tools, and people's tables.

The formats of benchmarks are in `trimtab.formats`. Saved ``lfs df`` and ``lctl get_param`` become
snapshots here.
"""
