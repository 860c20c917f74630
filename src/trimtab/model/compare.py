"""Two sides held against each other: what each is, and by how much the second differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.verdict import Interval


class Change(StrEnum):
    """The four answers to whether the second side differs from the first."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"
    """None that matters: the whole interval lies within the margin."""
    CANNOT_TELL = "cannot_tell"


class Basis(StrEnum):
    """What the numbers of a comparison are."""

    RUNS = "runs"
    """One number a run, the median of its repetitions."""
    REPETITIONS = "repetitions"
    """The repetitions of single runs: they know nothing of the scatter between days."""
    SUMMARY = "summary"
    """Mean, standard deviation and number alone, as published results have them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The numbers of one metric on one side.

    Attributes
    ----------
    values
        In the metric's unit, one a run; 0 for a run that did not finish.
    times
        When each was; empty where that is not known, and then the order is that of the runs.
    unfinished
        Which of the values are of runs that did not end in their time; empty: none.
    """

    values: tuple[float, ...]
    times: tuple[datetime, ...] = ()
    unfinished: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        for beside in (self.times, self.unfinished):
            if beside and len(beside) != len(self.values):
                raise ValueError(f"{len(beside)} facts about {len(self.values)} values")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a published result says of one side.

    Attributes
    ----------
    mean, deviation
        Mean and standard deviation (not the error of the mean), in base SI.
    n
        How many runs they are of.
    unit
        ``B/s``, ``1/s`` or ``s``.
    window_s
        How long the runs went on; ``None`` where that is not told.
    """

    mean: float
    deviation: float
    n: int
    unit: str
    metric: str | None = None
    layer: str | None = None
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of an effect rests on.

    Attributes
    ----------
    middle
        Median over runs, weighted where the comparison is; in a comparison of summaries the mean.
    n, n_effective
        How many numbers there are, and how many independent ones know the middle as well.
    cov
        Standard deviation over mean, as a fraction.
    unfinished
        Runs among them that did not end in their time and count as 0.
    washed_out
        Runs left out because they were too close to the change.
    """

    middle: float | None
    n: int
    n_effective: float | None = None
    cov: float | None = None
    from_: datetime | None = None
    to: datetime | None = None
    unfinished: int = 0
    washed_out: int = 0


@dataclass(frozen=True, slots=True)
class TakenOut:
    """A changed number of targets, and what it alone would have done to the rate.

    Attributes
    ----------
    factor
        Rate of the second side over that of the first that the targets make likely.
    applied
        Whether the effect is what remains beside it.
    reason
        What that rests on, or why it was not applied.
    remaining, remaining_interval
        The ratio that would be left without it, where nothing shows whether the targets limit:
        it is not applied then, and whoever knows that they do reads this.
    """

    factor: float
    applied: bool
    reason: str
    remaining: float | None = None
    remaining_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """By how much one metric of the second side differs from the first.

    Attributes
    ----------
    metric
        ``None`` where a published figure does not say.
    ratio, ratio_interval
        Second over first, after what was taken out; ``None`` with the reason in ``reason``.
    ratio_measured
        The same with nothing taken out.
    method
        How the interval came about, in words.
    detectable
        The smallest difference that had four chances in five of being seen with this many runs
        and the first side's scatter, as a fraction; ``None`` where nothing tells.
    margin
        Differences below it do not matter, as a fraction.
    provisional
        Whether a side lasted less than a week, so that some hours of the week stand for others;
        ``None`` where it is not known how long they lasted.
    weighted
        How hours of the week were balanced, or why they were not.
    """

    metric: str | None
    unit: str
    basis: Basis
    before: Side
    after: Side
    ratio: float | None
    ratio_interval: Interval | None
    ratio_measured: float | None
    method: str
    margin: float
    change: Change
    reason: str
    detectable: float | None = None
    provisional: bool | None = None
    weighted: str | None = None
    taken_out: TakenOut | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A parameter that the two sides were asked for differently; ``None`` where it is not set."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class SeriesComparison:
    """One series that both sides have, with an effect for each metric.

    Attributes
    ----------
    probe, kind
        Of the first side; ``probe_after`` where the second names it otherwise.
    layer
        Where in the stack it measures; ``None`` where that is not kept.
    differences
        What was asked differently: with any, two settings are compared rather than two times.
    asked
        What was asked of both.
    """

    probe: str
    probe_after: str
    kind: str
    layer: str | None
    effects: tuple[Effect, ...]
    differences: tuple[Difference, ...] = ()
    asked: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompareResult:
    """Everything that `trimtab compare A B` found.

    Attributes
    ----------
    before, after
        The two sides as they were named.
    only_before, only_after
        Series that one side alone has, in words.
    notes
        What a reader should know before the numbers.
    """

    before: str
    after: str
    margin: float
    level: float
    series: tuple[SeriesComparison, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    store: str | None = None
