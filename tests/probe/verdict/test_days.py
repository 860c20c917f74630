"""What explanations ask a store, and that looks day after day keep what one look keeps.

A date is any time of its day. Of what ended long ago nothing is explained again; an explanation
outlives the snapshots that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises
from tests.support.counts import SOAK_TIMEOUT_S
from tests.support.kept_world import keep_world
from tests.support.small_site import SITE, SmallSite, hour
from tests.worlds import of_clients, of_storage
from tests.worlds.families import VARIANTS
from tests.worlds.generate import make_world
from tests.worlds.steady import START, Befalls, steady_world
from tests.worlds.world import World

from trimtab.base.error import UsageError
from trimtab.base.incident import Explanation
from trimtab.base.plain import as_dict, as_list
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.probe import incident_search
from trimtab.probe.bad_checksums import bad_checksums
from trimtab.probe.import_result import ImportTerms
from trimtab.probe.importer import import_files
from trimtab.probe.incident_question import FactsQuestion, jobs_of
from trimtab.probe.incident_search import Explained, explain_at, search
from trimtab.site.place import Place
from trimtab.store.kept import KeptIncident
from trimtab.store.store import Store

pytestmark = pytest.mark.system
BAD = (10 * 24 + 10, 10 * 24 + 16)
"""Hours of the eleventh day, neither at its begin nor at its end."""
DAY = f"{hour(BAD[0]):%Y-%m-%d}"
PLACE = Place(SITE, None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(3).normal(1e9, 1e7, 24 * 21)
    values[BAD[0] : BAD[1]] = np.nan
    directory = tmp_path_factory.mktemp("days")
    return SmallSite({"write_bandwidth": values}).keep(directory / "small.db")


@pytest.fixture
def of_days(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


def test_a_date_is_explained_as_any_time_of_that_day(of_days: Store) -> None:
    day = explain_at(of_days, PLACE, DAY)
    midnight = explain_at(of_days, PLACE, f"{DAY}T00:00")
    before = explain_at(of_days, PLACE, f"{hour(BAD[0]) - timedelta(days=1):%Y-%m-%d}")
    assert midnight.explanations == before.explanations == ()
    (explanation,) = day.explanations
    assert explanation.incident.at == hour(BAD[0])
    assert day.moment.incident.summary == f"{DAY} 00:00 to {DAY} 23:59 UTC"
    assert [(speed.runs, speed.unfinished) for speed in day.speeds] == [(24, 6)]


def test_a_date_outside_the_record_is_refused_its_first_and_last_day_are_not(
    of_days: Store,
) -> None:
    for number in (0, 24 * 20):
        assert explain_at(of_days, PLACE, f"{hour(number):%Y-%m-%d}").speeds
    with raises(UsageError, "time-outside-record"):
        explain_at(of_days, PLACE, f"{hour(-24):%Y-%m-%d}")


def test_until_a_date_includes_that_day_and_since_begins_it(of_days: Store) -> None:
    def found(since: str | None = None, until: str | None = None) -> int:
        now = hour(24 * 21)
        return len(
            incident_search.incidents_of(
                of_days, PLACE, now=now, since=since, until=until
            ).explanations
        )

    day_before, day_after = (f"{hour(BAD[0]) + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
    assert (found(until=DAY), found(until=day_before)) == (1, 0)
    assert (found(since=DAY), found(since=day_after)) == (1, 0)


TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"


def test_the_hours_of_an_imported_table_are_known(store: Store) -> None:
    tuple(import_files([str(TABLE)], ImportTerms(site="s"), store))
    (run,) = store.runs(site="s")
    running = as_list(as_dict(run.parameters["told"])["running_jobs"])
    url = store.location.url
    facts = FactsQuestion(url, "s").answer()
    assert [(each.runs, each.profiles) for each in facts] == [((), ())]
    jobs = jobs_of(facts)
    assert jobs.height == len(running) > 12
    assert jobs["jobs"].to_list() == running
    until = datetime(2026, 3, 4, 6, tzinfo=UTC)
    earlier = jobs_of(FactsQuestion(url, "s", until).answer())
    assert 0 < earlier.height < jobs.height
    assert all(at < until for at in earlier["at"])


FIRST = datetime(2026, 9, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURS_A_DAY = 24


def keep_counts(store: Store, counts: dict[str, list[int | None]]) -> None:
    """Keep an hourly snapshot of machines that count."""
    name = "checksum_errors_total"
    for number in range(max(map(len, counts.values()))):
        hosts = []
        for host, of_host in counts.items():
            silent = of_host[number] is None
            why = "it does not answer" if silent else None
            reading = Reading(name, of_host[number], None if silent else "dmesg", why)
            hosts.append(HostSnapshot(host, "server", readings=(reading,)))
        at = FIRST + number * HOUR
        store.add_snapshot("world", Snapshot(at, "lustre", True, (), hosts=tuple(hosts)))


def grew(store: Store) -> list[tuple[str, float, int]]:
    found = bad_checksums(store, "world", FIRST, FIRST + 99 * HOURS_A_DAY * HOUR)
    return [(one.where, (one.at - FIRST) / HOUR, one.count) for one in found]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # Messages fall out of a log one by one: no transfer went wrong.
        ([5] * HOURS_A_DAY + [4] * HOURS_A_DAY + [3] * HOURS_A_DAY + [None] * HOURS_A_DAY, []),
        # A boot, and one more in the hours after it.
        ([5] * HOURS_A_DAY + [0] * 5 + [1] * HOURS_A_DAY, [(HOURS_A_DAY + 5, 1)]),
        # Three, in the middle of the second day.
        ([0] * (HOURS_A_DAY + 10) + [3] * HOURS_A_DAY, [(HOURS_A_DAY + 10, 3)]),
        # It did not answer for two days, in which some came.
        (
            [0] * HOURS_A_DAY + [None] * (2 * HOURS_A_DAY) + [2] * HOURS_A_DAY,
            [(3 * HOURS_A_DAY, 2)],
        ),
    ],
)
def test_only_what_grew_is_a_bad_transfer(
    store: Store, counts: list[int | None], expected: list[tuple[float, int]]
) -> None:
    keep_counts(store, {"oss01": counts, "oss02": [7] * len(counts)})
    assert grew(store) == [("oss01", at, count) for at, count in expected]


FAULTS = (
    of_storage.failover,
    partial(of_storage.silent, how="hangs"),
    of_storage.load,
    partial(of_clients.client_setting, told="both"),
)
A_DAY = timedelta(days=1)


def look(store: Store, name: str, until: datetime, earlier: Explained | None = None) -> Explained:
    """Return what a look at a time finds; without an earlier one it explains everything."""
    return search(store, Place(name, None), until, until=until.isoformat(), earlier=earlier)


def kept_by(explained: Explained, path: Path) -> tuple[KeptIncident, ...]:
    """Return what a store keeps of a look."""
    with Store.open(path) as store:
        store.ensure_site(explained.site)
        assert incident_search.keep_incidents(store, explained) is None
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


def faulty(seed: int, days: int, snapshot_every_h: int = 6) -> World:
    """Return a site with a fault of a day each week, one after another."""
    faults = [
        Befalls(FAULTS[(seed + number) % len(FAULTS)], 4.4 + 7 * number, 20.0)
        for number in range((days - 5) // 7 + 1)
    ]
    return steady_world(seed, days, *faults, share=0.9, snapshot_every_h=snapshot_every_h)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_daily_looks_at_sites_with_faults_keep_what_one_look_keeps(tmp_path: Path) -> None:
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Store.open(keep_world(faulty(seed, 45, 1), folder / "t.db")) as store:
            times = (START + number * A_DAY for number in range(1, 46))
            assert check_looks(store, "world", times, folder)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_daily_looks_at_drawn_sites_keep_what_one_look_keeps(tmp_path: Path) -> None:
    families = list(VARIANTS)
    drawn = (make_world(families[seed % len(families)], seed) for seed in range(400))
    short = (world for world in drawn if world.end - world.begin <= 60 * A_DAY)
    for world in islice(short, 30):
        folder = tmp_path / f"{world.family}-{world.seed}"
        folder.mkdir()
        with Store.open(keep_world(world, folder / "t.db")) as store:
            days = range(3, (world.end - world.begin) // A_DAY + 1)
            times = (world.begin + day * A_DAY for day in days)
            check_looks(store, world.site["name"], times, folder)


@pytest.mark.calibration
def test_what_ended_long_ago_is_not_explained_again(tmp_path: Path) -> None:
    with Store.open(keep_world(faulty(1, 14), tmp_path / "t.db")) as store:
        first = look(store, "world", START + 10 * A_DAY)
        second, taken_over = check_looks(
            store, "world", iter([START + 13 * A_DAY]), tmp_path, first
        )
        assert taken_over == 1
        (name,) = first.bases
        before = explanation_of(second, name)

        # Its explanation outlives the snapshots that it was made from.
        store.prune("world", START + 9 * A_DAY, now=START + 14 * A_DAY)
        again = look(store, "world", START + 14 * A_DAY, second)
        assert explanation_of(again, name).causes == before.causes
        poor = explanation_of(look(store, "world", START + 14 * A_DAY), name)
        assert poor.causes != before.causes

        # Where it is placed elsewhere, or something else is known of its hours, it is explained.
        incident, basis = before.incident, first.bases[name].basis
        assert incident_search.still_holds(incident, basis, incident, basis)
        removed = replace(basis, digest="", snapshots=0, are_removed=True)
        assert incident_search.still_holds(incident, basis, incident, removed)
        assert not incident_search.still_holds(
            incident, basis, incident, replace(removed, are_removed=False)
        )
        assert not incident_search.still_holds(incident, basis, incident, replace(basis, digest=""))
        assert not incident_search.still_holds(
            incident, basis, replace(incident, effect=0.1), removed
        )


def explanation_of(explained: Explained, name: str) -> Explanation:
    """Return what was found of one incident."""
    return next(each for each in explained.explanations if each.incident.id == name)
