"""``trimtab survey``: every OST measured by itself, from this client or on the servers.

Planning, waves and the clean-up on the servers are here; `trimtab.formats` parses the output of
obdfilter-survey.
"""
