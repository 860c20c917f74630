"""Looks day after day, each of which takes over what is explained already, keep what one look does.

Of what ended long ago nothing is explained again; an explanation outlives the snapshots that it
was made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from tests.incidents.generate import make_world
from tests.incidents.world import START, Incident, Spec
from tests.incidents.world import World as IncidentWorld
from tests.support.counts import SOAK_TIMEOUT_S
from tests.support.kept_world import keep_world
from tests.worlds.record import make_world as make_drawn_world
from tests.worlds.site import draw_site

from trimtab.base.incident import Explanation
from trimtab.base.plain import as_list
from trimtab.probe.verdict.incident_search import Explained, keep_incidents, search, still_holds
from trimtab.site.place import Place
from trimtab.store.kept import KeptIncident
from trimtab.store.store import Store

pytestmark = pytest.mark.calibration

CAUSES = ("failover", "target-silent", "competing-load", "configuration-change")
DAY = timedelta(days=1)


def look(store: Store, name: str, until: datetime, earlier: Explained | None = None) -> Explained:
    """Return what a look at a time finds; without an earlier one it explains everything."""
    return search(store, Place(name, None), until, until=until.isoformat(), earlier=earlier)


def kept_by(explained: Explained, path: Path) -> tuple[KeptIncident, ...]:
    """Return what a store keeps of a look."""
    with Store.open(path) as store:
        store.ensure_site(explained.site)
        assert keep_incidents(store, explained) is None
        return store.incidents(explained.site)


def confidences(incident: KeptIncident, name: str) -> dict[str, float]:
    """Return each cause of a part of an explanation with how sure it is."""
    causes = as_list(incident.document[name])
    return {cause["id"]: cause.get("confidence", 0.0) for cause in causes}


def check_looks(
    store: Store,
    name: str,
    times: Iterator[datetime],
    folder: Path,
    earlier: Explained | None = None,
) -> tuple[Explained, int]:
    """Look at each time, hold the last against a look that explains all.

    Return it, and how many incidents it did not explain.
    """
    before, until = None, None
    for until in times:
        before, earlier = earlier, look(store, name, until, earlier)
    assert earlier is not None
    assert until is not None
    kept = kept_by(earlier, folder / "looked.db")
    anew = kept_by(look(store, name, until), folder / "anew.db")
    assert [replace(incident, document={}) for incident in kept] == [
        replace(incident, document={}) for incident in anew
    ]
    for incident, same in zip(kept, anew, strict=True):
        for name_of in ("causes", "standing"):
            assert confidences(incident, name_of) == pytest.approx(
                confidences(same, name_of), abs=0.03
            )
    assert len({incident.id for incident in kept}) == len(kept)
    of_before = {} if before is None else before.bases
    return earlier, sum(of_before.get(name) is by for name, by in earlier.bases.items())


def faulty(seed: int, days: int, snapshot_every_h: int = 6) -> IncidentWorld:
    """Return a site with a fault of a day each week, one after another."""
    faults = tuple(
        Incident(CAUSES[(seed + number) % len(CAUSES)], 4.1 + 7 * number, 20.0, 0.8)
        for number in range((days - 5) // 7 + 1)
    )
    spec = Spec(seed=seed, days=days, osts=6, incidents=faults, snapshot_every_h=snapshot_every_h)
    return make_world(spec)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_daily_looks_at_sites_with_faults_keep_what_one_look_keeps(tmp_path: Path) -> None:
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Store.open(keep_world(faulty(seed, 45, 1), folder / "t.db")) as store:
            times = (START + number * DAY for number in range(1, 46))
            assert check_looks(store, "world", times, folder)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_daily_looks_at_drawn_sites_keep_what_one_look_keeps(tmp_path: Path) -> None:
    for seed in [seed for seed in range(400) if draw_site(seed).hours <= 24 * 60][:30]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = make_drawn_world(seed)
        with Store.open(keep_world(cast("IncidentWorld", world), folder / "t.db")) as store:
            days = range(3, int(world.facts.hours // 24) + 1)
            times = (world.facts.at(24 * day) for day in days)
            check_looks(store, world.site["name"], times, folder)


def test_what_ended_long_ago_is_not_explained_again(tmp_path: Path) -> None:
    with Store.open(keep_world(faulty(0, 14), tmp_path / "t.db")) as store:
        first = look(store, "world", START + 10 * DAY)
        second, taken_over = check_looks(store, "world", iter([START + 13 * DAY]), tmp_path, first)
        assert taken_over == 1
        (name,) = first.bases
        before = explanation_of(second, name)

        # Its explanation outlives the snapshots that it was made from.
        store.prune("world", START + 9 * DAY, now=START + 14 * DAY)
        again = look(store, "world", START + 14 * DAY, second)
        assert explanation_of(again, name).causes == before.causes
        poor = explanation_of(look(store, "world", START + 14 * DAY), name)
        assert poor.causes != before.causes

        # Where it is placed elsewhere, or something else is known of its hours, it is explained.
        incident, basis = before.incident, first.bases[name].basis
        assert still_holds(incident, basis, incident, basis)
        removed = replace(basis, digest="", snapshots=0, are_removed=True)
        assert still_holds(incident, basis, incident, removed)
        assert not still_holds(incident, basis, incident, replace(removed, are_removed=False))
        assert not still_holds(incident, basis, incident, replace(basis, digest=""))
        assert not still_holds(incident, basis, replace(incident, effect=0.1), removed)


def explanation_of(explained: Explained, name: str) -> Explanation:
    """Return what was found of one incident."""
    return next(each for each in explained.explanations if each.incident.id == name)
