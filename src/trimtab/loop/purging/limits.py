"""How much a scan asks of a file system at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

_CALL_S: Final = 0.01
"""Ten times what a busy metadata server takes: threads then mostly wait for their turn."""
_THREADS_MAX: Final = 64
_STOP_S: Final = 60.0
_TURNS: Final = 10
"""What one piece of work waits for at most before it leaves the rest: some opens, reads, names."""


class CoreLimits(TypedDict):
    """Limits as `trimtab._core.NamespaceScan` takes them."""

    delay_s: float
    latency_s_max: float | None
    each_mdt: tuple[float, int] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Of all processes of a scan together; ``None``: none.

    Attributes
    ----------
    calls_per_s
        The most calls to the file system.
    calls_per_mdt_s
        The most calls to each MDT of a Lustre.
    latency_s_max
        Of a call: fewer are made while more than 1 % of them take longer, on a Lustre to the same
        MDT; each process judges its own.
    """

    calls_per_s: float | None = None
    calls_per_mdt_s: float | None = None
    latency_s_max: float | None = None

    @property
    def are_shared(self) -> bool:
        """Whether several processes have to share what is allowed."""
        return self.calls_per_s is not None or self.calls_per_mdt_s is not None

    def threads(self, chosen: int = 0) -> int:
        """Return the threads that come close to the limit; 0 without one: as suits the machine.

        Never more than calls a second, whoever chose them: each would wait for longer, and a
        scan that is stopped for all of them.
        """
        if self.calls_per_s is None:
            return chosen
        return min(chosen, max(2, int(self.calls_per_s))) or _threads(self.calls_per_s)

    def for_core(self, threads: int, calls_a_name: int, share: float) -> CoreLimits:
        """Return what holds for a process with so many threads that has a share of the calls.

        Parameters
        ----------
        calls_a_name
            System calls that a name takes, about.
        """
        delay_s, each_mdt = 0.0, None
        if self.calls_per_s is not None:
            delay_s = threads * calls_a_name / (self.calls_per_s * share)
        if self.calls_per_mdt_s is not None:
            of_mdt = self.calls_per_mdt_s * share
            each_mdt = calls_a_name / of_mdt, _threads(of_mdt)
        return {"delay_s": delay_s, "latency_s_max": self.latency_s_max, "each_mdt": each_mdt}

    def stop_s(self, threads: int, calls_a_name: int, share: float) -> float:
        """Return in what time such a process stops, unless the file system hangs."""
        core = self.for_core(threads, calls_a_name, share)
        turn_s = core["delay_s"]
        if core["each_mdt"] is not None:
            apart_s, at_one = core["each_mdt"]
            turn_s = max(turn_s, apart_s * min(at_one, threads or at_one))
        return max(_STOP_S, _TURNS * turn_s)


def _threads(calls_per_s: float) -> int:
    return round(min(max(calls_per_s * _CALL_S, 2), _THREADS_MAX))
