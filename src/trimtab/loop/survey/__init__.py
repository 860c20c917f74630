"""Surveys: every OST by itself, from a client or on its server.

`planning` decides which targets may be surveyed and in which waves, from values alone. `client` and
`server` carry a plan out; nothing is done before a plan was made and asked for.
"""
