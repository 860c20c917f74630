"""Parts of a site file: permitted changes, receivers of alerts, and the export of metrics.

The policies are the tables ``[policy.*]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from trimtab.base.name_set import fold_nodes, unfold_nodes
from trimtab.base.schedule import find_zone
from trimtab.base.toml_kind import (
    DURATION,
    DURATION_OR_ZERO,
    FRACTION,
    RATE,
    SCHEDULE,
    SWITCH,
    TEXT,
    TEXTS,
    WHOLE_SIZE,
    WORD,
    ValueKind,
    choice,
    inline_table,
    listed,
    of_text,
    quoted,
    read_text,
    read_texts,
    shown,
    whole,
)
from trimtab.base.toml_problem import BadValue, Location, Problem
from trimtab.base.toml_schema import key, table

_ARMED: Final = "Whether the watch applies it by itself, without --apply."
_CLOCK: Final = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_WINDOW: Final = re.compile(rf"{_CLOCK}-{_CLOCK}")
_SETTING: Final = re.compile(r"[A-Za-z0-9_.*-]+(/[A-Za-z0-9_.*-]+)*")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.,:%+-]+( [A-Za-z0-9_.,:%+-]+)*")


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day in the site's local time, in minutes from midnight.

    It spans midnight if ``end`` is not after ``begin``.
    """

    begin: int
    end: int

    def holds(self, minute: int) -> bool:
        """Return whether a minute of the day, 0 to 1439, is in it."""
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def holds_at(self, at: datetime, timezone: str) -> bool:
        """Return whether an aware time is in it by the clocks of a zone."""
        local = at.astimezone(find_zone(timezone))
        return self.holds(60 * local.hour + local.minute)

    def __str__(self) -> str:
        """Return it as written in the file."""
        begin, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (self.begin, self.end))
        return f"{begin}-{end}"


def parse_window(text: str) -> Window:
    """Parse a window ``HH:MM-HH:MM``.

    Raises
    ------
    BadValue
        The text is not a window, or has no length.

    Examples
    --------
    >>> parse_window("22:30-04:00").holds(60)
    True
    """
    match = _WINDOW.fullmatch(text)
    if match is None or match[1] + match[2] == match[3] + match[4]:
        raise BadValue(
            f"{shown(text)} is not a stretch of a day",
            code="window-invalid",
            hint='write "01:00-05:00"',
        )
    hour, minute, end_hour, end_minute = map(int, match.groups())
    return Window(60 * hour + minute, 60 * end_hour + end_minute)


def _read_settings(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        hint = 'write settings = {wbt_lat_usec = "0"}'
        raise BadValue("must be a table", code="wrong-type", hint=hint)
    settings = {}
    for name, item in value.items():
        if _SETTING.fullmatch(name) is None:
            raise BadValue(
                f"{shown(name)} is not the name of a setting",
                code="setting-name-invalid",
                hint="names are shown by: trimtab targets SITE TARGET",
                within=(name,),
            )
        if isinstance(item, bool) or not isinstance(item, (int, str)):
            raise BadValue(
                f"{name} is neither text nor a whole number", code="wrong-type", within=(name,)
            )
        if _VALUE.fullmatch(str(item)) is None:
            raise BadValue(
                f"{shown(item)} is not the value of a setting",
                code="setting-value-invalid",
                within=(name,),
            )
        settings[name] = str(item)
    return settings


_SETTINGS: Final = ValueKind(
    "table of values",
    '{wbt_lat_usec = "0"}',
    _read_settings,
    lambda values: inline_table({name: quoted(text) for name, text in values.items()}),
    schema={"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
)
_NODE_SETS: Final = replace(
    TEXTS,
    example='["oss[1-2]", "oss[3-4]"]',
    read=lambda value: tuple(map(unfold_nodes, TEXTS.read(value))),
    write=lambda sets: listed(tuple(map(fold_nodes, sets))),
)
WINDOW: Final = of_text(
    parse_window, "stretch of a day", "01:00-05:00", write=lambda window: quoted(str(window))
)


@dataclass(frozen=True, slots=True)
class TunablesPolicy:
    """Settings of targets, drives and clients to keep at a value.

    Attributes
    ----------
    settings
        Setting to value. Names are those of ``trimtab targets SITE TARGET``; a shorter name means
        every setting that ends in it: ``wbt_lat_usec`` for that of each drive.
    worse
        Slowdown of a canary, as a fraction, that stops the rollout.
    """

    armed: bool = key(SWITCH, _ARMED, False)
    settings: Mapping[str, str] = key(_SETTINGS, "Values by name of the setting.", {})
    permanent: tuple[str, ...] = key(
        TEXTS, "Those to set with lctl set_param -P, for all future mounts.", ()
    )
    worse: float = key(FRACTION, "Slowdown of a first target that stops the rollout.", 0.05)
    settle_s: float = key(DURATION, "How long a first target is observed.", 3600.0)
    survey: bool = key(SWITCH, "Survey it and three others before and after its change.", False)
    probe: str | None = key(
        TEXT, "Probe of the site that runs before and after its change.", None, example='"hourly"'
    )


@dataclass(frozen=True, slots=True)
class TrimPolicy:
    """When targets are trimmed, and when a trim pauses.

    Attributes
    ----------
    written
        Bytes written since the last trim, as a fraction of the capacity, that make one due.
    enclosures
        Servers that share an enclosure; others are alone.
    slower
        Increase of write latency over its value before the trim at which the trim pauses.
    """

    armed: bool = key(SWITCH, _ARMED, False)
    every_s: float = key(DURATION, "Due after this time at the latest.", 86400.0)
    written: float = key(FRACTION, "Due after writing this part of the capacity.", 0.1)
    window: Window | None = key(
        WINDOW, "When a trim may begin, in local time.", None, example='"01:00-05:00"'
    )
    range_bytes: int = key(WHOLE_SIZE, "Bytes of the target in one step.", 2**40)
    slower: float | None = key(
        FRACTION.or_word("never"), "Pause when latency rises by this much.", 0.5
    )
    pause_s: float = key(DURATION, "Length of a pause.", 300.0)
    enclosures: tuple[tuple[str, ...], ...] = key(
        _NODE_SETS, "Servers that share drive bandwidth, one node set each.", ()
    )


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """When targets are closed to new files and reopened.

    The thresholds are ``limits.fullness`` and ``limits.reopen``.

    Attributes
    ----------
    most_closed
        Part of the targets, of a pool and of all, that Trimtab may have closed at a time. Lustre
        refuses a file with a default layout if more than a quarter of the required OSTs are
        missing.
    widest_stripe
        Explicit stripe count in use; at least this many targets stay open.
    """

    armed: bool = key(SWITCH, _ARMED, False)
    most_closed: float = key(FRACTION, "Part of all, and of a pool, closed at a time.", 0.2)
    least_open: int = key(whole(1, 100_000), "Number of targets that always stay open.", 1)
    widest_stripe: int = key(whole(1, 2000), "Largest explicit stripe count in use.", 1)
    dwell_s: float = key(DURATION_OR_ZERO, "Shortest time between two changes of a target.", 3600.0)
    mechanism: Literal["auto", "max_create_count", "no_create"] = key(
        choice(("auto", "max_create_count", "no_create")),
        "How to close a target: auto uses what the version supports.",
        "auto",
    )
    bandwidth_bytes_per_s: float = key(RATE, "Maximum rate for moving a file.", 100e6)


@dataclass(frozen=True, slots=True)
class AllocatorPolicy:
    """How often the block allocator's pointer is reset to the first group."""

    armed: bool = key(SWITCH, _ARMED, False)
    every_s: float = key(DURATION, "How often mb_last_group is set to 0.", 900.0)
    useless_loops: float | None = key(
        FRACTION.or_word("any"),
        "Only where this part of all requests loops without finding space.",
        0.1,
    )


@dataclass(frozen=True, slots=True)
class PurgePlanPolicy:
    """When the watch makes a purge plan, which a person then arms and runs.

    Attributes
    ----------
    policy
        File of the purge policy.
    directory
        Root-only; each plan and its index get a new directory in it.
    """

    schedule: str | None = key(SCHEDULE, "When a plan is made; without it only on request.", None)
    policy: str | None = key(
        TEXT, "File of the purge policy.", None, example='"/etc/trimtab/purge.toml"'
    )
    directory: str | None = key(
        TEXT,
        "Root-only directory for indexes and plans.",
        None,
        example='"/var/lib/trimtab/plans"',
    )
    publish: bool = key(SWITCH, "Whether to publish the users' lists at once.", True)


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything Trimtab may change on a site; nothing is armed unless the file says so."""

    tunables: TunablesPolicy = table(TunablesPolicy, "Settings to keep at a value.")
    allocator: AllocatorPolicy = table(AllocatorPolicy, "The block allocator's pointer.")
    trim: TrimPolicy = table(TrimPolicy, "When targets are trimmed.")
    balance: BalancePolicy = table(BalancePolicy, "When full targets are closed to new files.")
    purge: PurgePlanPolicy = table(PurgePlanPolicy, "When purge plans are made and published.")
    schedule: str = key(SCHEDULE, "When the watch applies the armed ones.", "every 15m")
    in_maintenance: bool = key(SWITCH, "Change things and purge in a maintenance too.", False)
    most_per_hour: int = key(whole(1, 1_000_000), "Maximum number of changes per hour.", 1000)
    stale_s: float = key(DURATION, "Maximum age of telemetry for a change.", 600.0)

    @property
    def armed(self) -> tuple[str, ...]:
        """Names of the policies that the watch applies by itself, in the order of the file."""
        each = {
            "tunables": self.tunables.armed,
            "allocator": self.allocator.armed,
            "trim": self.trim.armed,
            "balance": self.balance.armed,
        }
        return tuple(name for name, is_armed in each.items() if is_armed)


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
        "Format of its messages: generic, slack, webhook or alertmanager-api.",
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
