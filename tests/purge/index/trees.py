"""Trees with every kind of name and file, and what `os.lstat` says of them: the obvious twin."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.purge.index.list_reading import INT64_MAX, INT64_MIN
from trimtab.purge.index.manifest import Manifest

NS = 10**9
HOSTILE = (
    b"plain", b"two words", b"new\nline", b"\n", b"end\n", b"tab\tname", b"\xff\xfe not utf-8",
    b"\x1b[2J", b"<b>bold<script>", b"-rf", b"--", b"...", b".hidden", b'quo"te', b"com,ma",
    b"back\\slash", "ünï\u202ecode".encode(), b"x" * 255, b"\x1e\x1f", b"'; drop table names; --",
    b"trimtab-end ended=1", b"*", b"[0x1:0x2:0x3]", b"%0A", b"percent%41",
)  # fmt: skip
LETTERS = {
    stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p",
    stat.S_IFSOCK: "s", stat.S_IFBLK: "b", stat.S_IFCHR: "c",
}  # fmt: skip


def hostile_tree(top: Path, seed: int = 1) -> bytes:
    """Make a tree with hostile names, links, sparse files and odd times; return its path."""
    chance = random.Random(seed)
    root = os.fsencode(top)
    top.mkdir(parents=True, exist_ok=True)
    directories = [root]
    for name in HOSTILE:
        directory = chance.choice(directories) + b"/" + name + b".d"[: 255 - len(name)]
        if len(name) < 255:
            os.mkdir(directory)  # noqa: PTH102 (a name of any bytes)
            directories.append(directory)
    files = []
    for directory in directories:
        for name in chance.sample(HOSTILE, 5):
            files.append(directory + b"/" + name)
            with open(files[-1], "wb") as out:  # noqa: PTH123 (a name of any bytes)
                out.write(b"x" * chance.randrange(10_000))
    for number, file in enumerate(chance.sample(files, 30)):
        _oddity(file, number, root)
    # The first who reads a directory or link some ticks after its change sets its access time
    # (relatime); nobody after him does.
    time.sleep(0.05)
    true_rows(root)
    return root


def _oddity(file: bytes, number: int, root: bytes) -> None:
    times = (0, -1, -1_500_000_000, 13_569_465_600 * NS + 5, 1_700_000_000 * NS + 1, 999_999_999)
    kind = number % 6
    if kind < 3:
        os.utime(file, ns=(times[number % 6], times[(number + 1) % 6]))
    elif kind == 3:
        os.truncate(file, 10**9)
    elif kind == 4:
        os.link(file, root + b"/link %d" % number)
    else:
        os.symlink(file, root + b"/symbolic %d" % number)  # noqa: PTH211 (a name of any bytes)
        os.mkfifo(root + b"/fifo %d" % number)


def true_rows(root: bytes) -> list[dict[str, Any]]:
    """Return what stands in an index of a tree, by `os.lstat`, sorted by directory and name."""
    result = []
    for parent, directories, files in os.walk(root):
        for name in directories + files:
            path = parent + b"/" + name
            result.append(row_of(os.lstat(path), os.path.relpath(parent, root), name))
    return sorted(result, key=lambda row: (row["parent"], row["name"]))


def path_of(row: dict[str, Any]) -> bytes:
    """Return the path of a row, relative to the root."""
    return row["parent"] + b"/" + row["name"] if row["parent"] else row["name"]


def rows_at_rest(index: Path, manifest: Manifest) -> pl.DataFrame:
    """Return all rows in order; without times of reading directories, which looking moves."""
    frame = pl.concat([pl.read_parquet(index / shard.name) for shard in manifest.shards])
    times = [
        pl.when(pl.col("type") != "d").then(name).alias(name) for name in ("atime_ns", "last_use_s")
    ]
    return frame.with_columns(times).sort("parent", "name")


def paths_of(frame: pl.DataFrame) -> list[bytes]:
    """Return the paths of rows, sorted."""
    return sorted(b"/".join(filter(None, row)) for row in frame.select("parent", "name").rows())


def found_by_find(root: Path) -> list[bytes]:
    """Return every path beneath a directory, sorted: an independent listing."""
    argv = ["find", str(root), "-mindepth", "1", "-printf", "%P\\0"]
    found = subprocess.run(argv, capture_output=True, check=True).stdout
    return sorted(found.split(b"\0")[:-1])


def row_of(status: os.stat_result, parent: bytes, name: bytes) -> dict[str, Any]:
    """Return one row, from a status."""
    times = {
        "atime_ns": clamped(status.st_atime_ns),
        "mtime_ns": clamped(status.st_mtime_ns),
        "ctime_ns": clamped(status.st_ctime_ns),
    }
    return {
        "parent": b"" if parent == b"." else parent,
        "name": name,
        "id": status.st_ino.to_bytes(16, "big"),
        "id_kind": "inode",
        "device": status.st_dev,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "size_bytes": status.st_size,
        "allocated_bytes": status.st_blocks * 512,
        "nlink": status.st_nlink,
        **times,
        "type": LETTERS[stat.S_IFMT(status.st_mode)],
        "last_use_s": max(times.values()) // NS,
    }


def clamped(value_ns: int) -> int:
    """Return a time that fits into 64 bits."""
    return min(max(value_ns, INT64_MIN), INT64_MAX)
