"""Plain values that every other room uses: sites, runs, telemetry, incidents, errors, and units.

It also reads and writes TOML files whose keys are the fields of dataclasses. It imports no other
room; what is measured, kept or decided lies elsewhere.
"""
