"""What ends watches of `year_of_the_watch` again and again, and what receives their alerts."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from trimtab.store.store import Store

STORE_CALLS: Final = frozenset(
    {"finish_slot", "claim_slot", "put_action", "renew_right", "renew_lease", "add_alert"}
)
"""At which a watch may be killed, before or after."""


class Killed(BaseException):
    """The process is no more: no handler of errors stops it."""


class Receiver:
    """A webhook that keeps the key of every message."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.keys.append(str(self.headers["Idempotency-Key"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/alerts"


class Kills:
    """When watches are killed: at random calls of their store."""

    def __init__(self, every: int, seed: int) -> None:
        self._draws, self._every = np.random.default_rng(seed), every
        self._left = self._next()
        self.count = 0
        self.processes = 0

    def _next(self) -> int:
        return int(self._draws.integers(1, 2 * self._every)) if self._every else -1

    def due(self) -> tuple[bool, bool]:
        """Count a call; return whether its process is killed before it, or after it."""
        self._left -= 1
        if self._left != -1 or not self._every:
            return False, False
        self._left = self._next()
        self.count += 1
        is_before = bool(self._draws.integers(0, 2))
        return is_before, not is_before


class Process:
    """The store as one process has it: once that is killed, it reads and writes no more."""

    def __init__(self, store: Store, kills: Kills) -> None:
        self._store, self._kills, self._is_dead = store, kills, False
        kills.processes += 1
        self.name = f"watch {kills.processes}"

    def __getattr__(self, name: str) -> Any:
        if self._is_dead:
            raise Killed
        value = getattr(self._store, name)
        if name not in STORE_CALLS:
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            is_before, is_after = self._kills.due()
            if is_before:
                self._die()
            answer = value(*arguments, **more)
            if is_after:
                self._die()
            return answer

        return call

    def _die(self) -> None:
        self._is_dead = True
        raise Killed
