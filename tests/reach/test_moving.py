"""Rates while programs run: those of descendants, from what the kernel accounts to them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from trimtab.reach.process import MovingRate, moved_by_children

WRITER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c",
    "import sys; open(sys.argv[1], 'wb').write(bytes(8_000_000)); sys.stdin.read()", sys.argv[1]],
    stdin=sys.stdin)
child.wait()
"""


@pytest.mark.system
def test_what_a_grandchild_wrote_is_counted(tmp_path: Path) -> None:
    """The kernel's own accounting, of a process two generations down that is alive still."""
    argv = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    before = moved_by_children("write")
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        end_s = time.monotonic() + 60
        while moved_by_children("write") < before + 8_000_000 and time.monotonic() < end_s:
            time.sleep(0.02)
        moved = moved_by_children("write") - before
        process.stdin.close()
    assert 8_000_000 <= moved < 9_000_000


def proc_of(tmp_path: Path, written: int) -> Path:
    """Return a ``/proc`` in which process 1 has one child, and that has another."""
    for pid, child in (("1", "2"), ("2", "3"), ("3", "")):
        task = tmp_path / pid / "task" / pid
        task.mkdir(parents=True, exist_ok=True)
        (task / "children").write_text(f"{child} " if child else "")
        (tmp_path / pid / "io").write_text(f"rchar: 5\nwchar: 7\nwrite_bytes: {written}\n")
    return tmp_path


def test_the_larger_of_both_accounts_counts(tmp_path: Path) -> None:
    assert moved_by_children("write", proc_of(tmp_path, 100), pid=1) == 200
    assert moved_by_children("read", proc_of(tmp_path, 100), pid=1) == 10


def test_a_rate_is_of_a_second_or_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    rate = MovingRate("write", proc_of(tmp_path, 0))
    assert rate(0.0) is None
    proc_of(tmp_path, 50_000_000)
    assert rate(0.5) is None
    assert rate(2.0) == pytest.approx(1e8 / 2, rel=1e-5)
    assert rate(2.5) == pytest.approx(1e8 / 2, rel=1e-5)
    proc_of(tmp_path, 10)  # the programs ended, another began
    assert rate(4.0) is None
