"""How long a run takes until its first file may be deleted: candidates hashed whole, or by group.

A plan of ten million rows is selected, frozen and signed as a site's is. Then, in turns, its file
is hashed whole before it is opened, and opened with its footer and the first row group verified, as
runs do; both up to the answer about the first rows, by the checks
of a deletion. With a cold cache the kernel has none of the file. How much is read is told by
``/proc/self/io``. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.purge.plan.making import BEFORE_S, KEY, draft  # noqa: E402

from trimtab import _core  # noqa: E402
from trimtab.purge.plan.candidate import hashes_of  # noqa: E402
from trimtab.purge.plan.plan_directory import (  # noqa: E402  # noqa: E402
    LoadedPlan,
    freeze,
    load_plan,
    open_candidates,
    staging,
)
from trimtab.purge.run.rows import Rows  # noqa: E402
from trimtab.purge.run.situation import CandidatesListing  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "plan_by_groups.json"
SHARD_ROWS = 1_000_000
FIRST_ROWS = 40
SEED = 20261124


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-plan")
    asked = parser.parse_args()
    shutil.rmtree(asked.directory, ignore_errors=True)
    (asked.directory / "root").mkdir(parents=True)
    try:
        plan = planned(asked.directory, asked.rows)
        result = {
            "what": "seconds until a run may delete its first file, by what is verified before",
            **measured_on(),
            **measured(plan, asked.directory / "root", asked.turns),
        }
    finally:
        shutil.rmtree(asked.directory)
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def planned(directory: Path, rows: int) -> LoadedPlan:
    """Return a plan of so many rows, selected by the core from shards."""
    shards = []
    for first in range(0, rows, SHARD_ROWS):
        shards.append(directory / f"{first}.parquet")
        write_shard(shards[-1], first, min(SHARD_ROWS, rows - first))
    with staging(directory / "plan") as staged:
        _core.select(shards, rules(), before_s=BEFORE_S, out=staged.candidates)
        for shard in shards:
            shard.unlink()
        freeze(draft(), staged, key=KEY)
    return load_plan(directory / "plan", KEY, candidates=False)


def rules() -> _core.Rules:
    """Return rules that let everything go."""
    return _core.Rules(
        counted=["mtime"], as_of_s=BEFORE_S, old_enough_before_s=BEFORE_S, minimum_size_bytes=0,
        exempt_paths=[], exempt_users=[], exempt_groups=[], exempt_projects=[], linked=False,
    )  # fmt: skip


def write_shard(path: Path, first: int, rows: int) -> None:
    """Write files of 100 a directory, with names, owners, sizes and times of a simulation's."""
    import numpy as np
    import polars as pl

    chance = np.random.default_rng(SEED + first)
    number = np.arange(first, first + rows)
    used_s = chance.integers(BEFORE_S - 200 * 86400, BEFORE_S - 1, rows // 100 + 1)
    mtime_ns = np.repeat(used_s, 100)[:rows] * 10**9 + chance.integers(0, 10**9, rows)
    size = chance.integers(1, 2**32, rows, dtype=np.uint64)
    ids = b"".join(int(inode).to_bytes(16, "big") for inode in number + 2**33)
    frame = pl.DataFrame({"number": number}).select(
        parent=pl.format("p{}/run-{}/output", pl.col("number") // 10**5, pl.col("number") // 100),
        name=pl.format("field_{}.h5", pl.col("number")),
        id=pl.Series([ids[at : at + 16] for at in range(0, len(ids), 16)], dtype=pl.Binary),
        id_kind=pl.lit("inode"),
        device=pl.lit(2049, pl.UInt64),
        uid=(pl.col("number") // 10**5 % 1000 + 1000).cast(pl.UInt32),
        gid=pl.lit(1000, pl.UInt32),
        size_bytes=pl.Series(size),
        allocated_bytes=pl.Series((size + 4095) // 4096 * 4096),
        nlink=pl.lit(1, pl.UInt32),
        atime_ns=pl.Series(mtime_ns),
        mtime_ns=pl.Series(mtime_ns),
        ctime_ns=pl.Series(mtime_ns),
        btime_ns=pl.Series(mtime_ns),
        type=pl.lit("f"),
    )
    frame.with_columns(pl.col("parent", "name").cast(pl.Binary)).write_parquet(path)


def measured(plan: LoadedPlan, root: Path, turns: int) -> dict[str, object]:
    """Return seconds and bytes read of either way, with and without the file in memory."""
    ways = {"whole": lambda: whole(plan, root), "by_group": lambda: begun(plan, root)}
    figures: dict[str, object] = {
        "rows": plan.plan.candidates.files,
        "row_groups": len(plan.plan.candidates.parts) - 1,
        "candidates_bytes": plan.candidates.stat().st_size,
        "plan_json_bytes": (plan.directory / "plan.json").stat().st_size,
        "turns": turns,
        "hashes_of_a_plan_s": round(timed(lambda: hashed(plan))[0], 3),
    }
    for cache in ("cold", "warm"):
        taken: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
        for _ in range(turns):
            for name, way in ways.items():
                if cache == "cold":
                    forget(plan.candidates)
                taken[name].append(timed(way))
        figures[cache] = {
            name: {
                "seconds": round(statistics.median(s for s, _ in of_way), 3),
                "read_bytes": round(statistics.median(size for _, size in of_way)),
            }
            for name, of_way in taken.items()
        }
    return figures


def whole(plan: LoadedPlan, root: Path) -> None:
    """Hash all candidates, then begin."""
    load_plan(plan.directory, KEY)
    begun(plan, root)


def begun(plan: LoadedPlan, root: Path) -> None:
    """Go as far as a run does before it deletes its first rows."""
    loaded = load_plan(plan.directory, KEY, candidates=False)
    candidates = open_candidates(loaded)
    CandidatesListing(candidates, loaded.plan.candidates.files).listed(Rows(0, FIRST_ROWS))
    removal = _core.Removal(candidates, root, rules(), before_s=BEFORE_S, quarantine=".quarantine")
    if {_core.REMOVAL_OUTCOMES[code] for code in removal.check(0, FIRST_ROWS).outcomes} != {"gone"}:
        raise RuntimeError("files that nobody made are there")


def hashed(plan: LoadedPlan) -> None:
    """Hash a file of candidates as a plan is made: whole, and each part."""
    descriptor = os.open(plan.candidates, os.O_RDONLY)
    try:
        if hashes_of(plan.candidates, descriptor).parts != plan.plan.candidates.parts:
            raise RuntimeError("the candidates have changed")
    finally:
        os.close(descriptor)


def timed(way: Callable[[], None]) -> tuple[float, int]:
    """Return the seconds that something takes, and the bytes that it reads by system calls."""
    before, started = read_bytes(), time.monotonic()
    way()
    return time.monotonic() - started, read_bytes() - before


def read_bytes() -> int:
    """Return how much this process has read by system calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


def forget(path: Path) -> None:
    """Have the kernel drop the pages of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


if __name__ == "__main__":
    main()
