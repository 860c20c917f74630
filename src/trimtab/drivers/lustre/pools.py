"""Finds the OSTs of each pool with ``lfs pool_list`` on a client.

::

    $ lfs pool_list scratch            $ lfs pool_list scratch.flash
    Pools from scratch:                Pool: scratch.flash
    scratch.flash                      scratch-OST0000_UUID
    scratch.disk                       scratch-OST0001_UUID

A list has no end marker. A pool that lost an OST in transfer would be promised too little, so any
irregularity makes everything unknown: an exit code, a line that is not a member, a cut line. This
needs no server and no network: the client knows its pools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trimtab.drivers.local.tools import run_tool
from trimtab.drivers.lustre.names import parse_name
from trimtab.launch.process import Execute
from trimtab.model.telemetry import NotAvailable
from trimtab.visible import visible

_TIMEOUT_S: Final = 20.0
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
