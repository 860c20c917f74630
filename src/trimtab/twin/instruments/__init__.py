"""What a site sees of a simulated file system: benchmark outputs and telemetry."""
