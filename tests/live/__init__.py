"""The acceptance test of Trimtab on a running Lustre: ``make live SITE=FILE``."""
