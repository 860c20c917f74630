"""A remover that remembers which calls failed, and why: the outcomes of rows do not say it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab._core import Removal, RemovalBatch


class Notes:
    """What the system said, of all removers of one run."""

    def __init__(self) -> None:
        self._errors: Counter[int] = Counter()

    def take(self, batch: RemovalBatch) -> RemovalBatch:
        """Remember what a batch has to tell, and return it."""
        self._errors.update(number for _, number in batch.errors)
        return batch

    def sentences(self) -> tuple[str, ...]:
        """Return it, a sentence each, the most frequent first."""
        return tuple(
            f"{plural(count, 'row', ',')} could not be dealt with: {os.strerror(number)}"
            for number, count in self._errors.most_common()
        )


class NotedRemover:
    """The core's remover, with somebody who takes notes."""

    def __init__(self, removal: Removal, notes: Notes) -> None:
        self._removal, self._notes = removal, notes

    def check(self, first: int, count: int) -> RemovalBatch:
        """Say what would become of some rows."""
        return self._noted(self._removal.check, first, count)

    def delete(self, first: int, count: int) -> RemovalBatch:
        """Check some rows and delete those that may go."""
        return self._noted(self._removal.delete, first, count)

    def recover(self, first: int, count: int) -> RemovalBatch:
        """Say what became of rows that an interrupted process had begun to delete."""
        return self._noted(self._removal.recover, first, count)

    def _noted(
        self, ask: Callable[[int, int], RemovalBatch], first: int, count: int
    ) -> RemovalBatch:
        return self._notes.take(ask(first, count))
