"""What an incremental scan takes beside a full one, and what reading names is of a scan at all.

Local: a tree of small directories on the local disk, names in the cache; before each turn one
directory in a hundred gets a name and loses one. Both scans go in turns, through `scan_index` with
everything that it does. Waiting: a FUSE mount that answers each call half a millisecond late, of
which nothing changes. By name: each file asked for by the name that an earlier index has, without
reading the directory, beside the same with reading it; in turns, in processor time.
`make bench-incremental`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.support import waiting_fuse  # noqa: E402
from tests.support.silent_fuse import why_not  # noqa: E402

from trimtab.purge.index import carry_over  # noqa: E402
from trimtab.purge.index.manifest import Manifest  # noqa: E402
from trimtab.purge.index.scan import ScanOptions, scan_index  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "incremental_scan.json"
FILES: Final = 19
"""Of a directory: twenty names with its own."""
CHANGED: Final = 100
"""One directory in so many changes."""
WAIT_S: Final = 0.0005


def main() -> None:
    """Measure, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--only", choices=[*PARTS], nargs="+", default=[*PARTS])
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench-incremental")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    if "waiting" in asked.only and (reason := why_not()) is not None:
        parser.error(reason)
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result: dict[str, Any] = {
        "what": "an incremental scan beside a full one of the same tree",
        "margin_s": carry_over.MARGIN_S,
        **{name: kept[name] for name in PARTS if name in kept},
    }
    for name in asked.only:
        result[name] = {**measured_on(), **PARTS[name](asked)}
        print(json.dumps({name: result[name]}, indent=2), flush=True)
        if not asked.no_write:
            RESULT.write_text(json.dumps(result, indent=2) + "\n")


def a_tree(asked: argparse.Namespace) -> list[Path]:
    """Return the directories of a tree, made once and older than the margin."""
    root = asked.directory / f"tree-{asked.names}"
    count = asked.names // (FILES + 1)
    directories = [
        root / f"project{number % 40}" / f"user{number % 970}" / f"run{number}"
        for number in range(count)
    ]
    whole = asked.directory / f"whole-{asked.names}"
    if not whole.exists():
        print(f"making {asked.names:,} names ...", file=sys.stderr)
        for place in directories:
            place.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(place, os.O_RDONLY)
            for number in range(FILES):
                os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
            os.close(descriptor)
        whole.touch()
    time.sleep(max(0.0, whole.stat().st_mtime + carry_over.MARGIN_S + 1 - time.time()))
    return directories


def change(directories: list[Path], turn: int) -> None:
    """Give one directory in a hundred a name, and take one away."""
    for place in directories[turn % CHANGED :: CHANGED]:
        (place / f"new{turn}").touch()
        (place / f"f{turn % FILES}").unlink(missing_ok=True)


def in_turns(
    root: Path, asked: argparse.Namespace, before: Callable[[int], None], **terms: Any
) -> dict[str, Any]:
    """Return times of both scans, in turns."""
    taken: dict[str, list[float]] = {"full_s": [], "incremental_s": []}
    ratios: list[float] = []
    found: dict[str, Manifest] = {}
    with tempfile.TemporaryDirectory(dir=asked.directory) as place:
        base = Path(place) / "base"
        scan(root, base, **terms)
        for turn in range(asked.turns):
            before(turn)
            indexes = {name: Path(place) / f"{name}-{turn}" for name in taken}
            order = list(taken) if turn % 2 == 0 else [*taken][::-1]
            for name in order:
                own = {**terms, "base": base} if name == "incremental_s" else terms
                began_s = time.monotonic()
                found[name] = scan(root, indexes[name], **own)
                taken[name].append(time.monotonic() - began_s)
            ratios.append(taken["incremental_s"][-1] / taken["full_s"][-1])
            if found["full_s"].rows != found["incremental_s"].rows:
                raise SystemExit(f"{found['incremental_s'].rows} names, not {found['full_s'].rows}")
    last = found["incremental_s"]
    assert last.incremental is not None
    return {
        "names": last.rows,
        "directories_not_read": last.incremental.unchanged,
        "names_carried": last.incremental.carried,
        **{name: [round(each, 3) for each in times] for name, times in taken.items()},
        "median_s": {name: round(statistics.median(times), 3) for name, times in taken.items()},
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 3) for each in sorted(ratios)],
    }


def scan(root: Path, index: Path, **terms: Any) -> Manifest:
    asked: dict[str, Any] = {"threads": 2, **terms}
    return scan_index(str(root), index, ScanOptions(**asked), version="0")


def local(asked: argparse.Namespace) -> dict[str, Any]:
    """Compare on the local disk."""
    directories = a_tree(asked)
    root = asked.directory / f"tree-{asked.names}"
    changed = len(directories) // CHANGED
    return {
        "changed_directories_a_turn": changed,
        **in_turns(root, asked, lambda turn: change(directories, turn)),
    }


def waiting(asked: argparse.Namespace) -> dict[str, Any]:
    """Compare where each call waits."""
    carry_over.KINDS |= {"fuse"}
    terms = {"wait_s": WAIT_S, "directories": 400, "files": FILES}
    with (
        tempfile.TemporaryDirectory(dir=asked.directory) as point,
        waiting_fuse.waiting_mount(waiting_fuse.build(), Path(point), **terms) as mount,
    ):
        found = in_turns(mount.point, asked, lambda _: None, threads=4)
    return {"wait_s": WAIT_S, "threads": 4, **found}


def by_name(asked: argparse.Namespace) -> dict[str, Any]:
    """Compare looking at files by known names with reading the directory first."""
    directories = a_tree(asked)[:10_000]
    names = [listed(place) for place in directories]
    taken: dict[str, list[float]] = {"read_and_stat_s": [], "stat_s": []}
    for _ in range(asked.turns):
        for name, reading in (("read_and_stat_s", True), ("stat_s", False)):
            began_s = time.process_time()
            for place, known in zip(directories, names, strict=True):
                descriptor = os.open(place, os.O_RDONLY)
                for file in listed(descriptor) if reading else known:
                    os.stat(file, dir_fd=descriptor, follow_symlinks=False)
                os.close(descriptor)
            taken[name].append(time.process_time() - began_s)
    pairs = zip(taken["stat_s"], taken["read_and_stat_s"], strict=True)
    return {
        "directories": len(directories),
        "names_a_directory": round(sum(map(len, names)) / len(names), 1),
        **{name: [round(each, 3) for each in times] for name, times in taken.items()},
        "ratio": round(statistics.median(one / other for one, other in pairs), 3),
    }


def listed(place: Path | int) -> list[str]:
    return os.listdir(place)  # noqa: PTH208 (a descriptor is no path)


PARTS: Final[dict[str, Callable[[argparse.Namespace], dict[str, Any]]]] = {
    "local": local,
    "by_name": by_name,
    "waiting": waiting,
}

if __name__ == "__main__":
    main()
