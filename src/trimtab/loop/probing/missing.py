"""Runs that hold no number: they say that a probe was due and why nothing was measured."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from trimtab.config.version import __version__
from trimtab.model.event import Event, EventKind
from trimtab.model.identifier import identifier_of
from trimtab.model.run import Run, RunStatus
from trimtab.record.comparability import ASKED


@dataclass(frozen=True, slots=True)
class Likeness:
    """What the last run of a probe was, so that a missing one stands in the same series.

    Attributes
    ----------
    kind
        The benchmark that ran.
    asked
        What it was asked; ``None`` when no run is known.
    """

    kind: str
    asked: object = None


def likeness_of(run: Run) -> Likeness:
    """Return what the next run of the probe will be like."""
    return Likeness(run.kind, run.parameters.get(ASKED))


SILENT: Final = (RunStatus.UNFINISHED, RunStatus.FAILED, RunStatus.NOT_STARTED)
"""Of such a run there may be no output that tells its parameters."""


def as_asked(run: Run, last: Likeness | None) -> Run:
    """Return a run in the series of the last one, where no output of its own says what was asked.

    A command that was killed has printed nothing of its parameters. The run counts as 0 all the
    same, and is to count where the others are: if it was asked what the last one was.
    """
    requested, before = run.parameters.get(ASKED), last.asked if last is not None else None
    if run.status not in SILENT or last is None:
        return run
    if not isinstance(requested, dict) or not isinstance(before, dict):
        return run
    if not all(name in before and before[name] == value for name, value in requested.items()):
        return run
    return replace(run, kind=last.kind, parameters={**run.parameters, ASKED: before})


@dataclass(frozen=True, slots=True)
class Absent:
    """A slot of a probe from which no run came."""

    site: str
    item: str
    due_at: datetime
    probe: str
    path: str

    @property
    def run_id(self) -> str:
        """The id of the slot's run, whatever comes of it; after every restart the same."""
        return identifier_of(self.due_at, self.site, self.item)

    def run(
        self, status: RunStatus, reason: str, like: Likeness, at: datetime | None = None
    ) -> Run:
        """Return the run that says so; ``at`` is when it was started, if it was."""
        parameters: dict[str, object] = {"due_at": self.due_at.isoformat()}
        if like.asked is not None:
            parameters[ASKED] = like.asked
        return Run(
            id=self.run_id,
            site=self.site,
            probe=self.probe,
            kind=like.kind,
            status=status,
            at=at or self.due_at,
            path=self.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters=parameters,
            problem=reason,
        )


def stretch(site: str, item: str, first: datetime, last: datetime, reason: str) -> Event:
    """Return the event that stands for more missed slots than anyone looks at one by one."""
    return Event(
        id=identifier_of(first, site, item, "missed"),
        site=site,
        kind=EventKind.LAUNCH_FAILURE,
        at=first,
        until=last,
        detail=f"no slot of {item} was begun: {reason}",
        source="watch",
    )
