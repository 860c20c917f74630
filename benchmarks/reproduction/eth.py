"""Rows of ETH's scratch: brought down by its allocator, a quarter of its writes, and a trim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Final

from benchmarks.reproduction.life import Life, LifeRun
from benchmarks.reproduction.statements import SeededRow, seeded_row

from trimtab.twin.scenario import Scenario, ost_capacity_bytes

WRITE_BYTES_PER_S: Final = 36e9
READ_BYTES_PER_S: Final = 45e9
"""The benchmark "on perfect conditions" (source S4)."""
_MONTH: Final = timedelta(days=30)
_AFTER_FIX: Final = timedelta(days=14)
"""Of runs after the threshold was raised: what was measured soon after it, before OSTs emptied."""
_HALF_YEAR: Final = timedelta(days=183)


def eth_run(scenario: Scenario) -> LifeRun:
    """Return its life, with totals before the first trim and after half a year."""
    trim = first_trim(scenario)
    half_year = scenario.start + _HALF_YEAR
    return LifeRun("eth", scenario, marks=tuple(sorted({trim - _MONTH, trim, half_year})))


def first_trim(scenario: Scenario) -> datetime:
    """Return when the scenario begins to trim; its end if it never does."""
    times = (change.at for change in scenario.changes if "trim.every" in change.set)
    return next(times, scenario.end)


def fixed_at(scenario: Scenario) -> datetime:
    """Return when the scenario raises the allocator's threshold; its end if it never does."""
    times = (change.at for change in scenario.changes if "allocator.c3" in change.set)
    return next(times, scenario.end)


def mean_job(life: Life, access: str, since: datetime, until: datetime) -> float | None:
    """Return the mean rate of IOR runs that finished in a stretch, bytes/s."""
    rates = [
        job.write_bytes_per_s if access == "write" else job.read_bytes_per_s
        for job in life.jobs
        if since <= job.at < until
    ]
    known = [rate for rate in rates if rate is not None]
    return fmean(known) if known else None


def _over(value: float | None, reference: float) -> float | None:
    return None if value is None else value / reference


def rows(lives: Sequence[Life]) -> Iterator[SeededRow]:
    """Yield every row of ETH's, from one life a seed."""
    scenario = lives[0].scenario
    trim, fixed = first_trim(scenario), fixed_at(scenario)
    half_year = scenario.start + _HALF_YEAR
    capacity = scenario.osts.count * ost_capacity_bytes(scenario.osts)
    used = [life.at(half_year) for life in lives]
    yield seeded_row(
        "8-wear",
        [None if totals is None else totals.percentage_used for totals in used],
        "drives rated for one drive write a day over five years, assumed as their model",
    )
    loops = [life.mean("useless_per_request", fixed - timedelta(days=1), fixed) for life in lives]
    yield seeded_row(
        "20-down", loops, _last_day(lives[0], fixed), fitted="users.fullness of the scenario"
    )
    soon = min(fixed + _AFTER_FIX, trim)
    later = mean_job(lives[0], "write", soon, trim)
    yield seeded_row(
        "27-slow",
        [_over(mean_job(life, "write", fixed, soon), WRITE_BYTES_PER_S) for life in lives],
        _soon_after(lives[0], fixed, soon)
        + ("" if later is None else f"; {later / WRITE_BYTES_PER_S:.2f} from then to the trim"),
    )
    yield seeded_row(
        "27-read",
        [_over(mean_job(life, "read", fixed, soon), READ_BYTES_PER_S) for life in lives],
        "nothing slows reads in the model but servers and network",
    )
    end = datetime.max.replace(tzinfo=UTC)
    yield seeded_row(
        "27-trimmed",
        [_over(mean_job(life, "write", trim + timedelta(days=2), end), WRITE_BYTES_PER_S)
         for life in lives],
    )  # fmt: skip
    yield seeded_row(
        "28-trimmed",
        [_free(life, trim) for life in lives],
        "29.9 TiB of 30; what fstrim prints is all free space: that of one OST just before",
        fitted="users.fullness and users.daily_writes of the scenario",
    )
    yield seeded_row(
        "49-purged",
        [_purged(life, trim, capacity) for life in lives],
        "printed as 66 %: 161 TB are 61 % of 240 TiB",
        fitted="users.daily_writes and users.lifetimes of the scenario",
    )


def _soon_after(life: Life, since: datetime, until: datetime) -> str:
    amplification = life.mean("amplification", since, until)
    fullness = life.mean("fullness", since, until)
    if amplification is None or fullness is None:
        return ""
    return (
        f"first {(until - since).days} days, {fullness:.0%} full, "
        f"write amplification {amplification:.2f}"
    )


def _last_day(life: Life, fixed: datetime) -> str:
    day = timedelta(days=1)
    fullness = life.mean("fullness", fixed - day, fixed)
    write = mean_job(life, "write", fixed - day, fixed + timedelta(hours=1))
    if fullness is None or write is None:
        return ""
    return f"last day before the threshold, {fullness:.0%} full; IOR {write / 1e9:.0f} GB/s"


def _free(life: Life, trim: datetime) -> float | None:
    fullness = life.mean("fullness", trim - timedelta(hours=2), trim)
    ost_bytes = ost_capacity_bytes(life.scenario.osts)
    return None if fullness is None else (1 - fullness) * ost_bytes


def _purged(life: Life, trim: datetime, capacity: float) -> float | None:
    before, after = life.at(trim - _MONTH), life.at(trim)
    if before is None or after is None:
        return None
    return (after.purged_bytes - before.purged_bytes) / capacity
