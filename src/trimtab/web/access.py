"""Identity and role of each user: one-time tokens on this host, or a reverse proxy's header.

A settings file says who may use the dashboard: hosts, a reverse proxy, roles. Sessions are in
memory: a session ends with the process, and no password exists.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Protocol
from urllib.parse import urlsplit

from fastapi import Depends, Request

from trimtab.base.error import Message, UsageError, visible
from trimtab.base.toml_kind import TEXT, TEXTS
from trimtab.base.toml_problem import Problem, config_error, key_lines
from trimtab.base.toml_schema import Schema, key, table
from trimtab.base.trusted_file import parse_toml, read_text

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?")
_NEVER: Final = frozenset({"host", "cookie", "authorization", "content-length", "origin"})
EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Proxy:
    """The reverse proxy that signs users in.

    Attributes
    ----------
    peers
        Addresses or networks that the proxy connects from.
    """

    peers: tuple[str, ...] = key(
        TEXTS,
        "Addresses of the proxy. The header below is trusted only from there.",
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
    """Users of each role, by the name that the proxy gives; a star is every user it signed in."""

    viewers: tuple[str, ...] = key(
        TEXTS, "See everything but whose files a purge takes.", (), example='["*"]'
    )
    operators: tuple[str, ...] = key(
        TEXTS, "Also acknowledge incidents and write into the log book.", (), example='["alice"]'
    )
    admins: tuple[str, ...] = key(TEXTS, "Also approve purge plans.", (), example='["bob"]')


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
        It cannot be read, has unknown contents, or, if this process is root, other users can
        change it.
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
                f"{peer} is every address: any host could name a user",
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
        yield Problem(("roles",), "no user has a role", 'viewers = ["*"]', "roles-missing")


_COOKIE: Final = "trimtab_session"
_COOKIES_MAX: Final = 4
"""Maximum of cookies of one name: a server on another port may have set some ahead of ours."""
SECRET_HEADER: Final = "x-trimtab-secret"
SESSION_S: Final = 12 * 3600.0
"""A session that is not used for so long ends."""
SESSION_MOST_S: Final = 7 * 86400.0
"""Maximum age of a session in use: an open page would use it for ever, and so would a thief."""
SESSIONS_MAX: Final = 64
_USER_MAX: Final = 128


class Role(StrEnum):
    """What a user may do; each role includes those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, other: Role) -> bool:
        """Whether it may do all that another role may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Asking:
    """Facts about a request before it is admitted.

    Attributes
    ----------
    peer
        Address of the other end of the connection, never a header; empty where unknown.
    headers
        Lower-case name to all its values.
    """

    peer: str
    headers: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Identity:
    """An admitted user.

    Attributes
    ----------
    csrf
        Token that a change must carry: pages of other origins cannot read it.
    may_leave
        Whether it is a session of the dashboard's own, which can be ended here.
    """

    user: str
    role: Role
    csrf: str
    may_leave: bool = False


def identity_of(request: Request) -> Identity:
    """Return the user whom the guard admitted."""
    return request.scope["trimtab.identity"]


def _at_least(role: Role) -> Callable[[Request], Identity]:
    def person(request: Request) -> Identity:
        identity = identity_of(request)
        if not identity.role.covers(role):
            raise UsageError(f"this needs the role {role.value}", code="role-too-low")
        return identity

    return person


Person = Annotated[Identity, Depends(identity_of)]
Operator = Annotated[Identity, Depends(_at_least(Role.OPERATOR))]
Admin = Annotated[Identity, Depends(_at_least(Role.ADMIN))]
"""Users of a route: any admitted user, or one with at least that role."""


class Access(Protocol):
    """Admits users."""

    def identify(self, asking: Asking) -> Identity | Message:
        """Return the user of a request, or why it is refused."""
        ...


class TokenAccess:
    """One-time tokens: whoever can read the terminal of the server may enter.

    Parameters
    ----------
    announce
        Called with each token; there is always one that works.
    user
        The name under which changes are recorded.
    elapsed_s
        A monotonic clock.
    """

    def __init__(
        self, announce: Callable[[str], None], *, user: str, elapsed_s: Callable[[], float]
    ) -> None:
        self._announce, self._user, self._elapsed_s = announce, user, elapsed_s
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._token = b""

    def offer(self) -> None:
        """Announce a token that works once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._token = _digest(token)
        self._announce(token)

    def enter(self, token: str) -> str | None:
        """Return the cookie of a new session, ``None`` if the token is wrong or used."""
        with self._lock:
            if not self._token or not hmac.compare_digest(self._token, _digest(token)):
                return None
            self._token = b""
            cookie = secrets.token_urlsafe(32)
            now = self._elapsed_s()
            self._sessions[_digest(cookie)] = now, now
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        self.offer()
        return cookie

    def identify(self, asking: Asking) -> Identity | Message:
        """Return the user of a session."""
        cookies = _cookies(asking.headers)
        if not cookies:
            return Message("not-signed-in", "not signed in")
        for cookie in cookies:
            name = _digest(cookie)
            if self._is_open(name):
                return Identity(self._user, Role.ADMIN, _csrf(self._key, name), may_leave=True)
        return Message("session-ended", "the session has ended")

    def leave(self, asking: Asking) -> None:
        """End the session of a request."""
        with self._lock:
            for cookie in _cookies(asking.headers):
                self._sessions.pop(_digest(cookie), None)

    def _is_open(self, name: bytes) -> bool:
        """Return whether a session is valid; if so, extend it."""
        now = self._elapsed_s()
        with self._lock:
            session = self._sessions.pop(name, None)
            if session is None:
                return False
            begun, used = session
            if now - used > SESSION_S or now - begun > SESSION_MOST_S:
                return False
            self._sessions[name] = begun, now
        return True


class ProxyAccess:
    """A reverse proxy's header, trusted only from its own addresses."""

    def __init__(self, settings: WebSettings) -> None:
        self._proxy: Proxy = settings.proxy
        self._roles: Roles = settings.roles
        self._networks = settings.proxy.networks
        self._secret = None if settings.secret is None else settings.secret.encode()
        self._key = secrets.token_bytes(32)

    def identify(self, asking: Asking) -> Identity | Message:
        """Return the user that the proxy names."""
        if not self._is_proxy(asking):
            return Message("peer-unknown", "requests are answered through the site's proxy alone")
        values = asking.headers.get(self._proxy.user_header.lower(), ())
        if len(values) != 1 or not _is_user(values[0]):
            return Message("user-missing", "the proxy names no user")
        user = values[0]
        role = self._role(user)
        if role is None:
            return Message("role-missing", "this user has no role here")
        return Identity(user, role, _csrf(self._key, user.encode()))

    def _is_proxy(self, asking: Asking) -> bool:
        try:
            address = ipaddress.ip_address(asking.peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        if not any(mapped in network for network in self._networks):
            return False
        if self._secret is None:
            return True
        sent = asking.headers.get(SECRET_HEADER, ())
        return len(sent) == 1 and hmac.compare_digest(sent[0].encode(), self._secret)

    def _role(self, user: str) -> Role | None:
        for role, names in (
            (Role.ADMIN, self._roles.admins),
            (Role.OPERATOR, self._roles.operators),
            (Role.VIEWER, self._roles.viewers),
        ):
            if user in names or EVERYBODY in names:
                return role
        return None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _csrf(key: bytes, name: bytes) -> str:
    return hmac.new(key, b"csrf\0" + name, hashlib.sha256).hexdigest()


def session_cookie(host: str) -> str:
    """Return the name of a session's cookie at a ``Host``.

    Browsers send the cookies of a host to all its ports, and let each port set them. On this host
    itself the name has the port, so that two dashboards do not sign out each other's users. Other
    names are reached through TLS, where the prefix makes browsers accept the cookie only from that
    name over TLS (RFC 6265bis, 4.1.3.2).

    Examples
    --------
    >>> session_cookie("127.0.0.1:8765"), session_cookie("trimtab.example.org")
    ('trimtab_session_8765', '__Host-trimtab_session')
    """
    parts = urlsplit(f"//{host}")
    if is_loopback(parts.hostname or ""):
        return f"{_COOKIE}_{parts.port or 80}"
    return f"__Host-{_COOKIE}"


def is_loopback(name: str) -> bool:
    """Return whether a host's name or address is this host's own."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _cookies(headers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the values of the session's cookie, ignoring those of other servers on the host."""
    (host,) = headers["host"]
    wanted = session_cookie(host)
    parts = ";".join(headers.get("cookie", ())).split(";")
    pairs = (part.partition("=") for part in parts)
    return [value.strip() for name, _, value in pairs if name.strip() == wanted][:_COOKIES_MAX]


def _is_user(name: str) -> bool:
    """Whether a header holds a name: printable, and no star, which means every user."""
    return (
        0 < len(name) <= _USER_MAX and name.isascii() and name.isprintable() and name != EVERYBODY
    )
