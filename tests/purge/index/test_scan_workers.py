"""A scan by many workers: every name once, whoever dies; no MDT is asked too often."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.purge.index.trees import found_by_find, paths_of, rows_at_rest
from tests.support import waiting_fuse
from tests.support.codes import raises
from tests.support.counts import all_in_soak
from tests.support.dask_cluster import local_cluster
from tests.support.silent_fuse import why_not

from trimtab.base.error import Interrupted, ToolError, UsageError
from trimtab.purge.core_call import ScanLimits
from trimtab.purge.index import scan, scan_workers
from trimtab.purge.index.manifest import Manifest, SizesMode
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.scan_workers import (
    Frontier,
    Left,
    PartTerms,
    Way,
    counted,
    left_of,
    listed,
)
from trimtab.reach import dask_worker

NO_LIMITS = ScanLimits()
AS_IT_IS = (scan._FIRST_S, scan_workers._FEW_S, scan_workers._PART_S)
CALLS_PER_S = 3000.0
"""Slow enough that a scan is never over before workers begin."""


def path_of(way: Way) -> str:
    return "" if way is None else f"{path_of(way[0])}/{way[1]}"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**63), st.integers(0, 2)), max_size=40)
)
def test_what_is_left_survives_being_listed(places: list[tuple[int, int, int]]) -> None:
    ways: list[Way] = [None]
    left: list[Left] = []
    for number, (under, cookie, mdt) in enumerate(places):
        ways.append((ways[under % len(ways)], str(number)))
        left.append(Left(random.Random(number).choice(ways), cookie, mdt))
    before, after = (
        [(path_of(way), *rest) for way, *rest in some] for some in (left, left_of(listed(left)))
    )
    assert after == before


def frontier(
    directories: int, threads: list[int], limits: ScanLimits = NO_LIMITS, mdts: int = 1
) -> Frontier:
    """Return one with directories that lie on MDTs in turns."""
    ahead = Frontier(PartTerms("/r", 4, limits=limits), "/parts", {}, lambda: threads[-1])
    ahead.wait_for([Left((None, str(n)), 0, n % mdts) for n in range(directories)])
    return ahead


def test_the_newest_directories_go_first_and_stay_known_until_they_are_done() -> None:
    ahead = frontier(20, [2])
    first, second = next(ahead), next(ahead)
    given = [path_of(way) for way, *_ in left_of(first.checkpoint)]
    assert given == [f"/{n}" for n in range(15, 20)]
    assert len(left_of(second.checkpoint)) == 3
    assert counted(ahead.waiting) == 12
    assert len(ahead.unread()) == 20
    ahead.done(first.number, [Left((None, "new"), 7)])
    assert len(ahead.unread()) == 16
    assert ("/new", 7) in [(path_of(way), cookie) for way, cookie, _ in ahead.unread()]


def test_a_part_has_directories_of_all_mdts() -> None:
    """The newest of each, as many of each; what only one MDT has left is its own."""
    ahead = frontier(120, [2], mdts=3)
    for _ in range(3):
        mdts = [left.mdt for left in left_of(next(ahead).checkpoint)]
        each = [mdts.count(mdt) for mdt in range(3)]
        assert max(each) - min(each) <= 1
    handed_out = {int(path_of(left.way)[1:]) for part in ahead.handed_out.values() for left in part}
    assert handed_out == set(range(120 - len(handed_out), 120))
    alone = frontier(10, [1], mdts=1)
    alone.wait_for([Left((None, "other"), 0, 5)])
    first = left_of(next(alone).checkpoint)
    assert [left.mdt for left in first].count(5) == 1
    assert [path_of(left.way) for left in first if not left.mdt] == ["/6", "/7", "/8", "/9"]


@pytest.mark.parametrize("limits", [ScanLimits(100.0), ScanLimits(calls_per_mdt_s=100.0)])
def test_calls_are_shared_by_those_who_have_parts(limits: ScanLimits) -> None:
    """Workers that join get a share once those who had more are done."""
    threads = [2]
    ahead = frontier(1000, threads, limits)
    parts = [next(ahead), next(ahead)]
    assert [part.share for part in parts] == [0.5, 0.5]
    assert list(ahead) == []
    threads.append(10)
    assert list(ahead) == []
    ahead.done(parts[0].number, [])
    assert [part.share for part in ahead] == [0.1] * 5
    assert sum(ahead.shares.values()) <= 1 + 1e-9


def test_without_a_limit_parts_are_handed_out_ahead() -> None:
    ahead = frontier(1000, [2])
    assert [next(ahead).number for _ in range(9)] == [*range(1, 10)]


def test_a_share_of_the_calls_is_what_a_process_makes() -> None:
    """Threads that each wait ``delay_s`` a name make the calls of the share, and no more."""
    limits = ScanLimits(calls_per_s=1000.0, calls_per_mdt_s=300.0)
    core = limits.for_core(threads=4, calls_a_name=2, share=0.25)
    assert 4 * 2 / core["delay_s"] == pytest.approx(250.0)
    assert core["each_mdt"] is not None
    assert 2 / core["each_mdt"][0] == pytest.approx(75.0)
    unlimited = {"delay_s": 0.0, "latency_s_max": None, "each_mdt": None}
    assert ScanLimits().for_core(4, 2, 1.0) == unlimited


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 700 names: chains, wide directories, hard links, a link, names that are no text."""
    root = tmp_path_factory.mktemp("tree")
    deep = root
    for number in range(40):
        deep = deep / f"l{number}"
        deep.mkdir()
        (deep / "f").write_bytes(b"x" * number)
    for number in range(30):
        (root / f"d{number}").mkdir()
        for file in range(number):
            (root / f"d{number}" / f"f{file}").write_bytes(b"y" * file * 100)
    for number in range(0, 30, 5):
        os.link(root / "l0" / "f", root / f"d{number}" / "again")
    (root / "\udcff\n%41").mkdir()
    (root / "\udcff\n%41" / "f").touch()
    (root / "link").symlink_to("d1")
    return root


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts be short, so that a small tree has many of them."""
    hurry(monkeypatch, 0.0, 0.02, 0.05)


def hurry(patch: pytest.MonkeyPatch, first_s: float, few_s: float, part_s: float) -> None:
    patch.setattr(scan, "_FIRST_S", first_s)
    patch.setattr(scan_workers, "_FEW_S", few_s)
    patch.setattr(scan_workers, "_PART_S", part_s)


def check(tree: Path, index: Path, manifest: Manifest, alone: pl.DataFrame) -> None:
    """Compare an index with ``find`` and with that of one host; see that nothing else is there."""
    frame = rows_at_rest(index, manifest)
    assert paths_of(frame) == found_by_find(tree)
    assert_frame_equal(frame, alone)
    assert manifest.complete
    shards = {shard.name for shard in manifest.shards}
    assert {path.name for path in index.iterdir()} == {*shards, "manifest.json"}


@pytest.fixture(scope="module")
def alone(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    index = tmp_path_factory.mktemp("alone") / "index"
    return rows_at_rest(index, scan_index(str(tree), index, ScanOptions(), version="0"))


def scanned(tree: Path, index: Path, scheduler: str, **terms: Any) -> Manifest:
    """Scan slowly, with the workers of a scheduler."""
    limits = ScanLimits(terms.pop("calls_per_s", CALLS_PER_S))
    options = ScanOptions(limits=limits, dask=scheduler, checkpoint_s=0.001)
    return scan_index(str(tree), index, options, version="0", **terms)


def replacing_outcomes(monkeypatch: pytest.MonkeyPatch, **said: Any) -> None:
    """Let workers say something else than what they did."""
    taken_over = scan_workers._Spread._take_over

    def told(self: Any, done: Any) -> None:
        taken_over(self, replace(done, **said))

    monkeypatch.setattr(scan_workers._Spread, "_take_over", told)


@pytest.fixture(scope="module")
def threads() -> Iterator[str]:
    """Two workers in threads: what goes to them is pickled as for any other."""
    with local_cluster(2, processes=False) as cluster:
        yield cluster.scheduler_file


@pytest.mark.system
def test_an_index_is_that_of_one_host(
    tree: Path, alone: pl.DataFrame, threads: str, tmp_path: Path
) -> None:
    pending: list[int] = []
    began_s = time.monotonic()
    manifest = scanned(
        tree, tmp_path / "index", threads, progress=lambda seen: pending.append(seen.pending)
    )
    assert time.monotonic() - began_s >= alone.height / CALLS_PER_S
    assert len(pending) > 3
    check(tree, tmp_path / "index", manifest, alone)


@pytest.mark.system
def test_one_host_goes_on_where_workers_were_interrupted(
    tree: Path, alone: pl.DataFrame, threads: str, tmp_path: Path
) -> None:
    """And workers where one host was."""
    index = tmp_path / "index"
    interrupt = Mock(side_effect=[None, None, None, Interrupted("SIGINT")])
    with pytest.raises(Interrupted):
        scanned(tree, index, threads, progress=interrupt)
    assert left_of(scan_workers.read_checkpoint(index))
    (index / "scan-000999.parquet").write_bytes(b"a shard that was not taken over")
    with raises(UsageError, "index-in-use"), scan_workers._alone(index), scan_workers._alone(index):
        pass
    check(tree, index, scan_index(str(tree), index, ScanOptions(), version="0"), alone)


@pytest.mark.system
def test_shards_that_are_not_shared_are_an_error(
    tree: Path, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each host would have a directory of the same name, of its own."""
    replacing_outcomes(monkeypatch, directory="elsewhere")
    with raises(ToolError, "index-not-shared"):
        scanned(tree, tmp_path / "index", threads)


@pytest.mark.system
@pytest.mark.parametrize(
    "said",
    [
        {"directory": "../../kept"},
        {"directory": ".."},
        {"shards": (("../../kept/file", 1),)},
        {"number": 10_000},
        {"left": ((99, 0),)},
        {"counts": {"entries": 1}},
    ],
)
def test_an_outcome_that_leads_elsewhere_is_refused(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    """Whoever owns a worker can say anything; this process removes and renames what it says."""
    kept = tmp_path / "kept" / "file"
    kept.parent.mkdir()
    kept.write_text("of others")
    replacing_outcomes(monkeypatch, **said)
    with raises(ToolError, "answer-malformed"):
        scanned(tree, tmp_path / "index", "local:1")
    assert kept.read_text() == "of others"


@pytest.mark.system
def test_processes_of_this_host_scan_as_one_does(
    tree: Path, alone: pl.DataFrame, tmp_path: Path
) -> None:
    """Directories are added while others are scanned: without Dask, by the pool of this host."""
    check(tree, tmp_path / "i", scanned(tree, tmp_path / "i", "local:2"), alone)


@pytest.mark.system
@pytest.mark.parametrize("kills", all_in_soak(range(2, 43), gate=[2]))
def test_workers_are_killed_and_nothing_is_missing_or_twice(
    tree: Path, alone: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    """Killed at moments that depend on the seed, wherever they are in their part."""
    monkeypatch.setattr(dask_worker, "_WORKERS_S", 600.0)  # a busy host starts them slowly
    draw = random.Random(kills)
    with local_cluster(2, settings={"distributed.scheduler.allowed-failures": 0}) as cluster:
        moments = sorted(draw.uniform(0.0, 0.8 * alone.height) for _ in range(min(kills, 6)))

        def kill(progress: Any) -> None:
            # One that is killed while it starts is not started again by Dask.
            if not moments or progress.entries < moments[0]:
                return
            if pids := cluster.worker_pids():
                moments.pop(0)
                os.kill(draw.choice(pids), signal.SIGKILL)

        terms = {"calls_per_s": 1000.0, "progress": kill}
        manifest = scanned(tree, tmp_path / "i", cluster.scheduler_file, **terms)
        assert not moments
    check(tree, tmp_path / "i", manifest, alone)


MDTS = 3
TREE = {"wait_s": 0.001, "directories": 100 * MDTS, "files": 16, "mdts": MDTS}


@pytest.fixture(scope="module")
def program() -> Path:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    return waiting_fuse.build()


@pytest.fixture
def as_lustre(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan takes the file system for a Lustre, and its parts are as long as they are."""
    monkeypatch.setattr(scan, "root_facts", waiting_fuse.facts_as_of_lustre)
    hurry(monkeypatch, *AS_IT_IS)


def asked_of_mdts(program: Path, tmp_path: Path, **terms: Any) -> waiting_fuse.Waiting:
    """Return what a file system of three MDTs was asked by a scan."""
    (tmp_path / "m").mkdir()
    options = ScanOptions(sizes=SizesMode.LAZY, **terms)
    with waiting_fuse.waiting_mount(program, tmp_path / "m", **TREE) as mount:
        manifest = scan_index(str(mount.point), tmp_path / "i", options, version="0")
    assert manifest.complete
    assert sum(shard.rows for shard in manifest.shards) == mount.entries
    return mount


@pytest.mark.system
@pytest.mark.usefixtures("as_lustre")
@pytest.mark.parametrize(("threads", "limit"), [(6, None), (24, 800.0)])
def test_mdts_are_loaded_alike_and_none_is_asked_more_often_than_was_said(
    program: Path, tmp_path: Path, threads: int, limit: float | None
) -> None:
    """Without regard to MDTs one is ahead of another by a quarter of all calls.

    Each has a limit of its own: none waits for another's.
    """
    limits = ScanLimits(calls_per_mdt_s=limit)
    mount = asked_of_mdts(program, tmp_path, threads=threads, limits=limits)
    assert mount.longest_lead < mount.calls / MDTS / 4
    assert limit is None or max(mount.most_of_mdts) <= limit * 1.1


@pytest.mark.system
@pytest.mark.usefixtures("as_lustre")
def test_workers_keep_the_limit_of_each_mdt_together(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, 0.1, 0.2, 0.5)
    limits = ScanLimits(calls_per_mdt_s=600.0)
    with local_cluster(2) as cluster:
        terms = {"threads": 6, "limits": limits, "dask": cluster.scheduler_file}
        mount = asked_of_mdts(program, tmp_path, **terms)
    assert max(mount.most_of_mdts) <= 600.0 * 1.1
    assert mount.longest_lead < mount.calls / MDTS / 2


@pytest.mark.system
def test_what_is_no_lustre_has_no_mdts(tmp_path: Path) -> None:
    options = ScanOptions(limits=ScanLimits(calls_per_mdt_s=100.0))
    with raises(UsageError, "mdts-none"):
        scan_index(str(tmp_path), tmp_path / "i", options, version="0")
    assert not (tmp_path / "i").exists()
