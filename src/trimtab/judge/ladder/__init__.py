"""Efficiency of each layer relative to the layer beneath it, and checks of printed figures."""
