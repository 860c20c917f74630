"""What a client is asked, and what is made of it: space, pools, placement, jobs, deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.driver import driver_of, servers_of
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.hosts import recorded
from tests.reach.lustre.cuts import ADVERSARIES, cuts
from tests.support.each import for_each
from tests.support.narrow import instance
from tests.support.silent_fuse import silent_mount

from trimtab.base.error import ToolError, code_of
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.lustre.lustre_client import (
    parse_members,
    parse_placement,
    parse_pools,
    read_placement,
    read_pools,
)
from trimtab.reach.lustre.lustre_target import LfsDfLine, LfsDfSummary, parse_lfs_df
from trimtab.reach.lustre.server_query import JOBS, ask_client, running_jobs
from trimtab.reach.process import ProcessResult, execute, still_hanging

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
KIB = 1024
HEADER = "UUID                   1K-blocks        Used   Available Use%  Mounted on\n"
LINES = """\
fs-MDT0000_UUID          2316144        1776     2089828   1%  /scratch[MDT:0] f
fs-OST0000_UUID          3833116        1528     3605492   1%  /scratch[OST:0] f
fs-OST000a_UUID          3833116      121608     3485412   4%  /scratch[OST:10] Nf
"""
SUMMARY = "\nfilesystem_summary:      7666232      123136     7090904   2%  /scratch \n\n"
WHOLE = HEADER + LINES + SUMMARY
INODES = """\
UUID                      Inodes       IUsed       IFree IUse%  Mounted on
fs-MDT0000_UUID          1677728         283     1677445   1%  /scratch[MDT:0]
fs-MDT0001_UUID          1258296         261     1258035   1%  /scratch[MDT:1]
fs-OST0000_UUID           262144         369      261775   1%  /scratch[OST:0]
fs-OST0001_UUID           262144         369      261775   1%  /scratch[OST:1]

filesystem_summary:       524094         544      523550   1%  /scratch

"""


def test_a_whole_output() -> None:
    (found,) = parse_lfs_df(WHOLE)
    assert (found.file_system, found.mount, found.complete) == ("fs", "/scratch", True)
    assert found.problems == []
    assert [(line.target, line.flags) for line in found.lines.values()] == [
        ("MDT0000", "f"),
        ("OST0000", "f"),
        ("OST000a", "Nf"),
    ]
    assert [*found.lines.values()][2] == LfsDfLine(
        "OST000a", 3833116 * KIB, 121608 * KIB, 3485412 * KIB, "Nf", 4
    )
    assert found.summary == LfsDfSummary(7666232 * KIB, 123136 * KIB, 7090904 * KIB, 6)


def test_the_old_words_for_the_summary_and_a_mount_point_with_blanks() -> None:
    text = WHOLE.replace("filesystem_summary", "filesystem summary").replace("Use%  ", "Use% ")
    text = text.replace("/scratch", "/a b [OST:1]").replace("] f\n", "]\n")
    (found,) = parse_lfs_df(text)
    assert (found.complete, found.mount) == (True, "/a b [OST:1]")
    assert [line.flags for line in found.lines.values()] == ["", "", "Nf"]


def test_inodes_are_counted_as_lustre_counts_them() -> None:
    (found,) = parse_lfs_df(INODES, inodes=True)
    assert found.complete, found.problems
    assert found.lines["MDT0000"].available == 1677445
    # With objects enough, the inodes of the MDTs are what there is.
    text = INODES.replace("262144", "9262144").replace("  261775", " 9261775")
    text = text.replace("  524094", " 2936024").replace("  523550", " 2935480")
    (found,) = parse_lfs_df(text, inodes=True)
    assert found.complete, found.problems
    (found,) = parse_lfs_df(INODES.replace("523550", "523551"), inodes=True)
    assert not found.complete
    assert "available" in found.problems[0]


ROUNDED = """\
UUID                       bytes        Used   Available Use%  Mounted on
fs-OST0000_UUID             3.7G        1.5M        3.4G   1%  /scratch[OST:0] f

filesystem_summary:         3.7G        1.5M        3.4G   1%  /scratch
"""


@pytest.mark.parametrize(
    ("text", "inodes", "problem"),
    [
        (WHOLE, True, "ignored"),
        (INODES, False, "ignored"),
        (ROUNDED, False, "bytes"),
        (INODES.replace(" 1677728", "    1.6M"), True, "rounded (-h)"),
    ],
    ids=["space for inodes", "inodes for space", "space for people", "inodes for people"],
)
def test_another_unit_is_not_used(text: str, inodes: bool, problem: str) -> None:
    (found,) = parse_lfs_df(text, inodes=inodes)
    assert (found.lines, found.summary, found.complete) == ({}, None, False)
    assert problem in found.problems[0]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("OST0001             ", "inactive device"),
        ("fs-OST0001_UUID", "Transport endpoint is not connected"),
        ("fs-OST0001_UUID     ", "Resource temporarily unavailable"),
    ],
)
@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_a_target_that_does_not_answer(name: str, problem: str, where: str) -> None:
    said = f"{name}: {problem}\n"
    if where == "stdout":
        (found,) = parse_lfs_df(HEADER + LINES + said + SUMMARY)
    else:
        (found,) = parse_lfs_df(WHOLE, said)
    # Lustre leaves it out of the summary: the output is whole, the file system is not.
    assert found.complete
    assert found.problems == [f"OST0001: {problem}"]
    lost = [*found.lines.values()][-1]
    assert (lost.target, lost.total, lost.used, lost.available) == ("OST0001", None, None, None)
    assert lost.problem == problem
    assert lost.line == (5 if where == "stdout" else 0)


def test_a_lost_line_and_an_altered_number_are_noticed() -> None:
    for number in (3, 4):
        lines = WHOLE.split("\n")
        del lines[number - 1]
        (found,) = parse_lfs_df("\n".join(lines))
        assert not found.complete
        assert "a line is missing or was altered: the lines have" in found.problems[0]
        assert " bytes total, the summary " in found.problems[0]
    for old, new in (("1528", "9528"), ("3605492", "360549"), ("3833116", "383")):
        (found,) = parse_lfs_df(WHOLE.replace(old, new, 1))
        assert (found.complete, len(found.problems)) == (False, 1), new


@pytest.mark.parametrize(
    "line",
    [
        "fs-OST0001_UUID 3833116 1528 3605492 1% /scratch[OST:2]",
        "fs-OST0001_UUID 3833116 1528 3605492 1% /scratch[MDT:1]",
        "fs-OST0001_UUID 3833116 1528 3605492 1% /other[OST:1]",
        "gs-OST0001_UUID 3833116 1528 3605492 1% /scratch[OST:1]",
        "fs-OST0000_UUID 3833116 1528 3605492 1% /scratch[OST:0]",
        "fs-OST0001-osc-MDT0000_UUID 3833116 1528 3605492 1% /scratch[OST:1]",
        "fs-OST0001_UUID 3833116 1528 1% /scratch[OST:1]",
        "fs-OST0001_UUID 3833116 -1528 3605492 1% /scratch[OST:1]",
        "fs-OST0001_UUID 3833116 1528 3605492 1% /scratch[OST:1",
        "fs-OST0001_UUID 3833116 1528 3605492 1% /scratch",
        "fs-OST0001_UUID 3833116 \u0661 3605492 1% /scratch[OST:1]",
        "fs-OST0001_UUID 38fs-OST0001_UUID 3833116 1528 3605492 1% /scratch[OST:1]",
        "fs-OST0001_UUID 3833116 1528 3605492 1% /scratch[OST:1] f; rm",
        "x" * 10_000,
    ],
)
def test_a_line_that_cannot_be_is_not_used(line: str) -> None:
    (found,) = parse_lfs_df(f"{HEADER}{LINES}{line}\n{SUMMARY}")
    assert not found.complete
    assert len(found.lines) == 3
    assert len(found.problems) == 1


def test_no_lustre_nothing_at_all_and_nothing_but_a_header() -> None:
    assert parse_lfs_df("") == parse_lfs_df("\n \n", "\n") == []
    (found,) = parse_lfs_df("df:/scratch Not a Lustre filesystem\n")
    assert (found.file_system, found.mount, found.complete) == (None, "/scratch", False)
    assert found.problems == ["/scratch: lfs df reports that it is not a Lustre file system"]
    (found,) = parse_lfs_df("", "lfs: cannot open '/scratch': Input/output error (5)\n")
    assert not found.complete
    assert "Input/output error" in found.problems[0]
    (found,) = parse_lfs_df(HEADER, "fs-OST0003_UUID: Transport endpoint is not connected\n")
    assert (found.file_system, found.complete) == ("fs", False)
    assert [line.target for line in found.lines.values()] == ["OST0003"]


def test_several_file_systems_in_one_output() -> None:
    other = WHOLE.replace("fs-", "gs-").replace("/scratch", "/other")
    found = parse_lfs_df(WHOLE + other, "gs-OST0005_UUID: Input/output error\n")
    assert [(one.file_system, one.mount, one.complete) for one in found] == [
        ("fs", "/scratch", True),
        ("gs", "/other", True),
    ]
    assert [*found[1].lines.values()][-1].target == "OST0005"
    cut = parse_lfs_df(HEADER + LINES + other)
    assert [one.complete for one in cut] == [False, True]
    assert "cut" in cut[0].problems[-1]


def test_words_before_and_after_do_not_spoil_the_numbers() -> None:
    (found,) = parse_lfs_df("Welcome\n" + WHOLE + "rc=0\n")
    assert found.complete
    assert found.problems == [
        "line 1 belongs to no file system: Welcome",
        "line 9 belongs to no file system: rc=0",
    ]


@pytest.mark.parametrize("text", [WHOLE, WHOLE + WHOLE.replace("fs-", "gs-"), INODES])
def test_a_cut_output_shows_no_other_number_and_is_not_complete(text: str) -> None:
    inodes = text == INODES
    whole = {
        (one.file_system, line.target): line
        for one in parse_lfs_df(text, inodes=inodes)
        for line in one.lines.values()
    }
    summaries = {one.summary for one in parse_lfs_df(text, inodes=inodes)}
    for end in range(len(text)):
        for one in parse_lfs_df(text[:end], inodes=inodes):
            assert one.summary is None or one.summary in summaries
            assert one.complete == (one.summary is not None)
            assert one.complete or one.problems
            for line in one.lines.values():
                assert whole[one.file_system, line.target] == line


def test_a_character_that_is_lost_never_makes_another_number_of_an_ost() -> None:
    (whole,) = parse_lfs_df(WHOLE)
    before = {line.target: line for line in whole.lines.values()}
    for place in range(len(WHOLE)):
        for one in parse_lfs_df(WHOLE[:place] + WHOLE[place + 1 :]):
            for line in one.lines.values() if one.complete else ():
                # The sums are over the OSTs; what an MDT's line says of space nothing can confirm.
                if line.target.startswith("OST"):
                    old = before[line.target]
                    assert (line.total, line.used, line.available) == (
                        old.total,
                        old.used,
                        old.available,
                    )


# fmt: off
ALPHABET = st.sampled_from((
    "fs-OST0000_UUID", "OST0001", " ", " 1", " 2K", "\n", ": ", "/a[OST:0]", "[", "1%", HEADER,
    "filesystem_summary:", "\x00", "\x1b[2J", "\udcff", "\u2028", "df:/x Not a Lustre filesystem",
))
# fmt: on


@given(st.lists(ALPHABET).map("".join), st.lists(ALPHABET).map("".join))
def test_any_text_is_read(stdout: str, stderr: str) -> None:
    for one in parse_lfs_df(stdout, stderr):
        assert all("\x1b" not in problem for problem in one.problems)
        assert not (one.complete and one.summary is None)


@pytest.mark.system
@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_costs_lfs_df_one_pass(text: str) -> None:
    for one in (text, HEADER + text + "\n", HEADER + LINES + "filesystem_summary: " + text + "\n"):
        parse_lfs_df(one, one)


POOLS = {"flash": ["OST0000", "OST0002", "OST0001"], "disk": ["OST0003"], "empty": []}
LIST = "Pools from scratch:\nscratch.flash\nscratch.disk\nscratch.empty\n"
FLASH = "Pool: scratch.flash\nscratch-OST0000_UUID\nscratch-OST000a_UUID\n"


def reason(found: object) -> str:
    assert isinstance(found, NotAvailable), found
    assert found.reason.isprintable()
    return found.reason


def test_the_pools_of_a_file_system() -> None:
    assert driver_of(FakeLustre.small(), Servers()).pools() == {}
    fake = FakeLustre.small(pools=dict(POOLS))
    pools = {"flash": (0, 1, 2), "disk": (3,), "empty": ()}
    assert driver_of(fake, Servers()).pools() == pools
    asked: list[tuple[str, ...]] = []

    def noting(argv, **options):
        asked.append(tuple(argv))
        return fake.execute(argv, **options)

    assert read_pools("scratch", noting) == pools
    names = ("scratch", *(f"scratch.{name}" for name in POOLS))
    assert asked == [("lfs", "pool_list", name) for name in names], "and nothing else"

    def losing_one(argv, **options):
        result = fake.execute(argv, **options)
        fake.pools.pop("disk", None)
        return result

    assert "lfs pool_list" in reason(read_pools("scratch", losing_one))

    def missing(argv, **options):
        raise ToolError("lfs is not installed")

    assert "lfs is not installed" in reason(read_pools("scratch", missing))


def test_lists_of_pools_and_their_members() -> None:
    """The recording has lctl's lists of both kinds, and after them lfs's of the pools."""
    text = recorded("create_gating/40_pool")
    pools = text[text.index("Pools from") : text.index("Pool: ")]
    members = text[text.index("Pool: ") : text.rindex("Pools from")]
    assert parse_pools("scratch", pools) == ("flash",)
    assert parse_members("scratch.flash", members) == (0, 1)
    # Numbers of OSTs are hexadecimal, and in order.
    turned = "Pool: scratch.flash\nscratch-OST000a_UUID\nscratch-OST0000_UUID\n"
    for text in (FLASH, turned):
        assert parse_members("scratch.flash", text) == (0, 10)


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "Pools from scratch:", "Pools from other:\n"),
        *(
            f"Pools from scratch:\n{names}\n"
            for names in (
                *("other.flash", "scratch", "scratch.", "scratch.sixteen_letters!"),
                *("scratch.a-very-long-name", "scratch.fl\x1b[2Jash", "scratch.fl\udcffash"),
                *("scratch.fl ash", "scratch.a/b", "scratch.flash\n", " scratch.flash"),
                "scratch.flash\nscratch.flash",
            )
        ),
        "lfs pool_list: something else\nPools from scratch:\n",
    ],
)
def test_what_is_no_list_of_pools(text: str) -> None:
    reason(parse_pools("scratch", text))


@pytest.mark.parametrize(
    "text",
    [
        *("", "Pool: scratch.flash", "Pool: scratch.disk\n"),
        *(
            f"Pool: scratch.flash\n{members}\n"
            for members in (
                *("other-OST0000_UUID", "scratch-MDT0000_UUID", "scratch-OST0000-osc-MDT0000"),
                *("scratch-OST0000", "scratch-OST00000_UUID", "scratch-OST0000_UUID inactive"),
                "scratch-OST0000_UUID\nscratch-OST0000_UUID",
                "scratch-OST000A_UUID\nscratch-OST000a_UUID",
                "\x1b]0;evil\x07",
            )
        ),
    ],
)
def test_what_is_no_list_of_members(text: str) -> None:
    reason(parse_members("scratch.flash", text))


def test_a_cut_list_is_unknown_or_ends_with_a_whole_line() -> None:
    for text in cuts(LIST):
        found = parse_pools("scratch", text)
        if not isinstance(found, NotAvailable):
            assert text.endswith("\n")
            assert found == ("flash", "disk", "empty")[: len(found)]
    for length in range(len(FLASH)):
        found = parse_members("scratch.flash", FLASH[:length])
        if not isinstance(found, NotAvailable):
            assert FLASH[length - 1] == "\n"
            assert found == (0, 10)[: len(found)]


@for_each("text", ADVERSARIES)
def test_a_megabyte_of_anything_is_answered(text: str) -> None:
    for head in ("", "Pools from scratch:\n", "Pool: scratch.flash\n"):
        parse_pools("scratch", head + text)
        parse_members("scratch.flash", head + text)


@given(st.text(alphabet="Pols from:\nscratch.fla-OST0_UID", max_size=80))
def test_rubbish_never_raises(text: str) -> None:
    for head in ("", "Pools from scratch:\n", "Pool: scratch.flash\n"):
        for found in (parse_pools("scratch", head + text), parse_members("s.f", head + text)):
            assert isinstance(found, (tuple, NotAvailable))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("hang", command="lfs"), "still running"),
        (Fault("exit", command="lfs", code=2), "exit code 2"),
        (Fault("garbage", command="lfs"), "cannot be read"),
        (Fault("empty", command="lfs"), "cannot be read"),
        (Fault("half", command="lfs", bytes=30), "cut off"),
        (Fault("garbage", command="lfs", after_calls=2), "cannot be read"),
        (Fault("half", command="lfs", after_calls=1, bytes=35), "cut off"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else value,
)
def test_what_goes_wrong_makes_all_pools_unknown(fault: Fault, said: str) -> None:
    fake = FakeLustre.small(pools=dict(POOLS), faults=[fault])
    assert said in reason(driver_of(fake, Servers()).pools())


RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/client-files.out"
FILE = "/scratch/t-fake/a"


def test_a_file_is_asked_for_as_lfs_takes_it_and_a_path_is_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fake = FakeLustre.small(layouts={FILE: [2], f"{tmp_path}/-i": [1]})
    assert read_placement(FILE, fake.execute) == ("OST0002",)
    assert read_placement("-i", fake.execute) == ("OST0001",)


def test_a_recorded_layout_and_each_part_of_it() -> None:
    text = RECORDED.read_text()
    text = text[text.index(FILE) : text.index("[0x")]
    assert parse_placement(FILE, text) == ("OST0002",)
    row = text.index("\t     2")
    for end in range(row):
        assert isinstance(parse_placement(FILE, text[:end]), NotAvailable)


@pytest.mark.system
def test_what_cannot_be_killed_is_left_behind_once_and_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, mount = tmp_path / "bin", tmp_path / "mount"
    programs.mkdir()
    mount.mkdir()
    started = tmp_path / "started"
    program = programs / "lfs"
    program.write_text(f'#!/bin/sh\necho "$*" >> {started}\nexec stat {mount}/f0\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with silent_mount(mount, mute=True):
        for _ in range(2):
            ask_client("scratch", "/scratch", execute, timeout_s=1.0)
        view = ask_client("scratch", "/scratch", execute, timeout_s=1.0)
        assert [line.split()[0] for line in started.read_text().splitlines()] == ["df"]
        assert still_hanging("lfs", "df") == 1
        assert "1 left behind still hang" in str(view.why_no_space)


def test_each_running_job_is_a_line_and_anything_else_is_no_number() -> None:
    """Running jobs of the machine, where Slurm is on this host."""

    def jobs(stdout: bytes, exit_code: int = 0) -> int | NotAvailable:
        def run(argv: Sequence[str], **_options: Any) -> ProcessResult:
            assert tuple(argv) == JOBS
            return ProcessResult(tuple(argv), stdout, b"no contact", exit_code, None, AT, 0.1, 20.0)

        return running_jobs(run)

    assert jobs(b"17\n18\n18\n") == 3
    assert jobs(b"") == 0, "an empty machine is a measurement"
    for stdout in (b"JOBID\n17\n", b"error: x\n", b"\xff\n"):
        assert code_of(instance(NotAvailable, jobs(stdout)).reason) == "scheduler-failed"

    def missing(argv: Sequence[str], **_options: Any) -> ProcessResult:
        raise ToolError("squeue is not installed", code="tool-missing")

    for unknown in (running_jobs(missing), jobs(b"", 1)):
        assert instance(NotAvailable, unknown).reason


def test_all_that_the_client_is_asked_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its commands takes its whole time and answers nothing."""
    fake, given = FakeLustre.pair(faults=[Fault("hang")]), list[tuple[str, float]]()
    monkeypatch.setattr("time.monotonic", lambda: sum(took_s for _, took_s in given))

    def execute_slowly(argv: Sequence[str], *, timeout_s: float, **options: Any) -> ProcessResult:
        given.append((" ".join(argv[:2]), timeout_s))
        return fake.execute(argv, timeout_s=timeout_s, **options)

    view = ask_client("scratch", "/scratch", execute_slowly, timeout_s=20.0)
    # Imports first: they tell which target is lost, and reading them sends nothing. The batch
    # system is asked beside them.
    of_lustre = [words for words, _ in given if words.startswith("l")]
    assert of_lustre[:3] == ["lctl get_param", "lctl get_param", "lfs df"]
    assert sum(took_s for _, took_s in given) <= 20.0 + 3 * 1.0, "what comes last has a second each"
    assert view.problems


@pytest.mark.parametrize("servers", [True, False])
def test_a_lost_target_is_waited_for_only_where_nobody_else_tells_the_space_of_others(
    servers: bool,
) -> None:
    fake, asked = FakeLustre.pair(), list[str]()
    fake.target("OST0001").up = False

    def noting(argv: Sequence[str], **options: Any) -> ProcessResult:
        asked.append(" ".join(argv[:2]))
        return fake.execute(argv, **options)

    named = servers_of(fake, sudo=True) if servers else Servers()
    snapshot = driver_of(fake, named, execute=noting).snapshot(AT)
    assert ("lfs df" in asked) is not servers
    for seen in snapshot.targets:
        assert (seen.fullness() is None) is (seen.target.name == "OST0001")
