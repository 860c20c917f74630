"""What a fault is: something that changes the conditions of the hours in which it acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from tests.incidents.physics import CAPACITY_BYTES
from tests.incidents.system import Book, Conditions, Flags, State, System
from tests.incidents.world import Incident

PURGE_H = 12.0
"""In which a purge brings a full file system down again."""


@dataclass(slots=True)
class Mechanism:
    """One incident at work.

    Attributes
    ----------
    start, end
        Hours of the record; ``end`` is infinite for what lasts.
    where
        OSTs that it is about; none: the whole.
    because_of
        Cause that brings this one about.
    chain
        Causes that this one is followed by, or rests on: (cause, its ``because_of``).
    """

    VARIANTS: ClassVar[tuple[str, ...]] = ("plain",)

    system: System
    incident: Incident
    rng: Generator
    book: Book
    variant: str
    start: int
    end: float
    where: Flags
    because_of: str | None = None
    mitigation: bool = False
    chain: tuple[tuple[str, str | None], ...] = ()

    @property
    def strength(self) -> float:
        """How bad it is, 0 to 1."""
        return self.incident.strength

    @property
    def standing(self) -> bool:
        """Whether it is older than the record."""
        return self.start < 0

    def between(self, low: float, high: float) -> float:
        """Return what the strength makes of a range: ``low`` at 0, ``high`` at 1."""
        return low + (high - low) * self.strength

    def acts(self, hour: int) -> bool:
        """Return whether the hour lies within the incident."""
        return self.start <= hour < self.end

    def some(self, count: int) -> Flags:
        """Return so many OSTs drawn at random."""
        chosen = np.zeros(self.system.osts, dtype=bool)
        among = self.rng.choice(self.system.base_osts, min(count, self.system.base_osts), False)
        chosen[among] = True
        return chosen

    def prepare(self) -> None:
        """Draw what is random and write what stands in the log book."""

    def act(self, now: Conditions, state: State) -> None:
        """Change the conditions of one hour; called for every hour, before and after as well."""

    def log(
        self,
        kind: str,
        hour: float,
        detail: str,
        *,
        until: float | None = None,
        targets: bool = False,
        source: str = "person",
    ) -> None:
        """Write a line that belongs to this incident."""
        if until is not None and not np.isfinite(until):
            until = None
        self.book.write(
            kind,
            hour,
            detail,
            until=until,
            targets=self.system.names(self.where) if targets else None,
            source=source,
            of_incident=True,
        )


def fill_towards(now: Conditions, state: State, which: Flags, goal: float, hours: float) -> None:
    """Let data come (or go, where the goal is lower) so that the goal is met in so many hours."""
    missing = (goal - state.fullness) * CAPACITY_BYTES / max(hours, 1.0)
    now.fill = now.fill + np.where(which, missing, 0.0)
    # What comes is written; what goes is not.
    written = np.where(which, np.maximum(missing, 0.0), 0.0) / 3600
    now.user_write = now.user_write + written
