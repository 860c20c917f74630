"""Expected effect of the number of targets on the rate of a job: derived, with assumptions.

A job of F equal files, spread over T targets as evenly as whole files allow, puts ceil(F / T) of
them on its fullest targets. If the targets are the limit, with r the rate of one target and b the
bytes of one file::

    fixed size   it ends with its fullest target: F b / (ceil(F / T) b / r) = r F / ceil(F / T)
    fixed time   every target that has a file is busy to the end:              r min(F, T)

so 2,048 files over 274 targets (7.47 per target: 8 on the fullest) keep 256 targets' worth of them
busy, and over 298 (6.87: 7 on the fullest) 292.6: a factor of 8 / 7, though targets grew by 8.8 %.
A file striped over all targets keeps T busy. If clients or network are the limit, none of this
holds and the factor is 1: `taken_out` detects this if the rate of a single target is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.message import Message
from trimtab.model.compare import TakenOut
from trimtab.model.verdict import Interval
from trimtab.units import format_bytes_per_s, format_percent

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
