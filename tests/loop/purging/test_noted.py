"""What a run says besides the outcomes of its rows."""

from __future__ import annotations

import errno
from types import SimpleNamespace

from trimtab.loop.purging.noted import NotedRemover, Notes


def batch(errors=()):
    return SimpleNamespace(errors=errors, outcomes=b"")


def test_errors_are_counted_by_what_the_system_said():
    notes = Notes()
    answers = [
        batch(errors=[(1, errno.EACCES), (2, errno.EACCES)]),
        batch(errors=[(9, errno.EIO)]),
        batch(),
    ]
    removal = SimpleNamespace(delete=lambda first, count: answers.pop(0))
    remover = NotedRemover(removal, notes)  # type: ignore[arg-type]
    for first in (0, 5, 10):
        remover.delete(first, 5)
    assert notes.sentences() == (
        "2 rows could not be dealt with: Permission denied",
        "1 row could not be dealt with: Input/output error",
    )


def test_nothing_to_say():
    notes = Notes()
    remover = NotedRemover(SimpleNamespace(check=lambda f, c: batch()), notes)  # type: ignore[arg-type]
    remover.check(0, 1)
    assert notes.sentences() == ()
