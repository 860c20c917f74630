"""A tally of 10^9 rows by workers of Dask beside the one of one process: `make bench-workers`.

The curve of the whole and of each user, over a synthetic index of 10^8 rows whose shards are read
several times: what is read, decoded and merged is that of so many rows, but their files are in the
page cache. One process with a thread for each processor and a Dask cluster with as many workers run
in turns; the merged answer is compared with the single one. Memory is the most that any worker had.

Then the terms of a model, in processor time, which other work on the machine does not change: what
one task takes, how large a state is and what it takes to merge, and what client and scheduler
take for a task without work. `model` says what follows for other sites, by these terms alone. What
Dask adds to tasks of a second is by the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from benchmarks.namespace_tally import build  # noqa: E402
from tests.support.dask_cluster import local_cluster  # noqa: E402

from trimtab.purge.index.dask_pieces import PIECE_BYTES, TallyPart, merged_tally  # noqa: E402
from trimtab.purge.index.manifest import IndexSource, Lack, Manifest, TimeTrust  # noqa: E402
from trimtab.purge.purge_policy import Policy  # noqa: E402
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force  # noqa: E402
from trimtab.reach.dask_worker import answering  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "index_by_workers.json"
MOST_OF_SINGLE: Final = 1.3
MOST_BYTES_A_WORKER: Final = 2**30
MOST_OVERHEAD: Final = 0.05
DAY_S: Final = 86_400
SINGLE = """
import pickle, sys, time
part = pickle.loads(sys.stdin.buffer.read())
began_s = time.perf_counter()
tally = part.answer()
print(time.perf_counter() - began_s, tally.files, tally.allocated_bytes)
"""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A task that does nothing for so long."""

    seconds: float

    def answer(self) -> int:
        """Return the process that waited."""
        time.sleep(self.seconds)
        return os.getpid()


@dataclass(frozen=True, slots=True)
class Memory:
    """Returns the most memory that a worker had."""

    number: int

    def answer(self) -> tuple[int, int]:
        """Return its process and bytes."""
        time.sleep(0.5)
        text = Path("/proc/self/status").read_text()
        return os.getpid(), int(text.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--rows", type=int, default=100_000_000, help="That are written.")
    parser.add_argument("--times", type=int, default=10, help="How often each shard stands there.")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="Where; some 50 bytes for each row written.")
    parser.add_argument("--index", type=Path, help="Shards that are there; none are written.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.dir, prefix="bench-workers-") as place:
        shards = asked.index or Path(place)
        if asked.index is None:
            argv = [build()["synthetic_index"], place, str(asked.rows)]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        files = sorted(shards.glob("*.parquet")) * asked.times
        result = {
            "what": "curve of the whole and of each user by workers of Dask, beside one process",
            **measured_on(),
            "rows": asked.rows * asked.times,
            "rows_written": asked.rows,
            "index_bytes": sum(file.stat().st_size for file in files),
            **measured(files, asked.turns),
            "terms": (terms := measured_terms(files, asked.rows * asked.times)),
            "model": [model(terms, rows, 16, 32) for rows in (10**9, 4 * 10**9, 10**10, 10**11)],
        }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def parts_of(files: Sequence[Path], most_bytes: int) -> Iterator[TallyPart]:
    """Yield the work of one task after the other, as a horizon divides an index."""
    rules = rules_in_force(
        Policy("p", "/scratch", target=0.7, counted=("atime", "mtime"), minimum_age_s=DAY_S),
        _manifest(), ReadRecording(), now_s=int(time.time()),
    )  # fmt: skip
    held: list[str] = []
    held_bytes = 0
    for file in files:
        size_bytes = file.stat().st_size
        if held and held_bytes + size_bytes > most_bytes:
            yield TallyPart(tuple(held), rules, users=True)
            held, held_bytes = [], 0
        held.append(str(file.absolute()))
        held_bytes += size_bytes
    yield TallyPart(tuple(held), rules, users=True)


def _manifest() -> Manifest:
    now_ns = time.time_ns()
    return Manifest(
        index_id="synthetic", root=b"/scratch", filesystem=None, source=IndexSource.PARQUET,
        tool="synthetic", started_ns=now_ns, ended_ns=now_ns, times=TimeTrust.EXACT_NS,
        time_resolution_ns=1, lacking=frozenset({Lack.LAYOUT, Lack.POOL}), complete=True, shards=(),
    )  # fmt: skip


def measured(files: Sequence[Path], turns: int) -> dict[str, Any]:
    """Return what one process and workers take, in turns, with the same answer."""
    import pickle

    pieces = list(parts_of(files, PIECE_BYTES))
    every = tuple(path for piece in pieces for path in piece.shards)
    whole = pickle.dumps(replace(pieces[0], shards=every, threads=0))
    taken: dict[str, list[float]] = {"single": [], "workers": [], "workers_with_start": []}
    peaks: dict[int, int] = {}
    state_bytes = 0
    for _ in range(turns):
        printed = subprocess.run(
            [sys.executable, "-c", SINGLE], input=whole, stdout=subprocess.PIPE, check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout.split()  # fmt: skip
        taken["single"].append(float(printed[0]))
        began_s = time.monotonic()
        with local_cluster(os.cpu_count() or 1) as cluster:
            tally = merged_tally(pieces, cluster.scheduler_file)
        taken["workers_with_start"].append(time.monotonic() - began_s)
        if [tally.files, tally.allocated_bytes] != [int(number) for number in printed[1:]]:
            raise RuntimeError("the answers differ")
        with (
            local_cluster(os.cpu_count() or 1) as cluster,
            answering(None, cluster.scheduler_file, most=len(pieces), hint="") as together,
        ):
            list(together([Sleep(0.0)] * 8))
            began_s = time.monotonic()
            tallies = together(pieces)
            total = next(tallies)
            for part in tallies:
                total.merge(part)
            taken["workers"].append(time.monotonic() - began_s)
            state_bytes = len(total.to_bytes())
            peaks |= dict(together(Memory(number) for number in range(8)))
        print(json.dumps({name: values[-1] for name, values in taken.items()}), file=sys.stderr)
    medians = {name: round(statistics.median(values), 2) for name, values in taken.items()}
    return {
        "turns": turns,
        "tasks": len(pieces),
        "median_s": medians,
        "elapsed_s": {name: [round(each, 2) for each in values] for name, values in taken.items()},
        "most_of_single": MOST_OF_SINGLE,
        "of_single": round(medians["workers"] / medians["single"], 3),
        "of_single_with_start": round(medians["workers_with_start"] / medians["single"], 3),
        "memory_bytes_a_worker": max(peaks.values()),
        "most_memory_bytes_a_worker": MOST_BYTES_A_WORKER,
        "state_bytes_merged": state_bytes,
    }


def measured_terms(files: Sequence[Path], rows: int) -> dict[str, Any]:
    """Return what the model is made of."""
    pieces = list(parts_of(files, PIECE_BYTES))[:12]
    taken, states = [], []
    for piece in pieces:
        began_s = time.process_time()
        states.append(piece.answer())
        taken.append(time.process_time() - began_s)
    sizes = [len(state.to_bytes()) for state in states]
    total, *others = states
    began_s = time.process_time()
    for state in others:
        total.merge(state)
    merged_s = (time.process_time() - began_s) / len(others)
    count = os.cpu_count() or 1
    with (
        local_cluster(count) as cluster,
        answering(None, cluster.scheduler_file, most=count, hint="") as together,
    ):
        list(together([Sleep(0.0)] * 8))
        began_s = time.process_time()
        list(together([Sleep(0.0)] * 400))
        empty_s = (time.process_time() - began_s) / 400
        began_s = time.monotonic()
        list(together([Sleep(1.0)] * 20 * count))
        overhead = (time.monotonic() - began_s) / 20 - 1
    return {
        "rows_a_task": round(rows / len(list(parts_of(files, PIECE_BYTES)))),
        "bytes_a_row": round(sum(file.stat().st_size for file in files) / rows, 1),
        "task_processor_s": round(statistics.median(taken), 3),
        "state_bytes": round(statistics.median(sizes)),
        "merge_processor_s": round(merged_s, 4),
        "client_and_scheduler_processor_s": round(empty_s, 5),
        "overhead_of_tasks_of_1_s": round(overhead, 4),
        "most_overhead": MOST_OVERHEAD,
    }


def model(terms: dict[str, Any], rows: int, nodes: int, workers: int) -> dict[str, Any]:
    """Return what so many rows would take on so many nodes with so many workers each.

    Workers tally side by side; the client hands out tasks, takes their states and merges them one
    after another. Reading is not in it: bytes a second of all nodes are told for that.
    """
    tasks = math.ceil(rows / terms["rows_a_task"])
    rounds = math.ceil(tasks / (nodes * workers))
    work_s = rounds * terms["task_processor_s"]
    client_s = tasks * (terms["client_and_scheduler_processor_s"] + terms["merge_processor_s"])
    total_s = max(work_s, client_s)
    return {
        "rows": rows,
        "nodes": nodes,
        "workers_a_node": workers,
        "tasks": tasks,
        "workers_s": round(work_s, 1),
        "client_s": round(client_s, 1),
        "first_to_limit": "workers" if work_s >= client_s else "client",
        "read_bytes": round(rows * terms["bytes_a_row"]),
        "read_bytes_per_s": round(rows * terms["bytes_a_row"] / total_s),
        "states_bytes": tasks * terms["state_bytes"],
    }


if __name__ == "__main__":
    main()
