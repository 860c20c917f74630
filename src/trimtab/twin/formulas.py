"""Write amplification in closed form: what simulated drives are held against.

With A the amplification, S the spare factor (part of the physical units that is not for data) and
N units to a superblock, for writes to random units:

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
from typing import Any, Literal, cast

Policy = Literal["greedy", "fifo", "cost-benefit"]


def fifo(spare: float) -> float:
    """Return the amplification of a drive that cleans what was filled first.

    Examples
    --------
    >>> round(fifo(0.12), 3), round(fifo(0.5), 3)
    (4.348, 1.255)
    """
    from scipy.special import lambertw

    a = 1 / (1 - spare)
    return float(a / (a + lambertw(-a * math.exp(-a), 0).real))


def greedy(spare: float, units: int) -> float:
    """Return the amplification of a drive that cleans what holds least.

    Examples
    --------
    >>> round(greedy(0.12, 256), 3), round(greedy(0.07, 64), 3)
    (4.281, 6.598)
    """
    from scipy.optimize import brentq
    from scipy.special import digamma

    def excess(valid: float) -> float:
        span = digamma(units + 1) - digamma(valid + 1)
        return float((units - valid) / span - (1 - spare) * units)

    # With nothing valid in a victim the excess is least; with all of it, it is spare times units.
    if excess(0.0) >= 0:
        return 1.0
    valid = cast(float, brentq(excess, 0.0, units * (1 - 1e-12)))
    return units / (units - valid)


def effective_spare(spare: float, live: float) -> float:
    """Return the spare factor of a drive on which the part ``live`` of its units holds data.

    What was trimmed is as good as spare.

    Examples
    --------
    >>> round(effective_spare(0.12, 0.75), 2)
    0.34
    """
    return 1 - live * (1 - spare)


def amplification(policy: Policy, spare: float, units: int, live: float = 1.0) -> float | None:
    """Return what the formulas give for writes to random units; ``None``: there is none for it."""
    effective = effective_spare(spare, live)
    if policy == "greedy":
        return greedy(effective, units)
    return fifo(effective) if policy == "fifo" else None


def separated(spare: float, units: int, part: float, share: float) -> float:
    """Return the least amplification of hot and cold data that a drive keeps wholly apart.

    Parameters
    ----------
    part, share
        Part of the data that is hot, and the share of writes that goes to it.

    Notes
    -----
    Each temperature is a greedy drive of its own; the spare units are divided between them so
    that the sum of their amplifications, weighed with their shares of the writes, is least.
    """
    from scipy.optimize import minimize_scalar

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

    least: Any = minimize_scalar(together, bounds=(1e-3, 1 - 1e-3), method="bounded")
    return float(least.fun)
