"""Reads the clocks of servers and clients, each in one round trip."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.drivers.lustre.asking import ask_each
from trimtab.drivers.lustre.collecting import parse_answer
from trimtab.drivers.lustre.reads import request
from trimtab.launch.fleet import FanOut
from trimtab.launch.process import ProcessResult
from trimtab.model.site import Servers


@dataclass(frozen=True, slots=True)
class HostClock:
    """The clock of one host.

    Attributes
    ----------
    at_s
        Its time in seconds since 1970; ``None`` if it did not answer.
    before_s, after_s
        This host's clock before and after the reading. Half the difference is the uncertainty of
        the comparison.
    problem
        Why it did not answer.
    """

    name: str
    at_s: float | None
    before_s: float
    after_s: float
    problem: str | None = None


def ask_clocks(servers: Servers, *, fan_out: FanOut) -> tuple[HostClock, ...]:
    """Return the clock of every server and client of a site; a dead one has a problem.

    Includes clients, because Lustre takes the times of files from them. Returns nothing if all of
    them are this host: there is no second clock.
    """
    if servers.reach == "local":
        return ()
    names = tuple(dict.fromkeys((*servers.names, *servers.clients)))
    question = request({}, deadline_s=servers.timeout_s)
    results = ask_each(names, question, servers, fan_out=fan_out)
    return tuple(read_clock(name, result) for name, result in results.items())


def read_clock(name: str, result: ProcessResult) -> HostClock:
    """Return the clock of a host from its collector's answer.

    Notes
    -----
    The collector reads its clock when it starts and reports how long it ran after that: it must
    have read the clock at least that long before the end of the round trip. The time before, for
    ssh and the start of Python, cannot be separated from the network's.
    """
    before_s = result.started_at.timestamp()
    end_s = before_s + max(0.0, result.elapsed_s)
    answer = parse_answer(name, result)
    if answer.problem is not None:
        return HostClock(name, None, before_s, end_s, answer.problem)
    at_s, took_s = answer.started_at_s, answer.elapsed_s or 0.0
    if not (math.isfinite(at_s) and math.isfinite(took_s)):
        return HostClock(name, None, before_s, end_s, "the answer is not a time")
    return HostClock(name, at_s, before_s, max(before_s, end_s - max(0.0, took_s)))
