"""A purge under attack and under ``kill -9``, full counts: `make soak-purge`.

The attack: a million files on an ext4 and on an xfs of their own (loop devices), deleted while
nine processes write, read, touch, rename, exchange, link, save, replace and change them and swap
the directories on the way. Each process writes down what it does; in the end every name of every
file is accounted for. The kills: scan, plan and run of a million files, each ended 200 times at
random moments, and the same for their parts. What they came to is printed and kept; the program
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.support import loopback  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "purge_soak.json"
CARGO = ("cargo", "test", "--release", "--locked", "--quiet", "--package", "namespace", "--test")
ATTACK = "nothing_but_planned_and_unused_files_goes"
BYTES_PER_FILE = 4096
"""Of the file system: directories, inodes, the logs beside the tree, and blocks of every eighth."""
PARTS = {
    "scan in the core": (*CARGO, "scan", "--", "--exact", "a_scan_survives_kills"),
    "removal in the core": (*CARGO, "removal_killed", "--", "--exact", "a_killed_deletion_goes_on"),
    "a run with a slow remover": ("pytest", "-q", "tests/purge/run/test_kills.py"),
    "a run with the core's remover": ("pytest", "-q", "tests/purge/run/test_core.py", "-k", "kill"),
    "a plan frozen": ("pytest", "-q", "tests/purge/plan/test_freeze.py", "-k", "killed"),
}


def main() -> None:
    """Do all of it, or what is asked for, and write what it came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--files", type=int, default=1_000_000, help="Of an attack.")
    parser.add_argument(
        "--only", choices=["ext4", "xfs", "kills", "parts"], help="The rest stays as it was."
    )
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "purge-soak")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULT.read_text()) if asked.only and RESULT.exists() else {}
    result = {"what": "a purge under attack and under kill -9", **kept}
    for name in (asked.only,) if asked.only else ("ext4", "xfs", "kills", "parts"):
        began_s = time.monotonic()
        done = (
            _parts() if name == "parts" else _kills() if name == "kills" else _attack(name, asked)
        )
        result[name] = {**measured_on(), **done, "whole_s": round(time.monotonic() - began_s, 1)}
        print(json.dumps({name: result[name]}, indent=2), flush=True)
        if not asked.no_write:
            RESULT.write_text(json.dumps(result, indent=2) + "\n")


def _attack(fs: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """Return what a deletion among attackers came to, on a new file system."""
    room = max(loopback.XFS_MINIMUM_BYTES, asked.files * BYTES_PER_FILE)
    options = ("-i", "2048") if fs == "ext4" else ()
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        report = Path(directory) / "report.json"
        with loopback.mounted(
            Path(directory), fs=fs, size_bytes=room, mkfs_options=options
        ) as mounted:
            environment = {
                "TRIMTAB_ATTACK_FILES": str(asked.files),
                "TRIMTAB_ATTACK_PLACE": str(mounted.mount_point),
                "TRIMTAB_ATTACK_REPORT": str(report),
            }
            _run(*CARGO, "attacker", "--", "--exact", ATTACK, "--nocapture", **environment)
            return json.loads(report.read_text())


def _kills() -> dict[str, Any]:
    """Return what killed scans, plans and runs of a large tree came to."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        _run(
            *("pytest", "-q", "--timeout", "7200", "tests/purge/test_kills.py"),
            TRIMTAB_SOAK="1",
            TRIMTAB_KILLS_REPORT=str(report),
        )
        return json.loads(report.read_text())


def _parts() -> dict[str, Any]:
    """Return how long the kills of each part took; each is held against what is there."""
    found = {}
    for name, command in PARTS.items():
        began_s = time.monotonic()
        _run(*command, TRIMTAB_SOAK="1", TRIMTAB_KILLS="200")
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


if __name__ == "__main__":
    main()
