"""Paths of a list as directory and name beneath the root, in bytes.

A path is taken as it stands, never normalised by meaning: ``a/../b`` may be something else than
``b`` where ``a`` is a link, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

ROOT_ITSELF: Final = ""
"""Stands instead of a reason where a path is the root, which has no name in an index."""


def split_paths(
    paths: Sequence[bytes], root: bytes, *, beneath: bytes = b""
) -> tuple[pl.Series, Sequence[bytes], dict[int, str]]:
    """Return directory and name of each path, and by its index why one is not to be had.

    Parameters
    ----------
    paths
        Absolute ones begin with ``root``; others are relative to it, also with ``./`` before them.
    root
        An absolute path without a slash at its end, but for the root of all.
    beneath
        What relative paths begin with instead of ``./``; it is taken off.

    Examples
    --------
    >>> parents, names, reasons = split_paths([b"/scratch/a/b", b"./c", b"/etc"], b"/scratch")
    >>> parents.to_list(), names, reasons
    ([b'a', b'', b''], [b'b', b'c', b''], {2: 'it is not beneath the root'})
    """
    import numpy as np
    import polars as pl

    from trimtab._core import split_paths as split_plain

    reasons: dict[int, str] = {}
    top = root.rstrip(b"/") + b"/"
    # Nearly all paths are absolute and plain; whatever is odd is looked at with more care.
    parents, packed, names, odd = split_plain(paths, top)
    places = np.array(np.frombuffer(packed, dtype=np.uint32))
    for at in odd:
        try:
            parent, names[at] = _with_care(paths[at], top, beneath)
        except _Unplaced as error:
            reasons[at] = error.reason
            parent = b""
        places[at] = len(parents)
        parents.append(parent)
    directories = pl.Series("parent", parents, dtype=pl.Binary)
    return directories.gather(pl.Series(places)), names, reasons


class _Unplaced(Exception):
    """A path is not to be had beneath the root."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _with_care(path: bytes, top: bytes, beneath: bytes) -> tuple[bytes, bytes]:
    """Return directory and name, without doubled slashes and ``.``, which mean nothing anywhere."""
    if not path:
        raise _Unplaced("it has no path")
    if b"\0" in path:
        raise _Unplaced("there is a NUL in its path")
    *parts, name = _parts(path, top, beneath)
    if b".." in (*parts, name):
        raise _Unplaced("its path goes through .., which may lead anywhere")
    return b"/".join(parts), name


def _parts(path: bytes, top: bytes, beneath: bytes) -> list[bytes]:
    """Return the components of a path beneath the root, at least one."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    before = top if path.startswith(b"/") else beneath
    common = [part for part in before.split(b"/") if part not in (b"", b".")]
    if parts[: len(common)] != common:
        raise _Unplaced("it is not beneath the root")
    rest = parts[len(common) :]
    if not rest:
        raise _Unplaced(ROOT_ITSELF)
    return rest
