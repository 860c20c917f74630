"""Definition of a simulated file system and its events."""
