"""What a run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.errors import Interrupted, RefusedError
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.messages import Objection, StopReason
from trimtab.purge.run.records import RunPace
from trimtab.units import plural


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to.

    Attributes
    ----------
    objections
        What guards said; of a dry run that went on all the same, too.
    files, bytes, freed_bytes
        Deleted, or in a dry run what would be.
    outcomes, outcome_bytes
        Rows by outcome, and their bytes as the plan lists them.
    before
        Use of the file system, as measured first.
    after, after_s, in_flight
        The same as measured once the last file was deleted, so many seconds after that, and how
        many objects were still being destroyed by then. ``None``: nothing was deleted, or it was
        not measured since.
    unmeasured
        Why it was not.
    rows_left
        Rows of the plan that no run has dealt with.
    recovered_rows
        Rows of a batch that an interrupted run had begun.
    undone_rows
        Rows that a run before had deleted and whose files are there: power was cut.
    unexplained
        Files that were found where files are moved aside, and that no row explains: a person has
        to look at them. Paths relative to the root.
    trim_due
        Space became free that the drives do not know of yet.
    users
        How many users the files belonged to.
    pace
        How fast it went.
    errors
        Rows that could not be dealt with, by the number of the system's error.
    unwatched
        Whether changes that move only the ctime could not be seen between a file's last look and
        its removal.
    """

    id: str
    apply: bool
    reason: StopReason
    text: str
    objections: tuple[Objection, ...]
    files: int
    bytes: int
    freed_bytes: int
    outcomes: Mapping[str, int]
    before: Usage | None
    after: Usage | None
    rows_left: int
    recovered_rows: int
    unexplained: tuple[bytes, ...]
    journal: Path
    undone_rows: int = 0
    users: int = 0
    pace: RunPace = field(default_factory=RunPace)
    after_s: float | None = None
    in_flight: int | None = None
    unmeasured: str = ""
    outcome_bytes: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    unwatched: bool = False

    @property
    def trim_due(self) -> bool:
        """Whether space became free that the drives do not know of yet."""
        return self.apply and self.freed_bytes > 0

    def refusal(self) -> RefusedError | None:
        """Return the error that says why nothing was deleted; ``None`` where the run began."""
        if self.reason is not StopReason.REFUSED:
            return None
        # One line: an error is shown with what cannot be seen written as an escape.
        reasons = "; ".join(objection.words for objection in self.objections)
        first = self.objections[0].hint if len(self.objections) == 1 else None
        many = plural(len(self.objections), "guard")
        return RefusedError(
            f"nothing was deleted, {many} object: {reasons}", code="guards-object", hint=first
        )


class RunInterrupted(Interrupted):
    """A signal ended a run that was under way.

    Attributes
    ----------
    result
        What it had come to: as complete as that of a run that ended by itself.
    """

    def __init__(self, error: Interrupted, result: RunResult) -> None:
        super().__init__(error.message, error.hint)
        self.result = result
