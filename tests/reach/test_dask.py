"""Questions answered by Dask workers: which die, differ, are not there, or are somebody else's."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import signal
import socket
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
from dask import config
from tests.support import dask_chaos
from tests.support.codes import raises
from tests.support.dask_cluster import local_cluster
from tests.support.slurm import Cluster

import trimtab
from trimtab.base.error import DataError, RefusedError, ToolError, TrimtabError, UsageError
from trimtab.reach import dask_worker
from trimtab.reach.dask_worker import (
    answering,
    nothing_unpickled,
    require_own_configuration,
    scheduler_address,
)
from trimtab.twin.whatif.whatif_sweep import Swept, WhatIf, what_if

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


@cache
def _alone() -> Swept:
    return what_if(WhatIf("template", until_s=3600.0, classes=1, workers=1))[1]


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

    monkeypatch.setattr("trimtab.twin.whatif.whatif_sweep.answering", noted)
    question = WhatIf(str(site), until_s=3600.0, classes=1, dask=asked, workers=workers)
    _, swept = what_if(question)
    assert used == [(workers, scheduler if of_site else None)]
    assert swept.rows == _alone().rows


def test_without_dask_nothing_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with answering(1, None, most=2, hint="") as together:
        answers = list(together([Question(0), Question(1)]))
    assert answers == [(0, os.getpid()), (1, os.getpid())]
    # One module imports it, and only in its functions: whatever else is imported needs no Dask.
    imports = re.compile(r"^( *)(?:from|import) (?:dask|distributed)\b", re.MULTILINE)
    importers = {
        (path.name, bool(indent))
        for path in Path(trimtab.__file__).parent.rglob("*.py")
        for indent in imports.findall(path.read_text())
    }
    assert importers == {("dask_worker.py", True)}
    assert [number for number, _ in answers_of("local:2", [Question(0), Question(1)])] == [0, 1]
    with raises(UsageError, "dask-missing"):
        answers_of("tls://h:8786", [Question(0)])


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


class Evil:
    """A pickle that creates a file where it is read, as any other user's code would."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


PLACES = ("result", "exception", "traceback", "type", "pickled", "event", "warning")
"""Where Dask's own client unpickles what workers and schedulers send."""


def _hostile(commands: Any, file: str, mark: str, place: str) -> None:
    """Run a scheduler with a worker; pickles of theirs leave a mark where they are read."""
    import asyncio

    from distributed import Scheduler, Worker
    from distributed.core import Status
    from distributed.protocol.serialize import Serialize, Serialized, ToPickle

    evil = pickle.dumps(Evil(mark))
    raw = Serialized({"serializer": "pickle", "writeable": ()}, [evil])

    class BadWorker(Worker):
        async def get_data(
            self, comm: Any, keys: Any, who: Any = None, serializers: Any = None
        ) -> Any:
            if place != "result":
                return await super().get_data(comm, keys, who, serializers)
            await comm.write({"status": "OK", "data": dict.fromkeys(keys, raw)})
            await comm.read()
            return Status.dont_reply

    class BadScheduler(Scheduler):
        def send_all(self, client_msgs: Any, worker_msgs: Any) -> None:
            changed = {
                client: [sent for message in messages for sent in instead_of(message)]
                for client, messages in client_msgs.items()
            }
            super().send_all(changed, worker_msgs)

    def instead_of(message: Any) -> list[Any]:
        if message.get("op") != "key-in-memory":
            return [message]
        erred = {"op": "task-erred", "key": message["key"]}
        fine = Serialize(pickle.dumps(ValueError("x")))
        warned = {"category": evil, "message": evil}
        return {
            "result": [message],
            "exception": [{**erred, "exception": raw, "traceback": None}],
            "traceback": [{**erred, "exception": fine, "traceback": evil}],
            "type": [{**message, "type": evil}],
            "pickled": [{**message, "type": ToPickle(Evil(mark))}],
            "event": [{"op": "event", "topic": "warn", "event": (0.0, raw)}, message],
            "warning": [{"op": "event", "topic": "warn", "event": (0.0, warned)}, message],
        }[place]

    async def run() -> None:
        terms = {"host": "127.0.0.1", "dashboard": False}
        async with (
            BadScheduler(port=0, **terms) as scheduler,
            BadWorker(scheduler.address, nthreads=1, local_directory=f"{mark}.worker", **terms),
        ):
            Path(file).write_text(json.dumps({"address": scheduler.address}))
            commands.send(scheduler.address)
            await asyncio.to_thread(commands.poll, 600.0)

    dask_chaos._quiet()
    asyncio.run(run())


def _client_of_dask(address: str) -> None:
    """Ask as any client of Dask does; what it makes of the answer is of no matter."""
    from distributed import Client

    dask_chaos._quiet()
    with contextlib.suppress(Exception), Client(address, timeout=30) as client:
        client.submit(int, "7", pure=False).result(timeout=5)


@pytest.mark.parametrize("place", PLACES)
def test_no_pickle_of_a_scheduler_or_a_worker_runs(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a client of Dask it does: that is how the test knows that it was sent."""
    monkeypatch.setattr(dask_worker, "_WORKERS_S", 5.0)
    dask_chaos.preload()
    file, mark = tmp_path / "scheduler.json", tmp_path / "mark"
    here, there = dask_chaos.FORKS.Pipe()
    process = dask_chaos.started(_hostile, there, str(file), str(mark), place)
    try:
        assert here.poll(120.0)
        address = here.recv()
        naive = dask_chaos.started(_client_of_dask, address)
        naive.join(60.0)
        dask_chaos.end(naive)
        assert mark.exists()
        mark.rmdir()
        came = ask(str(file))
    finally:
        dask_chaos.end(process)
    assert not mark.exists()
    assert came in OUTCOMES[place]


def ask(file: str) -> str:
    """Return what came of a question: the answer's number, or the code of the error."""
    try:
        return str([number for number, _ in answers_of(file, [Question(7)])])
    except TrimtabError as error:
        return error.code


OUTCOMES = {
    **dict.fromkeys(("type", "event", "warning"), ("[7]",)),
    "result": ("answer-malformed",),
    "exception": ("workers-differ",),
    "traceback": ("workers-differ",),
    "pickled": ("scheduler-lost",),
}


def test_what_is_plain_is_read_and_nothing_that_has_a_name() -> None:
    """In C as in Python, by whatever reads pickles; afterwards they are read again."""
    evil = pickle.dumps(Evil("/nowhere/at/all"))
    with nothing_unpickled():
        assert pickle.loads(pickle.dumps([1, "a", {"b": 2.5}])) == [1, "a", {"b": 2.5}]
        for read in (pickle.loads, pickle._loads):  # type: ignore[attr-defined]
            with pytest.raises(TypeError, match="none is read here"):
                read(evil)
    with pytest.raises(FileNotFoundError):
        pickle.loads(evil)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of root's are needed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.json"
    path.write_text('{"address": "tcp://10.0.0.1:8786"}')
    return path


@needs_root
def test_root_believes_a_scheduler_of_its_own_and_one_with_certificates(file: Path) -> None:
    assert scheduler_address(str(file)) == "tcp://10.0.0.1:8786"
    assert scheduler_address("tls://h:8786") == "tls://h:8786"
    link = file.with_name("link")
    link.symlink_to(file)
    with raises(RefusedError, "scheduler-untrusted"):
        scheduler_address(str(link))
    os.chown(file, 1000, -1)
    file.write_text('{"address": "tls://10.0.0.1:8786"}')
    assert scheduler_address(str(file)) == "tls://10.0.0.1:8786"


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "of_directory"),
    [(1000, 0o600, 0o700), (0, 0o646, 0o700), (0, 0o644, 0o777)],
)
def test_root_refuses_a_scheduler_that_others_can_stand_in_for(
    file: Path, owner: int, mode: int, of_directory: int
) -> None:
    os.chown(file, owner, -1)
    file.chmod(mode)
    file.parent.chmod(of_directory)
    with raises(RefusedError, "scheduler-untrusted"):
        scheduler_address(str(file))
    for address in ("tcp://127.0.0.1:8786", "ws://h:1", "h:8786", "inproc://x"):
        with raises(RefusedError, "scheduler-untrusted"):
            answers_of(address, [Question(0)])


@needs_root
def test_root_takes_no_configuration_of_dask_from_whoever_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    configuration = tmp_path / ".config" / "dask"
    configuration.mkdir(parents=True)
    require_own_configuration()
    file = configuration / "any.yaml"
    file.write_text("distributed: {client: {preload: [evil.py]}}")
    os.chown(file, 65534, -1)
    with raises(UsageError, "file-writable-by-others"):
        answers_of("tls://h:1", [Question(0)])


def test_another_user_may_use_any_scheduler(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    file.chmod(0o666)
    for scheduler in (str(file), "tcp://10.0.0.1:8786"):
        assert scheduler_address(scheduler) == "tcp://10.0.0.1:8786"
    file.write_text("[]")
    with raises(UsageError, "scheduler-invalid"):
        scheduler_address(str(file))


def test_tls_without_certificates_says_what_to_configure() -> None:
    unset = {
        f"distributed.comm.tls.{name}": None for name in ("ca-file", "client.cert", "client.key")
    }
    with config.set(unset), raises(UsageError, "dask-certificates", "TLS"):
        answers_of("tls://127.0.0.1:9", [Question(0)])


def sockets_of(pids: set[int]) -> set[str]:
    """Return the inodes of all sockets that processes hold."""
    held = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    held.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
    return held


def tree_of(root: int) -> set[int]:
    """Return a process and all that descend from it."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (process / "stat").read_text()
            parents[int(process.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> list[str]:
    """Return what processes listen on: lines of the kernel's tables."""
    held, lines = sockets_of(pids), []
    for table in map(Path, ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/unix")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            words = line.split()
            inode, open_ = (6, "00010000") if table.name == "unix" else (9, "0A")
            if words[inode] in held and words[3] == open_:
                lines.append(f"{table.name} {line}")
    return lines


def test_local_workers_listen_on_nothing(tmp_path: Path) -> None:
    """So nobody of this host can have them do anything, while they work on a scan."""
    # Sockets that others listen on are seen.
    with socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX) as named:
        named.bind(str(tmp_path / "s"))
        named.listen()
        assert len(listening({os.getpid()})) == 2
    (tmp_path / "tree").mkdir()
    for number in range(200):
        (tmp_path / "tree" / f"d{number}").mkdir()
    argv = ["purge", "scan", str(tmp_path / "tree"), "--index", str(tmp_path / "index"),
            "--dask", "local:2", "--calls-per-second", "40"]  # fmt: skip
    script = "import sys; from trimtab.cli import main; sys.exit(main())"
    seen: list[set[int]] = []
    with subprocess.Popen(
        [sys.executable, "-c", script, *argv],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as scan:  # fmt: skip
        try:
            while not list((tmp_path / "index").glob("parts/*")):
                assert scan.poll() is None
                seen.append(tree_of(scan.pid))
                assert listening(seen[-1]) == []
                time.sleep(0.05)
            seen.append(tree_of(scan.pid))
            assert listening(seen[-1]) == []
            assert scan.poll() is None
        finally:
            os.killpg(scan.pid, 9)
    assert len(seen[-1]) >= 3
