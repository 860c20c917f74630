"""Targets that were slow in surveys while the others were not, even where no probe saw it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

import polars as pl

from trimtab.explain.context import SURVEYS as COLUMNS
from trimtab.explain.incidents.spell import SURVEYS, Spell
from trimtab.model.incident import Shape
from trimtab.model.series import ChangeStatus

SLOW: Final = 0.75
"""A quarter under its usual share of the survey's median: the least that was called a slow OST
(facts/seeds.md row 22)."""
CRAWLS: Final = 0.5
"""Half of it in one survey is enough; less has to be seen in two surveys running."""
SIGMAS: Final = 5.0
"""And so many of its own robust standard deviations: some targets scatter by nature."""
SLOW_ALL: Final = 0.85
"""Of the median target, in two surveys running. It scatters far less than single targets do."""
_BEFORE: Final = 14
_TARGETS_LEAST: Final = 3
_HISTORY: Final = 5
"""Surveys of which a target's usual share is made; fewer: it is compared with the others alone."""
_SHORT: Final = timedelta(days=2)


def slow_targets(surveys: pl.DataFrame) -> list[Spell]:
    """Return the stretches in which targets were slow by themselves, the earliest first.

    Parameters
    ----------
    surveys
        ``at``, ``run``, ``target``, ``metric``, ``value``: rates, where more is better. A value
        of 0 is a target that moved nothing.
    """
    if not COLUMNS.keys() <= set(surveys.columns):
        return []
    marked = _marked(surveys)
    if marked.is_empty():
        return []
    times: list[datetime] = marked.get_column("at").unique().sort().to_list()
    slow = _slow_at(marked, times)
    return [_spell(group, times) for group in _groups(slow, times)]


def slow_surveys(surveys: pl.DataFrame) -> list[Spell]:
    """Return the stretches in which the median target was slow: all alike, or most.

    Parameters are those of `slow_targets`. The median target of each survey is compared with that
    of the `_BEFORE` surveys before it that were well.
    """
    if not COLUMNS.keys() <= set(surveys.columns):
        return []
    levels = (
        surveys.filter(pl.col("value").is_not_null())
        .group_by("run", "metric")
        .agg(pl.col("at").min(), pl.col("value").median(), n=pl.col("target").n_unique())
        .filter(pl.col("n") >= _TARGETS_LEAST)
        .sort("at", "metric")
    )
    slow: dict[datetime, dict[str, float]] = {}
    for (metric,), rows in levels.group_by("metric", maintain_order=True):
        usual: list[float] = []
        for at, value in rows.select("at", "value").iter_rows():
            middle = median(usual[-_BEFORE:]) if len(usual) >= _HISTORY else None
            if middle and value < SLOW_ALL * middle:
                slow.setdefault(at, {})[str(metric)] = value / middle
            else:
                usual.append(value)
    times: list[datetime] = levels.get_column("at").unique().sort().to_list()
    place = {at: index for index, at in enumerate(times)}
    confirmed = {
        at: shares
        for at, shares in slow.items()
        if min(shares.values()) < CRAWLS
        or any(0 <= i < len(times) and times[i] in slow for i in (place[at] - 1, place[at] + 1))
    }
    return [
        replace(
            _spell(group, times),
            targets=(),
            name=f"median target of {SURVEYS}",
            what=_all_slow(group),
        )
        for group in _groups(confirmed, times)
    ]


def _all_slow(group: list[tuple[datetime, dict[str, float]]]) -> str:
    metric, share = min(
        ((metric, share) for _, shares in group for metric, share in shares.items()),
        key=lambda survey: survey[1],
    )
    return f"{metric} down to {share * 100:.0f} % of the usual"


def _marked(surveys: pl.DataFrame) -> pl.DataFrame:
    """Return each target's share of its survey's median, relative to its usual one, and z."""
    survey = ["metric", "target"]
    share = pl.col("value") / pl.col("value").median().over("run", "metric")
    shares = (
        surveys.filter(pl.col("value").is_not_null())
        .group_by("run", "metric", "target")
        .agg(pl.col("at").min(), pl.col("value").median())
        # All targets of a survey are of its time, however long it took.
        .with_columns(at=pl.col("at").min().over("run"), share=share)
        .filter(pl.col("share").is_finite())
        .sort("at")
    )
    enough = pl.len().over(survey) >= _HISTORY
    usual = pl.when(enough).then(pl.col("share").median().over(survey)).otherwise(1.0)
    relative = shares.with_columns(relative=pl.col("share") / pl.max_horizontal(usual, pl.lit(0.1)))
    off = (pl.col("relative") - 1).abs()
    scale = pl.max_horizontal(
        off.median().over(survey) * 1.4826, off.median().over("metric") * 1.4826
    )
    scaled = relative.with_columns(z=(pl.col("relative") - 1) / pl.max_horizontal(scale, 0.01))
    return scaled.group_by("at", "target").agg(
        pl.col("relative").min(), pl.col("z").min()
    ).sort("at", "target")  # fmt: skip


def _slow_at(marked: pl.DataFrame, times: list[datetime]) -> dict[datetime, dict[str, float]]:
    """Return time of survey to the slow targets with their share of the usual."""
    low = marked.filter((pl.col("relative") < SLOW) & (pl.col("z") < -SIGMAS))
    shares: dict[datetime, dict[str, float]] = {}
    for at, target, relative in low.select("at", "target", "relative").iter_rows():
        shares.setdefault(at, {})[target] = relative
    place = {at: index for index, at in enumerate(times)}

    def borne_out(at: datetime, target: str) -> bool:
        near = (place[at] - 1, place[at] + 1)
        return any(0 <= i < len(times) and target in shares.get(times[i], {}) for i in near)

    return {
        at: confirmed
        for at, slow in shares.items()
        if (confirmed := {t: r for t, r in slow.items() if r < CRAWLS or borne_out(at, t)})
    }


def _groups(
    slow: dict[datetime, dict[str, float]], times: list[datetime]
) -> list[list[tuple[datetime, dict[str, float]]]]:
    """Return surveys that follow one another and share a slow target."""
    place = {at: index for index, at in enumerate(times)}
    groups: list[list[tuple[datetime, dict[str, float]]]] = []
    for at in sorted(slow):
        if groups:
            last, names = groups[-1][-1]
            if place[at] - place[last] <= 2 and set(names) & set(slow[at]):
                groups[-1].append((at, slow[at]))
                continue
        groups.append([(at, slow[at])])
    return groups


def _spell(group: list[tuple[datetime, dict[str, float]]], times: list[datetime]) -> Spell:
    first, last = group[0][0], group[-1][0]
    worst: dict[str, float] = {}
    for _, shares in group:
        for target, share in shares.items():
            worst[target] = min(share, worst.get(target, share))
    goes_on = last == times[-1]
    depth = 1 - min(worst.values())
    names = ", ".join(sorted(worst)[:3]) + (f" and {len(worst) - 3} more" if len(worst) > 3 else "")
    return Spell(
        shape=Shape.STEP if goes_on or last - first >= _SHORT else Shape.DIP,
        key=None,
        name=f"{SURVEYS} of single targets",
        at=first,
        until=None if goes_on else last,
        last=last,
        detected_at=first if min(group[0][1].values()) < CRAWLS else _second(group),
        certainty=ChangeStatus.CONFIRMED if len(group) > 1 else ChangeStatus.SUSPECT,
        depth=depth * 10,
        what=f"{names}: down to {min(worst.values()) * 100:.0f} % of the usual",
        effect=min(worst.values()),
        runs=len(group),
        targets=tuple(sorted(worst)),
    )


def _second(group: list[tuple[datetime, dict[str, float]]]) -> datetime:
    return next((later for (_, _), (later, _) in pairwise(group)), group[0][0])
