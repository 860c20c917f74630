"""Metrics of a watch: read from the store after each slot, served to Prometheus."""
