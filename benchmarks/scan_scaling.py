"""How a scan by workers of Dask scales where calls wait, and what it costs where none does.

Waiting: a FUSE mount answers each call half a millisecond late, or two. Workers are processes of
this host with one thread each for tasks; how many calls a worker has under way is `threads`. Two
cores are enough for eight of them, for they wait; the mount's own ceiling, without waiting, is
measured first, and how many calls it counted is in the result. Trees are as large as there are
workers, so that every scan takes about as long, and what each of them begins with weighs alike.
Again with `--calls-per-second`, and as a Lustre of three MDTs with `--calls-per-mdt` and without.

Local: a tree on the local disk, names in the cache, scanned by one process with two threads and by
two workers, in turns. Times are those of `scan_index` with everything that it does, manifest and
hashes too; workers have imported Trimtab before. `make bench-scale`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from benchmarks.namespace_scan import a_tree  # noqa: E402
from tests.support import waiting_fuse  # noqa: E402
from tests.support.dask_cluster import local_cluster  # noqa: E402
from tests.support.silent_fuse import why_not  # noqa: E402

from trimtab.purge.core_call import ScanLimits  # noqa: E402
from trimtab.purge.index import scan  # noqa: E402
from trimtab.purge.index.manifest import SizesMode  # noqa: E402
from trimtab.purge.index.scan import ScanOptions, scan_index  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "scan_scaling.json"
LEAST_OF_LINEAR: Final = 0.85
MOST_OF_SINGLE: Final = 1.15
WORKERS: Final = (1, 2, 4, 8)
WAITS: Final = ((0.0005, 1, 250), (0.002, 4, 250))
"""Seconds that a call waits, calls that a worker has under way, directories of a hundred files for
each worker."""
LIMIT: Final = (0.002, 4, 100, 3000.0)
"""The same, and the calls a second of the whole scan: about what two workers take without it."""
MDTS: Final = (0.001, 100, 3, 2000.0)
"""The same for a Lustre: seconds a call, directories of each MDT, MDTs, calls a second to each."""
FILES: Final = 100


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--only", choices=[*PARTS], nargs="+", default=[*PARTS])
    parser.add_argument("--files", type=int, default=3_000_000, help="Of the local tree.")
    parser.add_argument("--turns", type=int, default=5, help="Of the local comparison.")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-scale")
    asked = parser.parse_args()
    if (reason := why_not()) is not None:
        parser.error(reason)
    asked.directory.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result: dict[str, Any] = {
        "what": "a scan by workers of Dask: rates where calls wait, time where they do not",
        **{name: kept[name] for name in PARTS if name in kept},
    }
    for name in asked.only:
        result[name] = {**measured_on(), **PARTS[name](asked)}
        print(json.dumps({name: result[name]}, indent=2), flush=True)
        if not asked.no_write:
            RESULT.write_text(json.dumps(result, indent=2) + "\n")


@contextmanager
def workers_with_trimtab(count: int) -> Iterator[str]:
    """Yield the address of a scheduler whose workers have imported what a scan needs."""
    from distributed import Client

    with local_cluster(count) as cluster:
        with Client(cluster.address, set_as_default=False) as client:
            client.run(_imported)
        yield cluster.scheduler_file


def _imported() -> None:
    import trimtab.purge.index.scan_workers

    assert trimtab._core


@contextmanager
def mounted(
    asked: argparse.Namespace, wait_s: float, directories: int, *, mdts: int = 0
) -> Iterator[Any]:
    """Yield a mount that waits, new, so that the kernel knows no name of it."""
    with tempfile.TemporaryDirectory(dir=asked.directory) as point:
        terms = {"wait_s": wait_s, "directories": directories, "files": FILES, "mdts": mdts}
        with waiting_fuse.waiting_mount(waiting_fuse.build(), Path(point), **terms) as mount:
            yield mount


def scanned(root: Path, asked: argparse.Namespace, entries: int | None, **terms: Any) -> float:
    """Return how long a scan took; raise where it has not every name once."""
    with tempfile.TemporaryDirectory(dir=asked.directory) as place:
        began_s = time.monotonic()
        manifest = scan_index(str(root), Path(place) / "i", ScanOptions(**terms), version="0")
        elapsed_s = time.monotonic() - began_s
    rows = sum(shard.rows for shard in manifest.shards)
    if not manifest.complete or (entries is not None and rows != entries):
        raise RuntimeError(f"{rows} names instead of {entries}")
    return elapsed_s


def ceiling(asked: argparse.Namespace) -> dict[str, Any]:
    """Return how many calls a second the mount answers where none waits."""
    subprocess.run(
        ["cargo", "build", "--release", "--package", "namespace", "--example", "bare_walk",
         "--locked", "--quiet"], cwd=ROOT, check=True,
    )  # fmt: skip
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "bare_walk"
    with mounted(asked, 0.0, 1000) as mount:
        began_s = time.monotonic()
        argv = [str(program), str(mount.point), "32"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        elapsed_s = time.monotonic() - began_s
    return {"calls": mount.calls, "calls_per_s": round(mount.calls / elapsed_s)}


def waiting(asked: argparse.Namespace) -> dict[str, Any]:
    """Return names a second by workers, for each wait."""
    return {
        "files_a_directory": FILES,
        "least_of_linear": LEAST_OF_LINEAR,
        "waits": [
            {
                "wait_ms": wait_s * 1000,
                "threads": threads,
                "workers": with_workers(asked, wait_s, directories, threads=threads),
            }
            for wait_s, threads, directories in WAITS
        ],
    }


def limited(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the same with a limit of calls a second, which the mount counts."""
    wait_s, threads, directories, calls_per_s = LIMIT
    measured = with_workers(
        asked, wait_s, directories, threads=threads, limits=ScanLimits(calls_per_s)
    )
    terms = {"threads": threads, "calls_per_s": calls_per_s}
    return {"wait_ms": wait_s * 1000, **terms, "workers": measured}


def with_workers(
    asked: argparse.Namespace, wait_s: float, directories: int, **terms: Any
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for count in WORKERS:
        with (
            workers_with_trimtab(count) as dask,
            mounted(asked, wait_s, directories * count) as mount,
        ):
            elapsed_s = scanned(mount.point, asked, mount.entries, dask=dask, **terms)
        rows.append(
            {
                "workers": count,
                "entries": mount.entries,
                "elapsed_s": round(elapsed_s, 2),
                "entries_per_s": round(mount.entries / elapsed_s),
                "calls": mount.calls,
                "most_calls_in_a_second": mount.most_calls_in_a_second,
            }
        )
        per_s = rows[0]["entries"] / rows[0]["elapsed_s"]
        rows[-1]["of_linear"] = round(mount.entries / elapsed_s / count / per_s, 3)
        rows[-1]["load_average"] = round(os.getloadavg()[0], 1)
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def by_mdt(asked: argparse.Namespace) -> dict[str, Any]:
    """Return how alike the MDTs of a Lustre are asked, which the mount counts."""
    wait_s, directories, mdts, calls_per_mdt_s = MDTS
    rows = []
    for count, limit in itertools.product(WORKERS[:3], (None, calls_per_mdt_s)):
        terms = {"sizes": SizesMode.LAZY, "limits": ScanLimits(calls_per_mdt_s=limit)}
        with (
            workers_with_trimtab(count) if count > 1 else nullcontext() as dask,
            mounted(asked, wait_s, directories * mdts, mdts=mdts) as mount,
            patch.object(scan, "root_facts", waiting_fuse.facts_as_of_lustre),
        ):
            threads = 4 if dask else 6 * mdts
            scanned(mount.point, asked, mount.entries, dask=dask, threads=threads, **terms)
        rows.append(
            {
                "workers": count,
                "calls_per_mdt_s": limit,
                "calls": mount.calls,
                "most_in_a_second": mount.most_of_mdts,
                "longest_lead_of_calls": round(mount.longest_lead / mount.calls, 4),
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return {"wait_ms": wait_s * 1000, "mdts": mdts, "scans": rows}


def local(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what two workers take of the time of one process with two threads."""
    tree = a_tree(asked.directory / f"tree-{asked.files}", asked.files)
    taken: dict[str, list[float]] = {"single": [], "workers": []}
    with workers_with_trimtab(2) as dask:
        scanned(tree, asked, None, threads=2)  # names are in the cache for all that follow
        for turn in range(asked.turns):
            both = [("single", {"threads": 2}), ("workers", {"dask": dask})]
            for name, terms in both if turn % 2 else reversed(both):
                taken[name].append(round(scanned(tree, asked, None, **terms), 2))
    ratios = [one / other for one, other in zip(taken["workers"], taken["single"], strict=True)]
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {
        "files": asked.files,
        "most_of_single": MOST_OF_SINGLE,
        "elapsed_s": taken,
        "median_s": medians,
        "of_single": round(medians["workers"] / medians["single"], 3),
        "of_single_in_turns": [round(ratio, 3) for ratio in ratios],
    }


PARTS: Final = {
    "ceiling": ceiling, "waiting": waiting, "limited": limited, "by_mdt": by_mdt, "local": local
}  # fmt: skip

if __name__ == "__main__":
    main()
