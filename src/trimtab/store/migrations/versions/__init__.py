"""One file per revision of the store's tables, in the order of their numbers."""
