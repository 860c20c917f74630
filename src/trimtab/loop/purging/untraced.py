"""Reads that move no access time whatever the mount says: of layers, of sources, of shared blocks.

- An overlay opens the files of its lower layers without touching their atime.
- A file that is bound over another path is used by whoever looks there; nobody needs to read it.
- Through a second mount with ``noatime`` nothing is recorded.
- Where blocks can be shared (XFS, Btrfs, NFS 4.2), a plain ``cp`` reads nothing: it clones.

Mounts are looked at in every mount namespace of this host, where containers keep theirs. What is
mounted on other hosts cannot be seen.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from trimtab.model.mounts import Mount, find_mount, parse_mountinfo

COPIES: Final = "copies that share blocks (reflink)"
_SEPARATOR: Final = re.compile(r"(?<!\\):+")
_OLD_S: Final = 1_000_000_000

Tables = Mapping[str, tuple[Mount, ...]]
"""Mount tables by the directory of ``/proc`` whose root they are of."""
Run = Callable[[list[str]], str | None]
"""Runs a program on this host; what it printed, ``None``: it failed."""


def mount_tables(proc: str = "/proc") -> Tables:
    """Return the mount table of every mount namespace that can be seen, this process's first."""
    tables: dict[str, tuple[Mount, ...]] = {}
    seen: set[str] = set()
    numbers = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208
    for process in ("self", *map(str, numbers)):
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"{proc}/{process}/ns/mnt")  # noqa: PTH115
            if namespace not in seen:
                text = Path(proc, process, "mountinfo").read_text("utf-8", "surrogateescape")
                tables[f"{proc}/{process}"] = parse_mountinfo(text)
                seen.add(namespace)
    return tables


def untraced_mounts(root: str, tables: Tables, is_file: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the mounts through which files beneath a root are used without a trace; pure.

    Parameters
    ----------
    tables
        The first is the one in which ``root`` is a path.
    is_file
        Whether a path, as another process has it (through procfs), is a file.
    """
    if not tables:
        return ()
    root_mount = find_mount(next(iter(tables.values())), root)
    if root_mount is None:
        return ()
    top = (root_mount.device_number, _within(root_mount, root))
    others = {
        # A canary is read through the root's own mount, which each namespace has a copy of.
        place: [
            m for m in table if (m.root, m.mount_point) != (root_mount.root, root_mount.mount_point)
        ]
        for place, table in tables.items()
    }
    words = (
        words
        for place, table in tables.items()
        for mount in others[place]
        if (words := _without_trace(mount, top, place, table, is_file)) is not None
    )
    return tuple(dict.fromkeys(words))


def bound_files(root: str, tables: Tables) -> tuple[bytes, ...]:
    """Return the files beneath a root that are bound over other paths, relative to it.

    They are in use however old they are, and no lease tells: a mount holds no file open. Of a
    directory that is bound, what is read through it is recorded.
    """
    root_mount = find_mount(next(iter(tables.values())), root) if tables else None
    if root_mount is None:
        return ()
    top = _within(root_mount, root)
    paths = {
        os.fsencode(mount.root[len(top.rstrip("/")) + 1 :])
        for table in tables.values()
        for mount in table
        if mount.device_number == root_mount.device_number and _is_beneath(mount.root, top)
    }
    place = os.fsencode(root)
    return tuple(sorted(path for path in paths if not os.path.isdir(os.path.join(place, path))))  # noqa: PTH112, PTH118


def _without_trace(
    mount: Mount,
    top: tuple[str, str],
    place: str,
    table: tuple[Mount, ...],
    is_file: Callable[[str], bool],
) -> str | None:
    if mount.fs_type in ("overlay", "overlayfs"):
        lower = any(_has(top, layer, table) for layer in lower_layers(mount))
        return f"the overlay at {mount.mount_point}" if lower else None
    if mount.device_number != top[0] or not _overlaps(mount.root, top[1]):
        return None
    if "noatime" in mount.options:
        return f"the mount with noatime at {mount.mount_point}"
    if _is_beneath(mount.root, top[1]) and is_file(f"{place}/root{mount.mount_point}"):
        return f"the file that is bound over {mount.mount_point}"
    return None


def lower_layers(mount: Mount) -> tuple[str, ...]:
    """Return the lower directories of an overlay; a relative one says nothing of where it is."""
    layers: list[str] = []
    for option in mount.super_options:
        word, _, value = option.partition("=")
        if word in ("lowerdir", "lowerdir+", "datadir+"):
            layers += [re.sub(r"\\(.)", r"\1", part) for part in _SEPARATOR.split(value) if part]
    return tuple(layers)


def _has(top: tuple[str, str], layer: str, table: tuple[Mount, ...]) -> bool:
    """Whether a layer has files of a root, or the root has its; a relative one may have them."""
    if not layer.startswith("/"):
        return True
    mount = find_mount(table, layer)
    if mount is None or mount.device_number != top[0]:
        return False
    return _overlaps(_within(mount, layer), top[1])


def _within(mount: Mount, path: str) -> str:
    """Return a path of a mount as the file system itself has it."""
    rest = path.removeprefix(mount.mount_point.rstrip("/")).strip("/")
    return "/" + "/".join(part for part in (mount.root.strip("/"), rest) if part)


def _overlaps(path: str, other: str) -> bool:
    return path == other or _is_beneath(path, other) or _is_beneath(other, path)


def _is_beneath(path: str, above: str) -> bool:
    return path != above and path.startswith(above.rstrip("/") + "/")


def copies_share_blocks(file: str, run: Run) -> bool | None:
    """Return whether a copy of a file leaves no trace on it; ``None``: it could not be tried.

    Parameters
    ----------
    file
        Of ours, with data; a copy is made beside it.
    """
    copy = f"{file}.copy"
    aged = run(["touch", "-a", "-d", f"@{_OLD_S}", file])
    if aged is None or run(["cp", "--reflink=never", file, copy]) is None:
        return None
    if run(["touch", "-a", "-d", f"@{_OLD_S}", file]) is None:
        return None
    if run(["cp", "--reflink=always", file, copy]) is None:
        return False
    atime = run(["stat", "-c", "%X", file])
    return None if atime is None else atime.strip() == str(_OLD_S)
