"""A scan into Parquet beside the bare loop that bounds it, GNU find and bfs: `make bench-scan`.

Each is a whole process over the same tree, one after the other in turns, so that what else the
machine does meets all of them; a figure is the median of the turns. The peers print the fields
of the index to /dev/null, which is in their favour: a scan writes and syncs files. With a cold
cache (as root) what the kernel keeps is dropped before each process.

The last part asks what latency does: every call is held up by half a millisecond, as a distant
file system would, and 64 threads have calls under way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "namespace_scan.json"
FILES_A_DIRECTORY = 100
FIELDS = "%h\\0%f\\0%i\\0%D\\0%U\\0%G\\0%s\\0%b\\0%n\\0%A@\\0%T@\\0%C@\\0%y\\0"
SCAN = """
import sys
from trimtab import _core
root, index, threads, delay_s = sys.argv[1:]
scan = _core.NamespaceScan(root, index, threads=int(threads), delay_s=float(delay_s))
scan.start()
while not scan.wait(1.0):
    pass
print(scan.result().entries, scan.result().elapsed_s)
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One process: how long it took, its processor time, and the most memory that it had."""

    elapsed_s: float
    processor_s: float
    memory_bytes: int


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-scan")
    parser.add_argument("--cold", action="store_true", help="Also with a cold cache; needs root.")
    asked = parser.parse_args()
    build = ["cargo", "build", "--release", "--package", "namespace", "--example", "bare_walk"]
    subprocess.run([*build, "--locked", "--quiet"], cwd=ROOT, check=True)
    tree = a_tree(asked.directory / f"tree-{asked.files}", asked.files)
    result = {
        "what": "entries a second of a scan into Parquet, whole process; its bound and peers",
        **measured_on(),
        "peers": {name: version(name) for name in ("find", "bfs") if shutil.which(name)},
        "warm": compare(tree, asked.turns, cold=False),
    }
    if asked.cold:
        result["cold"] = compare(tree, asked.turns, cold=True)
    result["half_a_millisecond_a_call"] = with_latency(tree)
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def a_tree(root: Path, files: int) -> Path:
    """Return a tree of about so many files, made once: projects, users, runs of 100 files."""
    whole = root / ".whole"
    if whole.exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    print(f"making {files:,} files in {root} ...", file=sys.stderr)
    for run in range(files // FILES_A_DIRECTORY):
        directory = root / f"project{run % 50}" / f"user{run % 977}" / f"run{run}"
        directory.mkdir(parents=True)
        descriptor = os.open(directory, os.O_RDONLY)
        for number in range(FILES_A_DIRECTORY):
            name = f"checkpoint.{number * 7919 % 1_000_003:06}.dat"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=descriptor))
        os.close(descriptor)
    whole.touch()
    return root


def version(program: str) -> str:
    """Return the first line that a program prints of its version."""
    printed = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return printed.stdout.splitlines()[0]


def compare(tree: Path, turns: int, *, cold: bool) -> dict[str, object]:
    """Return the rate of each program, and those of the scan against the others'."""
    taken: dict[str, list[Turn]] = {}
    entries = 0
    for _ in range(turns):
        with tempfile.TemporaryDirectory(dir=tree.parent) as index:
            for name, argv in commands(tree, Path(index) / "index"):
                if cold:
                    drop_caches()
                turn, printed = timed(argv)
                taken.setdefault(name, []).append(turn)
                if name == "scan":
                    entries = int(printed.split()[0])
    rates = {
        name: entries / statistics.median(one.elapsed_s for one in measured)
        for name, measured in taken.items()
    }
    return {
        "entries": entries,
        "turns": turns,
        "entries_per_s": {name: round(rate) for name, rate in rates.items()},
        "processor_s": {
            name: round(statistics.median(one.processor_s for one in measured), 3)
            for name, measured in taken.items()
        },
        "scan_against": {
            name: round(rates["scan"] / rate, 3) for name, rate in rates.items() if name != "scan"
        },
        "scan_memory_mib": max(one.memory_bytes for one in taken["scan"]) // 2**20,
    }


def commands(tree: Path, index: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of each program."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    yield "bare", [str(target / "release" / "examples" / "bare_walk"), str(tree), "2"]
    yield "scan", [sys.executable, "-c", SCAN, str(tree), str(index), "2", "0"]
    for peer in ("find", "bfs"):
        if shutil.which(peer):
            yield peer, [peer, str(tree), "-xdev", "-printf", FIELDS]


def timed(argv: list[str]) -> tuple[Turn, str]:
    """Return what one process took and printed; the peers' lists are thrown away."""
    keeps = argv[0] == sys.executable
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdout=output if keeps else subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed_s = time.monotonic() - started
        if status != 0:
            raise RuntimeError(f"{argv[0]} ended with {status}")
        process.returncode = 0
        output.seek(0)
        printed = output.read().decode()
    processor_s = usage.ru_utime + usage.ru_stime
    return Turn(elapsed_s, processor_s, usage.ru_maxrss * 1024), printed


def with_latency(tree: Path) -> dict[str, object]:
    """Return the rate of 64 threads where every call takes half a millisecond longer."""
    with tempfile.TemporaryDirectory(dir=tree.parent) as index:
        argv = [sys.executable, "-c", SCAN, str(tree), str(Path(index) / "i"), "64", "0.0005"]
        turn, printed = timed(argv)
    entries, elapsed_s = printed.split()
    return {
        "threads": 64,
        "entries_per_s": round(int(entries) / float(elapsed_s)),
        "processor_s": round(turn.processor_s, 3),
        "memory_mib": turn.memory_bytes // 2**20,
    }


def drop_caches() -> None:
    """Have the kernel forget names, inodes and pages; everything is written out before."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


if __name__ == "__main__":
    main()
