"""A file system that hangs, whole or for some files: what goes over it asks, and does not wait."""

from __future__ import annotations

import errno
import os
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from tests.support.codes import raises
from tests.support.polling import eventually
from tests.support.silent_fuse import FILE_BYTES, silent_mount

from trimtab.base.error import Interrupted, NoAnswer, RefusedError
from trimtab.purge import core_call
from trimtab.purge.core_call import AskedFile, Exact, ScanLimits, look_on, require_answer
from trimtab.purge.index import list_import, scan
from trimtab.purge.index.list_import import ListDescription, import_index
from trimtab.purge.index.manifest import IndexSource
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.scan_workers import read_checkpoint
from trimtab.reach import process

pytestmark = pytest.mark.system


def asked(inode: int, name: str) -> AskedFile:
    return AskedFile(inode.to_bytes(16, "big"), b"", name.encode())


def test_files_are_looked_at_in_a_process_of_its_own(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"f{number}").write_bytes(b"x" * number)
    files = [asked((tmp_path / f"f{number}").stat().st_ino, f"f{number}") for number in range(5)]
    answers = look_on(str(tmp_path), lustre=False, project=False)([*files, asked(1, "none")])
    assert [answer.size_bytes for answer in answers[:5]] == [0, 1, 2, 3, 4]
    assert answers[5].gone
    with pytest.raises(FileNotFoundError):
        look_on(str(tmp_path / "none"), lustre=False, project=False)(files)
    with pytest.raises(RefusedError, match="not on Lustre"):
        look_on(str(tmp_path), lustre=True, project=False)(files)


def test_a_lost_server_is_not_waited_for_without_end(tmp_path: Path) -> None:
    root = tmp_path / "scratch"
    root.mkdir()
    # Node 1 is the root: an odd node is an odd file's next.
    files = [asked(number + 2, f"f{number}") for number in range(8)]
    with silent_mount(root, mute=True, files=8):
        began_s = time.monotonic()
        look = look_on(str(root), lustre=False, project=False, threads=4, deadline_s=3.0)
        answers = look(files)
        elapsed_s = time.monotonic() - began_s
        lost = Exact(errno=errno.ETIMEDOUT)
        known = Exact(FILE_BYTES, FILE_BYTES)
        assert list(answers) == [known, lost] * 4
        assert elapsed_s < 60
        left = set(process._pids)
        assert left

    def reaped() -> bool:
        process.reap()
        return not left & set(process._pids)

    eventually(reaped)


@pytest.mark.parametrize("mute", [False, True])
def test_a_root_that_hangs_is_told_within_the_deadline(tmp_path, mute):
    with silent_mount(tmp_path, mute=mute):
        with raises(NoAnswer, "no-answer") as caught:
            require_answer(str(tmp_path), "the scan", deadline_s=0.5)
        assert "dmesg" in (caught.value.hint or "")


def test_what_else_is_wrong_is_left_to_whoever_goes_over_it(tmp_path):
    require_answer(str(tmp_path), "the scan")
    require_answer(str(tmp_path / "missing"), "the scan")
    file = tmp_path / "file"
    file.touch()
    require_answer(str(file), "the scan")


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    soon = partial(require_answer, deadline_s=0.5)
    for module in (scan, list_import):
        monkeypatch.setattr(module, "require_answer", soon)
    root = tmp_path / "root"
    root.mkdir()
    with silent_mount(root, mute=True):
        yield root


def test_a_scan_that_hangs_on_the_way_can_be_stopped_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(core_call, "_STOP_S", 0.2)
    root = tmp_path / "root"
    (root / "dead").mkdir(parents=True)
    (root / "file").touch()
    looks = []

    def stop(now) -> None:
        looks.append(now.entries)
        if len(looks) > 5:
            raise Interrupted("stopped by SIGINT")

    with silent_mount(root / "dead", mute=True), pytest.raises(Interrupted) as caught:
        scan_index(str(root), tmp_path / "index", ScanOptions(), version="0", progress=stop)
    assert "continues the scan" in (caught.value.hint or "")
    assert "has not returned" in caught.value.message


def test_a_slow_scan_stops_soon_and_goes_on_within_a_large_directory(tmp_path):
    """At its limit the directory takes minutes: neither does it hang, nor is it read again."""
    root = tmp_path / "root"
    root.mkdir()
    for number in range(1500):
        (root / f"f{number}").touch()

    def stop(now) -> None:
        if now.entries > 0:
            stopped_s.append(time.monotonic())
            raise Interrupted("stopped by SIGINT")

    stopped_s: list[float] = []
    slowly = ScanOptions(limits=ScanLimits(calls_per_s=10.0))
    with pytest.raises(Interrupted) as caught:
        scan_index(str(root), tmp_path / "index", slowly, version="0", progress=stop)
    assert time.monotonic() - stopped_s[0] < 5.0
    assert "has not returned" not in caught.value.message
    assert 0 < read_checkpoint(tmp_path / "index")["counts"]["entries"] < 200
    manifest = scan_index(str(root), tmp_path / "index", ScanOptions(), version="0")
    assert manifest.rows == 1500
    names = pl.concat([pl.read_parquet(tmp_path / "index" / s.name) for s in manifest.shards])
    assert names["name"].n_unique() == 1500


def test_a_slow_part_is_waited_for_as_long_as_its_turns_take():
    assert ScanLimits(1000.0).stop_s(10, 2, 1.0) == 60.0
    assert ScanLimits(1.0).stop_s(4, 2, share=0.1) == pytest.approx(800.0)
    assert ScanLimits(calls_per_mdt_s=1.0).stop_s(64, 2, share=0.1) == pytest.approx(400.0)
    # Threads beyond the calls of a second would only wait, each for longer.
    assert [ScanLimits(10.0).threads(asked) for asked in (0, 1, 64)] == [2, 1, 10]
    assert ScanLimits().threads(64) == 64


def test_a_scan_and_an_import_of_it_are_not_begun(hanging, tmp_path):
    with raises(NoAnswer, "no-answer"):
        scan_index(str(hanging), tmp_path / "index", ScanOptions(), version="0")
    assert not (tmp_path / "index").exists()
    (tmp_path / "list").write_bytes(b"")
    described = ListDescription(IndexSource.GNU_FIND, os.fsencode(hanging))
    with raises(NoAnswer, "no-answer"):
        import_index(tmp_path / "list", tmp_path / "index", described, mounted=True)
    assert not (tmp_path / "index").exists()
