"""What to change on a file system: pure decisions, from telemetry and a policy to a plan."""
