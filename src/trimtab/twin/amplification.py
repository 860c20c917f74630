"""Simulates the steady-state write amplification of a drive."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from trimtab._core import FlashDrive, FlashWorkload
from trimtab.errors import UsageError
from trimtab.report.documents.encode import shape
from trimtab.twin.formulas import Policy, amplification, effective_spare, separated

_SETTLED: Final = 5
"""Drive writes that are compared with as many before them."""
_ALIKE: Final = 0.002
"""Relative difference below which the amplification counts as unchanged."""
_WARM_MOST: Final = 200
_MEASURED: Final = 20
"""Drive writes that are measured in the steady state."""


@dataclass(frozen=True, slots=True)
class Terms:
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
        """Deviation of the simulation from the formula, as a fraction of it."""
        return None if self.formula is None else self.simulated / self.formula - 1


def simulate(
    terms: Terms, progress: Callable[[str, float], None] = lambda text, fraction: None
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


def _bound(terms: Terms, part: float, share: float) -> float:
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
