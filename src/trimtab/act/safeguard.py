"""Safeguards while a site is changed: a dead man's switch, paced trims, and checked moves of files.

The dead man's switch restores a value when the process that wrote it dies before it has read the
value back. If the servers do that by themselves (`Driver.dead_man_s`), no child is needed.
Otherwise a child holds a pipe from this process. It gets a line before each write, and another when
the value was read back. When the pipe ends in between, it writes the previous value.

`Pacing` pauses between two steps of a trim while writes take longer than they did before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from trimtab.base.action import Instruction, Outcome
from trimtab.base.error import Message, TrimtabError, visible
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.driver_protocol import WriteTimes
from trimtab.reach.process import execute

if TYPE_CHECKING:
    from trimtab.base.site_policy import TrimPolicy
    from trimtab.reach.driver_protocol import Driver


class DeadMan:
    """The child process that restores values; without one (``None``) nothing is restored.

    Parameters
    ----------
    pipe
        Descriptor of the writing end.
    """

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe

    @contextlib.contextmanager
    def armed(self, instruction: Instruction) -> Iterator[None]:
        """Have the previous value restored if this process dies in the block."""
        self._tell(
            {
                "target": instruction.target,
                "setting": instruction.setting,
                "before": instruction.before,
                "value": instruction.value,
            }
        )
        try:
            yield
        except TrimtabError:
            self._tell({})  # it ended, and is known
            raise
        self._tell({})

    def _tell(self, line: dict[str, str | None]) -> None:
        if self._pipe is not None:
            os.write(self._pipe, json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def dead_man(driver: Driver) -> Iterator[DeadMan]:
    """Start the child, and end it with the block."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(writing)
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            put_back(driver, reading)
            code = 0
        os._exit(code)
    os.close(reading)
    try:
        yield DeadMan(writing)
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def put_back(driver: Driver, reading: int) -> bool:
    """Read lines until the pipe ends, then restore the value that was not read back.

    Returns whether a value was restored. A value that another process has changed since stays.
    """
    pending: dict[str, str] = {}
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):  # half a line was never followed by a write
                pending = json.loads(line)
    if not pending:
        return False
    target, setting = pending["target"], pending["setting"]
    current = driver.settings(target).get(setting)
    if not isinstance(current, Setting) or current.value != pending["value"]:
        return False
    driver.set(target, setting, pending["before"])
    return True


OBSERVED_S: Final = 5.0
NOTHING: Final = WriteTimes(0, 0.0)


class Pacing:
    """Pauses of trims by the write latency of their targets, compared with that before the trim.

    Parameters
    ----------
    sleep
        Waits for a number of seconds.
    """

    def __init__(self, driver: Driver, policy: TrimPolicy, sleep: Callable[[float], None]) -> None:
        self._driver, self._policy, self._sleep = driver, policy, sleep
        self._usual_s: dict[str, float] = {}
        self._last: dict[str, WriteTimes] = {}

    def begin(self, target: str) -> None:
        """Note the latency of writes before the trim: over some seconds, else over all so far."""
        earlier = self._driver.write_times(target)
        if isinstance(earlier, NotAvailable):
            return
        self._sleep(OBSERVED_S)
        times = self._driver.write_times(target)
        if isinstance(times, NotAvailable):
            return
        self._last[target] = times
        usual_s = _latency_s(earlier, times) or _latency_s(NOTHING, times)
        if usual_s is not None:
            self._usual_s[target] = usual_s

    def wait(self, target: str) -> float:
        """Pause if writes since the last step were too slow; return the length in seconds."""
        times = self._driver.write_times(target)
        before = self._last.get(target)
        if isinstance(times, NotAvailable):
            return 0.0
        self._last[target] = times
        usual_s, slower = self._usual_s.get(target), self._policy.slower
        latency_s = None if before is None else _latency_s(before, times)
        if latency_s is None or usual_s is None or slower is None:
            return 0.0
        if latency_s <= usual_s * (1.0 + slower):
            return 0.0
        self._sleep(self._policy.pause_s)
        return self._policy.pause_s

    def rest(self, seconds: float) -> None:
        """Pause for a number of seconds."""
        if seconds:
            self._sleep(seconds)


def _latency_s(before: WriteTimes, after: WriteTimes) -> float | None:
    """Return the mean time of a write between two readings; ``None``: there was none."""
    writes = after.writes - before.writes
    return None if writes <= 0 else (after.busy_s - before.busy_s) / writes


LOOK_TIMEOUT_S: Final = 120.0
START_S: Final = 120.0
"""Time that a migration may take in addition to the copying itself."""
SLOWER: Final = 4.0
"""Factor by which copying may take longer than its bandwidth implies."""
_BUSY: Final = 16
_RENEW_S: Final = 60.0
_LOOK: Final = """
import hashlib, json, os, stat, sys
path = os.fsencode(sys.argv[1])
if not stat.S_ISREG(os.lstat(path).st_mode):
    sys.exit("it is not a regular file")
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
"""Run as its own process: opening a file on Lustre may hang. It reads up to 16 MiB."""

End = tuple[Outcome, str | None, str | None]
"""Outcome for a file, its targets afterwards, and the reason."""


def migrate(
    instruction: Instruction, driver: Driver, bytes_per_s: float, renew: Callable[[], None]
) -> End:
    """Move one file off a target, if it is the file of the index and not open.

    ``lfs migrate --non-block`` copies into a file without a name and exchanges the layouts; it
    gives up if the file is open or being written, and a kill halfway leaves the file as it was.

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
        return Outcome.SKIPPED, None, "it is no longer on that target"
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
    """Return whether the file is unchanged and on another target."""
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
        return Outcome.NOT_STORED, place, f"it is still on {target}, or its targets are unknown"
    return Outcome.DONE, place, None


def _another(
    path: str, instruction: Instruction, seen: dict[str, Any], driver: Driver
) -> str | None:
    """Return why a path does not have the file of the index, unchanged; ``None`` if it has."""
    import stat

    if not stat.S_ISREG(seen["mode"]) or seen["links"] != 1:
        return "it is not a regular file with one name"
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
    """Return the attributes of a file and a checksum of parts of it; its access time stays."""
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
