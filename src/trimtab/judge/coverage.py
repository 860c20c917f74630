"""How often the interval of a comparison holds the truth: what to print where it is provisional.

The intervals are made for 95 %. How often they hold was measured on simulated hourly runs in
which nothing changed, through `trimtab.judge.compare.compare`: log-normal AR(1) noise with a COV
of 5 %. The table below is written by ``scripts/calibration.py``, which says how
(docs/calibration.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.judge.bootstrap import N_MINIMUM
from trimtab.model.compare import Basis, Effect

LEVEL: Final = 0.95
"""Of the intervals that were measured."""

# measured: begin
SERIES: Final = 300
"""Pairs of series behind each number."""

MEASURED: Final[dict[tuple[int, float], float]] = {
    (4, 0.0): 0.987,
    (4, 0.3): 0.94,
    (4, 0.5): 0.857,
    (4, 0.7): 0.703,
    (4, 0.9): 0.473,
    (6, 0.0): 0.967,
    (6, 0.3): 0.873,
    (6, 0.5): 0.76,
    (6, 0.7): 0.637,
    (6, 0.9): 0.387,
    (8, 0.0): 0.943,
    (8, 0.3): 0.863,
    (8, 0.5): 0.763,
    (8, 0.7): 0.59,
    (8, 0.9): 0.337,
    (12, 0.0): 0.977,
    (12, 0.3): 0.967,
    (12, 0.5): 0.96,
    (12, 0.7): 0.97,
    (12, 0.9): 0.843,
    (24, 0.0): 0.977,
    (24, 0.3): 0.987,
    (24, 0.5): 0.967,
    (24, 0.7): 0.943,
    (24, 0.9): 0.92,
    (48, 0.0): 0.977,
    (48, 0.3): 0.957,
    (48, 0.5): 0.96,
    (48, 0.7): 0.95,
    (48, 0.9): 0.927,
    (96, 0.0): 0.943,
    (96, 0.3): 0.953,
    (96, 0.5): 0.967,
    (96, 0.7): 0.96,
    (96, 0.9): 0.97,
    (168, 0.0): 0.97,
    (168, 0.3): 0.957,
    (168, 0.5): 0.947,
    (168, 0.7): 0.95,
    (168, 0.9): 0.953,
    (336, 0.0): 0.97,
    (336, 0.3): 0.947,
    (336, 0.5): 0.953,
    (336, 0.7): 0.97,
    (336, 0.9): 0.963,
}
"""(runs a side, autocorrelation of neighbours): share of intervals that held."""
# measured: end


@dataclass(frozen=True, slots=True)
class MeasuredCoverage:
    """How often an interval for 95 % held the truth.

    Attributes
    ----------
    n, autocorrelation
        Of the simulated runs: never more of the first nor less of the second than was asked for.
    share
        Of ``series`` pairs, whose interval held it.
    """

    n: int
    autocorrelation: float
    share: float
    series: int


def measured_coverage(n: int, autocorrelation: float) -> MeasuredCoverage | None:
    """Return how often the interval of a before/after ratio held in simulated runs like these.

    Parameters
    ----------
    n
        Runs on the smaller side.
    autocorrelation
        Of neighbouring runs, 0 to 1.

    Returns
    -------
    MeasuredCoverage | None
        Of the next smaller number of runs and the next larger autocorrelation that were tried;
        ``None`` where none was: fewer than 4 runs, more memory than 0.9.
    """
    sizes = [size for size, _ in MEASURED if size <= n]
    memories = [memory for _, memory in MEASURED if memory >= autocorrelation - 1e-9]
    if not sizes or not memories:
        return None
    place = (max(sizes), min(memories))
    return MeasuredCoverage(*place, MEASURED[place], SERIES)


def autocorrelation_of(effect: Effect) -> float | None:
    """Return the larger autocorrelation of the two sides; ``None`` where it is not known.

    Notes
    -----
    Solves n' = n (1 - phi) / (1 + phi) for phi: what `spread.effective_n_mean` was given.
    """
    found = []
    for side in (effect.before, effect.after):
        if side.n_effective is None or not side.n:
            return None
        found.append(max(0.0, (side.n - side.n_effective) / (side.n + side.n_effective)))
    return max(found)


def coverage_in_words(effect: Effect) -> str | None:
    """Return what was measured of intervals like that of ``effect``, to print beside it.

    ``None`` for an effect that has no interval, is not of runs, or rests on a week a side and
    more: there the interval holds what it says (docs/calibration.md).
    """
    if effect.basis is not Basis.RUNS or effect.provisional is False:
        return None
    interval, n = effect.ratio_interval, min(effect.before.n, effect.after.n)
    if interval is None or interval.level != LEVEL:
        return None
    if n < N_MINIMUM:
        # So few runs do not tell how much they resemble one another: say what hangs on it.
        return _of_few(n)
    memory = autocorrelation_of(effect)
    known = None if memory is None else measured_coverage(n, memory)
    if known is None:
        return (
            "runs that resemble one another this closely were not tried: nothing is known of how "
            "often such an interval holds"
        )
    return (
        f"intervals like this held the truth in {_percent(known.share)} of {known.series} "
        f"simulated comparisons, for {_percent(LEVEL)} that they are made for ({known.n} runs a "
        f"side, autocorrelation {known.autocorrelation:g})"
    )


def _of_few(n: int) -> str | None:
    best, worse = (measured_coverage(n, memory) for memory in (0.0, 0.5))
    if best is None or worse is None:
        return None
    return (
        f"with {n} runs a side the interval takes them as independent: it held the truth in "
        f"{_percent(best.share)} of {best.series} simulated comparisons where they were, in "
        f"{_percent(worse.share)} where neighbouring runs resembled one another "
        f"(autocorrelation {worse.autocorrelation:g})"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
