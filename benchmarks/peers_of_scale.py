"""A scan beside dwalk, and a tally beside DuckDB and Polars: `make bench-peers`.

Peers are what is installed: `--dwalk` names that program of mpiFileUtils (two MPI ranks, the list
written to a file as a scan writes its shards). DuckDB and Polars have an environment of their own
(`peers/requirements.txt`). Each is a whole process, one after the other in turns over the same
tree or the same shards; a figure is the median of the turns. The tally makes the curve by hour
and that of each user by day at once, which also tell the bytes of each user and of what is older
than a cut-off; of the peers each query is measured alone. A ratio above 1 says that Trimtab is
faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from benchmarks.namespace_scan import SCAN, a_tree  # noqa: E402
from benchmarks.namespace_tally import build  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "peers_of_scale.json"
DUCKDB = """
import sys, time
import duckdb
shards, query, cut = sys.argv[1] + "/*.parquet", sys.argv[2], int(sys.argv[3])
last = "greatest(atime_ns, mtime_ns, ctime_ns)"
by, where = {
    "hour": (f"{last} // 3600000000000", ""),
    "user_and_day": (f"uid, {last} // 86400000000000", ""),
    "user": ("uid", ""),
    "horizon": ("uid", f"AND {last} < {cut}"),
}[query]
duckdb.execute("SET threads TO 2; SET enable_progress_bar TO false")
begun = time.perf_counter()
rows = duckdb.execute(f'''
    SELECT {by}, count(*), sum(allocated_bytes) FROM read_parquet('{shards}')
    WHERE type = 'f' {where} GROUP BY ALL''').fetchall()
print('{"rows": %d, "elapsed_s": %.3f}' % (len(rows), time.perf_counter() - begun))
"""
POLARS = """
import pathlib, sys, time
import polars as pl
shards = sorted(pathlib.Path(sys.argv[1]).glob("*.parquet"))
query, cut = sys.argv[2], int(sys.argv[3])
last = pl.max_horizontal("atime_ns", "mtime_ns", "ctime_ns")
by = {
    "hour": [(last // 3_600_000_000_000).alias("bucket")],
    "user_and_day": ["uid", (last // 86_400_000_000_000).alias("bucket")],
    "user": ["uid"],
    "horizon": ["uid"],
}[query]
begun = time.perf_counter()
frame = pl.scan_parquet(shards).filter(pl.col("type") == "f")
if query == "horizon":
    frame = frame.filter(last < cut)
sums = frame.group_by(by).agg(pl.len(), pl.col("allocated_bytes").sum())
rows = sums.collect(engine="streaming").height
print('{"rows": %d, "elapsed_s": %.3f}' % (rows, time.perf_counter() - begun))
"""
QUERIES = ("hour", "user_and_day", "user", "horizon")
CUT_NS = 1_700_000_000 * 10**9
"""Of the horizon: files last used before 2023-11-14."""


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--dwalk", type=Path, help="Program of mpiFileUtils; without it no scans.")
    parser.add_argument("--python", type=Path, help="Interpreter with DuckDB and Polars.")
    parser.add_argument("--files", type=int, default=1_000_000, help="Of the tree.")
    parser.add_argument("--rows", type=int, default=100_000_000, help="Of the index.")
    parser.add_argument("--index", type=Path, help="Shards that are there; none are written.")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-scale")
    asked = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result["what"] = "a scan and a tally beside programs that do the same; medians of whole turns"
    asked.directory.mkdir(parents=True, exist_ok=True)
    parts = {"scan": (asked.dwalk, scans), "tally": (asked.python, tallies)}
    for name, (peer, measure) in parts.items():
        if peer is not None:
            result[name] = {**measured_on(), **measure(asked)}
            print(json.dumps({name: result[name]}, indent=2), flush=True)
            if not asked.no_write:
                RESULT.write_text(json.dumps(result, indent=2) + "\n")


def in_turns(contenders: dict[str, Callable[[], float]], turns: int) -> dict[str, Any]:
    """Return the times of each, and how much longer the others take than the first."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns):
        for name in contenders if turn % 2 else reversed(contenders):
            taken[name].append(round(contenders[name](), 2))
            print(json.dumps({name: taken[name][-1]}), file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    ours, *others = contenders
    return {
        "elapsed_s": taken,
        "median_s": medians,
        "faster_than": {name: round(medians[name] / medians[ours], 2) for name in others},
    }


def scans(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what a scan and dwalk take for the same tree, names in the cache."""
    tree = a_tree(asked.directory / f"tree-{asked.files}", asked.files)
    mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]

    def timed(argv: list[str]) -> float:
        began_s = time.monotonic()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - began_s

    def scan() -> float:
        with tempfile.TemporaryDirectory(dir=asked.directory) as place:
            return timed([sys.executable, "-c", SCAN, str(tree), f"{place}/i", "2", "0"])

    def dwalk() -> float:
        with tempfile.TemporaryDirectory(dir=asked.directory) as place:
            return timed([*mpi, str(asked.dwalk), "--output", f"{place}/list.mfu", str(tree)])

    scan()
    return {"files": asked.files, **in_turns({"scan": scan, "dwalk": dwalk}, asked.turns)}


def tallies(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what a tally, DuckDB and Polars take for the same shards in the page cache."""
    programs = build()
    with tempfile.TemporaryDirectory(dir=asked.directory) as place:
        index = str(asked.index or place)
        if asked.index is None:
            subprocess.run([programs["synthetic_index"], place, str(asked.rows)], check=True)

        def told(*argv: str | Path) -> Callable[[], float]:
            def run() -> float:
                printed = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
                return float(json.loads(printed)["elapsed_s"])

            return run

        python = str(asked.python)
        contenders = {"tally": told(programs["tally_index"], index, str(os.cpu_count()))}
        for name, text in (("polars", POLARS), ("duckdb", DUCKDB)):
            for query in QUERIES:
                argv = (python, "-c", text, index, query, str(CUT_NS))
                contenders[f"{name}_by_{query}"] = told(*argv)
        versions = subprocess.run(
            [python, "-c", "import duckdb, polars; print(duckdb.__version__, polars.__version__)"],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout.split()  # fmt: skip
        return {
            "rows": asked.rows,
            "versions": dict(zip(("duckdb", "polars"), versions, strict=True)),
            **in_turns(contenders, asked.turns),
        }


if __name__ == "__main__":
    main()
