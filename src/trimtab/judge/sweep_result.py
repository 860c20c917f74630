"""Results of a sweep over settings: the best setting, factor effects, and scaling with its knee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from trimtab.base.encode import shape
from trimtab.base.error import Message
from trimtab.base.run import Doubt, Run, RunStatus
from trimtab.base.verdict import Interval

SWEEP: Final = "sweep"
"""Key of `Run.parameters` for the sweep's name, the levels and the round."""
Level = str | int | float | bool


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One combination of levels with its measurements.

    Attributes
    ----------
    levels
        Factor to level.
    values
        Metric to one value per round, in the metric's unit: ``None`` if a round has none, 0 for an
        unfinished run. Rounds are in the same order for all points.
    doubts
        Metric to the reason why most runs have values but none is credible.
    """

    levels: Mapping[str, Level]
    values: Mapping[str, tuple[float | None, ...]]
    doubts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point of one round, and the run that measured it.

    Attributes
    ----------
    levels
        Factor to level, as in the sweep's file.
    round
        Counted from 0.
    run
        ``None`` if the point has not been measured yet.
    """

    levels: Mapping[str, Level]
    round: int
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class SettingResult:
    """One setting compared with the best.

    Attributes
    ----------
    levels
        Factor to level.
    middle
        Geometric mean over rounds, in the metric's unit; ``None`` if nothing was measured or a run
        did not finish.
    n
        Number of rounds behind it.
    of_best, of_best_interval
        Its rate over the best one's (for a time: the best one's over it), a fraction. The interval
        is adjusted for all compared settings (Hsu's constrained bounds): it ends at 1 if the
        setting differs significantly from the best, and at or above 1 if it may be the best.
    may_be_best
        Whether it is statistically tied with the best; ``None`` if unknown.
    reason
        Why there is no middle. Codes: ``not-measured``, ``not-believed``, ``unfinished-run``.
    """

    levels: Mapping[str, Level]
    middle: float | None
    n: int
    of_best: float | None = None
    of_best_interval: Interval | None = None
    may_be_best: bool | None = None
    reason: Message | None = None


@dataclass(frozen=True, slots=True)
class BestSetting:
    """The best setting of one metric in one workload, and those statistically tied with it.

    Attributes
    ----------
    workload
        Levels of the factors that are not free to choose, such as an application's transfer size.
    best
        The setting with the best middle; ``None`` if none has one.
    settings
        All settings, best first.
    method
        How the settings were compared.
    scatter
        Residual standard deviation after rounds and settings, as a fraction of the value.
    degrees
        Degrees of freedom of the scatter.
    reason
        Codes: ``best-distinct``, ``best-tied``, ``one-setting``, ``one-round``,
        ``no-setting-usable``.
    """

    metric: str
    unit: str
    workload: Mapping[str, Level]
    best: Mapping[str, Level] | None
    settings: tuple[SettingResult, ...]
    reason: Message
    method: str
    scatter: float | None = None
    degrees: int = 0

    @property
    def runners_up(self) -> tuple[SettingResult, ...]:
        """Settings statistically tied with the best, without it."""
        return tuple(setting for setting in self.settings[1:] if setting.may_be_best)


@dataclass(frozen=True, slots=True)
class FactorEffect:
    """The effect of one factor, or the interaction of two.

    Attributes
    ----------
    factors
        One name, or two for their interaction.
    share
        Share of the total scatter between runs (log scale), as a fraction.
    ratio
        Best level's mean over the worst one's, averaged over the others; ``None`` for an
        interaction.
    probability
        p-value of the share, adjusted for all factors and pairs (Holm); ``None`` if there is no
        residual to compare it with.
    matters
        Whether that is below 5 %; ``None`` if unknown.
    """

    factors: tuple[str, ...]
    share: float
    ratio: float | None
    probability: float | None
    matters: bool | None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A metric over two factors, the others fixed.

    Attributes
    ----------
    metric, unit
        Metric and unit of the cells.
    row_factor, column_factor
        Names of the two factors.
    rows, columns
        Levels of each, in the order in which they were first measured, numbers ascending.
    cells
        Geometric mean of each row and column, in ``unit``; ``None`` if nothing was measured. One
        tuple per row with one entry per column.
    fixed
        Levels of the other factors.
    """

    metric: str
    unit: str
    row_factor: str
    column_factor: str
    rows: tuple[Level, ...]
    columns: tuple[Level, ...]
    cells: tuple[tuple[float | None, ...], ...]
    fixed: Mapping[str, Level]


class ScalingShape(StrEnum):
    """How a rate depends on an increasing amount."""

    KNEE = "knee"
    """It grows up to the knee, and more slowly or not at all beyond."""
    GROWING = "growing"
    """No knee within the measured range: it grows to the end."""
    FLAT = "flat"
    """It does not grow: the smallest amount reaches the limit, or the limit is elsewhere."""
    FALLING = "falling"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The rate at one amount.

    Attributes
    ----------
    amount
        Level of the factor.
    middle
        Geometric mean over rounds, in the metric's unit.
    n
        Number of rounds with a value.
    """

    amount: float
    middle: float
    n: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """A rate against an amount: nodes, tasks per node, stripe count.

    Attributes
    ----------
    fixed
        Levels of the other factors.
    points
        By increasing amount.
    knee, knee_interval
        Amount at which two straight lines on log axes meet; ``None`` without one. The interval is
        limited to the measured amounts: an end there means "or beyond".
    growth, growth_after
        Exponent of the rate before and after the knee (1: twice the amount, twice the rate), or
        over all amounts without a knee.
    enough
        The smallest measured amount whose rate is within the margin of the best one.
    probability
        p-value of the knee, under the hypothesis of one straight line on log axes.
    reason
        Codes: ``knee``, ``growth-changes``, ``falling``, ``growing``, ``flat``, ``growth-unclear``,
        ``unfinished-run``, ``too-few-amounts``, ``too-few-runs``.
    """

    metric: str
    unit: str
    factor: str
    fixed: Mapping[str, Level]
    points: tuple[ScalingPoint, ...]
    shape: ScalingShape
    reason: Message
    knee: float | None = None
    knee_interval: Interval | None = None
    growth: float | None = None
    growth_interval: Interval | None = None
    growth_after: float | None = None
    enough: float | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class SweepAnalysis:
    """The complete analysis of a sweep.

    Attributes
    ----------
    points, rounds
        Number of combinations of levels, and of rounds.
    best
        One per metric and workload.
    effects
        Metric to factor effects, largest share first.
    maps
        One per metric, over the two factors with the largest effects.
    scaling
        One per metric and factor of amounts.
    """

    points: int
    rounds: int
    best: tuple[BestSetting, ...] = ()
    effects: Mapping[str, tuple[FactorEffect, ...]] | None = None
    maps: tuple[HeatMap, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    notes: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """``trimtab sweep --json``: progress and results."""

    store: str
    site: str
    name: str
    points: tuple[SweepPoint, ...]
    doubts: tuple[Doubt, ...]
    analysis: SweepAnalysis
    waiting: tuple[Mapping[str, Level], ...] = ()
    failures: tuple[str, ...] = ()


shape(
    SweepPoint,
    derive={
        "run": (str | None, lambda point: point.run and point.run.id),
        "status": (RunStatus | None, lambda point: point.run and point.run.status),
    },
)
shape(SweepAnalysis, omit=["points", "rounds"])
shape(SweepDocument, inline={"analysis": ()})
