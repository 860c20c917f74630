"""A check that is stopped at any moment leaves no file, no process and a store in order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.command import TRIMTAB, trimtab
from tests.support.counts import repetitions, seeded

pytestmark = pytest.mark.cli

SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("probe", ["builtin", "fio"])
@pytest.mark.parametrize("trials", repetitions(gate=4, soak=100))
def test_a_stopped_check_leaves_nothing(probe: str, trials: int, tmp_path: Path) -> None:
    if probe == "fio" and not _has_fio():
        pytest.skip("fio is not installed")
    random = seeded(f"interruption {probe}")
    for trial in range(trials):
        target = tmp_path / f"target{trial}"
        target.mkdir()
        delay_s, number = random.uniform(0.05, 5.0), random.choice(SIGNALS)
        code = _stopped(target, tmp_path / "t.db", probe, delay_s, number, random.random() < 0.5)
        what = f"{number.name} after {delay_s:.3f} s"
        assert list(target.iterdir()) == [], what
        # Before the handlers are in place the signal itself ends the process.
        assert code in {130, -number.value}, f"{what}: exit code {code}"
        assert _processes_of(target) == [], what
    if not (tmp_path / "t.db").exists():
        return  # every check was stopped before it had a store
    ended = trimtab("runs", "--json", "--top", 1000, store=tmp_path / "t.db")
    assert {run["status"] for run in ended.document["runs"]} <= {"ok", "partial", "failed"}


def test_a_stopped_check_keeps_what_it_measured(tmp_path: Path) -> None:
    # A slow machine has measured nothing after some seconds, and then nothing can be kept.
    for delay_s in (8.0, 16.0, 28.0):
        place = tmp_path / f"{delay_s:g}"
        (place / "target").mkdir(parents=True)
        store = place / "t.db"
        assert _stopped(place / "target", store, "builtin", delay_s, signal.SIGINT, False) == 130
        if not store.exists():
            continue
        (run,) = trimtab("runs", "--json", store=store).document["runs"]
        assert "SIGINT" in run["problem"]
        measured = any(sample["value"] for sample in run["samples"])
        assert run["status"] == ("partial" if measured else "failed")
        if measured:
            return
    pytest.fail("stopped after 28 s of 40 it had kept nothing that it measured")


def _stopped(
    target: Path, store: Path, probe: str, delay_s: float, number: signal.Signals, twice: bool
) -> int:
    """Start a check, stop it after ``delay_s`` (perhaps with impatience), return its code."""
    process = subprocess.Popen(
        [str(TRIMTAB), "check", str(target), "--probe", probe, "--budget", "40s"],
        env={**os.environ, "TRIMTAB_STORE": str(store)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(delay_s)
    process.send_signal(number)
    if twice:
        time.sleep(0.05)
        process.send_signal(number)
    return process.wait(timeout=60)


def _processes_of(target: Path) -> list[int]:
    """Return the processes whose command line names the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
            if os.fsencode(target) in line:
                found.append(int(entry.name))
    return found


def _has_fio() -> bool:
    return any((Path(place) / "fio").exists() for place in os.environ["PATH"].split(":"))
