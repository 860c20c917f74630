"""What a run goes by, and what is said of it: the plan's rules, the policy in force, its end.

A run that did what its plan said prints the answer first; what users do meanwhile is no failure
of it.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.purge.plan.making import DAY_S, Row, draft, file_system, make, place_of, planned_policy
from tests.support.narrow import present

from trimtab import _core
from trimtab.base.error import Interrupted, RefusedError, ToolError, UsageError
from trimtab.cli import main
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.policy_file import policy_text
from trimtab.purge.purge_policy import Exemption, Policy
from trimtab.purge.run import run_log
from trimtab.purge.run.journal_line import RunPace
from trimtab.purge.run.run_account import EXCUSED, WAITS, RunResult, error_of, shortfall
from trimtab.purge.run.run_guard import GUARDS
from trimtab.purge.run.run_plan import (
    BEFORE_ALL_TIMES_S,
    PurgeRunDocument,
    RunOptions,
    notes_of,
    run_plan,
)
from trimtab.purge.run.screen import run_document
from trimtab.purge.run.situation import Objection, StopReason
from trimtab.purge.run.surroundings import remover_of
from trimtab.show.screen_document import print_document
from trimtab.store.location import PurgePlace

GIB = 2**30
NOW_S = 1_800_000_000
POLICY = Policy("scratch", "/scratch", target=0.7)
CANDIDATES: Any = object()
SINCE = datetime(2026, 11, 28, 3, tzinfo=UTC)
PACE = RunPace(57_861, SINCE, SINCE.replace(second=30), 1.2)
NOTHING = RunResult(
    id="r", apply=True, reason=StopReason.EXHAUSTED, text="why", objections=(), files=0, bytes=0,
    freed_bytes=0, outcomes={}, before=None, after=None, rows_left=0, recovered_rows=0,
    unexplained=(), journal=Path("j"),
)  # fmt: skip
DRY = replace(NOTHING, apply=False, files=57_860, bytes=1_105_954_079, users=5, pace=PACE)
LOADED: Any = SimpleNamespace(
    plan=SimpleNamespace(
        id="p", file_system=SimpleNamespace(root="/scratch"), candidates=SimpleNamespace(files=9)
    )
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the core is asked for: arguments of the rules, and of the remover."""
    found: dict[str, Any] = {}
    core = ModuleType("trimtab._core")

    def rules(**arguments: Any) -> str:
        found.update(arguments)
        return "rules"

    def removal(candidates: object, root: str, given: str, **others: Any) -> str:
        found.update(candidates=candidates, root=root, **others)
        return "remover"

    core.Rules, core.Removal = rules, removal  # type: ignore[attr-defined]
    core.parts_of = _core.parts_of  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trimtab._core", core)
    return found


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPlan:
    rules = replace(draft().rules, exempt_paths=("kept",), exempt_users=(0,), counted=("mtime",))
    made = draft(policy=planned_policy(POLICY), rules=rules)
    return make(tmp_path / "plan", [Row(b"a/b")], made)


def test_the_plans_own_policy_adds_nothing(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S)
    plan = loaded.plan
    expected = {
        "old_enough_before_s": plan.rules.old_enough_before_s,
        "exempt_paths": [b"kept"],
        "exempt_users": [0],
        "as_of_s": NOW_S,
        "before_s": plan.horizon.before_s,
        "root": "/scratch",
        "candidates": CANDIDATES,
        "linked": False,
        "open_files": False,
        "lustre": True,
        "quarantine": plan.quarantine,
        "listed_s": plan.index.started_at.timestamp(),
        # Never atime: whether it counts is the site's. ctime counts more than in the plan.
        "counted": ["ctime", "mtime"],
    }
    assert {name: asked[name] for name in expected} == expected


def test_what_the_policy_in_force_keeps_holds_at_once(asked, loaded):
    exemptions = (
        Exemption("path", b"new", reason="granted since"),
        Exemption("user", 7),
        Exemption("group", 8, until=date(2020, 1, 1)),
        Exemption("project", 9),
    )
    stricter = replace(
        POLICY,
        exemptions=exemptions,
        minimum_size_bytes=4096,
        minimum_age_s=POLICY.minimum_age_s + DAY_S,
    )
    remover_of(loaded, CANDIDATES, stricter, now_s=NOW_S)
    exempt = [asked[f"exempt_{kind}s"] for kind in ("path", "user", "group", "project")]
    assert exempt == [[b"kept", b"new"], [0, 7], [], [9]]  # that of the group is over
    assert asked["minimum_size_bytes"] == 4096
    # Twice, since reads do not count in this plan.
    assert asked["old_enough_before_s"] == loaded.plan.rules.old_enough_before_s - 2 * DAY_S


def test_what_is_in_use_stays_whatever_the_rules_say(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S, in_use=(b"image", b"a"))
    assert asked["exempt_paths"] == [b"a", b"image", b"kept"]


def test_a_looser_policy_takes_nothing_away(asked, loaded):
    looser = replace(POLICY, minimum_age_s=DAY_S, linked_files="delete", open_files="delete")
    remover_of(loaded, CANDIDATES, looser, now_s=NOW_S)
    assert asked["old_enough_before_s"] == loaded.plan.rules.old_enough_before_s
    kept = [asked[name] for name in ("linked", "open_files", "exempt_paths")]
    assert kept == [False, False, [b"kept"]]


def test_a_restorer_finds_every_file_too_young(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S, before_s=BEFORE_ALL_TIMES_S)
    assert asked["before_s"] < -(2**40)


@pytest.fixture
def place(tmp_path: Path) -> PurgePlace:
    return place_of(tmp_path / "place")


def _ran(
    tmp_path: Path, place: PurgePlace, *, policy: Path | None = None, **changes: Any
) -> tuple[PurgeRunDocument, list[tuple[str, ...]]]:
    """Return what a dry run came to whose root is not mounted, and who was asked."""
    system = replace(file_system(name="scratch"), **changes)
    made = draft(policy=planned_policy(POLICY), file_system=system)
    make(tmp_path / "plan", [Row(b"a/b")], made)
    fake, asked = FakeLustre.pair(), []

    def fan_out(nodes, argv, **options):
        asked.append(tuple(nodes))
        return {**fake.fan_out(nodes, argv, **options)}

    fake.server("oss2").dead = True
    options = RunOptions(policy=policy)
    return run_plan(tmp_path / "plan", options, place=place, version="0", fan_out=fan_out), asked


@pytest.mark.system
def test_a_run_on_lustre_asks_the_servers_of_its_site(tmp_path, place, monkeypatch):
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "scratch.toml").write_text(
        '[site]\nname = "scratch"\ndriver = "lustre"\npath = "/scratch"\n'
        '[servers]\nmds = "mds[1-2]"\noss = "oss[1-2]"\n'
    )
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path / "sites"))
    ran, who = _ran(tmp_path, place)
    # /scratch is no mount here: before the run that is found out, everybody is asked once.
    assert ran.result.reason is StopReason.REFUSED
    assert who == [("mds1", "mds2", "oss1", "oss2"), ("mds1", "mds2")]
    assert [text.partition(":")[0] for text in ran.notes] == ["the time on oss2 was not known"]


@pytest.mark.system
def test_a_run_on_lustre_without_a_site_says_that_nobody_was_asked(tmp_path, place, monkeypatch):
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    ran, who = _ran(tmp_path, place)
    assert (who, "no server of this Lustre was asked" in ran.notes[0]) == ([], True)


@pytest.mark.system
def test_a_run_on_another_file_system_asks_nobody(tmp_path, place):
    ran, who = _ran(tmp_path, place, kind="ext4", name="/dev/md0")
    assert (who, ran.notes) == ([], ())


@pytest.mark.system
def test_an_exemption_that_was_granted_since_has_to_keep_something(tmp_path, place):
    policy = tmp_path / "policy.toml"
    typo = replace(POLICY, exemptions=(Exemption("path", b"typo", name="/scratch/typo"),))
    policy.write_text(policy_text(typo, every_key=True))
    ran, _ = _ran(tmp_path, place, policy=policy, kind="ext4", name="/dev/md0")
    reasons = {objection.guard: objection.reason for objection in ran.result.objections}
    assert reasons["exempt"] == "exempt path /scratch/typo does not exist: nothing is exempt"


@pytest.mark.parametrize("reason", StopReason)
def test_how_a_run_ended_is_an_error_or_not(reason):
    objections = (Objection("kill-switch", "pulled", "push it"),)
    error = error_of(replace(NOTHING, reason=reason, objections=objections))
    if reason in (StopReason.REFUSED, StopReason.OBJECTION):
        assert isinstance(error, RefusedError)
        assert error.hint == "push it"
    elif reason in (
        StopReason.NOT_FREED, StopReason.NOT_SETTLED, StopReason.TROUBLES, StopReason.OVERTAKEN
    ):  # fmt: skip
        assert isinstance(error, ToolError)
    elif reason is StopReason.INTERRUPTED:
        assert isinstance(error, Interrupted)
        assert "the same command continues" in (error.hint or "")
    else:
        assert error is None


def test_errors_are_told_by_what_the_system_said_the_most_frequent_first(loaded):
    result = replace(NOTHING, errors={errno.EIO: 1, errno.EACCES: 2})
    told = (
        "2 rows could not be processed: Permission denied",
        "1 row could not be processed: Input/output error",
    )
    assert tuple(notes_of(loaded.plan, result)) == told
    *rest, unwatched = notes_of(loaded.plan, replace(result, unwatched=True))
    assert (tuple(rest), "fanotify" in unwatched) == (told, True)


@pytest.mark.parametrize("wrong", [{"apply": False}, {"apply": True, "lease_s": 0.5}])
def test_options_of_several_hosts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        RunOptions(shared=True, **wrong)


def ended(
    sizes: Mapping[str, int] | None = None,
    reason: StopReason = StopReason.EXHAUSTED,
    guards: tuple[str, ...] = (),
) -> RunResult:
    objections = tuple(Objection(guard, "why") for guard in guards)
    return replace(NOTHING, reason=reason, objections=objections, outcome_bytes=sizes or {})


def test_the_words_are_those_of_the_core_and_of_the_guards() -> None:
    assert set(_core.REMOVAL_OUTCOMES.values()) >= EXCUSED
    assert {guard.name for guard in GUARDS} >= WAITS


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"deleted": GIB},
        {"gone": 500 * GIB, "touched": 400 * GIB, "exempt": 90 * GIB, "deleted": 10 * GIB},
        {"gone": GIB},
        {"deleted": 95 * GIB, "failed": 5 * GIB},
        {"deleted": GIB, "capped": 100 * GIB, "not_begun": 100 * GIB},
    ],
)
def test_what_is_excused_or_hardly_anything_is_no_shortfall(sizes: Mapping[str, int]) -> None:
    assert shortfall(ended(sizes)) is None


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"deleted": 80 * GIB, "failed": 20 * GIB}, "80.0 GiB of the 100 GiB"),
        ({"open_unknown": GIB, "gone": 99 * GIB}, "0 B of the 1.00 GiB"),
        ({"deleted": GIB, "denied": 2 * GIB, "failed": GIB}, "2.00 GiB are denied"),
    ],
)
def test_what_nothing_excuses_is_one(sizes: Mapping[str, int], text: str) -> None:
    short = present(shortfall(ended(sizes)))
    assert (short.code, text in short) == ("purge-short", True)


@pytest.mark.parametrize("reason", StopReason)
def test_how_runs_end(reason: StopReason) -> None:
    fine = {
        StopReason.TARGET, StopReason.EXHAUSTED, StopReason.FILES_CAP, StopReason.BYTES_CAP,
        StopReason.OUT_OF_TIME, StopReason.OVERTAKEN,
    }  # fmt: skip
    failed = shortfall(ended({"deleted": GIB}, reason, ("mount",)))
    assert (failed is None) is (reason in fine)


def test_a_run_whose_time_has_not_come_waits() -> None:
    for guards in (("armed",), ("published", "armed"), ("caps",)):
        assert shortfall(ended(reason=StopReason.REFUSED, guards=guards)) is None
    refused = shortfall(ended(reason=StopReason.REFUSED, guards=("armed", "valid")))
    assert refused == "it was refused (armed: why; valid: why)"


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "would delete 57,860 files, 1.03 GiB, of 5 users"),
        ({"apply": True}, "deleted 57,860 files, 1.03 GiB, of 5 users"),
        ({"files": 1, "bytes": 10, "users": 1}, "would delete 1 file, 10 B, of 1 user"),
        ({"files": 0, "bytes": 0, "users": 0}, "would delete nothing"),
        ({"files": 0, "bytes": 0, "users": 0, "apply": True}, "deleted nothing"),
    ],
)
def test_the_first_line_is_the_answer(capsys, changes, first):
    print_document(run_document(replace(DRY, **changes), LOADED))
    assert capsys.readouterr().out.splitlines()[0] == first


def test_the_end_says_how_fast_it_went_and_how_late_the_file_system_was(capsys):
    print_document(run_document(DRY, LOADED))
    words = "57,861 rows, 1,928.7 a second; 99 % of the slowest batch within 1.2 s"
    assert f"speed  {words}" in capsys.readouterr().out


def test_a_run_that_a_signal_ends_says_what_it_came_to(capsys, monkeypatch):
    end = {"reason": StopReason.INTERRUPTED, "text": "stopped by SIGTERM", "rows_left": 3}
    document = PurgeRunDocument(LOADED, replace(DRY, apply=True, **end), ())
    monkeypatch.setattr(run_log, "run_logged", lambda *_, **__: document)
    with pytest.raises(SystemExit) as ended:
        main(["purge", "run", "/plan", "--apply"])
    printed = capsys.readouterr()
    assert ended.value.code == 130
    assert printed.out.splitlines()[0] == "deleted 57,860 files, 1.03 GiB, of 5 users"
    assert "3 of 9 rows left" in printed.out
    for words in ("stopped by SIGTERM", "the same command continues with the rest"):
        assert words in printed.err
