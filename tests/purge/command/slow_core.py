"""The core of a purge in slow and obvious Python: what the commands are tried on without Rust.

It looks at files one by one with `os.lstat`, judges them by the words of the rules and removes
them with `os.unlink`; it guards against no attacker.
``python -m tests.purge.command.slow_core ...`` is ``trimtab ...`` on top of it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from tests.purge.index.trees import row_of

from trimtab.base.error import RefusedError

NS = 10**9
CODES = (
    "deleted", "would_delete", "gone", "touched", "changed_owner", "changed_type", "not_same",
    "other_links", "exempt", "too_young", "failed",
)  # fmt: skip
OUTCOMES = dict(enumerate(CODES))
_SAME = (("type", "changed_type"), ("id", "not_same"), ("uid", "changed_owner"))
_CODE = {name: code for code, name in OUTCOMES.items()}


class Rules:
    """Which file may be deleted."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def last_use_s(self, row: dict[str, Any]) -> int | None:
        times = [row[f"{name}_ns"] for name in self.counted]
        if any(one is None for one in times):
            return None
        return min(max(times) // NS, self.as_of_s)

    def judge(self, row: dict[str, Any]) -> str | int:
        path = (row["parent"] + b"/" if row["parent"] else b"") + row["name"]
        last = self.last_use_s(row)
        for holds, reason in (
            (row["type"] != "f", "not_regular"),
            (any(_beneath(path, top) for top in self.exempt_paths), "exempt_path"),
            (row["uid"] in self.exempt_users, "exempt_user"),
            (row["gid"] in self.exempt_groups, "exempt_group"),
            (row.get("project") in self.exempt_projects, "exempt_project"),
            (row["nlink"] != 1 and not self.linked, "other_links"),
            (row["size_bytes"] < self.minimum_size_bytes, "too_small"),
            (last is None, "time_unknown"),
        ):
            if holds:
                return reason
        assert last is not None
        return "too_young" if last >= self.old_enough_before_s else last


def _beneath(path: bytes, top: bytes) -> bool:
    return not top or path == top or path.startswith(top + b"/")


@dataclass
class Seen:
    """How far a scan is, and what it came to."""

    entries: int = 0
    directories: int = 0
    pending: int = 0
    vanished: int = 0
    unread: Any = 0
    allocated_bytes: int = 0
    elapsed_s: float = 0.0
    started_ns: int = 0
    ended_ns: int = 0
    shards: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    elsewhere: int = 0
    unread_count: int = 0
    stopped: bool = False


class NamespaceScan:
    """Every name beneath a root, into one shard."""

    def __init__(self, root: str, index: str, **_given: Any) -> None:
        self.root, self.index, self.seen = os.fsencode(root), Path(index), Seen()

    def start(self) -> None:
        from trimtab.purge.index.shard import ShardWriter, fill

        self.seen.started_ns = time.time_ns()
        rows = list(_rows(self.root, self.seen))
        schema = {"parent": pl.Binary, "name": pl.Binary, "id": pl.Binary}
        frame = pl.DataFrame(rows, schema_overrides=schema) if rows else None
        shards = fill(ShardWriter(self.index), [] if frame is None else [frame])
        self.seen.shards = tuple(shard.name for shard in shards)
        self.seen.rows = tuple(shard.rows for shard in shards)
        self.seen.entries, self.seen.ended_ns = len(rows), time.time_ns()

    def stop(self) -> None:
        self.seen.stopped = True

    def wait(self, timeout_s: float) -> bool:
        return True

    def progress(self) -> Seen:
        return self.seen

    def result(self) -> Any:
        return type("Result", (), {**self.seen.__dict__, "unread": []})


def _rows(root: bytes, seen: Seen) -> Iterator[dict[str, Any]]:
    device = os.lstat(root).st_dev
    for parent, directories, files in os.walk(root):
        seen.directories += 1
        for name in (*directories, *files):
            status = os.lstat(parent + b"/" + name)
            if status.st_dev == device:
                yield row_of(status, os.path.relpath(parent, root), name)
        directories[:] = [d for d in directories if os.lstat(parent + b"/" + d).st_dev == device]


def _of(shards: Sequence[str]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        yield from pl.read_parquet(shard, glob=False).iter_rows(named=True)


class Tally:
    """What may be deleted, by time."""

    def __init__(self, shards: Sequence[str], rules: Rules) -> None:
        self.files = self.allocated_bytes = self.future_files = 0
        self.latest_future_s = None
        self._kept: Counter[str] = Counter()
        self._kept_bytes: Counter[str] = Counter()
        self._eligible: list[tuple[int, int, int, int | None]] = []
        linked = set()
        for row in _of(shards):
            if row["type"] == "f":
                if row["nlink"] > 1 and row["id"] in linked:
                    continue
                linked.add(row["id"])
                self.files += 1
                self.allocated_bytes += row["allocated_bytes"]
                self._future(row, rules)
            found = rules.judge(row)
            if isinstance(found, str):
                self._kept[found] += 1
                self._kept_bytes[found] += row["allocated_bytes"]
            else:
                here = (found, row["uid"], row["allocated_bytes"], row.get("project"))
                self._eligible.append(here)

    def _future(self, row: dict[str, Any], rules: Rules) -> None:
        latest = max(row[f"{name}_ns"] or 0 for name in rules.counted) // NS
        if latest > rules.as_of_s:
            self.future_files += 1
            self.latest_future_s = max(self.latest_future_s or latest, latest)

    def kept(self) -> dict[str, tuple[int, int]]:
        return {one: (count, self._kept_bytes[one]) for one, count in self._kept.items()}

    def hours(self) -> tuple[bytes, bytes, bytes]:
        return _buffers((at // 3600, size) for at, _, size, _ in self._eligible)

    def users(self) -> list[int]:
        return sorted({uid for _, uid, _, _ in self._eligible})

    def projects(self) -> list[int]:
        return sorted({one for *_, one in self._eligible if one is not None})

    def osts(self) -> list[int]:
        return []

    def days_of_user(self, uid: int) -> tuple[bytes, bytes, bytes]:
        return _buffers((at // 86400, size) for at, who, size, _ in self._eligible if who == uid)

    def days_of_project(self, project: int) -> tuple[bytes, bytes, bytes]:
        mine = (one for one in self._eligible if one[3] == project)
        return _buffers((at // 86400, size) for at, _, size, _ in mine)


def _buffers(pairs: Iterator[tuple[int, int]]) -> tuple[bytes, bytes, bytes]:
    files: defaultdict[int, int] = defaultdict(int)
    sizes: defaultdict[int, int] = defaultdict(int)
    for at, size in pairs:
        files[at] += 1
        sizes[at] += size
    order = sorted(files)
    return (
        np.array(order, np.int64).tobytes(),
        np.array([files[at] for at in order], np.uint64).tobytes(),
        np.array([sizes[at] for at in order], np.uint64).tobytes(),
    )


def tally(shards: Sequence[str], rules: Rules, **_given: Any) -> Tally:
    return Tally(shards, rules)


def select(
    shards: Sequence[str], rules: Rules, *, before_s: int, out: str, **_given: Any
) -> tuple[int, int]:
    from trimtab.purge.index.shard import columns

    chosen = []
    for row in _of(shards):
        found = rules.judge(row)
        if isinstance(found, int) and found < before_s:
            chosen.append({**row, "last_use_s": found})
    chosen.sort(key=lambda row: (row["last_use_s"], row["parent"], row["name"]))
    frame = pl.DataFrame(chosen, schema=pl.Schema(columns()))
    frame.write_parquet(out)
    Path(out).chmod(0o600)
    return len(chosen), sum(row["allocated_bytes"] for row in chosen)


@dataclass
class Batch:
    """What became of some rows."""

    outcomes: bytes
    freed_bytes: int
    deleted: int
    elapsed_s: float = 0.01
    latency_s_median: float = 0.0001
    latency_s_p99: float = 0.0002
    errors: tuple[tuple[int, int], ...] = ()
    unexplained: tuple[bytes, ...] = ()


def parts_of(_path: Path, descriptor: int) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """Return hashes as if all rows were one group, and the last four bytes the footer."""
    data = os.pread(descriptor, 2**30, 0)
    rows = pl.read_parquet(data).height
    cut = data[:-4], data[-4:]
    hashes = [hashlib.sha256(part).digest() for part in (data, *cut)]
    return hashes[0], [(rows, len(cut[0]), hashes[1]), (0, len(cut[1]), hashes[2])]


class Candidates:
    """The rows of a plan, all verified at once."""

    def __init__(
        self, path: Path, *, descriptor: int, parts: Sequence[tuple[int, int, bytes]]
    ) -> None:
        if parts_of(path, descriptor)[1] != list(parts):
            raise RefusedError("they are not what was signed", code="candidates-changed")
        self.frame = pl.read_parquet(os.pread(descriptor, 2**30, 0))
        self.rows = self.frame.height

    def listed(self, first: int, count: int) -> tuple[bytes, bytes]:
        rows = self.frame.slice(first, count)
        uids = rows["uid"].to_numpy().astype(np.uint32)
        return uids.tobytes(), rows["allocated_bytes"].to_numpy().astype(np.uint64).tobytes()


class Removal:
    """Rows of a plan, checked and removed one by one."""

    def __init__(
        self, candidates: Candidates, root: str, rules: Rules, *, before_s: int, **_given: Any
    ) -> None:
        self.root, self.rules, self.before_s = os.fsencode(root), rules, before_s
        self._rows = candidates.frame.to_dicts()
        self.rows = len(self._rows)
        self.watches = None

    def check(self, first: int, count: int) -> Batch:
        return self._asked(first, count, delete=False)

    def delete(self, first: int, count: int, until_s: float | None = None) -> Batch:
        assert until_s is None, "who is alone has no lease"
        return self._asked(first, count, delete=True)

    def recover(self, first: int, count: int) -> Batch:
        return self._asked(first, count, delete=True)

    def sweep(self) -> tuple[list[tuple[int, int]], list[bytes]]:
        return [], []

    def _asked(self, first: int, count: int, *, delete: bool) -> Batch:
        found = [self._one(row, delete) for row in self._rows[first : first + count]]
        codes = bytes(_CODE[name] for name, _ in found)
        deleted = sum(name == "deleted" for name, _ in found)
        return Batch(codes, sum(size for _, size in found), deleted)

    def _one(self, row: dict[str, Any], delete: bool) -> tuple[str, int]:
        path = b"/".join(part for part in (self.root, row["parent"], row["name"]) if part)
        try:
            status = os.lstat(path)
        except OSError as error:
            return ("gone" if error.errno in (errno.ENOENT, errno.ENOTDIR) else "failed"), 0
        now = row_of(status, row["parent"], row["name"])
        for name, outcome in _SAME:
            if now[name] != row[name]:
                return outcome, 0
        counted = [f"{name}_ns" for name in self.rules.counted]
        if any(now[name] != row[name] for name in counted):
            return "touched", 0
        judged = self.rules.judge(now)
        if isinstance(judged, str):
            return judged if judged in ("other_links", "too_young") else "exempt", 0
        if judged >= self.before_s:
            return "too_young", 0
        if not delete:
            return "would_delete", 0
        Path(os.fsdecode(path)).unlink()
        return "deleted", status.st_blocks * 512


def install() -> None:
    """Put these in the place of the core's own."""
    try:
        import trimtab._core as core
    except ModuleNotFoundError:  # not built
        core = sys.modules["trimtab._core"] = ModuleType("trimtab._core")
    for name, value in {
        "Rules": Rules, "NamespaceScan": NamespaceScan, "tally": tally, "Tally": Tally,
        "select": select, "Candidates": Candidates, "parts_of": parts_of, "Removal": Removal,
        "REMOVAL_OUTCOMES": OUTCOMES,
    }.items():  # fmt: skip
        setattr(core, name, value)


if __name__ == "__main__":
    from trimtab.cli import main

    install()
    main(sys.argv[1:])
