"""Incremental scans: equal to a full one, row by row, but for what changes in place.

Random histories of a real tree; the slow twin is a full scan of the same tree.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.purge.index.imports import load_verified
from tests.support import loopback
from tests.support.codes import raises
from tests.support.counts import all_in_soak
from tests.support.tree_history import History

from trimtab.base.error import DataError, Interrupted, UnreadableError, UsageError
from trimtab.purge.core_call import ScanLimits
from trimtab.purge.index import carry_over, index_view
from trimtab.purge.index import scan as scanning
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    Followed,
    IndexSource,
    Lack,
    Manifest,
    Unread,
)
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.shard import columns
from trimtab.purge.plan import plan_making

pytestmark = pytest.mark.system

IN_PLACE = (
    "uid", "gid", "project", "size_bytes", "allocated_bytes", "nlink", "atime_ns", "mtime_ns",
    "ctime_ns", "last_use_s",
)  # fmt: skip
"""Columns of a file that change without a change of its directory."""


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are older than the margin only where a test waits for it: it is a tick here."""
    monkeypatch.setattr(carry_over, "MARGIN_S", 0)
    monkeypatch.setattr(scanning, "require_answer", lambda *_: None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """Return a tree on tmpfs, whose times are those of the kernel's ticks."""
    top = Path("/dev/shm") / f"incremental-{os.getpid()}-{tmp_path.name}"
    top.mkdir()
    try:
        yield top
    finally:
        shutil.rmtree(top)


def settle() -> None:
    """Let later changes have later times: a tick is at most 10 ms, and a busy kernel is late."""
    time.sleep(0.1)


def full(tree: Path, index: Path) -> Manifest:
    return scan_index(str(tree), index, ScanOptions(threads=2), version="0")


def incremental(tree: Path, index: Path, base: Path, **terms: Any) -> Manifest:
    options = replace(ScanOptions(threads=2, base=base), **terms)
    return scan_index(str(tree), index, options, version="0")


def incremented(manifest: Manifest) -> carry_over.Incremental:
    assert manifest.incremental is not None
    return manifest.incremental


@dataclass(frozen=True)
class Scans:
    """A tree and the indexes of it: ``base``, from which ``next`` is made, and ``full``."""

    tree: Path
    base: Path
    next: Path

    def begin(self, directories: int = 20, files: int = 10) -> Manifest:
        """Make a tree and the base of it; later changes have later times."""
        a_tree(self.tree, directories, files)
        return self.again()

    def again(self) -> Manifest:
        """Make the base of the tree as it is."""
        manifest = full(self.tree, self.base)
        settle()
        return manifest

    def increment(self, **terms: Any) -> Manifest:
        return incremental(self.tree, self.next, self.base, **terms)

    def check(self) -> None:
        """Require that the next index is a full one but for files in place."""
        full(self.tree, self.next.with_name("full"))
        same_but_in_place(self.next, self.next.with_name("full"))


@pytest.fixture
def scans(tree: Path, tmp_path: Path) -> Scans:
    return Scans(tree, tmp_path / "base", tmp_path / "next")


def rows(index: Path) -> pl.DataFrame:
    frame = index_view.scanned(index, load_verified(index)).select(*columns())
    return frame.sort("parent", "name").collect()


def same_but_in_place(scanned: Path, truth: Path) -> None:
    """Require the rows of a full scan, but for files in place; of directories every column."""
    one, other = rows(scanned), rows(truth)
    # Reading a directory may leave a trace in its own access time.
    volatile = ("atime_ns", "last_use_s")
    assert_frame_equal(one.drop(IN_PLACE), other.drop(IN_PLACE))
    of_directories = (frame.filter(pl.col("type") == "d").drop(volatile) for frame in (one, other))
    assert_frame_equal(*of_directories)


@pytest.mark.parametrize("seed", all_in_soak(range(300), gate=range(2)))
def test_a_chain_of_incremental_scans_is_a_full_scan(
    seed: int, tree: Path, memory: Path, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    tree = memory if seed % 2 else tree
    history = History(tree, rng)
    history.act(rng.randrange(150, 400))
    settle()
    base = tmp_path / "0"
    full(tree, base)
    for generation in range(1, 4):
        settle()
        history.act(rng.choice((0, 1, 5, 20)))
        settle()
        index, truth = tmp_path / str(generation), tmp_path / f"full-{generation}"
        manifest = incremental(tree, index, base)
        full(tree, truth)
        same_but_in_place(index, truth)
        scan = incremented(manifest)
        assert scan.generation == generation
        assert scan.carried == sum(
            shard.rows_in_force for shard in manifest.shards if shard.read_ns is not None
        )
        linked = (
            index_view.scanned(place, load_manifest(place)).filter(pl.col("nlink") > 1, type="f")
            for place in (index, truth)
        )
        # Each name says of its file what all say: it counts once.
        now, then = (frame.collect() for frame in linked)
        assert set(then["id"]) <= set(now["id"]), seed
        base = index


def a_tree(top: Path, directories: int = 20, files: int = 10) -> None:
    for number in range(directories):
        place = top / f"d{number % 4}" / f"s{number}"
        place.mkdir(parents=True)
        for file in range(files):
            (place / f"f{file}").write_text("x")
    settle()


def names(index: Path) -> set[bytes]:
    return {
        b"/".join(filter(None, row)) for row in rows(index).select("parent", "name").iter_rows()
    }


def test_unchanged_directories_are_not_read_and_changed_ones_are(scans: Scans) -> None:
    scans.begin()
    (scans.tree / "d1/s1/new").write_text("x")
    (scans.tree / "d2/s2/f0").unlink()
    manifest = scans.increment()
    scan = incremented(manifest)
    assert (scan.unchanged, scan.carried) == (4 + 18, 180)
    assert Lack.IN_PLACE in manifest.lacking
    assert manifest.can_delete
    assert "180 names in unchanged directories" in " ".join(manifest.notes)
    found = names(scans.next)
    assert b"d1/s1/new" in found
    assert b"d2/s2/f0" not in found
    scans.check()


def test_what_changes_in_place_is_as_it_was_and_says_when_it_was_read(scans: Scans) -> None:
    first = scans.begin(4)
    (scans.tree / "d1/s1/f1").write_text("longer than before")
    (scans.tree / "d2/s2/new").write_text("y")
    manifest = scans.increment()
    frame = index_view.names(scans.next, manifest).collect()
    stale, fresh = (frame.filter(path=path) for path in ("d1/s1/f1", "d2/s2/new"))
    assert stale["size_bytes"].item() == 1
    for read, by in ((stale, first), (fresh, manifest)):
        assert by.started_ns is not None
        assert int(read["read_at"].item().timestamp()) == by.started_ns // 10**9
    assert manifest.oldest_ns == first.started_ns
    # What a plan is judged by is the age of the oldest rows, through any number of scans.
    again = incremental(scans.tree, scans.next.with_name("again"), scans.next)
    assert again.oldest_ns == incremented(again).read_since_ns == first.started_ns


def test_a_plan_is_as_old_as_the_oldest_row(scans: Scans) -> None:
    manifest = scans.begin(4)
    old = replace(manifest, started_ns=manifest.ended_ns - 10**12)
    save_manifest(old, scans.base)
    assert _ended_at(scans.base, old) == old.ended_ns // 10**9
    # Directories of the base changed after its scan began, as it says now, but for one.
    os.utime(scans.tree / "d1/s1/f1")
    base = carry_over.ScanBase(scans.base, old, time.time_ns())
    fresh = full(scans.tree, scans.next)
    shards, scan = carry_over.carried_over(base, scans.next, fresh.shards, unchanged=8)
    assert scan.carried == 40
    monthly = replace(fresh, shards=shards, incremental=scan)
    assert _ended_at(scans.next, monthly) == monthly.oldest_ns // 10**9
    assert monthly.oldest_ns == old.started_ns


def _ended_at(index: Path, manifest: Manifest) -> float:
    question: Any = SimpleNamespace(directory=index)
    found: Any = SimpleNamespace(manifest=manifest, policy=None)
    planned = plan_making._index(question, found, exact=False)
    assert planned.started_at is not None
    assert planned.started_at <= planned.ended_at
    return planned.ended_at.timestamp()


def test_a_new_name_of_a_file_is_known_under_its_other_names(scans: Scans) -> None:
    scans.begin(4)
    (scans.tree / "d1/s1/other").hardlink_to(scans.tree / "d2/s2/f3")
    scans.increment()
    scans.check()
    now, then = (
        rows(index).filter(pl.col("nlink") == 2, pl.col("type") == "f")
        for index in (scans.next, scans.next.with_name("full"))
    )
    assert now.height == 2
    assert_frame_equal(now, then)


def test_a_moved_subtree_is_read_where_it_is(scans: Scans) -> None:
    scans.begin()
    before = (scans.tree / "d1/s1").stat()
    (scans.tree / "d1").rename(scans.tree / "d2/moved")
    assert (scans.tree / "d2/moved/s1").stat().st_ctime_ns == before.st_ctime_ns
    assert incremented(scans.increment()).carried == 150
    scans.check()


def test_two_directories_that_changed_places_are_read(scans: Scans) -> None:
    tree = scans.tree
    a_tree(tree)
    (tree / "d1/s1/f0").unlink()
    settle()
    scans.again()
    for old, new in (("d1", "aside"), ("d2", "d1"), ("aside", "d2")):
        (tree / old).rename(tree / new)
    scans.increment()
    scans.check()


def test_a_restored_modification_time_hides_nothing(scans: Scans) -> None:
    scans.begin()
    place = scans.tree / "d1/s1"
    before = place.stat()
    (place / "hidden").write_text("x")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    scans.increment()
    assert b"d1/s1/hidden" in names(scans.next)


def test_a_change_within_the_margin_is_read_again(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that came right after the directory was read may leave its times as they were."""
    monkeypatch.setattr(carry_over, "MARGIN_S", 60)
    scans.begin()
    manifest = scans.increment()
    scan = incremented(manifest)
    assert (scan.unchanged, scan.carried) == (0, 0)
    assert Lack.IN_PLACE not in manifest.lacking
    scans.check()


def test_what_a_tick_hides_is_within_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why there is a margin: where the kernel keeps the time of its tick, two changes are one."""
    monkeypatch.undo()
    top = Path("/dev/shm") / f"tick-{os.getpid()}"
    top.mkdir()
    try:
        latest_ns = 0
        for number in range(2000):
            (top / f"a{number}").touch()
            before = top.stat()
            (top / f"b{number}").touch()
            after = top.stat()
            if (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns):
                latest_ns = max(latest_ns, time.time_ns() - after.st_ctime_ns)
        # Newer kernels may keep finer times here, too: then nothing is hidden.
        assert latest_ns < carry_over.MARGIN_S * 10**9
    finally:
        shutil.rmtree(top)


def test_an_empty_directory_is_read_again_where_names_vanished(scans: Scans) -> None:
    """It may have moved away while the scan ran, and be back: then it left no names."""
    first = scans.begin(4)
    # The scan of then did not find the way to one directory, and lists nothing in it.
    shards = []
    for shard in first.shards:
        file = scans.base / shard.name
        frame = pl.read_parquet(file).filter(pl.col("parent") != b"d1/s1")
        frame.write_parquet(file)
        size_bytes = file.stat().st_size
        shards.append(replace(shard, rows=frame.height, size_bytes=size_bytes, sha256=None))
    save_manifest(replace(first, vanished=1, shards=tuple(shards)), scans.base)
    scans.increment()
    assert b"d1/s1/f0" in names(scans.next)


@pytest.mark.parametrize("stops", [1, 4])
def test_a_scan_that_was_stopped_goes_on_from_the_same_base(stops: int, scans: Scans) -> None:
    scans.begin(60, 3)
    (scans.tree / "d1/s1/new").write_text("x")
    slowly = ScanOptions(2, base=scans.base, limits=ScanLimits(300.0), checkpoint_s=0.01)
    for _ in range(stops):
        seen = iter(range(2))

        def interrupt(_: object, seen: Iterator[int] = seen) -> None:
            if next(seen) == 1:
                raise Interrupted("stopped")

        with contextlib.suppress(Interrupted):
            scan_index(str(scans.tree), scans.next, slowly, version="0", progress=interrupt)
            break
    if (scans.next / "checkpoint.json").exists():
        with raises(UsageError, "value-refused"):
            full(scans.tree, scans.next)
    if not (scans.next / "manifest.json").exists():
        scans.increment()
    scans.check()


def test_leftovers_of_a_killed_attempt_are_taken_away(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans.begin()
    with monkeypatch.context() as context:
        context.setattr(scanning, "save_manifest", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            scans.increment()
    assert list(scans.next.glob("kept-*"))
    scans.increment()
    scans.check()


def test_a_base_without_links_to_it_is_copied(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans.begin()
    refused = Mock(side_effect=OSError("another file system"))
    monkeypatch.setattr(Path, "hardlink_to", refused)
    scans.increment()
    assert refused.called
    shutil.rmtree(scans.base)
    scans.check()


def test_an_empty_tree_and_one_that_was_emptied(tree: Path, tmp_path: Path) -> None:
    full(tree, tmp_path / "base")
    incremental(tree, tmp_path / "still", tmp_path / "base")
    (tree / "d").mkdir()
    (tree / "d/f").write_text("x")
    settle()
    incremental(tree, tmp_path / "more", tmp_path / "still")
    assert names(tmp_path / "more") == {b"d", b"d/f"}
    settle()
    shutil.rmtree(tree / "d")
    manifest = incremental(tree, tmp_path / "none", tmp_path / "more")
    assert manifest.rows == 0


SOUND = FileSystemIdentity("ext4", "/dev/x", 5, 6, "uuid")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": IndexSource.CSV}, "not from a scan"),
        ({"started_ns": None}, "not from a scan"),
        ({"followed": Followed(1, ())}, "follows changelogs"),
        ({"root": b"/elsewhere"}, "/elsewhere"),
        ({"filesystem": replace(SOUND, uuid="other", fsid=7)}, "another file system"),
        ({"filesystem": None}, "another file system"),
        ({"filesystem": replace(SOUND, device=7)}, "device number"),
        ({"complete": False, "unread": (Unread(b"a", "why"),)}, "incomplete"),
        ({"notes": (f"1 mount {carry_over.ELSEWHERE}",)}, "mounts"),
        ({"started_ns": 10**18, "ended_ns": 2 * 10**18}, "clock"),
        ({"lacking": frozenset({Lack.LAYOUT, Lack.POOL})}, "project"),
    ],
)
def test_an_unsuitable_base_is_refused(change: dict[str, Any], words: str, scans: Scans) -> None:
    sound = replace(scans.begin(1), filesystem=SOUND)
    save_manifest(sound, scans.base)
    now_ns = 10**18 - 1 if "clock" in words else time.time_ns()
    terms: Any = {"lacking": sound.lacking, "mounts": (), "now_ns": now_ns}
    root = os.fsencode(scans.tree)
    if "clock" not in words:
        assert carry_over.starting_point(scans.base, root, SOUND, **terms).manifest == sound
    save_manifest(replace(sound, **change), scans.base)
    with raises(UsageError, "base-unsuitable", words):
        carry_over.starting_point(scans.base, root, SOUND, **terms)


@pytest.mark.parametrize("kind", ["lustre", "fuse.sshfs", "vfat", "overlay"])
def test_a_file_system_whose_ctime_says_too_little_is_refused(kind: str, tmp_path: Path) -> None:
    terms: Any = {"lacking": frozenset[Lack](), "mounts": (), "now_ns": 1}
    with raises(UsageError, "base-kind"):
        carry_over.starting_point(tmp_path, b"/x", replace(SOUND, kind=kind), **terms)


def test_a_missing_or_broken_base_is_an_error(scans: Scans) -> None:
    a_tree(scans.tree, 2)
    with raises(UnreadableError, "index-missing"):
        scans.increment()
    file = scans.base / scans.again().shards[0].name
    whole = file.read_bytes()
    for content, code in ((whole[:-1], "shard-changed"), (b"x" * len(whole), "base-damaged")):
        file.write_bytes(content)
        with raises(DataError, code):
            scans.increment()
    file.write_bytes(whole)
    with raises(UsageError, "index-present"):  # into the base itself
        incremental(scans.tree, scans.base, scans.base)


def test_workers_of_dask_do_full_scans_only(scans: Scans) -> None:
    scans.begin(1)
    with raises(UsageError, "base-dask"):
        scans.increment(dask="local")
    assert not scans.next.exists()


def test_a_long_chain_suggests_a_full_scan() -> None:
    scan = carry_over.Incremental("id", carry_over.GENERATIONS_MAX, 0, 1, 0)
    assert "without --incremental" in " ".join(carry_over.words(scan, 0, 1))
    young = replace(scan, generation=1)
    assert not list(carry_over.words(young, 0, 1))
    old = " ".join(carry_over.words(young, 0, (carry_over.AGE_MAX_S + 1) * 10**9))
    assert "without --incremental" in old


@loopback.needs_loop_devices("ext4")
def test_mounts_beneath_the_root_are_refused_then_and_now(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=32 * loopback.MIB) as disk:
        top = disk.mount_point
        (top / "a/b").mkdir(parents=True)
        settle()
        full(top, tmp_path / "base")
        subprocess.run(["mount", "-t", "tmpfs", "none", top / "a/b"], check=True)
        try:
            with raises(UsageError, "base-mounts"):
                incremental(top, tmp_path / "next", tmp_path / "base")
            full(top, tmp_path / "mounted")
        finally:
            subprocess.run(["umount", top / "a/b"], check=True)
        with raises(UsageError, "base-unsuitable", "mounts"):
            incremental(top, tmp_path / "next", tmp_path / "mounted")
        incremental(top, tmp_path / "next", tmp_path / "base")
