"""The index of a file system that does not exist, and the record of its growth."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.purge_case import case
from benchmarks.purge_case.case import Mix
from benchmarks.purge_case.places import Places, cost, document, taken

from trimtab.base.event import new_identifier
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    IndexSource,
    Lack,
    Manifest,
    Shard,
    TimeTrust,
)
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.site.lookup import open_store

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAM = "synthetic_index"
SHARD_ROWS = 4_000_000


def build() -> Path:
    """Return the program that writes indexes, built as it is released."""
    argv = ["cargo", "build", "--release", "--package", "namespace", "--locked"]
    subprocess.run([*argv, "--example", PROGRAM], cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    return target / "release" / "examples" / PROGRAM


def make_index(program: Path, places: Places, directory: Path, rows: int, mix: Mix) -> dict:
    """Write an index whose scan ended an hour ago, and return what that took."""
    directory.mkdir(mode=0o700)
    ended_s = int(time.time()) - 3600
    told = taken(
        [
            *(str(program), str(directory), str(rows), "1"),
            *(f"bytes={case.USED_BYTES}", f"users={case.USERS}"),
            *(f"even-users={case.EVEN_USERS}", f"as-of={ended_s}"),
            *mix.arguments(),
        ]
    )
    made = document(told)
    save_manifest(_manifest(places, directory, rows, ended_s), directory)
    return {"rows": rows, "bytes": made["bytes"], "shards": made["shards"], **cost(told)}


def _manifest(places: Places, directory: Path, rows: int, ended_s: int) -> Manifest:
    files = sorted(directory.glob("*.parquet"))
    counts = [min(SHARD_ROWS, rows - place * SHARD_ROWS) for place in range(len(files))]
    return Manifest(
        index_id=new_identifier(datetime.now(UTC)),
        root=os.fsencode(places.root),
        filesystem=FileSystemIdentity("lustre", "scratch"),
        source=IndexSource.PARQUET,
        tool="synthetic",
        started_ns=(ended_s - 3600) * 10**9,
        ended_ns=ended_s * 10**9,
        times=TimeTrust.EXACT_NS,
        time_resolution_ns=1,
        lacking=frozenset({Lack.LAYOUT, Lack.POOL}),
        complete=True,
        shards=tuple(
            Shard(file.name, count, file.stat().st_size, None)
            for file, count in zip(files, counts, strict=True)
        ),
        atime_settings={},
    )


def keep_growth(places: Places) -> dict[str, Any]:
    """Put the use of the last months into the site's store: assumed, and said to be."""
    draw = np.random.default_rng(1)
    # Lognormal days with this mean: most are small, and now and then one is large.
    sigma = float(np.sqrt(np.log(1 + case.GROWTH_SPREAD**2)))
    days = draw.lognormal(-(sigma**2) / 2, sigma, case.GROWTH_DAYS) * case.GROWTH_BYTES_PER_DAY
    used = case.USED_BYTES - np.append(np.cumsum(days[::-1])[::-1], 0)
    now = datetime.now(UTC).replace(microsecond=0)
    with open_store(str(places.store), create=True) as store:
        for back, bytes_used in enumerate(used[::-1]):
            store.add_snapshot("scratch", _snapshot(now - timedelta(days=back), int(bytes_used)))
    return {"days": case.GROWTH_DAYS, "bytes_per_day": case.GROWTH_BYTES_PER_DAY}


def _snapshot(at: datetime, used_bytes: int) -> Snapshot:
    readings = tuple(
        Reading(name, value, source="assumed")
        for name, value in (
            ("used_bytes", used_bytes),
            ("available_bytes", case.CAPACITY_BYTES - used_bytes),
        )
    )
    target = TargetSnapshot(Target("/scratch", "file-system"), readings)
    return Snapshot(at, "local", True, (target,))
