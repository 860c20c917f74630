"""The plain values passed between packages: frozen, no I/O, no clock.

One file per noun of the vocabulary. Every later package takes and returns these.
"""
