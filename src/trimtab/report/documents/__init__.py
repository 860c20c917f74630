"""What ``--json`` prints: the values of the model in thin envelopes, one for each command.

Numbers are base SI with the unit beside them, ratios are fractions, intervals are
``[low, high]`` with ``level``, times are RFC 3339 with offset, and what is absent is null with a
reason. `encode` writes them and makes their JSON Schemas.
"""
