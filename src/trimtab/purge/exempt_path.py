"""Check that the exempt paths of a policy exist, because a missing path protects nothing.

A scan never follows links, so an index has one path per file, made of the names that directories
list. An exemption that leads through a link, or that the kernel resolves in another case or Unicode
form, matches no such path, and the files it points to would be deleted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from trimtab.base.error import Message, RefusedError
from trimtab.base.visible import visible
from trimtab.purge.purge_policy import Exemption, Policy
from trimtab.reach.touch import open_directory

PathKind = Literal["directory", "file", "link", "missing"]


@dataclass(frozen=True, slots=True)
class FoundPath:
    """The entry that a name in a directory resolves to.

    Attributes
    ----------
    kind
        Links are not followed; anything below a file is ``missing``.
    listed
        The name that the directory lists, if it differs in bytes because of case folding or Unicode
        normalisation. Empty if it is not listed at all, as with ``.zfs``.
    """

    kind: PathKind
    listed: bytes | None = None


Look = Callable[[bytes, Collection[bytes]], Mapping[bytes, FoundPath]]
"""Resolves names in a directory that is given relative to the root."""

_SHOWN: Final = 5
_UNLISTED: Final = "exempt-path-unlisted"


def path_troubles(
    policy: Policy, look: Look, *, now_s: int, planned: Policy | None = None
) -> Iterator[Message]:
    """Yield why exempt paths in force protect less than they state.

    Parameters
    ----------
    look
        Called for every directory on the way, from the root down.
    now_s
        Seconds since 1970.
    planned
        Policy of the plan being carried out: its exempt paths existed then, and may be gone now.
    """
    exempt = [
        (exemption, exemption.value.split(b"/"))
        for exemption in policy.exemptions
        if exemption.is_in_force(now_s) and isinstance(exemption.value, bytes) and exemption.value
    ]
    names = defaultdict[bytes, set[bytes]](set)
    for _, parts in exempt:
        for count, part in enumerate(parts):
            names[b"/".join(parts[:count])].add(part)
    looked = cache(lambda directory: look(directory, names[directory]))
    may_be_gone = set() if planned is None else planned.exempt_paths(now_s)
    for exemption, parts in exempt:
        trouble = _trouble(exemption, parts, looked, policy.root)
        unlisted = trouble is not None and trouble.code == _UNLISTED
        if trouble is not None and (unlisted or exemption.value not in may_be_gone):
            yield trouble


def require_exempt_paths(
    policy: Policy, look: Look, *, now_s: int, planned: Policy | None = None
) -> None:
    """Refuse to continue if an exempt path in force is missing or not listed under its name.

    Raises
    ------
    RefusedError
        With all such paths.
    """
    troubles = list(path_troubles(policy, look, now_s=now_s, planned=planned))
    if troubles:
        raise RefusedError(
            "; ".join(first_troubles(troubles)),
            code=troubles[0].code,
            hint="write the path as the scan lists it, or remove the exemption",
        )


def first_troubles(troubles: Sequence[str]) -> tuple[str, ...]:
    """Return the first few troubles and the number of the others, for a message."""
    more = len(troubles) - _SHOWN
    return (*troubles[:_SHOWN], f"and {more} more") if more > 0 else tuple(troubles)


def look_beneath(root: str | os.PathLike[str]) -> Look:
    """Return a `Look` for names beneath a root; it follows no links.

    It accesses the file system, which may hang. A directory is listed until all names are found,
    because no other portable way shows how a file system compares names (ext4 decides per
    directory, XFS and ZFS at creation, CIFS and FUSE by their server).
    """
    top = os.fsencode(root)

    def look(directory: bytes, names: Collection[bytes]) -> dict[bytes, FoundPath]:
        above = os.path.join(top, directory)  # noqa: PTH118 (bytes)
        states = {name: state for name in names if (state := _state(above, name)) is not None}
        unlisted = _unlisted(above, {name: state.st_ino for name, state in states.items()})
        return {name: FoundPath(_kind(states.get(name)), unlisted.get(name)) for name in names}

    return look


def _state(directory: bytes, name: bytes) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.lstat(os.path.join(directory, name))  # noqa: PTH118 (bytes)
    return None


def _kind(state: os.stat_result | None) -> PathKind:
    if state is None:
        return "missing"
    if stat.S_ISLNK(state.st_mode):
        return "link"
    return "directory" if stat.S_ISDIR(state.st_mode) else "file"


def _unlisted(directory: bytes, inodes: Mapping[bytes, int]) -> dict[bytes, bytes]:
    """Return the names that a directory does not list, each with the name it lists instead."""
    left, others = dict(inodes), dict[int, bytes]()
    if left:
        descriptor = open_directory(directory)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    left.pop(name, None)
                    if not left:
                        break
                    if entry.inode() in left.values():
                        others[entry.inode()] = name
        finally:
            os.close(descriptor)
    return {name: others.get(inode, b"") for name, inode in left.items()}


def _trouble(
    exemption: Exemption,
    parts: Sequence[bytes],
    look: Callable[[bytes], Mapping[bytes, FoundPath]],
    root: str,
) -> Message | None:
    for count, name in enumerate(parts):
        entry = look(b"/".join(parts[:count]))[name]
        shown = visible(b"/".join(parts[: count + 1]))
        if entry.kind == "missing":
            text = f"exempt {exemption.shown} does not exist: nothing is exempt"
            return Message("exempt-path-missing", text)
        if entry.listed is not None:
            return Message(_UNLISTED, _as_listed(exemption, parts, count, entry.listed, root))
        if entry.kind == "link":
            return Message(
                "exempt-path-link",
                f"exempt {exemption.shown} leads through the link {shown}: nothing is exempt",
            )
    return None


def _as_listed(
    exemption: Exemption, parts: Sequence[bytes], place: int, listed: bytes, root: str
) -> str:
    """Return the message that a directory lists another name, and what to write instead.

    Non-ASCII names are given in bytes, because two forms of one letter look the same.
    """
    here, name = visible(parts[place]), visible(listed)
    if not listed:
        return (
            f"exempt {exemption.shown} is in no scan, because its directory does not list {here}: "
            "nothing is exempt"
        )
    if not listed.isascii():
        path = b"/".join([os.fsencode(root), *parts[:place], listed, *parts[place + 1 :]])
        return (
            f"exempt {exemption.shown} exempts nothing, because the directory lists {here} with "
            f'other bytes: write path_hex = "{path.hex()}"'
        )
    return (
        f"exempt {exemption.shown} exempts nothing, because the directory lists {here} as {name}: "
        f"write {name}"
    )
