"""Names of a simulated file system, its targets, servers and devices, and their assignment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from trimtab.twin.arrays import Integers
from trimtab.twin.scenario.model import Scenario

MDTS_PER_SERVER: Final = 2
CLIENT: Final = "nid001000"
"""The compute node in snapshots."""


@lru_cache(maxsize=64)
def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}{number:04d}" for number in range(count))


@dataclass(frozen=True, slots=True)
class Layout:
    """Numbers of targets and servers; `simulation.faults.carriers` gives those that serve OSTs now.

    Attributes
    ----------
    osts
        Current number; grows when capacity is added.
    per_server
        OSTs per OSS without failover.
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


def layout_of(scenario: Scenario, osts: int | None = None) -> Layout:
    """Return the layout of a scenario, with ``osts`` if some were added."""
    count = scenario.osts.count if osts is None else osts
    return Layout(count, scenario.mdts.count, scenario.osts.per_server)


def identity_of(scenario: Scenario) -> str:
    """Return the identity of a scenario's file system."""
    return f"twin:{scenario.name}:{scenario.seed}"


def devices_of(scenario: Scenario) -> str:
    """Describe the devices beneath an OST, top down."""
    osts = scenario.osts
    return f"md0 ({osts.raid.kind}), {osts.raid.drives} x {osts.drive.name}"
