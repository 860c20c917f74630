"""Verified deletion beside a bare loop of unlinkat, `rm` and `find`: `make bench-removal`.

All delete trees that are alike, one after the other in turns, so that what else the machine does
meets all of them; a figure is the median of the turns, and `fastest` that of the turn that others
disturbed least. As root the trees are on an ext4 and an XFS of their own (loop devices over files).
The bare loop has two threads, or one, and knows every name beforehand: nothing that looks at a file
before it removes it can be faster. `bare_rename` moves each file over the one before in a directory
of the thread's own, and looks at none: what being put aside costs alone. A plan goes by age:
`rm_in_order` is `rm` with the plan's list of names. Files last used within one hour are deleted
directory by directory; with several hours in every directory the order costs everybody. With a cold
cache what the kernel keeps is dropped before each. Where files are small and everything is in
memory, the processor is the limit and every call of a check shows; the sizes show how that changes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.support import loopback  # noqa: E402
from tests.support.loopback import GIB  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "namespace_removal.json"
FILES_A_DIRECTORY = 100
BATCH_ROWS = 8192
LATER_S = 4_000_000_000
USED_S = 1_600_000_000
FILE_SYSTEMS: tuple[loopback.FileSystem, ...] = ("ext4", "xfs")


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 65_536], metavar="BYTES")
    parser.add_argument("--hours", type=int, nargs="+", default=[1, 24], help="Of last use.")
    parser.add_argument("--fs", nargs="+", default=list(FILE_SYSTEMS), choices=FILE_SYSTEMS)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-removal")
    parser.add_argument("--cold", action="store_true", help="Also with a cold cache; needs root.")
    asked = parser.parse_args()
    build = ["cargo", "build", "--release", "--package", "namespace", "--example", "bare_unlink"]
    subprocess.run([*build, "--locked", "--quiet"], cwd=ROOT, check=True)
    asked.directory.mkdir(parents=True, exist_ok=True)
    result = {
        "what": "files a second deleted with full verification, bare loops, peers",
        **measured_on(),
        **{fs: on_file_system(asked, fs) for fs in asked.fs},
    }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def on_file_system(asked: argparse.Namespace, fs: loopback.FileSystem) -> dict[str, object]:
    """Return what a new file system comes to, by cache, size of files and hours of last use."""
    caches = ("warm", "cold") if asked.cold else ("warm",)
    room = GIB + asked.files * (max(asked.sizes) + 4096) * 3 // 2
    with loopback.mounted(asked.directory, fs=fs, size_bytes=room) as mounted:
        return {
            cache: {
                f"{size_bytes}_bytes": {
                    f"{hours}_hours": compare(
                        asked, mounted.mount_point, size_bytes, hours, cold=cache == "cold"
                    )
                    for hours in asked.hours
                }
                for size_bytes in asked.sizes
            }
            for cache in caches
        }


def compare(
    asked: argparse.Namespace, place: Path, size_bytes: int, hours: int, *, cold: bool
) -> dict[str, object]:
    """Return the rate of each way to delete, and that of the verified one against the others."""
    rates: dict[str, list[float]] = {}
    for _ in range(asked.turns):
        for name, delete in ways().items():
            tree = a_tree(place / "bench", asked.files, size_bytes, hours)
            go = delete(tree)
            if cold:
                drop_caches()
            started = time.monotonic()
            go()
            rates.setdefault(name, []).append(asked.files / (time.monotonic() - started))
            shutil.rmtree(place / "bench")
    summaries = {
        "": {name: statistics.median(measured) for name, measured in rates.items()},
        "fastest_": {name: max(measured) for name, measured in rates.items()},
    }
    compared: dict[str, object] = {"files": asked.files, "turns": asked.turns}
    for kind, rate_of in summaries.items():
        compared[f"{kind}files_per_s"] = {name: round(rate) for name, rate in rate_of.items()}
        compared[f"{kind}verified_against"] = {
            name: round(rate_of["verified"] / rate, 3)
            for name, rate in rate_of.items()
            if name != "verified"
        }
    return compared


def ways() -> dict[str, Callable[[Path], Callable[[], None]]]:
    """Return by name what prepares a deletion of a tree and returns the deletion itself."""
    return {
        "bare": lambda tree: bare(tree, threads=2),
        "bare_one_thread": lambda tree: bare(tree, threads=1),
        "bare_rename": lambda tree: bare(tree, threads=2, aside=True),
        "bare_rename_one_thread": lambda tree: bare(tree, threads=1, aside=True),
        "verified": lambda tree: verified(tree, open_files=False),
        "verified_open_files_too": lambda tree: verified(tree, open_files=True),
        "rm": lambda tree: command("rm", "-rf", str(tree)),
        "rm_in_order": rm_in_order,
        "find": lambda tree: command("find", str(tree), "-xdev", "-type", "f", "-delete"),
    }


def a_tree(directory: Path, files: int, size_bytes: int, hours: int) -> Path:
    """Make a tree of users and runs of 100 files, and let the disk have it.

    Every directory has files that were last used in each of the hours.
    """
    shutil.rmtree(directory, ignore_errors=True)
    tree, content = directory / "tree", b"x" * size_bytes
    for run in range(files // FILES_A_DIRECTORY):
        inside = tree / f"user{run % 97}" / f"run{run}"
        inside.mkdir(parents=True)
        for number in range(FILES_A_DIRECTORY):
            path = inside / f"checkpoint.{number:06}.dat"
            path.write_bytes(content)
            used_s = USED_S + number % hours * 3600
            os.utime(path, (used_s, used_s))
    os.sync()
    return tree


def command(*argv: str) -> Callable[[], None]:
    """Return what runs a command."""

    def run() -> None:
        subprocess.run(argv, check=True)

    return run


def bare(tree: Path, *, threads: int, aside: bool = False) -> Callable[[], None]:
    """Return the bare loop, which has read the names when it is told to begin."""
    place = tree.parent / "aside"
    place.mkdir()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "bare_unlink"
    argv = [program, tree, str(threads), *([place] if aside else [])]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()

    def go() -> None:
        process.communicate("go\n")
        if process.returncode != 0:
            raise RuntimeError(f"the bare loop ended with {process.returncode}")

    return go


def rm_in_order(tree: Path) -> Callable[[], None]:
    """Return ``rm`` of the names of a plan in the plan's order."""
    import polars as pl

    plan, _ = planned(tree)
    listed = pl.read_parquet(plan, columns=["parent", "name"])
    paths = [bytes(tree) + b"/" + parent + b"/" + name for parent, name in listed.iter_rows()]

    def go() -> None:
        command = ["xargs", "-0", "rm", "-f", "--"]
        subprocess.run(command, input=b"\0".join(paths), check=True)

    return go


def planned(tree: Path) -> tuple[Path, Any]:
    """Return the candidates of a plan of the whole tree, and its rules."""
    from trimtab import _core

    rules = _core.Rules(
        counted=["atime", "mtime"],
        as_of_s=LATER_S,
        old_enough_before_s=LATER_S,
        minimum_size_bytes=0,
        exempt_paths=[],
        exempt_users=[],
        exempt_groups=[],
        exempt_projects=[],
        linked=False,
    )
    index, plan = tree.parent / "index", tree.parent / "candidates.parquet"
    scan = _core.NamespaceScan(tree, index, threads=2)
    scan.start()
    while not scan.wait(1.0):
        pass
    shards = [index / name for name in scan.result().shards]
    _core.select(shards, rules, before_s=LATER_S, out=plan)
    return plan, rules


def verified(tree: Path, *, open_files: bool) -> Callable[[], None]:
    """Return the deletion of a plan of the whole tree; scan and plan are made before."""
    from trimtab import _core

    plan, rules = planned(tree)
    removal = _core.Removal(
        _core.Candidates(plan),
        tree,
        rules,
        before_s=LATER_S,
        quarantine=".quarantine",
        open_files=open_files,
    )

    def go() -> None:
        deleted = 0
        for first in range(0, removal.rows, BATCH_ROWS):
            deleted += removal.delete(first, min(BATCH_ROWS, removal.rows - first)).deleted
        if deleted != removal.rows:
            raise RuntimeError(f"{deleted} of {removal.rows} files were deleted")

    return go


def drop_caches() -> None:
    """Have the kernel forget names, inodes and pages; everything is written out before."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


if __name__ == "__main__":
    main()
