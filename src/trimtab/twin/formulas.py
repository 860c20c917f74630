"""Closed forms of write amplification, to validate simulated drives.

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
from typing import Final, Literal

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
