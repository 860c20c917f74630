"""The answer to an effect, the smallest detectable loss, and what more targets should gain.

An effect with its interval is better, worse, no difference, or inconclusive.

Detection limits: the rate of a single slow target below which an instrument detects it. A
file-per-process probe over all targets ends with the slowest one::

    rate of each target  |####|####|#   |####|      every target holds a share b of the bytes
                                 ^
    the run takes T = bytes / bandwidth; a target at rate r takes b / r for its share,
    and is noticed when b / r > T by more than chance

Its clients limit it long before the targets do: Perlmutter's probe writes at 673 GB/s to 274 OSTs,
2.5 GB/s each, while an OST delivers 15 to 20 [S1, III, IV.B, VI.B]. An OST may lose four fifths of
its capability without the probe noticing.

Number of targets: a job of F equal files, spread over T targets as evenly as whole files allow,
puts ceil(F / T) of them on its fullest targets. If the targets are the limit, with r the rate of
one target and b the bytes of one file::

    fixed size   it ends with its fullest target: F b / (ceil(F / T) b / r) = r F / ceil(F / T)
    fixed time   every target that has a file is busy to the end:              r min(F, T)

so 2,048 files over 274 targets (7.47 per target: 8 on the fullest) keep 256 targets' worth of them
busy, and over 298 (6.87: 7 on the fullest) 292.6: a factor of 8 / 7, though targets grew by 8.8 %.
A file striped over all targets keeps T busy. If clients or network are the limit, none of this
holds and the factor is 1: `taken_out` detects this if the rate of a single target is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from trimtab.base.error import Message
from trimtab.base.units import format_bytes_per_s, format_percent, plural
from trimtab.base.verdict import Change, Interval
from trimtab.judge.comparison_result import Basis, Effect, EffectSide, TakenOut
from trimtab.judge.spread import cov_text, effective_n_mean

MEDIAN_COST: Final = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, for the same number of normal values."""

_POWER: Final = 2.8
"""1.96 for 95 % confidence and 0.84 for a power of 80 % (both normal)."""

UNDECIDED: Final = Message("inconclusive", "not decided yet")
"""The reason of an effect before `decided` is applied."""


def minimum_detectable_effect(
    scatter: float,
    n_before: float,
    n_after: float | None = None,
    *,
    statistic: str = "median",
) -> float:
    """Return the minimum detectable effect: power 80 %, confidence 95 %.

    Parameters
    ----------
    scatter
        COV of single runs, a fraction.
    n_before, n_after
        Effective number of independent runs on each side (`spread.effective_n_mean`);
        ``n_after`` defaults to ``n_before``.
    statistic
        ``median`` or ``mean``: what is compared.

    Returns
    -------
    float
        Relative difference, a fraction.

    Examples
    --------
    >>> round(minimum_detectable_effect(0.08, 48, statistic="mean"), 3)
    0.046
    >>> round(minimum_detectable_effect(0.08, 168, statistic="mean"), 3)
    0.024
    """
    second = n_before if n_after is None else n_after
    cost = MEDIAN_COST if statistic == "median" else 1.0
    return _POWER * cost * scatter * math.sqrt(1 / n_before + 1 / second)


def ratio_without(ratio: float | None, removed: TakenOut | None) -> float | None:
    """Return a measured ratio corrected for the number of targets, if that applies."""
    if ratio is None or removed is None or not removed.applied:
        return ratio
    return ratio / removed.factor


def interval_without(interval: Interval | None, removed: TakenOut | None) -> Interval | None:
    """Return the interval of a measured ratio corrected for the number of targets."""
    if interval is None or removed is None or not removed.applied:
        return interval
    return Interval(interval.low / removed.factor, interval.high / removed.factor)


def n_effective(side: EffectSide) -> float:
    """Return the effective number of independent values of a side, at least 1."""
    return max(1.0, side.n_effective or 1.0)


def decided(effect: Effect, *, more_is_better: bool) -> Effect:
    """Return the effect with its answer and reason.

    Notes
    -----
    ``no_difference``: the interval is within 1 / (1 + margin) and 1 + margin, whether or not it
    includes 1. ``better`` and ``worse``: it is not, and it excludes 1. Repetitions of single runs
    are always ``cannot_tell``.
    """
    change, reason = _decide(effect, more_is_better)
    return replace(effect, change=change, reason=reason)


def _decide(effect: Effect, more_is_better: bool) -> tuple[Change, Message]:
    if effect.ratio is None:
        return Change.CANNOT_TELL, _no_ratio(effect)
    size, interval = _size(effect, effect.ratio), effect.ratio_interval
    if interval is None:
        return Change.CANNOT_TELL, _no_interval(effect, size)
    if effect.basis is Basis.REPETITIONS:
        return Change.CANNOT_TELL, Message(
            "repetitions-only",
            f"inconclusive: {size} between repetitions of single runs, which vary less than runs "
            "on different days; compare at least four runs per side",
        )
    if 1 / (1 + effect.margin) < interval.low and interval.high < 1 + effect.margin:
        return Change.NO_DIFFERENCE, Message(
            "within-margin", f"{size}: within the margin of {format_percent(effect.margin)}"
        )
    if interval.low <= 1 <= interval.high:
        return Change.CANNOT_TELL, Message(
            "inconclusive", f"{size}: inconclusive, {_runs_required(effect, interval)}"
        )
    better = (interval.low > 1) == more_is_better
    change = Change.BETTER if better else Change.WORSE
    return change, Message(change.value, f"{size}: {change.value}")


def _no_ratio(effect: Effect) -> Message:
    for side, name in ((effect.before, "first"), (effect.after, "second")):
        if side.n == 0:
            return Message("side-empty", f"no values remain on the {name} side")
    return Message("median-zero", "the median of the first side is 0")


def _no_interval(effect: Effect, size: str) -> Message:
    if effect.basis is Basis.SUMMARY:
        return Message(
            "mean-near-zero", f"{size}; the first mean is not significantly different from 0"
        )
    if not effect.ratio:
        return Message(
            "ratio-zero",
            f"{size}; the median of the second side is 0: no interval for a ratio of 0",
        )
    if effect.before.unfinished or effect.after.unfinished:
        return Message(
            "unfinished-runs",
            f"{size}; unfinished runs count as 0, and a ratio with 0 has no interval",
        )
    runs = plural(min(effect.before.n, effect.after.n), "run")
    return Message(
        "too-few-runs", f"{size}; {runs} on one side: an interval needs at least four per side"
    )


def _size(effect: Effect, ratio: float) -> str:
    """Return the size of an effect as text: ``17.7 % lower (-18.6 to -16.8 %)``."""
    interval = effect.ratio_interval
    difference = format_percent(abs(ratio - 1))
    word = "higher" if ratio >= 1 else "lower"
    size = "the same" if difference == "0.0 %" else f"{difference} {word}"
    if interval is None:
        return size
    return f"{size} ({(interval.low - 1) * 100:+.1f} to {(interval.high - 1) * 100:+.1f} %)"


def _runs_required(effect: Effect, interval: Interval) -> str:
    """Return how many runs would give an answer, from the width of the interval."""
    if interval.low <= 0:
        return "a difference is neither shown nor ruled out"
    half = math.log(interval.high / interval.low) / 2
    times = (half / math.log(1 + effect.margin)) ** 2
    required = max(effect.before.n, effect.after.n) * times
    open_question = f"a {format_percent(effect.margin)} difference is neither shown nor ruled out"
    if not math.isfinite(required) or required > 1e6:
        return open_question
    return f"{open_question}; about {_round_up(required)} such runs per side would decide"


def _round_up(number: float) -> int:
    """Return the number rounded up to two digits: it is a rough estimate."""
    step = 10 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return math.ceil(number / step) * step


WEEK_OF_HOURLY_RUNS: Final = 168.0
"""Default number of earlier runs."""


@dataclass(frozen=True, slots=True)
class StripedProbe:
    """A probe whose files are spread evenly over many targets, and its usual performance.

    Attributes
    ----------
    bytes_moved
        Bytes of one phase (write or read), not the sum of both.
    targets
        Number of targets open for creation.
    bandwidth_bytes_per_s
        Usual bandwidth.
    cov
        COV of single runs, a fraction.
    autocorrelation
        Lag-1 autocorrelation of the runs, 0 to below 1.

    Raises
    ------
    ValueError
        A size, number or rate is not positive, the COV is negative, or the autocorrelation is
        outside its range.
    """

    bytes_moved: float
    targets: int
    bandwidth_bytes_per_s: float
    cov: float
    autocorrelation: float = 0.0

    def __post_init__(self) -> None:
        if min(self.bytes_moved, self.targets, self.bandwidth_bytes_per_s) <= 0 or self.cov < 0:
            raise ValueError(
                "bytes, targets and bandwidth must be greater than 0, the COV at least 0"
            )
        if not 0 <= self.autocorrelation < 1:
            raise ValueError("the autocorrelation must be at least 0 and below 1")


@dataclass(frozen=True, slots=True)
class NoticeLimit:
    """Detection limit of an instrument: the rate of one target below which it detects it.

    Attributes
    ----------
    notices_below_bytes_per_s
        A single target below this rate is detected with a power of 80 % or more.
    detectable
        Minimum detectable relative loss of bandwidth, a fraction.
    reason
        The limit as text.
    """

    notices_below_bytes_per_s: float
    detectable: float
    reason: str


def probe_limit(
    probe: StripedProbe, *, runs: float = 1, runs_before: float = WEEK_OF_HOURLY_RUNS
) -> NoticeLimit:
    """Return the rate of one target below which a probe over all of them detects it.

    Parameters
    ----------
    probe
        The probe and its usual performance.
    runs
        Number of runs with the slow target; more runs detect a smaller loss.
    runs_before
        Number of earlier runs that give the usual bandwidth.

    Returns
    -------
    NoticeLimit
        The limit in bytes per second, with the reason.

    Notes
    -----
    The usual run is limited elsewhere, and only the slow target delays its end: with a share b and
    the usual time T the bandwidth falls by d if b / r = T / (1 - d), so r = b (1 - d) / T for the
    minimum detectable d (`minimum_detectable_effect`). Every other target ends in its usual
    time: a lower bound of the effect if clients wait for each other.
    """
    usual_s = probe.bytes_moved / probe.bandwidth_bytes_per_s
    share_bytes = probe.bytes_moved / probe.targets
    detectable = _detectable(probe.cov, probe.autocorrelation, runs, runs_before)
    limit = share_bytes * (1 - detectable) / usual_s
    load = share_bytes * probe.bandwidth_bytes_per_s / probe.bytes_moved
    return NoticeLimit(
        notices_below_bytes_per_s=limit,
        detectable=detectable,
        reason=(
            f"needs {format_bytes_per_s(load)} from each of {probe.targets} targets and ends with "
            f"the slowest; a loss of {100 * detectable:.2g} % is detected, so a single target is "
            f"detected below {format_bytes_per_s(limit)}"
        ),
    )


def survey_limit(
    rate_bytes_per_s: float, cov: float, *, runs: float = 1, runs_before: float = 30
) -> NoticeLimit:
    """Return the rate of a target below which a survey of single targets detects it.

    Parameters
    ----------
    rate_bytes_per_s
        Usual rate of one target by itself.
    cov
        COV of one target from survey to survey, a fraction.
    runs, runs_before
        Number of surveys with the slow target, and of earlier ones.

    Returns
    -------
    NoticeLimit
        The limit in bytes per second, with the reason.

    Raises
    ------
    ValueError
        The rate is not greater than 0 or the COV is negative.
    """
    if rate_bytes_per_s <= 0 or cov < 0:
        raise ValueError("the rate must be greater than 0, the COV at least 0")
    detectable = _detectable(cov, 0.0, runs, runs_before)
    limit = rate_bytes_per_s * (1 - detectable)
    return NoticeLimit(
        notices_below_bytes_per_s=limit,
        detectable=detectable,
        reason=(
            f"each target is measured separately: usually {format_bytes_per_s(rate_bytes_per_s)} "
            f"with COV {cov_text(cov)}, so a loss of {100 * detectable:.2g} % is detected "
            f"(below {format_bytes_per_s(limit)})"
        ),
    )


def _detectable(cov: float, phi: float, runs: float, runs_before: float) -> float:
    """Return the smallest significant loss, at most 1."""
    after = max(1.0, effective_n_mean(runs, phi))
    before = max(1.0, effective_n_mean(runs_before, phi))
    # A single run is its own mean and median: the cost of a median applies to more.
    statistic = "mean" if after <= 2 else "median"
    return min(1.0, minimum_detectable_effect(cov, before, after, statistic=statistic))


LIMITING_SHARE: Final = 0.8
"""Share of its own rate below which a target is not the limit of the job."""

_DATA_METRICS: Final = frozenset({"write_bandwidth", "read_bandwidth", "rewrite_bandwidth"})


@dataclass(frozen=True, slots=True)
class TargetCount:
    """Number of targets on either side, and how the job is spread over them.

    Attributes
    ----------
    before, after
        Number of targets.
    files
        Files of the whole job, of equal size, each on one target; ``None``: one file over all
        targets.
    fixed_time
        Whether tasks run for a fixed time rather than until their file is complete.
    target_bytes_per_s
        Rate of one target by itself; ``None`` if unknown.
    """

    before: int
    after: int
    files: int | None = None
    fixed_time: bool = False
    target_bytes_per_s: float | None = None


def busy_targets(files: int | None, targets: int, *, fixed_time: bool = False) -> float:
    """Return the rate of a target-limited job in multiples of one target's rate.

    Examples
    --------
    >>> busy_targets(2048, 274), round(busy_targets(2048, 298), 1)
    (256.0, 292.6)
    >>> busy_targets(2048, 274, fixed_time=True), busy_targets(None, 274), busy_targets(8, 274)
    (274.0, 274.0, 8.0)
    """
    if targets < 1 or (files is not None and files < 1):
        raise ValueError(f"{files} files over {targets} targets")
    if files is None:
        return float(targets)
    if fixed_time:
        return float(min(files, targets))
    return files / -(-files // targets)


def taken_out(
    count: TargetCount,
    *,
    metric: str | None,
    unit: str,
    before: float | None,
    measured: tuple[float, Interval | None] | None = None,
) -> TakenOut:
    """Return the expected effect of the target counts, and whether to correct for it.

    Parameters
    ----------
    count
        Number of targets on either side.
    metric, unit
        Metric and unit of the comparison.
    before
        Median of the first side in the metric's unit: it gives the load of each target.
    measured
        The measured ratio with its interval.

    Notes
    -----
    The correction is applied only if ``target_bytes_per_s`` shows that the targets limit the job.
    Otherwise it would replace a measurement by an assumption.
    """
    busy = [
        busy_targets(count.files, targets, fixed_time=count.fixed_time)
        for targets in (count.before, count.after)
    ]
    factor = busy[1] / busy[0]
    spread = _in_words(count, factor)
    if unit != "B/s" or (metric is not None and metric not in _DATA_METRICS):
        reason = Message("not-data-rate", f"{spread}; not corrected: not a data rate")
        return TakenOut(factor, False, reason)
    if count.target_bytes_per_s is None:
        remaining, bounds = None, None
        if measured is not None:
            remaining = measured[0] / factor
            interval = measured[1]
            if interval is not None:
                bounds = Interval(interval.low / factor, interval.high / factor)
        reason = Message(
            "limit-unknown",
            f"{spread} if the targets limit the job, which is unknown: not corrected "
            "(give the rate of one target with --target-rate)",
        )
        return TakenOut(factor, False, reason, remaining, bounds)
    if before is None:
        return TakenOut(
            factor, False, Message("no-rate", f"{spread}; not corrected: no rate was measured")
        )
    rate_per_target = before / busy[0]
    share = rate_per_target / count.target_bytes_per_s
    load = (
        f"each target delivered {format_bytes_per_s(rate_per_target)}, {format_percent(share, 0)} "
        f"of the {format_bytes_per_s(count.target_bytes_per_s)} that it can"
    )
    if share < LIMITING_SHARE:
        reason = Message(
            "other-limit", f"{spread}; not corrected: {load}, so something else limits the job"
        )
        return TakenOut(factor, False, reason)
    return TakenOut(factor, True, Message("targets-limit", f"{spread}; corrected: {load}"))


def _in_words(count: TargetCount, factor: float) -> str:
    targets = f"{count.before} and {count.after} targets"
    if count.files is None:
        return f"a file over all of {targets} is expected to change the rate by {factor:.3f}"
    if count.fixed_time:
        spread = "for a fixed time"
    else:
        most = [-(-count.files // targets) for targets in (count.before, count.after)]
        spread = f"at most {most[0]} and {most[1]} files per target"
    return (
        f"{count.files:,} files over {targets}, {spread}, are expected to change the rate by "
        f"{factor:.3f}"
    )
