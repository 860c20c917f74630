"""Simulate the steady-state write amplification of a drive, and compare it with closed forms.

With A the amplification, S the spare factor (fraction of the physical units that is not for data)
and N units per superblock, for writes to random units:

========================  ====================================================================
FIFO, or very large N     A = a / (a + W0(-a exp(-a))), a = 1 / (1 - S)
greedy                    A = N / (N - X), X from (N - X) / (psi(N+1) - psi(X+1)) = (1 - S) N
part u of the data live   S becomes 1 - u (1 - S)
========================  ====================================================================

P. Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012; L. Xiang and B. Kurkoski,
"An improved analytic expression for write amplification in NAND flash", ICNC 2012; T. Frankie et
al., "The effect of trim requests on write amplification in solid state drives", 2012. W0 is the
principal branch of Lambert's function, psi the digamma function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final, Literal

from trimtab._core import FlashDrive, FlashWorkload
from trimtab.base.encode import shape
from trimtab.base.error import UsageError

Policy = Literal["greedy", "fifo", "cost-benefit"]

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS_MAXIMUM: Final = 1000
_DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
"""B(2n) / 2n, the coefficients of the asymptotic series of digamma."""


def fifo(spare: float) -> float:
    """Return the amplification of a drive that cleans the oldest superblock first.

    Examples
    --------
    >>> round(fifo(0.12), 3), round(fifo(0.5), 3)
    (4.348, 1.255)
    """
    a = 1 / (1 - spare)
    return a / (a - _conjugate(a))


def _conjugate(a: float) -> float:
    """Return the y < 1 for which y exp(-y) = a exp(-a), a > 1: less W0(-a exp(-a)).

    Newton's steps for log y - y, which is concave and rises: from the left they stay there.
    """
    goal = math.log(a) - a
    y = math.exp(goal)
    for _ in range(_STEPS_MAXIMUM):
        step = (goal - math.log(y) + y) * y / (1 - y)
        y += step
        if not 1e-16 * y < step < 1 - y:
            break
    return y


def greedy(spare: float, units: int) -> float:
    """Return the amplification of a drive that cleans the superblock with the least data.

    Examples
    --------
    >>> round(greedy(0.12, 256), 3), round(greedy(0.07, 64), 3)
    (4.281, 6.598)
    """
    whole = _digamma(units + 1)

    def excess(valid: float) -> float:
        return (units - valid) / (whole - _digamma(valid + 1)) - (1 - spare) * units

    # The excess is minimal with nothing valid in a victim; fully valid, it is spare times units.
    if excess(0.0) >= 0:
        return 1.0
    low, high = 0.0, units * (1 - 1e-12)
    while high - low > 4e-16 * high:
        valid = (low + high) / 2
        low, high = (valid, high) if excess(valid) < 0 else (low, valid)
    return units / (units - high)


def _digamma(x: float) -> float:
    """Return the derivative of log Gamma at x > 0, by its recurrence and asymptotic series."""
    shift = 0.0
    while x < 10:
        shift -= 1 / x
        x += 1
    square, series = 1 / (x * x), 0.0
    for coefficient in reversed(_DIGAMMA):
        series = square * (coefficient + series)
    return shift + math.log(x) - 0.5 / x - series


def effective_spare(spare: float, live: float) -> float:
    """Return the spare factor of a drive with data on a fraction ``live`` of its units.

    Trimmed units count as spare.

    Examples
    --------
    >>> round(effective_spare(0.12, 0.75), 2)
    0.34
    """
    return 1 - live * (1 - spare)


def amplification(policy: Policy, spare: float, units: int, live: float = 1.0) -> float | None:
    """Return the formulas' result for writes to random units; ``None`` without a formula."""
    effective = effective_spare(spare, live)
    if policy == "greedy":
        return greedy(effective, units)
    return fifo(effective) if policy == "fifo" else None


def separated(spare: float, units: int, part: float, share: float) -> float:
    """Return the least amplification with hot and cold data fully separated.

    Parameters
    ----------
    part, share
        Fraction of the data that is hot, and its share of writes.

    Notes
    -----
    Each temperature is a separate greedy drive; the spare units are divided between them so that
    the sum of their amplifications, weighted by their shares of writes, is minimal.
    """
    data = 1 - spare

    def together(hot_spare: float) -> float:
        spares = (hot_spare * spare, (1 - hot_spare) * spare)
        sizes = (part * data, (1 - part) * data)
        each = (
            greedy(spare / (spare + size), units) for spare, size in zip(spares, sizes, strict=True)
        )
        return sum(
            weight * amplification
            for weight, amplification in zip((share, 1 - share), each, strict=True)
        )

    low, high = 1e-3, 1 - 1e-3
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = together(left), together(right)
    while high - low > 1e-7:  # any closer, rounding decides
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = together(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = together(right)
    return min(at_left, at_right)


_SETTLED: Final = 5
"""Drive writes that are compared with as many before them."""
_ALIKE: Final = 0.002
"""Relative difference below which the amplification counts as unchanged."""
_WARM_MOST: Final = 200
_MEASURED: Final = 20
"""Drive writes that are measured in the steady state."""


@dataclass(frozen=True, slots=True)
class DriveTerms:
    """A drive and its workload.

    Attributes
    ----------
    spare
        Usable spare, as a fraction of the physical units; open and reserved superblocks come on
        top.
    units
        Pages per erase block, or units per superblock.
    live
        Fraction of the logical units with data; the rest is trimmed.
    hot
        Fraction of the live units that is hot, and its share of writes.
    separate
        Whether copies go to separate superblocks.
    """

    spare: float
    units: int = 256
    superblocks: int = 2048
    policy: Policy = "greedy"
    live: float = 1.0
    hot: tuple[float, float] | None = None
    separate: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Amplification:
    """Units that a drive wrote per host unit.

    Attributes
    ----------
    error
        Standard error of ``simulated``, from one drive write to the next.
    formula
        Result of the closed form; ``None`` if there is none.
    bound
        Lower bound, with hot and cold data fully separated; ``None`` without hot data.
    warm, measured
        Drive writes until the steady state, and those that were measured.
    settled
        Whether the steady state was reached.
    """

    terms: DriveTerms
    simulated: float
    error: float
    formula: float | None
    bound: float | None
    warm: int
    measured: int
    settled: bool

    @property
    def relative_error(self) -> float | None:
        """Deviation of the simulation from the formula, as a fraction of it."""
        return None if self.formula is None else self.simulated / self.formula - 1


def simulate(
    terms: DriveTerms, progress: Callable[[str, float], None] = lambda text, fraction: None
) -> Amplification:
    """Return the write amplification of a drive in its steady state.

    Raises
    ------
    UsageError
        The drive or workload is impossible.
    """
    try:
        drive = FlashDrive(
            terms.superblocks,
            terms.units,
            terms.spare,
            policy=terms.policy,
            separate=terms.separate,
            seed=terms.seed,
        )
        host = FlashWorkload(drive.logical, live=terms.live, hot=terms.hot, seed=terms.seed)
    except ValueError as error:
        raise UsageError(
            str(error), code="out-of-range", hint="trimtab twin wa --help lists valid values"
        ) from error
    host.fill(drive)
    seen: list[float] = []
    while not (settled := _is_settled(seen)) and len(seen) < _WARM_MOST:
        progress("reaching the steady state", min(0.5, len(seen) / (8 * _SETTLED)))
        seen.append(_one_drive_write(drive, host))
    reported: list[float] = []
    for number in range(_MEASURED):
        progress("measuring", 0.5 + number / (2 * _MEASURED))
        reported.append(_one_drive_write(drive, host))
    progress("measured", 1.0)
    mixed = terms.hot is not None
    return Amplification(
        terms=terms,
        simulated=mean(reported),
        error=stdev(reported) / math.sqrt(len(reported)),
        formula=None
        if mixed
        else amplification(terms.policy, terms.spare, terms.units, terms.live),
        bound=None if terms.hot is None else _bound(terms, *terms.hot),
        warm=len(seen),
        measured=len(reported),
        settled=settled,
    )


def _bound(terms: DriveTerms, part: float, share: float) -> float:
    return separated(effective_spare(terms.spare, terms.live), terms.units, part, share)


def _one_drive_write(drive: FlashDrive, host: FlashWorkload) -> float:
    """Perform one drive write and return its amplification."""
    written, copied, _, _ = drive.counts
    host.run(drive, drive.logical)
    now_written, now_copied, _, _ = drive.counts
    return 1 + (now_copied - copied) / (now_written - written)


def _is_settled(seen: list[float]) -> bool:
    if len(seen) < 2 * _SETTLED:
        return False
    last, before = mean(seen[-_SETTLED:]), mean(seen[-2 * _SETTLED : -_SETTLED])
    return abs(last / before - 1) < _ALIKE


@dataclass(frozen=True, slots=True)
class AmplificationDocument:
    """Units that a drive writes per unit from the host, in steady state."""

    amplification: Amplification
    drive: str | None


shape(Amplification, derive={"relative_error": "relative_error"})
shape(AmplificationDocument, inline={"amplification": ()})
