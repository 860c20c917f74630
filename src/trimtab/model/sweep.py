"""What a matrix of settings showed: the best of them, what matters, and where more stops paying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from trimtab.message import Message
from trimtab.model.run import Run
from trimtab.model.verdict import Interval

SWEEP: Final = "sweep"
"""Key of `Run.parameters` under which stand the sweep's name, the levels and the round."""
Level = str | int | float | bool


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One combination of levels with what was measured there.

    Attributes
    ----------
    levels
        Factor to level.
    values
        Metric to one value a round, in the metric's unit: ``None`` where a round has none, 0
        where a run did not finish. Rounds stand in the same order for all points.
    doubts
        Metric to the reason for which most runs have figures and none that is believed.
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
        Factor to level, as the sweep's file has them.
    round
        Counted from 0.
    run
        What was measured; ``None`` where nothing was yet.
    """

    levels: Mapping[str, Level]
    round: int
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class SettingResult:
    """One setting beside the best.

    Attributes
    ----------
    middle
        Geometric mean over rounds; ``None`` where nothing was measured or a run did not finish.
    n
        Rounds that it rests on.
    of_best, of_best_interval
        Its rate over the best one's (for a time: the best one's over it), a fraction; the
        interval allows for all settings that are compared. It ends at 1 where the setting is told
        apart from the best, and at or beyond it where it may be the best.
    may_be_best
        Whether it is statistically tied with the best; ``None`` where that is unknown.
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
        Levels of the factors that are no choice, such as the transfer size of an application.
    best
        The setting with the best middle; ``None`` where none has one.
    settings
        All of them, the best first.
    scatter
        Standard deviation of what rounds and settings leave, as a fraction of the value.
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
    """How much one factor, or two together beyond what each does, matters.

    Attributes
    ----------
    factors
        One name, or two for their interaction.
    share
        Of the whole scatter between runs (log scale), as a fraction.
    ratio
        Best level's mean over the worst one's, the others averaged; of an interaction ``None``.
    probability
        Of as large a share without any effect, adjusted for all factors and pairs (Holm);
        ``None`` where there is nothing to set it against.
    matters
        Whether that is under 5 %; ``None`` where it is not known.
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
    rows, columns
        Factor and its levels, in the order in which they were first measured, numbers rising.
    cells
        Geometric mean of each row and column; ``None`` where nothing was measured.
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


class Shape(StrEnum):
    """How a rate goes with something there is more and more of."""

    KNEE = "knee"
    """It grows up to the knee, and less or not at all beyond."""
    GROWING = "growing"
    """No knee within what was measured: it grows to the end."""
    FLAT = "flat"
    """It does not grow: the limit was reached at the least measured, or lies elsewhere."""
    FALLING = "falling"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """One amount and the rate there."""

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
        By rising amount.
    knee, knee_interval
        Where two straight lines on log axes meet; ``None`` without one. The interval ends where
        amounts were measured: an end there says "or beyond".
    growth, growth_after
        Exponent of the rate before and after the knee (1: twice the amount, twice the rate), or
        over the whole where there is no knee.
    enough
        The smallest amount measured that gives all but the margin of the best one.
    probability
        p-value of the knee: of as good a fit where the rate is one straight line on log axes.
    reason
        Codes: ``knee``, ``growth-changes``, ``falling``, ``growing``, ``flat``, ``growth-unclear``,
        ``unfinished-run``, ``too-few-amounts``, ``too-few-runs``.
    """

    metric: str
    unit: str
    factor: str
    fixed: Mapping[str, Level]
    points: tuple[ScalingPoint, ...]
    shape: Shape
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
    """Everything that a sweep showed.

    Attributes
    ----------
    best
        For each metric and workload.
    effects
        Metric to what matters, the largest share first.
    maps
        Metric by metric, over the two factors that matter most.
    scaling
        For each metric and factor of amounts.
    """

    points: int
    rounds: int
    best: tuple[BestSetting, ...] = ()
    effects: Mapping[str, tuple[FactorEffect, ...]] | None = None
    maps: tuple[HeatMap, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    notes: tuple[Message, ...] = ()
