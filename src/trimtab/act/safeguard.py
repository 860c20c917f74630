"""Safeguards while a site is changed: a dead man that puts values back, and the pacing of trims.

The dead man puts a value back when the process that wrote it dies before it has read the value
again. Where the servers do that by themselves (`Driver.dead_man_s`), no child is needed. Elsewhere
a child holds a pipe from this process. It gets a line before each write, and another when the value
was read back. When the pipe ends in between, it writes the previous value.

`Pacing` pauses between two steps of a trim while writes take longer than they did before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from trimtab.base.error import TrimtabError
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.driver_protocol import WriteTimes

if TYPE_CHECKING:
    from trimtab.base.action import Instruction
    from trimtab.base.site_policy import TrimPolicy
    from trimtab.reach.driver_protocol import Driver


class DeadMan:
    """The child that puts back; where there is none (``None``), nothing does.

    Parameters
    ----------
    pipe
        Descriptor of the writing end.
    """

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe

    @contextlib.contextmanager
    def armed(self, instruction: Instruction) -> Iterator[None]:
        """Have the value of before put back should this process die in the block."""
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
    """Read what is written until the pipe ends, then put back what was not read back.

    Returns whether a value was put back. A value that another has changed since stays.
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
    """The write latency of targets that are trimmed, against what it was.

    Parameters
    ----------
    sleep
        Waits for that many seconds.
    """

    def __init__(self, driver: Driver, policy: TrimPolicy, sleep: Callable[[float], None]) -> None:
        self._driver, self._policy, self._sleep = driver, policy, sleep
        self._usual_s: dict[str, float] = {}
        self._last: dict[str, WriteTimes] = {}

    def begin(self, target: str) -> None:
        """Note how long writes take before the trim: of some seconds, else of all so far."""
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
        """Pause where writes since the last step were too slow; return the seconds it took."""
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
        """Pause for so long."""
        if seconds:
            self._sleep(seconds)


def _latency_s(before: WriteTimes, after: WriteTimes) -> float | None:
    """Return the mean time of a write between two readings; ``None``: there was none."""
    writes = after.writes - before.writes
    return None if writes <= 0 else (after.busy_s - before.busy_s) / writes
