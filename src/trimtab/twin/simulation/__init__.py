"""The file system over time: who writes what where, what is deleted, and what a probe sees."""
