"""Many processes at once under ClusterShell's event engine, each with its own deadline.

::

    waiting ── fan-out has room ──> started ──EOF of both──> closing ──exit──> ended
                                       │                        │
                                       ├─ exit (a grandchild holds its pipes) ─> ended
                                       └─ deadline, output limit, Interrupted ─> SIGKILL ─> ended

The engine starts processes as its fan-out allows and says when a pipe can be read; what it would
wait for without end (a killed process that does not go) and what it measures by the wall clock
(deadlines) is done here, between its polls. No Task is made: nothing outlives the call.

Every process leads a session of its own and stays uncollected until all are over: so its number
cannot become a stranger's while the rest of its session is looked for.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ClusterShell.Engine.Engine import E_READ
from ClusterShell.Engine.EPoll import EngineEPoll
from ClusterShell.Worker.EngineClient import EngineClient, EngineClientEOF

from trimtab.launch.child import collect, has_exited, input_file
from trimtab.launch.interruption import lifted, shielded
from trimtab.launch.orphans import abandon, kill_sessions, reap
from trimtab.launch.process import GRACE_S, ProcessResult

_TICK_S: Final = 0.05
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
        engine = _Engine(fanout)
        nodes = {
            name: _Node(name, argv, input_path, timeout_s, output_limit_bytes)
            for name, argv in commands.items()
        }
        try:
            for node in nodes.values():
                engine.add(node)
            engine.run_to_end()
        finally:
            _end(list(nodes.values()))
            engine.release()
    return {name: node.result() for name, node in nodes.items()}


class _Poll:
    """The engine's epoll: looks after the processes before each wait, and can be interrupted."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._epoll = select.epoll()
        self.register = self._epoll.register
        self.unregister = self._epoll.unregister
        self.close = self._epoll.close

    def poll(self, _timeout_s: float) -> list[tuple[int, int]]:
        self._engine.look_after()
        if self._engine.evlooprefcnt <= 0:
            return []
        # A signal may be raised here and nowhere else: the engine's books stay true.
        with lifted():
            return self._epoll.poll(_TICK_S)


class _Engine(EngineEPoll):
    """ClusterShell's engine, with deadlines by the monotonic clock and without blocking waits."""

    def __init__(self, fanout: int) -> None:
        super().__init__({"fanout": fanout})
        self.epolling.close()
        self.epolling: Any = _Poll(self)
        self.started: list[_Node] = []

    def look_after(self) -> None:
        """End those that are over or late; each end may let others start."""
        now_s = time.monotonic()
        for node in list(self.started):
            if node.look(now_s):
                self.started.remove(node)
                if node in self._clients:
                    self.remove(node)

    def run_to_end(self) -> None:
        """Run all, and wait for those that closed their pipes and have not ended yet."""
        # The loop ends when nothing can be read: also when those that could not be started were
        # all that the fan-out had room for.
        while self._clients:
            self.run(0)
            self.look_after()
        while self.started:
            self.look_after()
            if self.started:
                with lifted():
                    time.sleep(0.002)


class _Worker:
    """What the engine wants to know of the owner of a client."""

    _fanout = None  # the engine's own


_WORKER: Final = _Worker()


class _Node(EngineClient):
    """One process: started, read and closed by the engine."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        input_path: str,
        timeout_s: float,
        limit_bytes: int,
    ) -> None:
        super().__init__(_WORKER, name, True, None, False)
        self.argv = tuple(argv)
        self.input_path = input_path
        self.timeout_s = timeout_s
        self.limit_bytes = limit_bytes
        self.chunks = {"stdout": bytearray(), "stderr": bytearray()}
        self.child: subprocess.Popen[bytes] | None = None
        self.not_started: str | None = None
        self.started_at = datetime.now(UTC)
        self.began_s = time.monotonic()
        self.ended_s: float | None = None
        self.timed_out = self.truncated = self.abandoned = False
        self.code: int | None = None
        self.usage: Any = None

    # What the engine calls ------------------------------------------------------------------

    def _start(self) -> _Node:
        self.started_at, self.began_s = datetime.now(UTC), time.monotonic()
        assert isinstance(self._engine, _Engine)
        self._engine.started.append(self)
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
            return self
        for name, pipe in (("stdout", self.child.stdout), ("stderr", self.child.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self.streams.set_stream(name, pipe.fileno(), E_READ, closefd=False)
        return self

    def _handle_read(self, sname: str) -> None:
        if not self._take(sname):
            raise EngineClientEOF
        self._set_reading(sname)

    def _close(self, abort: bool, timeout: bool) -> None:
        del timeout  # the engine's timers are not used
        if abort:
            self.kill()
        self.streams.clear()
        self.invalidate()

    # What is done between its polls -----------------------------------------------------------

    def look(self, now_s: float) -> bool:
        """Kill it when it is late; return whether it is over, or was left."""
        if self.child is None:
            self.ended_s = now_s
            return True
        if self.exited():
            for name in self.chunks:
                # A grandchild may hold the pipes: what is in them now is all that is waited for.
                while name in self.streams and self._has_more(name):
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
            return self._take(name) and len(self.chunks[name]) > before
        except OSError:
            return False

    def _take(self, name: str) -> bool:
        """Take what a pipe holds; return False at its end."""
        pipe = self.child and (self.child.stdout if name == "stdout" else self.child.stderr)
        assert pipe is not None
        chunk = pipe.read(_CHUNK_BYTES)
        if chunk is None:
            return True
        room_bytes = self.limit_bytes - sum(len(chunk) for chunk in self.chunks.values())
        self.chunks[name] += chunk[: max(room_bytes, 0)]
        if len(chunk) > room_bytes:
            self.truncated = True
            self.kill()
        return bool(chunk)

    # Afterwards -------------------------------------------------------------------------------

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
