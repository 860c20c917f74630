"""Tables with a column map: CSV byte for byte, Parquet by its columns, exports of other tools."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import imported, only, reasons
from tests.purge.index.trees import NS
from tests.support.codes import raises

from trimtab.base.error import DataError, UsageError
from trimtab.purge.index import table_list
from trimtab.purge.index.list_reading import ListReading
from trimtab.purge.index.manifest import IndexSource, Lack, Manifest, TimeTrust
from trimtab.purge.index.table_list import Names, parse_map

TIMES = ("atime_ns", "mtime_ns", "ctime_ns")
MAP = (
    "path=name,uid=owner,gid=group,size_bytes=size,allocated_bytes=blocks:blocks,nlink=links",
    "id=inode:inode,device=dev,atime_ns=atime:s,mtime_ns=mtime:s,ctime_ns=ctime:iso,type=mode:mode",
)
HEAD = "name,owner,group,size,blocks,links,inode,dev,atime,mtime,ctime,mode"
ROW = "a/b,3,4,5,8,1,7,9,1.5,2,1970-01-01T00:00:03.000000001Z,33188"


SIMPLE = ["path=path,uid=uid,size_bytes=size"]


def _csv(tmp_path: Path, text: str | bytes, mapping: Any = SIMPLE, **how: Any) -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    return imported(tmp_path, content, IndexSource.CSV, column_map=mapping, **how)


def test_a_table_is_read_by_its_map(tmp_path: Path) -> None:
    manifest, rows = _csv(tmp_path, f"{HEAD}\n{ROW}\n", MAP)
    (row,) = rows
    assert (row["parent"], row["name"]) == (b"a", b"b")
    assert (row["uid"], row["gid"], row["size_bytes"], row["allocated_bytes"]) == (3, 4, 5, 4096)
    assert (row["nlink"], row["device"], int.from_bytes(row["id"], "big")) == (1, 9, 7)
    assert [row[name] for name in TIMES] == [1_500_000_000, 2 * NS, 3 * NS + 1]
    assert (row["type"], row["last_use_s"]) == ("f", 3)
    assert (manifest.times, manifest.time_resolution_ns) == (TimeTrust.SECONDS, NS)
    assert manifest.lacking == {Lack.BIRTH, Lack.PROJECT, Lack.LAYOUT, Lack.POOL}


def test_names_may_be_any_bytes(tmp_path: Path) -> None:
    names = [b"nl\nname", b'quo"te', b"com,ma", b"\xff\xfe", b"-rf", "ünï".encode(), b"\x1b[2J"]
    lines = [b"path,uid,size"]
    lines += [b'"' + name.replace(b'"', b'""') + b'",1,2' for name in names]
    content = b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n"
    _, rows = _csv(tmp_path, content)
    assert sorted(only(rows, "name")) == sorted((name,) for name in names)


@pytest.mark.parametrize(
    ("unit", "text"),
    [("percent", "a%0Ab/%FF"), ("base64", "YQpiL/8="), ("hex", "610a622fff")],
)
def test_names_may_be_encoded(tmp_path: Path, unit: str, text: str) -> None:
    content = f"path,uid,size\n{text},1,2\n!!,1,2\n"
    manifest, rows = _csv(tmp_path, content, [f"path=path:{unit},uid=uid,size_bytes=size"])
    expected = [(b"a\nb", b"\xff")]
    if unit == "percent":
        expected.insert(0, (b"", b"!!"))
    assert only(rows, "parent", "name") == expected
    assert manifest.refused == (unit != "percent")


def test_a_directory_and_a_name_may_stand_apart(tmp_path: Path) -> None:
    content = "dir,base,uid,size\n/scratch/a,b,1,2\n,c,1,2\n/scratch,d,1,2\na,e/f,1,2\na,,1,2\n"
    manifest, rows = _csv(tmp_path, content, ["parent=dir,name=base,uid=uid,size_bytes=size"])
    assert only(rows, "parent", "name") == [(b"", b"c"), (b"", b"d"), (b"a", b"b")]
    assert manifest.refused == 2


def test_owners_may_be_names(tmp_path: Path) -> None:
    names = Names({"root": 0, "ami": 1000}, {"staff": 50})
    content = "path,owner,group,size\na,ami,staff,2\nb,nobody-knows,staff,2\nc,root,none,2\n"
    mapping = ["path=path,uid=owner:name,gid=group:name,size_bytes=size"]
    manifest, rows = _csv(tmp_path, content, mapping, names=names)
    assert only(rows, "name", "uid", "gid") == [(b"a", 1000, 50)]
    assert manifest.refused == 2


@pytest.mark.parametrize(
    "text",
    [
        *("a,1", "a,1,2,3", "a,-1,2", "a,1.0,2", "a,1e3,2", "a,,2", "a,1,", ",1,2", "/etc/a,1,2"),
        *("a, 1,2", "a,4294967296,2", "a,1,18446744073709551616", "a,\u0663,2"),
    ],
)
def test_a_row_that_is_not_what_it_should_be_is_refused(tmp_path: Path, text: str) -> None:
    content = f"path,uid,size\ngood,1,2\n{text}\nbest,1,2\n"
    manifest, rows = _csv(tmp_path, content)
    assert only(rows, "name") == [(b"best",), (b"good",)]
    assert manifest.refused == 1
    assert manifest.refused_examples[0].record == 2
    assert not manifest.complete


def test_a_quote_that_never_ends_is_refused(tmp_path: Path) -> None:
    content = 'path,uid,size\ngood,1,2\n"bad,1,2\nlost,1,2\n'
    manifest, rows = _csv(tmp_path, content)
    assert only(rows, "name") == [(b"good",)]
    assert manifest.refused == 1


@pytest.mark.parametrize(
    "mapping",
    [
        *(None, "", "path", "path=", "path=a", "path=a,uid=b", "name=a,uid=b,size_bytes=c"),
        *("parent=a,uid=b,size_bytes=c", "path=a,name=a,uid=b,size_bytes=c"),
        *("path=a,uid=b,uid=c,size_bytes=d", "path=a,uid=b,size_bytes=c,colour=d"),
        *("path=a,uid=b,size_bytes=c,mtime_ns=d", "path=a,uid=b,size_bytes=c,id=d"),
        "path=a,uid=b,size_bytes=c,last_use_s=d",
    ],
)
def test_a_map_that_cannot_be_is_refused(mapping: str | None) -> None:
    with pytest.raises(UsageError):
        parse_map([] if mapping is None else [mapping])


def test_a_map_names_columns_that_are_there(tmp_path: Path) -> None:
    with raises(UsageError, "column-missing") as caught:
        _csv(tmp_path, "path,uid\n", ["path=path,uid=owner,size_bytes=uid"])
    assert caught.value.hint == "its columns are path, uid"
    with raises(UsageError, "column-missing"):
        _csv(tmp_path, "path,path,uid\n", ["path=path,uid=uid,size_bytes=uid"])


def test_a_unit_after_the_last_colon_belongs_to_the_column_where_it_is_none() -> None:
    (one, *_) = parse_map(["uid=a:b,path=p:raw,size_bytes=s:KiB"])
    assert (one.column, one.unit) == ("a:b", "number")


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    with raises(DataError, "table-empty"):
        _csv(tmp_path, b"")


texts = st.binary(max_size=6)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(texts, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)),
        max_size=6,
        unique_by=lambda entry: entry[0],
    )
)
@example([(b"\r", 1, 2), (b"\n", 1, 2), (b"\0", 1, 2), (b'"', 1, 2)])
def test_what_the_csv_writer_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[bytes, int, int]]
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["path", "uid", "size"])
    for name, *numbers in entries:
        writer.writerow([name.decode("utf-8", "surrogateescape"), *numbers])
    content = out.getvalue().encode("utf-8", "surrogateescape")
    _, rows = _csv(tmp_path_factory.mktemp("t"), content)
    plain = [
        e
        for e in entries
        if e[0] not in (b"", b".", b"..") and b"/" not in e[0] and b"\0" not in e[0]
    ]
    if all(b"/" not in entry[0] for entry in entries):
        assert sorted(only(rows, "name", "uid", "size_bytes")) == sorted(plain)


def _by_the_standard_library(content: bytes, fields: int) -> tuple[list[list[str]], int]:
    """Return the rows of a table, and how many records are refused."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", "surrogateescape", newline="")
    reader, rows, refused = csv.reader(text, strict=True), [], 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return rows[1:], refused
        except csv.Error:
            refused += 1
            continue
        if len(row) == fields:
            rows.append(row)
        elif row:
            refused += 1


pieces = st.sampled_from([b"1", b"22", b"a", b"\xff", b'"', b'"', b",", b",", b"\n", b"\r", b"\0"])


@settings(max_examples=300)
@given(st.lists(pieces, max_size=30).map(b"".join), st.integers(8, 40))
@example(b'a,1\n"b"x,"2\n"c""\n",3\n\r\nd,4,5\ne,\n"f', 9)
def test_a_table_is_parted_as_the_standard_library_does(content: bytes, chunk_bytes: int) -> None:
    content = b"p,q\n1" + content + b"\n"  # without its end the last record may have been cut off
    texts: list[dict[str, pl.Series]] = []
    reading = ListReading(root=b"/scratch")
    mapping = parse_map(["path=p,uid=q,size_bytes=q"])
    with (
        mock.patch.object(table_list, "CHUNK_BYTES", chunk_bytes),
        mock.patch.object(table_list, "frame_of", side_effect=lambda part, *_: texts.append(part)),
    ):
        list(table_list.read_csv(io.BytesIO(content), reading, mapping=mapping))
    rows, refused = _by_the_standard_library(content, 2)
    assert reading.refused == refused
    for place, name in enumerate("pq"):
        read = [value for part in texts for value in part[name].to_list()]
        expected = [row[place].encode("utf-8", "surrogateescape") or None for row in rows]
        for text, value in zip(expected, read, strict=True):
            assert (int(text or b"-1") if isinstance(value, int) else text) == value


def test_a_table_that_was_cut_off_within_a_row_does_not_give_that_row() -> None:
    whole = b'path,uid,size\na,1,23\n"b",4,5\n'
    mapping = parse_map(SIMPLE)
    for length in range(whole.index(b"a,1") + 1, len(whole)):
        content = whole[:length]
        reading = ListReading(root=b"/scratch")
        frames = list(table_list.read_csv(io.BytesIO(content), reading, mapping=mapping))
        assert sum(frame.height for frame in frames) == content.count(b"\n") - 1
        assert reading.refused == (not content.endswith(b"\n"))
        if reading.refused:
            (cut,) = reading.examples
            assert cut.reason == "the list ends within this record"
            assert cut.offset_bytes == content.rindex(b"\n") + 1


def test_a_row_that_is_refused_is_shown_where_it_stands(tmp_path: Path) -> None:
    content = 'path,uid,size\n\ngood,1,2\n"bad\n",x,2\nworse,1\nbest,1,2\n'
    manifest, _ = _csv(tmp_path, content)
    worse, bad = sorted(manifest.refused_examples, key=lambda refused: refused.reason)
    assert (bad.record, bad.offset_bytes) == (3, 24)
    assert bad.text.startswith('"bad')
    assert (worse.record, worse.offset_bytes, worse.text[:7]) == (4, 35, "worse,1")
    assert worse.reason == "it has 2 fields instead of 3"


def test_a_delimiter_is_one_character(tmp_path: Path) -> None:
    for delimiter in ("", "::", '"', "\n"):
        with raises(UsageError, "option-unfitting"):
            _csv(tmp_path, "path,uid,size\n", delimiter=delimiter)
    _, rows = _csv(tmp_path, "path§uid§size\na§1§2\n", delimiter="§")
    assert only(rows, "name", "uid") == [(b"a", 1)]


MOMENT = datetime(2026, 11, 20, 1, 2, 3, 456789, tzinfo=UTC)


def _parquet(tmp_path: Path, mapping: list[str], **columns: Any) -> Any:
    frame = pl.DataFrame({"path": ["a"], "uid": [1], "size": [2], **columns})
    out = io.BytesIO()
    frame.write_parquet(out)
    whole = [*SIMPLE, *mapping]
    return imported(tmp_path, out.getvalue(), IndexSource.PARQUET, column_map=whole)


@pytest.mark.parametrize(
    ("unit", "column", "value_ns"),
    [
        ("s", pl.Series([5]), 5 * NS),
        ("s", pl.Series([5.0]), 5 * NS),
        ("s", pl.Series(["5.000000001"]), 5 * NS + 1),
        ("ms", pl.Series([-1500]), -1_500_000_000),
        ("us", pl.Series([2**62]), 2**63 - 1),
        ("us", pl.Series([-(2**62)]), -(2**63)),
        ("ns", pl.Series([2**63 - 1]), 2**63 - 1),
        ("ns", pl.Series([-(2**63)]), -(2**63)),
        ("iso", pl.Series(["2026-11-20T02:02:03.456789+01:00"]), "moment"),
        ("iso", pl.Series(["2026-11-19 19:32:03.456789-0530"]), "moment"),
        ("iso", pl.Series([MOMENT], dtype=pl.Datetime("us", "UTC")), "moment"),
        ("iso", pl.Series([MOMENT], dtype=pl.Datetime("ns", "Europe/Zurich")), "moment"),
    ],
)
def test_times_of_every_unit_are_exact(
    tmp_path: Path, unit: str, column: pl.Series, value_ns: int | str
) -> None:
    manifest, rows = _parquet(tmp_path, [f"mtime_ns=t:{unit}"], t=column)
    expected = 1795136523456789000 if value_ns == "moment" else value_ns
    assert only(rows, "mtime_ns") == [(expected,)]
    assert manifest.refused == 0


@pytest.mark.parametrize(
    ("unit", "column"),
    [
        ("s", pl.Series([5.5])),
        ("s", pl.Series([float("nan")])),
        ("s", pl.Series([1e300])),
        ("s", pl.Series([None], dtype=pl.Int64)),
        ("ns", pl.Series(["9223372036854775808"])),
        ("ns", pl.Series(["1.5"])),
        ("iso", pl.Series(["2026-11-20T01:02:03"])),
        ("iso", pl.Series(["2026-13-20T01:02:03Z"])),
        ("iso", pl.Series(["2026-11-20T01:02:60Z"])),
        ("iso", pl.Series(["20 November 2026"])),
    ],
)
def test_a_time_that_is_not_exact_is_refused(tmp_path: Path, unit: str, column: pl.Series) -> None:
    manifest, rows = _parquet(tmp_path, [f"mtime_ns=t:{unit}"], t=column)
    assert rows == []
    assert manifest.refused == 1


@pytest.mark.parametrize(
    ("pair", "column"),
    [
        ("mtime_ns=t:s", pl.Series([MOMENT], dtype=pl.Datetime("us", "UTC"))),
        ("mtime_ns=t:iso", pl.Series([MOMENT.replace(tzinfo=None)])),
        ("mtime_ns=t:iso", pl.Series([MOMENT.date()])),
        ("nlink=t", pl.Series([True])),
        ("nlink=t", pl.Series([[1, 2]])),
    ],
)
def test_a_column_of_another_kind_is_refused_as_a_whole(
    tmp_path: Path, pair: str, column: pl.Series
) -> None:
    with pytest.raises(UsageError):
        _parquet(tmp_path, [pair], t=column)


def test_layout_and_identity_of_a_vendors_index(tmp_path: Path) -> None:
    mapping = "id=fid:fid,project=p,osts=osts,stripe_count=n,type=kind:word,allocated_bytes=kib:KiB"
    columns = {"fid": ["[0x200000402:0x158:0x0]"], "p": [9], "osts": [[3, 0]], "n": [2]}
    columns |= {"kind": ["Regular File"], "kib": [4]}
    manifest, rows = _parquet(tmp_path, [mapping], **columns)
    same = ("id_kind", "project", "osts", "stripe_count", "type", "allocated_bytes")
    assert only(rows, *same) == [("fid", 9, [3, 0], 2, "f", 4096)]
    assert rows[0]["id"].hex() == "00000002000004020000015800000000"
    assert Lack.IDENTITY not in manifest.lacking


def test_the_pool_of_a_vendors_index_is_its_bytes(tmp_path: Path) -> None:
    pools = pl.Series([b"fl\xff\n", None, b"", b"disk"], dtype=pl.Binary)
    names = {"path": ["a", "b", "c", "d"], "uid": [1] * 4, "size": [1] * 4}
    manifest, rows = _parquet(tmp_path, ["pool=p"], **names, p=pools)
    assert only(rows, "name", "pool") == [
        (b"a", b"fl\xff\n"), (b"b", None), (b"c", None), (b"d", b"disk"),
    ]  # fmt: skip
    assert Lack.POOL not in manifest.lacking
    (tmp_path / "csv").mkdir()
    content = "path,uid,size,pool\na,1,1,flash\nb,1,1,\n"
    _, rows = _csv(tmp_path / "csv", content, [*SIMPLE, "pool=pool"])
    assert only(rows, "name", "pool") == [(b"a", b"flash"), (b"b", None)]


def test_a_binary_column_holds_any_name(tmp_path: Path) -> None:
    _, rows = _parquet(tmp_path, [], path=pl.Series([b"\xff\n/x"], dtype=pl.Binary))
    assert only(rows, "parent", "name") == [(b"\xff\n", b"x")]


def test_many_rows_come_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.purge.index.table_list._ROWS", 7)
    names = [f"{i:03}" for i in range(100)]
    _, rows = _parquet(tmp_path, [], path=names, uid=[1] * 100, size=list(range(100)))
    assert only(rows, "name", "size_bytes") == [(n.encode(), int(n)) for n in names]
    (tmp_path / "csv").mkdir()
    content = "path,uid,size\n" + "".join(f"{n},1,{int(n)}\n" for n in names)
    _, again = _csv(tmp_path / "csv", content)
    assert again == rows


@pytest.mark.parametrize("cut", [0, 3, 50, -1, -20])
def test_a_damaged_parquet_is_refused_as_a_whole(tmp_path: Path, cut: int) -> None:
    out = io.BytesIO()
    pl.DataFrame({"path": ["a"], "uid": [1], "size": [2]}).write_parquet(out)
    content = out.getvalue()[:cut]
    with pytest.raises(DataError):
        imported(tmp_path, content, IndexSource.PARQUET, column_map=SIMPLE)


EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"
PAGE = (Path(__file__).parents[3] / "docs" / "purge-import.md").read_text()
SAME = ("uid", "gid", "size_bytes", "allocated_bytes", "nlink", *TIMES, "type")
PEOPLE = Names({"root": 0}, {"root": 0})
Rows = list[tuple[Any, ...]]


def section(title: str) -> str:
    """Return a section of the page."""
    return PAGE.partition(f"### {title}")[2].partition("\n##")[0]


def map_of(title: str) -> list[str]:
    """Return the column map of a section."""
    return re.findall(r"--map (\S+)", section(title))


def truth(name: str) -> Rows:
    """Return what ``lstat`` said of a recorded tree, times to the second, with the inodes."""
    return sorted(
        (bytes.fromhex(row["parent"]), bytes.fromhex(row["name"]), row["inode"],
         *(row[column] // 10**9 if column in TIMES else row[column] for column in SAME))
        for row in json.loads((EXPORTS / f"{name}.json").read_text())
    )  # fmt: skip


def read(
    tmp_path: Path, content: bytes, maps: list[str], **how: Any
) -> tuple[Manifest, list[dict[str, Any]], Rows]:
    manifest, rows = imported(tmp_path, content, IndexSource.CSV, column_map=maps, **how)
    table = sorted(
        (row["parent"], row["name"], int.from_bytes(row["id"], "big"),
         *(row[column] // 10**9 if column in TIMES else row[column] for column in SAME))
        for row in rows
    )  # fmt: skip
    return manifest, rows, table


def converted(monkeypatch: pytest.MonkeyPatch, lines: bytes, zone: str) -> bytes:
    """Return the table that the page's own script makes of a list of Spectrum Scale."""
    (script,) = re.findall(r"```python\n(.*?)```", section("Spectrum Scale"), re.DOTALL)
    table = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["table.py", zone])
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines.decode("ascii")))
    monkeypatch.setattr(sys, "stdout", table)
    exec(compile(script, "table.py", "exec"), {})
    monkeypatch.undo()
    return table.getvalue().encode()


def test_a_list_of_spectrum_scale_is_its_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (EXPORTS / "spectrum-scale.list").read_bytes()
    content = converted(monkeypatch, lines, "Europe/Zurich")
    manifest, _, rows = read(tmp_path, content, map_of("Spectrum Scale"), root=b"/gpfs/scratch")
    assert rows == truth("robinhood")
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.EXACT_NS
    assert manifest.time_resolution_ns == 1000


LINE = b"7 65538 %s -rw-r--r-- 1 0 0 5 4 %s.000001 %s.5 %s -- /s/a%%2Cb c\n"
DAY = b"2026-10-25 02:30:00"


def test_an_hour_that_occurs_twice_is_the_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = converted(monkeypatch, LINE % (b"0", DAY, DAY, DAY), "Europe/Zurich")
    _, (row,), _ = read(tmp_path, content, map_of("Spectrum Scale"), root=b"/s")
    later_ns = 1_792_891_800 * 10**9  # 01:30 UTC
    assert [row[name] - later_ns for name in TIMES] == [1000, 5 * 10**8, 0]
    assert row["name"] == b"a,b c"


@pytest.mark.parametrize(
    "line",
    [LINE % (b"5", DAY, DAY, DAY), LINE[:40] % (b"0", DAY), LINE % (b"0", DAY, DAY, b"7 x")],
)
def test_a_line_that_is_none_ends_the_conversion(
    monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    with pytest.raises((SystemExit, ValueError)):
        converted(monkeypatch, line, "UTC")


@pytest.mark.parametrize("of", ["posix", "lustre"])
def test_what_robinhoods_database_answers_is_its_tree(tmp_path: Path, of: str) -> None:
    content = (EXPORTS / f"robinhood-{of}.tsv").read_bytes()
    maps = [
        one if of == "lustre" else one.replace("id=fid:fid", "id=inode:inode")
        for one in map_of("Robinhood 3")
    ]
    manifest, rows, table = read(tmp_path, content, maps, delimiter="\t", names=PEOPLE)
    expected = truth("robinhood")
    if of == "lustre":
        fid = {row[2]: 0x200000401 << 64 | (row[2] % 2**32) << 32 for row in expected}
        expected = sorted((*row[:2], fid[row[2]], *row[3:]) for row in expected)
    assert table == expected
    assert {row["id_kind"] for row in rows} == {"fid" if of == "lustre" else "inode"}
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.SECONDS


def test_names_without_an_entry_or_a_way_to_the_root_are_refused(tmp_path: Path) -> None:
    """MariaDB prints ``NULL`` for what a row does not have."""
    head, first, *rest = (EXPORTS / "robinhood-lustre.tsv").read_bytes().splitlines(keepends=True)
    path = first.split(b"\t")[0]
    nothing = b"\t".join([path, *[b"NULL"] * 11]) + b"\n"
    content = b"".join([head, first.replace(path, b"NULL", 1), nothing, *rest])
    manifest, _, table = read(
        tmp_path, content, map_of("Robinhood 3"), delimiter="\t", names=PEOPLE
    )
    assert manifest.refused == 2
    assert len(table) == len(truth("robinhood")) - 1
    assert len(reasons(manifest)) == 2


@pytest.mark.parametrize("of", ["gufi", "gufi-rolled-up"])
def test_what_gufi_query_prints_is_its_tree(tmp_path: Path, of: str) -> None:
    content = (EXPORTS / f"{of}.csv").read_bytes()
    claims = dict(beneath=b"scratch")
    manifest, rows, table = read(tmp_path, content, map_of("GUFI"), told=claims)
    assert table == truth("gufi")
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.SECONDS
    assert all(row["btime_ns"] for row in rows)
