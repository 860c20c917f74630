"""Paths of a list as directory and name beneath the root, in bytes.

A path is taken as it stands, never normalised by meaning: ``a/../b`` may be something else than
``b`` where ``a`` is a link, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

ROOT_ITSELF: Final = ""
"""Stands instead of a reason where a path is the root, which has no name in an index."""


def split_paths(
    paths: Sequence[bytes], root: bytes, *, beneath: bytes = b"", absolute: bool | None = None
) -> tuple[pl.Series, pl.Series, dict[int, str]]:
    """Return directory and name of each path, and by its index why one is not to be had.

    Parameters
    ----------
    paths
        Absolute ones begin with ``root``; others are relative to it, also with ``./`` before them.
    root
        An absolute path without a slash at its end, but for the root of all.
    beneath
        What relative paths begin with instead of ``./``; it is taken off.
    absolute
        Whether all have to be absolute, or relative; ``None``: each may be either.

    Examples
    --------
    >>> parents, names, reasons = split_paths([b"/scratch/a/b", b"./c", b"/etc"], b"/scratch")
    >>> parents.to_list(), names.to_list(), reasons
    ([b'a', b'', None], [b'b', b'c', None], {2: 'it is not beneath the root'})
    """
    from trimtab._core import place_paths

    columns, unplaced = place_paths(paths, root, beneath, absolute)
    parents, names = pl.DataFrame(columns)
    return parents, names, dict(unplaced)
