"""Outputs of launchers and benchmarks for runs that failed before measuring."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.message import Message


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed or was never started.

    Attributes
    ----------
    started
        Whether its command ran; otherwise there is only the reason.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int
    reason: Message
    started: bool = True


def no_name_service(node: str = "nid001000") -> Failure:
    """Return the failure of a launcher that cannot resolve the name of one of its nodes."""
    message = (
        f"ssh: Could not resolve hostname {node}: Temporary failure in name resolution\n"
        f"{'-' * 74}\nORTE was unable to reliably start one or more daemons.\n{'-' * 74}\n"
    )
    reason = Message("name-service", f"{node}: no name service")
    return Failure(b"", message.encode(), 1, reason, started=False)


def no_space(path: str, node: str = "nid001000") -> Failure:
    """Return the failure of IOR on a full file system, which is mounted at ``path``."""
    message = (
        "ior: aiori-POSIX.c:818: POSIX_Xfer: Assertion `rc >= 0' failed.\n"
        f"{'-' * 74}\nmpirun noticed that process rank 0 with PID 0 on node {node} exited"
        f" on signal 6 (Aborted).\n{'-' * 74}\n"
    )
    return Failure(b"", message.encode(), 134, Message("no-space", f"no space left on {path}"))
