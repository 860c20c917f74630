"""How many rows a second of processor time each importer takes: `make bench-importers`.

Lists of the same files are written first, in every format as its tool has them. Each import is a
whole process on one thread; what an import of a list of one file takes is taken off.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "importers.json"
FILES_A_DIRECTORY = 100
BEGAN_S = 1_600_000_000
IMPORT = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from trimtab.purge.index.list_import import ListDescription, import_list
from trimtab.purge.index.manifest import IndexSource
file, index, source, mapping = sys.argv[1:]
maps = [mapping] if mapping else ()
described = ListDescription(IndexSource(source), b"/scratch", column_map=maps)
manifest = import_list(Path(file), Path(index), described, now=datetime.now(UTC))
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


WRITERS: dict[str, Callable[[int, Path], Path]] = {
    "gnu-find": gnu_find, "lfs-find": lfs_find, "mfu": mfu, "csv": csv, "parquet": parquet,
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
    result: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {"formats": {}}
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
        size = large.stat().st_size
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
    mapping = MAP if name in ("csv", "parquet") else ""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run(
        [sys.executable, "-c", IMPORT, str(file), str(index), name, mapping],
        check=True, stdout=subprocess.PIPE, env={**os.environ, "POLARS_MAX_THREADS": "1"},
    ).stdout  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(index)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(printed)


if __name__ == "__main__":
    main()
