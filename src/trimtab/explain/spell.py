"""The spell, a trouble in one series, survey or counter, and the looks in which spells are found.

A look covers four weeks of a fixed calendar, with context around::

    ├── eight weeks, and 1,344 runs ──┼─── four weeks ───┼── two weeks ──┤
                                    from_               to              end

Each look reports the spells in its four weeks. Nothing after its end is used, nor the length of the
record, so an incident that ended long ago never changes. The first look at a series starts with the
series and is extended until the next look has enough context.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, TypeVar

import numpy as np
import polars as pl

from trimtab.base.incident import Recurrence, Shape
from trimtab.base.series import ChangeStatus, SeriesJudgement, SeriesKey
from trimtab.base.verdict import Interval
from trimtab.judge.array import medians_of
from trimtab.judge.spread import corrected_autocorrelation, usual_gap_s

VARIES: Final = 0.5
"""Squared coefficient of variation over hours and days of the rate at which runs are low or lost:
they meet users' jobs, and busy hours have more of those. A simulated site with log-normal user
traffic in working hours has 0.3."""
EVERY: Final = timedelta(days=28)
"""Whole weeks, so that every look has each weekday equally often; counted from 1970."""
BEFORE: Final = timedelta(days=56)
RUNS_BEFORE: Final = 1344
"""Context before a look, whichever is longer: the same for hourly runs, nearly four years for daily
ones."""
AFTER: Final = timedelta(days=14)
"""Context after a look."""
_RUNS_LEAST: Final = 24
"""Fewest runs in the first look at a series."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_WEEK: Final = 7 * 86400.0
_LEVEL_RUNS: Final = 15
"""Fewest runs in a level if runs are a day or more apart."""
_LEVEL_SURE: Final = 48
"""Runs that show how far a level scatters: to within a tenth or so."""
_SCALE_LEAST: Final = 0.005
"""Half a per cent: steadier series would otherwise report every hiccup."""

Judged = Sequence[tuple[SeriesJudgement, pl.DataFrame]]
"""Series with their runs: ``at``, ``value``, ``unfinished``."""


@dataclass(frozen=True, slots=True)
class CalendarLook:
    """Reports ``from_`` (inclusive) to ``to`` (exclusive) and uses nothing after ``end``."""

    from_: datetime
    to: datetime
    end: datetime

    @property
    def earliest(self) -> datetime:
        """Start of the context if runs are hourly."""
        return self.from_ - BEFORE if self.from_ > _EVER else _EVER


@dataclass(frozen=True)
class SeriesPart:
    """The runs of one series used by one look.

    Attributes
    ----------
    frame, times
        ``at``, ``value``, ``unfinished``, and the time of each row; the first one is row ``first``
        of the series.
    within
        Rows of ``frame`` reported by the look.
    levels
        First run of each level after the first, for changes confirmed by the end of the look.
    beside
        Number of series with runs at that time, including this one.
    """

    key: SeriesKey
    look: CalendarLook
    frame: pl.DataFrame
    times: Sequence[datetime]
    first: int
    within: slice
    levels: tuple[datetime, ...]
    beside: int

    @property
    def reported(self) -> Sequence[datetime]:
        """Times of the rows that the look reports."""
        return self.times[self.within]

    @cached_property
    def digest(self) -> str:
        """Digest of all that it holds."""
        content = content_digest(self.frame.select("at", "value", "unfinished"))
        words = self.key, self.look, self.first, self.within, self.levels, self.beside, content
        return hashlib.sha256(repr(words).encode()).hexdigest()

    @cached_property
    def runs(self) -> Residuals:
        """Each run relative to its level."""
        return residuals_of(self.key, self.frame, self.levels)

    def runs_beside(self, bad: Sequence[int]) -> Residuals:
        """Return each run relative to its level, worked out without the rows known to be bad."""
        return residuals_of(self.key, self.frame, self.levels, bad)


class LookedSeries:
    """The series of a site, divided into looks.

    Parameters
    ----------
    now
        Last run of the site.
    """

    def __init__(self, judged: Judged, now: datetime) -> None:
        self._judged = {judgement.key: (judgement, frame) for judgement, frame in judged}
        self.now = now
        self._ends = [(frame["at"][0], frame["at"][-1]) for _, frame in judged]
        self._times: dict[SeriesKey, list[datetime]] = {
            judgement.key: frame["at"].to_list() for judgement, frame in judged
        }
        self._parts: dict[tuple[SeriesKey, CalendarLook], SeriesPart] = {}

    def of(self, key: SeriesKey) -> list[SeriesPart]:
        """Return the looks at one series, earliest first."""
        frame = self._judged[key][1]
        enough = frame["at"][min(_RUNS_LEAST, frame.height) - 1]
        begin = max(frame["at"][0] + BEFORE, enough)
        return [self._part(key, look) for look in _looks(begin, self.now)]

    def together(self) -> list[list[SeriesPart]]:
        """Return all series in each look, earliest first."""
        if not self._ends:
            return []
        begin = min(first for first, _ in self._ends) + BEFORE
        return [[self._part(key, look) for key in self._judged] for look in _looks(begin, self.now)]

    def around(self, key: SeriesKey, from_: datetime, to: datetime) -> SeriesPart:
        """Return a series with the context of a stretch of time."""
        return self._part(key, CalendarLook(from_, to, to + AFTER))

    def _part(self, key: SeriesKey, look: CalendarLook) -> SeriesPart:
        if (key, look) not in self._parts:
            self._parts[key, look] = self._cut(key, look)
        return self._parts[key, look]

    def _cut(self, key: SeriesKey, look: CalendarLook) -> SeriesPart:
        judgement, frame = self._judged[key]
        begin, to, earlier = (row_from(frame, at) for at in (look.from_, look.to, look.earliest))
        first, end = max(0, min(earlier, begin - RUNS_BEFORE)), row_from(frame, look.end, "right")
        known = {
            point.at
            for point in judgement.changes
            if (point.confirmed_at or point.detected_at) <= look.end
        }
        return SeriesPart(
            key=key,
            look=look,
            frame=frame[first:end],
            times=self._times[key][first:end],
            first=first,
            within=slice(begin - first, to - first),
            levels=tuple(level.from_ for level in judgement.regimes[1:] if level.from_ in known),
            beside=max(1, sum(a <= look.end and b >= look.from_ for a, b in self._ends)),
        )


def content_digest(frame: pl.DataFrame) -> str:
    """Return the digest of a frame: names and types of its columns, and their values."""
    written = io.BytesIO()
    frame.rechunk().write_ipc(written)
    return hashlib.sha256(written.getbuffer()).hexdigest()


def row_from(frame: pl.DataFrame, at: datetime, side: Literal["left", "right"] = "left") -> int:
    """Return the first row at a time or later; with ``right`` later only.

    Parameters
    ----------
    frame
        Runs by time.
    """
    return int(np.searchsorted(_times_us(frame), (at - _EPOCH) // _MICROSECOND, side=side))


def rows_between(frame: pl.DataFrame, from_: datetime, to: datetime) -> slice:
    """Return the rows from one time to another, both inclusive."""
    first = row_from(frame, from_)
    return slice(first, max(first, row_from(frame, to, "right")))


def spacing_s(frame: pl.DataFrame) -> float:
    """Return the `usual_gap_s` of runs; of the same times it is worked out once."""
    return _gap_s(np.sort(_times_us(frame)).tobytes())


def _times_us(frame: pl.DataFrame) -> Any:
    """Return the time of each row in microseconds since 1970, without a copy."""
    return frame["at"].to_numpy().astype("datetime64[us]", copy=False).view(np.int64)


@lru_cache(maxsize=64)
def _gap_s(times_us: bytes) -> float:
    return usual_gap_s((np.frombuffer(times_us, dtype=np.int64) / 1e6).tolist())


def shape_of_rate(seen: float) -> float:
    """Return the shape of the negative binomial number of low or lost runs.

    Their rate varies (`VARIES`), and is estimated from only ``seen`` of them.
    """
    return 1.0 / (1.0 / seen + VARIES * (1.0 + 1.0 / seen))


def _looks(begin: datetime, now: datetime) -> list[CalendarLook]:
    """Return the looks of a record whose second look may not begin before ``begin``."""
    edges, at = [_EVER], _EPOCH - ((_EPOCH - begin) // EVERY) * EVERY
    while at <= now:
        edges.append(at)
        at += EVERY
    return [CalendarLook(from_, to, to + AFTER) for from_, to in pairwise([*edges, at])]


@dataclass(frozen=True, slots=True)
class Residuals:
    """Runs as arrays: seconds, log residual from their level, whether they did not finish.

    Attributes
    ----------
    scales
        Robust standard deviation of the residuals of its level: a level that scatters more, beside
        a slow drive, has low runs as it has high ones. Of a short level, no less than the whole.
    phi
        Lag-1 correlation of the residuals.
    levels
        Number of the level to which each run belongs.
    """

    times: Any
    residuals: Any
    unfinished: Any
    scales: Any
    phi: float
    levels: Any


def residuals_of(
    key: SeriesKey, frame: pl.DataFrame, levels: Sequence[datetime], bad: Sequence[int] = ()
) -> Residuals:
    """Return the runs of a series relative to the median of the surrounding runs.

    Parameters
    ----------
    levels
        First runs of its levels after the first: surrounding runs are up to half a week to either
        side within one level.
    """
    times = frame["at"].dt.epoch("us").to_numpy() / 1e6
    values = frame["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    unfinished = frame["unfinished"].fill_null(value=True).to_numpy() | ~(values > 0)
    sign = 1.0 if key.more_is_better else -1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(unfinished, np.nan, sign * np.log(values))
    residuals, numbers = np.full(len(logs), np.nan), np.zeros(len(logs), dtype=int)
    shown = logs.copy()
    shown[list(bad)] = np.nan
    parts = _parts(times, levels)
    for number, part in enumerate(parts):
        residuals[part] = logs[part] - _level(times[part], logs[part], shown[part])
        numbers[part] = number
    whole = _scale(residuals)
    scales = np.full(len(logs), whole)
    for part in parts:
        of_level, runs = _scale(residuals[part]), int(np.isfinite(residuals[part]).sum())
        scales[part] = of_level if runs >= _LEVEL_SURE else max(of_level, whole)
    # Outliers are the target: they must not make the rest look uncorrelated.
    known = (residuals / scales)[np.isfinite(residuals)]
    phi = corrected_autocorrelation(np.clip(known, -3.0, 3.0)[-720:].tolist())
    return Residuals(times, residuals, unfinished, scales, phi, numbers)


def _scale(residuals: Any) -> float:
    known = residuals[np.isfinite(residuals)]
    scale = 1.4826 * float(np.median(np.abs(known))) if len(known) else _SCALE_LEAST
    return max(scale, _SCALE_LEAST)


def _parts(times: Any, levels: Sequence[datetime]) -> list[slice]:
    starts = [at.timestamp() for at in levels]
    cuts = [0, *np.searchsorted(times, starts).tolist(), len(times)]
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def _level(times: Any, logs: Any, shown: Any) -> Any:
    """Return the median of the week around each run, computed at every sixth and carried over.

    If a week has fewer than `_LEVEL_RUNS` runs, use that many runs, computed at each of them. Runs
    that are not ``shown`` count only where no others are.
    """
    apart_s = usual_gap_s(times.tolist())
    sparse = apart_s * _LEVEL_RUNS > _WEEK
    step = 1 if sparse else 6
    half_s = max(_WEEK, apart_s * _LEVEL_RUNS) / 2
    centres = np.arange(0, len(times), step)
    left = np.searchsorted(times, times[centres] - half_s)
    right = np.searchsorted(times, times[centres] + half_s, side="right")
    levels = np.full(len(centres), np.nan)
    for values in (logs, shown):
        is_known = np.isfinite(values)
        before = np.concatenate([[0], np.cumsum(is_known)])
        of_known = medians_of(values[is_known], before[left], before[right])
        levels = np.where(np.isnan(of_known), levels, of_known)
    return np.repeat(levels, step)[: len(times)]


Item = TypeVar("Item")
SURVEYS: Final = "surveys"
"""Part of the name of every spell from surveys of single targets."""


TOGETHER: Final = timedelta(hours=6)
"""Bad runs this close belong to one trouble; twice their distance if runs are sparse."""
SHORT: Final = timedelta(days=2)
"""What is over within this time was a dip (`Shape.DIP`); dips this close may be one trouble."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch in which one thing deviated from its usual state.

    Attributes
    ----------
    name
        Display name: ``ior write_bandwidth``, ``surveys``.
    at, until
        First and last run of its core, where most runs were bad; ``until`` is ``None`` while
        ongoing.
    last
        Last bad run or look so far, also while ongoing.
    depth
        Deviation in its own standard deviations: the deepest leads.
    what
        Description without times: "17 % lower".
    is_level
        Confirmed level change: its incident lasts as long as it does.
    is_broken
        Runs that failed or did not start: nothing was measured.
    moved
        Names of the series that show it, if several together do.
    onset
        The interval within which it began; ``None``: at ``at``, as far as known.
    margin
        First and last run of everything that belongs to it; ``None``: those of ``at`` and ``last``.
    """

    shape: Shape
    key: SeriesKey | None
    name: str
    at: datetime
    until: datetime | None
    last: datetime
    detected_at: datetime
    certainty: ChangeStatus
    depth: float
    what: str
    effect: float | None = None
    effect_interval: Interval | None = None
    runs: int = 0
    unfinished: int = 0
    targets: tuple[str, ...] = ()
    is_level: bool = False
    is_broken: bool = False
    moved: tuple[str, ...] = ()
    recurs: Recurrence | None = None
    onset: tuple[datetime, datetime] | None = None
    margin: tuple[datetime, datetime] | None = None

    def is_same(self, other: Spell) -> bool:
        """Return whether two spells of a kind overlap in time and, if recurring, in hours."""
        if self.name != other.name or self.at > other.last or other.at > self.last:
            return False
        if self.recurs is None or other.recurs is None:
            return self.recurs is other.recurs
        return self.recurs.meets(other.recurs)

    @property
    def extent(self) -> tuple[datetime, datetime]:
        """First and last run of everything that belongs to it."""
        return self.margin or (self.at, self.last)

    @property
    def began(self) -> tuple[datetime, datetime]:
        """The interval within which it began."""
        return self.onset or (self.at, self.at)

    @property
    def is_lost(self) -> bool:
        """Whether it consists only of short stretches of runs without a figure."""
        lost = self.is_broken or (self.key is not None and 0 < self.unfinished == self.runs)
        return lost and self.shape is Shape.DIP


def id_of(*words: str) -> str:
    """Return a stable identifier of what these words name: twelve hexadecimal digits."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def name_of(key: SeriesKey) -> str:
    """Return the display name of a series."""
    target = "" if key.target is None else f" of {key.target}"
    apart = f" ({key.apart})" if key.apart else ""
    return f"{key.probe} {key.metric}{target}{apart}"


def percent_off(effect: float, *, more_is_better: bool) -> str:
    """Return an effect as text.

    Examples
    --------
    >>> percent_off(0.83, more_is_better=True)
    '17 % lower'
    >>> percent_off(1.2, more_is_better=False)
    '20 % longer'
    """
    change = abs(effect - 1) * 100
    lower = "lower" if more_is_better else "shorter"
    higher = "higher" if more_is_better else "longer"
    return f"{change:.0f} % {lower if effect < 1 else higher}"


def apart(times: Sequence[datetime]) -> timedelta:
    """Return the largest distance between bad runs of a series that belong to one trouble.

    Examples
    --------
    >>> apart([datetime(2026, 3, day) for day in (2, 3, 4)]).days
    2
    """
    return max(TOGETHER, timedelta(seconds=2 * usual_gap_s([at.timestamp() for at in times])))


def carried(looks: Iterable[tuple[CalendarLook, Iterable[Spell]]]) -> list[Spell]:
    """Join the spells of successive looks: one reported by several looks is one spell.

    A look reports each spell that overlaps its four weeks. The begin is that of the first look
    that reported it, so it does not move as the spell continues.
    """
    spells: list[Spell] = []
    for look, seen in looks:
        # Only a spell in the last look can still be ongoing.
        spells = [
            spell if spell.until is not None else replace(spell, until=spell.last)
            for spell in spells
        ]
        for spell in seen:
            if spell.at >= look.to or spell.last < look.from_:
                continue
            before = next((place for place, each in enumerate(spells) if each.is_same(spell)), None)
            if before is None:
                spells.append(spell)
            elif spell.last > spells[before].last or spell.until is None:
                first = spells[before]
                spells[before] = replace(spell, at=first.at, detected_at=first.detected_at)
    return spells


def grouped(
    items: Iterable[Item], at: Callable[[Item], datetime], longest: timedelta
) -> list[list[Item]]:
    """Split time-ordered items into groups; a longer gap begins a new one.

    Examples
    --------
    >>> hours = [datetime(2026, 3, 2, hour) for hour in (0, 1, 9, 10)]
    >>> [len(group) for group in grouped(hours, lambda at: at, timedelta(hours=6))]
    [2, 2]
    """
    groups: list[list[Item]] = []
    for item in items:
        if groups and at(item) - at(groups[-1][-1]) <= longest:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def core_of(low: Any) -> tuple[int, int]:
    """Return the stretch with the most low entries, each other one subtracting one.

    Of equal ones the longest.

    Parameters
    ----------
    low
        Booleans in order of time, shape (n,).

    Returns
    -------
    tuple[int, int]
        Its first entry, and the one after its last.

    Examples
    --------
    >>> core_of([True, False, False, True, True, False, True])
    (3, 7)
    """
    total = np.concatenate([[0], np.cumsum(np.where(low, 1, -1))])
    least = np.minimum.accumulate(total)
    ends = np.flatnonzero(total - least == (total - least).max()).tolist()
    begins = [int(np.flatnonzero(total[: end + 1] == least[end])[0]) for end in ends]
    return max(zip(begins, ends, strict=True), key=lambda ends: ends[1] - ends[0])


def core_with_most(low: Any) -> tuple[int, int]:
    """Return the `core_of` low runs if it has more than half of them, else all from first to last.

    A few low runs by chance, hours before a trouble or after it, are not part of it; runs that are
    low now and then are one trouble from the first to the last.

    Examples
    --------
    >>> core_with_most([True, False, False, True, True, True])
    (3, 6)
    >>> core_with_most([True, False, False, True, False, False, True])
    (0, 7)
    """
    low = np.asarray(low)
    begin, end = core_of(low)
    if 2 * low[begin:end].sum() > low.sum():
        return begin, end
    places = np.flatnonzero(low)
    return int(places[0]), int(places[-1]) + 1
