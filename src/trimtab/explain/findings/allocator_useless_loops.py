"""`allocator-useless-loops`: the block allocator searches all groups and finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_percent

RATE_LIMIT = 0.01
"""Useless loops per request, from a simulation, confirmed on no target yet.

A toy of the kernel's loops shows none up to 75 % full, 0.024 at 80 % and 0.077 at 85 % with the
default thresholds of older kernels [S10].
"""
LOOPS_MINIMUM = 5
"""A handful after mount is the allocator learning its groups."""


@dataclass(frozen=True, slots=True)
class _Counts:
    requests: float
    loops: dict[str, float]
    while_measured: bool

    @property
    def total(self) -> float:
        return sum(self.loops.values())


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding that names the criteria whose loops were useless.

    Counted over the probe where one ran; else since the counters started, with less confidence.
    """
    counts = _counted_by_probe(observed) or _counted_so_far(observed)
    if counts is None or counts.requests <= 0 or counts.total < LOOPS_MINIMUM:
        return
    rate = counts.total / counts.requests
    if rate < RATE_LIMIT:
        return
    worst = sorted(counts.loops.items(), key=lambda item: -item[1])
    named = ", ".join(f"{criterion} {loops:,.0f}" for criterion, loops in worst if loops)
    when = "during the probe" if counts.while_measured else "since the counters started"
    yield Finding(
        id="allocator-useless-loops",
        severity=Severity.WARNING,
        title=(
            f"the block allocator made {counts.total:,.0f} full scans without a result in "
            f"{counts.requests:,.0f} requests {when} ({named})"
        ),
        target=observed.target,
        seen=Seen(rate, "1", "useless loops per allocation request"),
        source=observed.now.source("allocator_useless_loops_total", worst[0][0]),
        why=(
            "Each useless loop scans every block group without a result, on the CPU that "
            "the write waits for; its cost grows with the size of the target. NERSC "
            "found these loops on its slow OSTs and not on the fast ones, and they began at "
            "about 75 % full (S1, S2); one more site came to a halt over them (S4). The "
            "harmful rate has not been measured: in a simulation there were none up to 75 % "
            "full and 2 to 8 in 100 requests at 80 to 85 %; the limit here is 1 in 100."
        ),
        fix=Fix(_advice(observed)),
        confidence=0.6 if counts.while_measured else 0.4,
        evidence=tuple(Seen(loops, "loops", f"criterion {name}") for name, loops in worst),
    )


def _counted_by_probe(observed: Observed) -> _Counts | None:
    requests = observed.growth("allocator_requests_total")
    if not requests:
        return None
    criteria = observed.now.labelled("allocator_useless_loops_total")
    growth = {
        criterion: observed.growth("allocator_useless_loops_total", criterion)
        for criterion in criteria
    }
    loops = {criterion: loops for criterion, loops in growth.items() if loops is not None}
    return _Counts(requests, loops, while_measured=True) if loops else None


def _counted_so_far(observed: Observed) -> _Counts | None:
    requests = observed.now.number("allocator_requests_total")
    loops = observed.now.labelled("allocator_useless_loops_total")
    if not requests or not loops:
        return None
    return _Counts(requests, loops, while_measured=False)


def _advice(observed: Observed) -> str:
    fullness = observed.now.fullness()
    full = "" if fullness is None else f" (now {format_percent(fullness, 0)} full)"
    lustre = observed.path.fs_type in {"lustre", "ldiskfs"}
    return (
        f"Free space first{full}, and in large pieces: remove or rewrite the files that fragment "
        "it (e4defrag -c PATH shows how badly; e2freefrag DEVICE shows the free extents)."
        + (
            " On RHEL 8-era ldiskfs the thresholds mb_c1..c3_threshold can skip the loops that "
            "fail; el9 and later kernels do not have them."
            if lustre
            else ""
        )
    )
