"""Checks every request: host, rate, identity, size, forgery, and its user's turn.

An ASGI application around the dashboard's own. Nothing behind it runs for a request it refuses, and
every answer carries its headers. One user's requests wait for one another, and no other user waits
for them::

    request ──> light ─────────────────────────> thread ──> answer    some of each user at once
                  ├── heavy ──> admitted ──> computing ──> answer    one of each user, two in all
                  │                  └── no place left: 503, Retry-After
                  └── stream ──────────────────> open until it ends

A user keeps a place until the client has read the answer: a slow reader fills only its own places.
Only ``computing`` is left as soon as the answer begins. All of it happens in the event loop.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends
from starlette.requests import Request

from trimtab.base.error import Message, RefusedError, code_of, visible
from trimtab.web.access import Access, Asking, Identity, TokenAccess, session_cookie

HELD_OF_USER: Final = 6
"""Answers per user at once, as many as a browser has connections to one server; a user has a sixth
of the threads that work on answers."""
WAITING_OF_USER: Final = 64
HEAVY_MAX: Final = 32
HEAVY_OF_USER: Final = 4
"""Maximum of heavy requests that wait, are in work, or have answers being read."""
COMPUTING_MAX: Final = 2
COMPUTING_OF_USER: Final = 1
STREAMS_MAX: Final = 200
STREAMS_OF_USER: Final = 8
"""Maximum of pages that follow changes: one per open window."""


class Busy(RefusedError):
    """No place is left; a later request may find one."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, code="busy", hint="try again in a few seconds")


class Lane:
    """Places for requests, and a bounded queue in which each user waits for a place.

    Parameters
    ----------
    at_once, of_user
        Places in all, and for one user.
    waiting_of_user
        Number of requests of one user that may wait.
    refusal
        Message for requests beyond that.
    """

    def __init__(
        self, at_once: float, of_user: int, *, waiting_of_user: int = 0, refusal: str = ""
    ) -> None:
        self._at_once, self._of_user = at_once, of_user
        self._waiting_of_user, self._refusal = waiting_of_user, refusal
        self._inside: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    async def enter(self, user: str) -> None:
        """Take a place, as soon as there is one.

        Raises
        ------
        Busy
            No place is free, and too many requests of this user wait already.
        """
        if self._has_place(user):
            self._inside[user] += 1
            return
        if sum(waits == user for waits, _ in self._waiting) >= self._waiting_of_user:
            raise Busy(self._refusal)
        entry = user, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        try:
            await entry[1]
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:  # the place was assigned at the same moment
                self.leave(user)
            raise

    def leave(self, user: str) -> None:
        """Release a place; the first waiting request that may have one gets it."""
        self._inside[user] -= 1
        if not self._inside[user]:
            del self._inside[user]
        for entry in tuple(self._waiting):
            if self._has_place(entry[0]):
                self._waiting.remove(entry)
                self._inside[entry[0]] += 1
                entry[1].set_result(None)

    def _has_place(self, user: str) -> bool:
        return self._inside.total() < self._at_once and self._inside[user] < self._of_user


class Lanes:
    """The lanes of one dashboard."""

    def __init__(self) -> None:
        self.light = Lane(
            math.inf,  # the server bounds connections
            HELD_OF_USER,
            waiting_of_user=WAITING_OF_USER,
            refusal="too many of your requests wait already",
        )
        self.heavy = Lane(
            HEAVY_MAX, HEAVY_OF_USER, refusal="too many requests that take long are under way"
        )
        self.computing = Lane(COMPUTING_MAX, COMPUTING_OF_USER, waiting_of_user=HEAVY_OF_USER)
        self.streams = Lane(
            STREAMS_MAX, STREAMS_OF_USER, refusal="too many pages follow changes already"
        )


class Turn:
    """The places that one request holds."""

    def __init__(self, lanes: Lanes, user: str) -> None:
        self._lanes, self._user = lanes, user
        self._held: list[Lane] = []

    async def light(self) -> None:
        """Wait for a turn."""
        await self._enter(self._lanes.light)

    async def heavy(self) -> None:
        """Exchange a light turn for a heavy one, and wait for it."""
        self._leave(self._lanes.light)
        await self._enter(self._lanes.heavy)
        await self.computing()

    async def computing(self) -> None:
        """Wait until the next part of a heavy answer may be computed."""
        if self._lanes.computing not in self._held:
            await self._enter(self._lanes.computing)

    async def stream(self) -> None:
        """Exchange a light turn for a place among the pages that follow changes."""
        self._leave(self._lanes.light)
        await self._enter(self._lanes.streams)

    def computed(self) -> None:
        """Let the next request compute: the rest of this one is only to be sent."""
        self._leave(self._lanes.computing)

    def end(self) -> None:
        """Release every place."""
        while self._held:
            self._held.pop().leave(self._user)

    async def _enter(self, lane: Lane) -> None:
        await lane.enter(self._user)
        self._held.append(lane)

    def _leave(self, lane: Lane) -> None:
        if lane in self._held:
            self._held.remove(lane)
            lane.leave(self._user)


def turn_of(request: Request) -> Turn:
    """Return the places that a request holds."""
    return request.scope["trimtab.turn"]


def heavy_with(*names: str) -> Sequence[Any]:
    """Return `HEAVY` for a route that takes long only if all of some parameters have values."""

    async def heavy(request: Request) -> None:
        if all(map(request.query_params.get, names)):
            await turn_of(request).heavy()

    return (Depends(heavy),)


HEAVY: Final = heavy_with()
"""Marks a route that takes long, or reads much of the store: it waits only for other such ones."""


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_MAX: Final = 64 * 1024
"""Maximum bytes of a request: changes are a few words."""
BODY_S: Final = 10.0
"""Timeout of a body: a form sent by a user does not take longer."""
PIECE: Final = 64 * 1024
"""Bytes of an answer that are handed to a connection at once: memory does not hold the whole answer
for a client that reads slowly."""
TARGET_MAX: Final = 4096
RATE_PER_S: Final = 30.0
BURST: Final = 240.0
"""Requests of one user or address at once: a page makes a dozen."""
REFUSED_PER_S: Final = 0.2
REFUSED_BURST: Final = 20.0
"""The same for refused requests."""
RETRY_S: Final = 5
"""Seconds after which a client with too many requests, or without a place, may try again."""
_CLIENTS_MAX: Final = 4096
FORM_FIELDS_MAX: Final = 16
"""Maximum of fields in an address or a form: the parser splits them in the event loop."""
ENTER: Final = "/enter"
LEAVE: Final = "/leave"
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
_READS: Final = frozenset({"GET", "HEAD"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it browsers send the origin of a form as null, and no change passes.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"x-frame-options", b"DENY"),
)


class Buckets:
    """Remaining requests of each client, for a limited number of clients."""

    def __init__(self, per_s: float, burst: float, elapsed_s: Callable[[], float]) -> None:
        self._per_s, self._burst, self._elapsed_s = per_s, burst, elapsed_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        """Return whether another request of a client may come, and count it."""
        now = self._elapsed_s()
        left, at = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left, now)
        while len(self._left) > _CLIENTS_MAX:
            self._left.popitem(last=False)
        return allowed


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """A refused request: the status, and the reason."""

    status: int
    reason: Message


class RequestGuard:
    """The application behind its checks.

    Parameters
    ----------
    hosts
        Accepted values of ``Host``, lower case: another name that points here belongs to another
        site's page.
    refuse
        Makes the page for a refusal.
    """

    def __init__(
        self,
        application: Application,
        access: Access,
        *,
        hosts: frozenset[str],
        log: logging.Logger,
        elapsed_s: Callable[[], float],
        refuse: Callable[[Refusal, bool], bytes],
    ) -> None:
        self._application, self._access, self._hosts = application, access, hosts
        self._log, self._refuse = log, refuse
        self._rate = Buckets(RATE_PER_S, BURST, elapsed_s)
        self._refused = Buckets(REFUSED_PER_S, REFUSED_BURST, elapsed_s)
        self._logged = Buckets(REFUSED_PER_S, REFUSED_BURST, elapsed_s)
        self._lanes = Lanes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets: the server closes those that are not accepted
        status: list[int] = []
        guarded = _with_headers(send, status)
        asking = _asking(scope)
        identity = None
        try:
            self._check_target(scope, asking)
            if scope["path"] == ENTER and isinstance(self._access, TokenAccess):
                await self._enter(scope, asking, self._access, guarded)
                return
            identity = self._identify(asking)
            if not self._rate.take(identity.user):
                raise Refusal(429, Message("too-many-requests", "too many requests; wait a moment"))
            await self._pass_on(scope, receive, guarded, asking, identity)
        except Refusal as refusal:
            wants_json = scope["path"].startswith("/api/")
            await _answer(guarded, refusal, self._refuse(refusal, wants_json), json=wants_json)
        finally:
            self._audit(scope, asking, identity, status)

    def _check_target(self, scope: Scope, asking: Asking) -> None:
        hosts = asking.headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Refusal(421, Message("host-unknown", "this server has another name"))
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_MAX:
            raise Refusal(414, Message("address-too-long", "the address is too long"))
        if scope["method"] not in {*_READS, "POST"}:
            raise Refusal(405, Message("method-unknown", "only GET, HEAD and POST are answered"))
        if _is_foreign(scope, asking):
            raise Refusal(
                403, Message("origin-foreign", "the request comes from another site's page")
            )

    async def _enter(self, scope: Scope, asking: Asking, access: TokenAccess, send: Send) -> None:
        """Admit the bearer of the token; from then on a cookie serves."""
        query = fields_of(scope["query_string"])
        cookie = access.enter(query.get("token", [""])[0]) if scope["method"] == "GET" else None
        if cookie is None:
            self._count_refused(asking)
            raise Refusal(
                401, Message("token-used", "this link was used already, or is not the newest one")
            )
        # Not a redirect: from a link in another page the browser would not send the cookie along.
        body = b'<meta http-equiv="refresh" content="0;url=/"><p><a href="/">Open the dashboard</a>'
        await _send_page(send, body, _cookie_text(asking, cookie))

    def _identify(self, asking: Asking) -> Identity:
        # Strangers at the same address do not hold up known users: all come through one proxy.
        identity = self._access.identify(asking)
        if isinstance(identity, Message):
            self._count_refused(asking)
            raise Refusal(403 if code_of(identity) == "role-missing" else 401, identity)
        return identity

    def _count_refused(self, asking: Asking) -> None:
        if not self._refused.take(asking.peer):
            reason = Message("too-many-refusals", "too many refused requests; wait a minute")
            raise Refusal(429, reason)

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, asking: Asking, identity: Identity
    ) -> None:
        body = await _body(receive, asking)
        if scope["method"] not in _READS:
            _refuse_forged(asking, identity, body)
            if scope["path"] == LEAVE and isinstance(self._access, TokenAccess):
                self._access.leave(asking)
                await _send_page(send, b"<p>Signed out.", _cookie_text(asking, "", "; Max-Age=0"))
                return
        turn = Turn(self._lanes, identity.user)
        scope["trimtab.identity"], scope["trimtab.turn"] = identity, turn
        sent = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def begun(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                turn.computed()
            await send(message)

        try:
            await turn.light()
            await self._application(scope, replay, begun)
        except Busy as busy:
            raise Refusal(503, Message(busy.code, f"{busy.message}; {busy.hint}")) from None
        finally:
            turn.end()

    def _audit(
        self, scope: Scope, asking: Asking, identity: Identity | None, status: list[int]
    ) -> None:
        """Log every change and every refusal, with the user, but no flood of refusals.

        A client that repeats a refused request could fill the disk of the log.
        """
        outcome = status[0] if status else 500
        is_change = scope["method"] not in _READS
        if not is_change and outcome not in {401, 403, 421, 429}:
            return
        is_refusal = identity is None or outcome >= 400
        if is_refusal and not self._logged.take(identity.user if identity else f"\0{asking.peer}"):
            return
        known = {
            "user": None if identity is None else identity.user,
            "role": None if identity is None else identity.role.value,
            "peer": asking.peer,
            "method": visible(scope["method"][:16]),
            "path": visible(scope["path"][:200]),
            "status": outcome,
        }
        extra = {"fields": known}
        if not is_refusal:
            self._log.info("changed through the dashboard", extra=extra)
        else:
            self._log.warning("refused by the dashboard", extra=extra)


def _is_foreign(scope: Scope, asking: Asking) -> bool:
    """Return whether, by the browser's headers, another origin's page asks, except by a link.

    Requests from a page on another port of this host carry the cookies. That page cannot read the
    answers, but could make the dashboard work, and hold the places of the user's streams.
    """
    sites = asking.headers.get("sec-fetch-site", ())
    is_link = (
        scope["method"] in _READS
        and asking.headers.get("sec-fetch-mode") == ["navigate"]
        and asking.headers.get("sec-fetch-dest") == ["document"]
    )
    return not is_link and not set(sites) <= {"same-origin", "none"}


def _cookie_text(asking: Asking, value: str, life: str = "") -> bytes:
    """Return the header that gives a browser its session, or removes it."""
    (host,) = asking.headers["host"]
    name = session_cookie(host)
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{life}".encode()


async def _send_page(send: Send, content: bytes, cookie: bytes) -> None:
    body = (
        b"<!doctype html><html lang=en><meta charset=utf-8><title>Trimtab</title>"
        b'<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
    ) + content
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"set-cookie", cookie),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _refuse_forged(asking: Asking, identity: Identity, body: bytes) -> None:
    """Raise unless a change comes from a page of ours: same origin, and the page's own token."""
    origins = asking.headers.get("origin", ())
    (host,) = asking.headers["host"]
    if origins and (len(origins) > 1 or _host_of(origins[0]) != host.lower()):
        raise Refusal(403, Message("origin-foreign", "the change comes from another site's page"))
    sent = list(asking.headers.get(CSRF_HEADER, ()))
    (content_type, *_) = asking.headers.get("content-type", ("",))
    if not sent and content_type.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        sent = fields_of(body).get(CSRF_FIELD, [])
    if len(sent) != 1 or not hmac.compare_digest(sent[0].encode(), identity.csrf.encode()):
        raise Refusal(
            403, Message("forgery-suspected", "the page is from an earlier start: load it again")
        )


def fields_of(text: bytes) -> dict[str, list[str]]:
    """Return the fields of an address or a form; none if there are more than in any own page."""
    try:
        return parse_qs(text.decode("utf-8", "replace"), max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        return {}


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


async def _body(receive: Receive, asking: Asking) -> bytes:
    """Return the body of a request, which must be small and arrive soon."""
    lengths = asking.headers.get("content-length", ())
    if any(not length.isdecimal() or int(length[:20]) > BODY_MAX for length in lengths):
        raise _too_large()
    body = b""
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refusal(400, Message("client-gone", "the client went away"))
                body += message.get("body", b"")
                if len(body) > BODY_MAX:
                    raise _too_large()
                if not message.get("more_body", False):
                    return body
    except TimeoutError:
        raise Refusal(408, Message("body-too-slow", "the request did not arrive in time")) from None


def _too_large() -> Refusal:
    return Refusal(413, Message("body-too-large", f"more than {BODY_MAX // 1024} KiB"))


def _asking(scope: Scope) -> Asking:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    client = scope.get("client")
    return Asking(client[0] if client else "", headers)


def _with_headers(send: Send, status: list[int]) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
            names = {name.lower() for name, _ in message.get("headers", ())}
            added = [pair for pair in HEADERS if pair[0] not in names]
            if b"cache-control" not in names:
                added.append((b"cache-control", b"no-store"))
            if message["status"] in {429, 503} and b"retry-after" not in names:
                added.append((b"retry-after", str(RETRY_S).encode()))
            message["headers"] = [*message.get("headers", ()), *added]
        body = message.get("body", b"")
        for at in range(0, max(0, len(body) - PIECE), PIECE):
            await send({"type": message["type"], "body": body[at : at + PIECE], "more_body": True})
        if len(body) > PIECE:
            message = {**message, "body": body[(len(body) - 1) // PIECE * PIECE :]}
        await send(message)

    return guarded


async def _answer(send: Send, refusal: Refusal, body: bytes, *, json: bool) -> None:
    kind = b"application/json" if json else b"text/html; charset=utf-8"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def form_field(request: Request, name: str) -> str:
    """Return a field of a form, empty if it is missing."""
    return fields_of(await request.body()).get(name, [""])[0][:2000]
