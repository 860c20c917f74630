"""A file system that hangs: what goes over it asks first, and is not begun."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.silent_fuse import silent_mount

from trimtab.errors import Interrupted, NoAnswer
from trimtab.loop.purging import importing, scanning
from trimtab.loop.purging.answering import require_answer
from trimtab.loop.purging.importing import ListDescription, import_index
from trimtab.loop.purging.scanning import ScanOptions, scan_index

pytestmark = pytest.mark.system


@pytest.mark.parametrize("mute", [False, True])
def test_a_root_that_hangs_is_told_within_the_deadline(tmp_path, mute):
    with silent_mount(tmp_path, mute=mute):
        with raises(NoAnswer, "no-answer") as caught:
            require_answer(str(tmp_path), "the scan", deadline_s=0.5)
        assert "dmesg" in (caught.value.hint or "")


def test_what_else_is_wrong_is_left_to_whoever_goes_over_it(tmp_path):
    require_answer(str(tmp_path), "the scan")
    require_answer(str(tmp_path / "missing"), "the scan")
    file = tmp_path / "file"
    file.touch()
    require_answer(str(file), "the scan")


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    soon = partial(require_answer, deadline_s=0.5)
    for module in (scanning, importing):
        monkeypatch.setattr(module, "require_answer", soon)
    root = tmp_path / "root"
    root.mkdir()
    with silent_mount(root, mute=True):
        yield root


def test_a_scan_that_hangs_on_the_way_can_be_stopped_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "_STOP_S", 0.2)
    root = tmp_path / "root"
    (root / "dead").mkdir(parents=True)
    (root / "file").touch()
    looks = []

    def stop(now) -> None:
        looks.append(now.entries)
        if len(looks) > 5:
            raise Interrupted("stopped by SIGINT")

    with silent_mount(root / "dead", mute=True), pytest.raises(Interrupted) as caught:
        scan_index(str(root), tmp_path / "index", ScanOptions(), version="0", progress=stop)
    assert "goes on with the scan" in caught.value.message
    assert "has not returned" in caught.value.message


def test_a_scan_and_an_import_of_it_are_not_begun(hanging, tmp_path):
    with raises(NoAnswer, "no-answer"):
        scan_index(str(hanging), tmp_path / "index", ScanOptions(), version="0")
    assert not (tmp_path / "index").exists()
    (tmp_path / "list").write_bytes(b"")
    said = ListDescription(str(hanging), "gnu-find", mounted=True)
    with raises(NoAnswer, "no-answer"):
        import_index(tmp_path / "list", tmp_path / "index", said)
    assert not (tmp_path / "index").exists()
