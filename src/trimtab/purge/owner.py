"""Look up names and numbers of users and groups on this host, and name their lists' files."""

from __future__ import annotations

import grp
import pwd
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from trimtab.base.encode import mapped
from trimtab.base.error import RefusedError, visible

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


_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\Z")
_NUMBERED: Final = re.compile(r"uid-[0-9]+\Z")
_UNKNOWN_MAXIMUM: Final = 3
"""Number of unknown accounts that is normal at any site: people leave, their files stay."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the system.

    Attributes
    ----------
    uid, gid
        Number and primary group.
    name
        Account name, any text.
    """

    uid: int
    gid: int
    name: str


Accounts = Callable[[int], Account | None]
"""Finds the user with a number: `find_account`."""


def find_account(uid: int) -> Account | None:
    """Return the user with a number on this host; ``None`` if there is none."""
    entry = entry_of(pwd.getpwuid, uid)
    return None if entry is None else Account(uid, entry.pw_gid, entry.pw_name)


def find_accounts(
    uids: Iterable[int], accounts: Accounts, *, accept_unknown: bool = False
) -> dict[int, Account | None]:
    """Return the account of each number; ``None`` if unknown.

    Raises
    ------
    RefusedError
        Most of them are unknown: probably the directory service is down, and no user would be
        notified.
    """
    accounts_found = {uid: accounts(uid) for uid in uids}
    unknown = sum(account is None for account in accounts_found.values())
    if unknown > max(_UNKNOWN_MAXIMUM, len(accounts_found) // 2) and not accept_unknown:
        raise RefusedError(
            f"{unknown} of {len(accounts_found)} users have no account on this host",
            code="accounts-unknown",
            hint="check the directory service (sssd, LDAP, NIS): getent passwd NUMBER",
        )
    return accounts_found


def file_names(accounts: Mapping[int, Account | None]) -> dict[int, str]:
    """Return the base name of each user's list files.

    This is the account's name if it is a plain word and unique, else ``uid-NUMBER``; account names
    of that form are never used.

    Examples
    --------
    >>> file_names({7: Account(7, 7, "ada"), 8: Account(8, 8, "../x"), 9: None})
    {7: 'ada', 8: 'uid-8', 9: 'uid-9'}
    """
    # Folded: on a case-insensitive file system, names that differ only in case are one file.
    times = Counter(account.name.casefold() for account in accounts.values() if account is not None)
    names = {}
    for uid, account in accounts.items():
        plain = (
            account is not None
            and _FILE_NAME.match(account.name)
            and not _NUMBERED.match(account.name.casefold())
            and times[account.name.casefold()] == 1
        )
        names[uid] = account.name if account is not None and plain else f"uid-{uid}"
    return names
