"""Runs one program with a deadline and an output limit, without a shell.

::

    running ──exit──────────────────────────────> sweep ──> drain ──> result
       │                                            ^
       ├─ deadline ─> SIGTERM ─ grace ─> SIGKILL ───┤
       ├─ output limit ────────────────> SIGKILL ───┤
       └─ Interrupted ─> SIGTERM ─ grace ─> SIGKILL ┴─> the error goes on

The program leads its own session. When it has ended, in whatever way, the rest of the session is
killed: a grandchild can neither continue writing nor block us through an inherited pipe. Only a
process that started its own session escapes.

A killed child that does not exit, blocked in a dead mount, is abandoned: tracked, collected if it
ever exits, and never waited for.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Final

from trimtab.base.error import Message, ToolError
from trimtab.base.event import utc_now
from trimtab.base.interruption import lifted, shielded
from trimtab.base.run import Access, RawOutput
from trimtab.base.units import format_bytes

_pids: dict[int, tuple[str, ...]] = {}
"""Each with its command line."""
_lock = threading.Lock()


def abandon(process: subprocess.Popen[bytes], argv: tuple[str, ...]) -> None:
    """Kill a child and abandon it: in a dead mount it may never exit."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    # It is now reaped by pid; Popen would warn that it still runs.
    process.returncode = -signal.SIGKILL
    with _lock:
        _pids[process.pid] = argv
    reap()


def reap() -> None:
    """Collect abandoned children that have exited, without waiting for the others."""
    with _lock:
        for pid in list(_pids):
            try:
                gone, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                gone = pid
            if gone:
                del _pids[pid]


def still_hanging(*words: str) -> int:
    """Return how many abandoned children with this start of the command line still exist."""
    reap()
    with _lock:
        return sum(argv[: len(words)] == words for argv in _pids.values())


def session_members(*sessions: int) -> list[int]:
    """Return the living processes of sessions, from ``/proc/PID/stat`` (proc(5)), in one walk.

    Open MPI puts each rank into its own process group: killing only mpirun's group would leave the
    ranks writing. They stay in the session.
    """
    members: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_bytes()
        except OSError:
            continue  # ended in the meantime, or hidden from us and so not ours
        # "pid (name) state ppid pgrp session ...": the name may contain spaces and parentheses.
        state, _parent, _group, of_session = text[text.rindex(b")") + 2 :].split()[:4]
        if int(of_session) in sessions and state not in (b"Z", b"X"):
            members.append(int(entry.name))
    return members


def kill_sessions(sessions: Collection[int]) -> None:
    """Send SIGKILL to every process of the sessions, including newly forked ones."""
    for session in sessions:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
    for _ in range(5):
        members = session_members(*sessions)
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


OUTPUT_LIMIT_BYTES: Final = 64 * 2**20
GRACE_S: Final = 5.0
"""From SIGTERM to SIGKILL, and from SIGKILL to abandoning an unkillable process."""

_TICK_S: Final = 0.1
_CHUNK_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of running one program.

    Attributes
    ----------
    exit_code
        ``None`` if a signal ended it or it could not be killed.
    signal
        Number of the signal that ended it.
    timed_out
        Whether it was still running at its deadline.
    timeout_s
        Its deadline.
    truncated
        Whether it was killed for exceeding the output limit; the output before is kept.
    abandoned
        Whether it survived SIGKILL (in an uninterruptible system call) and was abandoned.
    not_started
        Why there was no process, if several were to be started and this one was not.
    """

    argv: tuple[str, ...]
    stdout: bytes
    stderr: bytes
    exit_code: int | None
    signal: int | None
    started_at: datetime
    elapsed_s: float
    timeout_s: float
    timed_out: bool = False
    truncated: bool = False
    abandoned: bool = False
    not_started: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the run failed; ``None`` if it ended by itself with exit code 0."""
        name = os.path.basename(self.argv[0])  # noqa: PTH119 (a plain string)
        if self.not_started is not None:
            return self.not_started
        if self.truncated:
            return Message(
                "output-limit",
                f"{name} printed more than {format_bytes(self._kept_bytes)} and was killed",
            )
        if self.timed_out:
            end = " and could not be killed" if self.abandoned else " and was killed"
            return Message("timed-out", f"{name} was still running after {self.timeout_s:g} s{end}")
        if self.abandoned:
            return Message("not-killable", f"{name} could not be killed")
        if self.signal is not None:
            return Message("killed-by-signal", f"{name} was ended by {_signal_name(self.signal)}")
        if self.exit_code is None:
            return Message("end-unknown", f"unknown how {name} ended: SIGCHLD is ignored")
        if self.exit_code != 0:
            return Message("exit-code", f"{name} ended with exit code {self.exit_code}")
        return None

    @property
    def _kept_bytes(self) -> int:
        return len(self.stdout) + len(self.stderr)

    def raw_output(self, label: str) -> RawOutput:
        """Return the output as stored with a run; ``label`` names the part: ``write 0``."""
        return RawOutput(
            label=label,
            argv=self.argv,
            stdout=self.stdout,
            stderr=self.stderr,
            exit_code=self.exit_code,
            started_at=self.started_at,
            elapsed_s=self.elapsed_s,
            truncated=self.truncated,
        )


Execute = Callable[..., ProcessResult]
"""`execute`, or its substitute in a test or on the twin."""


def execute(
    argv: Sequence[str],
    *,
    timeout_s: float,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    environment: Mapping[str, str | None] | None = None,
    directory: str = "/",
    on_progress: Callable[[float], None] | None = None,
    grace_s: float = GRACE_S,
    clock: Callable[[], datetime] = utc_now,
    stdin: bytes = b"",
    ask_to_end: Callable[[], object] | None = None,
) -> ProcessResult:
    """Run a program and return its result; only a failure to start raises an error.

    Parameters
    ----------
    argv
        Program (found on PATH) and arguments.
    timeout_s
        Seconds until SIGTERM is sent to its group; SIGKILL follows ``grace_s`` later.
    output_limit_bytes
        For stdout and stderr together; limits the memory a run can cost.
    environment
        Variables added to this process's own, or removed if the value is ``None``; always with
        ``LC_ALL=C``, for decimal points.
    directory
        Its working directory. Never on the file system under test, which could hang us.
    on_progress
        Called with the seconds since the start, several times per second. An exception from it
        (`Interrupted` too) stops the program and propagates.
    clock
        Returns the aware start time.
    stdin
        Its standard input.
    ask_to_end
        Called to stop it early, ``grace_s`` before SIGTERM: for a program that controls others
        elsewhere, which would be cut off by its own end.

    Raises
    ------
    ToolError
        The program does not exist or cannot be executed.
    """
    reap()
    started_at = clock()
    with shielded():
        with input_file(stdin) as path, _start_errors(argv, directory):
            child = Child(
                argv,
                path,
                timeout_s=timeout_s,
                limit_bytes=output_limit_bytes,
                environment={**(environment or {}), "LC_ALL": "C"},
                directory=directory,
            )
        child.started_at = started_at
        try:
            with lifted():
                child.timed_out = not child.wait(timeout_s, on_progress)
        finally:
            _finish(child, grace_s, ask_to_end)
    return child.result()


@contextlib.contextmanager
def _start_errors(argv: Sequence[str], directory: str) -> Iterator[None]:
    if not argv:
        raise ValueError("argv is empty")
    hint = "install it, put it on PATH, or give its full path"
    try:
        yield
    except FileNotFoundError as error:
        if error.filename == directory:
            raise ToolError(
                f"cannot start {argv[0]} in {directory}: no such directory",
                code="directory-missing",
            ) from error
        raise ToolError(f"{argv[0]} was not found", code="program-not-found", hint=hint) from error
    except PermissionError as error:
        raise ToolError(
            f"{argv[0]} is not executable", code="program-not-executable", hint=hint
        ) from error
    except (OSError, ValueError) as error:
        raise ToolError(
            f"cannot start {argv[0]}: {error}", code="program-not-started", hint=hint
        ) from error


def _finish(child: Child, grace_s: float, ask_to_end: Callable[[], object] | None) -> None:
    """End a program and everything it started, and collect it."""
    try:
        if ask_to_end is not None and not child.exited() and not child.truncated:
            ask_to_end()
            child.wait(grace_s)
    finally:
        if not child.exited() and not child.truncated:
            child.send(signal.SIGTERM)
            child.wait(grace_s)
        end_all([child], grace_s)


@contextlib.contextmanager
def input_file(content: bytes) -> Iterator[str]:
    """Yield the path of an in-memory file with the input, which needs no feeding like a pipe.

    Every process that opens it reads from the start, so many can share one copy.
    """
    if not content:
        yield os.devnull
        return
    with os.fdopen(os.memfd_create("stdin"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


class Child:
    """A started program: its output so far, and its end.

    It leads its own session, and stays uncollected until `collect`, so that its pid cannot be
    reused.

    Parameters
    ----------
    stdin
        Path of its standard input.
    timeout_s
        Recorded in its result; the caller enforces it.
    limit_bytes
        For both outputs together.
    environment
        Variables added to this process's own and ``LC_ALL=C``, or removed if ``None``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        stdin: str,
        *,
        timeout_s: float,
        limit_bytes: int,
        environment: Mapping[str, str | None] | None = None,
        directory: str = "/",
    ) -> None:
        self.argv = tuple(argv)
        self.timeout_s = timeout_s
        self.limit_bytes = limit_bytes
        self.started_at, self.began_s = utc_now(), time.monotonic()
        self.ended_s: float | None = None
        self.stdout, self.stderr = bytearray(), bytearray()
        self.timed_out = self.truncated = self.abandoned = False
        self.code: int | None = None
        variables = {**os.environ, "LC_ALL": "C", **(environment or {})}
        with open(stdin, "rb") as file:  # noqa: PTH123 (no Path needed)
            self.process = subprocess.Popen(
                self.argv,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,
                bufsize=0,
            )
        # A benchmark that aborts must not leave a core file in our working directory.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(self.process.pid, resource.RLIMIT_CORE, (0, 0))
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.pipes: dict[str, IO[bytes]] = {
            "stdout": self.process.stdout,
            "stderr": self.process.stderr,
        }
        for pipe in self.pipes.values():
            os.set_blocking(pipe.fileno(), False)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Register its pipes for `read`."""
        for name, pipe in self.pipes.items():
            selector.register(pipe, selectors.EVENT_READ, (self, name))

    def wait(
        self,
        timeout_s: float,
        on_progress: Callable[[float], None] | None = None,
        *,
        until: Callable[[], bool] | None = None,
    ) -> bool:
        """Read its output until it exits (True) or reaches a time or output limit (False)."""
        end_s, nap_s = time.monotonic() + timeout_s, 0.001
        with selectors.DefaultSelector() as selector:
            self.watch(selector)
            while not (until or self.exited)():
                now_s = time.monotonic()
                if self.truncated or now_s >= end_s:
                    return False
                if on_progress is not None:
                    on_progress(now_s - self.began_s)
                if self.pipes:
                    read(selector, min(_TICK_S, end_s - now_s))
                else:  # it closed its output and continues: only the clock is left to wait on
                    time.sleep(min(nap_s, end_s - now_s))
                    nap_s = min(nap_s * 2, _TICK_S)
        return True

    def take(self, name: str) -> bytes | None:
        """Read a pipe: ``None`` for nothing yet, empty at its end."""
        chunk = self.pipes[name].read(_CHUNK_BYTES)
        if chunk:
            room_bytes = self.limit_bytes - len(self.stdout) - len(self.stderr)
            self.truncated = self.truncated or len(chunk) > room_bytes
            (self.stdout if name == "stdout" else self.stderr).extend(chunk[: max(room_bytes, 0)])
        return chunk

    def drain(self) -> None:
        """Read the rest of the pipes, without waiting for others that may hold them open."""
        for name in self.pipes:
            while not self.truncated and self.take(name):
                pass

    def exited(self) -> bool:
        """Return whether it has ended."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            exited = os.waitid(os.P_PID, self.process.pid, options) is not None
        except ChildProcessError:  # SIGCHLD is ignored: the kernel kept no status
            exited = True
        if exited and self.ended_s is None:
            self.ended_s = time.monotonic()
        return exited

    def send(self, number: int) -> None:
        """Send a signal to its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def collect(self) -> None:
        """Collect its exit status; if it has not ended, kill and abandon it."""
        if self.exited():
            self.drain()
            with contextlib.suppress(ChildProcessError):
                _, status = os.waitpid(self.process.pid, 0)
                self.code = os.waitstatus_to_exitcode(status)
            self.process.returncode = self.code or 0
        else:
            self.abandoned = True
            self.ended_s = self.ended_s or time.monotonic()
            abandon(self.process, self.argv)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def result(self) -> ProcessResult:
        """Return its result, after `collect`."""
        code = self.code
        return ProcessResult(
            argv=self.argv,
            stdout=bytes(self.stdout),
            stderr=bytes(self.stderr),
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            started_at=self.started_at,
            elapsed_s=(self.ended_s or time.monotonic()) - self.began_s,
            timeout_s=self.timeout_s,
            timed_out=self.timed_out and not self.truncated,
            truncated=self.truncated,
            abandoned=self.abandoned,
        )


def read(selector: selectors.BaseSelector, timeout_s: float) -> None:
    """Read the pipes of watched children; stop watching those at their end."""
    for key, _ in selector.select(timeout_s):
        child, name = key.data
        if child.take(name) == b"":
            selector.unregister(child.pipes.pop(name))


def end_all(children: Sequence[Child], grace_s: float) -> None:
    """Kill the rest of the children's sessions, and collect the children that end."""
    kill_sessions({child.process.pid for child in children})
    end_s = time.monotonic() + grace_s
    while not all(child.exited() for child in children) and time.monotonic() < end_s:
        time.sleep(0.005)
    for child in children:
        child.collect()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


INTERVAL_S: Final = 1.0
"""Minimum interval of a rate: shorter ones would show single requests."""
RATE_LEAST: Final = 1e6
"""In bytes/s: less comes from programs that print or that start others on other nodes."""
_PROC: Final = Path("/proc")
_FIELDS: Final[dict[Access, tuple[str, str]]] = {
    # By system calls, and at the block layer, which alone accounts for io_uring.
    "read": ("rchar", "read_bytes"),
    "write": ("wchar", "write_bytes"),
}


@dataclass(slots=True)
class MovingRate:
    """The current rate of one access by this process's programs; may be called at any frequency.

    From the kernel's accounting; shown as progress while a probe runs, never stored. Programs on
    other nodes are invisible here.

    Attributes
    ----------
    proc
        The directory with the processes.
    """

    access: Access
    proc: Path = _PROC
    _at_s: float | None = None
    _moved_bytes: int = 0
    _rate: float | None = None

    def __call__(self, elapsed_s: float) -> float | None:
        """Return bytes per second over the last second or more; ``None`` if not yet known."""
        if self._at_s is None or elapsed_s - self._at_s >= INTERVAL_S:
            moved_bytes = moved_by_children(self.access, self.proc)
            if self._at_s is not None:
                rate = (moved_bytes - self._moved_bytes) / (elapsed_s - self._at_s)
                # The kernel forgets a program's bytes when it ends: that second has no rate.
                self._rate = rate if rate >= RATE_LEAST else None
            self._at_s, self._moved_bytes = elapsed_s, moved_bytes
        return self._rate


def moved_by_children(access: Access, proc: Path = _PROC, pid: int | None = None) -> int:
    """Return the bytes moved by all descendants of a process, by default this one."""
    return sum(_moved(proc / child / "io", _FIELDS[access]) for child in _descendants(proc, pid))


def _descendants(proc: Path, pid: int | None) -> Iterator[str]:
    waiting = [str(os.getpid() if pid is None else pid)]
    seen = set(waiting)
    while waiting:
        for file in (proc / waiting.pop() / "task").glob("*/children"):
            for child in _text(file).split():
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    yield child


def _moved(file: Path, names: tuple[str, str]) -> int:
    pairs = (line.partition(":") for line in _text(file).splitlines())
    values = {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}
    return max(values.get(name, 0) for name in names)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # it ended, or belongs to another user
