"""The result of a run, and whether it freed what its plan allowed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trimtab.base.error import Interrupted, Message, RefusedError, ToolError
from trimtab.base.units import format_bytes, format_percent, plural
from trimtab.purge.fullness import Usage
from trimtab.purge.run.exchange import Objection, StopReason
from trimtab.purge.run.journal_line import RunPace
from trimtab.purge.run.rows import CAPPED, DELETED, NOT_BEGUN
from trimtab.show.encode import Problem, shape


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


WAITS: Final = frozenset({"published", "armed", "caps"})
"""Guards whose objections end by themselves or by an approval; a nightly timer often meets them."""
EXCUSED: Final = frozenset(
    {
        "gone",
        "touched",
        "changed_owner",
        "changed_project",
        "changed_size",
        "changed_mtime",
        "changed_atime",
        "ctime_only",
        "changed_type",
        "moved",
        "replaced",
        "other_links",
        "open",
        "immutable",
        "exempt",
        "too_small",
        "too_young",
        "put_back",
    }
)
"""Outcomes caused by users and exemptions between plan and run.

The rest are errors, or unknown to this host.
"""
SHORT: Final = 0.9
"""A run that freed less than this fraction of the bytes without an excused outcome fell short.

A healthy run frees all of them; a run stops by itself at a tenth of rows with trouble
(`trimtab.purge.run.next_step.RunTerms`).
"""

_FAILED: Final = frozenset(
    {
        StopReason.OBJECTION,
        StopReason.NOT_SETTLED,
        StopReason.NOT_FREED,
        StopReason.TROUBLES,
        StopReason.INTERRUPTED,
        StopReason.FAILED,
    }
)


def waits(result: RunResult) -> bool:
    """Whether a run was refused only because it is too early."""
    return result.reason is StopReason.REFUSED and all(
        objection.guard in WAITS for objection in result.objections
    )


def shortfall(result: RunResult) -> Message | None:
    """Return why a run deleted less than planned; ``None`` if it did what it could.

    Notes
    -----
    Only rows that the run reached count, because a reached target, a cap and the end time are
    normal ends. Bytes are those listed in the plan, because deleting one of several names frees
    nothing.
    """
    if result.reason is StopReason.REFUSED:
        if waits(result):
            return None
        reasons = "; ".join(objection.words for objection in result.objections)
        return Message("purge-refused", f"it was refused ({reasons})")
    if result.reason in _FAILED:
        return Message("purge-stopped", f"it was stopped: {result.text}")
    sizes = result.outcome_bytes
    due_bytes = sum(
        size for name, size in sizes.items() if name not in {*EXCUSED, CAPPED, NOT_BEGUN}
    )
    done_bytes = sizes.get(DELETED, 0)
    if done_bytes >= SHORT * due_bytes:
        return None
    worst = max(
        (size, name)
        for name, size in sizes.items()
        if name not in {*EXCUSED, CAPPED, NOT_BEGUN, DELETED}
    )
    return Message(
        "purge-short",
        f"it deleted {format_bytes(done_bytes)} of the {format_bytes(due_bytes)} "
        f"({format_percent(done_bytes / due_bytes)}) that users had not used or removed; of the "
        f"rest {format_bytes(worst[0])} are {worst[1].replace('_', ' ')}",
    )


GOES_ON: Final = "what was deleted is in the journal: the same command goes on with the rest"
"""What an interruption of a run leaves."""


def error_of(result: RunResult) -> Problem | None:
    """Return why a run did not do what was asked; ``None`` where it did as far as it may.

    A cap that is reached and a plan without more files are how runs end.
    """
    match result.reason:
        case StopReason.REFUSED:
            return result.refusal()
        case StopReason.INTERRUPTED:
            return Interrupted(result.text, GOES_ON)
        case StopReason.OBJECTION:
            hint = result.objections[0].hint if result.objections else None
            return RefusedError(
                f"the run was stopped: {result.text}", code="run-stopped", hint=hint
            )
        case (
            StopReason.NOT_SETTLED
            | StopReason.NOT_FREED
            | StopReason.TROUBLES
            | StopReason.OVERTAKEN
        ):
            return ToolError(f"the run was stopped: {result.text}", code="run-stopped")
        case _:
            return None
