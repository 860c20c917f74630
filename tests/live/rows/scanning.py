"""Scans, curves and what reading leaves unchanged."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tests.live.listing import Work, rows_of, times_of, walk
from tests.live.running import capability, require
from tests.live.subject import Subject

_COLUMNS = "path, type, size_bytes, uid, gid, mtime_ns"
_LETTERS = {0o100000: "f", 0o040000: "d", 0o120000: "l"}


def peopled(subject: Subject, name: str, acts: int = 250) -> Path:
    """Return a tree that random work has made, also in striped directories and on every MDT."""
    place = subject.place(name)
    mdts = len(subject.cluster.mdts)
    for index in range(mdts):
        subject.cluster.here("lfs", "mkdir", "-i", str(index), str(place / f"mdt{index}"))
    subject.cluster.here("lfs", "mkdir", "-c", str(mdts), str(place / "striped"))
    work = Work(place, 20261128, mdts)
    for _ in range(acts):
        work.act()
    subject.cluster.here("sync", "-f", str(place), timeout_s=900.0)
    return place


def scan(subject: Subject, root: Path, name: str, *words: str) -> Path:
    """Scan into a new index of that name and return its directory."""
    index = subject.state / name
    subject.cluster.here("rm", "-rf", str(index))
    subject.trimtab("purge", "scan", str(root), "--index", str(index), *words)
    return index


def indexed(subject: Subject, index: Path, below: str = "") -> dict[str, tuple[Any, ...]]:
    """Return of each name in an index, below a directory, what `witnessed` has of it."""
    beginning = f"{below}/" if below else ""
    query = (
        f"select {_COLUMNS} from names where path like '{beginning}%' and path <> '' order by path"
    )
    document = subject.json("purge", "query", query, "--index", str(index), "--all")
    require(not document["cut_off"], "the tree has more names than a query prints")
    rows = {}
    for row in document["rows"]:
        name, kind = row["path"].removeprefix(beginning), row["type"]
        if name and name != ".":
            length = row["size_bytes"] if kind == "f" else 0
            rows[name] = (kind, length, row["uid"], row["gid"], row["mtime_ns"] // 10**9)
    return rows


def witnessed(root: Path) -> dict[str, tuple[Any, ...]]:
    """Return of each name below a directory what ``lstat`` says now."""
    return {
        name.replace("\t", "\\t"): (_LETTERS.get(kind, "?"), *rest)
        for name, (kind, *rest) in rows_of(root).items()
    }


def require_equal(
    listed: dict[str, tuple[Any, ...]], seen: dict[str, tuple[Any, ...]], *, sizes: bool = True
) -> None:
    """Require that an index and a listing are the same, row by row.

    Without ``sizes`` the index has what MDTs know. Of a file that was made or cut they may have the
    second before: the OST that holds it took the time itself.
    """
    if not sizes:
        listed, seen = ({n: (r[0], *r[2:]) for n, r in rows.items()} for rows in (listed, seen))

    def is_other(name: str) -> bool:
        row, (*rest, mtime_s) = listed[name], seen[name]
        earlier = not sizes and row[0] == "f" and row == (*rest, mtime_s - 1)
        return row != (*rest, mtime_s) and not earlier

    missing, extra = sorted(set(seen) - set(listed)), sorted(set(listed) - set(seen))
    other = [name for name in seen if name in listed and is_other(name)]
    examples = [f"{name!r}: index {listed[name]}, lstat {seen[name]}" for name in other[:3]]
    text = (
        f"of {len(seen)} names {len(missing)} are missing {missing[:3]}, "
        f"{len(extra)} are not there {extra[:3]}, {len(other)} differ: {'; '.join(examples)}"
    )
    require(not (missing or extra or other), text)


@capability("scan: exact sizes", "lstat of every name by this program")
def scan_exact(subject: Subject) -> str:
    """Every name is in the index, with type, size, owner and time."""
    root = peopled(subject, "scanned")
    index = scan(subject, root, "exact-index", "--sizes", "exact", "--with", "project,layout")
    seen = witnessed(root)
    require_equal(indexed(subject, index), seen)
    query = "select path, osts from files where osts is not null order by path limit 25"
    osts = subject.json("purge", "query", query, "--index", str(index), "--all")["rows"]
    for row in osts:
        stripes = subject.cluster.stripes(root / row["path"].replace("\\t", "\t"))
        listed = [f"OST{number:04x}" for number in row["osts"]]
        require(listed == stripes, f"{row['path']}: on {listed}, lfs getstripe: {stripes}")
    return f"{len(seen)} names equal, layouts of {len(osts)} files"


@capability("scan: lazy and sampled sizes", "lstat of every name by this program")
def scan_lazy(subject: Subject) -> str:
    """Names, types, owners and times are right in each mode; what sizes lack is said."""
    root = peopled(subject, "scanned")
    seen = witnessed(root)
    for mode in ("lazy", "sampled"):
        index = scan(subject, root, f"{mode}-index", "--sizes", mode)
        require_equal(indexed(subject, index), seen, sizes=False)
    return f"{len(seen)} names, twice"


@capability("horizon", "bytes by age, summed by this program from lstat")
def horizon(subject: Subject) -> str:
    """The curve has all files and bytes of the tree."""
    root = peopled(subject, "scanned")
    index = scan(subject, root, "horizon-index", "--sizes", "exact")
    document = subject.json("purge", "horizon", "--index", str(index), "--target", "1%", code=None)
    inodes = {
        status.st_ino: status for _, status in walk(root) if status.st_mode & 0o170000 == 0o100000
    }
    bytes_ = sum(status.st_blocks * 512 for status in inodes.values())
    listed = document["files"], document["allocated_bytes"]
    text = "{} files, {} bytes; lstat: {}, {}".format(*listed, len(inodes), bytes_)
    require(document["files"] == len(inodes), text)
    require(abs(document["allocated_bytes"] - bytes_) <= 0.01 * bytes_, text)
    return text


@capability("reading changes nothing", "atime, mtime, ctime of every name before and after")
def reading(subject: Subject) -> str:
    """Scan with projects, horizon, plan and check move no time of any name."""
    root = peopled(subject, "read")
    # Sizes that the MDS was not told yet are what an open and close would have it stamp.
    for number in range(60):
        (root / f"fresh{number}").write_bytes(b"z" * 3000)
    subject.cluster.here("sync", "-f", str(root), timeout_s=900.0)
    time.sleep(10.0)

    def times() -> dict[str, tuple[int, int, int]]:
        subject.cluster.forget()
        return times_of(root)

    before = times()

    def require_unmoved(what: str) -> None:
        after = times()
        moved = [name for name in after if after[name][1:] != before[name][1:]]
        examples = "; ".join(f"{n!r}: {before[n][1:]}, then {after[n][1:]}" for n in moved[:3])
        require(not moved, f"{what} moved mtime or ctime of {len(moved)} names: {examples}")

    for number, sizes in enumerate(("lazy", "sampled", "exact")):
        scan(subject, root, f"read-index{number}", "--sizes", sizes, "--with", "project,layout")
        require_unmoved(f"a scan with project and {sizes} sizes")
    subject.trimtab("check", subject.site("plain"), "--no-probe", code=None)
    require_unmoved("a check")
    return f"{len(before)} names: no mtime, no ctime moved"


@capability("scan: calls per MDT", "operations counted by each MDS (mdt.*.md_stats)")
def calls(subject: Subject) -> str:
    """No MDT is asked more a second than was allowed."""
    cluster = subject.cluster
    root = cluster.path / "live"
    limit = 40

    def counted() -> dict[str, int]:
        counts = {}
        for mdt in cluster.mdts:
            name = f"mdt.{cluster.name}-{mdt.name}.md_stats"
            text = cluster.parameter(mdt.server, name)
            operations = re.findall(r"^(?:getattr|getxattr|readdir|open|statfs) +(\d+)", text, re.M)
            counts[mdt.name] = sum(int(number) for number in operations)
        return counts

    index = subject.state / "slow-index"
    cluster.here("rm", "-rf", str(index))
    cluster.forget()
    words = ("purge", "scan", str(root), "--index", str(index), "--calls-per-mdt", str(limit))
    rates = []
    with subject.running(*words, log="calls.txt") as process:
        at_s, last = time.monotonic(), counted()
        while process.poll() is None:
            time.sleep(5.0)
            now_s, now = time.monotonic(), counted()
            rates += [(now[name] - last[name]) / (now_s - at_s) for name in now]
            at_s, last = now_s, now
    require(process.returncode == 0, f"exit code {process.returncode}: see calls.txt")
    require(rates and max(rates) > 0, "the MDSs counted nothing: the tree is too small")
    # Getting an attribute may cost an MDS a second operation: the lock's.
    require(max(rates) <= 2.2 * limit, f"an MDT was asked {max(rates):.0f} times a second")
    return f"at most {max(rates):.0f} operations a second at an MDT, limit {limit}"
