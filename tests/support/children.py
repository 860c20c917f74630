"""Processes forked from a test that do one thing, and may be killed while they do it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable


def begun(work: Callable[[], object]) -> int:
    """Fork a process that does this; its exit code is 0, or 1 after an error. Return its id."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return process


def code_of_child(process: int) -> int:
    """Return how a process ended that is waited for: its exit code, or -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def killed_while_at_work(code: str, *arguments: object, moment_s: float) -> None:
    """Run Python code that prints a line when it begins, and kill it a moment after that."""
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moment_s)
        child.send_signal(signal.SIGKILL)
