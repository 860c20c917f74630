"""Finds the OSTs of a file with ``lfs getstripe``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trimtab.drivers.local.tools import complaint
from trimtab.drivers.lustre.names import target_of
from trimtab.errors import ToolError
from trimtab.launch.process import Execute
from trimtab.model.telemetry import NotAvailable
from trimtab.visible import visible

_TIMEOUT_S: Final = 20.0
_LISTED: Final = re.compile(r"\bl_ost_idx:\s*(\d+)")
_ROW: Final = re.compile(r"^\s+(\d+)\s+(?:0x)?[0-9a-f]+\s+0x[0-9a-f]+\s+\S+\s*$", re.MULTILINE)


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
    return parse_placement(path, result.stdout.decode("utf-8", "surrogateescape"))


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
