"""``trimtab`` in processes that are killed, without a second of imports for each.

``python -m tests.purge.forked``: each line on standard input is a JSON list, how many seconds its
clock is behind and then the arguments; its process id and then its exit code are printed. What a
command says goes to the file that is the one argument.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.launch import process

SAID_BYTES_MAXIMUM = 4096


class Clock:
    """The clock of commands, which is behind: plans are made and published weeks ago."""

    behind_s = 0.0

    def __call__(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self.behind_s)


CLOCK = Clock()


def main() -> None:
    """Fork a process for each line of standard input."""
    # Before anybody has imported it by its name.
    process.utc_now = CLOCK
    _import_all()
    said = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(said, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os._exit(_command(seconds, arguments))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _import_all() -> None:
    """Import what commands import when they are asked; nothing of it starts a thread by that."""
    import polars  # noqa: F401 (imported for those that are forked)

    import trimtab._core
    import trimtab.cli.purge
    import trimtab.loop.purging
    import trimtab.purge

    for package in (trimtab.purge, trimtab.loop.purging, trimtab.cli.purge):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _command(seconds: float, arguments: list[str]) -> int:
    from trimtab.cli.main import main as trimtab

    CLOCK.behind_s = seconds
    try:
        trimtab(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 1


class Forked:
    """The process that forks, as a test has it.

    Parameters
    ----------
    said
        File for what the commands say.
    """

    def __init__(self, said: Path, environment: Mapping[str, str]) -> None:
        self._said = said
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.purge.forked", str(said)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
        )

    def killed_after(self, moment_s: float, *arguments: object, ago_s: float = 0.0) -> bool:
        """Kill a command at a moment; return whether it had not ended by then."""
        process = self._start(arguments, ago_s)
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], moment_s)[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        code = self._number()
        if code not in (0, -signal.SIGKILL):
            raise AssertionError(f"exit code {code} after {moment_s:.3f} s: {self.said()}")
        return code != 0

    def ended(self, *arguments: object, ago_s: float = 0.0) -> float:
        """Let a command end well; return how many seconds it took."""
        began_s = time.monotonic()
        self._start(arguments, ago_s)
        code = self._number()
        if code != 0:
            raise AssertionError(f"exit code {code}: {self.said()}")
        return time.monotonic() - began_s

    def said(self) -> str:
        """Return the end of what the commands said."""
        return self._said.read_bytes()[-SAID_BYTES_MAXIMUM:].decode("utf-8", "replace")

    def end(self) -> None:
        """Start no more."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _start(self, arguments: tuple[object, ...], ago_s: float) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([ago_s, *map(str, arguments)]).encode() + b"\n")
        return self._number()

    def _number(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


if __name__ == "__main__":
    main()
