"""The interface of a run to its surroundings."""

from __future__ import annotations

from typing import Protocol

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.situation import Situation


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
