"""A scan that a signal stops, or whose mount hangs, says so and leaves nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support import silent_fuse
from tests.support.command import trimtab
from tests.support.polling import eventually

pytestmark = pytest.mark.system

DIRECTORIES, FILES = 40, 50


def _command(root: Path, index: Path, *more: str) -> list[str]:
    aged = [sys.executable, "-m", "tests.purge.command.aged", "0"]
    return [*aged, "purge", "scan", str(root), "--index", str(index), "--threads", "2", *more]


def test_a_scan_goes_on_where_it_was_stopped(tmp_path):
    root, index = tmp_path / "root", tmp_path / "index"
    for number in range(DIRECTORIES):
        directory = root / f"d{number}"
        directory.mkdir(parents=True)
        for file in range(FILES):
            (directory / f"f{file}").touch()
    slow = _command(root, index, "--checkpoint", "0.2s", "--calls-per-second", "400")
    with subprocess.Popen(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as scan:
        eventually(index.exists)
        time.sleep(1.0)
        scan.send_signal(signal.SIGINT)
        _, complaint = scan.communicate(timeout=60)
    assert scan.returncode == 130, complaint
    assert "continues the scan" in complaint
    assert "Traceback" not in complaint
    assert not (index / "manifest.json").exists()
    ended = subprocess.run(_command(root, index, "--json"), capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert (document["complete"], document["names"]) == (True, DIRECTORIES * (FILES + 1))
    again = subprocess.run(_command(root, index), capture_output=True, check=False)
    assert again.returncode == 2


@pytest.mark.skipif(silent_fuse.why_not() is not None, reason=silent_fuse.why_not() or "")
def test_a_scan_of_a_dead_mount_ends(tmp_path):
    root, index = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    with silent_fuse.silent_mount(root, mute=True):
        scan = ("purge", "scan", root, "--index", index)
        ended = trimtab(*scan, store=Path(os.devnull), timeout_s=90.0)
    assert ended.code == 3
    for words in ("the scan was not begun", "hint: "):
        assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not index.exists()
