"""Moves a file off a target: checked before and after, never while it is open.

``lfs migrate --non-block`` copies into a file without a name and exchanges the layouts; it gives up
if the file is open or being written, and a kill halfway leaves the file as it was.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from trimtab.base.action import Instruction, Outcome
from trimtab.base.error import Message
from trimtab.base.snapshot import NotAvailable
from trimtab.base.visible import visible
from trimtab.reach.process import execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimtab.reach.driver_protocol import Driver

LOOK_TIMEOUT_S: Final = 120.0
START_S: Final = 120.0
"""What a migration may take beyond the copying itself."""
SLOWER: Final = 4.0
"""It may take so many times as long as its bandwidth says."""
_BUSY: Final = 16
_RENEW_S: Final = 60.0
_LOOK: Final = """
import hashlib, json, os, stat, sys
path = os.fsencode(sys.argv[1])
if not stat.S_ISREG(os.lstat(path).st_mode):
    sys.exit("it is no regular file")
flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
try:
    file = os.open(path, flags | os.O_NOATIME)
except PermissionError:
    sys.exit("not opened: its time of access would be changed")
state = os.fstat(file)
size, piece, pieces = state.st_size, 1 << 18, 64
last = max(0, size - piece)
digest = hashlib.sha256()
for place in sorted({last * n // (pieces - 1) for n in range(pieces)}):
    digest.update(os.pread(file, piece, place))
print(json.dumps({"mode": state.st_mode, "links": state.st_nlink, "inode": state.st_ino,
    "state": "%d %d %d" % (size, state.st_mtime_ns, state.st_ctime_ns),
    "content": "%d %d" % (size, state.st_mtime_ns), "sha256": digest.hexdigest()}))
"""
"""Run for itself: a file of Lustre may hang whoever opens it. It reads up to 16 MiB."""

End = tuple[Outcome, str | None, str | None]
"""What became of a file, where it lies then, and why."""


def migrate(
    instruction: Instruction, driver: Driver, bytes_per_s: float, renew: Callable[[], None]
) -> End:
    """Move one file off a target, if it is the file of the index and nobody has it open.

    Parameters
    ----------
    renew
        Keeps the right to act while it takes long.
    """
    path = os.fsdecode(unquote_to_bytes(instruction.value or ""))
    before = _look(path)
    if isinstance(before, Message):
        return Outcome.SKIPPED, None, before
    reason = _another(path, instruction, before, driver)
    if reason is not None:
        return Outcome.SKIPPED, None, reason
    if instruction.target not in _targets(path, driver):
        return Outcome.SKIPPED, None, "it does not lie there any more"
    size_bytes = int(before["state"].split()[0])
    limit_mib = max(1, int(bytes_per_s / 2**20))
    argv = ("lfs", "migrate", "--non-block", "-W", f"{limit_mib}M", "--copy", path, path)
    timeout_s = START_S + SLOWER * size_bytes / (limit_mib * 2**20)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(driver.run, None, argv, timeout_s)
        while True:
            try:
                result = running.result(_RENEW_S)
            except TimeoutError:
                renew()
            else:
                break
    if isinstance(result, NotAvailable):
        return Outcome.SKIPPED, None, result.reason
    complaint = visible(result.stderr.decode("utf-8", "replace").strip()[-300:])
    if result.exit_code == _BUSY:
        return Outcome.REFUSED, None, f"it is open: {complaint}"
    if result.problem is not None:
        outcome = Outcome.UNKNOWN if result.timed_out else Outcome.FAILED
        return outcome, None, f"lfs migrate: {result.problem}: {complaint}"
    return _compared(path, instruction.target, before, driver)


def _compared(path: str, target: str, before: dict[str, Any], driver: Driver) -> End:
    """Return whether the file is the same, and lies elsewhere."""
    after = _look(path)
    targets = _targets(path, driver)
    place = ",".join(targets) or None
    if isinstance(after, Message):
        return Outcome.UNKNOWN, place, f"it was moved, and cannot be looked at: {after}"
    if after["inode"] == before["inode"] and after["content"] == before["content"]:
        if after["sha256"] != before["sha256"]:
            return Outcome.FAILED, place, "ITS CONTENT DIFFERS from before it was moved"
    else:
        return Outcome.UNKNOWN, place, "it was changed right after it was moved: not compared"
    if target in targets or not targets:
        return Outcome.NOT_STORED, place, f"it still lies on {target}, or nobody knows where"
    return Outcome.DONE, place, None


def _another(
    path: str, instruction: Instruction, seen: dict[str, Any], driver: Driver
) -> str | None:
    """Return why what is at a path is not the file of the index, as it was then."""
    import stat

    if not stat.S_ISREG(seen["mode"]) or seen["links"] != 1:
        return "it is no regular file with one name"
    if seen["state"] != instruction.before:
        return "it was changed since the index was made"
    known = instruction.setting or ""
    if not known.startswith("["):
        return None if str(seen["inode"]) == known else "another file has its name"
    result = driver.run(None, ("lfs", "path2fid", path), LOOK_TIMEOUT_S)
    if isinstance(result, NotAvailable) or result.problem is not None:
        return "its FID cannot be read"
    fid = result.stdout.decode("ascii", "replace").strip()
    return None if fid == known else "another file has its name"


def _look(path: str) -> dict[str, Any] | Message:
    """Return what a file is, with a checksum of parts of it; its time of access stays."""
    argv = (sys.executable, "-I", "-S", "-c", _LOOK, path)
    result = execute(argv, timeout_s=LOOK_TIMEOUT_S)
    if result.problem is not None:
        words = result.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = visible(words[-1][:200]) if words else result.problem
        return Message("file-unreadable", f"it cannot be looked at: {reason}")
    return json.loads(result.stdout)


def _targets(path: str, driver: Driver) -> tuple[str, ...]:
    targets = driver.placement(path)
    return () if isinstance(targets, NotAvailable) else targets
