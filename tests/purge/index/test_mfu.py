"""File lists of mpiFileUtils, written here number by number as its source has them."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import imported, only
from tests.purge.index.trees import NS, hostile_tree, path_of, true_rows

from trimtab.base.error import DataError
from trimtab.purge.index.manifest import IndexSource, Lack, TimeTrust

RECORDED = Path(__file__).parents[2] / "fixtures" / "mfu" / "2dbcf1c"
Entry = tuple[bytes, int, int, int, int, int, int, int]
"""Path, mode, uid, gid, three times in nanoseconds, size."""
FILE = (b"/scratch/a", 0o100644, 3, 4, 3 * NS + 1, 2 * NS, NS, 10)


def mfu(entries: list[Entry], version: int = 4, times: tuple[int, int] = (0, 0)) -> bytes:
    """Return a list: the slow, obvious writer."""

    def number(value: int) -> bytes:
        return struct.pack(">Q", value % 2**64)

    users, groups = [(b"root", 0), (b"someone", 1000)], [(b"root", 0)]
    width = max((len(entry[0]) for entry in entries), default=0)
    width = -(-width // 8) * 8
    content = number(version)
    content += b"".join(map(number, times)) if version == 3 else b""
    for table, characters in ((users, 8), (groups, 8)):
        content += number(len(table)) + number(characters)
    content += number(len(entries)) + number(width)
    for table in (users, groups):
        content += b"".join(name.ljust(8, b"\0") + number(value) for name, value in table)
    for path, mode, uid, gid, *stamps, size in entries:
        content += path.ljust(width, b"\0") + number(mode) + number(uid) + number(gid)
        content += b"".join(number(stamp // NS) + number(stamp % NS) for stamp in stamps)
        content += number(size)
    return content


@pytest.mark.parametrize("version", [3, 4])
def test_a_real_tree_becomes_what_lstat_says(tmp_path: Path, version: int) -> None:
    root = hostile_tree(tmp_path / "tree")
    entries: list[Any] = [(root, 0o40755, 0, 0, 0, 0, 0, 4096)]
    twin = true_rows(root)
    for row in twin:
        path = root + b"/" + path_of(row)
        s = os.lstat(path)
        stamps = (s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns)
        entries.append((path, s.st_mode, s.st_uid, s.st_gid, *stamps, s.st_size))
    manifest, rows = imported(tmp_path, mfu(entries, version), IndexSource.MFU, root=root)
    same = ("parent", "name", "uid", "gid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns",
            "type", "last_use_s")  # fmt: skip
    assert only(rows, *same) == only(twin, *same)
    assert manifest.times is TimeTrust.EXACT_NS
    assert manifest.refused == 0
    assert manifest.lacking >= {Lack.IDENTITY, Lack.LINKS, Lack.BLOCKS, Lack.BIRTH}
    assert "only by name" in manifest.obstacles[0]


def test_version_3_says_when_it_was_made(tmp_path: Path) -> None:
    manifest, _ = imported(tmp_path, mfu([FILE], 3, (5, 6)), IndexSource.MFU)
    assert (manifest.started_ns, manifest.ended_ns) == (5 * NS, 7 * NS - 1)


def test_a_path_as_long_as_the_longest_has_no_nul_behind_it(tmp_path: Path) -> None:
    path = b"/scratch/" + b"x" * 23
    _, rows = imported(tmp_path, mfu([(path, *FILE[1:])]), IndexSource.MFU)
    assert only(rows, "name") == [(b"x" * 23,)]


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        *((0, b"", "no path"), (0, b"/etc/x", "beneath"), (1, 2**32, "type")),
        *((2, 2**32, "uid"), (3, -1, "gid")),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, at: int, value: Any, said: str) -> None:
    bad = (*FILE[:at], value, *FILE[at + 1 :])
    good = (b"/scratch/b", *FILE[1:])
    content = mfu([FILE, bad, good])  # type: ignore[list-item]
    manifest, rows = imported(tmp_path, content, IndexSource.MFU)
    assert only(rows, "name") == [(b"a",), (b"b",)]
    assert manifest.refused == 1
    assert manifest.refused_examples[0].record == 2
    assert said in manifest.refused_examples[0].reason


def test_nanoseconds_over_a_second_are_refused(tmp_path: Path) -> None:
    content = bytearray(mfu([FILE]))
    content[-32:-24] = struct.pack(">Q", NS)  # of the modification
    manifest, rows = imported(tmp_path, bytes(content), IndexSource.MFU)
    assert rows == []
    assert "mtime_ns" in manifest.refused_examples[0].reason


def test_a_list_that_was_cut_off_anywhere_says_so(tmp_path: Path) -> None:
    whole = mfu([FILE, (b"/scratch/b", *FILE[1:])])
    files = whole.index(b"/scratch")
    for length in range(1, len(whole), 11):
        place = tmp_path / str(length)
        place.mkdir()
        if length < files:
            with pytest.raises(DataError):
                imported(place, whole[:length], IndexSource.MFU)
            continue
        manifest, rows = imported(place, whole[:length], IndexSource.MFU)
        assert manifest.refused == 1
        assert set(only(rows, "name")) <= {(b"a",), (b"b",)}


def test_what_follows_the_last_file_is_refused(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, mfu([FILE]) + b"\0", IndexSource.MFU)
    assert (only(rows, "name"), manifest.refused) == ([(b"a",)], 1)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\0" * 100, b"\xff" * 100, struct.pack(">Q", 2) * 20),
        *(b"/scratch/a|F\n/scratch/b|F\n", struct.pack(">7Q", 4, 0, 0, 0, 0, 1, 0)),
        *(
            struct.pack(">7Q", 4, *head)
            for head in ((2**60, 8, 0, 0, 1, 8), (0, 0, 0, 0, 1, 2**60))
        ),
    ],
)
def test_what_is_no_list_is_refused_as_a_whole(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError):
        imported(tmp_path, content, IndexSource.MFU)


stamps = st.integers(-(2**62), 2**63 - 1)
changes = st.integers(-(2**62), time.time_ns())
"""No list has a file that changed after the list was made."""
names = st.binary(min_size=1, max_size=8).filter(
    lambda n: b"\0" not in n and b"/" not in n and n not in (b".", b"..")
)


@pytest.mark.calibration
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            names.map(lambda name: b"/scratch/" + name), st.just(0o100600),
            st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), stamps, stamps, changes,
            st.integers(0, 2**64 - 1),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda entry: entry[0],
    )
)  # fmt: skip
def test_numbers_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    _, rows = imported(tmp_path_factory.mktemp("t"), mfu(entries), IndexSource.MFU)
    read = only(rows, "name", "uid", "gid", "atime_ns", "mtime_ns", "ctime_ns", "size_bytes")
    assert sorted(read) == sorted((path[9:], *rest) for path, _, *rest in entries)


def test_what_mpifileutils_wrote_is_what_lstat_said(tmp_path: Path) -> None:
    content = (RECORDED / "scratch.mfu").read_bytes()
    twin = json.loads((RECORDED / "lstat.json").read_text())
    manifest, rows = imported(tmp_path, content, IndexSource.MFU)
    assert manifest.refused == 0
    same = ("uid", "gid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns", "type", "last_use_s")
    assert only(rows, *same) == only(twin, *same)
    names = [(row["parent"].hex(), row["name"].hex()) for row in rows]
    assert names == only(twin, "parent", "name")
