"""From files that know the directories they are in to paths. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.purge.index.reading import joined

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


def place(
    names: Mapping[bytes, Sequence[Name]],
    gone: Collection[bytes],
    root: bytes,
    stripes: Collection[bytes] = (),
) -> Places:
    """Return the paths of the directories that files are in.

    Parameters
    ----------
    names
        Of every file and directory that was looked at.
    gone
        What has no name any more.
    root
        The root's FID.
    stripes
        Directories that are parts of those that they are in: what lies in them lies there.
    """
    known: dict[bytes, bytes] = {root: b""}
    missing: set[bytes] = set()
    lost: set[bytes] = set()
    for file in names:
        for parent, _ in names[file]:
            _climb(parent, names, known, missing, lost, gone, stripes)
    nowhere = {file for file in names if any(parent in lost for parent, _ in names[file])}
    return Places(known, frozenset(missing), frozenset(nowhere))


def _climb(  # noqa: PLR0917 (what is known is passed on)
    directory: bytes,
    names: Mapping[bytes, Sequence[Name]],
    known: dict[bytes, bytes],
    missing: set[bytes],
    lost: set[bytes],
    gone: Collection[bytes],
    stripes: Collection[bytes],
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
            is_part = below in stripes
            known[below] = known[top] if is_part else joined(known[top], names[below][0][1])
        elif top in lost:
            lost.add(below)
        top = below
