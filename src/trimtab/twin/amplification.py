"""Write amplification in the steady state, simulated until it no longer changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from trimtab._core import FlashDrive, FlashWorkload
from trimtab.errors import UsageError
from trimtab.twin.formulas import Policy, amplification, effective_spare, separated

_SETTLED: Final = 5
"""Drive writes that are held against as many before them."""
_ALIKE: Final = 0.002
"""Relative difference under which two stretches of writes amplify alike."""
_WARM_MOST: Final = 200
_MEASURED: Final = 20
"""Drive writes that are measured once it is settled."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A drive and what is written to it.

    Attributes
    ----------
    spare
        Usable spare, as a part of the physical units; open and reserved superblocks come on top.
    units
        Pages to an erase block, or units to a superblock.
    live
        Part of the logical units that holds data; the rest is trimmed.
    hot
        Part of the live units, and the share of writes that goes to it.
    separate
        Whether copies fill superblocks of their own.
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
    """What a drive wrote for each unit that it was given.

    Attributes
    ----------
    error
        Standard error of ``simulated``, from one drive write to the next.
    formula
        What the closed form gives; ``None`` where there is none.
    bound
        Of hot and cold data kept wholly apart, which no drive betters; ``None`` without.
    warm, measured
        Drive writes until it was settled, and those that were measured.
    settled
        Whether it no longer changed when it was measured.
    """

    terms: Terms
    simulated: float
    error: float
    formula: float | None
    bound: float | None
    warm: int
    measured: int
    settled: bool

    @property
    def relative_error(self) -> float | None:
        """How far the simulation is off the formula, as a fraction of it."""
        return None if self.formula is None else self.simulated / self.formula - 1


def simulate(
    terms: Terms, progress: Callable[[str, float], None] = lambda text, fraction: None
) -> Amplification:
    """Return the write amplification of a drive in its steady state.

    Raises
    ------
    UsageError
        There can be no such drive or workload.
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
            str(error), code="out-of-range", hint="trimtab twin wa --help lists what it takes"
        ) from error
    host.fill(drive)
    seen: list[float] = []
    while not (settled := _is_settled(seen)) and len(seen) < _WARM_MOST:
        progress("until it is settled", min(0.5, len(seen) / (8 * _SETTLED)))
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


def _bound(terms: Terms, part: float, share: float) -> float:
    return separated(effective_spare(terms.spare, terms.live), terms.units, part, share)


def _one_drive_write(drive: FlashDrive, host: FlashWorkload) -> float:
    """Write as many units as the drive has, and return the amplification of these writes."""
    written, copied, _, _ = drive.counts
    host.run(drive, drive.logical)
    now_written, now_copied, _, _ = drive.counts
    return 1 + (now_copied - copied) / (now_written - written)


def _is_settled(seen: list[float]) -> bool:
    if len(seen) < 2 * _SETTLED:
        return False
    last, before = mean(seen[-_SETTLED:]), mean(seen[-2 * _SETTLED : -_SETTLED])
    return abs(last / before - 1) < _ALIKE
