"""Commands as processes of their own, without a second of imports for each: they are forked.

One process has imported all of Trimtab. A message over its socket names a program and its words; it
forks a process that is that program, with the standard streams, the environment and the directory
of whoever asked. Exit codes, signals and what a kill leaves behind are as in a process that was
started; modules were imported before, and in another order. `tests/cli/test_parity.py` starts every
command as it is installed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from trimtab.base import event

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).parent / "trimtab"
TRIMTAB = "trimtab.cli:main"
_REQUEST_BYTES_MAXIMUM = 1 << 20
_STREAMS = 3
_DESCRIPTORS = 1 << 20
_IMPORTED_LATE = (
    "alembic.command",
    "altair",
    "numpy.ma",
    "rich.align",
    "rich.console",
    "rich.table",
    "sqlalchemy.dialects.sqlite",
)
"""What no module of ours imports when it is imported itself."""


class Clock:
    """The clock of commands: `tests.purge.command.aged` sets it back; plans were made weeks ago."""

    behind_s = 0.0

    def __call__(self) -> datetime:
        """Return the time, less what it is behind."""
        return datetime.now(UTC) - timedelta(seconds=self.behind_s)


CLOCK = Clock()


# The process that forks


def main() -> None:
    """Fork a process for each request, until nobody can ask any more."""
    # Programs have other working directories.
    sys.path[0] = str(ROOT)
    # Before anybody has imported it by its name.
    event.utc_now = CLOCK
    _import_all()
    # What is there now is never collected, or every process would copy it by looking at it.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=int(sys.argv[1]))
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([asked.fileno(), *running], [], [])[0]:
            if ready not in running:
                request, descriptors = _receive(asked)
                if request is None:
                    return
                answers = socket.socket(fileno=descriptors[_STREAMS])
                child = os.fork()
                if child == 0:
                    _become(request, descriptors)
                for descriptor in descriptors[:_STREAMS]:
                    os.close(descriptor)
                answers.send(b"%d\n" % child)
                running[os.pidfd_open(child)] = (child, answers)
            else:
                child, answers = running.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                os.close(ready)
                with contextlib.suppress(OSError):
                    answers.send(b"%d\n" % code)
                answers.close()


def _import_all() -> None:
    """Import what commands import when they are asked; nothing of it starts a thread by that."""
    for name in _IMPORTED_LATE:
        importlib.import_module(name)
    from tests.support import made_stores

    import trimtab
    from trimtab.show.chart import environment
    from trimtab.store import database

    for module in pkgutil.walk_packages(trimtab.__path__, "trimtab."):
        importlib.import_module(module.name)
    database._upgrade = made_stores.make
    made_stores.definitions()
    for page in environment().list_templates():
        environment().get_template(page)


def _receive(asked: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    text, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAXIMUM, _STREAMS + 1)
    return (json.loads(text) if text else None), descriptors


def _become(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be the program that was asked for, and end as an interpreter does."""
    for number, descriptor in enumerate(descriptors[:_STREAMS]):
        os.dup2(descriptor, number)
    os.closerange(_STREAMS, _DESCRIPTORS)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["directory"])
    # What `multiprocessing` looks at to start a process that imports the same program.
    sys.modules["__main__"].__file__ = str(PROGRAM)
    sys.modules["__main__"].__spec__ = None
    sys.argv = [str(PROGRAM), *request["words"]]
    module, _, function = request["program"].partition(":")
    code: object = 0
    try:
        getattr(importlib.import_module(module), function)()
    except SystemExit as end:
        code = end.code
    except BaseException as error:  # noqa: BLE001 (told as the interpreter tells it)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code or 0)


# Whoever asks


class Forked:
    """A process that was forked."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self.pid = self._number()

    def ended_within(self, seconds: float) -> bool:
        """Return whether the process ends within that time."""
        return bool(select.select([self._answers], [], [], seconds)[0])

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit code; below 0 it is the signal that ended the process."""
        code = self._number()
        self._answers.close()
        return code

    def _number(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            part = self._answers.recv(1)
            assert part, "the process that forks has ended"
            text += part
        return int(text)


def fork(
    *words: object,
    stdout: int,
    stderr: int,
    environment: Mapping[str, str] | None = None,
    program: str = TRIMTAB,
) -> Forked:
    """Return a process that was forked to be a program; its environment is in addition to ours.

    Parameters
    ----------
    stdout, stderr
        Descriptors; standard input is our own.
    program
        Module and function that it consists of.
    """
    # It counts as one that was started: `UnitGuard` listens.
    sys.audit("subprocess.Popen", program, words, None, None)
    request = {
        "program": program,
        "words": [str(word) for word in words],
        "environment": {**os.environ, **(environment or {})},
        "directory": str(Path.cwd()),
    }
    ours, theirs = socket.socketpair()
    with theirs:
        streams = [0, stdout, stderr, theirs.fileno()]
        socket.send_fds(_server(), [json.dumps(request).encode()], streams)
    return Forked(ours)


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            # Its streams encode as it was started; threads of linear algebra do not survive a fork.
            env={**os.environ, "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
