"""Targets that were slow in surveys while the others were not, even if no probe noticed.

A target's usual rate is its earlier one, without its slow surveys: a target that is slow for half
of the record is slow, not usual. A stretch lasts until the target recovers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.base.incident import Shape
from trimtab.base.run import METRIC_UNITS
from trimtab.base.series import ChangeStatus
from trimtab.base.units import enumerated
from trimtab.explain.context import SURVEYS as COLUMNS
from trimtab.explain.spell import SHORT, SURVEYS, Spell
from trimtab.judge.array import medians

SLOW: Final = 0.75
"""A quarter below its usual share of the survey's median: the smallest loss of OSTs called slow in
[S1, III]."""
CRAWLS: Final = 0.5
"""A loss of half is certain with a second measurement: the next survey, or another metric of the
same one. Of a month's thousand readings some are as low, and as usual the next night."""
SILENT: Final = 0.1
"""A target that hardly moves anything is more than slow: one reading is enough."""
SIGMAS: Final = 5.0
"""Plus this many of its robust standard deviations in one survey, or this many over the square root
of n in each of n consecutive surveys, which is as rare: some targets scatter by nature."""
RUNNING: Final = 4
"""Maximum number of consecutive surveys that make a moderate loss certain."""
MANY: Final = 3
"""This many targets low in one survey confirm each other: by chance each would be low in a
different survey. The targets of a server taken over by its partner are such a group."""
SLOW_ALL: Final = 0.85
"""Loss of the median target in two consecutive surveys. It scatters far less than single
targets."""
_BEFORE: Final = 30
"""Surveys that define a usual share: a month of daily ones. Slow declines show as well."""
_TARGETS_LEAST: Final = 3
_HISTORY: Final = 5
"""Surveys needed to know the scatter of one target, or the level of all."""
_SCALE_LEAST: Final = 0.01
_BACK: Final = 0.5
"""A target has recovered when half the loss is back: in one survey if that exceeds its scatter,
else in two consecutive ones."""
_BY_NATURE: Final = 0.25
"""Share of the targets. If this many are far below the median when first seen, they are of another
type; if fewer, they are slow."""
_GONE: Final = 14
"""Surveys without a formerly slow target: it was removed."""
_NOT_RATES: Final = ("B", "s")


@dataclass(frozen=True, slots=True)
class SlowTarget:
    """A stretch in which one target was slow by itself, in one metric.

    Attributes
    ----------
    at, last
        First and last survey in which it was slow, aware UTC.
    until
        Its last slow survey, once it has recovered; ``None`` while ongoing.
    detected_at
        Survey that made it certain enough to report.
    share, least
        Rate relative to its usual one in the last slow survey, and the lowest such rate.
    surveys
        Surveys in which it was slow.
    """

    target: str
    metric: str
    at: datetime
    last: datetime
    until: datetime | None
    detected_at: datetime
    share: float
    least: float
    surveys: int


def slow_targets(surveys: pl.DataFrame) -> list[Spell]:
    """Return the stretches in which targets were slow by themselves, earliest first.

    Parameters
    ----------
    surveys
        ``at``, ``run``, ``target``, ``metric``, ``value``: rates, more is better. A value of 0 is
        a target that moved nothing.
    """
    stretches = slow_stretches(surveys)
    times: list[datetime] = surveys["at"].unique().sort().to_list() if stretches else []
    return [_spell(group) for group in _groups(stretches, times)]


def slow_surveys(surveys: pl.DataFrame) -> list[Spell]:
    """Return the stretches in which the median target was slow: all alike, or most.

    Parameters are those of `slow_targets`.
    """
    levels = (
        _rates(surveys)
        .group_by("run", "metric")
        .agg(pl.min("at"), pl.median("value"), n=pl.n_unique("target"))
        .filter(pl.col("n") >= _TARGETS_LEAST)
        .sort("at", "metric")
    )
    stretches: list[SlowTarget] = []
    for (metric,), rows in levels.group_by("metric", maintain_order=True):
        table = rows["value"].to_numpy()[:, None]
        times: list[datetime] = rows["at"].to_list()
        for part in _walked(table, slow=SLOW_ALL, sigmas=0.0, sure=CRAWLS, history=_HISTORY):
            stretches.append(_stretch("", str(metric), part, times))
    every: list[datetime] = levels["at"].unique().sort().to_list()
    return [
        replace(
            _spell(group),
            targets=(),
            name=f"median target of {SURVEYS}",
            what=_all_slow(group),
        )
        for group in _groups(stretches, every)
    ]


def slow_now(surveys: pl.DataFrame) -> tuple[SlowTarget, ...]:
    """Return the targets that are slow and have not recovered, slowest first.

    Parameters as in `slow_targets`. One entry per target: the metric in which it is slowest.
    """
    worst: dict[str, SlowTarget] = {}
    for stretch in slow_stretches(surveys):
        if stretch.until is None and (
            stretch.target not in worst or stretch.share < worst[stretch.target].share
        ):
            worst[stretch.target] = stretch
    return tuple(sorted(worst.values(), key=lambda stretch: (stretch.share, stretch.target)))


def slow_stretches(surveys: pl.DataFrame) -> list[SlowTarget]:
    """Return each stretch in which a target was slow in a metric, earliest first.

    Parameters as in `slow_targets`. Later data never decides whether a target was slow at a time,
    except to confirm a single slow survey. One reading is a stretch only below `SILENT`.
    """
    share = pl.col("value") / pl.median("value").over("run", "metric")
    shares = (
        _rates(surveys)
        .group_by("run", "metric", "target")
        .agg(pl.min("at"), pl.median("value"))
        # All targets of a survey share its time, however long it took.
        .with_columns(at=pl.min("at").over("run"), share=share)
        .filter(pl.col("share").is_finite())
    )
    parts: list[tuple[SlowTarget, bool]] = []
    for (metric,), rows in shares.sort("at").group_by("metric", maintain_order=True):
        wide = rows.pivot("target", index="at", values="share", aggregate_function="median")
        wide = wide.sort("at")
        times: list[datetime] = wide["at"].to_list()
        names = wide.columns[1:]
        table = wide.select(names).to_numpy().astype(float)
        for part in _walked(table, slow=SLOW, sigmas=SIGMAS, sure=SILENT, history=0):
            parts.append((_stretch(names[part.column], str(metric), part, times), part.sure))
    stretches = [
        stretch
        for stretch, sure in parts
        if sure
        or any(
            other.target == stretch.target
            and other.metric != stretch.metric
            and other.at <= stretch.at <= other.last
            for other, _ in parts
        )
    ]
    return sorted(stretches, key=lambda stretch: (stretch.at, stretch.target, stretch.metric))


def _rates(surveys: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are rates; none if a column is missing."""
    if not COLUMNS.keys() <= set(surveys.columns):
        return pl.DataFrame(schema=COLUMNS)
    others = [
        metric for metric in surveys["metric"].unique() if METRIC_UNITS.get(metric) in _NOT_RATES
    ]
    return surveys.filter(pl.col("value").is_not_null() & ~pl.col("metric").is_in(others))


@dataclass(slots=True)
class _Part:
    """A slow stretch of one column, by position among the surveys.

    Attributes
    ----------
    sure
        Whether more than one reading of the column shows it, or one that is enough.
    """

    column: int
    first: int
    last: int
    detected: int
    relatives: list[float]
    sure: bool
    over: bool = False
    well: int = 0


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A low survey of a target not yet certain to be slow.

    Attributes
    ----------
    depth
        Distance below the usual rate, in its scatter.
    """

    place: int
    relative: float
    depth: float


def _is_certain(doubts: Sequence[_Doubt], sigmas: float) -> bool:
    """Return whether the last surveys of a doubted target, at least two, make it slow."""
    depths = [doubt.depth for doubt in doubts]
    return any(
        min(depths[-number:]) > sigmas / math.sqrt(number) for number in range(2, len(depths) + 1)
    )


def _walked(table: Any, *, slow: float, sigmas: float, sure: float, history: int) -> list[_Part]:
    """Return the slow stretches of each column of surveys by targets.

    Parameters
    ----------
    sure
        Rate relative to the usual one below which one survey is enough.
    history
        Surveys of a column before it is judged; 0: its first one is compared with 1.

    Notes
    -----
    In each survey a target is in one of these states; only surveys in which it was well define its
    usual rate, never those of a doubted target. It is slow if each of its last n surveys was
    ``sigmas`` / sqrt(n) of its scatter low, for some n from 2 to `RUNNING`::

        well ──low──▶ doubted ──low, certain──▶ slow ──half of it back, beyond scatter──▶ well
          ▲           │  ▲└─low─┐                ▲└─half of it back──▶ better ──again──▶ well
          └────well───┘  └──────┘                └───────slow────────────┘
        well ──under half (`_Part.sure`: a second time), or `MANY` together──▶ slow
    """
    usual = _Usual(table.shape[1])
    doubted: dict[int, list[_Doubt]] = {}
    running: dict[int, _Part] = {}
    parts: list[_Part] = []
    for place, row in enumerate(table):
        relative, scale = usual.relative(row, running)
        seen = np.isfinite(row)
        depth = (1 - relative) / scale
        low = seen & (relative < slow) & (depth > sigmas / math.sqrt(RUNNING))
        crawls = (relative < CRAWLS) & (depth > sigmas)
        first = seen & (usual.count <= history - 1 if history else usual.count == 0)
        if history or (first & (relative < CRAWLS)).sum() > _BY_NATURE * seen.sum():
            low &= ~first
        else:
            low &= ~first | (relative < CRAWLS)
        together = low & (depth > sigmas)
        enough = crawls & (relative < sure)
        if together.sum() >= MANY:
            enough |= together
        well = seen & ~low
        for column in [column for column in running if seen[column]]:
            part = running[column]
            well[column] = _goes_on(part, place, float(relative[column]), float(scale[column]))
            if well[column]:
                del running[column]
            low[column] = False
        for column in np.flatnonzero(low).tolist():
            doubts = doubted.setdefault(column, [])
            doubts.append(_Doubt(place, float(relative[column]), float(depth[column])))
            certain = bool(enough[column]) or _is_certain(doubts, sigmas)
            if not certain and not crawls[column]:
                continue
            del doubted[column]
            relatives = [doubt.relative for doubt in doubts]
            part = _Part(
                column, doubts[0].place, place, place, relatives, certain or len(doubts) > 1
            )
            running[column] = part
            parts.append(part)
        for column in [column for column in doubted if well[column]]:
            del doubted[column]
        usual.add(row, well)
    measured = np.isfinite(table)
    for part in running.values():
        part.over = bool(
            len(table) - part.last > _GONE and not measured[-_GONE:, part.column].any()
        )
    return parts


def _goes_on(part: _Part, place: int, relative: float, scale: float) -> bool:
    """Update a slow column with a survey; return whether the column has recovered."""
    level = sum(part.relatives) / len(part.relatives)
    if relative < 1 - (1 - level) * (1 - _BACK):
        part.relatives.append(relative)
        part.last, part.well = place, 0
        if not part.sure:
            part.sure, part.detected = True, place
        return False
    part.well += 1
    part.over = part.well > 1 or relative - level > SIGMAS * scale
    return part.over


class _Usual:
    """The usual rate of each column, from the surveys in which it was well."""

    def __init__(self, columns: int) -> None:
        self._values = np.full((columns, _BEFORE), np.nan)
        self.count = np.zeros(columns, dtype=int)

    def relative(self, row: Any, running: Iterable[int]) -> tuple[Any, Any]:
        """Return a survey relative to the usual rates, and the scatter of each column."""
        known = self.count > 0
        middle = np.ones(len(row))
        middle[known] = medians(self._values[known], axis=1)
        # A high first reading must not make all later ones low.
        middle = np.where(self.count < _HISTORY, np.minimum(middle, 1.0), middle)
        relative = row / np.maximum(middle, 1e-9)
        off = np.abs(relative - 1)
        others = known & np.isfinite(row)
        others[list(running)] = False
        scale = np.full(len(row), _SCALE_LEAST)
        if others.sum() >= _TARGETS_LEAST:
            scale = np.maximum(scale, 1.4826 * float(np.median(off[others])))
        settled = self.count >= _HISTORY
        scatter = np.abs(self._values[settled] / middle[settled, None] - 1)
        scale[settled] = np.maximum(scale[settled], 1.4826 * medians(scatter, axis=1))
        return relative, scale

    def add(self, row: Any, well: Any) -> None:
        """Update the columns that were well."""
        columns = np.flatnonzero(well)
        self._values[columns, self.count[columns] % _BEFORE] = row[columns]
        self.count[columns] += 1


def _stretch(target: str, metric: str, part: _Part, times: Sequence[datetime]) -> SlowTarget:
    return SlowTarget(
        target=target,
        metric=metric,
        at=times[part.first],
        last=times[part.last],
        until=times[part.last] if part.over else None,
        detected_at=times[part.detected],
        share=part.relatives[-1],
        least=min(part.relatives),
        surveys=len(part.relatives),
    )


def _groups(stretches: Sequence[SlowTarget], times: Sequence[datetime]) -> list[list[SlowTarget]]:
    """Return the stretches that began together, or belong to one target and overlap."""
    place = {at: index for index, at in enumerate(times)}
    groups: list[list[SlowTarget]] = []
    for stretch in stretches:
        joined = next((group for group in groups if _belongs(stretch, group, place)), None)
        if joined is None:
            groups.append([stretch])
        else:
            joined.append(stretch)
    return groups


def _belongs(stretch: SlowTarget, group: Sequence[SlowTarget], place: dict[datetime, int]) -> bool:
    if place[stretch.at] - place[group[0].at] <= 1:
        return True
    return any(
        stretch.target == other.target and (other.until is None or stretch.at <= other.until)
        for other in group
    )


def _spell(group: Sequence[SlowTarget]) -> Spell:
    first, last = group[0].at, max(stretch.last for stretch in group)
    worst: dict[str, float] = {}
    for stretch in group:
        worst[stretch.target] = min(stretch.least, worst.get(stretch.target, stretch.least))
    goes_on = any(stretch.until is None for stretch in group)
    least = min(worst.values())
    names = enumerated(sorted(worst), 3)
    seen_twice = any(stretch.surveys > 1 for stretch in group)
    return Spell(
        shape=Shape.STEP if goes_on or last - first >= SHORT else Shape.DIP,
        key=None,
        name=f"{SURVEYS} of single targets",
        at=first,
        until=None if goes_on else last,
        last=last,
        detected_at=min(stretch.detected_at for stretch in group),
        certainty=ChangeStatus.CONFIRMED if seen_twice else ChangeStatus.SUSPECT,
        depth=(1 - least) * 10,
        what=f"{names}: down to {least * 100:.0f} % of the usual",
        effect=least,
        runs=max(stretch.surveys for stretch in group),
        targets=tuple(sorted(worst)),
    )


def _all_slow(group: Sequence[SlowTarget]) -> str:
    worst = min(group, key=lambda stretch: stretch.least)
    return f"{worst.metric} down to {worst.least * 100:.0f} % of the usual"
