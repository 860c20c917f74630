"""Whose turn it is: one user's requests wait for one another, and no other user waits for them.

::

    request ──> light ─────────────────────────> thread ──> answer    some of each user at once
                  ├── heavy ──> admitted ──> computing ──> answer    one of each user, two in all
                  │                  └── no place left: 503, Retry-After
                  └── stream ──────────────────> open until it ends

A user keeps a place until the answer was taken: a slow reader fills only places of their own. Only
``computing`` is left as soon as the answer begins. All of it happens in the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from fastapi import Depends
from starlette.requests import Request

from trimtab.base.error import RefusedError

HELD_OF_USER: Final = 6
"""Answers of one user at once, as many as a browser has connections for one server; a user has a
sixth of the threads that work on answers."""
WAITING_OF_USER: Final = 64
HEAVY_MAX: Final = 32
HEAVY_OF_USER: Final = 4
"""Heavy requests that wait, are worked on, or whose answers are being taken."""
COMPUTING_MAX: Final = 2
COMPUTING_OF_USER: Final = 1
STREAMS_MAX: Final = 200
STREAMS_OF_USER: Final = 8
"""Pages that follow changes: each window that somebody looks at."""


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
        How many requests of one user may wait.
    refusal
        What is said to those beyond.
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
            There is none, and too many requests of this user wait already.
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
            else:  # the place was given in the same moment
                self.leave(user)
            raise

    def leave(self, user: str) -> None:
        """Give a place back; the first that waits and may have one gets it."""
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
        """Wait among those that take long, in place of a light turn."""
        self._leave(self._lanes.light)
        await self._enter(self._lanes.heavy)
        await self.computing()

    async def computing(self) -> None:
        """Wait until a further part of an answer that takes long may be worked out."""
        if self._lanes.computing not in self._held:
            await self._enter(self._lanes.computing)

    async def stream(self) -> None:
        """Take a place among the pages that follow changes, in place of a light turn."""
        self._leave(self._lanes.light)
        await self._enter(self._lanes.streams)

    def computed(self) -> None:
        """Let the next one compute: what is left is to be sent."""
        self._leave(self._lanes.computing)

    def end(self) -> None:
        """Give back every place."""
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
    """Return `HEAVY` for a route that takes long only where all of some parameters have values."""

    async def heavy(request: Request) -> None:
        if all(map(request.query_params.get, names)):
            await turn_of(request).heavy()

    return (Depends(heavy),)


HEAVY: Final = heavy_with()
"""Of a route that takes long, or reads much of the store: it waits among those alone."""
