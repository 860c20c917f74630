"""What explanations ask a store: a date is any time of its day, hours of jobs, counts that grew."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.formats.recorded import FIXTURES
from tests.support.codes import raises
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.error import UsageError
from trimtab.base.plain import as_dict, as_list
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.probe.imports.importer import ImportTerms, import_files
from trimtab.probe.verdict.incident_question import FactsQuestion, StoreTelemetry
from trimtab.probe.verdict.incident_search import explain_at, incidents_of
from trimtab.site.place import Place
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
        return len(incidents_of(of_days, PLACE, now=now, since=since, until=until).explanations)

    day_before, day_after = (f"{hour(BAD[0]) + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
    assert (found(until=DAY), found(until=day_before)) == (1, 0)
    assert (found(since=DAY), found(since=day_after)) == (1, 0)


TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"


def test_the_hours_of_an_imported_table_are_known(store: Store) -> None:
    tuple(import_files([str(TABLE)], ImportTerms(site="s"), store))
    (run,) = store.runs(site="s")
    running = as_list(as_dict(run.parameters["told"])["running_jobs"])
    url = store.location.url
    facts, profiles, jobs = FactsQuestion(url, "s", None).answer()
    assert (facts, profiles) == ((), ())
    assert jobs.height == len(running) > 12
    assert jobs["jobs"].to_list() == running
    until = datetime(2026, 3, 4, 6, tzinfo=UTC)
    _, _, earlier = FactsQuestion(url, "s", until).answer()
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
            reading = Reading(name, of_host[number], "dmesg")
            if of_host[number] is None:
                reading = Reading(name, None, reason="it does not answer")
            hosts.append(HostSnapshot(host, "server", readings=(reading,)))
        at = FIRST + number * HOUR
        store.add_snapshot("world", Snapshot(at, "lustre", True, (), hosts=tuple(hosts)))


def grew(store: Store) -> list[tuple[str, float, int]]:
    found = StoreTelemetry(store, "world").bad_checksums(FIRST, FIRST + 99 * HOURS_A_DAY * HOUR)
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
