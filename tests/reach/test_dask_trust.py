"""What owners of a Dask scheduler or of workers, and other users of the host, cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dask import config
from tests.support import dask_chaos
from tests.support.codes import raises

from trimtab.base.error import RefusedError, TrimtabError, UsageError
from trimtab.reach import dask_worker
from trimtab.reach.dask_worker import (
    answering,
    nothing_unpickled,
    require_own_configuration,
    scheduler_address,
)

pytestmark = pytest.mark.system


class Evil:
    """A pickle that creates a file where it is read, as any other user's code would."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


class Question:
    def answer(self) -> int:
        return 7


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


OUTCOMES = {
    **dict.fromkeys(("type", "event", "warning"), ("[7]",)),
    "result": ("answer-malformed",),
    "exception": ("workers-differ",),
    "traceback": ("workers-differ",),
    "pickled": ("scheduler-lost",),
}


def ask(file: str) -> str:
    """Return what came of a question: the answer, or the code of the error."""
    try:
        with answering(None, file, most=1, hint="") as together:
            return str(list(together([Question()])))
    except TrimtabError as error:
        return error.code


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


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("files of root's are needed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.json"
    path.write_text('{"address": "tcp://10.0.0.1:8786"}')
    return path


@pytest.mark.usefixtures("as_root")
def test_root_believes_a_scheduler_of_its_own_and_one_with_certificates(file: Path) -> None:
    assert scheduler_address(str(file)) == "tcp://10.0.0.1:8786"
    assert scheduler_address("tls://h:8786") == "tls://h:8786"
    os.chown(file, 1000, -1)
    file.write_text('{"address": "tls://10.0.0.1:8786"}')
    assert scheduler_address(str(file)) == "tls://10.0.0.1:8786"


@pytest.mark.usefixtures("as_root")
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


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "ws://h:1", "h:8786", "inproc://x"])
def test_root_refuses_an_address_without_tls(address: str, file: Path) -> None:
    with raises(RefusedError, "scheduler-untrusted"), answering(None, address, most=1, hint=""):
        pass
    link = file.with_name("link")
    link.symlink_to(file)
    with raises(RefusedError, "scheduler-untrusted"):
        scheduler_address(str(link))


@pytest.mark.usefixtures("as_root")
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
    with (
        raises(UsageError, "file-writable-by-others"),
        answering(None, "tls://h:1", most=1, hint=""),
    ):
        pass


def test_another_user_may_use_any_scheduler(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    file.chmod(0o666)
    for scheduler in (str(file), "tcp://10.0.0.1:8786"):
        assert scheduler_address(scheduler) == "tcp://10.0.0.1:8786"
    file.write_text("[]")
    with raises(UsageError, "scheduler-invalid"):
        scheduler_address(str(file))


def test_tls_without_certificates_says_what_to_configure() -> None:
    unset = dict.fromkeys(("ca-file", "client.cert", "client.key"))
    with (
        config.set({f"distributed.comm.tls.{name}": value for name, value in unset.items()}),
        raises(UsageError, "dask-certificates", "TLS"),
        answering(None, "tls://127.0.0.1:9", most=1, hint=""),
    ):
        pass


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


def test_sockets_that_others_listen_on_are_seen(tmp_path: Path) -> None:
    """What the test before looks for is found where it is."""
    with socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX) as named:
        named.bind(str(tmp_path / "s"))
        named.listen()
        assert len(listening({os.getpid()})) == 2
