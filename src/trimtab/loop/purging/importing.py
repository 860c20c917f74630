"""The list of another tool becomes an index, with what a person says of it."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.errors import DataError, ToolError
from trimtab.launch.process import utc_now
from trimtab.loop.purging.answering import require_answer
from trimtab.purge.index.importers.column_map import NO_NAMES, Names
from trimtab.purge.index.importing import ListDescription, import_list
from trimtab.purge.index.manifest import FileSystemIdentity, Manifest
from trimtab.purge.run.collect import root_facts
from trimtab.record.system_errors import system_errors
from trimtab.units import parse_moment
from trimtab.visible import visible


def import_index(
    file: Path,
    directory: Path,
    described: ListDescription,
    *,
    mounted: bool = False,
    started: str | None = None,
    ended: str | None = None,
    users: Path | None = None,
    groups: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Return the manifest of the index that a list became.

    Parameters
    ----------
    mounted
        Whether what is mounted at the root now is what the list is of.
    started, ended
        When the tool was started and ended, as text; UTC where it names no zone.
    users, groups
        Files as ``getent passwd`` and ``getent group`` print them, for tables that hold names;
        ``None``: what this host enumerates.

    Raises
    ------
    UsageError
        What was said cannot be.
    ToolError
        There is no file system at the root whose list it could be.
    RefusedError, DataError, UnreadableError
        As `trimtab.purge.index.importing.import_list`.
    """
    described = replace(
        described,
        filesystem=_mounted(os.fsdecode(described.root)) if mounted else None,
        started_ns=_ns(started),
        ended_ns=_ns(ended),
        names=names_of(described.column_map, users, groups),
    )
    return import_list(file, directory, described, now=utc_now(), progress=progress)


def names_of(
    column_map: Sequence[str], users: Path | None = None, groups: Path | None = None
) -> Names:
    """Return the numbers of users and groups by name, where a list may hold names.

    Raises
    ------
    UnreadableError
        A file of them cannot be read.
    DataError
        It is not what ``getent`` prints.
    """
    if not any(part.strip().endswith(":name") for text in column_map for part in text.split(",")):
        return NO_NAMES
    return Names(
        _numbers(users) if users else {each.pw_name: each.pw_uid for each in pwd.getpwall()},
        _numbers(groups) if groups else {each.gr_name: each.gr_gid for each in grp.getgrall()},
    )


def _numbers(file: Path) -> dict[str, int]:
    """Return the number in the third field of each line, by the name in its first."""
    shown, numbers = visible(file), {}
    with system_errors(f"cannot read {shown}", code="unreadable-file"):
        lines = file.read_text("utf-8", "surrogateescape").splitlines()
    for number, line in enumerate(lines, 1):
        parts = line.split(":")
        if not line.strip():
            continue
        if len(parts) < 3 or not (parts[2].isascii() and parts[2].isdigit()):
            raise DataError(
                "no name with its number",
                code="account-malformed",
                file=shown,
                line=number,
                hint="getent passwd",
            )
        numbers[parts[0]] = int(parts[2])
    return numbers


def _mounted(root: str) -> FileSystemIdentity:
    require_answer(root, "the import")
    top = root_facts(root)
    if top.trouble is not None or top.file_system is None:
        raise ToolError(
            f"which file system is at {visible(root)} cannot be told: {top.trouble}",
            code="file-system-unknown",
            hint="import on a client that has it mounted, or without --mounted",
        )
    return top.file_system


def _ns(text: str | None) -> int | None:
    return None if text is None else int(parse_moment(text).timestamp()) * 10**9
