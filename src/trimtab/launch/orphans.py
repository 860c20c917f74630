"""Children that were killed and not waited for, because waiting might never end."""

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
    """Kill a child and leave it: in a dead mount it may never go away."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    # From here on it is reaped by number; Popen would warn that it still runs.
    process.returncode = -signal.SIGKILL
    with _lock:
        _pids[process.pid] = argv
    reap()


def reap() -> None:
    """Collect abandoned children that have gone by now, without waiting for the others."""
    with _lock:
        for pid in list(_pids):
            try:
                gone, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                gone = pid
            if gone:
                del _pids[pid]


def still_hanging(*words: str) -> int:
    """Return how many abandoned children are still there whose command line begins like this."""
    reap()
    with _lock:
        return sum(argv[: len(words)] == words for argv in _pids.values())


def session_members(*sessions: int) -> list[int]:
    """Return the living processes of sessions, from ``/proc/PID/stat`` (proc(5)), in one walk.

    Open MPI gives each rank a process group of its own: killing mpirun's group alone would leave
    the ranks writing. They stay in the session.
    """
    members: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_bytes()
        except OSError:
            continue  # ended meanwhile, or hidden from us: then it is not ours
        # "pid (name) state ppid pgrp session ...": the name may hold spaces and brackets.
        state, _parent, _group, of_session = text[text.rindex(b")") + 2 :].split()[:4]
        if int(of_session) in sessions and state not in (b"Z", b"X"):
            members.append(int(entry.name))
    return members


def kill_sessions(sessions: Collection[int]) -> None:
    """Send SIGKILL to every process of the sessions, also to those forked meanwhile."""
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
