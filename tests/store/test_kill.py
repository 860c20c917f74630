"""``kill -9`` at any moment loses at most the run in flight and never damages the store."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.counts import repetitions
from tests.support.narrow import present

from trimtab.base.run import RawOutput, Run
from trimtab.store.store import Store

pytestmark = pytest.mark.system

# Prints the id of each run once `add_run` has returned: from then on it may not be lost.
WRITER = """
import os, sys
from datetime import UTC, datetime
from trimtab.base.event import new_identifier
from trimtab.base.run import RawOutput, Run, RunStatus, Sample
from trimtab.store.store import Store

print("started", flush=True)
with Store.open(sys.argv[1]) as store:
    number = 0
    while True:
        number += 1
        at = datetime.now(UTC)
        text = f"{os.getpid()} {number} ".encode() * 300
        run = Run(
            new_identifier(at), "scratch", "check", "fio", RunStatus.OK, at,
            parameters={"number": number},
            samples=tuple(Sample("write_bandwidth", float(n), n, output=0) for n in range(8)),
            outputs=(
                RawOutput("write 0", ("fio",), text), RawOutput("read 0", ("fio",), b"r" + text)
            ),
        )
        store.add_run(run)
        print(run.id, flush=True)
"""


def _killed_writer(path: Path, runs: int, delay_s: float) -> list[str]:
    """Return the ids that a writer said were kept; killed a moment after so many."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
    )
    said = present(writer.stdout)
    with writer:
        assert said.readline() == "started\n"
        promised = [said.readline().strip() for _ in range(runs)]
        time.sleep(delay_s)
        os.kill(writer.pid, signal.SIGKILL)
        # The last line may be cut; an id that was not said whole was not promised.
        promised += [line.strip() for line in said if line.endswith("\n")]
    assert writer.returncode == -signal.SIGKILL
    return promised


def _assert_whole(run: Run) -> None:
    assert len(run.samples) == 8
    assert [one.label for one in run.outputs] == ["write 0", "read 0"]
    write, read = run.outputs
    assert isinstance(write, RawOutput)
    assert read.stdout == b"r" + write.stdout
    assert f" {run.parameters['number']} ".encode() in write.stdout


@pytest.mark.parametrize("rounds", repetitions(gate=8, soak=400))
def test_a_killed_writer_loses_at_most_the_run_in_flight(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(20261120)
    path = tmp_path / "new" / "trimtab.db"
    promised: list[str] = []
    for _ in range(rounds):
        before = set(promised)
        promised += _killed_writer(path, chance.randrange(5), chance.uniform(0.0, 0.05))
        with Store.open(path) as store:
            kept = {run.id for run in store.runs()}
            # In flight: committed, but killed before it could say so.
            assert set(promised) <= kept
            assert len(kept - set(promised)) <= 1
            for identifier in kept - before:
                _assert_whole(store.run(identifier, outputs=True))
            promised += sorted(kept - set(promised))
            assert store.check().problems == ()
    with Store.open(path) as store:
        assert store.check(contents=True).problems == ()


@pytest.mark.parametrize("rounds", repetitions(gate=5, soak=200))
def test_a_killed_creation_leaves_a_store_or_nothing(tmp_path: Path, rounds: int) -> None:
    # The creation takes some 50 ms after the libraries are loaded: kills all over it.
    program = (
        "import sys, alembic.command, trimtab.store.store as s; print('started', flush=True)\n"
        "s.Store.open(sys.argv[1]); print('made', flush=True); sys.stdin.read()"
    )
    chance = random.Random(20261121)
    for number in range(rounds):
        path = tmp_path / str(number) / "trimtab.db"
        maker = subprocess.Popen(
            [sys.executable, "-c", program, path],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        with maker:
            assert present(maker.stdout).readline() == "started\n"
            time.sleep(chance.uniform(0.0, 0.12))
            os.kill(maker.pid, signal.SIGKILL)
        with Store.open(path) as store:
            assert store.runs() == ()
            assert store.check().problems == ()
        assert [one.name for one in path.parent.iterdir()] == ["trimtab.db"]
