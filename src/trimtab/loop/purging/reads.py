"""Do reads extend a file's life here? Declared in the site file, and tried with a canary.

A client that is mounted with ``noatime`` leaves no trace of what it reads (seen on a running
Lustre 2.17), and one such class of clients is enough that atime says nothing of a file. So a
declaration counts only if a file with an old atime, read through each class, became young.

Some reads leave no trace through any mount (`trimtab.loop.purging.untraced`). Where there can be
such, reads do not count, unless the site file says that this is known.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.errors import TrimtabError
from trimtab.launch import bounded
from trimtab.loop.purging.untraced import (
    COPIES,
    copies_share_blocks,
    mount_tables,
    untraced_mounts,
)
from trimtab.model.telemetry import NotAvailable
from trimtab.purge.rules import ReadRecording

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.model.site import Site

_OLD_S: Final = 3 * 86400
"""With ``relatime`` a read moves an atime that is older than a day."""
_DEADLINE_S: Final = 30.0
_PREFIX: Final = f"{bounded.PROBE_PREFIX}canary-"
_HERE: Final = "this host"

Run = Callable[[str | None, list[str]], str | None]
"""Runs a program on a client, ``None`` being this host; what it printed, ``None``: it failed."""


def read_recording(site: Site, driver: Driver, *, now_s: float) -> ReadRecording:
    """Return whether reads move a file's atime, whichever class of clients they come from.

    Nothing is tried where the site file declares nothing. What could not be tried is named.
    """
    if not site.reads_recorded:
        return ReadRecording()
    name = f"{_PREFIX}{secrets.token_hex(8)}"
    try:
        directory = bounded.make_directory(site.path, name)
        try:
            run = _on(driver)
            tried = _tried(site.servers.clients, directory, run, now_s)
            return (
                tried if site.reads_without_atime else _with_untraced(tried, site, directory, run)
            )
        finally:
            bounded.remove_probe_directory(site.path, name)
    except TrimtabError:
        return ReadRecording(declared=True, unchecked=(_HERE, *site.servers.clients))


def _tried(clients: tuple[str, ...], directory: str, run: Run, now_s: float) -> ReadRecording:
    unrecorded, unchecked = [], []
    for number, client in enumerate((None, *clients)):
        moved = _moved(client, f"{directory}/canary-{number}", run, int(now_s) - _OLD_S)
        if moved is None:
            unchecked.append(client or _HERE)
        elif not moved:
            unrecorded.append(client or _HERE)
    return ReadRecording(True, tuple(unrecorded), tuple(unchecked))


def _with_untraced(tried: ReadRecording, site: Site, directory: str, run: Run) -> ReadRecording:
    """Return the same, with the reads that leave no trace through a mount that records them."""

    def here(argv: list[str]) -> str | None:
        return run(None, argv)

    def is_file(path: str) -> bool:
        # What is not known counts as used.
        return here(["stat", "-L", "-c", "%F", path]) not in ("directory\n",)

    untraced = untraced_mounts(os.path.realpath(site.path), mount_tables(), is_file)
    shared = copies_share_blocks(f"{directory}/canary-0", here)
    return replace(
        tried,
        unrecorded=(*tried.unrecorded, *untraced, *((COPIES,) if shared else ())),
        unchecked=(*tried.unchecked, *((COPIES,) if shared is None else ())),
    )


def _moved(client: str | None, file: str, run: Run, old_s: int) -> bool | None:
    """Return whether a read through a client made a file young; ``None``: it could not be tried."""
    made = run(None, ["dd", "if=/dev/zero", f"of={file}", "bs=1", "count=1", "conv=excl"])
    aged = None if made is None else run(None, ["touch", "-d", f"@{old_s}", file])
    read = None if aged is None else run(client, ["dd", f"if={file}", "of=/dev/null"])
    atime = None if read is None else run(None, ["stat", "-c", "%X", file])
    if atime is None or not atime.strip().isdecimal():
        return None
    return int(atime) > old_s


def _on(driver: Driver) -> Run:
    def run(client: str | None, argv: list[str]) -> str | None:
        ended = driver.run(client, argv, _DEADLINE_S)
        if isinstance(ended, NotAvailable) or ended.problem is not None:
            return None
        return ended.stdout.decode("ascii", "replace")

    return run
