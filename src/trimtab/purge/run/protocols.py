"""What a run asks of others: of what checks and deletes rows, and of the world around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.situation import Situation


class RemovalBatch(Protocol):
    """What a remover says of some rows."""

    @property
    def outcomes(self) -> bytes:
        """One code a row."""
        ...

    @property
    def freed_bytes(self) -> int:
        """What the deleted files took up."""
        ...

    @property
    def errors(self) -> Sequence[tuple[int, int]]:
        """Rows that were denied or failed, with the system's error."""
        ...

    @property
    def unexplained(self) -> Sequence[bytes]:
        """Files that an earlier run moved aside and that no row explains; relative to the root."""
        ...

    @property
    def elapsed_s(self) -> float:
        """How long it took."""
        ...

    @property
    def latency_s_median(self) -> float:
        """Of one row."""
        ...

    @property
    def latency_s_p99(self) -> float:
        """Of one row."""
        ...


class Remover(Protocol):
    """What checks and deletes rows of a plan: ``trimtab._core.Removal``."""

    @property
    def watches(self) -> bool | None:
        """Whether a change of the ctime alone is seen until the removal; ``None``: not known."""
        ...

    def check(self, first: int, count: int, /) -> RemovalBatch:
        """Say what would become of some rows, and touch nothing."""
        ...

    def delete(self, first: int, count: int, until_s: float | None = None, /) -> RemovalBatch:
        """Check some rows and delete those that may go, none after a moment of `boot_clock`."""
        ...

    def recover(self, first: int, count: int, /) -> RemovalBatch:
        """Say what became of rows that an interrupted process had begun to delete.

        What was moved aside is put back, or deleted if it may still go; every other row of them is
        deleted if it may. Asked of a remover for which nothing may go, it only puts back.
        """
        ...

    def take_over(self, first: int, count: int, quarantines: list[str], /) -> RemovalBatch:
        """See that runs of other hosts delete nothing any more, and say what became of their rows.

        Asked of a remover for which nothing may go.
        """
        ...

    def sweep(self) -> tuple[Sequence[tuple[int, int]], Sequence[bytes]]:
        """Put back what interrupted processes have left aside, by the whole plan.

        Asked of a remover for which nothing may go. Returns the rows whose files lay there with
        their codes, and the paths of what waits for a person.
        """
        ...


class Surroundings(Protocol):
    """The world of a run: clock, file system, and the facts that guards judge."""

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        ...

    def wait(self, seconds: float) -> None:
        """Return after a while; signals may end it by raising."""
        ...

    def measure(self) -> tuple[Usage, int | None]:
        """Return how full the file system is, and how many objects are still being destroyed."""
        ...

    def sync(self) -> None:
        """Return when the file system has on stable storage what was done to it."""
        ...

    def situation(self) -> Situation:
        """Return the facts as they are now; what cannot change while a run lasts may be old."""
        ...
