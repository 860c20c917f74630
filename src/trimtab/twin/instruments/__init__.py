"""What a site would see of a simulated file system: what benchmarks print, and telemetry."""
