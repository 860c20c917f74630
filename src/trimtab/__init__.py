"""Trimtab keeps an all-flash parallel file system fast and predictable."""

__version__ = "0.1.0"
