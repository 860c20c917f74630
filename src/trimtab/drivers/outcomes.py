"""Maps a driver's answer to a change to an outcome of the ledger: done, refused, unknown."""

from __future__ import annotations

from typing import Final

from trimtab.errors import RefusedError, ToolError, TrimtabError, UsageError
from trimtab.message import Message, code_of
from trimtab.model.action import Outcome
from trimtab.model.telemetry import NotAvailable

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
