"""Hours in which a series is low again and again, or in which most probes were slow together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.base.incident import Recurrence, Shape
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.explain.spell import (
    Residuals,
    SeriesPart,
    Spell,
    apart,
    carried,
    core_of,
    grouped,
    name_of,
    percent_off,
)
from trimtab.judge.array import medians, scatter
from trimtab.judge.quantile import binomials_above
from trimtab.judge.spread import usual_gap_s

RECURRING_LOST: Final = 0.15
"""Smallest median loss of a recurring pattern: normal load of working hours costs less."""
_HOUR_LOST: Final = 0.1
"""Loss from which an hour or a day is part of such a stretch."""
SIGMAS: Final = 6.0
"""Standard errors by which the median of the occurrences is low. Noise of every tested kind gave
none in 40 years of hourly series (tests/explain/incidents/test_periodic.py)."""
_LOW_SHARE: Final = 0.8
"""Share of the occurrences that lost at least half of it."""
_DAYS: Final = (28, 12)
_DAYS_LEAST: Final = 10
_WEEKS: Final = 8
_WEEKS_LEAST: Final = 5
"""Days, and weeks, examined together; and the fewest of them."""
_HOURS_MOST: Final = 10
"""If the low part is longer than this, the rest is high instead."""
_EVERY_DAY: Final = 6
"""Number of weekdays from which a pattern is daily."""
_HOURLY_S: Final = 1.5 * 3600.0
_FEW_A_DAY_S: Final = 8.5 * 3600.0
"""Largest distance of runs, three a day, that resolves hours of the day."""
_DAY_LEAST: Final = 3
"""Fewest runs of a day for its usual level: the median of fewer is among the low ones."""
_WEEK: Final = frozenset(range(7))
_NOTHING: Final = -1.0
"""Residual of an unfinished run."""


@dataclass(frozen=True, slots=True)
class _HourTable:
    """Residuals by local day and hour, or by day alone with one column.

    Attributes
    ----------
    values
        Shape (days, 24 or 1), NaN where there is no run.
    days
        Day of each row since 1970.
    """

    values: Any
    days: Any

    @property
    def weekdays(self) -> Any:
        """Weekday of each row; Monday is 0."""
        return (self.days + 3) % 7

    def about(self, weekdays: frozenset[int]) -> Any:
        """Return the residuals relative to the reference of patterns on these weekdays.

        Daily patterns: the median of the day. Others: the median of all days, column by column.
        """
        if len(weekdays) < len(_WEEK):
            return self.values - medians(self.values, axis=0)
        enough = np.isfinite(self.values).sum(axis=1) >= _DAY_LEAST
        middles = np.where(enough, medians(self.values, axis=1), np.nan)
        return self.values - middles[:, None]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Low weekdays and columns, and by how much, as a logarithm."""

    weekdays: frozenset[int]
    columns: tuple[int, ...]
    loss: float


def periodic(parts: Sequence[SeriesPart], frame: pl.DataFrame, timezone: str) -> list[Spell]:
    """Return the stretches of a series that were low at recurring hours or weekdays.

    By hour: each hour relative to the median of its day. By weekday: each weekday relative to the
    other days of the same weeks. Candidates that are low at the median are then tested as one
    stretch: their loss against its own scatter, occurrence by occurrence.

    Parameters
    ----------
    frame
        The whole series: ``at``, ``value``, ``unfinished``.
    timezone
        IANA name of the site's zone: hours and weekdays are local.
    """
    spells = carried((part.look, _recurring_in_one_look(part, timezone)) for part in parts)
    return [_counted(spell, frame) for spell in spells]


def _recurring_in_one_look(part: SeriesPart, timezone: str) -> list[Spell]:
    if part.frame.height < _WEEKS_LEAST * 7:
        return []
    apart_s = usual_gap_s(part.runs.times.tolist())
    hours = _table(part, timezone) if apart_s <= _FEW_A_DAY_S else None
    days = hours if hours and apart_s <= _HOURLY_S else _table(part, timezone, columns=1)
    patterns = [(days, pattern) for pattern in _by_weekday(days)]
    if hours:
        patterns = [(hours, pattern) for pattern in _by_hour(hours)] + patterns
    spells: list[Spell] = []
    for table, pattern in patterns:
        spell = _recurring_spell(part, table, pattern, timezone)
        if spell is not None and not any(spell.is_same(other) for other in spells):
            spells.append(spell)
    return spells


def _counted(spell: Spell, frame: pl.DataFrame) -> Spell:
    """Return a spell with the runs of its whole length."""
    assert spell.recurs is not None
    within = _recurring(frame, spell.recurs).filter(pl.col("at").is_between(spell.at, spell.last))
    return replace(spell, runs=within.height, unfinished=int(within["unfinished"].sum()))


def _recurring(frame: pl.DataFrame, recurs: Recurrence) -> pl.DataFrame:
    """Return the runs at recurring hours and weekdays."""
    local = pl.col("at").dt.convert_time_zone(recurs.timezone)
    return frame.filter(
        local.dt.hour().is_in(list(recurs.hours))
        & (local.dt.weekday() - 1).is_in(list(recurs.weekdays))
    )


def _table(part: SeriesPart, timezone: str, *, columns: int = 24) -> _HourTable:
    runs = part.runs
    values = np.where(runs.unfinished, _NOTHING, runs.residuals)
    local = part.frame["at"].dt.convert_time_zone(timezone)
    day = local.dt.date().to_physical().to_numpy().astype(np.int64)
    column = local.dt.hour().to_numpy().astype(np.int64) * columns // 24
    place = day - day[0]
    shape = (int(place[-1]) + 1, columns)
    total, count = np.zeros(shape), np.zeros(shape)
    known = np.isfinite(values)
    np.add.at(total, (place[known], column[known]), values[known])
    np.add.at(count, (place[known], column[known]), 1.0)
    with np.errstate(invalid="ignore"):
        return _HourTable(np.where(count > 0, total / count, np.nan), np.arange(shape[0]) + day[0])


def _by_hour(table: _HourTable) -> Iterator[_Pattern]:
    """Yield what is low at the same hours every day; hours without runs do not split a stretch."""
    about = table.about(_WEEK)
    for window in (window for days in _DAYS for window in _windows(len(about), days, days // 4)):
        rows = about[window]
        seen = np.flatnonzero(np.isfinite(rows).any(axis=0))
        profile = medians(rows[:, seen], axis=0)
        for places in _stretches(profile <= math.log(1 - _HOUR_LOST), circular=True):
            columns = tuple(seen[list(places)].tolist())
            losses = _hour_means(rows, columns)
            losses = losses[np.isfinite(losses)]
            if 24 * len(columns) > _HOURS_MOST * len(seen) or len(losses) < _DAYS_LEAST:
                continue
            loss, spread = float(np.median(losses)), scatter(losses)
            if _is_sure(losses, loss, spread):
                yield _Pattern(_WEEK, columns, loss)


def _by_weekday(table: _HourTable) -> Iterator[_Pattern]:
    """Yield what is low on the same weekdays: all day, or at certain hours."""
    for window in _windows(len(table.values), _WEEKS * 7, 14):
        rows, weekdays = table.values[window], table.weekdays[window]
        usual = medians(rows, axis=0)
        of_day: dict[int, _Pattern] = {}
        for weekday in range(7):
            mine, others = rows[weekdays == weekday] - usual, rows[weekdays != weekday] - usual
            if len(mine) < _WEEKS_LEAST:
                continue
            low = medians(mine, axis=0) <= math.log(1 - _HOUR_LOST)
            for columns in _stretches(low, circular=False):
                losses, rest = _hour_means(mine, columns), _hour_means(others, columns)
                losses, rest = losses[np.isfinite(losses)], rest[np.isfinite(rest)]
                if len(losses) < _WEEKS_LEAST or len(rest) < _DAYS_LEAST:
                    continue
                loss, spread = float(np.median(losses)), scatter(rest)
                if _is_sure(losses, loss, spread) and (losses <= -spread).all():
                    best = of_day.get(weekday)
                    if best is None or len(columns) > len(best.columns):
                        of_day[weekday] = _Pattern(frozenset({weekday}), columns, loss)
        if len(of_day) < _EVERY_DAY:
            yield from _joined(list(of_day.values()))


def _joined(patterns: Sequence[_Pattern]) -> Iterator[_Pattern]:
    """Merge weekdays with about the same hours into one pattern."""
    left = list(patterns)
    while left:
        first = left[0]
        alike = [
            other
            for other in left
            if 2 * len({*first.columns} & {*other.columns})
            >= max(len(first.columns), len(other.columns))
        ]
        left = [other for other in left if other not in alike]
        widest = max(alike, key=lambda other: len(other.columns))
        weekdays = frozenset().union(*(other.weekdays for other in alike))
        yield _Pattern(weekdays, widest.columns, min(other.loss for other in alike))


def _is_sure(losses: Any, loss: float, spread: float) -> bool:
    error = 1.25 * max(spread, 0.01) / math.sqrt(len(losses))
    often = float(np.mean(losses <= loss / 2)) >= _LOW_SHARE
    return often and loss <= math.log(1 - RECURRING_LOST) and loss <= -SIGMAS * error


def _windows(days: int, length: int, every: int) -> Iterator[slice]:
    """Yield stretches of days, the last one first: it contains what is ongoing."""
    end = days
    while True:
        yield slice(max(0, end - length), end)
        end -= every
        if end < length:
            return


def _stretches(low: Any, *, circular: bool) -> list[tuple[int, ...]]:
    """Return runs of consecutive low columns; a stretch may continue past midnight."""
    stretches: list[list[int]] = []
    for column in np.flatnonzero(low).tolist():
        if stretches and stretches[-1][-1] == column - 1:
            stretches[-1].append(column)
        else:
            stretches.append([column])
    over_midnight = (
        len(stretches) > 1 and stretches[0][0] == 0 and stretches[-1][-1] == len(low) - 1
    )
    if circular and over_midnight:
        stretches = [[*stretches[-1], *stretches[0]], *stretches[1:-1]]
    return [tuple(stretch) for stretch in stretches]


def _hour_means(rows: Any, columns: Sequence[int]) -> Any:
    part = rows[:, list(columns)]
    known = np.isfinite(part).any(axis=1)
    means = np.full(len(rows), np.nan)
    if known.any():
        means[known] = np.nanmean(part[known], axis=1)
    return means


def _recurring_spell(
    part: SeriesPart, table: _HourTable, pattern: _Pattern, timezone: str
) -> Spell | None:
    """Return the days of a look in which a pattern held, as a spell."""
    every = pattern.weekdays == _WEEK
    means = _hour_means(table.about(pattern.weekdays), pattern.columns)
    rows = np.flatnonzero(np.isin(table.weekdays, list(pattern.weekdays)) & np.isfinite(means))
    low = means[rows] <= pattern.loss / 2
    begin, end = core_of(low)
    if end - begin < (_DAYS_LEAST if every else _WEEKS_LEAST):
        return None
    first, last = int(table.days[rows[begin]]), int(table.days[rows[end - 1]])
    goes_on = end == len(rows)
    hours = pattern.columns if table.values.shape[1] > 1 else tuple(range(24))
    recurs = Recurrence(tuple(sorted(pattern.weekdays)), hours[0], (hours[-1] + 1) % 24, timezone)
    days = pl.col("at").dt.convert_time_zone(timezone).dt.date().to_physical()
    within = _recurring(part.frame, recurs).filter(days.is_between(first, last))
    times: list[datetime] = within["at"].to_list()
    if not times:
        return None
    more = part.key.more_is_better
    loss = float(np.median(means[rows[begin:end]][low[begin:end]]))
    effect = math.exp(loss if more else -loss)
    return Spell(
        shape=Shape.PERIODIC,
        key=part.key,
        name=name_of(part.key),
        at=times[0],
        until=None if goes_on else times[-1],
        last=times[-1],
        detected_at=min(times[-1], times[0] + timedelta(days=_DAYS_LEAST if every else 28)),
        certainty=ChangeStatus.CONFIRMED,
        depth=-loss / 0.01,
        what=f"{percent_off(effect, more_is_better=more)} {recurs}",
        effect=effect,
        recurs=recurs,
    )


VOICES: Final = 3
"""Fewest low voices in a round, and they must be more than half of those that ran."""
SHARES: Final = (0.1, 0.05, 0.02, 0.01)
"""A voice is low in a round if at most this share of its rounds are as low."""
A_MONTH: Final = 0.05
"""Chance rate per 30 days at which one share and one group of independent voices are low."""
POOLED_LOST: Final = 0.15
"""Smallest median loss of the low voices: that of all targets alike (`slow_surveys`)."""
TOGETHER: Final = 6.0
"""Robust standard deviations of the rounds' medians by which the median of the voices is low.

At 4.5, shared noise with tails as heavy as Student's t with 3 degrees of freedom gives one a month;
at 6, one in three to ten months (tests/explain/incidents/test_pooled.py).
"""
_RUNS_LEAST: Final = 24
"""Fewest runs, and rounds, to know how often one is low."""
_CUT: Final = 8.0
"""Standard deviations at which a run is clipped: an unfinished one weighs as much."""
_HOUR_S: Final = 3600.0
_MONTH_S: Final = 30 * 86400.0
_GROUPS: Final[dict[str, str | None]] = {
    "probes": None,
    "probes that write": "write",
    "probes that read": "read",
}


@dataclass(frozen=True, slots=True)
class _Series:
    """One series of a probe with its residuals."""

    key: SeriesKey
    runs: Residuals

    @property
    def scaled(self) -> Any:
        """Residuals in standard deviations of the series; an unfinished run is at the bottom."""
        scaled = np.clip(self.runs.residuals / self.runs.scales, -_CUT, _CUT)
        return np.where(self.runs.unfinished, -_CUT, scaled)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The rounds of several voices: one row per round, one column per voice.

    Attributes
    ----------
    names
        Series names of each voice.
    first, last
        Earliest and latest run of each round, seconds since 1970.
    width_s
        Distance of rounds.
    scaled, logs
        Residuals, NaN if a voice did not run; ``logs`` also if it did not finish.
    runs, unfinished
        Counts per round.
    """

    names: tuple[tuple[str, ...], ...]
    first: Any
    last: Any
    width_s: float
    scaled: Any
    logs: Any
    runs: Any
    unfinished: Any


def pooled(looks: Sequence[Sequence[SeriesPart]]) -> list[Spell]:
    """Return the spells in which most probes, or most that write or read, were low together.

    They are found although no series shows a change by itself. Each probe is one voice, whatever it
    measures. A run is compared with its own series: the share of runs that are as low. The
    probability that most voices are low in one round by chance is then a matter of counting,
    whatever their tails; shared noise makes it far more likely, and the scatter of the rounds'
    medians reveals that.

    Parameters
    ----------
    looks
        Every series in each look, by time. All metrics of one probe are one voice.
    """
    return carried((parts[0].look, _pooled_in_one_look(parts)) for parts in looks)


def _pooled_in_one_look(parts: Sequence[SeriesPart]) -> Iterator[Spell]:
    probes = _probes(parts)
    for name, access in _GROUPS.items():
        voices = [
            [series for series in probe if access in (None, _access(series.key))]
            for probe in probes
        ]
        voices = [voice for voice in voices if voice]
        if len(voices) >= VOICES and not (access and len(voices) == len(probes)):
            yield from _spells(name, _rounds(voices))


def _probes(parts: Sequence[SeriesPart]) -> list[list[_Series]]:
    """Return the series of each probe, one per access: bandwidth before other metrics."""
    probes: dict[tuple[str, str, str], dict[str, _Series]] = {}
    for part in sorted(parts, key=lambda part: "bandwidth" not in part.key.metric):
        key = part.key
        if key.target is None and part.frame.height >= _RUNS_LEAST:
            series = probes.setdefault((key.probe, key.kind, key.comparability), {})
            if _access(key) not in series:
                series[_access(key)] = _Series(key, part.runs)
    return [list(series.values()) for series in probes.values()]


def _access(key: SeriesKey) -> str:
    return key.metric.split("_")[0]


def _rounds(voices: Sequence[Sequence[_Series]]) -> _Rounds:
    """Return the runs of the voices by round.

    A round is as long as the distance of the median voice's runs, at least an hour, and rounds are
    split where the fewest runs begin.
    """
    times = [np.concatenate([series.runs.times for series in voice]) for voice in voices]
    spacings = [usual_gap_s(np.sort(part).tolist()) for part in times if np.ptp(part) > 0]
    width_s = max(_HOUR_S, float(np.median(spacings or [0.0])))
    everything = np.concatenate(times)
    phases = np.unique(everything % width_s)
    gaps = np.diff(np.append(phases, phases[0] + width_s))
    widest = int(np.argmax(gaps))
    offset_s = phases[widest] + gaps[widest] / 2
    numbers = np.floor((everything - offset_s) / width_s)
    rounds, place = np.unique(numbers, return_inverse=True)
    columns = np.repeat(np.arange(len(voices)), [len(part) for part in times])
    shape = (len(rounds), len(voices))
    first, last = np.full(len(rounds), np.inf), np.full(len(rounds), -np.inf)
    np.minimum.at(first, place, everything)
    np.maximum.at(last, place, everything)
    every = [series for voice in voices for series in voice]
    scaled, logs, unfinished = (
        np.concatenate(parts)
        for parts in (
            [series.scaled for series in every],
            [series.runs.residuals for series in every],
            [series.runs.unfinished for series in every],
        )
    )
    return _Rounds(
        names=tuple(tuple(name_of(series.key) for series in voice) for voice in voices),
        first=first,
        last=last,
        width_s=width_s,
        scaled=_round_means((place, columns), scaled, shape),
        logs=_round_means((place, columns), logs, shape),
        runs=np.bincount(place, minlength=len(rounds)),
        unfinished=np.bincount(place, weights=unfinished, minlength=len(rounds)).astype(np.int64),
    )


def _round_means(cells: tuple[Any, Any], values: Any, shape: tuple[int, int]) -> Any:
    """Return the mean of the values in each cell, NaN for empty cells."""
    known = np.isfinite(values)
    index = np.ravel_multi_index((cells[0][known], cells[1][known]), shape)
    counts = np.bincount(index, minlength=math.prod(shape)).reshape(shape)
    sums = np.bincount(index, weights=values[known], minlength=math.prod(shape)).reshape(shape)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _spells(name: str, rounds: _Rounds) -> Iterator[Spell]:
    """Yield the rounds in which most voices were low together, joined into spells."""
    shares = _shares(rounds.scaled)
    ran = np.isfinite(shares).sum(axis=1)
    enough = ran >= max(VOICES, math.ceil(len(rounds.names) / 2))
    if enough.sum() < _RUNS_LEAST:
        return
    middle = np.full(len(ran), np.nan)
    middle[enough] = np.nanmedian(rounds.scaled[enough], axis=1)
    usual = np.median(middle[enough])
    scale = max(0.1, scatter(middle[enough]))
    depth = np.nan_to_num((usual - middle) / scale, nan=0.0)
    low = np.zeros(shares.shape, dtype=bool)
    for share in SHARES:
        as_low = np.nan_to_num(shares, nan=1.0) <= share
        count = as_low.sum(axis=1)
        chance = binomials_above(count - 1, ran, share) * _MONTH_S / rounds.width_s
        most = (count >= VOICES) & (2 * count > ran) & (chance <= A_MONTH)
        low |= as_low & (most & enough & (depth >= TOGETHER))[:, None]
    together = np.flatnonzero(low.any(axis=1)).tolist()
    lost = [index for index in together if _lost(rounds.logs[index, low[index]])]
    at = [datetime.fromtimestamp(time, UTC) for time in rounds.first]
    for members in grouped(lost, at.__getitem__, apart(at)):
        yield _pooled_spell(name, rounds, low, members, float(depth[members].max()))


def _shares(scaled: Any) -> Any:
    """Return for each run the share of its voice's runs that are as low; NaN if it did not run."""
    shares = np.full(scaled.shape, np.nan)
    for column in range(scaled.shape[1]):
        known = np.isfinite(scaled[:, column])
        values = scaled[known, column]
        shares[known, column] = np.searchsorted(np.sort(values), values, side="right") / len(values)
    return shares


def _lost(logs: Any) -> bool:
    """Return whether the low voices lost enough, counting those that finished if any did."""
    finished = logs[np.isfinite(logs)]
    return not len(finished) or float(np.median(finished)) <= math.log(1 - POOLED_LOST)


def _pooled_spell(
    name: str, rounds: _Rounds, low: Any, members: Sequence[int], depth: float
) -> Spell:
    index = list(members)
    logs = rounds.logs[index][low[index]]
    finished = logs[np.isfinite(logs)]
    effect = math.exp(float(np.median(finished))) if len(finished) else None
    size = "none finished" if effect is None else f"at {effect * 100:.0f} % of the usual"
    is_low, ran = low[index].any(axis=0), np.isfinite(rounds.scaled[index]).any(axis=0)
    begin, end = (
        datetime.fromtimestamp(float(edge), UTC)
        for edge in (rounds.first[index].min(), rounds.last[index].max())
    )
    goes_on = index[-1] == len(rounds.first) - 1
    return Spell(
        shape=Shape.DIP,
        key=None,
        name=f"most {name}",
        at=begin,
        until=None if goes_on else end,
        last=end,
        detected_at=datetime.fromtimestamp(float(rounds.last[index[0]]), UTC),
        certainty=ChangeStatus.CONFIRMED,
        depth=depth,
        what=f"low together, {is_low.sum()} of {ran.sum()} that ran, {size}",
        effect=effect,
        runs=int(rounds.runs[index].sum()),
        unfinished=int(rounds.unfinished[index].sum()),
        moved=tuple(
            name
            for names, low_too in zip(rounds.names, is_low, strict=True)
            if low_too
            for name in names
        ),
    )
