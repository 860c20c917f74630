"""Server-sent events: that a site's store has changed. What changed, pages ask for themselves.

::

    browser ── GET /s/SITE/live ──> state: 3f2a...      at once, and whenever the store differs
                                    : (every 15 s, so that proxies keep the connection)

A page compares the state with the one that it saw before: nothing is lost while a connection is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from trimtab.errors import TrimtabError
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.turns import turn_of

router = APIRouter(include_in_schema=False)
LOOK_S: Final = 2.0
BEAT_S: Final = 15.0
END_S: Final = 600.0
"""Then the browser asks again: whose session has ended is not let in any more."""


@router.get("/s/{site:path}/live")
async def live(request: Request, desk: DeskOf, site: str) -> Response:
    """Tell whenever the store of a site has changed."""
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
    """Return a word for the state of the store; ``None`` where it cannot be read just now."""
    try:
        return hashlib.sha256(repr(desk.state_of_store(site)).encode()).hexdigest()[:16]
    except TrimtabError:
        return None
