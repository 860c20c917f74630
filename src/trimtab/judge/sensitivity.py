"""Detection limits: the rate of a single slow target below which an instrument detects it.

A file-per-process probe over all targets ends with the slowest one::

    rate of each target  |####|####|#   |####|      every target holds a share b of the bytes
                                 ^
    the run takes T = bytes / bandwidth; a target at rate r takes b / r for its share,
    and is noticed when b / r > T by more than chance

Its clients limit it long before the targets do: Perlmutter's probe writes at 673 GB/s to 274 OSTs,
2.5 GB/s each, while an OST delivers 15 to 20 [S1, III, IV.B, VI.B]. An OST may lose four fifths of
its capability without the probe noticing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.judge.effect import minimum_detectable_effect
from trimtab.judge.spread import cov_text, effective_n_mean
from trimtab.units import format_bytes_per_s

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
    minimum detectable d (`effect.minimum_detectable_effect`). Every other target ends in its usual
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
