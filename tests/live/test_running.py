"""The acceptance test itself: what it refuses, resumes and reports. The rows need a Lustre."""

from __future__ import annotations

import os
import smtplib
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import pytest
from tests.live.__main__ import UNDERSTOOD, main
from tests.live.cluster import Cluster, servers_of
from tests.live.listing import Work, rows_of, times_of
from tests.live.rows import CAPABILITIES
from tests.live.rows.mailing import require_one_each
from tests.live.rows.purging import KINDS
from tests.live.rows.scanning import require_equal, witnessed
from tests.live.running import Capability, Results, Wrong, run, table
from tests.live.subject import Answer, Subject
from tests.support.mailbox import mail_server


def test_every_row_names_a_witness_that_is_not_trimtab() -> None:
    assert len(CAPABILITIES) >= 25
    for row in CAPABILITIES.values():
        assert row.witness
        assert "trimtab" not in row.witness.lower()
        assert row.check.__doc__


def test_forty_kinds_of_change_meet_a_purge() -> None:
    assert len(KINDS) + len(("open", "open elsewhere")) >= 40


def test_nothing_begins_without_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    words = ["live", "--site", str(tmp_path / "absent.toml"), "--state", str(state)]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 2
    assert UNDERSTOOD in capsys.readouterr().err
    assert not state.exists()


def test_a_run_goes_on_where_it_was_on_the_same_commit_alone(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = True

    def first(_: Subject) -> str:
        ran.append("first")
        return "3 of 3"

    def second(_: Subject) -> str:
        ran.append("second")
        if broken:
            raise Wrong("two, lfs says three")
        return "3 of 3"

    def third(_: Subject) -> str:
        ran.append("third")
        raise ValueError("no such | column")

    rows = [Capability(f.__name__, "lfs", f) for f in (first, second, third)]
    said: list[str] = []
    results = Results(tmp_path / "results.json", "abc scratch")
    assert not run(rows, cast("Subject", None), results, said.append)
    assert ran == ["first", "second", "third"]
    shown = table(rows, results.outcomes)
    assert "**FAILED** two, lfs says three" in shown
    assert "**FAILED** ValueError: no such \\| column (test_running.py:" in shown

    broken = False
    ran.clear()
    again = Results(tmp_path / "results.json", "abc scratch")
    assert not run(rows, cast("Subject", None), again, said.append)
    assert ran == ["second", "third"]

    ran.clear()
    later = Results(tmp_path / "results.json", "def scratch")
    assert "| first | lfs | not run |  |" in table(rows, later.outcomes)
    run(rows, cast("Subject", None), later, said.append)
    assert ran == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("oss1", ["oss1"]),
        ("oss[1-2]", ["oss1", "oss2"]),
        ("oss[01-03,11]", ["oss01", "oss02", "oss03", "oss11"]),
        ("mds1,oss[9-10]", ["mds1", "oss9", "oss10"]),
        ("", []),
    ],
)
def test_node_sets(nodes: str, names: list[str]) -> None:
    assert servers_of(nodes) == names


class Spoken(Cluster):
    """A cluster whose nodes say what a test has them say."""

    def __init__(self, said: str) -> None:
        super().__init__("scratch", Path("/scratch"), ["oss1"], ["false"])
        self.said = said

    def _run(
        self, argv: Sequence[str], words: Sequence[str], timeout_s: float, code: int | None
    ) -> str:
        return self.said


def test_targets_are_where_the_kernel_lists_them() -> None:
    line = (
        "30 29 0:41 / /mnt/lustre/ost\\0401 rw shared:1 - lustre /dev/vdc "
        "rw,svname=scratch-OST0001,mgsnode=192.0.2.11@tcp,osd=osd-ldiskfs"
    )
    other = line.replace("scratch-OST0001", "other-OST0001")
    mounted = Spoken(f"{line}\n{other}\n1 0 254:1 / / rw - ext4 /dev/vda rw").mounted()
    assert list(mounted) == ["OST0001"]
    assert mounted["OST0001"].device == "/dev/vdc"
    assert mounted["OST0001"].index == 1


def test_a_statistic_is_no_setting() -> None:
    said = (
        "timeout=100\nobdfilter.scratch-OST0000.brw_stats=\nsnapshot_time: 1 secs\nread | write\n"
        "osp.a.max_create_count=20000\nmemused_max=\nsteps=\nstats of steps\n"
        "/sys/class/block/vda/queue/wbt_lat_usec=75000\n"
    )
    assert Spoken(said).settings("oss1") == {
        "timeout": "100",
        "osp.a.max_create_count": "20000",
        "/sys/class/block/vda/queue/wbt_lat_usec": "75000",
    }


def test_space_is_used_and_available() -> None:
    said = (
        "UUID                   1K-blocks        Used   Available Use% Mounted on\n"
        "scratch-MDT0000_UUID     1160264        2160     1038524   1% /scratch[MDT:0]\n"
        "scratch-OST0003_UUID     3833116        6676     3594008   1% /scratch[OST:3]\n"
    )
    assert Spoken(said).space() == {
        "MDT0000": (2160 * 1024, 1038524 * 1024),
        "OST0003": (6676 * 1024, 3594008 * 1024),
    }


def test_no_difference_between_an_index_and_a_listing_passes() -> None:
    seen: dict[str, tuple[Any, ...]] = {"a": ("f", 3, 1, 1, 9), "d": ("d", 0, 1, 1, 9)}
    require_equal(dict(seen), seen)
    for altered in (
        {"a": seen["a"]},
        {**seen, "gone": ("f", 0, 1, 1, 9)},
        {**seen, "a": ("f", 4, 1, 1, 9)},
        {**seen, "a": ("f", 3, 1, 1, 8)},
    ):
        with pytest.raises(Wrong):
            require_equal(altered, seen)
    require_equal({**seen, "a": ("f", 4, 1, 1, 9)}, seen, sizes=False)
    earlier = {**seen, "a": (*seen["a"][:4], seen["a"][4] - 1)}
    require_equal(earlier, seen, sizes=False)
    with pytest.raises(Wrong):
        require_equal(earlier, seen)
    for row in ((*seen["a"][:4], seen["a"][4] + 1), (*seen["a"][:4], seen["a"][4] - 2)):
        with pytest.raises(Wrong):
            require_equal({**seen, "a": row}, seen, sizes=False)


def test_work_makes_trees_that_are_listed_whole(tmp_path: Path) -> None:
    work = Work(tmp_path, 3, 1, lambda _: False)
    for _ in range(300):
        work.act()
    assert {"create", "rename", "link", "rmdir", "symlink"} <= set(work.acts)
    listed = rows_of(tmp_path)
    names = [name for _, below, files in os.walk(tmp_path) for name in (*below, *files)]
    assert len(listed) == len(names)
    assert set(times_of(tmp_path)) == {*listed, "."}
    require_equal(witnessed(tmp_path), witnessed(tmp_path))


def test_what_is_no_document_is_told_with_the_command() -> None:
    answer = Answer(("targets", "scratch"), 4, "", "error: refused")
    with pytest.raises(Wrong, match="targets scratch printed no JSON, code 4: error: refused"):
        _ = answer.document


@pytest.mark.system
def test_a_mail_that_is_missing_repeated_or_somebody_elses_fails_a_row() -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "storage@example.org", "your list"
    mail.set_content(".\nbegins with a full stop\n")

    def send(*recipients: str) -> None:
        with smtplib.SMTP("127.0.0.1", box.port, timeout=10.0) as server:
            server.send_message(mail, to_addrs=recipients)

    with mail_server() as box:
        with pytest.raises(Wrong, match="'ada': 0"):
            require_one_each(box, ["ada"])
        send("ada")
        (came,) = require_one_each(box, ["ada"])
        assert came["Subject"] == "your list"
        assert came.get_content().splitlines() == [".", "begins with a full stop"]
        send("bob")
        with pytest.raises(Wrong, match="bob"):
            require_one_each(box, ["ada"])
        require_one_each(box, ["ada", "bob"])
        send("bob")
        with pytest.raises(Wrong, match="'bob': 2"):
            require_one_each(box, ["ada", "bob"])
    with mail_server() as box:
        send("ada", "bob")
        with pytest.raises(Wrong):
            require_one_each(box, ["ada", "bob"])
