"""What OSTs take, and up to which fullness that is enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trimtab.twin.scenario.model import Osts, Server
from trimtab.twin.stack import ost
from trimtab.twin.stack.hardware import hardware
from trimtab.whatif.sizing.amplifying import Amplified
from trimtab.whatif.sizing.figure import Figure, Section
from trimtab.whatif.sizing.request import DAY_S, SizingRequest

_STACK = "the twin's layers: drives x write x data/(data+parity) x RAID / write amplification"


def ost_write_bytes_per_s(
    request: SizingRequest, amplification: float, *, from_clients: bool
) -> float:
    """Return what one OST writes: alone, as obdfilter-survey sees it, or through clients."""
    machine = hardware(Osts(1, request.drive, request.raid), Server())
    rates = ost.rates(machine, np.array([amplification]), from_clients=from_clients)
    return float(rates.write[0])


def fullest(curve: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """Return the greatest fullness at which a rate that falls with it is still enough.

    Parameters
    ----------
    curve
        Fullness and rate, fullness rising.

    Returns
    -------
    float or None
        Between two points by a straight line; the last where all are enough; ``None`` where not
        even the first is.

    Examples
    --------
    >>> round(fullest([(0.5, 20.0), (0.7, 10.0), (0.9, 6.0)], 12.0), 3)
    0.66
    """
    if curve[0][1] < wanted:
        return None
    for (before, high), (after, low) in pairwise(curve):
        if low < wanted:
            return before + (after - before) * (high - wanted) / (high - low)
    return curve[-1][0]


def section(
    request: SizingRequest, osts: int, amplified: Amplified, curve: Sequence[Amplified]
) -> tuple[Section, list[str]]:
    """Return bandwidth and the fullness that it allows, and what is missing."""
    wa = amplified.simulated
    fresh = ost_write_bytes_per_s(request, 1.0, from_clients=False)
    alone = ost_write_bytes_per_s(request, wa, from_clients=False)
    through = ost_write_bytes_per_s(request, wa, from_clients=True)
    whole = osts * through
    points = [
        (
            point.case.fullness,
            osts * ost_write_bytes_per_s(request, point.simulated, from_clients=True),
        )
        for point in curve
    ]
    wanted, limit, why = request.write_bytes_per_s, None, None
    if wanted is None:
        why = "no --write-bandwidth to hold it against"
    elif (limit := fullest(points, wanted)) is None:
        why = f"not even {points[0][0]:.0%} full it writes as much as wanted"
    needed = request.gross_daily_bytes / DAY_S
    figures = (
        Figure("ost_write_fresh_bytes_per_s", "write of a fresh OST", fresh, "B/s",
               "write amplification 1", _STACK),
        Figure("ost_write_bytes_per_s", "write of an OST alone", alone, "B/s",
               "at write_amplification, as obdfilter-survey sees it", _STACK),
        Figure("write_bytes_per_s", "write of all, through clients", whole, "B/s",
               "osts x OST behind network and clients, enough of them and no other load", _STACK),
        Figure("mean_write_bytes_per_s", "what a day's writes need", needed, "B/s",
               "(daily writes + probes) / 86,400 s", "a mean: bursts need many times this"),
        Figure("fullness_for_bandwidth", "fullness that the wanted write allows", limit, "1",
               "where write_bytes_per_s falls to it, straight lines between simulated points",
               f"simulated at {points[0][0]:.0%} to {points[-1][0]:.0%}", why),
    )  # fmt: skip
    short = []
    if wanted is not None and whole < wanted:
        short.append(
            f"{osts} OSTs write {whole / 1e9:,.0f} GB/s, not the {wanted / 1e9:,.0f} GB/s wanted"
        )
    if whole < needed:
        short.append(
            f"a day's writes need {needed / 1e9:,.0f} GB/s all day, more than all OSTs write"
        )
    return Section("bandwidth", figures), short
