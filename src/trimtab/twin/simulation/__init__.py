"""The file system over time: writes, placement, deletions, and what probes see."""
