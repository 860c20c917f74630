"""Tracks children that were killed but not waited for, because waiting might never end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Collection
from pathlib import Path

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
