"""Tables that other tools export: what the page says of them, over their recorded outputs."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.purge.index.imports import imported, reasons

from trimtab.purge.index.column_map import Names
from trimtab.purge.index.manifest import IndexSource, Manifest, TimeTrust

EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"
PAGE = (Path(__file__).parents[3] / "docs" / "purge-import.md").read_text()
TIMES = ("atime_ns", "mtime_ns", "ctime_ns")
SAME = ("uid", "gid", "size_bytes", "allocated_bytes", "nlink", *TIMES, "type")
PEOPLE = Names({"root": 0}, {"root": 0})
Rows = list[tuple[Any, ...]]


def section(title: str) -> str:
    """Return a section of the page."""
    return PAGE.partition(f"### {title}")[2].partition("\n##")[0]


def mapping(title: str) -> list[str]:
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
    manifest, _, rows = read(tmp_path, content, mapping("Spectrum Scale"), root=b"/gpfs/scratch")
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
    _, (row,), _ = read(tmp_path, content, mapping("Spectrum Scale"), root=b"/s")
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
        for one in mapping("Robinhood 3")
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
        tmp_path, content, mapping("Robinhood 3"), delimiter="\t", names=PEOPLE
    )
    assert manifest.refused == 2
    assert len(table) == len(truth("robinhood")) - 1
    assert len(reasons(manifest)) == 2


@pytest.mark.parametrize("of", ["gufi", "gufi-rolled-up"])
def test_what_gufi_query_prints_is_its_tree(tmp_path: Path, of: str) -> None:
    content = (EXPORTS / f"{of}.csv").read_bytes()
    claims = dict(beneath=b"scratch")
    manifest, rows, table = read(tmp_path, content, mapping("GUFI"), told=claims)
    assert table == truth("gufi")
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.SECONDS
    assert all(row["btime_ns"] for row in rows)
