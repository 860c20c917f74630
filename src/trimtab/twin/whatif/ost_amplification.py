"""Write amplification of an OST's drives, by simulating a miniature of it.

A miniature OST (`trimtab._core.OstFleet`) has ldiskfs's allocator and a page-mapped drive over one
space of addresses; files of log-normal sizes are created and deleted at constant fullness until
layout and amplification no longer depend on the initial state. Each figure comes with two closed
forms for random writes: with nothing trimmed, and with all free space trimmed. They are not bounds:
files that are written and deleted as a whole are easier on a drive than random writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from trimtab._core import OstFleet
from trimtab.twin.amplification import effective_spare, greedy
from trimtab.twin.scenario import AllocatorFamily
from trimtab.twin.simulation.miniature import table, walks_per_request
from trimtab.twin.simulation.ost_array import Array

_STEP: Final = 1 / 64
"""Fraction of the capacity written per step: trims cannot be more frequent."""
_STEP_LEAST: Final = 1 / 1024
"""The same with a probe: the miniature's superblocks are too large for smaller runs."""
_WARM: Final = 3.0
"""Capacities written before measuring, after filling, which writes two more."""
_MEASURED: Final = 4.0
BURST_FILES: Final = 8
"""Files of a benchmark per OST: 2,048 over 274 OSTs are 7 or 8."""


@dataclass(frozen=True, slots=True)
class MiniatureSize:
    """Size of the miniature OST, and number of seeds.

    Attributes
    ----------
    groups
        Block groups of 2,048 units.
    superblock_units
        Units its drive erases at once, as in the simulation (`trimtab.twin.scenario.Resolution`),
        whose steady state a sizing is; see `trimtab.twin.scenario_fact` for the error of each size.
    """

    groups: int = 256
    superblock_units: int = 2048
    seeds: int = 2
    seed: int = 1


FINE: Final = MiniatureSize()


@dataclass(frozen=True, slots=True)
class Probing:
    """Benchmarks, which delete their files immediately.

    Attributes
    ----------
    share
        Their fraction of all writes.
    run
        Capacities written by one run: a run that fills many superblocks leaves whole ones free, one
        that shares them with users' files does not.
    """

    share: float
    run: float

    @property
    def step(self) -> float:
        """Capacities written by users and one run together."""
        return min(max(self.run / self.share, _STEP_LEAST), _STEP)


def fine(probing: Probing | None = None) -> MiniatureSize:
    """Return a miniature whose size causes an error of at most 3 %.

    With few superblocks a probe's run leaves too few whole ones free: with a probe there are four
    times as many, which takes four times as long.
    """
    return FINE if probing is None else MiniatureSize(groups=1024, superblock_units=1024)


@dataclass(frozen=True, slots=True)
class Case:
    """A drive, the fullness of its OST, and its trims.

    Attributes
    ----------
    trim_every
        Capacities of writes between two trims; ``None``: never.
    discard
        Whether each deletion is trimmed at once.
    family, thresholds
        Of the block allocator; thresholds as free fractions.
    """

    spare: float
    fullness: float
    trim_every: float | None = None
    discard: bool = False
    family: AllocatorFamily = "classic"
    thresholds: tuple[float, float, float] = (0.25, 0.15, 0.05)


@dataclass(frozen=True, slots=True)
class Amplified:
    """Flash bytes programmed per byte written to the drive.

    Attributes
    ----------
    error
        Standard error over seeds; ``None`` for one seed.
    walks
        Block groups searched in useless loops per request, as a fraction of all groups.
    untrimmed, trimmed
        Closed forms for random writes, with nothing and with all free space trimmed.
    """

    case: Case
    simulated: float
    error: float | None
    walks: float
    untrimmed: float
    trimmed: float


def amplify(
    cases: Sequence[Case],
    *,
    probing: Probing | None = None,
    miniature: MiniatureSize | None = None,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
) -> list[Amplified]:
    """Return the write amplification of each case in its steady state.

    Parameters
    ----------
    probing
        Benchmarks in addition to users, if any.
    miniature
        ``None``: `fine`.
    """
    miniature = miniature or fine(probing)
    amplified: dict[Case, Amplified] = {}
    spares = sorted({case.spare for case in cases})
    for number, spare in enumerate(spares):
        same_spare = list(dict.fromkeys(case for case in cases if case.spare == spare))
        share = len(same_spare) / len(set(cases))
        before = number / len(spares)

        def tell(fraction: float, before: float = before, share: float = share) -> None:
            progress("simulating write amplification", min(1.0, before + fraction * share))

        fleet = _Fleet(same_spare * miniature.seeds, spare, miniature, probing)
        values, walks = fleet.run(tell)
        for place, case in enumerate(same_spare):
            places = slice(place, None, len(same_spare))
            amplified[case] = _summed(
                case, values[places], walks[places], miniature.superblock_units
            )
    progress("simulated", 1.0)
    return [amplified[case] for case in cases]


def formulas(case: Case, superblock_units: int = FINE.superblock_units) -> tuple[float, float]:
    """Return the closed forms for random writes: nothing trimmed, and all free space trimmed.

    Examples
    --------
    >>> [round(form, 2) for form in formulas(Case(0.12, 0.75))]
    [4.34, 1.69]
    """
    whole = greedy(case.spare, superblock_units)
    return whole, greedy(effective_spare(case.spare, case.fullness), superblock_units)


def _summed(
    case: Case, values: Sequence[float], walks: Sequence[float], superblock_units: int
) -> Amplified:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Amplified(case, mean(values), error, mean(walks), *formulas(case, superblock_units))


class _Fleet:
    """Miniature OSTs with one kind of drive, each with its own trims."""

    def __init__(
        self,
        cases: Sequence[Case],
        spare: float,
        miniature: MiniatureSize,
        probing: Probing | None,
    ) -> None:
        self._cases = cases
        self._step_capacities = probing.step if probing else _STEP
        self._probe_share = probing.share if probing else 0.0
        self._fleet = OstFleet(
            len(cases),
            spare=spare,
            groups=miniature.groups,
            superblock_units=miniature.superblock_units,
            separate=True,  # as in the simulation
            seed=miniature.seed,
        )
        self._groups = miniature.groups
        for place, case in enumerate(cases):
            self._fleet.configure(
                [place], enter=case.thresholds, family=case.family, discard=case.discard
            )
        self._due = [case.trim_every or math.inf for case in cases]

    def run(self, tell: Callable[[float], None]) -> tuple[list[float], list[float]]:
        """Return each one's amplification and walks per request, in the steady state."""
        self._fleet.fill([case.fullness for case in self._cases])
        each = self._step_capacities
        steps = round((_WARM + _MEASURED) / each)
        before = None
        for number in range(1, steps + 1):
            self._step(number * each)
            if number == round(_WARM / each):
                before = self._counts()
            tell(number / steps)
        assert before is not None
        passed = self._counts() - before
        walks = walks_per_request(passed, self._groups)
        return (1 + passed[1] / passed[0]).tolist(), walks.tolist()

    def _step(self, done: float) -> None:
        n = len(self._cases)
        probe = self._step_capacities * self._probe_share
        users = self._step_capacities - probe
        files = BURST_FILES if probe > 0 else 0
        nothing = [0.0] * n
        self._fleet.advance([users] * n, [users] * n, nothing, [probe] * n, [files] * n, nothing)
        due = [place for place in range(n) if done >= self._due[place] - 1e-9]
        if due:
            self._fleet.trim(due)
        for place in due:
            every = self._cases[place].trim_every or math.inf
            self._due[place] = max(self._due[place] + every, done)

    def _counts(self) -> Array:
        return table(self._fleet)
