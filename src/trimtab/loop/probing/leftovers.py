"""Directories of probes that were killed outright: found, named, never removed unasked."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from trimtab.errors import TrimtabError
from trimtab.loop.probing.probe import DIRECTORY_PREFIX
from trimtab.loop.probing.reach import THIS_HOST, Reach

AGE_MINIMUM = timedelta(days=1)
"""A younger directory may belong to a probe that is running, here or on another host."""


def left_behind(path: str, now: datetime, reach: Reach = THIS_HOST) -> tuple[str, ...]:
    """Return the directories under ``path`` that earlier probes left, oldest first.

    Their age is in their name, which ends with the run's UUIDv7.
    """
    try:
        names = reach.list_names(path, DIRECTORY_PREFIX).names
    except TrimtabError:
        # A path that does not answer was reported already by the snapshot.
        return ()
    return tuple(f"{path.rstrip('/')}/{name}" for name in names if is_stale(name, now))


def is_stale(name: str, now: datetime) -> bool:
    """Return whether a name is that of a probe's directory which began over a day ago.

    Examples
    --------
    >>> from datetime import UTC
    >>> name = ".trimtab-probe-01a1f640-bc00-7cd6-aba0-e8bc4756b9c4"
    >>> is_stale(name, datetime(2026, 11, 20, 12, tzinfo=UTC))
    False
    >>> is_stale(name, datetime(2026, 11, 21, 1, tzinfo=UTC))
    True
    """
    try:
        identifier = uuid.UUID(name.removeprefix(DIRECTORY_PREFIX))
    except ValueError:
        return False
    began_s = (identifier.int >> 80) / 1000
    return now.timestamp() - began_s > AGE_MINIMUM.total_seconds()
