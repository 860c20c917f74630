"""Documents printed by ``--json``: model values in thin envelopes, one per command.

Numbers are base SI with the unit beside them, ratios are fractions, intervals are ``[low, high]``
with ``level``, times are RFC 3339 with offset, and missing values are null with a reason. `encode`
writes them and derives their JSON Schemas.
"""
