"""Many processes at once in one loop, each with its own deadline.

::

    waiting ── fan-out has room ──> started ──EOF of both──> closing ──exit──> ended
                                       │                        │
                                       ├─ exit (a grandchild holds its pipes) ─> ended
                                       └─ deadline, output limit, Interrupted ─> SIGKILL ─> ended

Nothing in the loop waits for a process: one that is killed and does not go is left behind at the
end, and holds nobody up. Deadlines are by the monotonic clock.

Every process leads a session of its own and stays uncollected until all are over: so its number
cannot become a stranger's while the rest of its session is looked for.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from trimtab.launch.child import collect, has_exited, input_file
from trimtab.launch.interruption import lifted, shielded
from trimtab.launch.orphans import abandon, kill_sessions, reap
from trimtab.launch.process import GRACE_S, ProcessResult

_TICK_S: Final = 0.05
_CLOSING_S: Final = 0.002
"""Longest wait between looks at the processes, and where one has closed its pipes: its end is no
event."""
_CHUNK_BYTES: Final = 2**18


def run_all(
    commands: Mapping[str, Sequence[str]],
    *,
    stdin: bytes,
    timeout_s: float,
    fanout: int,
    output_limit_bytes: int,
) -> dict[str, ProcessResult]:
    """Return how each command ended, under its name.

    Raises
    ------
    Interrupted
        All that was started is killed before.
    """
    reap()
    with shielded(), input_file(stdin) as input_path:
        nodes = {
            name: _Node(argv, input_path, timeout_s, output_limit_bytes)
            for name, argv in commands.items()
        }
        try:
            _run(list(nodes.values()), fanout)
        finally:
            _end(list(nodes.values()))
    return {name: node.result() for name, node in nodes.items()}


def _run(nodes: Sequence[_Node], fanout: int) -> None:
    """Start each as soon as there is room, and read all until they are over, late or too long."""
    waiting, running = deque(nodes), list[_Node]()
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            while waiting and len(running) < fanout:
                running.append(waiting.popleft())
                running[-1].start(selector)
            wait_s = _TICK_S if all(node.pipes for node in running) else _CLOSING_S
            # A signal may be raised here and nowhere else: what was started is known.
            with lifted():
                ready = selector.select(wait_s)
            for key, _ in ready:
                node, name = key.data
                if not node.take(name):
                    selector.unregister(node.pipes.pop(name))
            now_s = time.monotonic()
            for node in list(running):
                if node.look(now_s):
                    running.remove(node)
                    for pipe in node.pipes.values():
                        selector.unregister(pipe)


class _Node:
    """One process."""

    def __init__(
        self,
        argv: Sequence[str],
        input_path: str,
        timeout_s: float,
        limit_bytes: int,
    ) -> None:
        self.argv = tuple(argv)
        self.input_path = input_path
        self.timeout_s = timeout_s
        self.limit_bytes = limit_bytes
        self.chunks = {"stdout": bytearray(), "stderr": bytearray()}
        self.pipes: dict[str, IO[bytes]] = {}
        self.child: subprocess.Popen[bytes] | None = None
        self.not_started: str | None = None
        self.started_at = datetime.now(UTC)
        self.began_s = time.monotonic()
        self.ended_s: float | None = None
        self.timed_out = self.truncated = self.abandoned = False
        self.code: int | None = None
        self.usage: Any = None

    def start(self, selector: selectors.BaseSelector) -> None:
        """Start it, and have its pipes watched."""
        self.started_at, self.began_s = datetime.now(UTC), time.monotonic()
        try:
            with Path(self.input_path).open("rb") as file:
                self.child = subprocess.Popen(
                    self.argv,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                    bufsize=0,
                )
        except OSError as error:  # too many processes or open files: this node's bad luck
            self.not_started = f"{self.argv[0]} could not be started: {error.strerror or error}"
            return
        for name, pipe in (("stdout", self.child.stdout), ("stderr", self.child.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.pipes[name] = pipe
            selector.register(pipe, selectors.EVENT_READ, (self, name))

    def look(self, now_s: float) -> bool:
        """Kill it when it is late; return whether it is over, or was left."""
        if self.child is None:
            self.ended_s = now_s
            return True
        if self.exited():
            for name in self.pipes:
                # A grandchild may hold the pipes: what is in them now is all that is waited for.
                while self._has_more(name):
                    pass
            return True
        if now_s - self.began_s >= self.timeout_s and self.ended_s is None:
            self.timed_out = True
            self.kill()
            self.ended_s = now_s
            return True
        return self.truncated

    def exited(self) -> bool:
        """Return whether it has ended; it stays uncollected."""
        assert self.child is not None
        over = has_exited(self.child)
        if over and self.ended_s is None:
            self.ended_s = time.monotonic()
        return over

    def kill(self) -> None:
        """Send SIGKILL to its group."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGKILL)

    def _has_more(self, name: str) -> bool:
        try:
            before = len(self.chunks[name])
            return self.take(name) and len(self.chunks[name]) > before
        except OSError:
            return False

    def take(self, name: str) -> bool:
        """Take what a pipe holds; return False at its end."""
        chunk = self.pipes[name].read(_CHUNK_BYTES)
        if chunk is None:
            return True
        room_bytes = self.limit_bytes - sum(len(chunk) for chunk in self.chunks.values())
        self.chunks[name] += chunk[: max(room_bytes, 0)]
        if len(chunk) > room_bytes:
            self.truncated = True
            self.kill()
        return bool(chunk)

    def collect(self) -> None:
        """Take its status from the kernel, or leave it where it cannot be killed."""
        assert self.child is not None
        if not self.exited():
            self.abandoned = True
            self.ended_s = self.ended_s or time.monotonic()
            abandon(self.child)
            return
        self.code, self.usage = collect(self.child)

    def result(self) -> ProcessResult:
        """Return how it ran."""
        code = self.code
        return ProcessResult(
            argv=self.argv,
            stdout=bytes(self.chunks["stdout"]),
            stderr=bytes(self.chunks["stderr"]),
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            started_at=self.started_at,
            elapsed_s=(self.ended_s or time.monotonic()) - self.began_s,
            timeout_s=self.timeout_s,
            timed_out=self.timed_out,
            truncated=self.truncated,
            abandoned=self.abandoned,
            cpu_user_s=self.usage.ru_utime if self.usage else None,
            cpu_system_s=self.usage.ru_stime if self.usage else None,
            not_started=self.not_started,
        )


def _end(nodes: Sequence[_Node]) -> None:
    """Kill whatever is left of the sessions of all nodes, then collect the leaders."""
    started = [node for node in nodes if node.child is not None]
    kill_sessions({node.child.pid for node in started if node.child is not None})
    end_s = time.monotonic() + GRACE_S
    while any(not node.exited() for node in started) and time.monotonic() < end_s:
        time.sleep(0.002)
    for node in started:
        node.collect()
