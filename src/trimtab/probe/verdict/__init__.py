"""What a site's record shows: series judged, incidents explained, its status and standing.

These files read the store, pass the record to `trimtab.judge` and `trimtab.explain`, and keep the
answers. They run no probe.
"""
