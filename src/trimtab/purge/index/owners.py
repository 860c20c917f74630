"""Names of users and groups for their numbers, asked for once each, at the edge."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable

Naming = Callable[[int], str | None]
"""The name that belongs to a number; ``None``: there is none."""


def user_name(uid: int) -> str | None:
    """Return the name of a user as this host knows it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def user_number(name: str) -> int | None:
    """Return the uid of a user as this host knows it."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # ValueError: a NUL in it
        return None


def group_name(gid: int) -> str | None:
    """Return the name of a group as this host knows it."""
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OverflowError):
        return None
