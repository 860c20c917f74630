"""The ledger of a site with how performance went after each plan, from the store that is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.act.world import action
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.act.action_ledger import ledger
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import code_of
from trimtab.base.site import Site
from trimtab.site.place import Place
from trimtab.store.store import Store

BEGAN = hour(120.5)


@pytest.fixture
def store(tmp_path: Path):
    values = 1e9 * (1 + 0.02 * np.random.default_rng(4).standard_normal(240))
    values[121:] *= 1.3
    with Store.open(SmallSite({"write_bandwidth": values}).keep(tmp_path / "t.db")) as store:
        done = action(ActionKind.SET, "OST0000", 0.0, outcome=Outcome.DONE)
        for number, outcome in enumerate((Outcome.DONE, Outcome.REFUSED)):
            at = BEGAN + timedelta(seconds=number)
            row = {"id": f"{number}", "plan": f"plan-{number}", "outcome": outcome}
            store.put_action(replace(done, **row, site=SITE, at=at, until=at))
        yield store


def test_what_a_plan_changed_is_compared_before_and_after(store):
    place = Place(SITE, Site(SITE, "lustre", f"/{SITE}"))
    actions, (effect,) = ledger(store, place, hour(240))
    assert [each.plan for each in actions] == ["plan-0", "plan-1"]
    assert (effect.plan, effect.at) == ("plan-0", BEGAN)
    assert effect.effect is not None
    assert effect.effect.series[0].effects[0].ratio == pytest.approx(1.3, rel=0.05)
    _, (too_early,) = ledger(store, place, BEGAN)
    assert (too_early.effect, code_of(too_early.reason)) == (None, "too-recent")


def test_without_a_site_file_or_a_change_there_is_no_effect(store):
    assert ledger(store, Place(SITE, None), hour(240))[1] == ()
    place = Place(SITE, Site(SITE, "lustre", f"/{SITE}"))
    assert ledger(store, place, hour(240), since=BEGAN + timedelta(seconds=1))[1] == ()
