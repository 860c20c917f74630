"""Decide what to change on a file system: pure functions from telemetry and a policy to a plan."""
