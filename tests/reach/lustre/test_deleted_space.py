"""How many objects of deleted files are still there: right, or not known, never too few."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import numpy as np
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
from trimtab.reach.lustre.deleted_space import DeletedSpace, Drain, ask_deleted_space, deleted_space
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.server_answer import CommandAnswer, ServerAnswer

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.57/usage-after-rmfid.out"
REQUEST = read_table.request(read_table.OF_PURGE, deadline_s=20.0)
LAST_LINE = "version=2.17.57\n"
FIRST, OTHER = ("MDT0000", "OST0000"), ("MDT0001", "OST0000")


def view(text: str, name: str = "mds1", **others: object) -> ServerView:
    answered = {
        **{"key": "parameters", "argv": ("lctl", "get_param"), "stdout": text, "stderr": ""},
        **{"exit_code": 0, "signal": None, "timed_out": False, "truncated": False},
        **{"elapsed_s": 0.1, "first_line": None, "error": None, **others},
    }
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


# What is not known -------------------------------------------------------------------------------


def test_objects_are_counted_of_each_mdt_and_ost_that_is_switched_on() -> None:
    found = told(
        printed("MDT0000", {"OST0000": 3, "OST000a": 5}, also=other_mdt("MDT0001", "MDT0000")),
        printed("MDT0001", {"OST0000": 70, "OST000a": 0}, also=other_mdt("MDT0000", "MDT0001")),
    )
    assert (total(found), found.problems) == (78, ())
    # What was left from before the MDT was mounted is told apart.
    found = told(printed("MDT0000", {"OST0000": 0}, old="0"))
    assert (found.objects, found.uncounted) == ({FIRST: 0}, {FIRST})
    # Objects on an OST that is switched off are held, and not waited for.
    text = printed("MDT0000", {"OST0001": 9}, active="0", old="0").removesuffix(LAST_LINE)
    found = told(text + printed("MDT0000", {"OST0000": 2}))
    assert (found.objects, found.held) == ({FIRST: 2}, {("MDT0000", "OST0001"): 9})
    assert found.uncounted == frozenset()
    # Another file system on the same server and its clients do not count.
    strangers = ("home-OST0000-osc-MDT0000", "scratch-OST0000-osc-ffff8881253af000", "odd")
    also = "".join(f"osp.{name}.destroys_in_flight=9\n" for name in strangers)
    found = told(printed("MDT0000", {"OST0000": 1}, also=also))
    assert (total(found), found.problems) == (1, ())


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


@pytest.mark.system
def test_a_dead_server_matters_only_while_nobody_serves_its_mdt(tmp_path: Path) -> None:
    fake = FakeLustre.pair()
    fake.parameters["osp.scratch-OST0003-osc-MDT0001.destroys_in_flight"] = "11"
    whole = ask(fake)
    assert total(whole) == 11
    # The real collector over a real process says the same.
    installed = fake.install(tmp_path)
    servers = Servers(mds=("mds1", "mds2"), ssh=Ssh(command=installed.ssh), timeout_s=60.0)
    assert ask_deleted_space(servers, "scratch", fan_out=fan_out) == whole
    fake.server(fake.target("MDT0001").server).dead = True
    found = ask(fake, "mds1", "mds2")
    assert found.objects is None
    assert any("No route to host" in text for text in found.problems)
    assert "no MDS that answered serves MDT0001" in found.problems
    fake.fail_over("MDT0001")
    found = ask(fake, "mds1", "mds2")
    assert (total(found), len(found.problems)) == (11, 1)  # it is told all the same


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


def test_nothing_is_asked_that_needs_rights_or_changes_anything_and_the_page_tells_it() -> None:
    assert REQUEST["sudo"] is None
    assert (REQUEST["files"], REQUEST["directories"], REQUEST["links"]) == ([], [], [])
    (command,) = REQUEST["commands"]
    assert (command["argv"][:2], command["argv"][-1]) == (("lctl", "get_param"), read_table.LAST)
    assert not command.get("sudo")
    assert read_table.request({}, deadline_s=20.0)["commands"] == []
    said = [name for row in rows(section(PAGE, "What a purge asks")) for name in coded(row[0])]
    assert sorted(said) == sorted(read_table.PURGE_PARAMETERS)

    def never(*_a: object, **_k: object) -> dict:
        raise AssertionError

    found = ask_deleted_space(Servers(oss=("oss1",)), "scratch", fan_out=never)
    assert (found.objects, found.problems) == (None, ("the site names no MDS",))


# A wait on a busy file system: for what was there at its beginning, and nothing that came later


def looks(drain: Drain, *counts: int) -> list[int]:
    return [drain.look({FIRST: count}) for count in counts]


class Queue:
    """Objects in the order in which they came, each with whether it was there at the first look."""

    def __init__(self, old: int) -> None:
        self.waiting = deque([True] * old)

    def step(self, come: int, go: int) -> None:
        """Let some come and some go, one by one: what happens between two looks is not seen."""
        for number in range(max(come, go)):
            if number < come:
                self.waiting.append(False)
            if number < go and self.waiting:
                self.waiting.popleft()

    @property
    def old(self) -> int:
        return sum(self.waiting)


STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


@given(st.lists(st.tuples(st.integers(0, 50), STEPS), min_size=1, max_size=4))
def test_never_fewer_than_are_left_in_a_queue_that_is_played_through(plan) -> None:
    queues = {(f"MDT{number:04}", "OST0000"): Queue(old) for number, (old, _) in enumerate(plan)}
    drain = Drain()
    rounds = max(len(steps) for _, steps in plan)
    for at in range(rounds + 1):
        counts = {pair: len(queue.waiting) for pair, queue in queues.items()}
        told = drain.look(counts)
        assert sum(queue.old for queue in queues.values()) <= told <= sum(counts.values())
        for queue, (_, steps) in zip(queues.values(), plan, strict=True):
            if at < len(steps):
                queue.step(*steps[at])


@pytest.mark.parametrize(("rate_per_s", "looks_most"), [(0.01, 4), (1.0, 15), (100.0, 25)])
def test_users_of_a_whole_file_system_do_not_make_a_wait_long(rate_per_s, looks_most) -> None:
    """600 pairs of MDT and OST, at 22,000 to 216 million objects an hour, never all at 0.

    Each OST commits what has come every 5 s, so a count is what came since; looks are 5.3 s apart.
    """
    random = np.random.default_rng(20261122)
    since_commit_s = random.uniform(0.0, 5.0, 600)
    drain, looks, left = Drain(), 0, 1
    while left and looks < 100:
        counts = random.poisson(rate_per_s * since_commit_s)
        assert counts.any()
        left = drain.look({(f"MDT{n:04}", "OST0000"): int(one) for n, one in enumerate(counts)})
        since_commit_s = (since_commit_s + 5.3) % 5.0
        looks += 1
    assert looks <= looks_most


@pytest.mark.parametrize(
    ("counts", "left"),
    [
        # Without new ones it is the count itself.
        ((90, 90, 40, 3, 0, 0), (90, 90, 40, 3, 0, 0)),
        # The picture of the module.
        ((10, 12, 9, 11, 8, 13, 0), (10, 10, 7, 7, 4, 4, 0)),
        # A queue that stands still is waited for.
        ((5, 5, 9, 9, 9), (5, 5, 5, 5, 5)),
    ],
)
def test_what_is_left_of_one_pair(counts: tuple[int, ...], left: tuple[int, ...]) -> None:
    assert tuple(looks(Drain(), *counts)) == left


def test_a_busy_file_system_ends_a_wait_though_it_is_never_at_0() -> None:
    told = looks(Drain(), *[20, 17, 20, 17] * 10)
    assert (told[:6], told[-1]) == ([20, 17, 17, 14, 14, 11], 0)


def test_a_restart_takes_all_for_old() -> None:
    drain = Drain()
    assert looks(drain, 9, 0, 30) == [9, 0, 0]
    drain.restart()
    assert drain.old is None
    assert looks(drain, 30, 12) == [30, 12]


def test_pairs_do_not_stand_for_each_other_and_one_may_come_later() -> None:
    drain = Drain()
    assert drain.look({FIRST: 5, OTHER: 5}) == 10
    assert drain.look({FIRST: 0, OTHER: 9}) == 5
    assert drain.old == {FIRST: 0, OTHER: 5}
    later = Drain()
    later.look({FIRST: 5})
    assert later.look({FIRST: 0, OTHER: 4}) == 4


def test_what_is_not_counted_yet_is_at_least_one_and_then_a_first_look() -> None:
    drain = Drain()
    assert [drain.look({FIRST: count}, {FIRST}) for count in (0, 6, 2)] == [1, 6, 2]
    # Counted from now on: what is under way may be from before.
    assert looks(drain, 8, 3, 0) == [8, 3, 0]
    # An MDS that came back in the middle is not taken for done.
    drain = Drain()
    assert drain.look({FIRST: 500}) == 500
    assert drain.look({FIRST: 0}, {FIRST}) == 1
    assert looks(drain, 40, 0) == [40, 0]
