"""Sends mail through a site's mail server, and reads a site's secrets when they are needed.

With STARTTLS or TLS the certificate is checked, nothing is sent in the clear, and no password is
sent before TLS has begun. A server's text is shown with bounded length; its answer to a login is
never shown, as it could repeat the password.
"""

from __future__ import annotations

import os
import smtplib
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Final, Self

from trimtab.base.error import Undelivered, visible
from trimtab.base.site_policy import MailServer

SECRET_MAX: Final = 64 * 1024


def secret_of(reference: str) -> str:
    """Return the secret that ``file:PATH`` or ``env:NAME`` names, without the final line feed.

    Raises
    ------
    Undelivered
        It cannot be read or is empty, or others can read or exchange its file. The message names
        the place only.
    """
    source, _, place = reference.partition(":")
    try:
        secret = _of_file(place) if source == "file" else os.environ.get(place, "")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _unusable(f"the secret in {visible(place)} cannot be read: {reason}") from None
    if not secret:
        raise _unusable(f"the secret in {visible(place)} is empty")
    return secret


def _of_file(path: str) -> str:
    # Without O_NONBLOCK a pipe would wait for its writer before it can be looked at.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        why = _why_exposed(os.fstat(descriptor))
        if why is not None:
            place = visible(path)
            raise _unusable(
                f"the secret in {place} is not used: it {why}; chown it to the user who reads it, "
                "or root, and chmod 0400",
                "secret-exposed",
            )
        return stream.read(SECRET_MAX).decode().rstrip("\r\n")


def _why_exposed(state: os.stat_result) -> str | None:
    """Return why others can know or exchange a secret; ``None``: they cannot.

    A group may read what is root's: root chose it (``root:trimtab 0640``), and a credential of
    systemd shows the mask of its access list there.
    """
    if not stat.S_ISREG(state.st_mode):
        return "is not a regular file"
    if state.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {state.st_uid}"
    if state.st_mode & stat.S_IRWXO:
        return "is open to everyone"
    if state.st_mode & stat.S_IWGRP or (state.st_mode & stat.S_IRGRP and state.st_uid != 0):
        return f"is open to group {state.st_gid}"
    return None


def _unusable(reason: str, code: str = "secret-unreadable") -> Undelivered:
    return Undelivered(reason, code=code, unreachable=True)


TIMEOUT_S: Final = 60.0
_SHOWN_MAX: Final = 500


class Mailer:
    """A mail server; one connection carries many mails.

    Parameters
    ----------
    settings
        Address of the server, and how to connect.
    timeout_s
        Deadline of each of its answers, in seconds.
    """

    def __init__(self, settings: MailServer, *, timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._server: smtplib.SMTP | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._close(self._server)

    def deliver(self, message: EmailMessage, *recipients: str) -> tuple[str, ...]:
        """Hand a mail over; return those of its recipients that the server refused.

        Raises
        ------
        Undelivered
            The server accepted it for no recipient, or the outcome is unknown.
        """
        server = self._connected()
        try:
            return tuple(server.send_message(message, to_addrs=recipients))
        except smtplib.SMTPRecipientsRefused as error:
            replies = dict.fromkeys(_reply(*reply) for reply in error.recipients.values())
            raise Undelivered("; ".join(replies), code="receiver-refused") from None
        except smtplib.SMTPResponseException as error:
            reply = _reply(error.smtp_code, error.smtp_error)
            raise Undelivered(reply, code="receiver-refused") from None
        except (smtplib.SMTPException, OSError) as error:
            self._close(server)
            raise Undelivered(
                f"the connection broke: {visible(str(error))[:_SHOWN_MAX]}",
                code="receiver-answer-unexpected",
                unclear=True,
            ) from None

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        if server is not None:
            # A server may close an idle connection: found out here, where no mail was given yet.
            try:
                if server.noop()[0] == 250:
                    return server
            except (smtplib.SMTPException, OSError):
                pass
            self._close(server)
        settings = self._settings
        password = None if settings.password is None else secret_of(settings.password)
        with _failures(f"{settings.server}:{settings.port}"):
            self._server = self._opened(password)
        return self._server

    def _opened(self, password: str | None) -> smtplib.SMTP:
        """Return a connection that is encrypted and logged in as the settings have it."""
        settings = self._settings
        place = settings.server, settings.port
        if settings.security == "tls":
            trusted = _trusted(settings.ca_file)
            server = smtplib.SMTP_SSL(*place, timeout=self._timeout_s, context=trusted)
        else:
            server = smtplib.SMTP(*place, timeout=self._timeout_s)
        try:
            if settings.security == "starttls":
                server.starttls(context=_trusted(settings.ca_file))
            if password is not None:
                server.login(settings.user or "", password)
        except BaseException:
            server.close()
            raise
        return server

    def _close(self, server: smtplib.SMTP) -> None:
        self._server = None
        try:
            server.quit()
        except (smtplib.SMTPException, OSError):
            server.close()


def _trusted(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        text = f"the certificates in {ca_file} cannot be read: {error.strerror}"
        raise _unreachable(text, "receiver-unreachable") from None


@contextmanager
def _failures(place: str) -> Iterator[None]:
    """Turn whatever keeps a connection from being ready for mails into `Undelivered`."""
    try:
        yield
    except smtplib.SMTPAuthenticationError as error:
        text = f"the mail server at {place} refused the login ({error.smtp_code})"
        raise _unreachable(text, "receiver-refused") from None
    except smtplib.SMTPNotSupportedError as error:
        text = f"the mail server at {place} does not offer what is asked of it: {error}"
        raise _unreachable(text, "receiver-answer-unexpected") from None
    except smtplib.SMTPResponseException as error:
        text = f"the mail server at {place}: {_reply(error.smtp_code, error.smtp_error)}"
        raise _unreachable(text, "receiver-refused") from None
    except smtplib.SMTPException as error:
        text = f"the connection to {place} ended early: {type(error).__name__}"
        raise _unreachable(text, "receiver-answer-unexpected") from None
    except UnicodeError:
        text = "the user or password for the mail server is not ASCII, which a login cannot carry"
        raise _unreachable(text, "secret-unreadable") from None
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate of {place} is not trusted: {error.verify_message}"
        raise _unreachable(text, "receiver-unreachable") from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise _unreachable(f"no mail server at {place}: {why}", "receiver-unreachable") from None


def _unreachable(text: str, code: str) -> Undelivered:
    return Undelivered(visible(text)[:_SHOWN_MAX], code=code, unreachable=True)


def _reply(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return visible(f"{code} {words}")[:_SHOWN_MAX]
