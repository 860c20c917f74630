"""Lists that were cut, lost or doubled blocks, were written by two at once, or hold rubbish.

Every list is read by the importer and by a slow reader made from the format's documentation
(`tests.purge.index.slow_readers`): the same rows, as many refused. In the gate few lists of fixed
seeds; in ``make soak`` each importer for five minutes.
"""

from __future__ import annotations

import io
import itertools
import random
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.purge.index.imports import SYSTEM, imported
from tests.purge.index.slow_readers import Row, Slow, slow_csv, slow_find, slow_lfs, slow_mfu
from tests.purge.index.trees import NS, path_of
from tests.support.counts import SOAK_TIMEOUT_S

from trimtab.base.error import DataError, UsageError
from trimtab.purge.index import list_import, printf_list
from trimtab.purge.index.list_reading import ListReading
from trimtab.purge.index.manifest import IndexSource
from trimtab.purge.index.table_list import parse_map, read_csv, read_parquet

SOAK_S = 300
MADE_S = 1_764_000_000
LATEST_NS = (MADE_S + 86400) * 10**9
TOKEN = b"0123456789abcdef0123456789abcdef"
COLUMNS = "path=path,id=ino:inode,uid=uid,size_bytes=size"
MAP = parse_map([COLUMNS, "atime_ns=atime:s,mtime_ns=mtime:s,ctime_ns=ctime:s"])
NAMES = (
    *(b"out.dat", b"a\tb", b"line\nfeed", b"\xff\xfe", b"tab\t/scratch/x"),
    *(b"'\"", b" ", b"x" * 90),
)
NUMBERS = (b"", *b"0 -1 00 4294967296 18446744073709551616 1.5 1e5".split(), b"9" * 40)

File = dict[str, Any]


def files(chance: random.Random, many: int) -> list[File]:
    """Return files as a tool sees them, some with hostile names and times."""
    made = []
    for at in range(many):
        name = b"run%05d/%s" % (at, chance.choice(NAMES[: 1 if chance.random() < 0.8 else None]))
        times = [
            chance.randrange(MADE_S - 10**8, MADE_S) * NS + chance.randrange(NS) for _ in "amc"
        ]
        if chance.random() < 0.05:
            times[chance.randrange(2)] = chance.choice((0, -1, -3 * NS, 13_569_465_600 * NS))
        path = b"/scratch/u%d/" % chance.randrange(9) + name
        made.append({"inode": chance.randrange(1, 2**40), "uid": chance.randrange(70000),
                     "size": chance.randrange(2**36), "times": times, "path": path})  # fmt: skip
    return made


def _spec(time_ns: int) -> bytes:
    return b"%d.%09d0" % divmod(time_ns, 10**9)


def as_find(listed: list[File], *, closed: bool) -> bytes:
    """Return what the script of find prints, or find itself by an earlier version's format."""
    out = [b"trimtab-list 2 started=5" if closed else b"trimtab-list 1 started=5"]
    for one in listed:
        inode = b"%d" % one["inode"]
        head = [inode, b"f", b"2053"] if closed else [b"2053", inode, b"f"]
        rest = [b"1", b"%d" % one["uid"], b"100", b"%d" % one["size"], b"%d" % (one["size"] // 512)]
        ends = [inode] if closed else []
        out.append(b"\t".join([*head, *rest, *map(_spec, one["times"]), b"", one["path"], *ends]))
    return b"\0".join([*out, b"trimtab-end ended=%d" % MADE_S, b""])


def _seconds(one: File) -> list[int]:
    return [time_ns // NS for time_ns in one["times"]]


def as_lfs(listed: list[File]) -> bytes:
    """Return what the script of lfs prints."""
    out = [b"trimtab-list 2 started=5 token=" + TOKEN]
    for one in listed:
        fid = b"0x200000402:0x%x:0x0" % (one["inode"] % 2**32)
        numbers = (1, one["uid"], 100, 0, one["size"], one["size"] // 512, *_seconds(one), 0, 1)
        values = [b"%d" % number for number in numbers]
        out.append(b"\t".join([TOKEN, fid, b"flash", b"f", *values, b"[3]", one["path"], fid]))
    return b"\n".join([*out, TOKEN + b"\ttrimtab-end ended=%d" % MADE_S, b""])


def as_csv(listed: list[File]) -> bytes:
    """Return a table with quotes where names need them."""
    out = [b"ino,uid,size,atime,mtime,ctime,path"]
    for one in listed:
        path = one["path"]
        if re.search(rb'[,"\n\r]', path):
            path = b'"' + path.replace(b'"', b'""') + b'"'
        numbers = (one["inode"], one["uid"], one["size"], *_seconds(one))
        out.append(b",".join([*(b"%d" % number for number in numbers), path]))
    return b"\n".join([*out, b""])


def as_mfu(listed: list[File]) -> bytes:
    """Return a list of version 4 of mpiFileUtils."""
    width = max(len(one["path"]) for one in listed) + 1
    out = [struct.pack(">7Q", 4, 0, 0, 0, 0, len(listed), width)]
    for one in listed:
        numbers = [part % 2**64 for time_ns in one["times"] for part in divmod(time_ns, 10**9)]
        values = [0o100644, one["uid"], 100, *numbers, one["size"]]
        out.append(one["path"].ljust(width, b"\0") + struct.pack(">10Q", *values))
    return b"".join(out)


SECTOR = 512
"""Longer than any record of `files`: what is lost begins and ends in different ones."""


def _block(chance: random.Random, data: bytes) -> tuple[int, int]:
    begin = chance.randrange(max(1, len(data) - SECTOR))
    return begin, begin + chance.choice((SECTOR, 700, 4096))


def nibbled(chance: random.Random, data: bytes) -> bytes:
    """Return a list that lost less than a record: nothing shows that, within one."""
    begin = chance.randrange(len(data))
    return data[:begin] + data[begin + chance.choice((1, 7, 80)) :]


def lost(chance: random.Random, data: bytes) -> bytes:
    begin, end = _block(chance, data)
    return data[:begin] + data[end:]


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def doubled(chance: random.Random, data: bytes) -> bytes:
    begin, end = _block(chance, data)
    return data[:end] + data[begin:]


def swapped(chance: random.Random, data: bytes) -> bytes:
    if len(data) < 3 * SECTOR:  # damaged before
        return cut(chance, data)
    first = chance.randrange(len(data) - 2 * SECTOR)
    second = chance.randrange(first + SECTOR, len(data) - SECTOR)
    third = chance.randrange(second + SECTOR, len(data) + 1)
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def interleaved(chance: random.Random, data: bytes) -> bytes:
    """Return what two writers of the same list leave where each has its own position."""
    length = chance.choice((SECTOR, 4096))
    if len(data) < 3 * SECTOR:  # damaged before
        return cut(chance, data)
    ahead = chance.randrange(SECTOR, len(data) - SECTOR)
    other = data[ahead:] + data
    pieces = range(0, len(data), length)
    return b"".join(chance.choice((data, other))[begin : begin + length] for begin in pieces)


def flipped(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def put_in(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    put = chance.choice((b"\0", b"\n", b"\t", b"\r\n", b'"', b",", b"\xff", b"/"))
    return data[:at] + put + data[at:]


def renumbered(chance: random.Random, data: bytes) -> bytes:
    numbers = list(re.finditer(rb"[0-9]+", data))
    if not numbers:
        return data
    match = chance.choice(numbers)
    return data[: match.start()] + chance.choice(NUMBERS) + data[match.end() :]


TEARS = (lost, cut, doubled, swapped, interleaved)
"""Damage after which every record of a list that is closed is one of the list's, or refused."""
DAMAGE = (*TEARS, nibbled, flipped, put_in, renumbered)


def lists(
    chance: random.Random, many: int, write: Callable[[list[File]], bytes], *, seconds: float
) -> Iterator[tuple[list[File], bytes, bool]]:
    """Yield files, what is left of a list of them, and whether it was torn once, no more."""
    ends = time.monotonic() + seconds
    while many > 0 or time.monotonic() < ends:
        many -= 1
        listed = files(chance, chance.randrange(20, 60))
        data = write(listed)
        torn = chance.random() < 0.5
        for _ in range(1 if torn else chance.choice((1, 1, 2, 3))):
            data = chance.choice(TEARS if torn else DAMAGE)(chance, data) or b"\0"
        yield listed, data, torn


def rows_of(frames: Iterator[Any]) -> list[Row]:
    """Return what an importer read."""
    numbers = ("uid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns")
    return [
        (path_of(row), *(row[name] for name in numbers))
        for frame in frames
        for row in frame.to_dicts()
    ]


def _true_row(one: File, resolution_ns: int) -> Row:
    times = [time_ns // resolution_ns * resolution_ns for time_ns in one["times"]]
    # A later time than 64 bits hold is the last that they do.
    a, m, c = (min(time_ns, 2**63 - 1) for time_ns in times)
    return (one["path"].removeprefix(b"/scratch/"), one["uid"], one["size"], a, m, c)


FORMATS = {
    "find": (
        lambda listed: as_find(listed, closed=True), printf_list.read_gnu_list,
        lambda data: slow_find(data, LATEST_NS, closed=True), 1,
    ),
    "find-open": (
        lambda listed: as_find(listed, closed=False), printf_list.read_gnu_list,
        lambda data: slow_find(data, LATEST_NS, closed=False), None,
    ),
    "lfs": (as_lfs, printf_list.read_lfs_list, lambda data: slow_lfs(data, LATEST_NS), 10**9),
    "csv": (
        as_csv, lambda file, reading: read_csv(file, reading, mapping=MAP),
        lambda data: slow_csv(data, LATEST_NS), None,
    ),
    "mfu": (as_mfu, list_import.read_mfu_list, lambda data: slow_mfu(data, LATEST_NS), None),
}  # fmt: skip
"""How a list is written, read, read slowly; the resolution of times where torn lists give no false
row."""

SOAK = (pytest.mark.soak, pytest.mark.timeout(SOAK_TIMEOUT_S))


def _counts(many: int, *names: str) -> list[Any]:
    """Return of each format how many lists the gate reads, and for how long ``make soak`` does."""
    gate = [pytest.param(name, many, 0, id=name) for name in names]
    return gate + [pytest.param(name, 0, SOAK_S, id=f"{name}-soak", marks=SOAK) for name in names]


@pytest.mark.parametrize(("name", "many", "seconds"), _counts(60, *FORMATS))
def test_a_damaged_list_is_read_as_a_slow_reader_reads_it(
    name: str, many: int, seconds: float, record_property: Callable[[str, object], None]
) -> None:
    write, read, slowly, resolution_ns = FORMATS[name]
    seen: Counter[str] = Counter()
    made = lists(random.Random(f"torn {name}"), many, write, seconds=seconds)
    for number, (listed, data, torn) in enumerate(made):
        reading = ListReading(root=b"/scratch", latest_ns=LATEST_NS)
        expected: Slow | None = slowly(data)
        try:
            read_rows = rows_of(read(io.BytesIO(data), reading))
        except (DataError, UsageError):  # UsageError: the first line of a table is damaged
            assert expected is None or not expected.rows, number
            seen["no list"] += 1
            continue
        if expected is not None and (expected.rows or read_rows):
            assert read_rows == expected.rows, number
            assert reading.refused == expected.refused, number
        if resolution_ns is not None and torn:
            whole = {_true_row(one, resolution_ns) for one in listed}
            assert set(read_rows) <= whole, number
        seen.update(lists=1, rows=len(read_rows), refused=reading.refused)
    print(f"{name}: {dict(seen)}")
    record_property("seen", dict(seen))
    assert seen["lists"] > many // 2
    assert seen["rows"] > many
    assert seen["refused"] > many // 4


@pytest.mark.parametrize(("name", "many", "seconds"), _counts(30, "parquet"))
def test_a_damaged_parquet_is_an_error_or_the_rows_that_it_has(
    name: str, many: int, seconds: float, tmp_path: Path
) -> None:
    def write(listed: list[File]) -> bytes:
        out = io.BytesIO()
        columns = ("path", "ino", "uid", "size", "atime", "mtime", "ctime")
        rows = [
            (one["path"], one["inode"], one["uid"], one["size"], *_seconds(one)) for one in listed
        ]
        pl.DataFrame(rows, schema=columns, orient="row").write_parquet(out)
        return out.getvalue()

    seen: Counter[str] = Counter()
    made = lists(random.Random(f"torn {name}"), many, write, seconds=seconds)
    for number, (listed, data, _) in enumerate(made):
        file = tmp_path / "t.parquet"
        file.write_bytes(data)
        reading = ListReading(root=b"/scratch", latest_ns=LATEST_NS)
        try:
            rows = rows_of(read_parquet(str(file), reading, mapping=MAP))
        except (DataError, UsageError):  # UsageError: the name or kind of a column is damaged
            seen["damaged"] += 1
            continue
        assert len(rows) + reading.refused <= len(listed), number
        assert all(row[5] <= LATEST_NS for row in rows), number
        seen.update(lists=1, rows=len(rows), refused=reading.refused)
    print(f"{name}: {dict(seen)}")
    assert seen["damaged"] > many // 4


TORN = {
    "a lost terminator": lambda data, at: data[:at] + data[at + 1 :],
    "a lost block": lambda data, at: data[: at - 9] + data[at + 140 :],
    "a path of another tree": lambda data, at: data.replace(b"\t/scratch/u", b"\t/other/u", 1),
    "the rest of a path": lambda data, at: data.replace(b"\t/scratch/u", b"\tu", 1),
    "the year 52671": lambda data, at: re.sub(rb"(\t17[0-9]{8})\.", rb"\g<1>000.", data, count=3),
}


@pytest.mark.parametrize(
    ("damage", "closed"),
    # A block that an open list lost may leave nothing to see: docs/purge-import.md says so.
    [pair for pair in itertools.product(TORN, (True, False)) if pair != ("a lost block", False)],
)
def test_no_deletion_rests_on_a_torn_list(tmp_path: Path, damage: str, closed: bool) -> None:
    """Each of these gave a row that no file has, in an index that was complete."""
    listed = files(random.Random(4), 40)
    for one in listed:
        user = one["path"].split(b"/u")[1].split(b"/")[0]
        one["path"] = b"/scratch/u%b/out.dat%d" % (user, one["inode"])
        one["times"] = [1_710_000_000 * 10**9 + 5] * 3
    data = as_find(listed, closed=closed)
    torn = TORN[damage](data, data.index(b"\0", 2000))
    assert torn != data
    manifest, rows = imported(
        tmp_path, torn, IndexSource.GNU_FIND, told=dict(filesystem=SYSTEM), now=datetime.now(UTC)
    )
    assert manifest.refused >= 1
    assert (manifest.complete, manifest.can_delete) == (False, False)
    assert manifest.refused_examples[0].offset_bytes is not None
    assert manifest.refused_examples[0].text
    whole = {one["path"].removeprefix(b"/scratch/") for one in listed}
    assert {row["parent"] + b"/" + row["name"] for row in rows} <= whole
