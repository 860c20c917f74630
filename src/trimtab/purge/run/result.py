"""Result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.errors import Interrupted, RefusedError
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.messages import Objection, StopReason
from trimtab.purge.run.records import RunPace
from trimtab.report.documents.encode import shape
from trimtab.units import plural


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    Attributes
    ----------
    objections
        Objections of guards, also of a dry run that continued nevertheless.
    files, bytes, freed_bytes
        Files and bytes deleted, or that a dry run would delete.
    outcomes, outcome_bytes
        Rows by outcome, and their bytes as listed in the plan.
    before
        First measured usage of the file system.
    after, after_s, in_flight
        Usage after the last deletion, the seconds between, and the objects still being destroyed
        then. ``None`` if nothing was deleted, or usage was not measured since.
    unmeasured
        Why it was not measured.
    rows_left
        Rows of the plan not yet processed by any run.
    recovered_rows
        Rows of a batch begun by an interrupted run.
    undone_rows
        Rows deleted by an earlier run whose files exist again after a power failure.
    unexplained
        Files set aside that no row explains; an administrator must check them. Paths relative to
        the root.
    trim_due
        Whether space was freed that the drives do not know of yet.
    users
        Number of users who owned the files.
    pace
        Its speed.
    errors
        Failed rows by the system's error number.
    unwatched
        Whether changes of ctime alone could not be detected between a file's last check and its
        removal.
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
        """Whether space was freed that the drives do not know of yet."""
        return self.apply and self.freed_bytes > 0

    def refusal(self) -> RefusedError | None:
        """Return the error with the reason why nothing was deleted; ``None`` if the run began."""
        if self.reason is not StopReason.REFUSED:
            return None
        # One line: an error is shown with invisible characters escaped.
        reasons = "; ".join(objection.words for objection in self.objections)
        first = self.objections[0].hint if len(self.objections) == 1 else None
        many = plural(len(self.objections), "guard")
        return RefusedError(
            f"nothing was deleted, {many} object: {reasons}", code="guards-object", hint=first
        )


class RunInterrupted(Interrupted):
    """A signal ended a running run.

    Attributes
    ----------
    result
        Its result, as complete as that of a run that ended by itself.
    """

    def __init__(self, error: Interrupted, result: RunResult) -> None:
        super().__init__(error.message, error.hint)
        self.result = result


shape(
    RunResult,
    omit=["id", "apply", "errors", "unwatched"],
    derive={"run": "id", "applied": "apply", "trim_due": "trim_due"},
)
