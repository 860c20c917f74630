"""Mail the users of a plan: find their addresses, build the mails, send each at most once.

``mails.jsonl`` in the plan's directory gets a line before a mail is passed to the server and one
after, each on stable storage before the next step. A mail without a final line (``kill -9``, a
broken connection) may have been sent: it is reported and not sent again, except on request. Its
Message-ID would be the same.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Final, Literal, Protocol

from trimtab.base.error import (
    DataError,
    Undelivered,
    UnreadableError,
    UsageError,
    system_errors,
    visible,
)
from trimtab.base.trusted_file import read_trusted
from trimtab.purge.plan.notice_text import NoticeFacts, mail_subject, mail_text

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS: Final = re.compile(rf"(?!-){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*\Z")
"""Accepted addresses: no quotes, spaces, commas or non-ASCII characters.

A user's name therefore cannot add a header or a second recipient.
"""
_ADDRESS_MAX: Final = 254


class Postman(Protocol):
    """Delivers mails: `trimtab.reach.mail.Mailer`."""

    def deliver(self, message: EmailMessage, recipient: str, /) -> object:
        """Deliver a mail to one user.

        Raises
        ------
        Undelivered
            It was rejected, or the outcome is unknown.
        """
        ...


def message_of(
    facts: NoticeFacts, *, sender: str, recipient: str, directory: str, at: datetime
) -> EmailMessage:
    """Return the notice to one user as a mail.

    Parameters
    ----------
    sender, recipient
        Addresses that match `ADDRESS`.
    directory
        Directory of the lists.
    at
        Date of the mail.

    Raises
    ------
    UsageError
        An address is invalid.
    """
    message = EmailMessage(policy=SMTP)
    message["From"] = checked_address(sender)
    message["To"] = checked_address(recipient)
    message["Subject"] = mail_subject(facts)
    message["Date"] = format_datetime(at)
    # The same at every attempt, so that servers and readers can detect duplicates.
    domain = sender.rpartition("@")[2]
    message["Message-ID"] = f"<purge.{facts.plan.id}.{facts.user.uid}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    message.set_content(mail_text(facts, directory))
    return message


def checked_address(text: str) -> str:
    """Return a valid address unchanged.

    Raises
    ------
    UsageError
        It is invalid, or needs quoting.
    """
    if len(text) > _ADDRESS_MAX or not ADDRESS.match(text):
        raise UsageError(
            f"{visible(text[:_ADDRESS_MAX])!r} is not a mail address",
            code="address-invalid",
            hint="write name@domain, in ASCII and without quotes",
        )
    return text


def address_of(account: str, pattern: str | None, known: Mapping[str, str]) -> str:
    """Return a user's address.

    Parameters
    ----------
    account
        The user's name.
    pattern
        ``{user}@example.org``; ``None``: only users in the map have one.
    known
        The map, address by name; it takes precedence over the pattern.

    Raises
    ------
    UsageError
        There is no address, or the result is invalid.
    """
    address = known.get(account)
    if address is None and pattern is None:
        raise UsageError("no address known", code="address-missing")
    return checked_address(
        address if address is not None else (pattern or "").replace("{user}", account)
    )


def parse_mail_map(text: str, name: str) -> dict[str, str]:
    r"""Return the addresses in a file of ``user address`` lines; ``#`` begins a comment.

    Parameters
    ----------
    name
        File name for errors.

    Raises
    ------
    UsageError
        A line is malformed, or a user is listed twice.

    Examples
    --------
    >>> parse_mail_map("# people\nada ada@example.org\n", "mail.map")
    {'ada': 'ada@example.org'}
    """
    addresses: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{name}:{number}"
        if len(words) != 2:
            raise UsageError(
                f"{where}: {visible(line[:100])!r} is not a user and an address",
                code="mail-map-malformed",
            )
        if words[0] in addresses:
            raise UsageError(
                f"{where}: {visible(words[0])} is listed twice", code="mail-map-repeated"
            )
        try:
            addresses[words[0]] = checked_address(words[1])
        except UsageError as error:
            raise UsageError(
                f"{where}: {error.message}", code=error.code, hint=error.hint
            ) from error
    return addresses


def read_mail_map(path: str | None) -> dict[str, str]:
    """Return the addresses in the site's mail map; none without a file.

    Raises
    ------
    UsageError
        As `parse_mail_map`; or the file cannot be read, or others can change it.
    """
    if path is None:
        return {}
    from trimtab.base.trusted_file import read_text

    return parse_mail_map(read_text(Path(path), "the mail map"), path)


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
class MailAttempt:
    """One attempt to send all mails of a plan, and its result so far.

    Attributes
    ----------
    sender
        Sender's address.
    pattern, known
        Addresses; see `trimtab.purge.plan.notice_mail.address_of`.
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

    def send_all(
        self, notices: Iterable[NoticeFacts], directory: int, *, owner: int = 0
    ) -> MailResult:
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

    def _take(self, facts: NoticeFacts, state: State | None, journal: int) -> None:
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

    def _send(self, facts: NoticeFacts, journal: int) -> None:
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


def _failure(facts: NoticeFacts, reason: str) -> MailFailure:
    return MailFailure(facts.user.uid, facts.account or "", reason)
