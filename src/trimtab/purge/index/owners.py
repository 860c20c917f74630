"""Look up names and numbers of users and groups on this host."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from typing import Final, TypeVar

from trimtab.report.documents.encode import mapped
from trimtab.visible import visible

Key = TypeVar("Key")
Entry = TypeVar("Entry")


def entry_of(find: Callable[[Key], Entry], key: Key) -> Entry | None:
    """Return the entry of `pwd` or `grp` for a name or number; ``None`` if there is none."""
    try:
        return find(key)
    except (KeyError, OverflowError, ValueError):  # a number too large, a NUL in a name
        return None


def user_name(uid: int) -> str | None:
    """Return the name of a user; ``None`` if unknown."""
    entry = entry_of(pwd.getpwuid, uid)
    return None if entry is None else entry.pw_name


def group_name(gid: int) -> str | None:
    """Return the name of a group; ``None`` if unknown."""
    entry = entry_of(grp.getgrgid, gid)
    return None if entry is None else entry.gr_name


def number_of(kind: str, name: str) -> int | None:
    """Return the number of a ``user`` or ``group``; ``None`` if unknown."""
    if kind == "user":
        user = entry_of(pwd.getpwnam, name)
        return None if user is None else user.pw_uid
    group = entry_of(grp.getgrnam, name)
    return None if group is None else group.gr_gid


def printed_name(uid: int) -> str | None:
    """Return a user's name as visible text; ``None`` if the number has none."""
    name = user_name(uid)
    return None if name is None else visible(name)


def owner_text(uid: int) -> str:
    """Return a user's name, or the number if it has none."""
    name = printed_name(uid)
    return str(uid) if name is None else name


USER_NAME: Final = mapped("uid", printed_name, str | None)
"""Key of a document with the name of a ``uid``."""
