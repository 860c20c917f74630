"""Several hosts that carry one plan out: a process each, over the same real files.

The remover is the slow and obvious one of `world`, with the protocol of the core's: files go
through a directory of the run's own, and whoever takes over empties and removes that directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.purge.run.lines import journal_of, numbers
from tests.purge.run.world import (
    CODE_OF,
    CODES,
    Answer,
    SlowRemover,
    Surroundings,
    World,
    policy,
    undisturbed,
)
from tests.support.children import begun, code_of_child

from trimtab.purge.purge_policy import RunCaps
from trimtab.purge.run.journal_line import ClaimLine, DoneLine, Line, TakeoverLine
from trimtab.purge.run.rows import TOO_LATE
from trimtab.purge.run.run_account import RunJob, RunResult
from trimtab.purge.run.run_journal import journals, read
from trimtab.purge.run.runner import Sharing, boot_clock, run

ALL_CODES = {**CODES, 22: "put_back", 25: TOO_LATE}


@dataclass
class HostRemover(SlowRemover):
    """One run's remover; ``aside`` is of that run alone."""

    def delete(self, first: int, count: int, until_s: float | None = None) -> Answer:
        self.aside.mkdir(parents=True, exist_ok=True)
        return self._answer([self._in_time(row, until_s) for row in range(first, first + count)])

    def _in_time(self, row: int, until_s: float | None) -> str:
        if self.delay_s:
            time.sleep(self.delay_s)
        self.before("look", row)
        if (seen := self._seen(row)) != "would_delete":
            return seen
        if until_s is not None and boot_clock() >= until_s:
            return TOO_LATE
        self.before("take", row)
        # Without its directory no file is moved any more.
        with contextlib.suppress(FileNotFoundError):
            self.paths[row].rename(self.aside / str(row))
            self.before("remove", row)
            (self.aside / str(row)).unlink()
            return "deleted"
        return "gone"

    def take_over(self, first: int, count: int, quarantines: list[str]) -> Answer:
        assert self.restoring
        back = set()
        for name in quarantines:
            aside = self.aside.parent / name
            while aside.exists():
                for path in aside.iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        path.rename(self.paths[int(path.name)])
                        back.add(int(path.name))
                with contextlib.suppress(OSError):
                    aside.rmdir()
        rows = range(first, first + count)
        return self._answer(["put_back" if row in back else self._seen(row) for row in rows])

    def _answer(self, names: Sequence[str]) -> Answer:
        codes = {**CODE_OF, "put_back": 22, TOO_LATE: 25}
        size = self.paths[0].stat().st_size if self.paths[0].exists() else 4096
        return Answer(bytes(codes[name] for name in names), names.count("deleted") * size)


class HostSurroundings(Surroundings):
    """A world whose time passes at once, and a little in truth: others need theirs."""

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        time.sleep(min(seconds, 0.01))


@dataclass
class Hosts:
    """One plan and the processes that carry it out.

    Attributes
    ----------
    jobs
        Changes a job before it is run.
    started, stopped
        Processes by their ids: the name of the run, and since when it is stopped.
    killed
        How many that `look_after` found killed.
    """

    directory: Path
    files: int
    target: float = 0.001
    lease_s: float = 0.5
    rows: int = 16
    delay_s: float = 0.0
    caps: RunCaps | None = None
    before: Callable[[str, int], None] = undisturbed
    jobs: Callable[[RunJob, str], RunJob] = lambda job, _name: job
    started: dict[int, str] = field(default_factory=dict)
    stopped: dict[int, float] = field(default_factory=dict)
    killed: int = 0

    def __post_init__(self) -> None:
        self.world = World(self.directory, self.files, target=self.target).make()

    def run(self, name: str, *, delay_s: float | None = None) -> RunResult:
        """Carry the plan out in this process."""
        world = World(self.directory, self.files, target=self.target)
        now = world.surroundings.now
        if self.caps is not None:
            now = replace(now, policy=policy(target=self.target, caps=self.caps))
        surroundings = HostSurroundings(world.paths, 0, world.surroundings.capacity_bytes, now=now)
        aside = self.directory / "aside"
        delay_s = self.delay_s if delay_s is None else delay_s
        remover = HostRemover(world.paths, aside / name, delay_s, before=self.before)
        restorer = replace(remover, restoring=True)

        def terms(now: Any) -> Any:
            made = world.terms(now, apply=True)
            pace = replace(made.pace, rows_min=4, rows_max=self.rows, rows_step=4)
            return replace(made, pace=pace, troubles_part_max=1.0)

        job = world.job(
            id=name,
            terms=terms,
            remover=lambda: remover,
            restorer=lambda: restorer,
            codes=ALL_CODES,
            surroundings=surroundings,
        )
        sharing = Sharing(lambda run: [run], self.lease_s, 0.01)
        return run(self.jobs(job, name), apply=True, sharing=sharing)

    def start(self, name: str) -> int:
        """Carry it out in a process of its own; return its id."""
        ended = self.directory / f"ended-{name}"
        process = begun(lambda: ended.write_text(self.run(name).reason.value))
        self.started[process] = name
        return process

    def wait(self, process: int) -> str | None:
        """Return how a run ended; ``None``: it was killed."""
        code = code_of_child(process)
        name = self.started.pop(process)
        if code == -signal.SIGKILL:
            return None
        assert code == 0, f"{name} failed"
        return (self.directory / f"ended-{name}").read_text()

    def look_after(self, *, stopped_s: float) -> None:
        """Notice processes that have ended, and continue those stopped for longer than that."""
        time.sleep(0.01)
        for process in list(self.started):
            found, status = os.waitpid(process, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                self.stopped[process] = time.monotonic()
            elif found:
                assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
                self.killed += os.WIFSIGNALED(status)
                del self.started[process]
                self.stopped.pop(process, None)
            elif time.monotonic() - self.stopped.get(process, time.monotonic()) > stopped_s:
                os.kill(process, signal.SIGCONT)
                del self.stopped[process]

    def kill_all(self) -> None:
        """End every process that was started and not waited for."""
        for process in list(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            self.wait(process)

    def has_begun(self) -> bool:
        return any(read(path).lines for path in journals(self.directory / "journals"))

    def lines(self) -> tuple[Line, ...]:
        """Return the journal, its first line included."""
        chronicle = read(journal_of(self.directory))
        assert chronicle.plan is not None
        return (chronicle.plan, *chronicle.lines)


def audit(lines: Sequence[Line]) -> tuple[int, int]:
    """Go through the lines with sets of rows and sums; return the most files and bytes spent.

    The slow and obvious twin of `advanced`: which rows are whose, and what counts against caps.
    """
    free = set(range(lines[0].rows))  # type: ignore[union-attr]
    claims: dict[str, ClaimLine] = {}
    spent_files = spent_bytes = most_files = most_bytes = 0
    for line in lines:
        match line:
            case ClaimLine():
                rows = numbers([line.rows])
                assert rows <= free, "a row is claimed twice"
                assert line.run not in claims
                free -= rows
                claims[line.run] = line
            case TakeoverLine():
                claims[line.run] = replace(claims.pop(line.of), run=line.run)
            case DoneLine(apply=True):
                claim = claims.pop(line.run)
                assert claim.rows == line.rows
                spent_files += line.files
                spent_bytes += max(line.bytes, line.freed_bytes)
                first = line.rows.first
                for outcome, count in line.outcomes:
                    if outcome == "not_begun":
                        free |= set(range(first, first + count))
                    first += count
        most_files = max(most_files, spent_files + sum(c.files for c in claims.values()))
        most_bytes = max(most_bytes, spent_bytes + sum(c.bytes for c in claims.values()))
    return most_files, most_bytes
