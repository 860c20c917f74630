"""From a plan that was really frozen to what a run goes by, and to a run."""

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.purge.plan.making import MADE_AT, Row, make
from tests.purge.run.world import CODES, FILE_BYTES, SlowRemover, Surroundings, policy, situation

from trimtab.base.error import UsageError
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.plan_directory import open_candidates
from trimtab.purge.plan.publication import Publication
from trimtab.purge.purge_policy import RunCaps, Throttle
from trimtab.purge.run.exchange import CandidatesListing, StopReason
from trimtab.purge.run.next_step import pace_limits, plan_line, terms_of
from trimtab.purge.run.run_account import RunJob
from trimtab.purge.run.run_guard import objections
from trimtab.purge.run.runner import run
from trimtab.purge.run.situation import CanaryFacts, Planned

ATIME = {"mount options": "relatime"}
PUBLISHED = MADE_AT + timedelta(hours=1)


@pytest.fixture
def loaded(tmp_path):
    (tmp_path / "scratch").mkdir()
    rows = [Row(b"file-%d" % row, uid=1000 + row % 2) for row in range(40)]
    for row in rows:
        (tmp_path / "scratch" / os.fsdecode(row.path)).write_bytes(b"x" * FILE_BYTES)
    return make(tmp_path / "plan", rows)


def publication(loaded):
    not_before = PUBLISHED + timedelta(days=14)
    return Publication(loaded.plan.id, loaded.sha256, PUBLISHED, not_before, "/lists", None, ())


def situation_of(loaded, days, **changes):
    lustre = FileSystemIdentity("lustre", "perlmutter", 5)
    good = situation()
    now_s = (MADE_AT + timedelta(days=days)).timestamp()
    plan = replace(loaded.plan, index=replace(loaded.plan.index, atime_settings=ATIME))
    return replace(
        good,
        now_s=now_s,
        planned=Planned(plan, publication(loaded)),
        root=replace(good.root, file_system=lustre, atime_settings=ATIME),
        arming=replace(
            good.arming, armed_by=(replace(good.arming.armed_by[0], at_s=now_s - 2 * 86400),)
        ),
        canary=CanaryFacts(None, now_s, now_s, now_s),
        **changes,
    )


def test_a_published_plan_may_be_carried_out_between_its_dates(loaded):
    assert objections(situation_of(loaded, 15)) == ()
    assert [objection.guard for objection in objections(situation_of(loaded, 14))] == ["published"]
    assert [objection.guard for objection in objections(situation_of(loaded, 40))] == ["valid"]


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


def test_a_frozen_plan_is_carried_out(loaded, tmp_path):
    import polars as pl

    names = pl.read_parquet(loaded.candidates)["name"].to_list()
    paths = [tmp_path / "scratch" / os.fsdecode(name) for name in names]
    now = situation_of(loaded, 15)
    surroundings = Surroundings(paths, 60 * FILE_BYTES, 100 * FILE_BYTES, now.now_s, now)
    job = RunJob(
        id="run-1",
        plan=plan_line(loaded.plan, loaded.sha256),
        horizon_s=loaded.plan.horizon.before_s,
        terms=lambda now: terms_of(now, apply=True),
        remover=lambda: cast("Any", SlowRemover(paths, tmp_path / "aside")),
        restorer=lambda: cast("Any", SlowRemover(paths, tmp_path / "aside", restoring=True)),
        codes=CODES,
        listing=CandidatesListing(open_candidates(loaded), loaded.plan.candidates.files),
        surroundings=surroundings,
        journals=tmp_path / "journals",
    )
    result = run(job, apply=True)
    assert (result.reason, result.files, result.rows_left) == (StopReason.TARGET, 30, 10)
    assert [path.exists() for path in paths] == [False] * 30 + [True] * 10
    assert result.journal.name.startswith(loaded.plan.id)
