"""The plain values that flow from step to step: frozen, no I/O, no clock.

One file per noun of the vocabulary. Every later package takes and returns these.
"""
