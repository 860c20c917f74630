"""Write amplification of the drives of an OST, by simulation of a miniature of it.

A miniature OST (`trimtab._core.OstFleet`) has ldiskfs's allocator and a page-mapped drive over one
space of addresses; files of log-normal sizes come and go at a constant fullness until layout and
amplification no longer depend on how it began. Beside each figure stand two closed forms for
writes at random: with nothing trimmed, and with all that is free trimmed. They are no bounds: files
that are written and deleted whole are kinder to a drive than writes at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final

from trimtab._core import OstFleet
from trimtab.twin.arrays import Array
from trimtab.twin.formulas import effective_spare, greedy
from trimtab.twin.scenario.model import AllocatorFamily
from trimtab.twin.simulation.layout import table, walks_per_request

_STEP: Final = 1 / 64
"""Of the capacity, written between two looks at the clock: trims cannot come more often."""
_STEP_LEAST: Final = 1 / 1024
"""The same beside a probe: the superblocks of the miniature are too large to show smaller runs."""
_WARM: Final = 3.0
"""Capacities written after the filling, which writes two more, before any is measured."""
_MEASURED: Final = 4.0
BURST_FILES: Final = 8
"""Files of a benchmark on one OST: 2,048 over 274 are 7 or 8."""


@dataclass(frozen=True, slots=True)
class Miniature:
    """How small an OST is simulated, and how often.

    Attributes
    ----------
    groups
        Block groups of 2,048 units.
    superblock_units
        Units that its drive erases at once: as in the simulation (`Resolution`), of which a sizing
        is the steady state; `trimtab.twin.scenario.miniatures` says how far sizes are off.
    """

    groups: int = 256
    superblock_units: int = 2048
    seeds: int = 2
    seed: int = 1


FINE: Final = Miniature()


@dataclass(frozen=True, slots=True)
class Probing:
    """Benchmarks, which delete what they wrote at once.

    Attributes
    ----------
    share
        Part of all writes that is theirs.
    run
        Capacities that one run of theirs writes: a run that fills many superblocks leaves whole
        ones behind, one that shares them with users' files does not.
    """

    share: float
    run: float

    @property
    def step(self) -> float:
        """Capacities that users and one run write together."""
        return min(max(self.run / self.share, _STEP_LEAST), _STEP)


def fine(probing: Probing | None = None) -> Miniature:
    """Return a miniature that is 3 % off at most for its size.

    Of few superblocks a probe's run leaves too little whole: beside one there are four times as
    many, which takes four times as long.
    """
    return FINE if probing is None else Miniature(groups=1024, superblock_units=1024)


@dataclass(frozen=True, slots=True)
class Case:
    """A drive, how full its OST is, and how it is trimmed.

    Attributes
    ----------
    trim_every
        Capacities of writes between two trims; ``None``: never.
    discard
        Whether each deletion is trimmed at once.
    family, thresholds
        Of the block allocator; thresholds as free parts.
    """

    spare: float
    fullness: float
    trim_every: float | None = None
    discard: bool = False
    family: AllocatorFamily = "classic"
    thresholds: tuple[float, float, float] = (0.25, 0.15, 0.05)


@dataclass(frozen=True, slots=True)
class Amplified:
    """Bytes that the flash programs for each byte that a drive is given.

    Attributes
    ----------
    error
        Standard error over seeds; ``None`` of one seed.
    walks
        Block groups that a request looks at in vain, in parts of all groups.
    untrimmed, trimmed
        Closed forms for writes at random places, nothing and everything free trimmed.
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
    miniature: Miniature | None = None,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
) -> list[Amplified]:
    """Return the write amplification of each case in its steady state.

    Parameters
    ----------
    probing
        Benchmarks beside users, if any.
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
    """Return the closed forms for writes at random: nothing trimmed, and everything free trimmed.

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
    """Miniature OSTs of one kind of drive, each trimmed in its own way."""

    def __init__(
        self,
        cases: Sequence[Case],
        spare: float,
        miniature: Miniature,
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
            separate=True,  # as the simulation has it
            seed=miniature.seed,
        )
        self._groups = miniature.groups
        for place, case in enumerate(cases):
            self._fleet.configure(
                [place], enter=case.thresholds, family=case.family, discard=case.discard
            )
        self._due = [case.trim_every or math.inf for case in cases]

    def run(self, tell: Callable[[float], None]) -> tuple[list[float], list[float]]:
        """Return amplification and walks a request of each, measured after it has settled."""
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
