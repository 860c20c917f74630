"""Pauses between two steps of a trim while writes take longer than they did before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trimtab.drivers.protocol import WriteTimes
from trimtab.model.telemetry import NotAvailable

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.model.policies import TrimPolicy

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
