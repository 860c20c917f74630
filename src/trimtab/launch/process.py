"""Run one program to its end, or to ours: a deadline, a limit on its output, no shell.

::

    running ──exit──────────────────────────────> sweep ──> drain ──> result
       │                                            ^
       ├─ deadline ─> SIGTERM ─ grace ─> SIGKILL ───┤
       ├─ output limit ────────────────> SIGKILL ───┤
       └─ Interrupted ─> SIGTERM ─ grace ─> SIGKILL ┴─> the error goes on

The program leads a session of its own. When it is over, however it ended, whatever is left of
that session is killed: a grandchild can neither go on writing nor hold us by an inherited pipe.
Only a process that started a session of its own escapes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Final

from trimtab.errors import ToolError
from trimtab.launch.child import collect, has_exited, input_file
from trimtab.launch.interruption import lifted, shielded
from trimtab.launch.orphans import abandon, kill_sessions, reap
from trimtab.message import Message
from trimtab.model.run import RawOutput
from trimtab.units import format_bytes

OUTPUT_LIMIT_BYTES: Final = 64 * 2**20
GRACE_S: Final = 5.0
"""From SIGTERM to SIGKILL; and from SIGKILL to giving up on what cannot be killed."""

_TICK_S: Final = 0.1
_CHUNK_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How one program ran.

    Attributes
    ----------
    exit_code
        ``None`` when a signal ended it or it could not be killed.
    signal
        Number of the signal that ended it.
    timed_out
        It was still running at its deadline.
    timeout_s
        The deadline that it had.
    truncated
        It wrote more than the limit; it was killed, and what came before is kept.
    abandoned
        It did not go away even after SIGKILL (an uninterruptible system call): it was left.
    cpu_user_s, cpu_system_s
        Of the program and of what it waited for; ``None`` when abandoned.
    not_started
        Why there was no process at all, where several were to be started and this one was not.
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
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    not_started: str | None = None

    @property
    def problem(self) -> str | None:
        """Why it is not a run that ended by itself with exit code 0; ``None`` if it is one."""
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
            return Message("end-unknown", f"how {name} ended is not known: SIGCHLD is ignored")
        if self.exit_code != 0:
            return Message("exit-code", f"{name} ended with exit code {self.exit_code}")
        return None

    @property
    def _kept_bytes(self) -> int:
        return len(self.stdout) + len(self.stderr)

    def raw_output(self, label: str) -> RawOutput:
        """Return what is kept of it with a run; ``label`` says which part, as ``write 0``."""
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


def utc_now() -> datetime:
    """Return the time now, aware UTC."""
    return datetime.now(UTC)


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
    """Return how the program ran; only a program that cannot be started is an error.

    Parameters
    ----------
    argv
        Program (found on PATH) and arguments.
    timeout_s
        Seconds until SIGTERM goes to its group; SIGKILL follows ``grace_s`` later.
    output_limit_bytes
        Of stdout and stderr together; the memory that a run can cost.
    environment
        Added to this process's own, or taken out of it where the value is ``None``; ``LC_ALL=C``
        always, so that numbers have points.
    directory
        Where it starts. Not on the file system under test: entering it could hang us.
    on_progress
        Called with the seconds since the start, several times a second. What it raises
        (`Interrupted` too) stops the program and goes on.
    clock
        Gives the aware time of the start.
    stdin
        What it reads on its standard input.
    ask_to_end
        Called when it is to end before its time, ``grace_s`` before SIGTERM: for a program that
        only stands for others elsewhere, which its own end would cut short.

    Raises
    ------
    ToolError
        There is no such program, or it cannot be executed.
    """
    reap()
    started_at = clock()
    with shielded():
        with input_file(stdin) as path, open(path, "rb") as file:  # noqa: PTH123 (no Path needed)
            child = _start(argv, environment, directory, file)
        running = _Running(child, output_limit_bytes)
        try:
            with lifted():
                timed_out = not running.wait(timeout_s, on_progress)
        finally:
            running.finish(grace_s, ask_to_end)
    return ProcessResult(
        argv=tuple(argv),
        stdout=bytes(running.stdout),
        stderr=bytes(running.stderr),
        exit_code=running.code if running.code is not None and running.code >= 0 else None,
        signal=-running.code if running.code is not None and running.code < 0 else None,
        started_at=started_at,
        elapsed_s=running.elapsed_s,
        timeout_s=timeout_s,
        timed_out=timed_out and not running.truncated,
        truncated=running.truncated,
        abandoned=running.abandoned,
        cpu_user_s=running.usage.ru_utime if running.usage else None,
        cpu_system_s=running.usage.ru_stime if running.usage else None,
    )


def _start(
    argv: Sequence[str],
    environment: Mapping[str, str | None] | None,
    directory: str,
    stdin: IO[bytes],
) -> subprocess.Popen[bytes]:
    if not argv:
        raise ValueError("argv is empty")
    hint = "install it, put it on PATH, or give its full path"
    variables = {**os.environ, **(environment or {}), "LC_ALL": "C"}
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={name: value for name, value in variables.items() if value is not None},
            start_new_session=True,
            bufsize=0,
        )
    except FileNotFoundError as error:
        if error.filename == directory:
            raise ToolError(
                f"cannot start {argv[0]} in {directory}: no such directory",
                code="directory-missing",
            ) from error
        raise ToolError(f"{argv[0]} was not found", code="program-not-found", hint=hint) from error
    except PermissionError as error:
        raise ToolError(
            f"{argv[0]} may not be executed", code="program-not-executable", hint=hint
        ) from error
    except (OSError, ValueError) as error:
        raise ToolError(
            f"cannot start {argv[0]}: {error}", code="program-not-started", hint=hint
        ) from error


class _Running:
    """A started program: what it has written, and how to bring it to its end."""

    def __init__(self, child: subprocess.Popen[bytes], limit_bytes: int) -> None:
        self.child = child
        self.limit_bytes = limit_bytes
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.truncated = False
        self.abandoned = False
        self.code: int | None = None
        self.usage: resource.struct_rusage | None = None
        self.began_s = time.monotonic()
        self.ended_s: float | None = None
        self._selector = selectors.DefaultSelector()
        # A benchmark that aborts must not leave a core file where we happen to stand.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
        for pipe, collected in ((child.stdout, self.stdout), (child.stderr, self.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, collected)

    def wait(self, timeout_s: float, on_progress: Callable[[float], None] | None = None) -> bool:
        """Read its output until it exits (True), or time or the output limit is over (False)."""
        end_s = time.monotonic() + timeout_s
        nap_s = 0.001
        while not self._exited():
            now_s = time.monotonic()
            if self.truncated or now_s >= end_s:
                return False
            if on_progress is not None:
                on_progress(now_s - self.began_s)
            if self._selector.get_map():
                self._read(min(_TICK_S, end_s - now_s))
            else:  # it has closed its output and goes on: nothing to wait on but the clock
                time.sleep(min(nap_s, end_s - now_s))
                nap_s = min(nap_s * 2, _TICK_S)
        return True

    def finish(self, grace_s: float, ask_to_end: Callable[[], object] | None = None) -> None:
        """Bring it to its end, with all that it started, and collect it."""
        try:
            if ask_to_end is not None and not self._exited() and not self.truncated:
                ask_to_end()
                self.wait(grace_s)
        finally:
            self._end(grace_s)

    def _end(self, grace_s: float) -> None:
        if not self._exited() and not self.truncated:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGTERM)
            self.wait(grace_s)
        # Its number stays its own until it is collected below, so this cannot hit a stranger.
        kill_sessions({self.child.pid})
        if not self._wait_killed(grace_s):
            self.abandoned = True
            self.ended_s = time.monotonic()
            abandon(self.child)
        else:
            self._drain()
            self.code, self.usage = collect(self.child)
        self._selector.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds from its start to its end, or to our giving up."""
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.began_s

    def _exited(self) -> bool:
        exited = has_exited(self.child)
        if exited and self.ended_s is None:
            self.ended_s = time.monotonic()
        return exited

    def _wait_killed(self, grace_s: float) -> bool:
        end_s = time.monotonic() + grace_s
        while not self._exited():
            if time.monotonic() >= end_s:
                return False
            time.sleep(0.005)
        return True

    def _read(self, timeout_s: float) -> bool:
        """Take what the pipes hold; return whether there was anything."""
        took = False
        for key, _ in self._selector.select(timeout_s):
            pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
            chunk = pipe.read(_CHUNK_BYTES)
            if chunk is None:
                continue
            if not chunk:
                self._selector.unregister(pipe)
                continue
            took = True
            room_bytes = self.limit_bytes - len(self.stdout) - len(self.stderr)
            self.truncated = self.truncated or len(chunk) > room_bytes
            key.data.extend(chunk[: max(room_bytes, 0)])
        return took

    def _drain(self) -> None:
        """Take what is left in the pipes, without waiting for who else may hold them open."""
        while self._selector.get_map() and not self.truncated and self._read(0):
            pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
