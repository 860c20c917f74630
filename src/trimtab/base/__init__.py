"""Plain values that every other room uses: sites, runs, telemetry, incidents, errors, and units.

It also shows them as text and JSON, reads and writes TOML files whose keys are the fields of
dataclasses, opens files that only root can have written, and turns signals into one exception. It
imports no other room; measuring, storing and deciding are elsewhere.
"""
