"""CPU of servers and requests of the block allocator, as several causes compare them.

The block allocator's counters are ``mb_alloc_stats`` and ``mb_stats``. The driver has already
corrected the names of the loops [S8, LU-17744]; loops are summed here, so names do not matter.
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

import polars as pl

from trimtab.explain.context import Context
from trimtab.explain.contrast import Contrast, in_time
from trimtab.explain.telemetry_frame import OSTS, SERVERS, Observations

_PREFIXES: Final = ("ldiskfs_mb_", "ext4_mb_")
CPU: Final = "server-cpu-in-median-stretch"
LOOPS: Final = "useless-loops-in-median-stretch"
PROFILE: Final = "allocator-cpu-share"
"""Quantities that several causes state."""
_REQUESTS_LEAST: Final = 1.0
"""Requests per second below which loops per request mean nothing: an idle target."""


def cpu_up(seen: Observations, *, absent: float) -> Contrast:
    """Return whether the servers' CPUs were busier in the bad hours."""
    of_servers = seen.values("server_cpu_fraction", kinds=SERVERS)
    if not of_servers.filter("bad").height:
        of_servers = seen.values("server_cpu_fraction", kinds=OSTS)
    busiest = in_time(of_servers, over="max", ratio=1.15, by=0.05, absent=absent)
    mean = in_time(of_servers, over="mean", ratio=1.15, by=0.05, absent=absent)
    return mean if mean.weight > busiest.weight else busiest


def cpu_share_of_allocator(context: Context, *, bad: bool = True) -> float | None:
    """Return the mean share of CPU samples in the block allocator, in profiles of one side.

    A profile without a time counts as bad hours: profiles are taken to investigate an incident.
    """
    within = context.is_bad if bad else context.is_good
    shares = [
        sum(share for function, share in profile.shares.items() if function.startswith(_PREFIXES))
        for profile in context.profiles
        if profile.shares and (bad if profile.at is None else within(profile.at))
    ]
    return min(1.0, fmean(shares)) if shares else None


def per_request(seen: Observations, name: str) -> pl.DataFrame:
    """Return a counter of the allocator per request for each target and time, with ``bad``."""
    requests = seen.rates("allocator_requests_total", kinds=OSTS)
    counted = seen.rates(name, kinds=OSTS)
    both = counted.join(
        requests.select("at", "target", requests=pl.col("value")), on=["at", "target"]
    )
    busy = both.filter(pl.col("requests") >= _REQUESTS_LEAST)
    return busy.with_columns(value=pl.col("value") / pl.col("requests")).drop("requests")
