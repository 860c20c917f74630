"""What a file system must offer so that Trimtab can look after it.

Every method may answer `NotAvailable` with the reason: a missing thing is never an error and
never a zero. Wrong use (a target or setting that does not exist) raises `UsageError`, what a
safety rule forbids raises `RefusedError`, a tool that fails raises `ToolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.errors import UsageError
from trimtab.model.telemetry import NotAvailable, Setting, Snapshot, Target
from trimtab.model.trim import TrimPractice

if TYPE_CHECKING:
    from trimtab.launch.process import ProcessResult

Clock = Callable[[], datetime]
"""Returns the time now, aware UTC; the twin's is simulated."""

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
"""What a driver may be able to do; `Driver.capabilities` is a part of these."""


def check_range(start: int, length: int | None) -> None:
    """Make sure that there can be such a range of a target to trim.

    Raises
    ------
    UsageError
        It begins before the target or is empty.
    """
    if start < 0 or (length is not None and length <= 0):
        text = f"{start} and {length} are not the start and length of a range"
        raise UsageError(text, code="range-invalid")


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """How many writes a target's devices completed since they were attached, and in what time.

    Attributes
    ----------
    busy_s
        Sum over the writes of the seconds that each took.
    """

    writes: int
    busy_s: float


class ChangelogUsers(Protocol):
    """Who of Trimtab reads the changelogs of a file system's MDTs."""

    def user(self, mdt: str) -> str | NotAvailable:
        """Return the user of an MDT, empty where it has none.

        Raises
        ------
        ToolError, DataError
            Its server fails, or says something else.
        """
        ...

    def change(self, server: str, mdt: str, before: str, *, registered: bool) -> str | NotAvailable:
        """Register the user of an MDT, or remove it; return the one it has then, empty for none.

        Parameters
        ----------
        before
            The user that the MDT had when it was planned, empty for none.

        Raises
        ------
        RefusedError, ToolError
            As `Driver.set` does; nothing is put back.
        """
        ...


class Driver(Protocol):
    """One file system, as Trimtab reaches it.

    Whatever a driver can do is a member, also where only one of them can: a caller that looked for
    it by its name would take a renamed method for one that is absent. Three implementations and one
    in memory (part of the tests) pass one contract suite, ``tests/drivers/test_contract.py``.
    """

    @property
    def name(self) -> str:
        """``local``, ``lustre``, ``twin`` or ``memory``: what snapshots carry as their driver."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What this driver can do here and now, out of `CAPABILITIES`.

        What is not listed answers `NotAvailable`; what is listed still may, for one target.
        """
        ...

    @property
    def clock(self) -> Clock:
        """The time that this file system lives in; simulated for the twin."""
        ...

    def targets(self) -> tuple[Target, ...] | NotAvailable:
        """Return the targets: OSTs and MDTs, or the one file system of a local driver."""
        ...

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the telemetry of all targets, stamped with ``at`` exactly as given.

        Every name of `TELEMETRY_UNITS` is there for every target, with a value and its source or
        without and with the reason. ``complete`` is False when a target did not answer.
        """
        ...

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return every named setting of a target, or why one that is known cannot be read.

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
        """Set a setting for every mount to come; ``None``: have it forgotten there.

        Returns
        -------
        str
            Its permanent value of before, empty where it had none.

        Raises
        ------
        UsageError, RefusedError, ToolError
            As `set` does.
        """
        ...

    @property
    def dead_man_s(self) -> float | NotAvailable:
        """After how many seconds servers put back what nobody confirmed, or why they never do.

        Where they never do, whoever changes something has to put it back.
        """
        ...

    def confirm(self) -> NotAvailable | None:
        """Let what this thread changed stay, where `dead_man_s` would have it put back.

        Raises
        ------
        ToolError
            Some of it was put back already or reads otherwise, or is going to be put back since a
            server could not be told.
        """
        ...

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Tell the flash beneath a target what is free, in the byte range given.

        Returns
        -------
        int
            How many bytes the file system says it handed to the device. ext4 leaves out groups in
            which nothing was freed since the last trim; xfs hands over all free space each time.

        Raises
        ------
        UsageError
            There is no such target, or the range is not one.
        ToolError
            The trim failed or did not end in its time.
        """
        ...

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return how trim happens on a target without Trimtab, and what the system shows of it."""
        ...

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return how long writes of a target have taken: the difference of two is a latency."""
        ...

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Open or close a target to new files; existing files are not touched."""
        ...

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Set the block allocator's goal back to the start of the target."""
        ...

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the names of the targets that hold a file's data, in stripe order."""
        ...

    def pools(self) -> Mapping[str, tuple[int, ...]] | NotAvailable:
        """Return the OSTs of each pool, by their index; empty where there are no pools."""
        ...

    @property
    def changelogs(self) -> ChangelogUsers | NotAvailable:
        """Who reads the changelogs, or why the file system has none."""
        ...

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Run a program on a server and return what came of it; ``None`` is this host.

        No shell stands in between. A program that fails is a result, not an error.
        """
        ...
