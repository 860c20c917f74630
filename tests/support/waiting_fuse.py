"""A mounted file system that answers every call late: `waiting_mount.rs` of the namespace crate."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.silent_fuse import fuse_mount

ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Waiting:
    """A mount, and once it is gone what it was asked.

    Attributes
    ----------
    entries
        Names beneath it, however they are listed.
    """

    point: Path
    entries: int
    calls: int = 0
    most_calls_in_a_second: int = 0


def build() -> Path:
    """Return the program that answers, built."""
    argv = ["cargo", "build", "--release", "--package", "namespace", "--example", "waiting_mount"]
    subprocess.run([*argv, "--locked", "--quiet"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / "waiting_mount"


@contextlib.contextmanager
def waiting_mount(
    program: Path, point: Path, *, wait_s: float, directories: int, files: int, at_once: int = 128
) -> Iterator[Waiting]:
    """Mount a tree that waits with every answer.

    Parameters
    ----------
    directories, files
        How many directories hold how many files each.
    at_once
        Calls that are answered side by side; others wait until their turn.
    """
    groups = -(-directories // 100)
    found = Waiting(point, groups + directories + directories * files)
    argv = [str(part) for part in (program, wait_s * 1000, directories, files, at_once)]
    server = None
    try:
        with fuse_mount(point, "waiting") as (_, device):
            server = subprocess.Popen(argv, stdin=device, stdout=subprocess.PIPE, text=True)
            yield found
    finally:
        if server is not None:
            # It ends with the connection.
            printed, _ = server.communicate(timeout=60.0)
            counts = json.loads(printed)
            found.calls, found.most_calls_in_a_second = counts.values()
