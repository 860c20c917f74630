"""Data from ``lfs`` on this client: a file system's name, the OSTs of a file, and the pools.

Needs no server and no network. A list of pools or members has no end marker::

    $ lfs pool_list scratch            $ lfs pool_list scratch.flash
    Pools from scratch:                Pool: scratch.flash
    scratch.flash                      scratch-OST0000_UUID
    scratch.disk                       scratch-OST0001_UUID

A pool that lost an OST in transfer would be promised too little, so any irregularity makes
everything unknown: an exit code, a line that is not a member, a cut line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trimtab.base.error import ToolError, UsageError, visible
from trimtab.base.filesystem import PathDescription
from trimtab.base.filesystem import lustre_name as name_in_mounts
from trimtab.base.site import Site
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.host import complaint, run_tool
from trimtab.reach.lustre.lustre_target import parse_lfs_df, parse_name, target_of
from trimtab.reach.path_description import describe
from trimtab.reach.process import Execute

_TIMEOUT_S: Final = 20.0
_OUTPUT_LIMIT_BYTES: Final = 32 * 2**20
_LISTED: Final = re.compile(r"\bl_ost_idx:\s*(\d+)")
_ROW: Final = re.compile(r"^\s+(\d+)\s+(?:0x)?[0-9a-f]+\s+0x[0-9a-f]+\s+\S+\s*$", re.MULTILINE)


def name_at(path: str, description: PathDescription, execute: Execute) -> str | None:
    """Return Lustre's name of the file system at a path; ``None`` if it is not Lustre."""
    # The mount table usually has it; else use lfs.
    name = name_in_mounts(description.fs_type, description.source)
    if name:
        return name
    argv = ("lfs", "df", "-lv", path)
    try:
        result = execute(argv, timeout_s=_TIMEOUT_S, output_limit_bytes=_OUTPUT_LIMIT_BYTES)
    except ToolError:
        return None
    listed = parse_lfs_df(_text(result.stdout), _text(result.stderr))
    return next((df.file_system for df in listed if df.file_system is not None), None)


def lustre_name(site: Site) -> str:
    """Return Lustre's own name of a site's file system.

    Raises
    ------
    UsageError
        Neither the site file nor the mount has it.
    """
    if site.file_system is not None:
        return site.file_system
    description = describe(site.path)
    name = name_in_mounts(description.fs_type, description.source)
    if name is None:
        raise UsageError(
            f"{site.path} is not a Lustre mount with a file system name",
            code="file-system-name-unknown",
            hint="set it in the site file: [site] file_system",
        )
    return name


def read_placement(path: str, execute: Execute) -> tuple[str, ...] | NotAvailable:
    """Return the OSTs of a file in stripe order, or why they are unknown.

    ``lfs getstripe`` of 2.17 does not support ``--`` before a path: it would ignore the path.
    """
    path = str(Path(path).absolute())
    argv = ("lfs", "getstripe", path)
    try:
        result = execute(argv, timeout_s=_TIMEOUT_S)
    except ToolError as error:
        return NotAvailable(error.message)
    if result.problem is not None:
        return NotAvailable(f"lfs getstripe {visible(path)}: {result.problem}{complaint(result)}")
    return parse_placement(path, _text(result.stdout))


def parse_placement(path: str, text: str) -> tuple[str, ...] | NotAvailable:
    """Return the OSTs in the output of ``lfs getstripe``.

    Plain files list a table (``obdidx objid ...``), composite ones ``l_ost_idx`` for each object;
    components that are not yet instantiated have none. An OST used by several components counts
    once.
    """
    # The name comes first, unescaped: nothing in it is layout.
    text = text.removeprefix(path)
    indices = [int(index) for index in _LISTED.findall(text)]
    if not indices:
        indices = [int(index) for index in _ROW.findall(text)]
    if not indices:
        return NotAvailable(f"lfs getstripe names no objects of {visible(path)}")
    return tuple(dict.fromkeys(target_of("ost", index) for index in indices))


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")


_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_SHOWN: Final = 80


def read_pools(file_system: str, execute: Execute) -> dict[str, tuple[int, ...]] | NotAvailable:
    """Return the OST indices of each pool of a file system, or why they are unknown.

    Parameters
    ----------
    file_system
        Lustre's name of it; the returned pool names do not contain it.
    execute
        Runs ``lfs``: once for the list and once for each pool.
    """
    listed = _ask(file_system, execute)
    names = listed if isinstance(listed, NotAvailable) else parse_pools(file_system, listed)
    if isinstance(names, NotAvailable):
        return names
    pools = {}
    for name in names:
        whole = f"{file_system}.{name}"
        printed = _ask(whole, execute)
        osts = printed if isinstance(printed, NotAvailable) else parse_members(whole, printed)
        if isinstance(osts, NotAvailable):
            return osts
        pools[name] = osts
    return pools


def parse_pools(file_system: str, text: str) -> tuple[str, ...] | NotAvailable:
    r"""Return the pool names in the output of ``lfs pool_list FSNAME``.

    Examples
    --------
    >>> parse_pools("scratch", "Pools from scratch:\nscratch.flash\n")
    ('flash',)
    """
    lines = _lines(f"Pools from {file_system}:", text)
    if isinstance(lines, NotAvailable):
        return lines
    names: list[str] = []
    for line in lines:
        before, dot, name = line.partition(".")
        if before != file_system or not dot or _NAME.fullmatch(name) is None:
            return _unreadable(f"{line[:_SHOWN]!r} is not a pool of {file_system}")
        if name in names:
            return _unreadable(f"it names {line} twice")
        names.append(name)
    return tuple(names)


def parse_members(pool: str, text: str) -> tuple[int, ...] | NotAvailable:
    r"""Return the OST indices in the output of ``lfs pool_list FSNAME.POOL``, in order.

    Examples
    --------
    >>> parse_members("scratch.flash", "Pool: scratch.flash\nscratch-OST000a_UUID\n")
    (10,)
    """
    lines = _lines(f"Pool: {pool}", text)
    if isinstance(lines, NotAvailable):
        return lines
    file_system = pool.partition(".")[0]
    indices: set[int] = set()
    for line in lines:
        member = parse_name(line)
        if (
            member is None
            or member.kind != "ost"
            or (member.file_system, member.by, member.device) != (file_system, None, None)
            or not line.endswith("_UUID")
        ):
            return _unreadable(f"{line[:_SHOWN]!r} is not an OST of {file_system}")
        if member.index in indices:
            return _unreadable(f"it names {member.target} twice")
        indices.add(member.index)
    return tuple(sorted(indices))


def _ask(pool: str, execute: Execute) -> str | NotAvailable:
    result = run_tool(execute, ("lfs", "pool_list", pool), timeout_s=_TIMEOUT_S)
    if isinstance(result, NotAvailable):
        return result
    return result.stdout.decode("utf-8", "surrogateescape")


def _lines(head: str, text: str) -> Sequence[str] | NotAvailable:
    """Return the lines after the first, which must be ``head``; no line may be cut."""
    first, *rest = text.split("\n")
    if first != head:
        return _unreadable(f"it begins with {first[:_SHOWN]!r}, not with {head!r}")
    if not rest or rest.pop():
        return _unreadable("it was cut off")
    return rest


def _unreadable(why: str) -> NotAvailable:
    return NotAvailable(f"the output of lfs pool_list cannot be read: {visible(why)}")
