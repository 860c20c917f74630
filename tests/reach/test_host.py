from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.error import RefusedError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.host import Host

SOURCES = Path(__file__).parents[2] / "src" / "trimtab"


def test_a_file_is_read_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/value").write_text("one\ntwo\n")
    assert Host(str(tmp_path)).read_text("/sys/value") == "one\ntwo"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "/value does not exist"),
        (lambda path: path.mkdir(), "/value: Is a directory"),
        (lambda path: path.write_bytes(b"x" * 101), "/value is longer than 100 bytes"),
    ],
)
def test_what_cannot_be_read_says_why(make, reason: str, tmp_path: Path) -> None:
    make(tmp_path / "value")
    answer = Host(str(tmp_path)).read_text("/value", limit_bytes=100)
    assert answer == NotAvailable(reason)


def test_what_is_no_number_is_not_zero_and_undecodable_bytes_survive(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    for text, value in (("7\n", 7), ("-1\n", -1), (" 42 ", 42)):
        (tmp_path / "value").write_text(text)
        assert host.read_number("/value") == value
    for text in ("", "none", "1.5", "0x10", "12 34"):
        (tmp_path / "value").write_text(text)
        assert "not a number" in instance(NotAvailable, host.read_number("/value")).reason
    (tmp_path / "value").write_bytes(b"a\xffb\n")
    text = instance(str, host.read_text("/value"))
    assert text.encode("utf-8", "surrogateescape") == b"a\xffb"
    # Writing creates nothing.
    assert present(host.write_text("/missing", "1")).errno == errno.ENOENT
    assert not (tmp_path / "missing").exists()


def test_links_are_resolved_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/x").mkdir(parents=True)
    (tmp_path / "sys/link").symlink_to("devices/x")
    (tmp_path / "sys/out").symlink_to("/etc")
    host = Host(str(tmp_path))
    assert host.resolve("/sys/link") == "/sys/devices/x"
    assert host.resolve("/sys/missing") == NotAvailable("/sys/missing does not exist")
    answer = instance(NotAvailable, host.resolve("/sys/out"))
    assert "leads out of" in answer.reason


def test_mb_groups_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "mb_groups").mkdir()
    with raises(RefusedError, "file-never-read"):
        Host(str(tmp_path)).read_text("/mb_groups")


def test_no_other_source_names_mb_groups() -> None:
    naming = {
        path.relative_to(SOURCES)
        for path in SOURCES.rglob("*.py")
        for line in path.read_text().splitlines()
        if "mb_groups" in line and "``mb_groups``" not in line
    }
    # The two places that refuse to open it: on this host, and on a server.
    assert naming == {Path("reach/host.py"), Path("reach/lustre/collector_tree.py")}
