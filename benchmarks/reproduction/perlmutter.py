"""Rows of nine months at NERSC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import fmean, stdev
from typing import Final, Literal

import numpy as np
from benchmarks.reproduction.life import Life, LifeRun, machine_of
from benchmarks.reproduction.statements import SeededRow, seeded_row
from numpy.typing import NDArray

from trimtab.base.event import EventKind
from trimtab.base.schedule import find_zone
from trimtab.base.verdict import HistoryPoint
from trimtab.judge.rolling import rolling
from trimtab.judge.series_frame import frame_of
from trimtab.twin.scenario import Scenario, ost_capacity_bytes
from trimtab.twin.simulation.ost_array import REQUEST_BYTES, request_core_s
from trimtab.twin.simulation.probe_run import JobRun, SurveyRun

Array = NDArray[np.float64]

PRINTED_GOAL: Final = 0.08
PRINTED_WINDOW_S: Final = 48 * 3600.0
"""As the document has them (source S1): data, whatever sites hold themselves to by default."""
BESIDE: Final = timedelta(hours=240)
_RUNS_LEAST: Final = 24
_SLOW: Final = 0.75
_TAIL_BYTES_PER_S: Final = 1e9
_CAUSED_WITHIN: Final = timedelta(hours=48)
_ALMOST_NOTHING: Final = 1e-4
_PB: Final = 1e15
_DAY_S: Final = 86400.0
_OSTS: Final = 274
_FEBRUARY: Final = (2024, 2)
_LONG_TAILS: Final = ((2023, 8), (2023, 9), (2023, 10), (2023, 11))
""""Until Dec 2023 tails approach zero" (source S2)."""
_FULL_DAYS: Final = (date(2024, 1, 29), date(2024, 2, 16), date(2024, 3, 1), date(2024, 3, 5))
"""On which source S1 has a COV over 8 % because of fullness."""
_BY_FULLNESS: Final = "users.fullness, trim.every and users.lifetimes of the scenario"


def perlmutter_run(scenario: Scenario) -> LifeRun:
    """Return its life, with totals at the start of its last month and at its end."""
    return LifeRun("perlmutter", scenario, marks=(_last_month(scenario), scenario.end))


def _last_month(scenario: Scenario) -> datetime:
    """Return the start of the month in which a scenario ends, by the site's calendar."""
    last = (scenario.end - timedelta(days=1)).astimezone(find_zone(scenario.timezone))
    return last.replace(day=1, hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


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
    return values_of(_surveys_of(life, _month(life, last=last)), "write")


def _month(life: Life, *, last: bool) -> tuple[int, int]:
    """Return year and month of the first survey, or of the scenario's last day."""
    zone = find_zone(life.scenario.timezone)
    moment = life.scenario.end - timedelta(days=1)
    if not last:
        moment = min((survey.at for survey in life.surveys), default=moment)
    moment = moment.astimezone(zone)
    return moment.year, moment.month


def _surveys_of(life: Life, month: tuple[int, int]) -> list[SurveyRun]:
    """Return the surveys of a month, by the site's calendar."""
    zone = find_zone(life.scenario.timezone)
    local = [(survey.at.astimezone(zone), survey) for survey in life.surveys]
    return [survey for at, survey in local if (at.year, at.month) == month]


def values_of(surveys: Sequence[SurveyRun], access: Literal["write", "read"]) -> Array | None:
    """Return every OST's figure of surveys, bytes/s; ``None`` without any."""
    rates = [
        survey.write_bytes_per_s if access == "write" else survey.read_bytes_per_s
        for survey in surveys
    ]
    values = np.concatenate(rates) if rates else np.empty(0)
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

    yield seeded_row(
        "22-slow", of(first, _shortfall), _slow_note(first), fitted="allocator_s_per_group"
    )
    yield seeded_row("23-first", of(first, np.mean), fitted=_BY_FULLNESS)
    yield seeded_row(
        "23-last",
        of(last, np.mean),
        "nightly trims",
        fitted="users.daily_writes and purge.target of the scenario, chosen with 43 and 47 in view",
    )
    yield seeded_row("23-ratio", gain(np.mean), rests_on=("23-first", "23-last"))
    yield seeded_row("24-minimum", of(first, np.min), "the fullest OSTs' useless loops")
    yield seeded_row("24-minimum-last", of(last, np.min))
    yield seeded_row("25-median", gain(np.median), fitted=_BY_FULLNESS)
    under = of(last, _under_a_gigabyte)
    before = [share for share in of(first, _under_a_gigabyte) if share is not None]
    note = f"in the first month {fmean(before):.2%} of the figures" if before else ""
    yield seeded_row("25-tail", under, note)
    yield seeded_row("25-months", [_months_near_nothing(life) for life in lives])
    february = [values_of(_surveys_of(life, _FEBRUARY), "write") for life in lives]
    yield seeded_row("25-february", of(february, np.median))
    yield from _reads(lives)
    yield seeded_row(
        "19-cpu",
        [_processor_of_slow(life) for life in lives],
        f"those under {_SLOW:.0%} of the month's 90th percentile against the others; with one "
        "simulated column an OST only",
    )


def _reads(lives: Sequence[Life]) -> Iterator[SeededRow]:
    """Yield what surveys read: the twin's reads are ceilings, less what users read just then."""
    gains: list[float | None] = []
    spreads: list[float | None] = []
    for life in lives:
        first, last = (_surveys_of(life, _month(life, last=end)) for end in (False, True))
        write, read = values_of(first, "write"), values_of(first, "read")
        late = values_of(last, "read")
        gains.append(None if read is None or late is None else float(late.mean() / read.mean()) - 1)
        if write is None or read is None or not read.std():
            spreads.append(None)
        else:
            spreads.append(_cov(write) / _cov(read))
    yield seeded_row("figure-1-read", gains, "reads are ceilings in the twin, and have no history")
    yield seeded_row("22-vary", spreads)


def _cov(values: Array) -> float:
    return float(values.std() / values.mean())


def _months_near_nothing(life: Life) -> float | None:
    """Return in how many of the months to November a survey has an OST near nothing."""
    least = [values_of(_surveys_of(life, month), "write") for month in _LONG_TAILS]
    if any(values is None for values in least):
        return None
    return float(sum(values.min() < _TAIL_BYTES_PER_S for values in least if values is not None))


def _processor_of_slow(life: Life) -> float | None:
    """Return how busy slow OSTs keep their servers under the survey, over what others do.

    A request costs its base and the groups that a search looks at in vain; the rest is idle time.
    """
    surveys = _surveys_of(life, _month(life, last=False))
    values = values_of(surveys, "write")
    walks = life.traced["walks_per_request"].astype(np.float64)
    known = [survey for survey in surveys if survey.at.timestamp() <= life.ends_s[-1]]
    if values is None or not known or walks.shape[1] < known[0].write_bytes_per_s.size:
        return None
    limit = _SLOW * float(np.percentile(values, 90))
    machine = machine_of(life.scenario)
    busy: dict[bool, list[Array]] = {True: [], False: []}
    for survey in known:
        epoch = int(np.searchsorted(life.ends_s, survey.at.timestamp()))
        rates = survey.write_bytes_per_s
        cores = rates / REQUEST_BYTES * request_core_s(walks[epoch, : rates.size] * machine.groups)
        answered = np.isfinite(rates)
        for slow, cores_busy in busy.items():
            cores_busy.append(cores[answered & ((rates < limit) == slow)])
    slow, fast = (np.concatenate(busy[which]) for which in (True, False))
    return float(slow.mean() / fast.mean()) if slow.size and fast.size else None


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
        rests_on=("37-240h-before", "37-240h-after"),
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
    """Return what a run wrote; one that did not finish is a zero, as source S1 counts it."""
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
    yield from _course(lives)


def _course(lives: Sequence[Life]) -> Iterator[SeededRow]:
    """Yield the course of COV and of daily means, and the days that fullness explains."""
    parts: list[float | None] = []
    means: list[float | None] = []
    full: list[float | None] = []
    open_: list[float | None] = []
    for life in lives:
        zone = find_zone(life.scenario.timezone)
        since, until = _quarter(life.scenario)
        if life.until < until or not life.jobs:
            for values in (parts, means, full, open_):
                values.append(None)
            continue
        autumn = datetime(2023, 9, 1, tzinfo=zone)
        over = {at.astimezone(zone).date() for at, cov in covs(life) if cov > PRINTED_GOAL}
        early = sum(autumn.date() <= day < since.astimezone(zone).date() for day in over)
        late = sum(
            since.astimezone(zone).date() <= day < until.astimezone(zone).date() for day in over
        )
        lengths = (since - autumn).days, (until - since).days
        parts.append(late / lengths[1] / (early / lengths[0]) if early else None)
        means.append(_mean([_write(job) for job in life.jobs if since <= job.at < until]))
        full.append(float(sum(day in over for day in _FULL_DAYS)))
        least = [_least_open(life, day) for day in _FULL_DAYS[1:]]
        open_.append(_mean([count for count in least if count is not None]))
    yield seeded_row(
        "figure-5", parts, "from September; a day counts if any of its windows is over"
    )
    yield seeded_row("figure-6", means, "runs that did not finish are zeros")
    yield seeded_row("43-full-days", full, fitted="the scenario's faults")
    yield seeded_row("43-open", open_, fitted="the scenario's bursts, as large as closes most OSTs")


def _least_open(life: Life, day: date) -> float | None:
    """Return the fewest real OSTs that took new files at any hour of a day."""
    zone = find_zone(life.scenario.timezone)
    begin = datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
    rows = (life.ends_s > begin) & (life.ends_s <= begin + _DAY_S)
    if not rows.any():
        return None
    return float((np.nan_to_num(life.traced["open"][rows]) @ life.weight).min())


def horizon_s(life: Life) -> float | None:
    """Return the age of the oldest bytes, whole days since their last use, at the end."""
    whole = float(life.by_day.sum())
    if whole <= 0.0 or not life.scenario.changes or life.until < life.scenario.end:
        return None
    older = np.cumsum(life.by_day[::-1])[::-1]
    return float(np.flatnonzero(older > _ALMOST_NOTHING * whole)[-1] * _DAY_S)


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
    purged = [_purged_a_day(life) for life in lives]
    yield seeded_row("47-purge-rate", purged)


def _purged_a_day(life: Life) -> float | None:
    """Return what was purged on a day of the last month, bytes."""
    if len(life.marks) < 2:
        return None
    first, last = life.marks[0], life.marks[-1]
    return (last.purged_bytes - first.purged_bytes) / (
        (last.at - first.at).total_seconds() / _DAY_S
    )


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
