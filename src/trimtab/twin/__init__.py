"""Twin."""
