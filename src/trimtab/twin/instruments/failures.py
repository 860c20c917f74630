"""Outputs of launchers and benchmarks for runs that failed before measuring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from trimtab.message import Message

_ABORT: Final = (
    f"{'-' * 74}\nMPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n"
    f"with errorcode -1.\n{'-' * 74}\n"
)
FailureKind = Literal["no-mount", "name-service", "no-answer", "no-space"]


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
    exit_code: int | None
    reason: Message
    started: bool = True


def failure_of(kind: FailureKind, *, path: str, node: str = "nid001000") -> Failure:
    """Return the output of a failed run; ``path`` is the file system's, ``node`` one of the nodes.

    ``no-mount``: the file system is not mounted on the nodes; ``name-service``: the launcher cannot
    resolve the nodes; ``no-answer``: nothing was printed before the timeout; ``no-space``: the file
    system is full.
    """
    match kind:
        case "no-mount":
            return Failure(
                b"",
                f"couldn't call statvfs: No such file or directory\n{_ABORT}".encode(),
                255,
                Message(kind, f"{path} is not mounted on {node}"),
            )
        case "name-service":
            message = (
                f"ssh: Could not resolve hostname {node}: Temporary failure in name resolution\n"
                f"{'-' * 74}\nORTE was unable to reliably start one or more daemons.\n{'-' * 74}\n"
            )
            reason = Message(kind, f"{node}: no name service")
            return Failure(b"", message.encode(), 1, reason, started=False)
        case "no-answer":
            reason = Message(kind, "it printed nothing before its timeout")
            return Failure(b"", b"", None, reason)
        case "no-space":
            message = (
                "ior: aiori-POSIX.c:818: POSIX_Xfer: Assertion `rc >= 0' failed.\n"
                f"{'-' * 74}\nmpirun noticed that process rank 0 with PID 0 on node {node} exited"
                f" on signal 6 (Aborted).\n{'-' * 74}\n"
            )
            reason = Message(kind, f"no space left on {path}")
            return Failure(b"", message.encode(), 134, reason)
