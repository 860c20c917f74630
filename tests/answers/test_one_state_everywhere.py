"""What is wrong with a target is the same in status, targets, overview and alerts: one store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.reach.lustre.test_troubles import CASES
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.answers.site_overview import PurgeOverview, glance_of, overview, present_of
from trimtab.base.site import Servers, Site
from trimtab.explain.headline import headline, site_troubles
from trimtab.probe.site_look import recall
from trimtab.probe.site_standing import standing_of, standings_of
from trimtab.probe.site_status import status_of
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.site.place import Place
from trimtab.store.store import Store
from trimtab.watch.alert_decision import decide
from trimtab.watch.alert_table import STATES, observe
from trimtab.watch.watch_state import watch_state

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
STATES_OF_A_TARGET = (
    "healthy", "unmounted", "full", "read-only", "degraded", "gated at every MDT", "over the limit",
)  # fmt: skip


def served(fake: FakeLustre) -> tuple[Site, LustreDriver]:
    """Return the site of a stand-in for Lustre, and what reads it."""
    servers = tuple(one.name for one in fake.servers)
    home = {target.name: target.home for target in fake.targets}
    site = Site("fake", "lustre", "/scratch", servers=Servers(oss=servers, home=home, sudo=True))
    how = {"execute": fake.execute, "fan_out": fake.fan_out}
    return site, LustreDriver("/scratch", fake.file_system, site.servers, **how)  # type: ignore[arg-type]


@for_each("state", STATES_OF_A_TARGET)
def test_no_two_commands_contradict_each_other(state: str, tmp_path: Path) -> None:
    fake = FakeLustre.pair()
    for target in fake.targets:
        target.wbt_us = 0
    site, driver = served(fake)
    CASES[state][0](fake)
    driver.snapshot(AT)  # only the first lfs df after a loss complains of it
    with Store.open(tmp_path / f"{state.replace(' ', '-')}.db") as store:
        store.ensure_site(site.name)
        store.add_snapshot(site.name, driver.snapshot(AT))
        place = Place(site.name, site)
        status = status_of(store, site.name)
        (of_status,) = standings_of(store, status, site)
        of_targets = recall(site, store, AT)
        standing = standing_of(store, place)
        assert standing.state is not None
        purge = PurgeOverview(None, None, 0, 0, None, None)
        glance = glance_of(store, place, status, standing)
        page = overview(glance, present_of(store, place, AT, watch_state(site, store, AT), purge))
        (view,) = observe(site, store, AT).snapshots
    said = {
        target.name: tuple(str(trouble.text) for trouble in target.troubles)
        for target in present(of_targets.state).targets
    }
    assert {each.name: each.troubles for each in page.targets} == said
    places = {name: view.places[name].troubles for name in said}
    assert {name: tuple(str(each.text) for each in those) for name, those in places.items()} == said
    titles = [each.title for each in page.troubles]
    assert [each.title for each in site_troubles(of_status)] == titles
    assert [each.title for each in site_troubles(of_targets)] == titles
    expected = {id_ for ids in CASES[state][1].values() for id_ in ids}
    assert {each.id for each in page.troubles} == expected
    # The first line names the worst, whoever prints it.
    for first_line in (headline(of_status), page.answer, headline(of_targets)):
        assert not titles or titles[0] in first_line
        assert ("trouble on" not in first_line) or not titles
    alerting = {entry.trouble for entry in STATES}
    assert bool(expected & alerting) == any(
        each.id in alerting for place_view in view.places.values() for each in place_view.troubles
    )


@pytest.mark.parametrize("state", ["unmounted", "OSS dead"])
def test_a_lost_target_is_an_alert_with_the_first_snapshot(state: str, tmp_path: Path) -> None:
    fake = FakeLustre.pair()
    site, driver = served(fake)
    with Store.open(tmp_path / "t.db") as store:
        store.ensure_site(site.name)
        store.add_snapshot(site.name, driver.snapshot(AT))
        assert decide(observe(site, store, AT), (), AT) == []
        CASES[state][0](fake)
        later = AT.replace(minute=5)
        store.add_snapshot(site.name, driver.snapshot(later))
        told = decide(observe(site, store, later), (), later)
    assert [(alert.name, alert.severity.value) for alert in told] == [("target-lost", "critical")]
    assert "OST0001" in told[0].title
