"""Indexes read by workers of Dask: the answers are those of one process, to the last row."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.support.dask_cluster import local_cluster

from trimtab import _core
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon_question import HorizonQuestion, ask_horizon, choose
from trimtab.purge.index.dask_pieces import holdings, pieces
from trimtab.purge.index.index_query import By
from trimtab.purge.index.manifest import Shard
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.plan.plan_making import held_by_users
from trimtab.purge.purge_policy import Policy, TimeName
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force

pytestmark = pytest.mark.system
DAY_S = 86_400
SHARDS = 5


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Two workers in threads: what goes to them is pickled as for any other."""
    with local_cluster(2, processes=False) as cluster:
        yield cluster.scheduler_file


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of five shards; the names of files with several names lie in different ones."""
    tree, directory = (tmp_path_factory.mktemp(name) for name in ("tree", "index"))
    for number in range(4):
        (tree / f"d{number}").mkdir()
    for number in range(60):
        file = tree / f"d{number % 4}" / f"f{number}"
        file.write_bytes(b"x" * number * 700)
        if number % 6 == 0:
            os.link(file, tree / f"d{(number + 1) % 4}" / f"again{number}")
        os.chown(file, 1000 + number % 3, -1)
        at_s = 1_700_000_000 - number * 9 * DAY_S
        os.utime(file, (at_s, at_s))
    manifest = scan_index(str(tree), directory / "whole", ScanOptions(threads=1), version="0")
    rows = pl.concat(pl.read_parquet(directory / "whole" / s.name) for s in manifest.shards)
    place = directory / "parts"
    place.mkdir()
    shards = []
    for number in range(SHARDS):
        part, name = rows.gather_every(SHARDS, number), f"scan-{number:06}.parquet"
        part.write_parquet(place / name)
        data = (place / name).read_bytes()
        shards.append(Shard(name, part.height, len(data), hashlib.sha256(data).hexdigest()))
    save_manifest(replace(manifest, shards=tuple(shards)), place)
    return place


def test_pieces_are_all_shards_in_their_order(index: Path) -> None:
    manifest = load_manifest(index)
    paths = [str(index / shard.name) for shard in manifest.shards]
    assert pieces(index, manifest) == [tuple(paths)]
    assert pieces(index, manifest, most_bytes=1) == [(path,) for path in paths]
    two = sum(shard.size_bytes for shard in manifest.shards[:2])
    assert pieces(index, manifest, most_bytes=two)[0] == tuple(paths[:2])
    assert pieces(index, replace(manifest, shards=())) == [()]


@pytest.fixture
def each_shard_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.purge.index.dask_pieces.PIECE_BYTES", 1)


def policy_of(index: Path, *counted: TimeName) -> Policy:
    root = load_manifest(index).root.decode()
    return Policy("p", root, target=0.5, counted=counted, minimum_age_s=DAY_S)


def question(index: Path) -> HorizonQuestion:
    policy = policy_of(index, "atime", "mtime")
    return HorizonQuestion(index, policy, usage=Usage(10**6, 2 * 10**5))


@pytest.mark.usefixtures("each_shard_by_itself")
def test_a_horizon_is_that_of_one_process(index: Path, scheduler: str) -> None:
    now = datetime.now(UTC)
    alone = ask_horizon(question(index), now=now)
    assert alone.answer.needed.eligible.files > 0
    assert ask_horizon(replace(question(index), dask=scheduler), now=now) == alone


@pytest.mark.usefixtures("each_shard_by_itself")
@pytest.mark.parametrize("linked", [False, True])
def test_candidates_are_those_of_one_process(
    index: Path, scheduler: str, tmp_path: Path, *, linked: bool
) -> None:
    """To the byte: rows, their order and their encoding."""
    asked = question(index)
    horizon = ask_horizon(asked, now=datetime.now(UTC))
    horizon = replace(horizon, rules=replace(horizon.rules, linked=linked))
    alone, workers = tmp_path / "alone", tmp_path / "workers"
    for out, asked_by in ((alone, None), (workers, scheduler)):
        choose(replace(asked, dask=asked_by), horizon, 1_695_000_000, out)
    assert alone.read_bytes() == workers.read_bytes()
    names = pl.read_parquet(workers)["name"].to_list()
    assert b"f59" in names
    assert (b"again54" in names) == linked
    assert not list(index.glob(".candidates-*"))


def test_more_parts_than_are_merged_at_once(index: Path, tmp_path: Path) -> None:
    manifest = load_manifest(index)
    rows = pl.concat(pl.read_parquet(index / shard.name) for shard in manifest.shards)
    policy = policy_of(index, "mtime")
    rules = rules_in_force(policy, manifest, ReadRecording(), now_s=manifest.as_of_s).core()
    shards, parts = [], []
    for number in range(66):
        shards.append(tmp_path / f"shard{number}")
        parts.append(tmp_path / f"part{number}")
        rows.gather_every(66, number).write_parquet(shards[-1])
        _core.select_part(shards[-1:], rules, before_s=2 * 10**9, out=parts[-1])
    _core.merge_parts(parts, tmp_path / "merged")
    _core.select(shards, rules, before_s=2 * 10**9, out=tmp_path / "alone")
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "alone").read_bytes()
    assert pl.read_parquet(tmp_path / "merged").height > 0
    assert all(part.exists() for part in parts)


@pytest.mark.usefixtures("each_shard_by_itself")
@pytest.mark.parametrize("by", [By.USER, By.GROUP, By.AGE, By.SIZE])
def test_holdings_are_those_of_one_process(index: Path, scheduler: str, by: By) -> None:
    alone, workers = (holdings(index, by, top=100, dask=dask).frame for dask in (None, scheduler))
    assert_frame_equal(workers, alone)
    assert alone["files"].sum() == 60
    manifest = load_manifest(index)
    assert held_by_users(index, manifest, scheduler) == held_by_users(index, manifest)
