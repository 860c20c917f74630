"""One started process, as both ways of running programs treat it: input, end and status."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def input_file(content: bytes) -> Iterator[str]:
    """Give the path of a file in memory with the input: unlike a pipe, it needs nobody to feed it.

    Whoever opens it reads from its beginning, so that many processes can share one copy.
    """
    if not content:
        yield os.devnull
        return
    with os.fdopen(os.memfd_create("stdin"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def has_exited(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended; it stays uncollected, and its number its own."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, child.pid, options) is not None
    except ChildProcessError:  # SIGCHLD is ignored here: the kernel kept no status
        return True


def collect(
    child: subprocess.Popen[bytes],
) -> tuple[int | None, resource.struct_rusage | None]:
    """Take the status of an ended process from the kernel and close its pipes.

    Returns
    -------
    tuple
        The exit code, negative for a signal, and what it used; ``None`` where the kernel kept
        nothing.
    """
    code, usage = None, None
    with contextlib.suppress(ChildProcessError):
        _, status, usage = os.wait4(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
    child.returncode = 0 if code is None else code
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    return code, usage
