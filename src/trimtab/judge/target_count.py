"""What a changed number of targets alone does to the rate of a job: derived, with its assumption.

A job of F equal files, spread over T targets as evenly as whole files can be, puts ceil(F / T) of
them on its fullest targets. Where the targets limit, with r the rate of one target and b the bytes
of one file::

    fixed size   it ends with its fullest target: F b / (ceil(F / T) b / r) = r F / ceil(F / T)
    fixed time   every target that has a file is busy to the end:              r min(F, T)

so 2,048 files over 274 targets (7.47 a target: 8 on the fullest) keep 256 targets' worth of them
busy, and over 298 (6.87: 7 on the fullest) 292.6: a factor of 8 / 7, though targets grew by 8.8 %.
A file striped over all targets keeps T busy. Where clients or network limit, nothing of this holds
and the factor is 1: `taken_out` finds that out when it is told what one target does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.model.compare import TakenOut
from trimtab.model.verdict import Interval
from trimtab.units import format_bytes_per_s, format_percent

LIMITING_SHARE: Final = 0.8
"""A target asked for less than this of what it does is not what limits the job."""

_DATA_METRICS: Final = frozenset({"write_bandwidth", "read_bandwidth", "rewrite_bandwidth"})


@dataclass(frozen=True, slots=True)
class TargetCount:
    """How many targets either side had, and how the job spread over them.

    Attributes
    ----------
    files
        Of the whole job, of equal size, each on one target; ``None``: one file over all targets.
    fixed_time
        Whether tasks go on until a time is over, rather than until their file is whole.
    target_bytes_per_s
        What one target does by itself; ``None`` where that is not known.
    """

    before: int
    after: int
    files: int | None = None
    fixed_time: bool = False
    target_bytes_per_s: float | None = None


def busy_targets(files: int | None, targets: int, *, fixed_time: bool = False) -> float:
    """Return how many targets' rates a job that its targets limit gets.

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
    """Return what the targets alone make of the ratio, and whether that is to be taken out.

    Parameters
    ----------
    before
        The first side's middle in the metric's unit: it tells how much each target was asked for.
    measured
        The ratio that was measured, with its interval.

    Notes
    -----
    It is taken out only where ``target_bytes_per_s`` shows that the targets limit the job: what
    was measured is a fact, and what the targets made of it without that an assumption.
    """
    busy = [
        busy_targets(count.files, targets, fixed_time=count.fixed_time)
        for targets in (count.before, count.after)
    ]
    factor = busy[1] / busy[0]
    spread = _in_words(count, factor)
    if unit != "B/s" or (metric is not None and metric not in _DATA_METRICS):
        return TakenOut(factor, False, f"{spread}; not taken out: it is no rate of data")
    if count.target_bytes_per_s is None:
        left, bounds = None, None
        if measured is not None:
            left = measured[0] / factor
            interval = measured[1]
            if interval is not None:
                low, high = interval.low / factor, interval.high / factor
                bounds = Interval(low, high, interval.level)
        return TakenOut(
            factor,
            False,
            f"{spread} if the targets limit the job, which nothing here shows: not taken out "
            "(--target-rate says what one target does)",
            left,
            bounds,
        )
    if before is None:
        return TakenOut(factor, False, f"{spread}; not taken out: there is no rate to go by")
    asked = before / busy[0]
    share = asked / count.target_bytes_per_s
    load = (
        f"a target was asked for {format_bytes_per_s(asked)}, {format_percent(share, 0)} of the "
        f"{format_bytes_per_s(count.target_bytes_per_s)} that it does"
    )
    if share < LIMITING_SHARE:
        why = f"{spread}; not taken out: {load}, so something else limits the job"
        return TakenOut(factor, False, why)
    return TakenOut(factor, True, f"{spread}; taken out: {load}")


def _in_words(count: TargetCount, factor: float) -> str:
    targets = f"{count.before} and {count.after} targets"
    if count.files is None:
        return f"a file over all of {targets} would change the rate by {factor:.3f}"
    if count.fixed_time:
        how = "for a fixed time"
    else:
        most = [-(-count.files // targets) for targets in (count.before, count.after)]
        how = f"{most[0]} and {most[1]} of them on the fullest"
    return f"{count.files:,} files over {targets}, {how}, would change the rate by {factor:.3f}"
