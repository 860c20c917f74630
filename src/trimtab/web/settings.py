"""The file that says who may use the dashboard: hosts, a reverse proxy, roles."""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trimtab.config.files import parse_toml, read_text
from trimtab.config.kinds import TEXT, TEXTS
from trimtab.config.lines import key_lines
from trimtab.config.problems import Problem, config_error
from trimtab.config.schema import Schema, key, table
from trimtab.visible import visible

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?")
_NEVER: Final = frozenset({"host", "cookie", "authorization", "content-length", "origin"})
EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Proxy:
    """The reverse proxy that signs people in.

    Attributes
    ----------
    peers
        Addresses or networks that the proxy connects from.
    """

    peers: tuple[str, ...] = key(
        TEXTS,
        "Addresses of the proxy. Only from there is the header below believed.",
        (),
        example='["192.0.2.10"]',
    )
    user_header: str = key(
        TEXT, "Header in which the proxy names the user it signed in.", "X-Forwarded-User"
    )
    secret_file: str | None = key(
        TEXT,
        "File with a secret that the proxy sends as X-Trimtab-Secret. Needed where other users can "
        "connect from its address.",
        None,
        example='"/etc/trimtab/web.secret"',
    )

    @property
    def networks(self) -> tuple[Network, ...]:
        """The addresses as networks."""
        return tuple(ipaddress.ip_network(peer, strict=False) for peer in self.peers)


@dataclass(frozen=True, slots=True)
class Roles:
    """Who may do what, by the name that the proxy gives; a star is everybody it signed in."""

    viewers: tuple[str, ...] = key(TEXTS, "See everything.", (), example='["*"]')
    operators: tuple[str, ...] = key(
        TEXTS, "Also acknowledge incidents and write into the log book.", (), example='["alice"]'
    )
    admins: tuple[str, ...] = key(TEXTS, "Also approve plans.", (), example='["bob"]')


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Access to the dashboard; without a file: this host alone, with a one-time token."""

    hosts: tuple[str, ...] = key(
        TEXTS, "Names by which browsers reach it.", (), example='["trimtab.example.org"]'
    )
    proxy: Proxy = table(Proxy, "A reverse proxy that signs people in.")
    roles: Roles = table(Roles, "Who may do what.")
    secret: str | None = field(default=None, repr=False)


SCHEMA: Final = Schema(WebSettings, home="web")


def load_settings(path: str) -> WebSettings:
    """Return the settings that a file describes.

    Raises
    ------
    UsageError
        It cannot be read, holds what does not belong there, or, where we are root, can be changed
        by others.
    """
    from dataclasses import replace

    text = read_text(Path(path), "the file of the dashboard")
    name = visible(path)
    stated, wrong = SCHEMA.read(parse_toml(text, name))
    settings: Any = SCHEMA.build(stated) if not wrong else None
    problems = wrong or list(_problems(settings))
    if problems:
        raise config_error(problems, name, key_lines(text))
    if settings.proxy.secret_file is None:
        return settings
    file = Path(settings.proxy.secret_file)
    secret = read_text(file, "the secret of the proxy").strip()
    location = ("proxy", "secret_file")
    if len(secret) < SECRET_LEAST:
        wrong = [
            Problem(
                location,
                f"holds fewer than {SECRET_LEAST} characters",
                "openssl rand -hex 32",
                "secret-short",
            )
        ]
    elif file.stat().st_mode & stat.S_IROTH:
        wrong = [Problem(location, "can be read by everyone", "chmod o-r FILE", "secret-readable")]
    if wrong:
        raise config_error(wrong, name, key_lines(text))
    return replace(settings, secret=secret)


SECRET_LEAST: Final = 32


def _problems(settings: WebSettings) -> Iterable[Problem]:
    for peer in settings.proxy.peers:
        try:
            network = ipaddress.ip_network(peer, strict=False)
        except ValueError:
            yield Problem(
                ("proxy", "peers"),
                f"{visible(peer)!r} is not an address",
                '"192.0.2.10"',
                "address-malformed",
            )
            continue
        if network.prefixlen == 0:
            yield Problem(
                ("proxy", "peers"),
                f"{peer} is every address: anybody could name a user",
                '"192.0.2.10"',
                "address-too-wide",
            )
    header = settings.proxy.user_header
    if not _HEADER.fullmatch(header) or header.lower() in _NEVER:
        yield Problem(
            ("proxy", "user_header"),
            f"{visible(header)!r} cannot carry a user",
            '"X-Forwarded-User"',
            "header-malformed",
        )
    for host in settings.hosts:
        if not _HOST.fullmatch(host):
            yield Problem(
                ("web", "hosts"),
                f"{visible(host)!r} is not a host name",
                '"trimtab.example.org"',
                "host-malformed",
            )
    roles = settings.roles
    if settings.proxy.peers and not (roles.viewers or roles.operators or roles.admins):
        yield Problem(("roles",), "nobody has a role", 'viewers = ["*"]', "roles-missing")
