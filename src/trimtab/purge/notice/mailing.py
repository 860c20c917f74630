"""Send the mails of a plan, each at most once, with a journal in the plan's directory.

``mails.jsonl`` gets a line before a mail is passed to the server and one after, each on stable
storage before the next step. A mail without a final line (``kill -9``, a broken connection) may
have been sent: it is reported and not sent again, except on request. Its Message-ID would be the
same.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final, Literal

from trimtab.errors import DataError, Undelivered, UnreadableError, UsageError
from trimtab.purge.notice.mail import Postman, address_of, message_of
from trimtab.purge.notice.words import Facts
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import read_trusted

MAILS_FILE: Final = "mails.jsonl"
_SIZE_MAX_BYTES: Final = 1 << 28
_UNREACHABLE_MAXIMUM: Final = 3
"""Failures in a row to reach a server after which the rest is left for another attempt."""

_kept_first = functools.partial(
    system_errors,
    "the state of the mails cannot be written",
    code="mail-state-unwritable",
    hint="no mail is sent before it is recorded",
)

State = Literal["begun", "sent", "failed", "unclear"]
_STATES: Final[tuple[State, ...]] = ("begun", "sent", "failed", "unclear")


@dataclass(frozen=True, slots=True)
class MailFailure:
    """A user who was not notified by mail.

    Attributes
    ----------
    uid
        Number of the user.
    account
        Name of the user.
    reason
        Why the mail failed.
    """

    uid: int
    account: str
    reason: str


@dataclass(frozen=True, slots=True)
class MailResult:
    """Outcome of the mails of a plan.

    Attributes
    ----------
    sent
        Number sent now.
    sent_before
        Number sent by earlier attempts.
    unclear
        Mails to a server that did not answer: they may have been sent, and are not repeated.
    failures
        Users not notified; the next attempt retries them.
    """

    sent: int
    sent_before: int
    unclear: tuple[MailFailure, ...]
    failures: tuple[MailFailure, ...]


def read_states(directory: int, *, owner: int = 0) -> dict[int, State]:
    """Return the last state of each user's mail, by uid.

    A line truncated by a crash is ignored: its mail was not yet passed to the server, or has an
    earlier ``begun`` line.

    Raises
    ------
    DataError
        A line is malformed.
    """
    try:
        data = read_trusted(
            MAILS_FILE,
            directory,
            "the state of the mails",
            maximum_bytes=_SIZE_MAX_BYTES,
            owner=owner,
        )
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return {}
        raise
    return dict(_states(data))


def _states(data: bytes) -> Iterator[tuple[int, State]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        uid, state = (entry.get("uid"), entry.get("state")) if isinstance(entry, dict) else (0, "")
        if not isinstance(uid, int) or state not in _STATES:
            raise DataError(
                "not a line of a mail's state",
                code="mail-state-malformed",
                file=MAILS_FILE,
                line=number,
            )
        yield uid, state


@contextmanager
def _journal(directory: int) -> Iterator[int]:
    """Open ``mails.jsonl`` to append lines; yield its descriptor."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with _kept_first():
        journal = os.open(MAILS_FILE, flags, 0o600, dir_fd=directory)
        os.fsync(directory)
    try:
        with _kept_first():
            if os.fstat(journal).st_size:  # ends a line truncated by a crash
                os.write(journal, b"\n")
        yield journal
    finally:
        os.close(journal)


@dataclass(slots=True)
class Attempt:
    """One attempt to send all mails of a plan, and its result so far.

    Attributes
    ----------
    sender
        Sender's address.
    pattern, known
        Addresses; see `trimtab.purge.notice.mail.address_of`.
    lists
        Directory of the lists.
    again
        Whether mails that may have been sent are sent again.
    """

    postman: Postman
    _: KW_ONLY
    sender: str
    pattern: str | None
    known: Mapping[str, str]
    lists: str
    clock: Callable[[], datetime]
    again: bool = False
    _unreachable: int = field(default=0, init=False)
    _sent: int = field(default=0, init=False)
    _sent_before: int = field(default=0, init=False)
    _unclear: list[MailFailure] = field(default_factory=list, init=False)
    _failures: list[MailFailure] = field(default_factory=list, init=False)

    def send_all(self, notices: Iterable[Facts], directory: int, *, owner: int = 0) -> MailResult:
        """Send to every user not yet notified, and return the outcome of all.

        Parameters
        ----------
        notices
            Notices to users with an account.
        directory
            Descriptor of the plan's directory, which is locked.

        Raises
        ------
        UnreadableError
            The state cannot be read or written; no mail is sent without its line.
        """
        states = read_states(directory, owner=owner)
        with _journal(directory) as journal:
            for facts in notices:
                self._take(facts, states.get(facts.user.uid), journal)
        return MailResult(
            self._sent, self._sent_before, tuple(self._unclear), tuple(self._failures)
        )

    def _take(self, facts: Facts, state: State | None, journal: int) -> None:
        """Send a mail unless the user was or may have been notified, or there is no server."""
        if state == "sent":
            self._sent_before += 1
        elif state in ("begun", "unclear") and not self.again:
            self._unclear.append(_failure(facts, "an earlier mail may have been sent"))
        elif self._unreachable >= _UNREACHABLE_MAXIMUM:
            reason = "not tried: no mail server was reachable for earlier mails"
            self._failures.append(_failure(facts, reason))
        else:
            self._send(facts, journal)

    def _send(self, facts: Facts, journal: int) -> None:
        at, address = self.clock(), None

        def write(state: State, reason: str | None = None) -> None:
            """Append a line and synchronise it to stable storage."""
            line = {
                "at": at.isoformat(), "uid": facts.user.uid, "address": address,
                "state": state, "reason": reason,
            }  # fmt: skip
            data = json.dumps(line).encode("ascii") + b"\n"
            with _kept_first():
                while data:
                    data = data[os.write(journal, data) :]
                os.fsync(journal)

        try:
            recipient = address_of(facts.account or "", self.pattern, self.known)
            message = message_of(
                facts, sender=self.sender, recipient=recipient, directory=self.lists, at=at
            )
        except UsageError as error:
            write("failed", error.message)
            self._failures.append(_failure(facts, error.message))
            return
        address = recipient
        write("begun")
        try:
            self.postman.deliver(message, address)
        except Undelivered as error:
            write("unclear" if error.unclear else "failed", error.message)
            failures = self._unclear if error.unclear else self._failures
            failures.append(_failure(facts, error.message))
            self._unreachable = self._unreachable + 1 if error.unreachable else 0
            return
        write("sent")
        self._sent += 1
        self._unreachable = 0


def _failure(facts: Facts, reason: str) -> MailFailure:
    return MailFailure(facts.user.uid, facts.account or "", reason)
