"""The world as it is on this host: in runs over real files, and what is set aside for a run."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.purge.plan.making import BEFORE_S, MADE_AT, Row, make
from tests.purge.run.core_world import CoreWorld, outcomes_of
from tests.purge.run.world import (
    FILE_BYTES,
    RELATIME,
    Surroundings,
    World,
    file_system,
    policy,
    situation,
    with_plan,
)
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab import _core
from trimtab.base.error import RefusedError, UsageError
from trimtab.purge import root_facts
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import QUARANTINE_PREFIX
from trimtab.purge.plan.plan_directory import open_candidates
from trimtab.purge.plan.plan_signature import Publication
from trimtab.purge.purge_policy import Guards, RunCaps, Throttle
from trimtab.purge.run import next_step
from trimtab.purge.run.next_batch import PaceLimits
from trimtab.purge.run.next_step import RunTerms, pace_limits, terms_of
from trimtab.purge.run.run_guard import objections
from trimtab.purge.run.situation import (
    CanaryFacts,
    CandidatesListing,
    Planned,
    ServerClock,
    Situation,
    StopReason,
)
from trimtab.purge.run.surroundings import AskedSite, HostSurroundings, clear, give_back, set_aside

NAME = ".quarantine"
PUBLISHED = MADE_AT + timedelta(hours=1)
OWNER = os.geteuid()


class Host:
    """A root with files, an allow-list and a clock that is turned by hand."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory, 30).make()
        self.root = self.world.tree
        self.stop = directory / "stop"
        allowed = directory / "roots"
        allowed.write_text(f"{self.root}\n")
        allowed.chmod(0o644)
        self.journals = directory / "journals"
        facts = root_facts.root_facts(str(self.root))
        good = situation()
        self.at_s = good.now_s
        self.policy = policy(
            root=str(self.root), guards=Guards(allow_list=str(allowed), kill_switch=str(self.stop))
        )
        self.planned = with_plan(
            good,
            file_system=file_system(present(facts.file_system), str(self.root)),
            index={"atime_settings": facts.atime_settings},
            horizon={"target": 1e-9},
        ).planned

    def surroundings(
        self, *, canary: bool = False, site: AskedSite | None = None
    ) -> HostSurroundings:
        return HostSurroundings(
            replace(self.policy, target=1e-9),
            self.planned,
            situation().arming,
            journals=self.journals,
            canary=canary,
            site=site or AskedSite(),
            owner=OWNER,
            clock=lambda: self.at_s,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def guards(self, now: Situation) -> list[str]:
        return [objection.guard for objection in objections(now)]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_what_is_here_is_collected_and_a_canary_only_where_it_is_wanted(host):
    now = host.surroundings().situation()
    assert host.guards(now) == ["canary", "clocks"]
    now = host.surroundings(canary=True).situation()
    # The canary's clock is the real one, and this one stands still somewhere else.
    assert host.guards(now) == ["clocks"]
    assert present(now.canary).trouble is None


def test_what_servers_know_is_asked_of_them(host):
    site = AskedSite(lambda: 7, tuple, lambda: "a trash can is on")
    surroundings = host.surroundings(site=site)
    assert "space" in host.guards(surroundings.situation())
    usage, in_flight = surroundings.measure()
    assert (usage.fullness > 0, in_flight) == (True, 7)
    assert host.surroundings().measure()[1] is None


def test_a_site_is_told_before_every_batch_that_files_will_be_deleted(host):
    told = []
    site = AskedSite(
        lambda: told.append("asked") or 0,
        lambda: told.append("clocks") or (),
        deleting=lambda: told.append("deleting"),
    )
    surroundings = host.surroundings(site=site)
    surroundings.situation()  # before the run: clocks are asked for once
    surroundings.measure()
    surroundings.measure()
    surroundings.situation()
    surroundings.measure()
    assert told == ["deleting", "clocks", "asked", "asked", "deleting", "asked"]


def test_a_clock_of_a_server_that_is_wrong_holds_a_run_back(host):
    far_s = host.at_s + 3600.0
    wrong = ServerClock("oss3", far_s, host.at_s, host.at_s + 1.0)
    surroundings = host.surroundings(canary=True, site=AskedSite(clocks=lambda: (wrong,)))
    now = surroundings.situation()
    # The canary's clock is the real one; here it is made the one that stands still.
    good = replace(
        present(now.canary), file_system_at_s=host.at_s, before_s=host.at_s, after_s=host.at_s
    )
    (objection,) = objections(replace(now, canary=good))
    assert (objection.guard, "oss3 by" in objection.reason) == ("clocks", True)


def test_the_kill_switch_is_seen_at_once_and_the_mount_within_a_second(host):
    surroundings = host.surroundings()
    surroundings.situation()
    host.stop.touch()
    assert "kill-switch" in host.guards(surroundings.situation())
    host.stop.unlink()
    host.root.rename(host.root.with_name("away"))
    host.root.mkdir()
    assert "mount" not in host.guards(surroundings.situation())
    host.at_s += 1.0
    now = surroundings.situation()
    assert "mount" in host.guards(now)
    assert "not the directory it was when the run began" in (now.root.trouble or "")


def test_the_root_that_was_looked_at_is_what_a_run_goes_by(host):
    surroundings = host.surroundings()
    assert surroundings.root is None
    surroundings.situation()
    assert surroundings.root is not None
    state = host.root.stat()
    host.root.rename(host.root.with_name("away"))
    host.root.mkdir()
    assert os.path.samestat(os.fstat(surroundings.root), state)
    surroundings.close()
    assert surroundings.root is None


def test_without_a_root_the_rest_is_still_told(host):
    host.policy = replace(host.policy, root=str(host.root / "none"))
    now = host.surroundings(canary=True).situation()
    assert {"mount", "usage", "canary"} <= set(host.guards(now))


def test_a_run_over_real_files(host):
    pace = PaceLimits(rows_min=4, rows_max=8)
    result = host.world.run(
        dry=True,
        terms=lambda _now: RunTerms(False, 1e-9, pace=pace),
        surroundings=host.surroundings(),
    )
    assert (result.reason, result.files, result.objections) == (StopReason.EXHAUSTED, 30, ())


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, 40).make()


@pytest.fixture
def loaded(world, tmp_path):
    rows = [
        Row(os.fsencode(path.relative_to(world.tree)), 1000 + row % 2, BEFORE_S - 100 + row)
        for row, path in enumerate(world.paths)
    ]
    return make(tmp_path / "plan", rows)


def situation_of(loaded, days, **changes):
    """Return a situation so long after the plan was made, in which all else is well."""
    good = situation()
    now_s = (MADE_AT + timedelta(days=days)).timestamp()
    not_before = PUBLISHED + timedelta(days=14)
    publication = Publication(
        loaded.plan.id, loaded.sha256, PUBLISHED, not_before, "/lists", None, ()
    )
    plan = replace(loaded.plan, index=replace(loaded.plan.index, atime_settings=RELATIME))
    (armed,) = good.arming.armed_by
    return replace(
        good,
        now_s=now_s,
        planned=Planned(plan, publication),
        root=replace(good.root, file_system=FileSystemIdentity("lustre", "perlmutter", 5)),
        arming=replace(good.arming, armed_by=(replace(armed, at_s=now_s - 2 * 86400),)),
        canary=CanaryFacts(None, now_s, now_s, now_s),
        **changes,
    )


def test_a_published_plan_may_be_carried_out_between_its_dates(loaded):
    for days, guards in ((14, ["published"]), (15, []), (40, ["valid"])):
        assert [one.guard for one in objections(situation_of(loaded, days))] == guards


def test_terms_are_those_of_plan_and_policy(loaded):
    caps = RunCaps(files=9, bytes=None, user_fraction=0.25, filesystem_fraction=None)
    now = situation_of(loaded, 15, policy=policy(caps=caps))
    terms = terms_of(now, apply=True, ends_at_s=5.0)
    assert (terms.target_fullness, terms.ends_at_s) == (0.7, 5.0)
    assert (terms.settle_s_min, terms.settle_s_max) == (15.0, 1800.0)
    assert (terms.allowance.files, terms.allowance.bytes) == (9, None)
    assert terms_of(now, apply=False, whole_plan=True).target_fullness is None
    assert terms_of(now, apply=True, whole_plan=True).target_fullness == 0.7


def test_the_pace_is_that_of_the_policy():
    limits = pace_limits(Throttle(latency_s=0.2, batch_files=4096))
    assert (limits.rows_max, limits.rows_step, limits.latency_s_max) == (4096, 409, 0.2)
    assert pace_limits(Throttle(batch_files=5)).rows_min == 5
    with pytest.raises(UsageError):
        pace_limits(Throttle(batch_files=0))


def test_a_frozen_plan_is_carried_out(loaded, world):
    now = situation_of(loaded, 15)
    result = world.run(
        plan=next_step.plan_line(loaded.plan, loaded.sha256),
        horizon_s=loaded.plan.horizon.before_s,
        terms=lambda now: terms_of(now, apply=True),
        listing=CandidatesListing(open_candidates(loaded), loaded.plan.candidates.files),
        surroundings=Surroundings(world.paths, 60 * FILE_BYTES, 100 * FILE_BYTES, now.now_s, now),
    )
    assert (result.reason, result.files, result.rows_left) == (StopReason.TARGET, 30, 10)
    assert world.there() == set(range(30, 40))
    assert result.journal.name.startswith(loaded.plan.id)


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_what_is_set_aside_is_private_and_goes_again(tmp_path):
    set_aside(str(tmp_path), NAME, threads=2, rows=1000)
    made = names(tmp_path)
    assert {f"{NAME}/ready-0/taken", f"{NAME}/ready-1/origins", f"{NAME}/reserve/blocks"} <= made
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o700
    set_aside(str(tmp_path), NAME, threads=2, rows=1000)
    assert names(tmp_path) == made
    assert give_back(str(tmp_path), NAME)
    assert not give_back(str(tmp_path), NAME)
    assert not (tmp_path / NAME / "reserve").exists()
    (tmp_path / NAME / "stranded" / "7-0").write_text("waits for a person")
    clear(str(tmp_path), NAME)
    assert names(tmp_path) == {NAME, f"{NAME}/stranded", f"{NAME}/stranded/7-0"}
    (tmp_path / NAME / "stranded" / "7-0").unlink()
    clear(str(tmp_path), NAME)
    assert names(tmp_path) == set()


def test_nothing_stays_behind_a_plan_that_a_run_has_ended(tmp_path):
    world = CoreWorld(tmp_path, 3).make()
    set_aside(str(world.tree), NAME, threads=2, rows=10)
    assert outcomes_of(world.removal().delete(0, 3)) == ["deleted"] * 3
    clear(str(world.tree), NAME)
    assert not (world.tree / NAME).exists()


def test_nobody_elses_directory_is_used(tmp_path):
    (tmp_path / NAME).mkdir(mode=0o755)
    (tmp_path / NAME).chmod(0o755)
    with raises(RefusedError, "quarantine-untrusted"):
        set_aside(str(tmp_path), NAME, threads=1, rows=1)
    (tmp_path / NAME).rmdir()
    (tmp_path / NAME).symlink_to("/tmp")
    with pytest.raises(OSError, match="Not a directory"):
        set_aside(str(tmp_path), NAME, threads=1, rows=1)


def test_plans_and_the_core_know_a_quarantine_by_the_same_name():
    assert _core.QUARANTINE["prefix"] == QUARANTINE_PREFIX
