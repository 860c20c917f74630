"""Rows of ETH's scratch: brought down by its allocator, a quarter of its writes, and a trim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Final

from trimtab.twin.scenario.geometry import ost_capacity_bytes
from trimtab.twin.scenario.model import Scenario
from trimtab.whatif.reproduce.life import Life, LifeRun
from trimtab.whatif.reproduce.told import Told, told

WRITE_BYTES_PER_S: Final = 36e9
READ_BYTES_PER_S: Final = 45e9
"""The benchmark "on perfect conditions" (source 003)."""
_MONTH: Final = timedelta(days=30)
_HALF_YEAR: Final = timedelta(days=183)


def eth_run(scenario: Scenario) -> LifeRun:
    """Return its life, with totals before the first trim and after half a year."""
    trim = first_trim(scenario)
    half_year = scenario.start + _HALF_YEAR
    return LifeRun("eth", scenario, marks=tuple(sorted({trim - _MONTH, trim, half_year})))


def first_trim(scenario: Scenario) -> datetime:
    """Return when the scenario begins to trim; its end if it never does."""
    found = (one.at for one in scenario.changes if "trim.every" in one.set)
    return next(found, scenario.end)


def fixed_at(scenario: Scenario) -> datetime:
    """Return when the scenario raises the allocator's threshold; its end if it never does."""
    found = (one.at for one in scenario.changes if "allocator.c3" in one.set)
    return next(found, scenario.end)


def mean_job(life: Life, access: str, since: datetime, until: datetime) -> float | None:
    """Return the mean rate of IOR runs that finished in a stretch, bytes/s."""
    rates = [
        one.write_bytes_per_s if access == "write" else one.read_bytes_per_s
        for one in life.jobs
        if since <= one.at < until
    ]
    known = [one for one in rates if one is not None]
    return fmean(known) if known else None


def _over(value: float | None, reference: float) -> float | None:
    return None if value is None else value / reference


def rows(lives: Sequence[Life]) -> Iterator[Told]:
    """Yield every row of ETH's, from one life a seed."""
    scenario = lives[0].scenario
    trim, fixed = first_trim(scenario), fixed_at(scenario)
    half_year = scenario.start + _HALF_YEAR
    capacity = scenario.osts.count * ost_capacity_bytes(scenario.osts)
    used = [life.at(half_year) for life in lives]
    yield told(
        "8-wear",
        [None if one is None else one.percentage_used for one in used],
        "drives rated for one drive write a day over five years, assumed as their model",
    )
    loops = [life.mean("useless_per_request", scenario.start, fixed) for life in lives]
    yield told("20-down", loops, "of what users write; the scenario is nearly empty then too")
    yield told(
        "27-slow",
        [_over(mean_job(life, "write", fixed, trim), WRITE_BYTES_PER_S) for life in lives],
        _before_trim(lives[0], fixed, trim),
    )
    yield told(
        "27-read",
        [_over(mean_job(life, "read", fixed, trim), READ_BYTES_PER_S) for life in lives],
    )
    end = datetime.max.replace(tzinfo=UTC)
    yield told(
        "27-trimmed",
        [_over(mean_job(life, "write", trim + timedelta(days=2), end), WRITE_BYTES_PER_S)
         for life in lives],
    )  # fmt: skip
    yield told(
        "28-trimmed",
        [_free(life, trim) for life in lives],
        "what fstrim prints is all free space: that of one OST just before",
        fitted="users.fullness and users.daily_writes of the scenario",
    )
    yield told(
        "49-purged",
        [_purged(life, trim, capacity) for life in lives],
        "printed as 66 %: 161 TB are 61 % of 240 TiB",
        fitted="users.daily_writes and users.lifetimes of the scenario",
    )


def _before_trim(life: Life, fixed: datetime, trim: datetime) -> str:
    amplification = life.mean("amplification", fixed, trim)
    fullness = life.mean("fullness", fixed, trim)
    if amplification is None or fullness is None:
        return ""
    return f"{fullness:.0%} full, write amplification {amplification:.2f}"


def _free(life: Life, trim: datetime) -> float | None:
    fullness = life.mean("fullness", trim - timedelta(hours=2), trim)
    one = ost_capacity_bytes(life.scenario.osts)
    return None if fullness is None else (1 - fullness) * one


def _purged(life: Life, trim: datetime, capacity: float) -> float | None:
    before, after = life.at(trim - _MONTH), life.at(trim)
    if before is None or after is None:
        return None
    return (after.purged_bytes - before.purged_bytes) / capacity
