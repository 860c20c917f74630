"""Inodes: what files need on MDTs and OSTs, as mkfs.lustre lays ldiskfs out."""

from __future__ import annotations

from typing import Final

from trimtab.whatif.sizing.figure import Figure, Section
from trimtab.whatif.sizing.request import SizingRequest

_MKFS: Final = "mkfs.lustre's defaults (lustre/utils/mount_utils_ldiskfs.c)"
_STRIPES_PLAIN: Final = 16
_STRIPES_MOST: Final = 59
"""More stripes than this keep their layout in a block of its own."""
_INODES_OF_AN_MDT: Final = 4e9
_OST_RATIOS: Final = ((16 * 2**40, 2**20), (4 * 2**40, 2**19), (2**40, 2**18))


def bytes_per_inode(stripe_count: int) -> int | None:
    """Return the space of an MDT for one inode; ``None``: more stripes than this knows.

    Examples
    --------
    >>> bytes_per_inode(1), bytes_per_inode(32), bytes_per_inode(100)
    (2560, 3584, None)
    """
    if stripe_count > _STRIPES_MOST:
        return None
    return (1024 if stripe_count <= _STRIPES_PLAIN else 2048) + 1536


def ost_bytes_per_inode(ost_bytes: float) -> int:
    """Return the space of an OST for one object.

    Examples
    --------
    >>> ost_bytes_per_inode(135e12), ost_bytes_per_inode(2e12)
    (1048576, 262144)
    """
    return next((ratio for over, ratio in _OST_RATIOS if ost_bytes > over), 69905)


def section(request: SizingRequest, osts: int, ost_bytes: float) -> tuple[Section, list[str]]:
    """Return what files need, and what of it is not there."""
    stored = osts * ost_bytes * request.limit
    files = _files(request, stored)
    if files.value is None:
        return Section("metadata", (files,)), []
    inodes = files.value / request.limit
    each = bytes_per_inode(request.stripe_count)
    mdt = None if each is None else inodes * each
    objects = files.value * request.stripe_count / osts
    ratio = ost_bytes_per_inode(ost_bytes)
    room = ost_bytes / ratio
    figures = (
        files,
        Figure("inodes", "inodes of all MDTs", inodes, "", "files / fullness limit",
               "directories and links come on top; as much room as data has"),
        Figure("mdt_bytes", "MDTs, after mirroring", mdt, "B",
               f"inodes x {each} B (inode and 1.5 KiB), no data on MDTs",
               _MKFS, None if mdt is not None else f"over {_STRIPES_MOST} stripes: not known here"),
        Figure("mdts", "MDTs at least", float(-(-inodes // _INODES_OF_AN_MDT)), "",
               "inodes / 4e9, rounded up", "ldiskfs numbers inodes with 32 bits"),
        Figure("ost_objects", "objects of an OST", objects, "",
               "files x stripe_count / osts", "spread evenly"),
        Figure("ost_inodes", "inodes of an OST", room, "", f"ost_bytes / {ratio} B", _MKFS),
    )  # fmt: skip
    short = []
    if objects > room:
        short.append(
            f"an OST has {room:.3g} inodes for {objects:.3g} objects: it is to be formatted with "
            "more (mkfs.lustre --mkfsoptions=-i), or files are to be larger"
        )
    return Section("metadata", figures), short


def _files(request: SizingRequest, stored: float) -> Figure:
    title = "files"
    if request.files is not None:
        return Figure("files", title, request.files, "", "as asked", "--files")
    if request.mean_file_bytes is None:
        why = "neither --files nor --mean-file tells how many"
        return Figure("files", title, None, "", "", "", why)
    return Figure(
        "files",
        title,
        stored / request.mean_file_bytes,
        "",
        "stored_bytes / mean file",
        "--mean-file",
    )
