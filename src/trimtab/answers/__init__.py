"""Answers about a site as a whole: status, overview, targets, correlations, one month.

They put together what the store has of probes, verdicts, incidents and purges; the Python library
is here too. Only ``trimtab snapshot`` and ``trimtab targets`` ask a file system.
"""
