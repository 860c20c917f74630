"""Notify users: a private list for each, and mails with its location.

::

    plan ─▶ publish ─▶ a directory of lists ─▶ published.json (the notice period begins)
                                                    └─▶ mail ─▶ mails.jsonl (each at most once)
"""
