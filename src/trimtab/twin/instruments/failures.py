"""What is left of a run that never came to measure: what launchers and benchmarks print then."""

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
        Whether its command ran; else nothing is kept but the reason.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    reason: Message
    started: bool = True


def failure_of(kind: FailureKind, *, path: str, node: str = "nid001000") -> Failure:
    """Return what is left of a run: ``path`` is that of the file system, ``node`` one of its own.

    ``no-mount``: the file system is not mounted on the nodes; ``name-service``: the launcher finds
    none of them; ``no-answer``: nodes were had, and nothing was printed until the time was over;
    ``no-space``: the file system is full.
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
            reason = Message(kind, "it printed nothing until its time was over")
            return Failure(b"", b"", None, reason)
        case "no-space":
            message = (
                "ior: aiori-POSIX.c:818: POSIX_Xfer: Assertion `rc >= 0' failed.\n"
                f"{'-' * 74}\nmpirun noticed that process rank 0 with PID 0 on node {node} exited"
                f" on signal 6 (Aborted).\n{'-' * 74}\n"
            )
            reason = Message(kind, f"no space left on {path}")
            return Failure(b"", message.encode(), 134, reason)
