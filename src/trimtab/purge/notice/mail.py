"""Build mails to users, and find their addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Final, Protocol

from trimtab.errors import UsageError
from trimtab.purge.notice.words import Facts, mail_subject, mail_text
from trimtab.visible import visible

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS: Final = re.compile(rf"(?!-){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*\Z")
"""Accepted addresses: no quotes, spaces, commas or non-ASCII characters.

A user's name therefore cannot add a header or a second recipient.
"""
_ADDRESS_MAX: Final = 254


class Postman(Protocol):
    """Delivers mails: `trimtab.loop.mail.Mailer`."""

    def deliver(self, message: EmailMessage, recipient: str, /) -> object:
        """Deliver a mail to one user.

        Raises
        ------
        Undelivered
            It was rejected, or the outcome is unknown.
        """
        ...


def message_of(
    facts: Facts, *, sender: str, recipient: str, directory: str, at: datetime
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
    from trimtab.config.files import read_text

    return parse_mail_map(read_text(Path(path), "the mail map"), path)
