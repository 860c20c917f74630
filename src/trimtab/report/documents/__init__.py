"""What ``--json`` prints: pydantic models, from which the published JSON Schemas are made.

Numbers are base SI with the unit beside them, ratios are fractions, intervals are
``[low, high]`` with ``level``, times are RFC 3339 with offset, and what is absent is null with a
reason. One function for each document turns the plain values of `trimtab.model` into it.
"""
