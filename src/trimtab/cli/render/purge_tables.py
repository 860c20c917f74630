"""What the pages of a purge share: owners by name, fullness."""

from __future__ import annotations

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.index.owners import user_name
from trimtab.units import percent_or_dash
from trimtab.visible import visible


def owner(uid: int) -> str:
    """Return a user's name, or the number where nobody has it."""
    name = user_name(uid)
    return str(uid) if name is None else visible(name)


def fullness(usage: Usage | None) -> str:
    """Return how full it is; ``-`` where that cannot be told."""
    return percent_or_dash(None if usage is None else usage.fullness, 2)
