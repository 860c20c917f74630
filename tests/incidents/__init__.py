"""Simulated incidents: a small file system, forward in time, whose faults are known."""
