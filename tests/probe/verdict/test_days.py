"""A date is any time of its day: what is explained, listed and left out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.codes import raises
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.base.error import UsageError
from trimtab.probe.verdict.incident_search import explain_at, incidents_of
from trimtab.site.place import Place
from trimtab.store.store import Store

pytestmark = pytest.mark.system

BAD = (10 * 24 + 10, 10 * 24 + 16)
"""Hours of the eleventh day, neither at its begin nor at its end."""
DAY = f"{hour(BAD[0]):%Y-%m-%d}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(3).normal(1e9, 1e7, 24 * 21)
    values[BAD[0] : BAD[1]] = np.nan
    directory = tmp_path_factory.mktemp("days")
    return SmallSite({"write_bandwidth": values}).keep(directory / "small.db")


def test_a_date_is_explained_as_any_time_of_that_day(path: Path) -> None:
    with Store.open(path) as store:
        place = Place(SITE, None)
        day = explain_at(store, place, DAY)
        midnight = explain_at(store, place, f"{DAY}T00:00")
        before = explain_at(store, place, f"{hour(BAD[0]) - timedelta(days=1):%Y-%m-%d}")
    assert midnight.explanations == before.explanations == ()
    (explanation,) = day.explanations
    assert explanation.incident.at == hour(BAD[0])
    assert day.moment.incident.summary == f"{DAY} 00:00 to {DAY} 23:59 UTC"
    assert [(speed.runs, speed.unfinished) for speed in day.speeds] == [(24, 6)]


def test_a_date_outside_the_record_is_refused_and_its_first_and_last_day_are_not(
    path: Path,
) -> None:
    with Store.open(path) as store:
        place = Place(SITE, None)
        for number in (0, 24 * 20):
            assert explain_at(store, place, f"{hour(number):%Y-%m-%d}").speeds
        with raises(UsageError, "time-outside-record"):
            explain_at(store, place, f"{hour(-24):%Y-%m-%d}")


def test_until_a_date_includes_that_day_and_since_begins_it(path: Path) -> None:
    def found(since: str | None = None, until: str | None = None) -> int:
        with Store.open(path) as store:
            place, now = Place(SITE, None), hour(24 * 21)
            explained = incidents_of(store, place, now=now, since=since, until=until)
        return len(explained.explanations)

    day_before = f"{hour(BAD[0]) - timedelta(days=1):%Y-%m-%d}"
    day_after = f"{hour(BAD[0]) + timedelta(days=1):%Y-%m-%d}"
    assert (found(until=DAY), found(until=day_before)) == (1, 0)
    assert (found(since=DAY), found(since=day_after)) == (1, 0)
