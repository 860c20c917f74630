"""What was kept of a simulated stretch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.model.run import RunStatus
from trimtab.twin.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class TwinRun:
    """What was kept.

    Attributes
    ----------
    statuses
        Status of a run to how many have it.
    truth
        The files with what was really so; empty where the store is no file.
    """

    scenario: Scenario
    start: datetime
    end: datetime
    store: str
    site_file: Path
    truth: tuple[Path, ...]
    statuses: dict[RunStatus, int]
    surveys: int
    snapshots: int
    events: int
