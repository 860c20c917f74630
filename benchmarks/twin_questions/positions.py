"""What follows from the measured miniatures: what an OST would write, and up to which fullness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.hardware import OstHardware, hardware
from trimtab.twin.simulation.ost_array import ceilings_of
from trimtab.twin.simulation.ost_rate import throttling

SHARE: Final = 0.9
"""Of what an OST writes at the reference fullness: under it a limit is passed."""
REFERENCE: Final = 0.60

Case = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """Miniatures that are alike.

    Attributes
    ----------
    cases
        As `layouts.measure` returns them.
    """

    scale: dict[str, Any]
    cases: list[Case]

    @property
    def title(self) -> str:
        """Its size and how its drive fills superblocks."""
        apart = "apart" if self.scale["separate"] else "mixed"
        return f"{self.scale['groups']} x {self.scale['superblock_units']}, {apart}"

    def find(self, **said: Any) -> list[Case]:
        """Return the cases that are kept so, by fullness; what is not said is the default."""
        asked = {"resets": 0.0, "trim": "never", "probe": False, "purge": False} | said
        found = [case for case in self.cases if all(case[name] == asked[name] for name in asked)]
        return sorted(found, key=lambda case: case["fullness"])


def kinds(result: dict[str, Any], **said: Any) -> Iterator[Kind]:
    """Yield the kinds of miniatures whose scale is so."""
    for one in result["layouts"]["kinds"]:
        if all(one["scale"][name] == said[name] for name in said):
            yield Kind(one["scale"], one["cases"])


def writes(cases: Sequence[Case], *, searching: bool) -> np.ndarray:
    """Return what an OST of Perlmutter would write, bytes a second, one a case.

    Parameters
    ----------
    searching
        Whether the processor's time for useless loops counts; else it is the drives alone.
    """
    scenario, machine = _machine()
    amplification = np.array([case["write_amplification"][0] for case in cases])
    walks = np.array([case["walks_per_request"][0] for case in cases])
    found = ceilings_of(machine).rates(
        amplification,
        window=throttling(scenario, amplification),
        groups_considered=walks * machine.groups * searching,
    )
    return found.write


def limit(cases: Sequence[Case], *, searching: bool) -> float | None:
    """Return the fullness from which an OST writes under `SHARE` of what it writes at 60 %.

    Straight lines lie between what was measured; ``None``: it never does.
    """
    full = [case["fullness"] for case in cases]
    left = writes(cases, searching=searching)
    left = left / left[full.index(REFERENCE)]
    for place in range(full.index(REFERENCE) + 1, len(full)):
        if left[place] < SHARE:
            before = left[place - 1]
            part = (before - SHARE) / (before - left[place])
            return float(full[place - 1] + part * (full[place] - full[place - 1]))
    return None


def crossing(cases: Sequence[Case], ceiling_bytes_per_s: float) -> float | None:
    """Return the fullness from which the drives write less than a ceiling above them."""
    full = [case["fullness"] for case in cases]
    left = writes(cases, searching=False)
    under = np.flatnonzero(left < ceiling_bytes_per_s)
    if not under.size:
        return None
    place = int(under[0])
    if place == 0:
        return full[0]
    part = (left[place - 1] - ceiling_bytes_per_s) / (left[place - 1] - left[place])
    return float(full[place - 1] + part * (full[place] - full[place - 1]))


@cache
def _machine() -> tuple[Scenario, OstHardware]:
    scenario = load_scenario("perlmutter")
    return scenario, hardware(scenario.osts, scenario.server)
