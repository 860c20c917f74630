"""Measures file systems and imports results: checks, probes, surveys, sweeps, ladders, comparisons.

What is measured or read goes into the store, and `up_to_date` judges a site's series and explains
its incidents. The statistics are in `trimtab.judge`, the causes in `trimtab.explain`.
"""
