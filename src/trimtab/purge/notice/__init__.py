"""Users told: one list each, theirs alone to read, and mails that say where it is.

::

    plan ─▶ publish ─▶ a directory of lists ─▶ published.json (the notice period begins)
                                                    └─▶ mail ─▶ mails.jsonl (each at most once)
"""
