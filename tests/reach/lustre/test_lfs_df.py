"""What lfs df prints: whole, with targets that are gone, cut, altered, for people, of none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES, cuts
from tests.support.each import for_each

from trimtab.reach.lustre.lfs_df import LfsDfLine, LfsDfSummary, parse_lfs_df

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


def test_another_unit_is_not_used() -> None:
    for text, inodes in ((WHOLE, True), (INODES, False)):
        (found,) = parse_lfs_df(text, inodes=inodes)
        assert (found.lines, found.summary, found.complete) == ({}, None, False)
        assert "ignored" in found.problems[0]


def test_numbers_for_people_are_refused() -> None:
    text = """\
UUID                       bytes        Used   Available Use%  Mounted on
fs-OST0000_UUID             3.7G        1.5M        3.4G   1%  /scratch[OST:0] f

filesystem_summary:         3.7G        1.5M        3.4G   1%  /scratch
"""
    (found,) = parse_lfs_df(text)
    assert (found.lines, found.complete) == ({}, False)
    assert "bytes" in found.problems[0]
    (found,) = parse_lfs_df(INODES.replace(" 1677728", "    1.6M"), inodes=True)
    assert (found.lines, found.complete) == ({}, False)
    assert "rounded (-h)" in found.problems[0]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("OST0001             : inactive device", "inactive device"),
        (
            "fs-OST0001_UUID: Transport endpoint is not connected",
            "Transport endpoint is not connected",
        ),
        (
            "fs-OST0001_UUID     : Resource temporarily unavailable",
            "Resource temporarily unavailable",
        ),
    ],
)
@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_a_target_that_does_not_answer(said: str, problem: str, where: str) -> None:
    if where == "stdout":
        (found,) = parse_lfs_df(HEADER + LINES + said + "\n" + SUMMARY)
    else:
        (found,) = parse_lfs_df(WHOLE, said + "\n")
    # Lustre leaves it out of the summary: the output is whole, the file system is not.
    assert found.complete
    assert found.problems == [f"OST0001: {problem}"]
    lost = [*found.lines.values()][-1]
    assert (lost.target, lost.total, lost.used, lost.available) == ("OST0001", None, None, None)
    assert lost.problem == problem
    assert lost.line == (5 if where == "stdout" else 0)


@pytest.mark.parametrize("number", [3, 4])
def test_a_lost_line_is_noticed(number: int) -> None:
    lines = WHOLE.split("\n")
    del lines[number - 1]
    (found,) = parse_lfs_df("\n".join(lines))
    assert not found.complete
    assert "a line is missing or was altered: the lines have" in found.problems[0]
    assert " bytes total, the summary " in found.problems[0]


@pytest.mark.parametrize(
    ("old", "new"), [("1528", "9528"), ("3605492", "360549"), ("3833116", "383")]
)
def test_an_altered_number_is_noticed(old: str, new: str) -> None:
    (found,) = parse_lfs_df(WHOLE.replace(old, new, 1))
    assert not found.complete
    assert len(found.problems) == 1


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


def test_no_lustre_and_nothing_at_all() -> None:
    assert parse_lfs_df("") == []
    assert parse_lfs_df("\n \n", "\n") == []
    (found,) = parse_lfs_df("df:/scratch Not a Lustre filesystem\n")
    assert (found.file_system, found.mount, found.complete) == (None, "/scratch", False)
    assert found.problems == ["/scratch: lfs df reports that it is not a Lustre file system"]
    (found,) = parse_lfs_df("", "lfs: cannot open '/scratch': Input/output error (5)\n")
    assert not found.complete
    assert "Input/output error" in found.problems[0]


def test_a_target_that_hangs_before_any_line_came() -> None:
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
def test_a_megabyte_of_malice_is_read_in_one_pass(text: str) -> None:
    for one in (text, HEADER + text + "\n", HEADER + LINES + "filesystem_summary: " + text + "\n"):
        parse_lfs_df(one, one)


def test_cuts_are_cuts() -> None:
    assert list(cuts("ab\nc")) == ["", "ab\n"]
