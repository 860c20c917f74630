"""A plan that only an admin's approval on the dashboard lets be armed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.purge.notice.making import PUBLISHED_AT, Book, clock, open_directory
from tests.purge.plan.making import KEY, Row, draft, make, place_of, planned_policy
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.answers.site_overview import purge_overview
from trimtab.base.error import RefusedError, UsageError
from trimtab.base.event import Event, new_identifier
from trimtab.base.site import Site
from trimtab.base.site_policy import Policies, PurgePlanPolicy
from trimtab.purge.plan.arming import (
    APPROVED,
    approval_on,
    arm_plan,
    require_approval,
    signed_approval,
)
from trimtab.purge.plan.notice import publish
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.plan.plan_signature import SigningKey
from trimtab.purge.plan.site_plan import approve, own_lists, plans_waiting, site_plans
from trimtab.purge.purge_policy import Notices, Policy
from trimtab.site.place import Place, add_event
from trimtab.store.location import PurgePlace
from trimtab.store.store import Store
from trimtab.watch.alert_table import observe
from trimtab.watch.site_metrics import Collector

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="plans are root's")
NOW = PUBLISHED_AT + timedelta(hours=1)


@pytest.fixture
def lists() -> Iterator[Path]:
    yield from open_directory()


@pytest.fixture
def purges(tmp_path: Path) -> PurgePlace:
    return place_of(tmp_path / "purge")


@pytest.fixture
def plan(tmp_path: Path, lists: Path) -> LoadedPlan:
    policy = planned_policy(Policy("scratch", "/scratch", target=0.7))
    (tmp_path / "plans").mkdir(mode=0o700)
    loaded = make(tmp_path / "plans" / "1.plan", [Row(b"ada/x", 1001)], draft(policy=policy))
    notices = Notices(directory=str(lists))
    return publish(loaded, KEY, notices, accounts=Book(ada=1001), clock=clock()).loaded


@pytest.fixture
def place(tmp_path: Path) -> Place:
    policies = Policies(purge=PurgePlanPolicy(directory=str(tmp_path / "plans")))
    return Place("scratch", Site("scratch", "lustre", "/scratch", policies=policies))


@pytest.mark.cli
def test_a_plan_is_armed_only_after_an_approval_of_its_hash(tmp_path, plan, purges, place):
    file, store_file = tmp_path / "scratch.toml", tmp_path / "t.db"
    file.write_text('[site]\nname = "scratch"\ndriver = "lustre"\npath = "/scratch"\n')
    check = approval_on(str(file), f"sqlite:///{store_file}", purges, NOW)
    with Store.open(store_file) as store:
        store.ensure_site("scratch", driver="lustre", path="/scratch")
        words = f"approved purge plan {plan.plan.id} sha256 {plan.sha256}"
        add_event(store, place, kind="note", detail=words, now=NOW, source="dashboard: olga")
    with raises(RefusedError, "plan-not-approved"):
        arm_plan(plan.directory, place=purges, now=NOW, person=7, check=check)
    assert not list(purges.journals.iterdir())
    with Store.open(store_file) as store:
        (waiting,), problems = site_plans(place, purges, store.events(site="scratch"), NOW)
        assert (waiting.state(NOW), problems) == ("waits for approval", ())
        approve(store, place, [waiting], place=purges, sha256=plan.sha256, who="bob", now=NOW)
    assert arm_plan(plan.directory, place=purges, now=NOW, person=7, check=check).by.person == 7
    with Store.open(store_file) as store:
        (armed,), _ = site_plans(place, purges, store.events(site="scratch"), NOW)
        assert armed.state(NOW) == "armed"
        with raises(RefusedError, "plan-not-waiting"):
            approve(store, place, [armed], place=purges, sha256=plan.sha256, who="eva", now=NOW)
        with raises(UsageError, "plan-unknown"):
            approve(store, place, [armed], place=purges, sha256="0" * 64, who="eva", now=NOW)


def test_metric_and_overview_count_the_plans_that_a_person_can_approve(
    tmp_path, plan, purges, place, monkeypatch
):
    monkeypatch.setenv("TRIMTAB_PURGE", str(purges.directory))
    unpublished = make(tmp_path / "plans" / "2.plan", [Row(b"ada/y", 1001)])
    with Store.open(tmp_path / "t.db") as store:

        def counted(now: datetime) -> tuple[int | None, int | None]:
            metrics = Collector(present(place.site), store, clock=lambda: now).collect()
            overview = purge_overview(place, (), now, purges, plans=())
            return metrics.plans.get("purge"), overview.plans_waiting

        assert counted(NOW) == (1, 1)
        assert counted(plan.plan.expires_at) == (0, 0)
        forged = _without_signature(approved(plan), plan, plan)
        plans, problems = site_plans(place, purges, [forged], NOW)
        assert plans_waiting(place, plans, problems, NOW) == 1
        arm_plan(plan.directory, place=purges, now=NOW, person=7, check=lambda loaded: None)
        assert counted(NOW) == (0, 0)
        (unpublished.directory / "plan.json").write_text('{"id":')  # nobody signed that
        assert counted(NOW) == (None, None)


def approved(plan: LoadedPlan, *, who: str = "bob", now: datetime = NOW) -> Event:
    return signed_approval(KEY, plan, site="scratch", who=who, now=now)


def other_plan(plan: LoadedPlan) -> LoadedPlan:
    """As an earlier one that had the same candidates."""
    return replace(plan, plan=replace(plan.plan, id=new_identifier(NOW)), sha256="1" * 64)


def _without_signature(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    """As it was written before approvals were signed, and as anybody can write it."""
    return replace(event, detail=f"{APPROVED} {plan.plan.id} sha256 {plan.sha256}")


def _in_another_name(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    return replace(event, source=event.source.replace("bob", "eva"))


def _at_another_time(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    return replace(event, at=event.at + timedelta(minutes=1))


def _under_another_id(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    return replace(event, id=new_identifier(event.at))


def _of_another_plan(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    words = approved(other).detail
    return replace(
        event,
        detail=words.replace(other.plan.id, plan.plan.id).replace(other.sha256, plan.sha256),
    )


def _for_longer(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    longer = plan.plan.expires_at + timedelta(days=30)
    return replace(
        event, detail=event.detail.replace(plan.plan.expires_at.isoformat(), longer.isoformat())
    )


def _by_another_key(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    return signed_approval(SigningKey(b"x" * 32), plan, site="scratch", who="bob", now=NOW)


def _of_another_site(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    theirs = signed_approval(KEY, plan, site="home", who="bob", now=NOW)
    return replace(theirs, site="scratch")


def _of_tomorrow(event: Event, plan: LoadedPlan, other: LoadedPlan) -> Event:
    return approved(plan, now=NOW + timedelta(days=1))


@pytest.mark.parametrize(
    "forge",
    [
        _without_signature, _in_another_name, _at_another_time, _under_another_id,
        _of_another_plan, _for_longer, _by_another_key, _of_another_site, _of_tomorrow,
    ],
)  # fmt: skip
def test_who_can_write_the_store_cannot_approve_a_plan(tmp_path, plan, purges, place, forge):
    entry = forge(approved(plan), plan, other_plan(plan))
    with Store.open(tmp_path / "t.db") as store:
        store.add_event(entry)  # as a row that SQL inserted
        events = store.events(site="scratch")

    def check(loaded: LoadedPlan) -> object:
        return require_approval(events, loaded, KEY, site="scratch", now=NOW)

    with raises(RefusedError, "approval-forged", "forged, altered, or copied"):
        arm_plan(plan.directory, place=purges, now=NOW, person=7, check=check)
    assert not list(purges.journals.iterdir())
    listed, problems = site_plans(place, purges, events, NOW)
    assert [one.state(NOW) for one in listed if one.loaded.sha256 == plan.sha256] == [
        "waits for approval"
    ]
    assert "approval-forged" in [problem.code for problem in problems]


def test_the_watch_observes_an_approval_that_nobody_signed(
    tmp_path, plan, purges, place, monkeypatch
):
    monkeypatch.setenv("TRIMTAB_PURGE", str(purges.directory))
    valid = approved(plan)
    forged = _in_another_name(approved(plan), plan, plan)
    with Store.open(tmp_path / "t.db") as store:
        store.add_events([valid, forged])
        observed = observe(present(place.site), store, NOW)
    assert [entry.id for entry in observed.forged] == [forged.id]


def test_an_approval_counts_for_its_plan_alone_and_until_it_expires(plan):
    valid, earlier = approved(plan), approved(other_plan(plan))
    asked = {"site": "scratch", "now": NOW}
    assert require_approval([earlier, valid, valid], plan, KEY, **asked) == (valid,)
    # An old copy of the store, with the approval of an earlier plan in it.
    with raises(RefusedError, "plan-not-approved"):
        require_approval([earlier], plan, KEY, **asked)
    # The plan was changed after it was approved.
    with raises(RefusedError, "approval-forged"):
        require_approval([valid], replace(plan, sha256="0" * 64), KEY, **asked)
    with raises(RefusedError, "plan-expired"):
        require_approval([valid], plan, KEY, site="scratch", now=plan.plan.expires_at)


def test_a_list_that_cannot_be_read_is_told(plan, purges, place, lists):
    plans, _ = site_plans(place, purges, (), NOW)
    (own,) = own_lists(plans, "ada", NOW)
    assert [line.path for line in present(own.lines)] == ["/scratch/ada/x"]
    assert list(own_lists(plans, "bob", NOW)) == []
    assert list(own_lists(plans, "ada", plan.plan.expires_at)) == []
    (file,) = lists.glob("*/ada.jsonl")
    file.unlink()
    file.symlink_to("/etc/passwd")
    (own,) = own_lists(plans, "ada", NOW)
    assert own.lines is None
    assert present(own.reason).code == "list-unreadable"


def test_a_list_that_counts_its_files_is_no_damaged_one(tmp_path, lists, purges, place):
    (tmp_path / "plans").mkdir(mode=0o700)
    loaded = make(tmp_path / "plans" / "1.plan", [Row(b"ada/x", 1001), Row(b"ada/y", 1001)])
    notices = Notices(directory=str(lists), names_most=1)
    publish(loaded, KEY, notices, accounts=Book(ada=1001), clock=clock())
    (own,) = own_lists(site_plans(place, purges, (), NOW)[0], "ada", NOW)
    assert own.lines is None
    assert present(own.reason).code == "list-of-counts"
    assert "2 files" in present(own.reason)


def test_a_directory_of_plans_that_is_closed_is_told(tmp_path, purges, place):
    assert site_plans(place, purges, (), NOW) == ((), ())
    (tmp_path / "plans").write_text("a file")
    assert site_plans(place, purges, (), NOW)[0] == ()
    assert site_plans(Place("other", None), purges, (), NOW) == ((), ())
