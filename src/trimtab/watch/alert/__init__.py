"""Alert."""
