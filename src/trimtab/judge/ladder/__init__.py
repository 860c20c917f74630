"""Efficiency of each layer against the layer beneath it, and checks of printed figures."""
