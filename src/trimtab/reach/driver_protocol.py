"""The driver protocol: what Trimtab needs of a file system, and the outcomes of changes to one.

Every method may return `NotAvailable` with the reason: a missing value is never an error and never
0. Wrong use (an unknown target or setting) raises `UsageError`, a safety rule raises
`RefusedError`, a failing tool raises `ToolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.base.action import Outcome
from trimtab.base.error import Message, RefusedError, ToolError, TrimtabError, UsageError, code_of
from trimtab.base.holder import Holders
from trimtab.base.inventory import ServerInventory
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot, Target, TrimPractice

if TYPE_CHECKING:
    from trimtab.reach.process import ProcessResult


Clock = Callable[[], datetime]
"""Returns the current time, aware UTC; the twin's is simulated."""

CAPABILITIES: Final = frozenset(
    {
        "settings",
        "set",
        "permanent",
        "trim",
        "creation",
        "allocator-reset",
        "placement",
        "run",
    }
)
"""All capabilities; `Driver.capabilities` is a subset."""


def check_range(start: int, length: int | None) -> None:
    """Check the range of a trim.

    Raises
    ------
    UsageError
        The range starts before the target or is empty.
    """
    if start < 0 or (length is not None and length <= 0):
        text = f"{start} and {length} are not the start and length of a range"
        raise UsageError(text, code="range-invalid")


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """Completed writes of a target's devices since they were attached, and their total time.

    Attributes
    ----------
    busy_s
        Sum of the durations of all writes, in seconds.
    """

    writes: int
    busy_s: float


class ChangelogRegistrar(Protocol):
    """Trimtab's changelog users on the MDTs of a file system."""

    def user(self, mdt: str) -> str | NotAvailable:
        """Return the user of an MDT, empty if it has none.

        Raises
        ------
        ToolError, DataError
            Its server fails, or its answer cannot be read.
        """
        ...

    def change(self, server: str, mdt: str, before: str, *, registered: bool) -> str | NotAvailable:
        """Register or remove the user of an MDT; return the resulting user, empty for none.

        Parameters
        ----------
        before
            The user the MDT had when the change was planned, empty for none.

        Raises
        ------
        RefusedError, ToolError
            As `Driver.set`; nothing is reverted.
        """
        ...


class Driver(Protocol):
    """One file system, as Trimtab reaches it.

    Every capability is a member, even if only one driver has it: a caller that looked a method up
    by name would mistake a renamed one for a missing one. Three drivers and an in-memory one (for
    tests) pass the same contract suite, ``tests/reach/test_contract.py``.
    """

    @property
    def name(self) -> str:
        """``local``, ``lustre``, ``twin`` or ``memory``, as snapshots record it."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """The members of `CAPABILITIES` that this driver currently has.

        An unlisted capability returns `NotAvailable`; a listed one still may for some targets.
        """
        ...

    @property
    def clock(self) -> Clock:
        """The clock of this file system; simulated for the twin."""
        ...

    def targets(self) -> tuple[Target, ...] | NotAvailable:
        """Return the targets: OSTs and MDTs, or the single file system of a local driver."""
        ...

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the telemetry of all targets, stamped with ``at`` exactly as given.

        Every target has every name of `TELEMETRY_UNITS`: either a value with its source, or the
        reason it is missing. ``complete`` is False if a target did not answer.
        """
        ...

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return every named setting of a target; an unreadable one has its reason.

        Raises
        ------
        UsageError
            There is no such target.
        """
        ...

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write a setting and return it as read back.

        Raises
        ------
        UsageError
            There is no such target or setting, or the system refuses the value.
        RefusedError
            The setting is not among those that may be written, or the value does harm that
            cannot be undone.
        ToolError
            What is read back is not what was written.
        """
        ...

    def set_permanent(self, target: str, name: str, value: str | None) -> str | NotAvailable:
        """Set a value that survives remounts; ``None`` removes it.

        Returns
        -------
        str
            The previous permanent value, empty if there was none.

        Raises
        ------
        UsageError, RefusedError, ToolError
            As `set` does.
        """
        ...

    @property
    def dead_man_s(self) -> float | NotAvailable:
        """Seconds after which servers revert an unconfirmed change, or why they never do.

        If they never do, the caller must revert its own changes.
        """
        ...

    def confirm(self) -> NotAvailable | None:
        """Confirm the changes of this thread, so that servers do not revert them (`dead_man_s`).

        Raises
        ------
        ToolError
            A change was already reverted or reads differently, or will be reverted because a server
            could not be reached.
        """
        ...

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Trim a byte range: tell the flash beneath a target which space is free.

        Returns
        -------
        int
            Bytes the file system reports as discarded. ext4 skips groups in which nothing was freed
            since the last trim; xfs discards all free space each time.

        Raises
        ------
        UsageError
            There is no such target, or the range is invalid.
        ToolError
            The trim failed or timed out.
        """
        ...

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return how a target is trimmed without Trimtab, with the evidence."""
        ...

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return a target's write times; the difference of two readings gives a mean latency."""
        ...

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Open or close a target to new files; existing files are unaffected."""
        ...

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Reset the block allocator's goal to the start of the target."""
        ...

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the names of the targets that hold a file's data, in stripe order."""
        ...

    def pools(self) -> Mapping[str, tuple[int, ...]] | NotAvailable:
        """Return the OST indices of each pool; empty if there are no pools."""
        ...

    @property
    def changelogs(self) -> ChangelogRegistrar | NotAvailable:
        """Trimtab's changelog users, or why the file system has no changelog."""
        ...

    def inventory(self) -> tuple[ServerInventory, ...] | NotAvailable:
        """Return what every machine is made of and set to; a silent one has the reason.

        One round trip to each, without rights of root.
        """
        ...

    def holders(self) -> Holders | NotAvailable:
        """Return who holds the space: use and limits of every user, group and project.

        Without names, which are those of the asking host.
        """
        ...

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Run a program on a server (``None``: this host) and return its result.

        No shell is involved. A program that fails is a result, not an error.
        """
        ...


_OF_CODES: Final = {
    "changed-by-others": Outcome.CHANGED,
    "server-unreachable": Outcome.UNREACHABLE,
    "program-not-found": Outcome.UNREACHABLE,
    "setting-not-kept": Outcome.NOT_STORED,
    "changelog-mask-short": Outcome.NOT_STORED,
    "answer-cut": Outcome.UNKNOWN,
    "answer-invalid": Outcome.UNKNOWN,
    "write-hangs": Outcome.UNKNOWN,
    "not-confirmed": Outcome.UNKNOWN,
    "read-back-failed": Outcome.UNKNOWN,
    "trim-hangs": Outcome.UNKNOWN,
    "partly-written": Outcome.UNKNOWN,
    "timed-out": Outcome.UNKNOWN,
}


def outcome_of(answer: object) -> tuple[Outcome, Message]:
    """Return the outcome of a change from the answer or error of `Driver.set`, `trim` etc.

    Parameters
    ----------
    answer
        The method's return value, or the error it raised.

    Examples
    --------
    >>> outcome_of(None)[0]
    <Outcome.DONE: 'done'>
    """
    if isinstance(answer, NotAvailable):
        code = code_of(answer.reason) or "not-available"
        return _OF_CODES.get(code, Outcome.SKIPPED), Message(code, answer.reason)
    if isinstance(answer, TrimtabError):
        outcome = _OF_CODES.get(answer.code)
        if outcome is None and isinstance(answer, (UsageError, RefusedError)):
            outcome = Outcome.REFUSED
        if outcome is None:
            outcome = Outcome.FAILED if isinstance(answer, ToolError) else Outcome.SKIPPED
        return outcome, Message(answer.code, answer.message)
    return Outcome.DONE, Message("done", "")
