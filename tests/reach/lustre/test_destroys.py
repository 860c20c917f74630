"""How many objects of deleted files are still there: right, or not known, never too few."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.docs.test_lustre_docs import PAGE, coded, rows, section
from tests.fake_lustre.state import FakeLustre, Fault, FaultKind
from tests.reach.hosts import real_data
from tests.support.each import for_each

from trimtab.base.site import Servers, Ssh
from trimtab.reach.fleet import fan_out
from trimtab.reach.lustre import read_table
from trimtab.reach.lustre.deleted_space import DeletedSpace, ask_deleted_space, deleted_space
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.server_answer import CommandAnswer, ServerAnswer

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.57/usage-after-rmfid.out"
REQUEST = read_table.request(read_table.OF_PURGE, deadline_s=20.0)
LAST_LINE = "version=2.17.57\n"


def view(text: str, name: str = "mds1", **others: object) -> ServerView:
    answered = {
        "key": "parameters", "argv": ("lctl", "get_param"), "stdout": text, "stderr": "",
        "exit_code": 0, "signal": None, "timed_out": False, "truncated": False, "elapsed_s": 0.1,
        "first_line": None, "error": None, **others,
    }  # fmt: skip
    answer = ServerAnswer(name, commands=(CommandAnswer(**answered),), whole=True)  # type: ignore[arg-type]
    return ServerView(name, "scratch", answer, REQUEST)


def printed(
    mdt: str, counts: Mapping[str, int | str], *, active: str = "1", old: str = "1", also: str = ""
) -> str:
    """Return what ``lctl`` prints on the server of one MDT, pattern by pattern."""
    names = {ost: f"osp.scratch-{ost}-osc-{mdt}" for ost in counts}
    lines = [f"{name}.active={active}" for name in names.values()]
    lines += [f"{names[ost]}.destroys_in_flight={count}" for ost, count in counts.items()]
    lines += [f"{name}.old_sync_processed={old}" for name in names.values()]
    return "".join(f"{line}\n" for line in lines) + also + LAST_LINE


def other_mdt(mdt: str, by: str) -> str:
    name = f"osp.scratch-{mdt}-osp-{by}"
    return f"{name}.active=1\n{name}.destroys_in_flight=0\n"


def told(*texts: str) -> DeletedSpace:
    views = [view(text, f"mds{number}") for number, text in enumerate(texts, start=1)]
    return deleted_space(views, "scratch")


def total(found: DeletedSpace) -> int | None:
    return None if found.objects is None else sum(found.objects.values())


def ask(fake: FakeLustre, *mds: str) -> DeletedSpace:
    names = mds or tuple(sorted({one.server for one in fake.mdts}))
    return ask_deleted_space(Servers(mds=names), fake.file_system, fan_out=fake.fan_out)


# Recordings --------------------------------------------------------------------------------------


def test_the_count_of_a_running_lustre_falls_after_its_use_does() -> None:
    text = RECORDED.read_text()
    names = re.findall(r"^osp\.(\S+)\.destroys_in_flight=0$", text, re.MULTILINE)
    looks = re.findall(r"^filesystem_summary: +\d+ +(\d+) .*\n((?:\d ){9}\d)$", text, re.MULTILINE)
    assert (len(names), len(looks)) == (10, 6)
    counts = []
    for _, values in looks:
        lines = [f"osp.{name}.active=1\n" for name in names]
        pairs = zip(names, values.split(), strict=True)
        lines += [f"osp.{name}.destroys_in_flight={value}\n" for name, value in pairs]
        lines += [f"osp.{name}.old_sync_processed=1\n" for name in names if "-osc-" in name]
        counts.append(total(told("".join(lines) + LAST_LINE)))
    used_kib = [int(used) for used, _ in looks]
    assert counts == [1, 1, 1, 1, 1, 0]
    assert [used == used_kib[-1] for used in used_kib] == [False] * 4 + [True] * 2


def test_all_parameters_of_a_recorded_mds() -> None:
    text = real_data("lustre-2.17/params/get_osp.out").read_text()
    found = told(text + LAST_LINE)
    assert found.problems == ()
    assert found.objects == {
        (f"MDT000{mdt}", f"OST000{ost}"): 0 for mdt in range(2) for ost in range(4)
    }
    assert (found.held, found.uncounted, found.trash_cans) == ({}, frozenset(), ())


# What is counted ---------------------------------------------------------------------------------


def test_it_is_summed_over_servers_mdts_and_osts() -> None:
    found = told(
        printed("MDT0000", {"OST0000": 3, "OST000a": 5}, also=other_mdt("MDT0001", "MDT0000")),
        printed("MDT0001", {"OST0000": 70, "OST000a": 0}, also=other_mdt("MDT0000", "MDT0001")),
    )
    assert total(found) == 78
    assert found.problems == ()


def test_what_was_left_from_before_the_mdt_was_mounted_is_told_apart() -> None:
    found = told(printed("MDT0000", {"OST0000": 0}, old="0"))
    assert found.objects == {("MDT0000", "OST0000"): 0}
    assert found.uncounted == {("MDT0000", "OST0000")}


def test_objects_on_an_ost_that_is_switched_off_are_held_and_not_waited_for() -> None:
    on, off = {"OST0000": 2}, {"OST0001": 9}
    text = printed("MDT0000", off, active="0", old="0").removesuffix(LAST_LINE)
    found = told(text + printed("MDT0000", on))
    assert found.objects == {("MDT0000", "OST0000"): 2}
    assert found.held == {("MDT0000", "OST0001"): 9}
    assert found.uncounted == frozenset()


def test_another_file_system_on_the_same_server_and_its_clients_do_not_count() -> None:
    strangers = (
        "osp.home-OST0000-osc-MDT0000.destroys_in_flight=9\n"
        "osp.scratch-OST0000-osc-ffff8881253af000.destroys_in_flight=9\n"
        "osp.odd.destroys_in_flight=9\n"
    )
    found = told(printed("MDT0000", {"OST0000": 1}, also=strangers))
    assert (total(found), found.problems) == (1, ())


# What is not known -------------------------------------------------------------------------------


UNTOLD = "MDT0000 does not report"


@for_each(
    "texts, problem",
    [
        (
            [printed("MDT0000", {"OST0000": 0}, also=other_mdt("MDT0001", "MDT0000"))],
            "no MDS that answered serves MDT0001",
        ),
        (
            [printed("MDT0000", {"OST0000": 0}), printed("MDT0000", {"OST0000": 4})],
            "mds1 and mds2 both serve MDT0000",
        ),
        (
            [
                printed("MDT0000", {f"OST000{n}": 0 for n in range(6)}),
                printed("MDT0001", {"OST0003": 0}),
            ],
            "MDT0001 does not report OST0000, OST0001, OST0002 and 2 more",
        ),
        # The kernel prints a sum of signed numbers without a sign.
        *(
            ([printed("MDT0000", {"OST0000": 0, "OST0001": value})], f"{UNTOLD} OST0001")
            for value in ("", "x", "-1", "1.5", "4294967295", "12 34", "\x00")
        ),
        ([LAST_LINE, LAST_LINE], "no MDS reports scratch"),
        ([], "no MDS reports scratch"),
    ],
)
def test_what_is_not_known_has_its_reason(texts: list[str], problem: str) -> None:
    found = told(*texts)
    assert (found.objects, found.problems) == (None, (problem,))


def test_a_site_without_an_mds_asks_nobody() -> None:
    def never(*_a: object, **_k: object) -> dict:
        raise AssertionError

    found = ask_deleted_space(Servers(oss=("oss1",)), "scratch", fan_out=never)
    assert (found.objects, found.problems) == (None, ("the site names no MDS",))


def test_whatever_is_lost_of_an_answer_no_object_is() -> None:
    whole = printed("MDT0000", {"OST0000": 3, "OST0001": 5}, also=other_mdt("MDT0001", "MDT0000"))
    named = other_mdt("MDT0000", "MDT0001")
    second = printed("MDT0001", {"OST0000": 0, "OST0001": 1}, also=named)
    assert total(told(whole, second)) == 9
    for size in range(len(whole)):
        assert told(whole[:size], second).objects is None, whole[:size]
    # A line that is lost in the middle, too: only what is said of an MDT twice may be missing.
    lines = whole.splitlines(keepends=True)
    for number in range(len(lines)):
        rest = "".join(lines[:number] + lines[number + 1 :])
        assert total(told(rest, second)) in (None, 9)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_rubbish_is_no_count(text: str) -> None:
    assert told(text).objects is None
    assert told(text, printed("MDT0000", {"OST0000": 7})).objects in (
        None,
        {("MDT0000", "OST0000"): 7},
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"timed_out": True, "exit_code": None, "signal": 9}, "timed out"),
        ({"error": "No such file or directory", "exit_code": None}, "No such file"),
        ({"truncated": True, "exit_code": None, "signal": 15}, "its output was cut"),
        ({"stdout": "", "exit_code": 2, "stderr": "no lustre\n"}, "no lustre"),
    ],
)
def test_why_a_server_told_nothing(change: dict, why: str) -> None:
    text = change.pop("stdout", printed("MDT0000", {"OST0000": 3}))
    found = deleted_space([view(text, **change)], "scratch")
    assert found.objects is None
    assert why in found.problems[0]


# A site ------------------------------------------------------------------------------------------


def test_a_dead_server_matters_only_while_nobody_serves_its_mdt() -> None:
    fake = FakeLustre.pair()
    fake.parameters["osp.scratch-OST0003-osc-MDT0001.destroys_in_flight"] = "11"
    assert total(ask(fake)) == 11
    home = fake.target("MDT0001").server
    fake.server(home).dead = True
    found = ask(fake, "mds1", "mds2")
    assert found.objects is None
    assert any("No route to host" in text for text in found.problems)
    assert "no MDS that answered serves MDT0001" in found.problems
    fake.fail_over("MDT0001")
    found = ask(fake, "mds1", "mds2")
    assert total(found) == 11
    assert len(found.problems) == 1  # it is told all the same


@pytest.mark.system
def test_the_real_collector_over_a_real_process_says_the_same(tmp_path: Path) -> None:
    fake = FakeLustre.pair()
    fake.parameters["osp.scratch-OST0003-osc-MDT0001.destroys_in_flight"] = "11"
    installed = fake.install(tmp_path)
    servers = Servers(mds=("mds1", "mds2"), ssh=Ssh(command=installed.ssh), timeout_s=60.0)
    found = ask_deleted_space(servers, "scratch", fan_out=fan_out)
    assert found == ask(fake, "mds1", "mds2")
    assert total(found) == 11


FAULTS: tuple[FaultKind, ...] = ("hang", "half", "garbage", "empty", "die")


@for_each(
    "fault, known",
    [
        *((Fault(kind, "ssh", "mds2"), False) for kind in FAULTS),
        *((Fault("half", "lctl", "mds1", lines=n), n >= 8 * 3 + 2 + 1) for n in range(0, 60, 7)),
    ],
)
def test_a_faulty_server_is_a_reason_and_no_count(fault: Fault, known: bool) -> None:
    found = ask(FakeLustre.pair(faults=[fault]), "mds1", "mds2")
    assert (found.objects is not None) == known
    assert known or found.problems


@pytest.mark.calibration
def test_a_large_site_is_summed() -> None:
    fake = FakeLustre.perlmutter()
    for number, ost in enumerate(fake.osts):
        for mdt in fake.mdts:
            name = f"osp.{fake.file_system}-{ost.name}-osc-{mdt.name}.destroys_in_flight"
            fake.parameters[name] = str(number)
    assert total(ask(fake)) == 16 * sum(range(298))


# Trash cans --------------------------------------------------------------------------------------


def test_a_trash_can_that_is_on_is_told() -> None:
    name = "mdd.scratch-MDT0000.trash_can_enable"
    text = printed("MDT0000", {"OST0000": 0})
    assert told(text).trash_cans == ()
    assert told(f"{name}=0\n{text}").trash_cans == ()
    assert told(f"{name}=1\n{text}").trash_cans == (f"{name}=1",)
    # What is not understood holds a purge back, and cannot play with the terminal.
    assert told(f"{name}=\x1b[2J\n{text}").trash_cans == (f"{name}=\\x1b[2J",)
    assert told(f"mdd.home-MDT0000.trash_can_enable=1\n{text}").trash_cans == ()


# What is asked -----------------------------------------------------------------------------------


def test_nothing_is_asked_that_needs_rights_or_changes_anything() -> None:
    asked = REQUEST
    assert asked["sudo"] is None
    assert (asked["files"], asked["directories"], asked["links"]) == ([], [], [])
    (command,) = asked["commands"]
    assert command["argv"][:2] == ("lctl", "get_param")
    assert not command.get("sudo")
    assert command["argv"][-1] == read_table.LAST
    assert read_table.request({}, deadline_s=20.0)["commands"] == []


def test_the_page_tells_what_is_asked() -> None:
    part = section(PAGE, "What a purge asks")
    said = [name for row in rows(part) for name in coded(row[0])]
    assert sorted(said) == sorted(read_table.PURGE_PARAMETERS)
