"""Runs and short stretches far under the level of their series, and runs that did not finish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.explain.incidents.spell import TOGETHER, Spell, apart, grouped, name_of, percent_off
from trimtab.judge.arrays import median
from trimtab.judge.spread import corrected_autocorrelation
from trimtab.model.incident import Shape
from trimtab.model.series import ChangeStatus, Regime, SeriesJudgement
from trimtab.model.site import LIMITS

SINGLE: Final = 12.0
"""A run by itself is a dip from so many robust standard deviations under the level on.

Heavy tails set it: of Student's t with 3 degrees of freedom one in 2,300 is as low. Normal noise
never is. With `PAIR` and `STRETCH` noise of every tested shape gives less than one dip a month
(tests/explain/incidents/test_dips.py, where the rates stand).
"""
PAIR: Final = 6.0
"""Two runs within `TOGETHER`, each so far under the level, are one."""
STRETCH: Final = 5.5
"""The mean of a stretch, in standard errors that allow for autocorrelation, runs cut at
`CLIPPED`."""
CLIPPED: Final = 4.0
LEAST: Final = LIMITS.cov
"""Nothing is called a dip that loses less than this: the goal for the COV of 48 hours
(facts/seeds.md row 43) is what a site takes for usual."""
LENGTHS: Final = (3, 6, 12, 24)
"""Runs of a stretch. Longer ones are changes of level, which `trimtab.judge.changes` finds."""
_WEEK: Final = 7 * 86400.0
_LEVEL_RUNS: Final = 15
"""A level is of so many runs at least, where runs are a day apart and more."""
_RUNS_LEAST: Final = 12
_SCALE_LEAST: Final = 0.005
"""Half a per cent: series steadier than that would show every hiccup."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Runs as arrays: seconds, log residual about their level, whether they did not finish.

    Attributes
    ----------
    scale, phi
        Robust standard deviation of the residuals, and how alike neighbours are.
    """

    times: Any
    residuals: Any
    unfinished: Any
    scale: float
    phi: float


def dips(judgement: SeriesJudgement, frame: pl.DataFrame) -> list[Spell]:
    """Return the dips of one series, the earliest first; empty for fewer than twelve runs.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished``. A level is that of the runs around, up to half a week
        to either side, within one regime.
    """
    if frame.height < _RUNS_LEAST:
        return []
    runs = residuals_of(judgement, frame)
    bad = _bad(runs)
    times = frame.get_column("at").to_list()
    groups: dict[int, list[int]] = {}
    for index, group in zip(bad, grouped((times[i] for i in bad), apart(times)), strict=True):
        groups.setdefault(group, []).append(index)
    return [_spell(judgement, runs, times, members) for members in groups.values()]


def residuals_of(judgement: SeriesJudgement, frame: pl.DataFrame) -> Residuals:
    """Return the runs of a series about the level of their regime."""
    times = frame.get_column("at").dt.epoch("us").to_numpy() / 1e6
    values = frame.get_column("value").cast(pl.Float64).fill_null(float("nan")).to_numpy()
    unfinished = frame.get_column("unfinished").fill_null(value=True).to_numpy() | ~(values > 0)
    sign = 1.0 if judgement.key.more_is_better else -1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(unfinished, np.nan, sign * np.log(values))
    residuals = np.full(len(logs), np.nan)
    for part in _parts(times, judgement.regimes):
        residuals[part] = logs[part] - _level(times[part], logs[part])
    known = residuals[np.isfinite(residuals)]
    scale = 1.4826 * float(np.median(np.abs(known))) if len(known) else _SCALE_LEAST
    # Runs far out are what is looked for: they must not make the rest look unrelated.
    clipped = np.clip(known, -3 * scale, 3 * scale)
    phi = corrected_autocorrelation(clipped[-720:].tolist())
    return Residuals(times, residuals, unfinished, max(scale, _SCALE_LEAST), phi)


def _parts(times: Any, regimes: Sequence[Regime]) -> list[slice]:
    starts = [regime.from_.timestamp() for regime in regimes[1:]]
    cuts = [0, *np.searchsorted(times, starts).tolist(), len(times)]
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def _level(times: Any, logs: Any) -> Any:
    """Return the median of the week around each run, taken at every sixth and carried over.

    Where a week has fewer than `_LEVEL_RUNS` runs it is that of so many runs, at each of them.
    """
    apart_s = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    sparse = apart_s * _LEVEL_RUNS > _WEEK
    step = 1 if sparse else 6
    half_s = max(_WEEK, apart_s * _LEVEL_RUNS) / 2
    centres = np.arange(0, len(times), step)
    left = np.searchsorted(times, times[centres] - half_s)
    right = np.searchsorted(times, times[centres] + half_s, side="right")
    levels = np.array(
        [
            median(window) if len(window := logs[a:b][np.isfinite(logs[a:b])]) else np.nan
            for a, b in zip(left, right, strict=True)
        ]
    )
    return np.repeat(levels, step)[: len(times)]


def _bad(runs: Residuals) -> list[int]:
    """Return the indices of the bad runs."""
    z = np.where(runs.unfinished, -np.inf, runs.residuals / runs.scale)
    z = np.nan_to_num(z, nan=0.0, neginf=-1e9)
    least = math.log(1 - LEAST) / runs.scale
    bad = z < min(-SINGLE, least)
    # One shock to a series with a memory lowers the next run as well: that is no second one.
    pair = PAIR / math.sqrt(1 - runs.phi**2)
    low = np.flatnonzero(z < min(-pair, least))
    for a, b in pairwise(low.tolist()):
        if runs.times[b] - runs.times[a] <= TOGETHER.total_seconds():
            bad[[a, b]] = True
    widen = math.sqrt((1 + runs.phi) / (1 - runs.phi))
    for length in LENGTHS:
        if len(z) < 2 * length:
            break
        # Runs known to be bad must not affect their neighbours.
        clipped = np.where(bad, 0.0, np.clip(z, -CLIPPED, CLIPPED))
        total = np.concatenate([[0.0], np.cumsum(clipped)])
        means = (total[length:] - total[:-length]) / length
        limit = min(-STRETCH * widen / math.sqrt(length), max(least, -CLIPPED + 0.5))
        for start in np.flatnonzero(means < limit):
            window = np.arange(start, start + length)
            bad[window[z[window] < means[start] / 2]] = True
    return np.flatnonzero(bad).tolist()


def _spell(
    judgement: SeriesJudgement, runs: Residuals, times: Sequence[datetime], members: Sequence[int]
) -> Spell:
    last = members[-1]
    goes_on = last == len(times) - 1
    unfinished = int(runs.unfinished[list(members)].sum())
    finished = [
        residual for residual in runs.residuals[list(members)].tolist() if math.isfinite(residual)
    ]
    typical = float(np.median(finished)) if finished else None
    more = judgement.key.more_is_better
    effect = None if typical is None else math.exp(typical if more else -typical)
    text = [] if effect is None else [percent_off(effect, more_is_better=more)]
    if unfinished:
        text.append(f"{unfinished} of {len(members)} runs did not finish")
    depth = SINGLE * 2 if unfinished else 0.0
    if finished:
        depth = max(depth, -min(finished) / runs.scale)
    return Spell(
        shape=Shape.DIP,
        key=judgement.key,
        name=name_of(judgement.key),
        at=times[members[0]],
        until=None if goes_on else times[last],
        last=times[last],
        detected_at=times[members[0]] if depth >= SINGLE else times[last],
        certainty=ChangeStatus.CONFIRMED if unfinished or depth >= SINGLE else ChangeStatus.SUSPECT,
        depth=depth,
        what=", ".join(text),
        effect=effect,
        runs=len(members),
        unfinished=unfinished,
    )
