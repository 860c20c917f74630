"""What a simulated file system is, and what happens to it."""
