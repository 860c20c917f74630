"""A purge under attack and under ``kill -9``, full counts: `make soak-purge`.

The attack: a million files on an ext4 and on an xfs of their own (loop devices), deleted while
eleven processes write, read, touch, rename, exchange, link, save, replace and change them and swap
the directories on the way. Each process writes down what it does; in the end every name of every
file is accounted for. The kills: scan, plan and run of a million files, each ended 200 times at
random moments, and the same for their parts; and a deletion that is attacked and killed at once,
by one host and by two of which one is lost. What they came to is printed and kept; the program
fails if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.support import loopback  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "purge_soak.json"
CARGO = ("cargo", "test", "--release", "--locked", "--quiet", "--package", "namespace", "--test")
ATTACK = "nothing_but_planned_and_unused_files_goes"
ATTACK_WITH_KILLS = "nor_does_it_when_the_deletion_is_killed"
ATTACK_WITH_TWO_HOSTS = "nor_does_it_when_two_delete_and_one_is_lost"
FILES = 1_000_000
FILES_WITH_KILLS = 100_000
KILLS = "200"
BYTES_PER_FILE = 8192
"""Of the file system: inodes, directories, what attackers write and make, and their logs."""
ROOM_BYTES = 4 * 2**30
"""At least: what attackers make grows with the time they have, not with the files. Sparse."""
SOAK = ("pytest", "-q", "-m", "soak")
PARTS = {
    "scan in the core": (*CARGO, "scan", "--", "--exact", "a_scan_survives_kills"),
    "removal in the core": (*CARGO, "removal_killed", "--", "--exact", "a_killed_deletion_goes_on"),
    "a run with a slow remover": (*SOAK, "tests/purge/run/test_kills.py"),
    "a run with the core's remover": (*SOAK, "tests/purge/run/test_core.py"),
    "power cut in a run": (*SOAK, "tests/purge/run/test_power_cut.py"),
    "a plan frozen": (*SOAK, "tests/purge/plan/test_freeze.py"),
}


def main() -> None:
    """Do all of it, or what is asked for, and write what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument(
        "--files",
        type=int,
        default=FILES,
        help="Of an attack; fewer are kept beside the full count.",
    )
    parser.add_argument(
        "--only", choices=[*STEPS], nargs="+", default=[], help="The rest stays as it was."
    )
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "purge-soak")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULT.read_text()) if asked.only and RESULT.exists() else {}
    result = {"what": "a purge under attack and under kill -9", **kept}
    for name in asked.only or STEPS:
        began_s = time.monotonic()
        done = STEPS[name](asked)
        # Only the attacks on one file system have as many files as are asked for.
        fewer = name in get_args(loopback.FileSystem) and asked.files != FILES
        key = f"{name}_{asked.files}" if fewer else name
        result[key] = {**measured_on(), **done, "whole_s": round(time.monotonic() - began_s, 1)}
        print(json.dumps({key: result[key]}, indent=2), flush=True)
        if not asked.no_write:
            RESULT.write_text(json.dumps(result, indent=2) + "\n")


def _attack(fs: loopback.FileSystem, asked: argparse.Namespace) -> dict[str, Any]:
    """Return what a deletion among attackers came to, on a new file system."""
    return _attacked(fs, asked.directory, asked.files, ATTACK)


def _attack_on_fewer(test: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Return the same of a deletion that is killed meanwhile, again and again."""
    return _attacked("ext4", asked.directory, FILES_WITH_KILLS, test)


def _attacked(fs: loopback.FileSystem, place: Path, files: int, test: str) -> dict[str, Any]:
    room = max(ROOM_BYTES, files * BYTES_PER_FILE)
    options = ("-i", "2048") if fs == "ext4" else ()
    with tempfile.TemporaryDirectory(dir=place) as directory:
        report = Path(directory) / "report.json"
        with loopback.mounted(
            Path(directory), fs=fs, size_bytes=room, mkfs_options=options
        ) as mounted:
            environment = {
                "TRIMTAB_ATTACK_FILES": str(files),
                "TRIMTAB_ATTACK_KILLS": KILLS,
                "TRIMTAB_ATTACK_LOST": KILLS,
                "TRIMTAB_ATTACK_PLACE": str(mounted.mount_point),
                "TRIMTAB_ATTACK_REPORT": str(report),
            }
            _run(*CARGO, "attacker", "--", "--exact", test, "--nocapture", **environment)
            return json.loads(report.read_text())


def _kills(_asked: argparse.Namespace) -> dict[str, Any]:
    """Return what killed scans, plans and runs of a large tree came to."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        _run(
            *(*SOAK, "tests/purge/test_kills.py"),
            TRIMTAB_KILLS_REPORT=str(report),
        )
        return json.loads(report.read_text())


def _parts(_asked: argparse.Namespace) -> dict[str, Any]:
    """Return how long the kills of each part took; each is held against what is there."""
    found = {}
    for name, command in PARTS.items():
        began_s = time.monotonic()
        _run(*command, TRIMTAB_SOAK="1", TRIMTAB_KILLS=KILLS)
        found[name] = {"passed": True, "elapsed_s": round(time.monotonic() - began_s, 1)}
    return found


def _run(*command: str, **environment: str) -> None:
    """Run a test; what it says is shown."""
    if command[0] == "pytest":
        command = (sys.executable, "-m", *command)
    subprocess.run(
        command,
        cwd=ROOT,
        check=True,
        env={**os.environ, "CARGO_PROFILE_RELEASE_LTO": "off", **environment},
    )


STEPS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "ext4": partial(_attack, "ext4"),
    "xfs": partial(_attack, "xfs"),
    "attack_with_kills": partial(_attack_on_fewer, ATTACK_WITH_KILLS),
    "attack_with_two_hosts": partial(_attack_on_fewer, ATTACK_WITH_TWO_HOSTS),
    "kills": _kills,
    "parts": _parts,
}


if __name__ == "__main__":
    main()
