"""Fixtures of all tests of formats."""

from tests.formats.damage import damage_sample

__all__ = ["damage_sample"]
