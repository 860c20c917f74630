"""Trees of GUFI: recorded ones, and such as its schemas of several versions make."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.purge.index.imports import LATER, only, reasons
from tests.purge.index.trees import NS, hostile_tree, path_of, true_rows

from trimtab.errors import DataError, UnreadableError, UsageError
from trimtab.purge.index.importing import Claims, Form, import_list
from trimtab.purge.index.manifest import Lack, Manifest, Source, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.views import scanned

RECORDED = Path(__file__).parents[2] / "fixtures" / "gufi" / "09109d1b"
SAME = ("parent", "name", "id", "id_kind", "uid", "gid", "size_bytes", "allocated_bytes", "nlink",
        "atime_ns", "mtime_ns", "ctime_ns", "type", "last_use_s")  # fmt: skip
STAT = ("name", "type", "inode", "mode", "nlink", "uid", "gid", "size", "blksize", "blocks",
        "atime", "mtime", "ctime", "linkname")  # fmt: skip
ENTRIES = {
    "0.4.0": ("id", *STAT, "xattrs", "crtime", "ossint1", "osstext1", "pinode"),
    "0.6.7": (*STAT, "xattr_names", "crtime", "ossint1", "osstext1"),
    "0.7.0": (*STAT, "xattr_names", "crtime", "ossint1", "osstext1"),
}
SUMMARY = {
    "0.4.0": ("id", *STAT, "xattrs", "totfiles", "totlinks", "minuid", "rectype", "pinode"),
    "0.6.7": (*STAT, "xattr_names", "totfiles", "totlinks", "rectype", "pinode", "isroot",
              "rollupscore"),
    "0.7.0": (*STAT, "xattr_names", "crtime", "totfiles", "totlinks", "rectype", "pinode", "isroot",
              "canrollup", "isrolledup"),
}  # fmt: skip


def quoted(name: bytes) -> str:
    """Return a name as GUFI binds it: each quote twice."""
    return os.fsdecode(name.replace(b"'", b"''"))


def stat_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a row by the columns of GUFI, times in seconds."""
    modes = {"f": 0o100644, "d": 0o40755, "l": 0o120777}
    return {
        "name": quoted(row["name"]), "type": row["type"],
        "inode": str(int.from_bytes(row["id"], "big")), "mode": modes[row["type"]],
        "nlink": row["nlink"], "uid": row["uid"], "gid": row["gid"], "size": row["size_bytes"],
        "blksize": 4096, "blocks": row["allocated_bytes"] // 512,
        "atime": row["atime_ns"] // NS, "mtime": row["mtime_ns"] // NS,
        "ctime": row["ctime_ns"] // NS, "linkname": "", "crtime": 17, "rectype": 0, "isroot": 1,
    }  # fmt: skip


def database(
    file: Path,
    itself: dict[str, Any],
    entries: list[dict[str, Any]],
    version: str = "0.7.0",
    page_bytes: int = 4096,
) -> None:
    """Write the database of a directory, as that version of GUFI lays it out."""
    columns = {"entries": ENTRIES[version], "summary": SUMMARY[version]}
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    for table, names in columns.items():
        text = ("name", "type", "linkname", "osstext1", *(() if version < "0.6.5" else ("inode",)))
        kinds = [
            f"{name} "
            + ("INTEGER PRIMARY KEY" if name == "id" else "TEXT" if name in text else "INT64")
            for name in names
        ]
        connection.execute(f"CREATE TABLE {table}({', '.join(kinds)});")
    connection.execute("CREATE VIEW pentries AS SELECT * FROM entries, summary")
    counts = {"totfiles": sum(entry["type"] == "f" for entry in entries)}
    counts["totlinks"] = len(entries) - counts["totfiles"]
    for table, rows in (("entries", entries), ("summary", [{**counts, **itself}])):
        names = columns[table]
        # A name that is no UTF-8 is bound as the text that it is not, as GUFI does.
        marks = ["CAST(? AS TEXT)" if name == "name" else "?" for name in names]
        connection.executemany(
            f"INSERT INTO {table} VALUES ({', '.join(marks)})",
            [
                [os.fsencode(row["name"]) if name == "name" else row.get(name) for name in names]
                for row in rows
            ],
        )
    connection.commit()
    connection.close()


def indexed(root: bytes, index: Path, version: str = "0.7.0") -> list[dict[str, Any]]:
    """Write the index of a tree; return the rows that are in it."""
    rows = [row for row in true_rows(root) if row["type"] in "fdl"]
    top = {**rows[0], "name": b"top", "type": "d"}
    for row in [{**top, "parent": None}, *(row for row in rows if row["type"] == "d")]:
        path = b"" if row["parent"] is None else path_of(row)
        directory = Path(os.fsdecode(os.fsencode(index) + b"/" + path))
        directory.mkdir()
        files = [stat_of(each) for each in rows if each["parent"] == path and each["type"] != "d"]
        database(directory / "db.db", stat_of(row), files, version)
    return rows


def in_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with times as far as GUFI has them."""
    times = ("atime_ns", "mtime_ns", "ctime_ns")
    return [{**row, **{name: row[name] // NS * NS for name in times}} for row in rows]


def imported(
    tree: Path, tmp_path: Path, claims: Claims | None = None
) -> tuple[Manifest, list[dict[str, Any]]]:
    index = tmp_path / "index"
    shutil.rmtree(index, ignore_errors=True)
    manifest = import_list(
        tree, index, source=Source.GUFI, root=b"/scratch", now=LATER, claims=claims
    )
    assert load_manifest(index, verify=True) == manifest
    return manifest, scanned(index, manifest).collect().to_dicts()


def small(tmp_path: Path, **changed: Any) -> Path:
    """Return a tree of one directory with two files."""
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "db.db").unlink(missing_ok=True)
    row = {"parent": b"", "name": b"top", "id": bytes(15) + b"\7", "nlink": 2, "uid": 3, "gid": 4,
           "size_bytes": 5, "allocated_bytes": 512, "atime_ns": NS, "mtime_ns": 2 * NS,
           "ctime_ns": 3 * NS, "type": "d"}  # fmt: skip
    files = [stat_of({**row, "name": name, "type": "f"}) for name in (b"a", b"b")]
    files[0].update(changed)
    database(tree / "db.db", stat_of(row), files)
    return tree


@pytest.mark.parametrize("name", ["index", "rolled-up"])
def test_what_gufi_wrote_is_what_lstat_said(tmp_path: Path, name: str) -> None:
    with tarfile.open(RECORDED / f"{name}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    twin = json.loads((RECORDED / "lstat.json").read_text())
    manifest, rows = imported(tmp_path / "scratch", tmp_path)
    assert manifest.refused == 0
    assert (manifest.times, manifest.time_resolution_ns) == (TimeTrust.SECONDS, NS)
    assert manifest.lacking == {Lack.DEVICE, Lack.PROJECT, Lack.LAYOUT, Lack.POOL}
    for row in rows:
        row.update({key: row[key].hex() for key in ("parent", "name", "id")})
    assert only(rows, *SAME) == only(in_seconds(twin), *SAME)


@pytest.mark.parametrize("version", ENTRIES)
def test_a_real_tree_becomes_what_lstat_says(tmp_path: Path, version: str) -> None:
    root = hostile_tree(tmp_path / "files")
    with open(root + b"/it's a ''quote'", "wb"):  # noqa: PTH123 (a name of any bytes)
        pass
    rows = indexed(root, tmp_path / "tree", version)
    manifest, found = imported(tmp_path / "tree", tmp_path)
    assert manifest.refused == 0
    assert only(found, *SAME) == only(in_seconds(rows), *SAME)
    births = {row["btime_ns"] for row in found if row["type"] != "d"}
    assert births == {17 * NS}


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
def test_long_rows_and_many_pages_are_read_as_sqlite_reads_them(
    tmp_path: Path, page_bytes: int
) -> None:
    chance = random.Random(page_bytes)
    tree = small(tmp_path)
    (tree / "db.db").unlink()
    base = stat_of({"name": b"top", "id": bytes(15) + b"\7", "nlink": 2, "uid": 3, "gid": 4,
                    "size_bytes": 5, "allocated_bytes": 512, "atime_ns": NS, "mtime_ns": NS,
                    "ctime_ns": NS, "type": "d"})  # fmt: skip
    files = [
        {**base, "type": "l", "name": f"{number:05}" + "x" * chance.randrange(250),
         "mode": 0o120777, "linkname": "y" * chance.choice([0, 10, 473, 474, 3000, 70_000]),
         "size": chance.choice([0, 1, -1, 2**31, 2**47, 2**62]), "inode": str(2**64 - 1 - number)}
        for number in range(1500)
    ]  # fmt: skip
    database(tree / "db.db", base, files, page_bytes=page_bytes)
    manifest, rows = imported(tree, tmp_path)
    good = [file for file in files if file["size"] >= 0]
    assert [(os.fsdecode(row["name"]), row["size_bytes"]) for row in rows] == [
        (file["name"], file["size"]) for file in good
    ]
    assert [int.from_bytes(row["id"], "big") for row in rows] == [int(f["inode"]) for f in good]
    assert manifest.refused == len(files) - len(good)
    assert set(reasons(manifest)) == {"size: not what it should be"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "it's"}, "a quote"),
        ({"name": ""}, "cannot be one"),
        ({"name": ".."}, "cannot be one"),
        ({"name": "a/b"}, "cannot be one"),
        ({"name": "a\0b"}, "cannot be one"),
        ({"uid": -1}, "uid"),
        ({"gid": 2**32}, "gid"),
        ({"nlink": "many"}, "nlink"),
        ({"blocks": 2**60}, "blocks"),
        ({"mtime": None}, "time"),
        ({"atime": 1.5}, "time"),
        ({"inode": "12x"}, "inode"),
        ({"inode": str(2**64)}, "inode"),
        ({"inode": ""}, "inode"),
    ],
)
def test_a_row_that_cannot_be_is_refused(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    manifest, rows = imported(small(tmp_path, **changed), tmp_path, Claims(complete=True))
    assert only(rows, "name") == [(b"b",)]
    assert manifest.refused == 1
    assert not manifest.complete
    assert said in reasons(manifest)[0]


def test_a_table_with_other_rows_than_its_summary_counts_says_so(tmp_path: Path) -> None:
    tree = small(tmp_path)
    with sqlite3.connect(tree / "db.db") as connection:
        connection.execute("DELETE FROM entries WHERE name = 'a'")
    connection.close()
    manifest, rows = imported(tree, tmp_path)
    assert only(rows, "name") == [(b"b",)]
    assert "summary counts" in reasons(manifest)[0]


def _gone(inner: Path) -> None:
    (inner / "db.db").unlink()


def _linked(inner: Path) -> None:
    (inner / "db.db").rename(inner.parent.parent / "elsewhere")
    (inner / "db.db").symlink_to(inner.parent.parent / "elsewhere")


def _pipe(inner: Path) -> None:
    _gone(inner)
    os.mkfifo(inner / "db.db")


def _foreign(inner: Path) -> None:
    _gone(inner)
    connection = sqlite3.connect(inner / "db.db")
    connection.execute("CREATE TABLE entries(name)")
    connection.close()


def _text(inner: Path) -> None:
    (inner / "db.db").write_text("no database" * 100)


def _empty(inner: Path) -> None:
    (inner / "db.db").write_bytes(b"")


def _cut(inner: Path) -> None:
    os.truncate(inner / "db.db", 8192)


def _unfinished(inner: Path) -> None:
    with sqlite3.connect(inner / "db.db") as connection:
        connection.execute("DELETE FROM summary")
    connection.close()


def _journal(inner: Path) -> None:
    (inner / "db.db-journal").write_bytes(b"x")


def _directory_link(inner: Path) -> None:
    (inner / "out").symlink_to("/etc")


@pytest.mark.parametrize(
    ("harm", "said", "left"),
    [
        (_gone, "cannot be read", 0),
        (_linked, "cannot be read", 0),
        (_pipe, "no regular file", 0),
        (_foreign, "no database of GUFI", 0),
        (_text, "no database of SQLite", 0),
        (_empty, "no database of SQLite", 0),
        (_cut, "damaged", 0),
        (_unfinished, "no summary", 0),
        (_journal, "being written", 3),
        (_directory_link, "not followed", 3),
    ],
)
def test_a_directory_that_is_not_what_it_should_be_is_refused_and_the_rest_is_read(
    tmp_path: Path, harm: Callable[[Path], None], said: str, left: int
) -> None:
    tree = small(tmp_path)
    shutil.copytree(tree, tmp_path / "copy")
    (tmp_path / "copy").rename(tree / "inner")
    harm(tree / "inner")
    manifest, rows = imported(tree, tmp_path, Claims(complete=True))
    assert len(rows) == 2 + left
    assert said in reasons(manifest)[0]
    assert manifest.refused == 1
    assert not manifest.complete


@pytest.mark.parametrize("harm", [_gone, _linked, _text, _empty, _unfinished, _foreign])
def test_a_root_that_is_none_of_an_index_is_refused_as_a_whole(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    tree = small(tmp_path)
    harm(tree)
    with pytest.raises(DataError, match="no directory of a GUFI index"):
        imported(tree, tmp_path)
    assert not (tmp_path / "index").exists()


def test_a_file_or_a_link_is_no_tree(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small(tmp_path))
    for path in (tmp_path / "tree" / "db.db", tmp_path / "link", tmp_path / "missing"):
        with pytest.raises(UnreadableError):
            imported(path, tmp_path)


def test_a_format_or_a_zone_is_for_other_lists(tmp_path: Path) -> None:
    tree = small(tmp_path)
    for form in (Form(format_text="%p"), Form(zone="UTC")):
        with pytest.raises(UsageError):
            import_list(
                tree, tmp_path / "index", source=Source.GUFI, root=b"/x", now=LATER, form=form
            )


def test_a_damaged_database_is_refused_or_read_and_never_more(tmp_path: Path) -> None:
    from trimtab._core import gufi_rows

    whole = (small(tmp_path) / "db.db").read_bytes()
    chance = random.Random(1)
    used = [at for at, byte in enumerate(whole) if byte] + list(range(100, 200))
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 4])):
            values = [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
            data[chance.choice(used)] = chance.choice(values)
        length = chance.choice([len(data), chance.randrange(len(data))])
        rows, _, refused = gufi_rows([(b"d", bytes(data[:length]))])
        assert pl.DataFrame(rows).height <= 3 or not refused
