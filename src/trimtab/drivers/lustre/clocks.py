"""The clocks of servers and clients, each read in one round trip."""

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
    """What one host says the time is.

    Attributes
    ----------
    at_s
        By its own clock, in seconds since 1970; ``None``: it did not say.
    before_s, after_s
        By the clock of this host: it said so somewhen between the two. Half of what lies between
        is how far the comparison is unsure.
    problem
        Why it did not say.
    """

    name: str
    at_s: float | None
    before_s: float
    after_s: float
    problem: str | None = None


def ask_clocks(servers: Servers, *, fan_out: FanOut) -> tuple[HostClock, ...]:
    """Return the clock of every server and client that a site names; the dead say nothing.

    Clients are among them since Lustre takes the times of files from them. Where all of them are
    this very host there is no second clock.
    """
    if servers.reach == "local":
        return ()
    names = tuple(dict.fromkeys((*servers.names, *servers.clients)))
    question = request({}, deadline_s=servers.timeout_s)
    results = ask_each(names, question, servers, fan_out=fan_out)
    return tuple(read_clock(name, result) for name, result in results.items())


def read_clock(name: str, result: ProcessResult) -> HostClock:
    """Return the clock of a host out of the answer of its collector.

    Notes
    -----
    The collector looks at its clock when it begins, and says how long it took after that: so much
    sooner than the end of the round trip it must have looked. What lies before, ssh and the start
    of Python, cannot be told from the way.
    """
    before_s = result.started_at.timestamp()
    end_s = before_s + max(0.0, result.elapsed_s)
    answer = parse_answer(name, result)
    if answer.problem is not None:
        return HostClock(name, None, before_s, end_s, answer.problem)
    at_s, took_s = answer.started_at_s, answer.elapsed_s or 0.0
    if not (math.isfinite(at_s) and math.isfinite(took_s)):
        return HostClock(name, None, before_s, end_s, "what came is no time")
    return HostClock(name, at_s, before_s, max(before_s, end_s - max(0.0, took_s)))
