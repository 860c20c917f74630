"""How long a watch has a site to itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

LEASE_S: Final = 1800.0
"""A watch on another host that says nothing for so long is taken to be gone."""


def lease_end(now: datetime) -> datetime:
    """Return when a lease ends that is taken or renewed now."""
    return now + timedelta(seconds=LEASE_S)
