"""A mounted file system that answers every call late: `waiting_mount.rs` of the namespace crate."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.silent_fuse import fuse_mount

from trimtab.purge.root_facts import root_facts
from trimtab.purge.run.situation import RootFacts

ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Waiting:
    """A mount, and once it is gone what it was asked.

    Attributes
    ----------
    entries
        Names beneath it, however they are listed.
    most_of_mdts
        Calls to each MDT in one second, at most.
    hundreds
        Of each hundred calls in the order that they came, how many each MDT had.
    """

    point: Path
    entries: int
    calls: int = 0
    most_calls_in_a_second: int = 0
    most_of_mdts: Sequence[int] = ()
    hundreds: Sequence[Sequence[int]] = ()

    @property
    def longest_lead(self) -> int:
        """By how many calls one MDT was ahead of another at most, after each hundred of all."""
        sums = itertools.accumulate(
            self.hundreds, lambda had, now: [sum(pair) for pair in zip(had, now, strict=True)]
        )
        return max(max(had) - min(had) for had in sums)


def facts_as_of_lustre(root: str) -> RootFacts:
    """Return what is told of a root, which passes for a Lustre: only its name says that it is none.

    In place of `trimtab.purge.index.scan.root_facts`.
    """
    facts = root_facts(root)
    assert facts.file_system is not None
    return replace(facts, file_system=replace(facts.file_system, kind="lustre"))


def build() -> Path:
    """Return the program that answers, built; by the compiler alone, for it needs no crates.

    Cargo would wait for whatever else it builds in this tree.
    """
    source = ROOT / "crates" / "namespace" / "examples" / "waiting_mount.rs"
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "waiting_mount"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        target.mkdir(exist_ok=True)
        # Of two that build it at once, neither may write over what the other has half done.
        with tempfile.TemporaryDirectory(dir=target) as place:
            aside = Path(place, program.name)
            argv = ["rustc", "--edition", "2024", "-C", "opt-level=2", "-o", str(aside)]
            subprocess.run([*argv, str(source)], cwd=ROOT, check=True)
            aside.rename(program)
    return program


@contextlib.contextmanager
def waiting_mount(
    program: Path,
    point: Path,
    *,
    wait_s: float,
    directories: int,
    files: int,
    at_once: int = 128,
    mdts: int = 0,
) -> Iterator[Waiting]:
    """Mount a tree that waits with every answer.

    Parameters
    ----------
    directories, files
        How many directories hold how many files each.
    at_once
        Calls that are answered side by side; others wait until their turn.
    mdts
        Of a Lustre, whose FIDs it then tells: a hundred directories in turns lie on one. 0: none.
    """
    groups = -(-directories // 100)
    found = Waiting(point, groups + directories + directories * files)
    argv = [str(part) for part in (program, wait_s * 1000, directories, files, at_once, mdts)]
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
            found.calls, found.most_calls_in_a_second = counts["calls"], counts["most_in_a_second"]
            found.most_of_mdts, found.hundreds = counts["most_of_mdts"], counts["hundreds"]
