"""Questions answered by real Dask workers, which die, differ, or are not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.codes import raises
from tests.support.dask_cluster import local_cluster
from tests.support.slurm import Cluster

import trimtab
from trimtab.base.error import DataError, ToolError, UsageError
from trimtab.reach import dask_worker
from trimtab.reach.dask_worker import answering
from trimtab.twin.whatif.whatif import WhatIf, what_if
from trimtab.twin.whatif.whatif_sweep import Swept

pytestmark = pytest.mark.system
SCRIPT = Path(__file__).parents[2] / "deploy/slurm/trimtab-dask.sbatch"


@dataclass(frozen=True, slots=True)
class Question:
    """Returns its number and process, after it has waited for files, failed, or died."""

    number: int
    leaves: Path | None = None
    waits_for: int = 0
    refuses: bool = False
    dies_unless: Path | None = None

    def answer(self) -> tuple[int, int]:
        if self.refuses:
            raise DataError("it is damaged", code="a-code-of-its-own", line=7)
        if self.dies_unless is not None and not self.dies_unless.exists():
            self.dies_unless.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.leaves is not None:
            leaves = self.leaves
            wait_until(lambda: len(list(leaves.iterdir())) >= self.waits_for)
            (self.leaves / str(self.number)).touch()
        return self.number, os.getpid()


@dataclass(frozen=True, slots=True)
class Deadly:
    def answer(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Two workers of one thread; a task is given up as soon as one of them has died."""
    with local_cluster(2, settings={"distributed.scheduler.allowed-failures": 0}) as cluster:
        yield cluster.scheduler_file


def answers_of(scheduler: str, questions: list[Question]) -> list[tuple[int, int]]:
    with answering(None, scheduler, most=len(questions), hint="") as together:
        return list(together(questions))


def test_answers_come_in_order_and_the_first_holds_nobody_up(
    scheduler: str, tmp_path: Path
) -> None:
    """The first ends only after eight of the others, of which few are handed out at a time."""
    first = Question(0, leaves=tmp_path, waits_for=8)
    others = [Question(number, leaves=tmp_path) for number in range(1, 16)]
    answers = answers_of(scheduler, [first, *others])
    assert [number for number, _ in answers] == list(range(16))
    workers = {process for _, process in answers}
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_few_questions_are_drawn_ahead_of_the_answers(scheduler: str) -> None:
    drawn: list[int] = []

    def questions() -> Iterator[Question]:
        for number in range(20):
            drawn.append(number)
            yield Question(number)

    with answering(None, scheduler, most=20, hint="") as together:
        answers = together(questions())
        assert len(drawn) == 4
        next(answers)
        assert len(drawn) <= 8
        assert len(list(answers)) == 19


def test_an_error_is_the_one_that_was_raised(scheduler: str) -> None:
    with raises(DataError, "a-code-of-its-own"):
        answers_of(scheduler, [Question(0), Question(1, refuses=True)])


def test_what_died_with_its_worker_is_answered_by_another(scheduler: str, tmp_path: Path) -> None:
    questions = [Question(n, dies_unless=tmp_path / "died") for n in range(6)]
    assert [number for number, _ in answers_of(scheduler, questions)] == list(range(6))
    assert (tmp_path / "died").exists()


@pytest.mark.soak
def test_what_kills_every_worker_is_given_up(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_worker, "_TRIES", 2)
    with (
        raises(ToolError, "worker-killed"),
        answering(None, scheduler, most=1, hint="") as together,
    ):
        list(together([Deadly()]))


def test_workers_that_are_all_gone_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks are outstanding, and some have ended whose answers went with the workers."""
    with local_cluster(1, processes=False) as cluster:
        terms = answering(None, cluster.scheduler_file, most=99, hint="")
        with raises(ToolError, "workers-missing"), terms as together:
            answers = together(Question(number, leaves=tmp_path) for number in range(99))
            assert next(answers)[0] == 0
            wait_until(lambda: len(list(tmp_path.iterdir())) >= 3)
            cluster.scale(0)
            monkeypatch.setattr(dask_worker, "_WORKERS_S", 0.5)
            list(answers)


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 600.0
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_workers_of_another_version_are_refused(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_worker, "code_version", lambda *_: "0.0.1+other")
    with raises(ToolError, "workers-differ"):
        answers_of(scheduler, [Question(0)])


def test_no_scheduler_and_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_worker, "_WORKERS_S", 0.5)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root would not try these
    with raises(ToolError, "scheduler-unreachable"):
        answers_of("tcp://127.0.0.1:9", [Question(0)])
    with raises(ToolError, "scheduler-unreachable"):
        answers_of("no address", [Question(0)])
    with local_cluster(0) as cluster, raises(ToolError, "workers-missing"):
        answers_of(cluster.scheduler_file, [Question(0)])
    for scheduler in ("tcp://h:1", "local:2"):
        with raises(UsageError, "options-exclusive"), answering(3, scheduler, most=1, hint=""):
            pass


@pytest.mark.parametrize(
    ("scheduler", "processes", "most", "count"),
    [("local:3", None, 9, 3), ("local:3", None, 2, 2), ("local", 5, 9, 5), ("local", None, 1, 1)],
)
def test_as_many_processes_are_started_here_as_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, scheduler: str, processes: int | None, most: int, count: int
) -> None:
    started: list[int] = []

    @contextmanager
    def here(workers: int, *, hint: str) -> Iterator[None]:
        started.append(workers)
        yield

    monkeypatch.setattr(dask_worker, "side_by_side", here)
    with answering(processes, scheduler, most=most, hint=""):
        assert started == [count]


@pytest.mark.parametrize(
    ("asked", "workers", "of_site"),
    [(None, None, True), (None, 2, False), ("none", None, False), ("local", None, False)],
)
def test_a_what_if_of_a_site_goes_to_its_workers(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    *, asked: str | None, workers: int | None, of_site: bool,
) -> None:  # fmt: skip
    """What the command line says comes first; the figures are the same wherever they come from."""
    site = tmp_path / "s.toml"
    site.write_text(
        f'[site]\nname = "s"\ndriver = "twin"\npath = "{tmp_path}"\nscenario = "template"\n'
        f'[dask]\nscheduler = "{scheduler}"\n'
    )
    used: list[tuple[int | None, str | None]] = []

    def noted(processes: int | None, dask: str | None, **terms: Any) -> Any:
        used.append((processes, dask))
        return answering(1 if dask is None else processes, dask, **terms)

    monkeypatch.setattr("trimtab.twin.whatif.whatif.answering", noted)
    question = WhatIf(str(site), until_s=3600.0, classes=1, dask=asked, workers=workers)
    _, swept = what_if(question)
    assert used == [(workers, scheduler if of_site else None)]
    assert swept.rows == _alone().rows


@cache
def _alone() -> Swept:
    return what_if(WhatIf("template", until_s=3600.0, classes=1, workers=1))[1]


def test_without_dask_nothing_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with answering(1, None, most=2, hint="") as together:
        answers = list(together([Question(0), Question(1)]))
    assert answers == [(0, os.getpid()), (1, os.getpid())]
    assert [number for number, _ in answers_of("local:2", [Question(0), Question(1)])] == [0, 1]
    with raises(UsageError, "dask-missing"):
        answers_of("tls://h:8786", [Question(0)])


def test_dask_is_imported_where_it_is_used_alone() -> None:
    """One module, and only in its functions: whatever else is imported needs no Dask."""
    imports = re.compile(r"^( *)(?:from|import) (?:dask|distributed)\b", re.MULTILINE)
    importers = {
        (path.name, bool(indent))
        for path in Path(trimtab.__file__).parent.rglob("*.py")
        for indent in imports.findall(path.read_text())
    }
    assert importers == {("dask_worker.py", True)}


CLUSTER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    print(LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1",
                       dashboard_address="127.0.0.1:0").scheduler_address, flush=True)
    time.sleep(600)
"""


@pytest.mark.soak
def test_a_scheduler_that_is_lost_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client tries to reach it again for as long as it waits for one."""
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    argv = [sys.executable, script]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            address = cluster.stdout.readline().strip()
            assert address
            terms = answering(None, address, most=9, hint="")
            with raises(ToolError, "scheduler-lost"), terms as together:
                waiting = [Question(n, leaves=tmp_path, waits_for=999) for n in range(1, 9)]
                answers = together([Question(0), *waiting])
                assert next(answers)[0] == 0
                monkeypatch.setattr(dask_worker, "_WORKERS_S", 3.0)
                cluster.kill()
                next(answers)
        finally:
            cluster.kill()


@pytest.mark.soak
def test_a_job_of_slurm_simulates_what_this_host_does(slurm: Cluster, tmp_path: Path) -> None:
    """The script that is shipped, on two nodes; figures are the same to the last bit."""
    question = WhatIf("template", seeds=4, until_s=7200.0, classes=1)
    _, alone = what_if(question)
    place = tmp_path / "dask"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    slurm.ask(
        "env", f"PATH={path}", f"PYTHONPATH={os.pathsep.join(sys.path)}",
        "sbatch", "--nodes=2", f"--output={tmp_path}/job.out", str(SCRIPT), str(place),
    )  # fmt: skip
    try:
        while not (place / "scheduler.json").exists():
            assert slurm.queue(), (tmp_path / "job.out").read_text()
            time.sleep(0.2)
        _, by_workers = what_if(replace(question, dask=str(place / "scheduler.json")))
    finally:
        slurm.cancel_all()
    assert by_workers.rows == alone.rows
    assert (place.stat().st_mode & 0o777) == 0o700
