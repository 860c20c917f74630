"""Which targets were slow in the bad hours, from surveys of single targets.

A survey always has a lowest target. One is slow if it lost more than survey noise makes any of so
many targets lose, and slow targets are the trouble only if they lost what the incident lost
(`Breadth.explains`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.explain.context import SURVEYS, Context, once
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import marked
from trimtab.judge.quantile import binomial_above

_SLOW_LEAST: Final = 0.1
"""A slow target lost at least a tenth more than the healthy ones."""
_SLOW_SIGMAS: Final = 4.0
"""... and exceeds its scatter in good hours by this many robust standard deviations."""
_BY_CHANCE: Final = 0.01
"""Probability that survey noise alone makes as many targets look slow. At 4 standard deviations of
normal noise one survey of 298 targets in a hundred has one; with tails as heavy as those of
Student's t with 3 degrees of freedom, a third of all surveys of 32 do."""
_TAIL_SHARE: Final = 0.02
"""Share of the good rows that show how deep noise reaches; at least three rows."""
_TAIL_ROWS: Final = 20
_TAIL_POWER: Final = 3.0
"""Deeper losses are rarer by this power of their depth: the tail of Student's t with 3 degrees."""
_TWENTIETH: Final = (0.05, 1.645)
"""Share of normal noise beyond so many standard deviations."""
_DEPTH_LEAST: Final = 0.005
_EXPLAINS: Final = 0.5
"""Share of the incident's loss: targets that lost less do not explain it."""
_SCATTER: Final = 0.05
"""Standard deviation of a target's rate if there are too few surveys of good hours."""
_WELL_QUANTILE: Final = 0.75
"""Reference for all targets: the upper quartile, because up to half of them may be slow."""
_BADLY_QUANTILE: Final = 1 - _WELL_QUANTILE
_SURVEYS_LEAST: Final = 3
ON_SERVERS: Final = "obdfilter-survey"
"""The benchmark that surveys single targets on the servers; the others cross the network."""
LEVEL_RATIO: Final = 0.95
"""All targets are slow alike if together they lost a twentieth."""


@dataclass(frozen=True, slots=True)
class Breadth:
    """How much of the file system was slow, from surveys of single targets.

    Attributes
    ----------
    slow, fast
        Targets that lost more than the upper quartile, beyond chance, and the remaining targets.
    level
        Median target, bad over good; ``None`` without a survey of good hours.
    surveyed
        Whether a survey exists within the bad stretch.
    alike
        Whether all targets lost alike: none slow by itself, and the level fell. ``None``: unknown.
    reason
        The same as a sentence.
    fast_level
        Rate retained by the targets that lost least; ``None`` if unknown. Below 0.95 they are not
        a healthy reference for the slow ones.
    left
        Rate retained by the slowest target, or by the median one if none is slow; ``None`` if
        unknown.
    explains
        Whether the targets lost enough for what the incident lost: a probe over all targets waits
        for the slowest. True if either loss is unknown.
    sure
        Share of the weight of a few slow targets that the surveys of the bad hours support. All of
        it, but where trouble comes and goes half for one survey: it is of one spell among many.
    """

    slow: tuple[str, ...]
    fast: tuple[str, ...]
    level: float | None
    surveyed: bool
    alike: bool | None
    reason: Message
    fast_level: float | None = None
    left: float | None = None
    explains: bool = True
    sure: float = 1.0


@once
def breadth(context: Context) -> Breadth:
    """Return which targets were slow by themselves in the bad hours, and whether all lost alike.

    Compares each target's rate in ``context.surveys``, bad hours over good, with the upper quartile
    of all targets. Without surveys of good hours it compares with the median of its own survey. A
    target that moved nothing is slow. ``context.incident.targets`` are included.
    """
    within = surveys_within(context)
    bad, good = (within.filter(bad=side) for side in (True, False))
    named = context.incident.targets
    if bad.is_empty():
        why = Message("no-bad-survey", "no survey of single targets in the bad hours")
        return Breadth(named, (), None, False, None, why)
    slow, fast = _slow_and_fast(bad, good)
    slow = tuple(sorted({*slow, *named}))
    fast = tuple(name for name in fast if name not in slow)
    level = _level(bad, good)
    alike = None if level is None else not slow and level < LEVEL_RATIO
    if not slow:
        why = Message("no-target-slow", "no slow target in the surveys of the bad hours")
    elif not fast:
        why = Message("all-targets-slow", "all targets slow in the surveys of the bad hours")
    else:
        why = Message(
            "some-targets-slow", f"{len(slow)} of {len(slow) + len(fast)} targets were slow"
        )
    left = _left_of(bad, good, slow) if slow else level
    effect = context.incident.effect
    little = left is not None and effect is not None and 1 - left < _EXPLAINS * (1 - effect)
    fast_level = _level(bad, good, _WELL_QUANTILE)
    surveys = bad["run"].n_unique()
    sure = surveys / (surveys + 1) if len(context.bad) > 1 else 1.0
    return Breadth(slow, fast, level, True, alike, why, fast_level, left, not little, sure)


def surveys_within(context: Context) -> pl.DataFrame:
    """Return the survey rows within the stretches, with ``bad``."""
    frame = context.surveys
    if not SURVEYS.keys() <= set(frame.columns):
        frame = pl.DataFrame(schema=SURVEYS)
    frame = frame.filter(pl.col("value").is_not_null() & pl.col("at").is_not_null())
    return marked(frame, context.bad, context.good).drop_nulls("bad")


def _slow_and_fast(
    bad: pl.DataFrame, good: pl.DataFrame
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    key = ["metric", "target"]
    usual = (
        good.filter(pl.col("value") > 0)
        .group_by(key)
        .agg(usual=pl.median("value"), n_usual=pl.len())
    )
    now = bad.group_by(key).agg(pl.median("value"), n=pl.len())
    share = pl.col("value") / pl.col("usual")
    both = now.join(usual, on=key, how="left").with_columns(
        share=pl.when(pl.col("usual").is_not_null()).then(share).otherwise(
            pl.when(pl.col("usual").is_null().all().over("metric")).then(pl.col("value"))
        )
    ).filter(pl.col("share").is_finite())  # fmt: skip
    well, badly = (
        pl.col("share").quantile(part).over("metric") for part in (_WELL_QUANTILE, _BADLY_QUANTILE)
    )
    # Noise of both medians, in units of that of a single survey.
    noise = (1 / pl.col("n") + (1 / pl.col("n_usual")).fill_null(0.0)).sqrt()
    scatter = pl.lit(_scatter(good)) * noise
    least = pl.max_horizontal(pl.lit(_SLOW_LEAST), _SLOW_SIGMAS * scatter).clip(upper_bound=0.5)
    judged = both.with_columns(
        low=pl.col("share") < well * (1 - least),
        # As deep as this, or as high, in a single survey.
        depth=-(pl.col("share").clip(0.0) / well).log() / noise,
        height=(pl.col("share").clip(0.0) / badly).log() / noise,
    )
    depths = judged.filter(pl.col("low") & ~pl.col("depth").is_nan())["depth"].to_list()
    depths.sort(reverse=True)
    beyond = _beyond_chance(depths, judged.height, _noise(good, judged["height"]))
    judged = judged.with_columns(slow=pl.col("low") & (pl.col("depth") >= beyond))
    by_target = judged.group_by("target").agg(pl.col("slow").any()).sort("target")
    slow, fast = (tuple(by_target.filter(slow=side)["target"].to_list()) for side in (True, False))
    return slow, fast


def _beyond_chance(depths: Sequence[float], of: int, noise: tuple[float, float]) -> float:
    """Return the depth from which targets are slow beyond chance; infinite if none is.

    Parameters
    ----------
    depths
        Loss of each low target against the upper quartile, as a negative natural logarithm,
        deepest first.
    of
        Number of targets that were compared, low or not.
    noise
        How deep noise alone reaches, from `_noise`.

    Notes
    -----
    The deepest k of n are slow if noise makes k of n as deep as the k-th with a probability below
    `_BY_CHANCE` (binomial).
    """
    share, reach = noise
    slow = math.inf
    for count, depth in enumerate(depths, start=1):
        rate = share * min(1.0, reach / max(depth, reach)) ** _TAIL_POWER
        if binomial_above(count - 1, of, rate) < _BY_CHANCE:
            slow = depth
    return slow


def _noise(good: pl.DataFrame, heights: pl.Series) -> tuple[float, float]:
    """Return a share of single surveys, and the depth that they exceed by noise alone.

    From the surveys of good hours; if each target has one at most, from how much faster than usual
    targets were (``heights``): a slow target is not among those.
    """
    key = ["metric", "target"]
    of_target = good.filter(pl.col("value") > 0).with_columns(n=pl.len().over(key))
    shares = of_target.filter(pl.col("n") >= 2).with_columns(
        share=pl.col("value") / pl.median("value").over(key)
    )
    share, sigmas = _TWENTIETH
    well = pl.col("share").quantile(_WELL_QUANTILE).over("run", "metric")
    # A rate is part of its own median, which makes deviations too small by about (n - 1) / n.
    depth = -(pl.col("share") / well).log() * pl.col("n") / (pl.col("n") - 1)
    all_depths: list[float] = shares.select(depth).to_series().to_list()
    depths = sorted((value for value in all_depths if math.isfinite(value)), reverse=True)
    if len(depths) < _TAIL_ROWS:
        depths = sorted(heights.filter(heights.is_finite()).to_list(), reverse=True)
    if len(depths) < _TAIL_ROWS:
        return share, sigmas * _SCATTER
    count = max(3, math.ceil(_TAIL_SHARE * len(depths)))
    return count / len(depths), max(depths[count - 1], _DEPTH_LEAST)


def _scatter(good: pl.DataFrame) -> float:
    """Return the robust standard deviation of a target's rate between surveys."""
    middle = pl.median("value").over("run", "metric")
    shares = good.filter(pl.col("value") > 0).with_columns(share=pl.col("value") / middle)
    usual = pl.median("share").over("metric", "target")
    off = shares.filter(pl.len().over("metric", "target") >= _SURVEYS_LEAST).select(
        (pl.col("share") / usual - 1).abs().median()
    )
    deviation = off.item() if off.height else None
    # With few surveys, deviations from their own median are biased low.
    return _SCATTER if deviation is None else max(1.4826 * float(deviation) * 1.2, 0.005)


def _level(bad: pl.DataFrame, good: pl.DataFrame, quantile: float = 0.5) -> float | None:
    """Return the lowest bad-over-good ratio of the median target over all metrics."""
    medians = [
        dict(frame.group_by("metric").agg(pl.col("value").quantile(quantile)).iter_rows())
        for frame in (bad, good)
    ]
    ratios = [medians[0][metric] / usual for metric, usual in medians[1].items()
              if usual and metric in medians[0]]  # fmt: skip
    return min(ratios, default=None)


def _left_of(bad: pl.DataFrame, good: pl.DataFrame, targets: Sequence[str]) -> float | None:
    """Return the rate retained by the slowest of these targets, bad over good."""
    key = ["metric", "target"]
    now, usual = (
        rows.filter(pl.col("target").is_in(list(targets)) & fit)
        .group_by(key)
        .agg(pl.median("value"))
        for rows, fit in ((bad, pl.lit(value=True)), (good, pl.col("value") > 0))
    )
    both = now.join(usual, on=key, suffix="_usual")
    least = (both["value"] / both["value_usual"]).min()
    return float(least) if isinstance(least, int | float) else None


def kinds_of_surveys(context: Context) -> tuple[str, ...]:
    """Return the benchmarks that surveyed single targets in the bad hours, as far as known."""
    frame = context.surveys
    if "run" not in frame.columns or "at" not in frame.columns:
        return ()
    kinds = {run.id: run.kind for run in context.runs}
    surveyed = {run for at, run in frame.select("at", "run").rows() if at and context.is_bad(at)}
    return tuple(sorted({kinds[run] for run in surveyed if run in kinds}))


def on_servers(context: Context) -> bool:
    """Return whether a survey of the bad hours ran on the servers; true if no kind is known."""
    kinds = kinds_of_surveys(context)
    return not kinds or ON_SERVERS in kinds


def survey_view(context: Context) -> View:
    """Return the instrument of the surveys of the bad hours; if unknown, the one that sees less."""
    return View.SURVEY_ON_SERVERS if on_servers(context) else View.SURVEY_OF_CLIENTS
