"""Runs in processes that are killed.

``python -m tests.purge.run.mortal DIRECTORY FILES ROWS DELAY``: each line on standard input is one
run, a place beneath the directory and the call to the system at which it dies, or 0. Its process id
and then its exit code are printed. One process forks them all, so that none pays for imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.purge.run.lines import plan_line
from tests.purge.run.world import World
from tests.support.children import begun, code_of_child
from tests.support.narrow import present

from trimtab.purge.run.journal_line import decode, encode
from trimtab.store.chain import FIRST_SUM, linked

DIED = 9


class Mortal:
    """Ends the process before or after one of its calls to the system; within, if it is a write."""

    def __init__(self, die_at: int) -> None:
        self.left = die_at

    def watch(self, real: Callable[..., Any], *, write: bool = False) -> Callable[..., Any]:
        """Return the call with death around it."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                if write:
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os._exit(DIED)
            answer = real(*arguments, **named)
            self.left -= 1
            if self.left == 0:
                os._exit(DIED)
            return answer

        return call


def one_run(world: World, die_at: int, rows: int) -> None:
    """Go on with the plan of a world in this process."""
    log = os.open(world.directory / "unlinks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    real_write = os.write

    def tell(_call: str, row: int) -> None:
        real_write(log, b"%d\n" % row)

    world.remover.before = tell
    if die_at:
        mortal = Mortal(die_at)
        os.write = mortal.watch(os.write, write=True)
        os.fsync = mortal.watch(os.fsync)
        os.link = mortal.watch(os.link)
        Path.unlink = mortal.watch(Path.unlink)
        Path.rename = mortal.watch(Path.rename)

    def few(now: Any) -> Any:
        result = world.terms(now, apply=True)
        pace = replace(result.pace, rows_min=min(4, rows), rows_max=rows, rows_step=rows)
        return replace(result, pace=pace, troubles_part_max=1.0)

    world.run(terms=few, id=f"run-{os.getpid()}")


def main() -> None:
    """Fork a process for each line of standard input."""
    directory, files, rows, delay_s = sys.argv[1:]
    # What is made once is made before the first of them dies.
    decode(linked(encode(plan_line("a", "", 1, "", "")), FIRST_SUM)[0])
    for line in sys.stdin:
        place, _, die_at = line.rstrip("\n").rpartition(" ")
        world = World(Path(directory, place), int(files), target=0.001, delay_s=float(delay_s))
        process = begun(partial(one_run, world, int(die_at), int(rows)))
        print(process, flush=True)
        print(code_of_child(process), flush=True)


class Server:
    """The process that forks, as a test has it."""

    def __init__(self, directory: Path, files: int, *, rows: int, delay_s: float = 0.0) -> None:
        given = map(str, (directory, files, rows, delay_s))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.purge.run.mortal", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def start(self, place: str, die_at: int = 0) -> int:
        """Return the process id of a run that was started in a directory beneath."""
        present(self.process.stdin).write(f"{place} {die_at}\n")
        return self._number()

    def wait(self) -> int:
        """Return the exit code of the run."""
        return self._number()

    def end(self) -> None:
        """Start no more."""
        present(self.process.stdin).close()
        present(self.process.stdout).close()
        self.process.wait()

    def _number(self) -> int:
        return int(present(self.process.stdout).readline())


if __name__ == "__main__":
    main()
