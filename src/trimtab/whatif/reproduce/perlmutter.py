"""Rows of nine months at NERSC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.config.schedule import find_zone
from trimtab.judge.frame import frame_of
from trimtab.judge.rolling import rolling
from trimtab.model.check import HistoryPoint
from trimtab.model.event import EventKind
from trimtab.twin.scenario.geometry import ost_capacity_bytes
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.probes import JobRun
from trimtab.validation.statements import SeededRow, seeded_row
from trimtab.whatif.reproduce.life import Life

Array = NDArray[np.float64]

PRINTED_GOAL: Final = 0.08
PRINTED_WINDOW_S: Final = 48 * 3600.0
"""As the document has them (source 000): data, whatever sites hold themselves to by default."""
BESIDE: Final = timedelta(hours=240)
_RUNS_LEAST: Final = 24
_SLOW: Final = 0.75
_TAIL_BYTES_PER_S: Final = 1e9
_CAUSED_WITHIN: Final = timedelta(hours=48)
_ALMOST_NOTHING: Final = 1e-4
_PB: Final = 1e15
_OSTS: Final = 274
_BY_FULLNESS: Final = "users.fullness, trim.every and users.lifetimes of the scenario"


def rows(lives: Sequence[Life]) -> Iterator[SeededRow]:
    """Yield every row that the nine months answer, from one life a seed."""
    yield from _surveys(lives)
    yield from _jobs(lives)
    yield from _days(lives)
    yield from _space(lives)


def month_of(life: Life, *, last: bool) -> Array | None:
    """Return every OST's survey writes, bytes/s, of the first or last whole month of surveys.

    "The month our efforts began" against that in which they ended: by the calendar, and the first
    from the first survey on. ``None`` where the life did not reach its scenario's last month.
    """
    zone = find_zone(life.scenario.timezone)
    months = {
        (survey.at.astimezone(zone).year, survey.at.astimezone(zone).month)
        for survey in life.surveys
    }
    if not months:
        return None
    if last:
        moment = life.scenario.end.astimezone(zone) - timedelta(days=1)
        month = (moment.year, moment.month)
    else:
        month = min(months)
    surveys = [
        survey.write_bytes_per_s
        for survey in life.surveys
        if (survey.at.astimezone(zone).year, survey.at.astimezone(zone).month) == month
    ]
    values = np.concatenate(surveys) if surveys else np.empty(0)
    values = values[np.isfinite(values)]
    return values if values.size else None


def _surveys(lives: Sequence[Life]) -> Iterator[SeededRow]:
    first = [month_of(life, last=False) for life in lives]
    last = [month_of(life, last=True) for life in lives]
    both = list(zip(first, last, strict=True))

    def of(
        months: Sequence[Array | None], statistic: Callable[[Array], float]
    ) -> list[float | None]:
        return [None if month is None else float(statistic(month)) for month in months]

    def gain(statistic: Callable[[Array], float]) -> list[float | None]:
        return [
            None if early is None or late is None else float(statistic(late) / statistic(early)) - 1
            for early, late in both
        ]

    yield seeded_row("22-slow", of(first, _shortfall), _slow_note(first))
    yield seeded_row("23-first", of(first, np.mean), fitted=_BY_FULLNESS)
    yield seeded_row(
        "23-last",
        of(last, np.mean),
        "nightly trims",
        fitted="users.daily_writes and purge.target of the scenario, chosen with 43 and 47 in view",
    )
    yield seeded_row("23-ratio", gain(np.mean), fitted=_BY_FULLNESS)
    yield seeded_row("24-minimum", of(first, np.min), "the fullest OSTs' useless loops")
    yield seeded_row("24-minimum-last", of(last, np.min))
    yield seeded_row("25-median", gain(np.median), fitted=_BY_FULLNESS)
    under = of(last, _under_a_gigabyte)
    before = [share for share in of(first, _under_a_gigabyte) if share is not None]
    note = f"in the first month {fmean(before):.2%} of the figures" if before else ""
    yield seeded_row("25-tail", under, note)


def _under_a_gigabyte(values: Array) -> float:
    return float((values < _TAIL_BYTES_PER_S).mean())


def _shortfall(values: Array) -> float:
    """Return how far slow OSTs are under the 90th percentile, on the mean; 0 where none is."""
    expected = np.percentile(values, 90)
    slow = values[values < _SLOW * expected]
    return float(1 - slow.mean() / expected) if slow.size else 0.0


def _slow_note(months: Sequence[Array | None]) -> str:
    shares = [
        float((month < _SLOW * np.percentile(month, 90)).mean())
        for month in months
        if month is not None
    ]
    if not shares:
        return ""
    return (
        f"mean of those under {_SLOW:.0%} of the first month's 90th percentile, which are "
        f"{fmean(shares):.0%} of its figures"
    )


def _jobs(lives: Sequence[Life]) -> Iterator[SeededRow]:
    whole = [float(len(life.jobs)) if life.until >= life.scenario.end else None for life in lives]
    yield seeded_row("33-runs", whole, "to the end of March; the probe's first day is assumed")
    rates = {
        key: [beside(life, key) for life in lives]
        for key in ("clients.saferet", "clients.checksums")
    }
    saferet, checksums = rates["clients.saferet"], rates["clients.checksums"]
    yield seeded_row("36-240h", [_change(*pair) for pair in saferet], fitted="saferet_cost")
    yield seeded_row(
        "37-240h-before", [_mean(checksum[0]) for checksum in checksums], fitted="node_bytes_per_s"
    )
    yield seeded_row(
        "37-240h-after",
        [_mean(checksum[1]) for checksum in checksums],
        fitted="checksum_core_s_per_byte",
    )
    yield seeded_row(
        "37-240h-ratio",
        [_change(*checksum) for checksum in checksums],
        fitted="checksum_core_s_per_byte",
    )
    yield seeded_row(
        "37-spread-before",
        [_spread(checksum[0]) for checksum in checksums],
        fitted="run_spread",
    )
    yield seeded_row("37-spread-after", [_spread(checksum[1]) for checksum in checksums])


def beside(life: Life, key: str) -> tuple[list[float], list[float]]:
    """Return the writes of runs in the 240 h before the change that sets a key, and after it."""
    at = next((change.at for change in life.scenario.changes if key in change.set), None)
    if at is None or at + BESIDE > life.until:
        return [], []
    return (
        [_write(job) for job in life.jobs if at - BESIDE <= job.at < at],
        [_write(job) for job in life.jobs if at < job.at <= at + BESIDE],
    )


def _write(job: JobRun) -> float:
    """Return what a run wrote; one that did not finish is a zero, as source 000 counts it."""
    return job.write_bytes_per_s or 0.0


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _change(before: Sequence[float], after: Sequence[float]) -> float | None:
    return fmean(after) / fmean(before) - 1 if before and after else None


def covs(life: Life) -> list[tuple[datetime, float]]:
    """Return the COV over the 48 h up to each hourly run; runs that did not finish are zeros."""
    points = [
        HistoryPoint(job.at, "write_bandwidth", _write(job), job.status != "ok", str(number))
        for number, job in enumerate(life.jobs)
        if job.status != "not_started"
    ]
    if not points:
        return []
    windows = rolling(frame_of(points), goal=PRINTED_GOAL, window_s=PRINTED_WINDOW_S)
    return [
        (window.at, window.cov)
        for window in windows
        if window.cov is not None and window.n >= _RUNS_LEAST
    ]


def days_over(life: Life, since: datetime, until: datetime) -> list[date]:
    """Return the days on which the COV rose over the goal, by the site's calendar."""
    zone = find_zone(life.scenario.timezone)
    days, over = [], False
    for at, cov in covs(life):
        was, over = over, cov > PRINTED_GOAL
        if over and not was and since <= at < until:
            days.append(at.astimezone(zone).date())
    return sorted(set(days))


def causes(life: Life) -> list[datetime]:
    """Return when something that explains a COV began: faults, and OSTs that were closed."""
    closed = [event.at for event in life.events if event.kind is EventKind.TARGET_CLOSED]
    return sorted([*(fault.at for fault in life.scenario.faults), *closed])


def _quarter(scenario: Scenario) -> tuple[datetime, datetime]:
    zone = find_zone(scenario.timezone)
    start = datetime(2024, 1, 1, tzinfo=zone), datetime(2024, 4, 1, tzinfo=zone)
    return start[0].astimezone(UTC), start[1].astimezone(UTC)


def _days(lives: Sequence[Life]) -> Iterator[SeededRow]:
    counts: list[float | None] = []
    unexplained: list[float | None] = []
    for life in lives:
        since, until = _quarter(life.scenario)
        if life.until < until:
            counts.append(None)
            unexplained.append(None)
            continue
        zone = find_zone(life.scenario.timezone)
        days = days_over(life, since, until)
        known = causes(life)
        noon = [datetime(d.year, d.month, d.day, 12, tzinfo=zone) for d in days]
        without = [
            at for at in noon if not any(abs(at - event) <= _CAUSED_WITHIN for event in known)
        ]
        counts.append(float(len(days)))
        unexplained.append(float(len(without)))
    yield seeded_row(
        "43-days",
        counts,
        "days on which the COV of 48 h rose over 8 %; causes of six of them are scripted",
        fitted="the scenario's faults",
    )
    yield seeded_row(
        "44-unexplained", unexplained, "neither a scripted fault nor a closed OST within 48 h"
    )


def horizon_s(life: Life) -> float | None:
    """Return the age of the oldest bytes, whole days since their last use, at the end."""
    whole = float(life.by_day.sum())
    if whole <= 0.0 or not life.scenario.changes or life.until < life.scenario.end:
        return None
    older = np.cumsum(life.by_day[::-1])[::-1]
    return float(np.flatnonzero(older > _ALMOST_NOTHING * whole)[-1] * 86400.0)


def _space(lives: Sequence[Life]) -> Iterator[SeededRow]:
    first = lives[0].scenario
    ost_bytes = first.osts.capacity_bytes or math.nan
    yield seeded_row(
        "41-capacity", [first.osts.count * ost_bytes], "274 x 133 TB; in PiB it is 32.4"
    )
    more = next((c.set["osts.count"] for c in first.changes if "osts.count" in c.set), None)
    count = more if isinstance(more, int) else None
    capacity_bytes = None if count is None else count * ost_bytes
    yield seeded_row("41-expanded", [capacity_bytes], "298 x 133 TB; in PiB it is 35.2")
    yield seeded_row(
        "47-horizon",
        [horizon_s(life) for life in lives],
        "age of the oldest bytes that the purge left at the end",
        fitted="users.lifetimes and purge.target of the scenario",
    )
    yield seeded_row("50-trim-cost", [])


def days_row(scenario: Scenario) -> SeededRow:
    """Return how long five full writes of all OSTs take.

    Parameters
    ----------
    scenario
        Perlmutter's, or a part of it.
    """
    whole = scenario.osts.count * ost_capacity_bytes(scenario.osts)
    days = [5 * whole / (part * _PB * scenario.osts.count / _OSTS) for part in (2.9, 2.55, 2.2)]
    return seeded_row(
        "42-days", [days[1]], f"{days[0]:.0f} to {days[2]:.0f} at 2.9 to 2.2 PB a day"
    )
