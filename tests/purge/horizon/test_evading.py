"""Indexes brought to what looks for evasion: their order, times, owners, and the memory used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.support.codes import raises

from trimtab.base.error import DataError, UnreadableError, UsageError
from trimtab.purge.horizon.evasion import look_for_evasion
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Lack, Manifest, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.shard import ShardWriter, fill
from trimtab.purge.purge_policy import Exemption, Policy

NOW_S = 1_790_000_000
DAY_S = 86400
BORN_S = NOW_S - 300 * DAY_S
SYSTEM = FileSystemIdentity("ext4", "/dev/sda1", 7, 8)
POLICY = Policy("p", "/scratch", target=0.7)


def rows(count: int, changed_s: int, *, uid: int = 1000, **more: int) -> pl.DataFrame:
    """Return files that were changed at a time, and otherwise left alone since their birth."""
    numbers = range(1, count + 1)
    inodes = [bytes(8) + number.to_bytes(8, "big") for number in numbers]
    born = pl.Series([BORN_S * 10**9] * count, dtype=pl.Int64)
    return pl.DataFrame(
        {
            "parent": pl.Series([b"d"] * count, dtype=pl.Binary),
            "name": pl.Series([b"%08d" % number for number in numbers], dtype=pl.Binary),
            "id": pl.Series(inodes, dtype=pl.Binary),
            "device": pl.Series([8] * count, dtype=pl.UInt64),
            "uid": pl.Series([uid] * count, dtype=pl.UInt32),
            "gid": pl.Series([uid] * count, dtype=pl.UInt32),
            "size_bytes": pl.Series([10] * count, dtype=pl.UInt64),
            "allocated_bytes": pl.Series([4096] * count, dtype=pl.UInt64),
            "nlink": pl.Series([more.get("nlink", 1)] * count, dtype=pl.UInt32),
            "type": ["f"] * count,
            "atime_ns": born,
            "mtime_ns": born,
            "ctime_ns": pl.Series([changed_s * 10**9 + 5] * count, dtype=pl.Int64),
            "btime_ns": born,
        }
    )


def index(directory: Path, frames: Iterable[pl.DataFrame], days_ago: int, **more) -> Path:
    """Write an index of some days ago; return its directory."""
    directory.mkdir()
    ended_ns = (NOW_S - days_ago * DAY_S) * 10**9
    manifest = Manifest(
        index_id=directory.name, root=b"/scratch", filesystem=SYSTEM, source=IndexSource.SCAN,
        tool="t", started_ns=ended_ns - 60 * 10**9, ended_ns=ended_ns, times=TimeTrust.EXACT_NS,
        time_resolution_ns=1, lacking=frozenset({Lack.PROJECT, Lack.LAYOUT}), complete=True,
        shards=fill(ShardWriter(directory), frames),
    )  # fmt: skip
    save_manifest(replace(manifest, **more), directory)
    return directory


@pytest.fixture
def weekly(tmp_path: Path) -> list[Path]:
    """Write three indexes, a week apart, of files that somebody changes every week."""
    return [
        index(tmp_path / f"{days}", [rows(1200, NOW_S - (days + 1) * DAY_S)], days)
        for days in (14, 7, 0)
    ]


def kinds(signs) -> list[tuple[str, int, int]]:
    return [(one.kind, one.uid, one.files) for one in signs.found]


def test_what_is_renewed_every_week_is_seen_in_whatever_order_the_indexes_are_given(weekly):
    signs = look_for_evasion(weekly[-1], earlier=[weekly[1], weekly[0]])
    assert kinds(signs) == [("renewed", 1000, 1200)]
    assert [one.index_id for one in signs.earlier] == ["14", "7"]
    assert signs.passed_over == {}
    assert signs.notes == ()
    alone = look_for_evasion(weekly[-1])
    assert alone.found == ()
    assert set(alone.passed_over) == {"renewed"}


def test_fewer_than_are_asked_for_are_nobodys_concern(weekly):
    earlier = weekly[:2]
    assert look_for_evasion(weekly[-1], earlier=earlier, files=1201).found == ()
    assert look_for_evasion(weekly[-1], earlier=earlier, files=1200).found != ()


def test_indexes_that_are_not_earlier_or_not_of_the_root_are_refused(weekly, tmp_path):
    for wrong in ([weekly[0], weekly[0]], [weekly[2]]):
        with raises(UsageError, "index-not-earlier"):
            look_for_evasion(weekly[1], earlier=wrong)
    with raises(UsageError, "index-not-earlier"):
        look_for_evasion(weekly[2], earlier=[weekly[2]])
    other = index(tmp_path / "other", [rows(5, NOW_S)], 30, root=b"/elsewhere")
    with raises(UsageError, "indexes-differ"):
        look_for_evasion(weekly[2], earlier=[other])
    with raises(UnreadableError, "index-missing"):
        look_for_evasion(weekly[2], earlier=[tmp_path])


def test_times_of_seconds_beside_times_of_nanoseconds_move_nothing_on(tmp_path):
    """The same time in seconds is sooner than in nanoseconds, and would look renewed."""
    same = rows(1200, NOW_S - 30 * DAY_S)
    coarse = same.with_columns(pl.col("ctime_ns", "mtime_ns").floordiv(10**9) * 10**9)
    in_seconds = {"times": TimeTrust.SECONDS, "time_resolution_ns": 10**9, "started_ns": None}
    between = same.with_columns(pl.col("ctime_ns") - 2)
    indexes = [
        index(tmp_path / "one", [coarse], 14, **in_seconds),
        index(tmp_path / "two", [between], 7, started_ns=None),
        index(tmp_path / "three", [same], 0),
    ]
    assert look_for_evasion(indexes[2], earlier=indexes[:2]).found == ()


def test_a_policy_says_whose_files_and_which_times(weekly):
    earlier = weekly[:2]
    exempt = Exemption("user", 1000)
    signs = look_for_evasion(
        weekly[2], earlier=earlier, policy=replace(POLICY, exemptions=(exempt,))
    )
    assert signs.found == ()
    assert "exempts" in signs.notes[0]
    over = replace(POLICY, counted=("atime", "mtime"), minimum_age_s=5 * DAY_S)
    signs = look_for_evasion(weekly[2], earlier=earlier, policy=over)
    assert signs.found == ()
    assert signs.limits.old_s == 5 * DAY_S
    assert set(signs.passed_over) == {"renewed"}
    assert kinds(look_for_evasion(weekly[2], earlier=earlier, policy=POLICY)) == [
        ("renewed", 1000, 1200)
    ]


def test_a_file_with_many_names_is_one_file(tmp_path):
    to_come = rows(1, NOW_S + 5 * DAY_S, nlink=3)
    names = [to_come.with_columns(name=pl.lit(name)) for name in (b"a", b"b", b"c")]
    (one,) = look_for_evasion(index(tmp_path / "index", names, 0)).found
    assert (one.kind, one.files, one.allocated_bytes) == ("future", 1, 4096)


def test_without_any_birth_times_touching_is_passed_over(tmp_path):
    unborn = rows(5, NOW_S).with_columns(btime_ns=pl.lit(None, pl.Int64))
    signs = look_for_evasion(index(tmp_path / "index", [unborn], 0))
    assert "birth" in signs.passed_over["touched"]


def test_a_shard_that_is_damaged_is_an_error_and_no_traceback(weekly):
    shard = weekly[2] / load_manifest(weekly[2]).shards[0].name
    data = bytearray(shard.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    shard.write_bytes(data)
    with raises(DataError, "index-unreadable"):
        look_for_evasion(weekly[2], earlier=weekly[:2])


# The peak of this program alone: ru_maxrss would begin with what the process that started it held.
PEAK = """
import re, sys
from pathlib import Path
from trimtab.purge.horizon.evasion import look_for_evasion
latest, *earlier = map(Path, sys.argv[1:])
signs = look_for_evasion(latest, earlier=earlier)
peak_kib = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(sum(one.files for one in signs.found), peak_kib)
"""


@pytest.mark.system
def test_a_million_files_that_are_all_renewed_take_little_memory(tmp_path):
    """The worst there can be for it: everybody renews everything every week."""
    count, parts = 1_000_000, 10
    indexes = []
    base = rows(count // parts, 0)
    for days in (0, 7, 14):
        frames = (
            base.with_columns(
                parent=pl.lit(b"d%d" % part),
                id=(pl.lit(part.to_bytes(4, "big")) + pl.col("id").bin.slice(4, 12)),
                uid=pl.lit(1000 + part, pl.UInt32),
                ctime_ns=pl.lit((NOW_S - (days + 1) * DAY_S) * 10**9),
            )
            for part in range(parts)
        )
        indexes.append(index(tmp_path / f"{days}", frames, days))
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, indexes)], capture_output=True, text=True, check=True
    )
    files, peak_kib = map(int, ended.stdout.split())
    assert files == count
    # A row of the three indexes is some 150 bytes as Polars holds it; the programs are 200 MiB.
    assert peak_kib < 900 * 1024
