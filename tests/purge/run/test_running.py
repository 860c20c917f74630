"""What a run goes by: the plan's rules, and what the policy in force keeps besides."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.purge.plan.making import DAY_S, KEY, Row, draft, file_system, make

from trimtab import _core
from trimtab.base.error import Interrupted, RefusedError, ToolError, UsageError
from trimtab.purge.plan.deletion_plan import PlannedPolicy
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.policy_file import policy_text
from trimtab.purge.purge_policy import Exemption, Policy
from trimtab.purge.run.exchange import Objection, StopReason
from trimtab.purge.run.run_plan import (
    BEFORE_ALL_TIMES_S,
    PurgeRunDocument,
    RunOptions,
    notes_of,
    run_plan,
)
from trimtab.purge.run.run_result import RunResult, error_of
from trimtab.purge.run.surroundings import remover_of
from trimtab.store.purge_place import PurgePlace, prepared

NOW_S = 1_800_000_000
POLICY = Policy("scratch", "/scratch", target=0.7)
CANDIDATES: Any = object()


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
    text = policy_text(POLICY, every_key=True)
    planned = PlannedPolicy("scratch", text, hashlib.sha256(text.encode()).hexdigest())
    rules = replace(draft().rules, exempt_paths=("kept",), exempt_users=(0,), counted=("mtime",))
    return make(tmp_path / "plan", [Row(b"a/b")], draft(policy=planned, rules=rules))


def test_the_plans_own_policy_adds_nothing(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S)
    rules = loaded.plan.rules
    assert asked["old_enough_before_s"] == rules.old_enough_before_s
    assert asked["exempt_paths"] == [b"kept"]
    assert asked["exempt_users"] == [0]
    assert asked["as_of_s"] == NOW_S
    assert asked["before_s"] == loaded.plan.horizon.before_s
    assert asked["root"] == "/scratch"
    assert asked["candidates"] is CANDIDATES
    assert asked["linked"] is False
    assert asked["open_files"] is False
    assert asked["lustre"] is True
    assert asked["quarantine"] == loaded.plan.quarantine
    assert asked["listed_s"] == loaded.plan.index.started_at.timestamp()


def test_what_the_policy_in_force_keeps_holds_at_once(asked, loaded):
    exempt = (
        Exemption("path", b"new", reason="granted since"),
        Exemption("user", 7),
        Exemption("group", 8, until=date(2020, 1, 1)),
        Exemption("project", 9),
    )
    stricter = replace(
        POLICY,
        exemptions=exempt,
        minimum_size_bytes=4096,
        minimum_age_s=POLICY.minimum_age_s + DAY_S,
    )
    remover_of(loaded, CANDIDATES, stricter, now_s=NOW_S)
    assert asked["exempt_paths"] == [b"kept", b"new"]
    assert asked["exempt_users"] == [0, 7]
    assert asked["exempt_groups"] == []  # it is over
    assert asked["exempt_projects"] == [9]
    assert asked["minimum_size_bytes"] == 4096
    # Twice, since reads do not count in this plan.
    assert asked["old_enough_before_s"] == loaded.plan.rules.old_enough_before_s - 2 * DAY_S


def test_what_is_in_use_stays_whatever_the_rules_say(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S, in_use=(b"image", b"a"))
    assert asked["exempt_paths"] == [b"a", b"image", b"kept"]


def test_a_time_that_counts_more_is_looked_at_too(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S)
    assert asked["counted"] == ["ctime", "mtime"]  # never atime: whether it counts is the site's


def test_a_looser_policy_takes_nothing_away(asked, loaded):
    looser = replace(POLICY, minimum_age_s=DAY_S, linked_files="delete", open_files="delete")
    remover_of(loaded, CANDIDATES, looser, now_s=NOW_S)
    assert asked["old_enough_before_s"] == loaded.plan.rules.old_enough_before_s
    assert asked["linked"] is False
    assert asked["open_files"] is False
    assert asked["exempt_paths"] == [b"kept"]


def test_a_restorer_finds_every_file_too_young(asked, loaded):
    remover_of(loaded, CANDIDATES, POLICY, now_s=NOW_S, before_s=BEFORE_ALL_TIMES_S)
    assert asked["before_s"] < -(2**40)


@pytest.fixture
def place(tmp_path: Path) -> PurgePlace:
    """Return a place with the key that the plans here are signed with."""
    result = prepared(PurgePlace(tmp_path / "place", os.geteuid()))
    result.key.write_text(f"trimtab-purge-key-1 {KEY.secret.hex()}\n")
    result.key.chmod(0o600)
    return result


def _ran(
    tmp_path: Path, place: PurgePlace, *, policy: Path | None = None, **changes: Any
) -> tuple[PurgeRunDocument, list[tuple[str, ...]]]:
    """Return what a dry run came to whose root is not mounted, and who was asked."""
    text = policy_text(POLICY, every_key=True)
    planned = PlannedPolicy("scratch", text, hashlib.sha256(text.encode()).hexdigest())
    system = replace(file_system(name="scratch"), **changes)
    make(tmp_path / "plan", [Row(b"a/b")], draft(policy=planned, file_system=system))
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
    assert who == []
    assert "no server of this Lustre was asked" in ran.notes[0]


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


def _result(reason: StopReason, *objections: Objection) -> RunResult:
    return RunResult(
        id="r", apply=True, reason=reason, text="why", objections=objections, files=0, bytes=0,
        freed_bytes=0, outcomes={}, before=None, after=None, rows_left=0, recovered_rows=0,
        unexplained=(), journal=Path("j"),
    )  # fmt: skip


@pytest.mark.parametrize("reason", StopReason)
def test_how_a_run_ended_is_an_error_or_not(reason):
    error = error_of(_result(reason, Objection("kill-switch", "pulled", "push it")))
    if reason in (StopReason.REFUSED, StopReason.OBJECTION):
        assert isinstance(error, RefusedError)
        assert error.hint == "push it"
    elif reason in (
        StopReason.NOT_FREED, StopReason.NOT_SETTLED, StopReason.TROUBLES, StopReason.OVERTAKEN
    ):  # fmt: skip
        assert isinstance(error, ToolError)
    elif reason is StopReason.INTERRUPTED:
        assert isinstance(error, Interrupted)
        assert "the same command goes on" in (error.hint or "")
    else:
        assert error is None


def test_errors_are_told_by_what_the_system_said_the_most_frequent_first(loaded):
    errors = {errno.EIO: 1, errno.EACCES: 2}
    result = replace(_result(StopReason.TARGET), errors=errors)
    told = (
        "2 rows could not be dealt with: Permission denied",
        "1 row could not be dealt with: Input/output error",
    )
    assert tuple(notes_of(loaded.plan, result)) == told
    unwatched = tuple(notes_of(loaded.plan, replace(result, unwatched=True)))
    assert unwatched[:2] == told
    assert "fanotify" in unwatched[2]


@pytest.mark.parametrize("wrong", [{"apply": False}, {"apply": True, "lease_s": 0.5}])
def test_options_of_several_hosts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        RunOptions(shared=True, **wrong)
