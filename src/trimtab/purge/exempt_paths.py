"""Whether the exempt paths of a policy are there: one that is not keeps nothing.

A scan never follows links, so a file has one path in an index, of the names that directories list;
an exemption that leads through a link, or that the kernel finds in another case or Unicode form,
matches none of them, and what it points to would be deleted.
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

from trimtab.errors import RefusedError
from trimtab.launch.touch import open_directory
from trimtab.message import Message
from trimtab.purge.policy import Exemption, Policy
from trimtab.visible import visible

PathKind = Literal["directory", "file", "link", "missing"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a name in a directory leads to.

    Attributes
    ----------
    kind
        Not followed; behind a file everything is missing.
    listed
        What the directory calls it, where that is not these bytes: it folds case, or normalises
        Unicode. Empty where it is not listed at all, as ``.zfs`` is not.
    """

    kind: PathKind
    listed: bytes | None = None


Look = Callable[[bytes, Collection[bytes]], Mapping[bytes, Found]]
"""What names in a directory, relative to the root, lead to."""

_SHOWN: Final = 5
_UNLISTED: Final = "exempt-path-unlisted"


def path_troubles(
    policy: Policy, look: Look, *, now_s: int, planned: Policy | None = None
) -> Iterator[Message]:
    """Yield why exempt paths in force keep less than they say.

    Parameters
    ----------
    look
        Asked for every directory on the way, from the top on.
    now_s
        Seconds since 1970.
    planned
        The policy of a plan that is carried out now: what that exempts was there, and may be gone.
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
    """Refuse to go on where an exempt path in force is not there, or is not what is listed.

    Raises
    ------
    RefusedError
        With each of them.
    """
    troubles = list(path_troubles(policy, look, now_s=now_s, planned=planned))
    if troubles:
        raise RefusedError(
            "; ".join(first_troubles(troubles)),
            code=troubles[0].code,
            hint="write the path as the scan has it, or take the exemption out",
        )


def first_troubles(troubles: Sequence[str]) -> tuple[str, ...]:
    """Return the first of them and how many more there are, for a message."""
    more = len(troubles) - _SHOWN
    return (*troubles[:_SHOWN], f"and {more} more") if more > 0 else tuple(troubles)


def look_beneath(root: str | os.PathLike[str]) -> Look:
    """Return what tells what names beneath a root lead to; nothing is followed.

    It touches the file system, which may hang. A directory is listed until all names are found:
    how a file system compares names (ext4 by directory, XFS and ZFS by how they were made, CIFS
    and FUSE by what is behind them) shows in nothing else that all of them have.
    """
    top = os.fsencode(root)

    def look(directory: bytes, names: Collection[bytes]) -> dict[bytes, Found]:
        above = os.path.join(top, directory)  # noqa: PTH118 (bytes)
        states = {name: state for name in names if (state := _state(above, name)) is not None}
        unlisted = _unlisted(above, {name: state.st_ino for name, state in states.items()})
        return {name: Found(_kind(states.get(name)), unlisted.get(name)) for name in names}

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
    """Return the names that a directory does not list, with what it lists in place of each."""
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
    exemption: Exemption, parts: Sequence[bytes], look: Callable[[bytes], Mapping[bytes, Found]],
    root: str,
) -> Message | None:  # fmt: skip
    for count, name in enumerate(parts):
        entry = look(b"/".join(parts[:count]))[name]
        shown = _shown(b"/".join(parts[: count + 1]))
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
    """Return that a directory lists another name, and which to write; its bytes where they matter.

    Two forms of one letter look the same.
    """
    here, name = _shown(parts[place]), _shown(listed)
    if not listed:
        return (
            f"exempt {exemption.shown} is not part of any scan, because its directory does not "
            f"list {here}: nothing is exempt"
        )
    if not listed.isascii():
        path = b"/".join([os.fsencode(root), *parts[:place], listed, *parts[place + 1 :]])
        return (
            f"exempt {exemption.shown} exempts nothing, because the directory lists {here} in "
            f'other bytes: write path_hex = "{path.hex()}"'
        )
    return (
        f"exempt {exemption.shown} exempts nothing, because the directory lists {here} as {name}: "
        f"write {name}"
    )


def _shown(path: bytes) -> str:
    return visible(path)
