"""Files of the fake Lustre whose sizes an MDS knows lazily, with projects, and OSTs to be lost.

Like the running one that was looked at: of most files that were written shortly before, the MDS has
no blocks; of some a wrong length. A look that asks all servers gets what is true, or an error where
an OST of the file does not answer.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trimtab.purge.core_call import AskedFile, Exact
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    IndexSource,
    Lack,
    Manifest,
    Shard,
    TimeTrust,
)

DAY_S = 86_400
NOW_S = 20_000 * DAY_S
SEQUENCE = 0x2_0000_0402


@dataclass
class StaleFile:
    """One file: what is true of it, and what its MDT has been told."""

    number: int
    uid: int
    age_days: float
    size_bytes: int
    allocated_bytes: int
    mdt_size_bytes: int
    mdt_allocated_bytes: int
    project: int = 0
    ost: int = 0

    @property
    def fid(self) -> bytes:
        """Its identifier, as an index keeps it."""
        return SEQUENCE.to_bytes(8, "big") + self.number.to_bytes(4, "big") + bytes(4)


@dataclass
class StaleNamespace:
    """Files, and which OSTs do not answer."""

    files: dict[bytes, StaleFile]
    lost_osts: set[int] = field(default_factory=set)
    asked: int = 0

    def look(self, files: Sequence[AskedFile]) -> Sequence[Exact]:
        """Answer as all servers of each file do."""
        self.asked += len(files)
        return [self._exact(file) for file in files]

    def _exact(self, asked: AskedFile) -> Exact:
        file = self.files.get(asked.id)
        if file is None:
            return Exact(errno=errno.ENOENT)
        if file.ost in self.lost_osts:
            return Exact(errno=errno.ESHUTDOWN)
        return Exact(file.size_bytes, file.allocated_bytes, file.project)

    @property
    def listed_bytes(self) -> int:
        """What the MDTs have been told that all files take up."""
        return sum(file.mdt_allocated_bytes for file in self.files.values())

    @property
    def exact_bytes(self) -> int:
        """What they take up."""
        return sum(file.allocated_bytes for file in self.files.values())


def stale_namespace(
    files: int, *, seed: int, users: int = 5, without_blocks: float = 0.84, osts: int = 4
) -> StaleNamespace:
    """Return files with the sizes of a real file system, of which many are known wrongly."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.lognormal(10.0, 2.5, files), 2.0**36).astype(int)
    uids = 1000 + rng.zipf(1.6, files) % users
    ages = rng.exponential(120.0, files)
    # Who writes much has much that is stale: users and ages differ.
    share = np.clip(without_blocks * np.where(uids % 2, 1.0, 0.6) * np.exp(-ages / 2000), 0, 1)
    stale = rng.random(files) < share
    wrong_length = stale & (rng.random(files) < 0.1)
    made = {}
    for number in range(files):
        size = int(sizes[number])
        blocks = -(-size // 4096) * 4096
        file = StaleFile(
            number + 1, int(uids[number]), float(ages[number]), size, blocks,
            size // 2 if wrong_length[number] else size,
            0 if stale[number] else blocks,
            project=number % 7, ost=number % osts,
        )  # fmt: skip
        made[file.fid] = file
    return StaleNamespace(made)


def write_index(files: Iterable[StaleFile], directory: Path, *, root: bytes) -> Manifest:
    """Return the manifest of an index as a scan makes it, with what the MDTs have been told."""
    import polars as pl

    from trimtab.purge.index.shard import ShardWriter, columns, completed

    rows = list(files)
    times = [round((NOW_S - file.age_days * DAY_S) * 10**9) for file in rows]
    frame = pl.DataFrame(
        {
            "parent": [f"u{file.uid}".encode() for file in rows],
            "name": [f"f{file.number}".encode() for file in rows],
            "id": [file.fid for file in rows],
            "id_kind": ["fid"] * len(rows),
            "device": [7] * len(rows),
            "uid": [file.uid for file in rows],
            "gid": [100] * len(rows),
            "size_bytes": [file.mdt_size_bytes for file in rows],
            "allocated_bytes": [file.mdt_allocated_bytes for file in rows],
            "nlink": [1] * len(rows),
            **{name: times for name in ("atime_ns", "mtime_ns", "ctime_ns", "btime_ns")},
            "type": ["f"] * len(rows),
        }
    )
    kinds = columns()
    frame = frame.with_columns(pl.col(name).cast(kinds[name]) for name in frame.columns)
    directory.mkdir(parents=True, exist_ok=True)
    writer = ShardWriter(directory)
    writer.add(completed(frame, 0).with_columns(last_use_s=pl.lit(None, pl.Int64)))
    shards: tuple[Shard, ...] = writer.finish()
    return Manifest(
        index_id="0199", root=root, filesystem=FileSystemIdentity("lustre", "scratch"),
        source=IndexSource.SCAN, tool="fake",
        started_ns=(NOW_S - 60) * 10**9, ended_ns=NOW_S * 10**9,
        times=TimeTrust.MDS_ONLY, time_resolution_ns=1,
        lacking=frozenset({Lack.PROJECT, Lack.LAYOUT, Lack.POOL}), complete=True, shards=shards,
    )  # fmt: skip
