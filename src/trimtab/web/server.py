"""The application behind its guard, the server that runs it, and events when a store has changed.

Server-sent events only say that a site's store has changed; pages ask for the changes themselves::

    browser ── GET /s/SITE/live ──> state: 3f2a...      at once, and whenever the store differs
                                    : (every 15 s, so that proxies keep the connection)

A page compares the state with the last one it saw: nothing is lost between connections.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import h11
import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from trimtab.answers import page_web_overview
from trimtab.base.code_version import __version__
from trimtab.base.error import (
    NoAnswer,
    RefusedError,
    TrimtabError,
    UnreadableError,
    UsageError,
    visible,
)
from trimtab.explain import page_web_incident
from trimtab.purge import page_web_purge
from trimtab.web import api, api_result, page_action, page_measured, page_result
from trimtab.web.access import Access
from trimtab.web.api import described
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.request_guard import Refusal, RequestGuard, turn_of
from trimtab.web.template import problem_page

router = APIRouter(include_in_schema=False)
LOOK_S: Final = 2.0
BEAT_S: Final = 15.0
END_S: Final = 600.0
"""Lifetime of a stream; then the browser asks again: a session that has ended is refused."""


@router.get("/s/{site:path}/live")
async def live(request: Request, desk: DeskOf, site: str) -> Response:
    """Report every change of a site's store."""
    await run_in_threadpool(desk.place, site)
    await turn_of(request).stream()
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(changes(desk, site), headers=headers, media_type="text/event-stream")


async def changes(
    desk: Desk, site: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[str]:
    """Yield the state of a site's store, and again whenever it differs; ends after `END_S`."""
    last, silent_s = "", 0.0
    for _ in range(int(END_S / LOOK_S)):
        state = await run_in_threadpool(_state, desk, site)
        if state not in (None, last):
            last, silent_s = state, 0.0
            yield f"event: state\ndata: {state}\n\n"
        elif silent_s >= BEAT_S:
            silent_s = 0.0
            yield ":\n\n"
        await sleep(LOOK_S)
        silent_s += LOOK_S


def _state(desk: Desk, site: str) -> str | None:
    """Return a digest of the state of the store; ``None`` if it cannot be read just now."""
    try:
        return hashlib.sha256(repr(desk.state_of_store(site)).encode()).hexdigest()[:16]
    except TrimtabError:
        return None


HEADERS_S: Final = 10.0
"""A client that has not sent its headers by then is disconnected."""
STALLED_S: Final = 30.0
"""A client that reads nothing of its answer for so long is disconnected, and the rest dropped."""
HEADERS_MAX: Final = 16 * 1024
CONNECTIONS_MAX: Final = 1200
_FILES: Final = 300
"""Descriptors besides connections: the store's, for each thread."""
KEEP_ALIVE_S: Final = 15
_STATUSES: Final = {
    "site-unknown": 404,
    "series-unknown": 404,
    "incident-unknown": 404,
    "target-unknown": 404,
    "run-unknown": 404,
    "page-unknown": 404,
    "sweep-unknown": 404,
    "plan-unknown": 404,
    "no-snapshot": 404,
    "role-too-low": 403,
    "busy": 503,
}


def application_of(desk: Desk) -> FastAPI:
    """Return the dashboard of some sites, without its guard."""
    application = FastAPI(
        title="Trimtab",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    application.state.desk = desk
    application.openapi = functools.partial(described, application)  # type: ignore[method-assign]
    application.include_router(api.files_router)
    # In this order: a site may have any path, and the first matching route answers.
    application.include_router(page_web_overview.api_router)
    application.include_router(api.router)
    application.include_router(page_web_incident.api_router)
    application.include_router(api_result.api_router)
    application.include_router(page_web_purge.api_router)
    application.include_router(page_web_overview.router)
    application.include_router(page_measured.router)
    application.include_router(page_web_incident.router)
    application.include_router(page_action.router)
    application.include_router(page_result.router)
    application.include_router(page_web_purge.router)
    application.include_router(router)
    application.add_exception_handler(TrimtabError, _failed)
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_exception_handler(HTTPException, _missing)
    application.add_exception_handler(Exception, _broken)
    return application


def guarded(
    desk: Desk,
    access: Access,
    *,
    hosts: frozenset[str],
    log: logging.Logger,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> RequestGuard:
    """Return the dashboard behind its guard."""
    return RequestGuard(
        application_of(desk),
        access,
        hosts=hosts,
        log=log,
        elapsed_s=elapsed_s,
        refuse=refusal_page,
    )


def refusal_page(refusal: Refusal, as_json: bool) -> bytes:
    """Return the answer to a refused request."""
    error = UsageError(str(refusal.reason))
    error.code = getattr(refusal.reason, "code", "refused")
    return _problem(error, refusal.status, as_json=as_json)


def _problem(error: TrimtabError, status: int, *, as_json: bool) -> bytes:
    if as_json:
        from trimtab.base.encode import FailureDocument, to_json

        return to_json(FailureDocument(error)).encode()
    return problem_page(error, status).encode()


def _answer(request: Request, error: TrimtabError, status: int) -> Response:
    as_json = request.url.path.startswith("/api/")
    media_type = "application/json" if as_json else "text/html"
    return Response(_problem(error, status, as_json=as_json), status, media_type=media_type)


async def _failed(request: Request, error: Exception) -> Response:
    """Return a clear page for an expected error: a store that is locked, missing or newer."""
    assert isinstance(error, TrimtabError)
    status = _STATUSES.get(error.code)
    if status is None:
        by_kind = {UsageError: 400, RefusedError: 403, UnreadableError: 503, NoAnswer: 504}
        status = next((by_kind[kind] for kind in by_kind if isinstance(error, kind)), 500)
    return _answer(request, error, status)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    (first, *_) = error.errors()
    place = ".".join(str(part) for part in first["loc"])
    problem = UsageError(f"{visible(place)}: {first['msg']}", code="request-invalid")
    return _answer(request, problem, 422)


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "there is no such page" if error.status_code == 404 else str(error.detail)
    return _answer(request, UsageError(text, code="page-unknown"), error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    """Return a page without internal details; the log has them."""
    problem = TrimtabError("an error of the dashboard; its log says more", code="bug")
    return _answer(request, problem, 500)


class Connection(H11Protocol):
    """A connection that must send its headers and read its answer soon.

    uvicorn itself waits for both for ever.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take the received data, and wait only a limited time for the rest of the headers."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait a limited time until the client reads more of its answer."""
        super().pause_writing()
        # Not close(): that would first wait for the client to read the rest.
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Send on."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self._let_go)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _let_go(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def server_of(guard: RequestGuard, listener: socket.socket) -> uvicorn.Server:
    """Return the server on a listening socket; it trusts no header about its peers."""
    configuration = uvicorn.Config(
        guard,  # type: ignore[arg-type]
        fd=None,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=HEADERS_MAX,
    )
    server = uvicorn.Server(configuration)
    server.run = functools.partial(server.run, sockets=[listener])  # type: ignore[method-assign]
    return server


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises
    ------
    RefusedError
        The address is in use, or not this host's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise RefusedError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            code="address-taken",
            hint="name another with --bind",
        ) from error
    return listener


def allow_connections() -> None:
    """Raise the limit of open files to that of connections; a login shell allows 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS_MAX + _FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
