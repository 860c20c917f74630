"""A report on disk is whole or not there, and nothing else is harmed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.silent_fuse import silent_mount

from trimtab.base.error import NoAnswer, UnreadableError, UsageError
from trimtab.reach.bounded import check_report_path, write_report

pytestmark = pytest.mark.system


def test_the_report_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, "old")
    write_report(path, "new ü")
    assert path.read_bytes() == "new ü".encode()
    assert os.listdir(tmp_path) == ["report.html"]  # noqa: PTH208


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    write_report(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_report(tmp_path / "report.html", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "not-a-file"),
        ("no/where.html", "directory-missing"),
        ("no/where/deep.html", "directory-missing"),
        ("pipe", "not-a-file"),
        ("pipe/r.html", "not-a-directory"),
        ("loop", "link-loop"),
        ("loop/r.html", "link-loop"),
        ("astray", "directory-missing"),
        ("n" * 256, "name-too-long"),
        ("a\0b", "path-invalid"),
    ],
)
def test_a_path_that_cannot_hold_a_report_is_refused(tmp_path: Path, name: str, code: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to("no/where.html")
    with pytest.raises(UsageError) as caught:
        write_report(tmp_path / name, "x")
    assert caught.value.code == code
    assert sorted(one.name for one in tmp_path.iterdir()) == ["astray", "loop", "pipe"]


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to("real.html")
    write_report(tmp_path / "link.html", "new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


def test_a_name_that_is_not_text_is_as_good_as_any(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9\x1b.html"
    write_report(path, "new")
    assert path.read_text() == "new"
    (tmp_path / "dir\udce9\x1b").mkdir()
    with pytest.raises(UsageError) as caught:
        check_report_path(tmp_path / "dir\udce9\x1b")
    assert caught.value.message.isprintable()


@pytest.mark.system
@pytest.mark.parametrize("mute", [False, True])
@pytest.mark.parametrize("name", ["dead", "dead/report.html", "link.html", "through/report.html"])
def test_a_file_system_that_does_not_answer_is_said_to(
    tmp_path: Path, name: str, mute: bool
) -> None:
    (tmp_path / "dead").mkdir()
    (tmp_path / "link.html").symlink_to("dead/report.html")
    (tmp_path / "through").symlink_to("dead")
    with silent_mount(tmp_path / "dead", mute=mute), pytest.raises(NoAnswer, match="did not"):
        check_report_path(tmp_path / name, deadline_s=0.7)


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(UsageError) as caught:
        check_report_path(Path("/dev/null"))
    assert caught.value.code == "not-a-file"


def test_a_failure_on_the_way_keeps_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnreadableError, match="No space left on device"):
        write_report(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
