"""Efficiency of each layer against what carries it: `climb` a ladder, `check` printed claims."""
