"""From files that others made to runs in the store.

``files`` finds them, ``reading`` turns one into results (in worker processes when there are many),
``keeping`` turns results into runs, ``importer`` joins the three.
"""
