"""Receivers of a site's alerts, and where its metrics go: tables of the site file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal
from urllib.parse import urlsplit

from trimtab.base.site_policy import WINDOW, Window
from trimtab.base.toml_kind import (
    TEXT,
    TEXTS,
    WORD,
    ValueKind,
    choice,
    read_text,
    read_texts,
    whole,
)
from trimtab.base.toml_problem import BadValue, Location, Problem
from trimtab.base.toml_schema import key, table

_ADDRESS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+(@[A-Za-z0-9.-]+)?")
_LISTEN: Final = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")
_ENVIRONMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET_SOURCES: Final = ("file", "env")
"""Allowed references to a secret: ``file:/etc/trimtab/smtp`` or ``env:SMTP_PASSWORD``."""

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def _read_address(value: object) -> str:
    text = read_text(value)
    if _ADDRESS.fullmatch(text) is None:
        raise BadValue(
            "this is not a plain mail address",
            code="address-invalid",
            hint='write "ops@example.org", without a name around it',
        )
    return text


def _read_secret(value: object) -> str:
    # Never repeat the text in an error: it may be the secret itself.
    source, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    fits = rest.startswith("/") if source == "file" else bool(_ENVIRONMENT.fullmatch(rest))
    if source not in SECRET_SOURCES or not fits or not rest.isprintable():
        raise BadValue(
            "secrets do not belong in this file",
            code="secret-inline",
            hint='write where it is: "file:/etc/trimtab/secret" or "env:NAME"',
        )
    return str(value)


def _read_url(value: object) -> str:
    text = read_text(value)
    if text.partition(":")[0] in SECRET_SOURCES:
        return _read_secret(text)
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url, parts = False, None
    if not is_url or not text.isascii() or re.search(r"\s", text):
        raise BadValue(
            "this is not an http or https address",
            code="url-invalid",
            hint='write "https://host/path", or where it is: "file:/etc/trimtab/url"',
        )
    if parts is not None and "@" in parts.netloc:
        raise BadValue(
            "the address contains a user or a password",
            code="secret-inline",
            hint='put the whole address in a file: url = "file:/etc/trimtab/url"',
        )
    return text


def _read_listen(value: object) -> str:
    text = read_text(value)
    match = _LISTEN.fullmatch(text)
    if match is None or not 0 <= int(match[2]) <= 65535:
        raise BadValue(
            "this is not an address with a port",
            code="address-invalid",
            hint='write "127.0.0.1:9188"; every interface is "0.0.0.0:9188"',
        )
    return text


ADDRESS: Final = ValueKind("mail address", '"ops@example.org"', _read_address, WORD.write)
ADDRESSES: Final = replace(
    TEXTS,
    noun="list of mail addresses",
    example='["ops@example.org"]',
    read=lambda value: tuple(
        map(_read_address, read_texts(value, "a list of addresses", 'write ["ops@example.org"]'))
    ),
)
SECRET: Final = ValueKind(
    "file:PATH or env:NAME", '"file:/etc/trimtab/secret"', _read_secret, WORD.write
)
URL: Final = ValueKind("address", '"https://hooks.example.org/trimtab"', _read_url, WORD.write)
LISTEN: Final = ValueKind("address and port", '"127.0.0.1:9188"', _read_listen, WORD.write)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server for alerts, or for a purge's notices, and how to reach it.

    Attributes
    ----------
    security
        ``starttls`` refuses a server that does not offer it.
    ca_file
        Certificates to trust; ``None``: the system's.
    """

    server: str = key(WORD, "The SMTP server.", "localhost")
    port: int = key(whole(1, 65_535), "Its port.", 25)
    security: Literal["none", "starttls", "tls"] = key(
        choice(("none", "starttls", "tls")), "How the connection is encrypted.", "none"
    )
    user: str | None = key(TEXT, "Login name.", None, example='"trimtab"')
    password: str | None = key(SECRET, "Where its password is.", None)
    ca_file: str | None = key(
        TEXT, "Certificates to trust; else the system's.", None, example='"/etc/ssl/site.pem"'
    )

    def problems(self, location: Location) -> Iterator[Problem]:
        """Yield contradictions in the table at a location."""
        if (self.user is None) != (self.password is None):
            yield Problem(
                (*location, "user" if self.user is None else "password"),
                "is missing: a login needs both",
                "write user and password, or neither",
                code="login-incomplete",
            )
        elif self.password is not None and self.security == "none" and self.server not in _LOOPBACK:
            yield Problem(
                (*location, "security"),
                "the password would go over the network unencrypted",
                'write security = "starttls" or "tls"',
                code="password-in-the-clear",
            )


@dataclass(frozen=True, slots=True)
class MailAlerts(MailServer):
    """The mail server for alerts, and their recipients.

    Attributes
    ----------
    to
        Empty: no mail is sent.
    sender
        ``None``: ``trimtab@`` plus the name of this host.
    """

    to: tuple[str, ...] = key(ADDRESSES, "Who gets a mail; none: no mail.", ())
    sender: str | None = key(
        ADDRESS, "Sender; else trimtab@HOST.", None, at="from", example='"trimtab@example.org"'
    )


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of alerts over HTTP.

    Attributes
    ----------
    url
        The address, or where it is stored: a chat's is a secret. For Alertmanager: its base.
    kind
        ``webhook`` takes the format of Alertmanager's webhooks, ``alertmanager-api`` is
        Alertmanager itself.
    secret
        Key for the HMAC-SHA256 signature of messages.
    """

    name: str
    url: str = key(URL, "Its address, or file:PATH or env:NAME that holds it.")
    kind: Literal["generic", "slack", "webhook", "alertmanager-api"] = key(
        choice(("generic", "slack", "webhook", "alertmanager-api")),
        "What it understands: generic, slack, webhook or alertmanager-api.",
        "generic",
    )
    secret: str | None = key(SECRET, "Where the key for signing each message is.", None)
    ca_file: str | None = key(
        TEXT, "Certificates to trust; else the system's.", None, example='"/etc/ssl/site.pem"'
    )


@dataclass(frozen=True, slots=True)
class Alerts:
    """Which alerts of a site are sent, and when.

    Attributes
    ----------
    quiet
        Time of day, in the site's zone, in which only critical alerts are sent; the others
        follow in one digest.
    per_hour
        Per receiver; further ones wait, and follow in one digest. Critical alerts do not wait.
    runbook
        Where docs/runbook.md is published; each alert links to its section.
    """

    least: Literal["warning", "critical"] = key(
        choice(("warning", "critical")), "The least severity that is sent.", "warning"
    )
    quiet: Window | None = key(
        WINDOW, "Only critical ones are sent then, in local time.", None, example='"20:00-07:00"'
    )
    per_hour: int = key(whole(1, 1000), "Messages an hour to a receiver; more wait.", 10)
    runbook: str | None = key(
        URL, "Where the runbook is published.", None, example='"https://wiki.example.org/runbook"'
    )
    mail: MailAlerts = table(MailAlerts, "Alerts by mail.")


@dataclass(frozen=True, slots=True)
class MetricsExport:
    """Where the watch exposes its metrics to Prometheus."""

    listen: str | None = key(LISTEN, "Address and port of /metrics; without it none.", None)
    textfile: str | None = key(
        TEXT,
        "A file for node_exporter's textfile collector.",
        None,
        example='"/var/lib/node_exporter/trimtab.prom"',
    )
    web_config_file: str | None = key(
        TEXT,
        "TLS and passwords of listen, in the format of Prometheus exporters.",
        None,
        example='"/etc/trimtab/metrics-web.yml"',
    )
