"""Dumps of Robinhood's database, as MariaDB's own mysqldump wrote them."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.purge.index.imports import imported, only, reasons

from trimtab.errors import DataError
from trimtab.purge.index.importers import robinhood
from trimtab.purge.index.importers.column_map import Names
from trimtab.purge.index.manifest import Lack, Source, TimeTrust
from trimtab.purge.index.reading import Reading

RECORDED = Path(__file__).parents[2] / "fixtures" / "robinhood" / "806084c9"
TOLD = json.loads((RECORDED / "lstat.json").read_text())
PEOPLE = Names({"root": 0}, {"root": 0})
SAME = ("uid", "gid", "size_bytes", "allocated_bytes", "nlink", "atime_ns", "mtime_ns", "ctime_ns",
        "type")  # fmt: skip


def dump(name: str) -> bytes:
    return (RECORDED / f"{name}.sql").read_bytes()


def as_told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(only(rows, "parent", "name", *SAME))


def told() -> list[tuple[Any, ...]]:
    return sorted(
        (bytes.fromhex(row["parent"]), bytes.fromhex(row["name"]), *(row[name] for name in SAME))
        for row in TOLD
    )


@pytest.mark.parametrize("of", ["posix", "lustre"])
def test_a_dump_becomes_what_lstat_says(tmp_path: Path, of: str) -> None:
    manifest, rows = imported(tmp_path, dump(of), Source.ROBINHOOD, names=PEOPLE)
    assert as_told(rows) == told()
    assert manifest.refused == 0
    assert manifest.times is TimeTrust.SECONDS
    assert not manifest.complete
    assert manifest.lacking >= {Lack.BIRTH, Lack.DEVICE, Lack.LAYOUT}
    assert {row["id_kind"] for row in rows} == {"fid" if of == "lustre" else "inode"}
    inodes = {bytes.fromhex(row["name"]): row["inode"] for row in TOLD}
    one = next(row for row in rows if row["name"] == b"again")
    if of == "posix":
        assert int.from_bytes(one["id"], "big") == inodes[b"again"]
    else:
        inode = (inodes[b"again"] % 2**32).to_bytes(4, "big")
        assert one["id"] == bytes.fromhex("0000000200000401") + inode + bytes(4)
        assert {row["project"] for row in rows} == {7}


def test_statements_in_one_line_are_the_same(tmp_path: Path) -> None:
    """As MySQL writes them, and MariaDB before 10.11.9."""
    joined = re.sub(rb"\),\n\(", b"),(", dump("posix")).replace(b" VALUES\n", b" VALUES ")
    assert joined.count(b"\n(") == 0
    _, rows = imported(tmp_path, joined, Source.ROBINHOOD, names=PEOPLE)
    assert as_told(rows) == told()


def test_without_the_table_of_variables_the_root_is_the_one_without_a_name(tmp_path: Path) -> None:
    head, _, rest = dump("posix").partition(b"INSERT INTO `VARS`")
    content = head + rest[rest.index(b"/*!40000 ALTER TABLE `VARS` ENABLE") :]
    _, rows = imported(tmp_path, content, Source.ROBINHOOD, names=PEOPLE)
    assert as_told(rows) == told()


def test_several_directories_without_a_name_are_not_guessed_about(tmp_path: Path) -> None:
    content = dump("posix").replace(b"'RootId'", b"'Other'")
    deep = next(row for row in TOLD if row["parent"] and row["type"] == "d")
    at = content.index(b"INSERT INTO `NAMES`")
    lines = content[at:].split(b"\n")
    name = b",0x" + deep["name"].upper().encode() + b",1795340475)"
    kept = [line for line in lines if name not in line]
    assert len(kept) == len(lines) - 1
    with pytest.raises(DataError, match="2 directories"):
        imported(tmp_path, content[:at] + b"\n".join(kept), Source.ROBINHOOD, names=PEOPLE)


def test_a_name_without_its_entry_or_directory_is_refused(tmp_path: Path) -> None:
    content = dump("posix")
    at = content.index(b"INSERT INTO `NAMES`")
    entries = content[:at].split(b"\n")
    directory = next(at for at, line in enumerate(entries) if b"'dir',493" in line)
    content = b"\n".join(entries[:directory] + entries[directory + 1 :]) + content[at:]
    manifest, rows = imported(tmp_path, content, Source.ROBINHOOD, names=PEOPLE)
    assert manifest.refused == len(TOLD) - len(rows) > 1
    assert "the dump has a name without its entry" in reasons(manifest)
    assert "its directory is not beneath the root" in reasons(manifest)
    assert set(as_told(rows)) < set(told())


def test_owners_without_a_number_are_refused(tmp_path: Path) -> None:
    manifest, rows = imported(tmp_path, dump("posix"), Source.ROBINHOOD)
    assert {row["uid"] for row in rows} == {4711}
    assert manifest.refused == len(TOLD) - len(rows)


def test_a_dump_without_hexadecimal_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="hexadecimal") as raised:
        imported(tmp_path, dump("plain"), Source.ROBINHOOD, names=PEOPLE)
    assert "--hex-blob" in (raised.value.hint or "")


def test_a_dump_that_was_cut_off_anywhere_says_so(tmp_path: Path) -> None:
    whole = dump("posix")
    every = set(told())
    for length in range(1, whole.index(b"-- Dump completed"), 611):
        place = tmp_path / str(length)
        place.mkdir()
        try:
            manifest, rows = imported(place, whole[:length], Source.ROBINHOOD, names=PEOPLE)
        except DataError:
            continue
        assert manifest.refused > 0
        assert set(as_told(rows)) <= every


@settings(max_examples=30)
@given(st.data())
def test_rubbish_never_becomes_a_number(data: st.DataObject) -> None:
    """Bytes of the rows are replaced; a row is as it was, refused, or another whole row."""
    content = bytearray(dump("posix"))
    first = content.index(b"INSERT INTO `ENTRIES`")
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(first, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    reading = Reading(root=b"/scratch")
    with tempfile.TemporaryDirectory() as work:
        try:
            list(robinhood.read(io.BytesIO(bytes(content)), reading, work=Path(work),
                                size_bytes=len(content), names=PEOPLE))  # fmt: skip
        except DataError:
            return


def test_the_fast_way_reads_what_the_grammar_does() -> None:
    columns = ("id", "parent_id", "name")
    texts = [b"(0x41,0x42,0x43),(0x44,NULL,'')", b"(0x41,'a,b',0x43),\n(0x44,'x',0x45)",
             b"(0x41,'a),(b',0x43)", b"(0x41,'it\\'s',0x43)", b"(0x41,'a''b',0x43)"]  # fmt: skip
    for text in texts:
        fast = robinhood._frame(text, columns, columns, Reading(root=b"/r"))
        slow = robinhood._slowly(text, columns, Reading(root=b"/r"))
        assert fast.height == slow.height
        if b"\\" not in text and b"''b" not in text:
            assert fast.equals(slow.select(columns))


def test_several_pieces_are_one_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robinhood, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(robinhood, "_PART_ROWS", 5)
    _, rows = imported(tmp_path, dump("posix"), Source.ROBINHOOD, names=PEOPLE)
    assert as_told(rows) == told()
