"""How many rows a second of processor time each importer takes: `make bench-importers`.

Lists of the same files are written first, in every format as its tool has them; a tree of GUFI
with 100 files in each directory. Each import is a whole process on one thread; what an import of
a list of one file takes is taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "importers.json"
FILES_A_DIRECTORY = 100
BEGAN_S = 1_600_000_000
ZONE = ZoneInfo("Europe/Zurich")
IMPORT = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from trimtab.purge.index.importing import Form, import_list
from trimtab.purge.index.manifest import Source
file, index, source, zone, mapping = sys.argv[1:]
form = Form(zone=zone or None, column_map=[mapping] if mapping else ())
manifest = import_list(Path(file), Path(index), source=Source(source), root=b"/scratch",
                       now=datetime.now(UTC), form=form)
assert not manifest.refused, manifest.refused_examples[:3]
print(manifest.rows)
"""
MAP = (
    "path=path,id=inode:inode,nlink=links,uid=uid,gid=gid,size_bytes=size,"
    "allocated_bytes=blocks:blocks,atime_ns=atime:s,mtime_ns=mtime:s,ctime_ns=ctime:s"
)

Row = tuple[int, bytes, int, int, int, int, int, int, int]
"""Inode number, path beneath the root, owner, group, length, blocks, three times in seconds."""


def row_of(number: int) -> Row:
    """Return the metadata of a file: as diverse as such numbers are."""
    mixed = number * 2_654_435_761 % 2**32
    directory = number // FILES_A_DIRECTORY
    path = b"project%d/run%06d/output.%05d.dat" % (directory % 10, directory, number % 100)
    size = mixed % 10**7
    times = (BEGAN_S + mixed % 10**8, BEGAN_S + mixed // 3 % 10**8, BEGAN_S + mixed // 2 % 10**8)
    return number + 100, path, 1000 + directory % 200, 100, size, -(-size // 512), *times


def gnu_find(rows: int, place: Path) -> Path:
    """Write a list of find."""
    with (place / "list").open("wb") as out:
        for row in map(row_of, range(rows)):
            inode, path, uid, gid, size, blocks, *times = row
            stamps = b"\t".join(b"%d.1234567890" % time for time in times)
            out.write(
                b"3\t%d\tf\t1\t%d\t%d\t%d\t%d\t%s\t%s\t/scratch/%s\0"
                % (inode, uid, gid, size, blocks, stamps, b"1600000000.0000000000", path)
            )
    return place / "list"


def lfs_find(rows: int, place: Path) -> Path:
    """Write a list of lfs find, with a token."""
    with (place / "list").open("wb") as out:
        out.write(b"trimtab-list 1 started=5 token=0123456789abcdef0123456789abcdef\n")
        for row in map(row_of, range(rows)):
            inode, path, uid, gid, size, blocks, *times = row
            stamps = b"\t".join(b"%d.0000000000" % time for time in times)
            out.write(
                b"0123456789abcdef0123456789abcdef\t0x200000402:0x%x:0x0\tflash\tf\t1\t%d\t%d\t0\t%d"
                b"\t%d\t%s\t1600000000.0000000000\t1\t%d\t/scratch/%s\n"
                % (inode, uid, gid, size, blocks, stamps, inode % 300, path)
            )
        out.write(b"0123456789abcdef0123456789abcdef\ttrimtab-end ended=6\n")
    return place / "list"


def gufi_trace(rows: int, place: Path) -> Path:
    """Write a trace of GUFI."""
    with (place / "list").open("wb") as out:
        for at, row in enumerate(map(row_of, range(rows))):
            inode, path, uid, gid, size, blocks, *times = row
            path = b"scratch/" + path
            if at == 0:
                out.write(_traced(b"scratch", b"d", (99, 0o40755, 2, 0, 0, 4096, 4096, 8, 1, 1, 1)))
            numbers = (inode, 0o100644, 1, uid, gid, size, 4096, blocks, *times)
            out.write(_traced(path, b"f", numbers))
    return place / "list"


def _traced(path: bytes, kind: bytes, numbers: tuple[int, ...]) -> bytes:
    part = b"\x1e"
    fields = part.join(b"%d" % number for number in numbers)
    empty = b"0000" + part
    return (
        b"%04x%s" % (len(path), path) + part + kind + part + fields + part + empty + empty
        + part.join([b"1600000000", b"0", b"0", b"0", b"0"]) + part + empty + empty
        + b"98" + part + b"\n"
    )  # fmt: skip


def mfu(rows: int, place: Path) -> Path:
    """Write a list of mpiFileUtils."""
    width = 64
    with (place / "list").open("wb") as out:
        out.write(struct.pack(">7Q", 4, 0, 0, 0, 0, rows, width))
        for row in map(row_of, range(rows)):
            _, path, uid, gid, size, _, access, modification, change = row
            out.write((b"/scratch/" + path).ljust(width, b"\0"))
            times = (access, 1, modification, 2, change, 3)
            out.write(struct.pack(">10Q", 0o100644, uid, gid, *times, size))
    return place / "list"


def gpfs(rows: int, place: Path) -> Path:
    """Write a list of mmapplypolicy."""
    with (place / "list").open("wb") as out:
        for row in map(row_of, range(rows)):
            inode, path, uid, gid, size, blocks, *times = row
            stamps = " ".join(
                f"{datetime.fromtimestamp(time, ZONE):%Y-%m-%d %H:%M:%S}.123456"
                for time in (*times, BEGAN_S)
            )
            shown = f"-rw-r--r-- 1 {uid} {gid} {size} {-(-blocks // 2)} {stamps}"
            out.write(f"{inode} 65538 0  {shown} -- /scratch/".encode() + path + b"\n")
    return place / "list"


def robinhood(rows: int, place: Path) -> Path:  # noqa: C901 (a tree from paths)
    """Write a dump of Robinhood's database, in statements of a mebibyte."""

    def text(value: bytes) -> bytes:
        return b"0x" + value.hex().upper().encode()

    def identity(inode: int) -> bytes:
        return text(b"0x200000402:0x%x:0x0" % inode)

    entries, names = bytearray(), bytearray()
    inner: dict[bytes, int] = {}
    root = b"0x200000007:0x1:0x0"
    tables = {
        b"ENTRIES": b"id uid gid size blocks last_access last_mod last_mdchange type nlink",
        b"NAMES": b"id parent_id name",
        b"VARS": b"varname value",
    }
    files = {b"ENTRIES": place / "entries", b"NAMES": place / "names"}
    with files[b"ENTRIES"].open("wb") as one, files[b"NAMES"].open("wb") as other:

        def add(inode: int, parent: bytes, name: bytes, row: Row, kind: bytes) -> None:
            _, _, uid, gid, size, blocks, *times = row
            key = identity(inode)
            entries.extend(
                b"(%s,%d,%d,%d,%d,%d,%d,%d,'%s',1)," % (key, uid, gid, size, blocks, *times, kind)
            )
            names.extend(b"(%s,%s,%s)," % (key, parent, text(name)))
            for held, out, table in ((entries, one, b"ENTRIES"), (names, other, b"NAMES")):
                if len(held) > 2**20:
                    out.write(b"INSERT INTO `%s` VALUES %s;\n" % (table, held[:-1]))
                    held.clear()

        for row in map(row_of, range(rows)):
            *above, name = row[1].split(b"/")
            parent = text(root)
            for depth in range(len(above)):
                path = b"/".join(above[: depth + 1])
                if path not in inner:
                    inner[path] = 10**9 + len(inner)
                    add(inner[path], parent, above[depth], row, b"dir")
                parent = identity(inner[path])
            add(row[0], parent, name, row, b"file")
        one.write(b"INSERT INTO `ENTRIES` VALUES %s;\n" % entries[:-1])
        other.write(b"INSERT INTO `NAMES` VALUES %s;\n" % names[:-1])
    with (place / "list").open("wb") as out:
        for table, columns in tables.items():
            out.write(b"CREATE TABLE `%s` (\n" % table)
            out.write(b"".join(b"  `%s` text,\n" % column for column in columns.split()) + b");\n")
            if table in files:
                with files[table].open("rb") as rest:
                    shutil.copyfileobj(rest, out)
        out.write(b"INSERT INTO `VARS` VALUES ('RootId','%s');\n" % root)
        out.write(b"-- Dump completed on 2026-11-24\n")
    return place / "list"


def _table(rows: int) -> Any:
    import polars as pl

    names = ("inode", "path", "uid", "gid", "size", "blocks", "atime", "mtime", "ctime")
    columns = zip(*map(row_of, range(rows)), strict=True)
    held: dict[str, Any] = dict(zip(names, columns, strict=True))
    held["path"] = ["/scratch/" + path.decode() for path in held["path"]]
    return pl.DataFrame({**held, "links": [1] * rows})


def csv(rows: int, place: Path) -> Path:
    """Write a table as CSV."""
    _table(rows).write_csv(place / "list")
    return place / "list"


def parquet(rows: int, place: Path) -> Path:
    """Write a table as Parquet."""
    _table(rows).write_parquet(place / "list")
    return place / "list"


def gufi(rows: int, place: Path) -> Path:
    """Write a tree of GUFI: the columns of its databases, and views as many as it has."""
    stat = ("name TEXT, type TEXT, inode TEXT, mode INT64, nlink INT64, uid INT64, gid INT64, "
            "size INT64, blksize INT64, blocks INT64, atime INT64, mtime INT64, ctime INT64, "
            "linkname TEXT, xattr_names BLOB, crtime INT64")  # fmt: skip
    rest = (
        "ossint1 INT64, ossint2 INT64, ossint3 INT64, ossint4 INT64, osstext1 TEXT, osstext2 TEXT"
    )
    sums = ", ".join(f"total{number} INT64" for number in range(43))
    template = sqlite3.connect(":memory:")
    template.execute(f"CREATE TABLE entries({stat}, {rest})")
    template.execute(
        f"CREATE TABLE summary({stat}, totfiles INT64, totlinks INT64, {sums}, "
        "rectype INT64, pinode TEXT, isroot INT64, canrollup INT64, isrolledup INT64)"
    )
    template.execute(f"CREATE TABLE pentries_rollup({stat}, {rest}, pinode TEXT, ppinode TEXT)")
    for number in range(8):
        template.execute(f"CREATE VIEW v{number} AS SELECT * FROM entries, summary")
    marks = ",".join("?" * 22)
    head = (
        "",
        "d",
        "7",
        0o40755,
        2,
        0,
        0,
        4096,
        4096,
        8,
        BEGAN_S,
        BEGAN_S,
        BEGAN_S,
        "",
        b"",
        BEGAN_S,
    )
    tree = place / "list"

    def database(directory: Path, name: str, files: list[Row]) -> None:
        directory.mkdir()
        template.executemany(
            f"INSERT INTO entries VALUES ({marks})",
            [
                (row[1].rpartition(b"/")[2].decode(), "f", str(row[0]), 0o100644, 1, *row[2:5],
                 4096, *row[5:9], "", b"", BEGAN_S, 0, 0, 0, 0, "", "")
                for row in files
            ],
        )  # fmt: skip
        itself = (name, *head[1:], len(files), 0, *[0] * 43, 0, "1", 1, 0, 0)
        template.execute(f"INSERT INTO summary VALUES ({','.join('?' * len(itself))})", itself)
        template.commit()
        (directory / "db.db").write_bytes(template.serialize())
        template.execute("DELETE FROM entries")
        template.execute("DELETE FROM summary")

    database(tree, "scratch", [])
    for number in range(min(10, -(-rows // FILES_A_DIRECTORY))):
        database(tree / f"project{number}", f"project{number}", [])
    for first in range(0, rows, FILES_A_DIRECTORY):
        files = [row_of(number) for number in range(first, min(rows, first + FILES_A_DIRECTORY))]
        directory = tree / files[0][1].rpartition(b"/")[0].decode()
        database(directory, directory.name, files)
    return tree


WRITERS: dict[str, Callable[[int, Path], Path]] = {
    "gnu-find": gnu_find, "lfs-find": lfs_find, "gufi": gufi, "gufi-trace": gufi_trace,
    "gpfs": gpfs, "mfu": mfu, "robinhood": robinhood, "csv": csv, "parquet": parquet,
}  # fmt: skip


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=WRITERS, default=list(WRITERS))
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-importers")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {"formats": {}}
    result = {
        "what": "rows a second of processor time, user and system, of an import on one thread; "
        "start of the process taken off; medians",
        **measured_on(),
        "files_a_directory": FILES_A_DIRECTORY,
        "formats": result["formats"],
    }
    for name in asked.formats:
        result["formats"][name] = rate(name, asked.rows, asked.turns, asked.directory)
        print(json.dumps({name: result["formats"][name]}), flush=True)
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def rate(name: str, rows: int, turns: int, directory: Path) -> dict[str, Any]:
    """Return how fast a format is imported."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        whole, least = Path(place, "whole"), Path(place, "least")
        for at in (whole, least):
            at.mkdir()
        large, small = WRITERS[name](rows, whole), WRITERS[name](1, least)
        size = sum(file.stat().st_size for file in [large, *large.rglob("*")] if file.is_file())
        taken = []
        for _ in range(turns):
            start_s, _ = imported(name, small, Path(place))
            processor_s, many = imported(name, large, Path(place))
            taken.append((processor_s - start_s, many))
    seconds = statistics.median(one for one, _ in taken)
    return {
        "rows": taken[0][1],
        "bytes_a_row": round(size / taken[0][1]),
        "processor_s": [round(one, 2) for one, _ in taken],
        "rows_per_processor_s": round(taken[0][1] / seconds),
    }


def imported(name: str, file: Path, place: Path) -> tuple[float, int]:
    """Return the processor time of an import, and its rows."""
    index = place / "index"
    zone = ZONE.key if name == "gpfs" else ""
    mapping = MAP if name in ("csv", "parquet") else ""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run(
        [sys.executable, "-c", IMPORT, str(file), str(index), name, zone, mapping],
        check=True, stdout=subprocess.PIPE, env={**os.environ, "POLARS_MAX_THREADS": "1"},
    ).stdout  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(index)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(printed)


if __name__ == "__main__":
    main()
