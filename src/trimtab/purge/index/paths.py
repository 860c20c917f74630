"""Paths of a list as directory and name beneath the root, in bytes.

A path is taken as it stands, never normalised by meaning: ``a/../b`` may be something else than
``b`` where ``a`` is a link, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

ROOT_ITSELF: Final = ""
"""Stands instead of a reason where a path is the root, which has no name in an index."""


_ODD: Final = re.compile(rb"\A\.|/\.|//|\A/|/\Z|\x00")
"""What a plain path does not have, though names that begin with a full stop look like it."""


def split_paths(
    paths: Iterable[bytes], root: bytes, *, beneath: bytes = b""
) -> tuple[list[bytes], list[bytes], list[str | None]]:
    """Return directory, name and ``None`` of each path, or why it is not to be had.

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
    >>> split_paths([b"/scratch/a/b", b"./c", b"/etc/passwd"], b"/scratch")
    ([b'a', b'', b''], [b'b', b'c', b''], [None, None, 'it is not beneath the root'])
    """
    parents, names, reasons = [], [], []
    top = root.rstrip(b"/") + b"/"
    length = len(top)
    prefix = beneath.rstrip(b"/") + b"/" if beneath else b""
    for path in paths:
        reason: str | None = None
        rest = path
        if path.startswith(top):
            rest = path[length:]
        elif path.startswith(b"/") or prefix or path.startswith(b".") or not path:
            rest, reason = _relative(path, top, prefix)
        # Rare enough to be looked at a second time: most paths have none of these.
        if reason is None and (not rest or _ODD.search(rest)):
            rest, reason = _plain(rest)
        if reason is not None:
            parents.append(b"")
            names.append(b"")
        else:
            parent, _, name = rest.rpartition(b"/")
            parents.append(parent)
            names.append(name)
        reasons.append(reason)
    return parents, names, reasons


def _relative(path: bytes, top: bytes, prefix: bytes) -> tuple[bytes, str | None]:
    """Return what a path that does not begin with the root is relative to it."""
    if not path:
        return b"", "it has no path"
    if path + b"/" == top or path == b"." or (prefix and path + b"/" == prefix):
        return b"", ROOT_ITSELF
    if prefix and path.startswith(prefix):
        return path[len(prefix) :], None
    if path.startswith(b"/") or prefix:
        return b"", "it is not beneath the root"
    return path, None


def _plain(rest: bytes) -> tuple[bytes, str | None]:
    """Return a path without doubled slashes and ``.``, which mean nothing in any file system."""
    if b"\0" in rest:
        return b"", "there is a NUL in its path"
    parts = [part for part in rest.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        return b"", "its path goes through .., which may lead anywhere"
    if not parts:
        return b"", ROOT_ITSELF
    return b"/".join(parts), None
