"""Workers, scheduler and client are killed, paused and cut off, and disks are full.

The answer is right, or there is none and the same command gives the right one afterwards.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.purge.index.imports import load_verified
from tests.purge.index.trees import found_by_find, paths_of, rows_at_rest
from tests.support import dask_chaos
from tests.support.counts import all_in_soak
from tests.support.dask_chaos import ChaosCluster, end, send, started

from trimtab.base.error import TrimtabError
from trimtab.purge.core_call import ScanLimits
from trimtab.purge.index import scan, scan_workers
from trimtab.purge.index.dask_pieces import holdings
from trimtab.purge.index.index_query import By, QueryAnswer
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.reach import dask_worker

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
SEEDS = int(os.environ.get("TRIMTAB_CHAOS_SEEDS", "200"))
IN_THE_GATE = 2
CALLS_PER_S = 400.0
ATTEMPTS = 12
"""Of the client in one seed: faults hit the first of them alone, so that it ends."""
FAULTS = ("kill worker", "pause worker", "kill scheduler", "pause scheduler", "kill client",
          "pause client", "cut off", "fill disk")  # fmt: skip
WHOLE = 1 << 24
FULL = 64 << 10
_REFUSED = 3


def held(answer: QueryAnswer) -> str:
    """Return who holds how much; how long it was not used depends on when the scan ended."""
    return answer.frame.drop("unused_days").write_json()


def scan_and_ask(tree: str, index: str, scheduler: str, out: str) -> None:
    """Scan, ask who holds what, and write the answer; exit as the command does after an error."""
    dask_worker._WORKERS_S = 10.0  # type: ignore[misc]
    dask_worker._LOOK_S = 0.2  # type: ignore[misc]
    scan._FIRST_S = 0.0  # type: ignore[misc]
    scan._LOOK_S = 0.01  # type: ignore[misc]
    scan_workers._FEW_S = 0.05  # type: ignore[misc]
    scan_workers._PART_S = 0.1  # type: ignore[misc]
    options = ScanOptions(limits=ScanLimits(CALLS_PER_S), dask=scheduler, checkpoint_s=0.001)
    try:
        if not (Path(index) / "manifest.json").exists():
            scan_index(tree, Path(index), options, version="0")
        answer = holdings(Path(index), By.USER, top=99, dask=scheduler)
    except TrimtabError as error:
        Path(out).with_suffix(".error").write_text(f"{error.code}: {error}")
        os._exit(_REFUSED)
    Path(out).write_text(held(answer))
    os._exit(0)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 300 names of five users, some of them in several places."""
    root = tmp_path_factory.mktemp("chaos")
    for number in range(24):
        directory = root / f"d{number % 6}" / f"e{number}"
        directory.mkdir(parents=True)
        for file in range(11):
            path = directory / f"f{file}"
            path.write_bytes(b"x" * (number * 100 + file))
            os.chown(path, 1000 + file % 5, -1)
    for number in range(6):
        os.link(root / "d0" / "e0" / f"f{number}", root / f"d{number}" / "again")
    return root


@pytest.fixture(scope="module")
def alone(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, str]:
    """Return what one host finds, checked against an independent listing."""
    index = tmp_path_factory.mktemp("alone") / "index"
    frame = rows_at_rest(index, scan_index(str(tree), index, ScanOptions(), version="0"))
    assert paths_of(frame) == found_by_find(tree)
    return frame, held(holdings(index, By.USER, top=99, dask=None))


@contextmanager
def small_disk(place: Path) -> Iterator[Callable[[int], None]]:
    """Mount a file system in memory, and yield what sets its size; skip where it may not be."""
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    terms = (b"tmpfs", os.fsencode(place), b"tmpfs")
    if libc.mount(*terms, 0, f"size={WHOLE}".encode()) != 0:
        pytest.skip(f"mounting is not possible here: {os.strerror(ctypes.get_errno())}")

    def resize(size_bytes: int) -> None:
        libc.mount(*terms, 32, f"size={size_bytes}".encode())  # MS_REMOUNT

    try:
        yield resize
    finally:
        libc.umount2(os.fsencode(place), 2)


def strike(
    fault: str, draw: random.Random, cluster: ChaosCluster, client: int,
    resize: Callable[[int], None],
) -> None:  # fmt: skip
    """Let one thing go wrong, for good or for a while."""
    workers = cluster.worker_pids() or [cluster.scheduler_pid()]
    pid = {"worker": draw.choice(workers), "scheduler": cluster.scheduler_pid(),
           "client": client}.get(fault.rpartition(" ")[2], 0)  # fmt: skip
    if fault.startswith("kill"):
        send(pid, signal.SIGKILL)
        return
    if fault.startswith("pause"):
        send(pid, signal.SIGSTOP)
    elif fault == "cut off":
        cluster.cut_off(draw.randrange(99))
    else:
        resize(FULL)
    time.sleep(draw.choice((0.1, 1.0, 7.0) if draw.random() < 0.3 else (0.1, 0.5)))
    if fault.startswith("pause"):
        send(pid, signal.SIGCONT)
    elif fault == "cut off":
        cluster.join_again()
    else:
        resize(WHOLE)


@pytest.mark.parametrize("seed", all_in_soak(range(SEEDS), gate=range(IN_THE_GATE)))
def test_an_answer_is_right_or_there_is_none(
    tree: Path, alone: tuple[pl.DataFrame, str], tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    kinds = draw.sample(FAULTS, draw.randint(1, 4))
    faults = [draw.choice(kinds) for _ in range(draw.randint(1, 4))]
    dask_chaos.preload()
    ends = []
    with small_disk(tmp_path / "disk") as resize:
        index, out = tmp_path / "disk" / "index", tmp_path / "answer"
        cluster = ChaosCluster(str(tmp_path))
        scheduler = cluster.scheduler_file
        try:
            for attempt in range(ATTEMPTS):
                cluster.mend()
                client = started(scan_and_ask, str(tree), str(index), scheduler, str(out))
                if attempt < 2:
                    for fault in faults[attempt::2]:
                        time.sleep(draw.uniform(0.0, 1.5))
                        strike(fault, draw, cluster, client.pid, resize)
                client.join(120.0)
                ends.append(client.exitcode)
                if client.exitcode is None:
                    end(client)
                if client.exitcode == 0:
                    break
                why = out.with_suffix(".error")
                assert client.exitcode in (_REFUSED, -signal.SIGKILL), (faults, ends)
                assert not out.exists(), (faults, why)
        finally:
            cluster.close()
        assert ends[-1] == 0, (faults, ends, out.with_suffix(".error").read_text())
        manifest = load_verified(index)
        assert_frame_equal(rows_at_rest(index, manifest), alone[0])
        assert manifest.complete
        assert out.read_text() == alone[1]
        assert {path.name for path in index.iterdir()} == {
            *(shard.name for shard in manifest.shards), "manifest.json",
        }  # fmt: skip
    if "TRIMTAB_CHAOS_REPORT" in os.environ:
        with Path(os.environ["TRIMTAB_CHAOS_REPORT"]).open("a") as report:
            print(json.dumps({"seed": seed, "faults": faults, "ends": ends}), file=report)
