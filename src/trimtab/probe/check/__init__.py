"""``trimtab check``: one look at a file system, with a probe that fits a budget, and its report."""
