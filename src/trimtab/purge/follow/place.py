"""Build paths from files that list their parent directories. Pure."""

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
    """Paths of directories, and files without a path.

    Attributes
    ----------
    directories
        Path of each directory that contains rows, relative to the root.
    missing
        Directories that must be looked at to build paths.
    nowhere
        Files below no known directory, because a directory above them is changing; they must be
        looked at again.
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
    """Return the paths of the directories that contain files.

    Parameters
    ----------
    names
        Names of every file and directory looked at.
    gone
        Files and directories that no longer have a name.
    root
        The root's FID.
    stripes
        Stripes of striped directories: their entries belong to the parent directory.
    """
    known: dict[bytes, bytes] = {root: b""}
    missing: set[bytes] = set()
    lost: set[bytes] = set()
    for file in names:
        for parent, _ in names[file]:
            _climb(parent, names, known, missing, lost, gone, stripes)
    nowhere = {file for file in names if any(parent in lost for parent, _ in names[file])}
    return Places(known, frozenset(missing), frozenset(nowhere))


def _climb(  # noqa: PLR0917 (state passed through the recursion)
    directory: bytes,
    names: Mapping[bytes, Sequence[Name]],
    known: dict[bytes, bytes],
    missing: set[bytes],
    lost: set[bytes],
    gone: Collection[bytes],
    stripes: Collection[bytes],
) -> None:
    """Find the path of a directory by going up to a known one."""
    way = [directory]
    while way[-1] not in known and way[-1] not in lost and way[-1] not in missing:
        above = names.get(way[-1])
        if above is None and way[-1] not in gone:
            missing.add(way[-1])
        elif not above or len(above) > 1 or above[0][0] in way or len(way) > _DEPTH_MAX:
            # Looked at during a move: it is inside itself, inside a deleted one, or in two places.
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
