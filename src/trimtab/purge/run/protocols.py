"""Interfaces of a run to the remover, which checks and deletes rows, and to its surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.situation import Situation


class RemovalBatch(Protocol):
    """A remover's results for some rows."""

    @property
    def outcomes(self) -> bytes:
        """One code per row."""
        ...

    @property
    def freed_bytes(self) -> int:
        """Allocated bytes of the deleted files."""
        ...

    @property
    def errors(self) -> Sequence[tuple[int, int]]:
        """Rows denied or failed, with the system's error number."""
        ...

    @property
    def unexplained(self) -> Sequence[bytes]:
        """Files set aside by an earlier run that no row explains; relative to the root."""
        ...

    @property
    def elapsed_s(self) -> float:
        """Time taken, in seconds."""
        ...

    @property
    def latency_s_median(self) -> float:
        """Latency of a row, in seconds."""
        ...

    @property
    def latency_s_p99(self) -> float:
        """Latency of a row, in seconds."""
        ...


class Remover(Protocol):
    """Checks and deletes rows of a plan: ``trimtab._core.Removal``."""

    @property
    def watches(self) -> bool | None:
        """Whether changes of ctime alone are detected until the removal; ``None`` if unknown."""
        ...

    def check(self, first: int, count: int, /) -> RemovalBatch:
        """Return what would become of some rows, without changing anything."""
        ...

    def delete(self, first: int, count: int, until_s: float | None = None, /) -> RemovalBatch:
        """Check some rows and delete those allowed, none after a time of `boot_clock`."""
        ...

    def recover(self, first: int, count: int, /) -> RemovalBatch:
        """Return what became of rows that an interrupted process had begun to delete.

        Files set aside are restored, or deleted if still allowed; all other rows are deleted if
        allowed. A restorer, which may delete nothing, only restores.
        """
        ...

    def take_over(self, first: int, count: int, quarantines: list[str], /) -> RemovalBatch:
        """Stop runs of other hosts from deleting, and return what became of their rows.

        Called only on a restorer, which may delete nothing.
        """
        ...

    def sweep(self) -> tuple[Sequence[tuple[int, int]], Sequence[bytes]]:
        """Restore files that interrupted processes set aside, for the whole plan.

        Called only on a restorer, which may delete nothing. Returns the rows of these files with
        their codes, and the paths of files that need an administrator.
        """
        ...


class Surroundings(Protocol):
    """Surroundings of a run: clock, file system, and facts for the guards."""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait; signals may end it by raising."""
        ...

    def measure(self) -> tuple[Usage, int | None]:
        """Return usage, and the number of objects still being destroyed, if known."""
        ...

    def sync(self) -> None:
        """Synchronise all changes of the file system to stable storage."""
        ...

    def situation(self) -> Situation:
        """Return the current facts; those that cannot change during a run may be cached."""
        ...
