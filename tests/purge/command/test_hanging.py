"""A scan of a mount that hangs says so and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support import silent_fuse
from tests.support.command import trimtab

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(silent_fuse.why_not() is not None, reason=silent_fuse.why_not() or ""),
]


def test_a_scan_of_a_dead_mount_ends(tmp_path):
    root, index = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    with silent_fuse.silent_mount(root, mute=True):
        ended = trimtab(
            "purge", "scan", root, "--index", index, store=Path(os.devnull), timeout_s=90.0
        )
    assert ended.code == 3
    assert "the scan was not begun" in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not index.exists()
