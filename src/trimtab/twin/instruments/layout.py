"""Names of a simulated file system's targets and servers, and who serves what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from trimtab.twin.arrays import Integers
from trimtab.twin.scenario.model import Scenario

MDTS_PER_SERVER: Final = 2
CLIENT: Final = "nid001000"
"""The compute node that is looked at."""


@lru_cache(maxsize=64)
def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}{number:04d}" for number in range(count))


@dataclass(frozen=True, slots=True)
class Layout:
    """How many there are of everything.

    Attributes
    ----------
    osts
        Now; more when capacity was added.
    per_server
        OSTs of one OSS at home.
    """

    osts: int
    mdts: int
    per_server: int = 1

    @property
    def osses(self) -> tuple[str, ...]:
        """Names of the OSSs."""
        return _numbered("oss", -(-self.osts // self.per_server))

    @property
    def mdses(self) -> tuple[str, ...]:
        """Names of the MDSs."""
        return _numbered("mds", -(-self.mdts // MDTS_PER_SERVER))

    @property
    def home(self) -> Integers:
        """Number of each OST's home server."""
        return np.arange(self.osts) // self.per_server

    @property
    def partner(self) -> Integers:
        """Number of the server that takes each OST over; servers stand in pairs.

        The last of an odd number has none and keeps its OSTs, as in `simulation.faults.carriers`.
        """
        partner = self.home ^ 1
        return np.where(partner < len(self.osses), partner, self.home)


def layout_of(scenario: Scenario, osts: int | None = None) -> Layout:
    """Return the layout of a scenario, with ``osts`` where some were added."""
    count = scenario.osts.count if osts is None else osts
    return Layout(count, scenario.mdts.count, scenario.osts.per_server)
