"""The stored result of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.model.run import RunStatus
from trimtab.report.documents.encode import shape
from trimtab.twin.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class TwinRun:
    """The stored result.

    Attributes
    ----------
    statuses
        Status to number of runs.
    truth
        The files with the truth; empty if the store is not a file.
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


shape(
    TwinRun,
    omit=["statuses"],
    derive={"scenario": "scenario.name", "seed": "scenario.seed", "runs": "statuses"},
)
