"""`trimtab targets` shows what surveys say of each target, where the store can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.explain.incidents.test_slow_targets import slow_from, surveys
from tests.support.codes import raises
from tests.support.memory_driver import MemoryDriver, MemoryTarget
from tests.support.narrow import present
from tests.support.small_site import SITE, SmallSite
from tests.support.watched import a_site

from trimtab.base.error import UsageError
from trimtab.explain.headline import headline, site_troubles
from trimtab.probe.verdict.site_judgement import JudgeTerms, judge_site
from trimtab.probe.verdict.site_standing import keep, look, recall, standing_of
from trimtab.probe.verdict.site_status import slow_targets
from trimtab.site.place import Place
from trimtab.store.store import Store

pytestmark = pytest.mark.system  # the place of a store is asked for in a child


def driver() -> MemoryDriver:
    return MemoryDriver(MemoryTarget("OST0003"), MemoryTarget("OST0004"))


def test_a_slow_target_is_in_trouble(tmp_path: Path) -> None:
    path = SmallSite(surveys=surveys(60, slow_from("OST0003", 20, 0.3))).keep(tmp_path / "t.db")
    site = a_site(name=SITE)
    state = present(look(site, driver(), str(path)).state)
    slow = {
        target.name: [trouble for trouble in target.troubles if trouble.id == "slow"]
        for target in state.targets
    }
    assert slow["OST0004"] == []
    (trouble,) = slow["OST0003"]
    assert "slow since 2026-01-25: 3" in trouble.text
    with Store.open(path) as store:
        kept = present(keep(site, driver(), store)[1].state)
        later = present(recall(site, store, kept.snapshot.at).state)
    for seen in (kept, later):
        assert [trouble.id for trouble in seen.targets[0].troubles].count("slow") == 1


def test_targets_are_shown_without_a_store_and_beside_a_broken_one(tmp_path: Path) -> None:
    site = a_site(name=SITE)
    state = present(look(site, driver(), str(tmp_path / "none.db")).state)
    assert (len(state.targets), state.hosts) == (2, ())
    assert not (tmp_path / "none.db").exists()
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database" * 1000)
    state = present(look(site, driver(), str(broken)).state)
    assert len(state.targets) == 2
    (unread,) = state.hosts
    assert unread.troubles[0].id == "surveys-unread"


def test_a_mistyped_probe_is_no_question_about_targets(tmp_path: Path) -> None:
    slow = surveys(60, slow_from("OST0003", 20, 0.3))
    series = {"write_bandwidth": np.full(48, 1e9)}
    with Store.open(SmallSite(series=series, surveys=slow).keep(tmp_path / "t.db")) as store:
        assert judge_site(store, Place(SITE, None)).judgement.tails
        with raises(UsageError, "no-series") as refused:
            judge_site(store, Place(SITE, None), JudgeTerms(probe="hurly"))
    assert refused.value.hint == "did you mean 'hourly'?"


@pytest.mark.unit
def test_a_target_at_99_per_cent_of_the_others_is_in_no_headline(tmp_path: Path) -> None:
    """It is the slowest of every survey, a straggler, and its own page has no trouble."""

    def rate(day: int, name: str, metric: str) -> float:
        return 0.985 if name == "OST0003" else 1.0

    path = SmallSite(surveys=surveys(40, rate, scatter=0.004)).keep(tmp_path / "t.db")
    with Store.open(path) as store:
        place = Place(SITE, None)
        judged = judge_site(store, place).judgement
        standing = standing_of(store, place, judgement=judged)
    assert {each.target for tails in judged.tails for each in tails.stragglers} == {"OST0003"}
    assert site_troubles(standing) == ()
    assert "OST0003" not in headline(standing)


@pytest.mark.unit
def test_a_bad_fortnight_is_the_loss_now(tmp_path: Path) -> None:
    """Over all 28 surveys its median is 95 % and more; over the last ones 30 %."""
    path = SmallSite(surveys=surveys(28, slow_from("OST0003", 15, 0.3))).keep(tmp_path / "t.db")
    with Store.open(path) as store:
        judged = judge_site(store, Place(SITE, None)).judgement
        (slow,) = slow_targets(store, SITE)
    assert 0.25 < slow.share < 0.35
    of_target = [each for tails in judged.tails for each in tails.stragglers]
    assert all(0.25 < each.relative < 0.35 for each in of_target if each.target == "OST0003")
