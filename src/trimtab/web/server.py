"""The application with its guard, and the server that runs it."""

from __future__ import annotations

import asyncio
import functools
import logging
import resource
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from trimtab.config.version import __version__
from trimtab.errors import NoAnswer, RefusedError, TrimtabError, UnreadableError, UsageError
from trimtab.visible import visible
from trimtab.web import (
    api,
    files_api,
    incident_pages,
    live,
    overview_pages,
    pages,
    purge_pages,
    record_pages,
    result_api,
    result_pages,
)
from trimtab.web.access import Access
from trimtab.web.guard import Guard, Refusal
from trimtab.web.openapi import described
from trimtab.web.render import problem_page

if TYPE_CHECKING:
    from trimtab.web.desk import Desk

HEADERS_S: Final = 10.0
"""A client that has not sent its headers by then is let go."""
STALLED_S: Final = 30.0
"""A client that takes nothing of its answer for so long is let go, with what waits for it."""
HEADERS_MAX: Final = 16 * 1024
CONNECTIONS_MAX: Final = 1200
_FILES: Final = 300
"""Other than connections: the store's, for each thread."""
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
    application.include_router(files_api.router)
    # In this order: the path of a site may be any, and the first route that matches answers.
    application.include_router(overview_pages.api_router)
    application.include_router(api.router)
    application.include_router(incident_pages.api_router)
    application.include_router(result_api.api_router)
    application.include_router(purge_pages.api_router)
    application.include_router(overview_pages.router)
    application.include_router(pages.router)
    application.include_router(incident_pages.router)
    application.include_router(record_pages.router)
    application.include_router(result_pages.router)
    application.include_router(purge_pages.router)
    application.include_router(live.router)
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
) -> Guard:
    """Return the dashboard behind its guard."""
    return Guard(
        application_of(desk),
        access,
        hosts=hosts,
        log=log,
        elapsed_s=elapsed_s,
        refuse=refusal_page,
    )


def refusal_page(refusal: Refusal, as_json: bool) -> bytes:
    """Return what a request gets that is not let in."""
    error = UsageError(str(refusal.reason))
    error.code = getattr(refusal.reason, "code", "refused")
    return _problem(error, refusal.status, as_json=as_json)


def _problem(error: TrimtabError, status: int, *, as_json: bool) -> bytes:
    if as_json:
        from trimtab.report.documents.encode import FailureDocument, to_json

        return to_json(FailureDocument(error)).encode()
    return problem_page(error, status).encode()


def _answer(request: Request, error: TrimtabError, status: int) -> Response:
    as_json = request.url.path.startswith("/api/")
    media_type = "application/json" if as_json else "text/html"
    return Response(_problem(error, status, as_json=as_json), status, media_type=media_type)


async def _failed(request: Request, error: Exception) -> Response:
    """Return a clear page for what can go wrong: a store that is locked, gone or newer."""
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
    """Return a page that shows nothing of the inside; the log has it."""
    problem = TrimtabError("an error of the dashboard; its log says more", code="bug")
    return _answer(request, problem, 500)


class Connection(H11Protocol):
    """A connection that must send its headers and take its answer soon.

    uvicorn itself waits for both for ever.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of the headers only so long."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait until the client takes more of its answer, but only so long."""
        super().pause_writing()
        # Not close(): that would first wait for the rest to be taken.
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


def server_of(guard: Guard, listener: socket.socket) -> uvicorn.Server:
    """Return the server on a socket that listens already: believes no header about its peers."""
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
        The address is taken, or not this host's.
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
    """Let this process hold as many files as it takes connections; a login shell allows 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS_MAX + _FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
