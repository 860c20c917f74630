"""What ``lfs`` of this client knows: the name of a file system, and the OSTs of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trimtab.drivers.local.describe import describe
from trimtab.drivers.local.tools import complaint
from trimtab.drivers.lustre.lfs_df import parse_lfs_df
from trimtab.drivers.lustre.names import target_of
from trimtab.errors import ToolError, UsageError
from trimtab.launch.process import Execute
from trimtab.model.filesystem import PathDescription
from trimtab.model.mounts import lustre_name as name_in_mounts
from trimtab.model.site import Site
from trimtab.model.telemetry import NotAvailable
from trimtab.visible import visible

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
