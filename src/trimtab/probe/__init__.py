"""Measures file systems and imports results: checks, probes, surveys, sweeps, ladders, comparisons.

What is measured or read goes into the store, and `verdict` brings a site's verdicts up to date. The
statistics are in `trimtab.judge`, the causes in `trimtab.explain`.
"""
