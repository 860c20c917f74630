"""The binding of the scan: real trees, real file systems, real signals."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.support import loopback
from tests.support.narrow import present

from trimtab import _core
from trimtab.base.error import DataError


def ended(scan: _core.NamespaceScan) -> _core.ScanResult:
    scan.start()
    assert scan.wait(60.0)
    return scan.result()


def a_tree(root: Path, directories: int = 5) -> Path:
    for number in range(directories):
        (root / f"d{number}" / "deep").mkdir(parents=True)
        (root / f"d{number}" / "deep" / "f\udcff\n").write_bytes(b"x" * 5000)
        os.link(root / f"d{number}" / "deep" / "f\udcff\n", root / f"d{number}" / "again")
    return root


def truth_of(tree: Path) -> list[bytes]:
    return sorted(os.fsencode(path.relative_to(tree)) for path in tree.rglob("*"))


def rows_of(index: Path, result: _core.ScanResult) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(index / shard) for shard in result.shards])


def paths_of(index: Path, result: _core.ScanResult) -> list[bytes]:
    rows = rows_of(index, result)
    names = zip(rows["parent"], rows["name"], strict=True)
    return sorted(parent + b"/" + name if parent else name for parent, name in names)


def test_a_scan_says_what_it_saw(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree")
    scan = _core.NamespaceScan(tree, tmp_path / "index")
    result = ended(scan)
    truth = truth_of(tree)
    assert paths_of(tmp_path / "index", result) == truth
    assert (result.entries, result.directories, result.stopped) == (len(truth), 11, False)
    assert (result.unread, result.unread_count, result.elsewhere) == ([], 0, 0)
    assert result.started_ns < result.ended_ns
    assert sum(result.rows) == len(truth)
    assert scan.progress().entries == result.entries
    assert scan.progress().elapsed_s >= result.elapsed_s > 0
    # The index is private: its names are everybody's.
    assert (tmp_path / "index").stat().st_mode & 0o777 == 0o700


def test_a_scan_is_stopped_and_gone_on_with(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", 60)
    stops = 0
    while True:
        scan = _core.NamespaceScan(tree, tmp_path / "index", threads=1, delay_s=0.001)
        scan.start()
        scan.wait(0.1)
        scan.stop()
        assert scan.wait(60.0)
        result = scan.result()
        if not result.stopped:
            break
        stops += 1
    assert stops > 0
    assert paths_of(tmp_path / "index", result) == truth_of(tree)


def test_rows_have_the_device_number_that_all_hosts_agree_on(tmp_path: Path) -> None:
    """Also where the scan goes on: a host may know the root by another number than the first."""
    tree = a_tree(tmp_path / "tree", 60)
    scan = _core.NamespaceScan(tree, tmp_path / "index", threads=1, delay_s=0.001, device=77)
    scan.start()
    scan.stop()
    assert scan.wait(60.0)
    with pytest.raises(ValueError, match="another root"):
        ended(_core.NamespaceScan(tree, tmp_path / "index"))
    result = ended(_core.NamespaceScan(tree, tmp_path / "index", device=77))
    assert rows_of(tmp_path / "index", result)["device"].unique().to_list() == [77]


def test_the_interpreter_goes_on_while_it_waits(tmp_path: Path) -> None:
    scan = _core.NamespaceScan(a_tree(tmp_path / "tree"), tmp_path / "index", delay_s=0.01)
    ticks = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.005):
            ticks.append(scan.progress().entries)

    thread = threading.Thread(target=tick)
    thread.start()
    ended(scan)
    done.set()
    thread.join()
    assert len(ticks) > 5
    assert ticks == sorted(ticks)


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree")
    with pytest.raises(FileNotFoundError) as caught:
        ended(_core.NamespaceScan(tmp_path / "none", tmp_path / "index"))
    assert Path(caught.value.filename) == tmp_path / "none"
    (tmp_path / "link").symlink_to(tree)
    with pytest.raises(OSError, match="link") as refused:
        ended(_core.NamespaceScan(tmp_path / "link", tmp_path / "index"))
    assert refused.value.errno in {errno.ELOOP, errno.ENOTDIR}
    wrong: dict[str, Any] = {"threads": 257, "delay_s": -1.0, "checkpoint_s": float("nan")}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            _core.NamespaceScan(tree, tmp_path / "index", **{name: value})
    with pytest.raises(ValueError, match="Lustre"):
        ended(_core.NamespaceScan(tree, tmp_path / "index", lustre=True))
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="whole index"):
        ended(_core.NamespaceScan(tree, whole))
    scan = _core.NamespaceScan(tree, tmp_path / "index")
    with pytest.raises(RuntimeError, match="has not ended"):
        scan.result()
    ended(scan)
    with pytest.raises(RuntimeError, match="starts once"):
        scan.start()


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree")
    ended(_core.NamespaceScan(tree, tmp_path / "index"))
    checkpoint = tmp_path / "index" / "checkpoint.json"
    checkpoint.write_text("{")
    with pytest.raises(DataError) as caught:
        ended(_core.NamespaceScan(tree, tmp_path / "index"))
    assert caught.value.file == str(checkpoint)
    assert present(caught.value.hint)


def test_a_failed_scan_tells_its_error_whenever_it_is_asked(tmp_path: Path) -> None:
    scan = _core.NamespaceScan(tmp_path / "none", tmp_path / "index")
    with pytest.raises(FileNotFoundError):
        ended(scan)
    with pytest.raises(FileNotFoundError):
        scan.result()


@pytest.mark.system
def test_a_process_may_end_while_a_scan_runs(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", 60)
    code = (
        "import sys; from trimtab import _core\n"
        "scan = _core.NamespaceScan(sys.argv[1], sys.argv[2], threads=1, delay_s=0.01)\n"
        "scan.start(); scan.wait(0.1)\n"
    )
    command = [sys.executable, "-c", code, str(tree), str(tmp_path / "index")]
    subprocess.run(command, check=True, timeout=60)
    result = ended(_core.NamespaceScan(tree, tmp_path / "index"))
    assert result.entries == len(list(tree.rglob("*")))


@pytest.mark.system
@loopback.needs_loop_devices("xfs")
def test_projects_and_mounts_of_a_real_file_system(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, fs="xfs") as scratch:
        tree = scratch.mount_point / "tree"
        (tree / "mine").mkdir(parents=True)
        (tree / "other").mkdir()
        subprocess.run(["chattr", "+P", "-p", "77", str(tree / "mine")], check=True)
        (tree / "mine" / "file").write_bytes(b"x")
        (tree / "mine" / "link").symlink_to("file")
        (tree / "other" / "file").write_bytes(b"x")
        with loopback.bound(tree / "mine", tree / "other"):
            result = ended(_core.NamespaceScan(tree, tmp_path / "index", project=True))
        assert (result.elsewhere, result.entries) == (1, 3)
        rows = rows_of(tmp_path / "index", result)
        projects = dict(zip(rows["name"], rows["project"], strict=True))
        assert projects == {b"mine": 77, b"file": 77, b"link": None}


def test_fewer_calls_are_made_while_answers_are_late(tmp_path: Path) -> None:
    """The rate is halved after each 400 names: three times here, where every answer is late.

    The shortest of three: what else runs on the machine makes a scan longer, never shorter.
    """
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(1300):
        (tree / f"f{number:04}").touch()
    took: dict[float, list[float]] = {10.0: [], 1e-9: []}
    paths = []
    for number, (latest_s, times) in enumerate([*took.items()] * 3):
        index = tmp_path / f"index{number}"
        result = ended(_core.NamespaceScan(tree, index, threads=2, latency_s_max=latest_s))
        times.append(result.elapsed_s)
        paths.append(paths_of(index, result))
    assert len(paths[0]) == 1300
    assert paths == paths[:1] * 6
    assert min(took[1e-9]) > 1.5 * min(took[10.0])
