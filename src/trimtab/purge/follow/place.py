"""From files that know the directories they are in to paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_STRIPE: Final = re.compile(rb"\[(0x[0-9a-f]{1,16}):(0x[0-9a-f]{1,8}):(0x[0-9a-f]{1,8})\]:\d{1,5}")
_DEPTH_MAX: Final = 10_000

Name = tuple[bytes, bytes]
"""The FID of a directory, and a name in it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where files are.

    Attributes
    ----------
    directories
        The path of each directory that rows are in, relative to the root.
    missing
        Directories that have to be looked at to tell.
    nowhere
        Files that are beneath no directory that could be found: what is above them changes, and
        they have to be looked at again.
    """

    directories: Mapping[bytes, bytes]
    missing: frozenset[bytes]
    nowhere: frozenset[bytes]


def place(names: Mapping[bytes, Sequence[Name]], gone: Collection[bytes], root: bytes) -> Places:
    """Return the paths of the directories that files are in.

    Parameters
    ----------
    names
        Of every file and directory that was looked at.
    gone
        What has no name any more.
    root
        The root's FID.
    """
    known: dict[bytes, bytes] = {root: b""}
    missing: set[bytes] = set()
    lost: set[bytes] = set()
    for file in names:
        for parent, _ in names[file]:
            _climb(parent, names, known, missing, lost, gone)
    nowhere = {file for file in names if any(parent in lost for parent, _ in names[file])}
    return Places(known, frozenset(missing), frozenset(nowhere))


def is_stripe(fid: bytes, names: Sequence[Name]) -> bool:
    """Return whether a directory is a stripe of the one that it is in.

    Lustre spreads a directory over MDTs by directories in it, each of them named after its own
    FID; files are in one of those. Nobody sees them.
    """
    match = _STRIPE.fullmatch(names[0][1]) if len(names) == 1 else None
    if match is None:
        return False
    sequence, number, version = (int(part, 16) for part in match.groups())
    return fid == sequence.to_bytes(8, "big") + number.to_bytes(4, "big") + version.to_bytes(
        4, "big"
    )


def _climb(  # noqa: PLR0917 (what is known is passed on)
    directory: bytes,
    names: Mapping[bytes, Sequence[Name]],
    known: dict[bytes, bytes],
    missing: set[bytes],
    lost: set[bytes],
    gone: Collection[bytes],
) -> None:
    """Find the path of a directory by going up to one that is known."""
    way = [directory]
    while way[-1] not in known and way[-1] not in lost and way[-1] not in missing:
        above = names.get(way[-1])
        if above is None and way[-1] not in gone:
            missing.add(way[-1])
        elif not above or len(above) > 1 or above[0][0] in way or len(way) > _DEPTH_MAX:
            # Looked at while it was moved: it is in itself, in what is gone, or in two places.
            lost.add(way[-1])
        else:
            way.append(above[0][0])
    top = way.pop()
    while way:
        below = way.pop()
        if top in known:
            stripe = is_stripe(below, names[below])
            known[below] = known[top] if stripe else _joined(known[top], names[below][0][1])
        elif top in lost:
            lost.add(below)
        top = below


def _joined(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
