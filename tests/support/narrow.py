"""Values that a test needs to be there, or to be of a kind, before it looks into them."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value, which is not ``None``."""
    assert value is not None
    return value


def instance(kind: type[T], value: object) -> T:
    """Return the value, which is of that kind."""
    assert isinstance(value, kind), value
    return value
