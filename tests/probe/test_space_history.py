"""When targets are full, from the record of a site: told a week ahead, once, by every face."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.watched import a_site

from trimtab.answers.page import target_document, targets_document, targets_table
from trimtab.base.finding import Alert, Phase
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.probe.site_standing import standing_of
from trimtab.probe.space_history import full_when_of
from trimtab.show.screen_document import print_document
from trimtab.site.place import Place
from trimtab.store.kept import afresh
from trimtab.store.store import Store
from trimtab.watch.alert_decision import decide
from trimtab.watch.alert_table import SnapshotViews, observe
from trimtab.web.page_dashboard_chart import life_charts

SITE = a_site()
PLACE = Place(SITE.name, SITE)
BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
DAY = timedelta(days=1)
CAPACITY = 1000 * 2**30
FILLED_A_DAY = 15 * 2**30
EVENING = timedelta(hours=23)


def target(name: str, kind: str, used: int, inodes: int) -> TargetSnapshot:
    values = {
        "used_bytes": used,
        "available_bytes": CAPACITY - used,
        "inodes_total": 1000,
        "inodes_free": 1000 - inodes,
    }
    readings = tuple(Reading(each, value, source="lfs df") for each, value in values.items())
    return TargetSnapshot(Target(name, kind), readings)


def record(store: Store, days: int, *, since: int = 0, freed: int = 0) -> Iterator[datetime]:
    """Add snapshots of the morning and the evening of each day: one target fills up evenly.

    What happens within a day does not count: in the morning it is nearly full.
    """
    for day in range(since, since + days):
        used = 200 * 2**30 + day * FILLED_A_DAY - freed
        for hour in (11, 23):
            at = BEGIN + day * DAY + timedelta(hours=hour)
            seen = (
                target("OST0000", "ost", used if hour == 23 else used - 2**30, 10),
                target("OST0001", "ost", 100 * 2**30, 10),
                target("MDT0000", "mdt", 2**30, 300 + 10 * day),
            )
            store.add_snapshot(SITE.name, Snapshot(at, "lustre", True, seen))
            yield at


def test_the_day_follows_from_the_last_value_of_each_day(store: Store) -> None:
    *_, now = record(store, 31)
    made = full_when_of(store, SITE.name, SITE.limits, now)
    space, inodes = made["OST0000"]
    # 635 GiB on the evening of the 30th day, 115 below the limit: eight days of 15.
    assert space.limit.at == BEGIN + 29 * DAY + EVENING + 8 * DAY
    assert space.full.at == BEGIN + 29 * DAY + EVENING + 25 * DAY
    assert (inodes.kind, inodes.limit.at, inodes.limit.reason) == ("inodes", None, None)
    assert made["OST0001"][0].full.at is None
    # Inodes of the MDT: 590 of 1000, and 10 a day up to 95 %.
    assert made["MDT0000"][1].limit.at == BEGIN + 29 * DAY + EVENING + 36 * DAY
    lower = full_when_of(store, SITE.name, replace(SITE.limits, fullness=0.65), now)
    assert lower["OST0000"][0].limit.at == BEGIN + 29 * DAY + EVENING + DAY


def test_a_short_record_has_a_reason(store: Store) -> None:
    *_, now = record(store, 5)
    (space, _) = full_when_of(store, SITE.name, SITE.limits, now)["OST0000"]
    assert space.full.at is None
    assert space.full.reason == "snapshots reach back 3 days; a forecast needs 14"
    assert space.full.reason.code == "forecast-too-short"
    state = standing_of(store, PLACE).state
    assert state is not None
    table = targets_table(state.targets)
    assert table is not None
    column = table.columns.index("full on?")
    assert [row.cells[column].text for row in table.rows] == ["?"] * 3
    assert full_when_of(store, SITE.name, SITE.limits, BEGIN + EVENING) == {}


def test_what_was_not_seen_for_days_has_no_day(store: Store) -> None:
    *_, now = record(store, 30)
    for day in range(30, 35):
        seen = (target("OST0001", "ost", 100 * 2**30, 10),)
        now = BEGIN + day * DAY + EVENING
        store.add_snapshot(SITE.name, Snapshot(now, "lustre", False, seen))
    made = full_when_of(store, SITE.name, SITE.limits, now)
    assert (made["OST0000"], len(made["OST0001"])) == ((), 2)
    assert full_when_of(store, SITE.name, SITE.limits, now + 4 * DAY) == {}


def test_the_kept_forecast_is_that_made_afresh(store: Store) -> None:
    *_, now = record(store, 40)
    first = full_when_of(store, SITE.name, SITE.limits, now)
    assert store.derived(SITE.name, "full when")
    with afresh() as comparison:
        assert full_when_of(store, SITE.name, SITE.limits, now) == first
    assert (comparison.values, comparison.differing) == (1, [])


def test_every_face_says_the_same_day(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    deque(record(store, 33), maxlen=0)
    standing = standing_of(store, PLACE)
    assert standing.state is not None
    state = standing.state.targets[0]
    day = f"{BEGIN + 31 * DAY + 6 * DAY:%Y-%m-%d}"
    assert (state.name, [trouble.id for trouble in state.troubles]) == ("OST0000", ["full-soon"])
    assert f"over its limit of 75 % about {day}" in state.troubles[0].text
    space, document = state.full_when[0], targets_document(standing)
    assert f"over its limit of 75 % about {day}" in document.answer
    print_document(document)
    screen = capsys.readouterr().out
    assert f"(limit {day})" in screen
    assert "not in 90 d" in screen
    print_document(target_document(standing.state, state))
    assert f"bytes: limit of 75 % about {day}" in capsys.readouterr().out
    chart, *_ = life_charts(store, SITE.name, state.name, state.full_when)
    assert chart is not None
    drawn = [
        row
        for layer in chart.specification["layer"]
        for row in layer["data"]["values"]
        if "until" in row
    ]
    ends = [each.at.timestamp() * 1000 for each in (space.limit, space.full) if each.at]
    assert [(row["value"], row["until"]) for row in drawn] == [(75, ends[0]), (100, ends[1])]


def test_the_alert_comes_a_week_ahead_once_and_ends_when_the_day_recedes(store: Store) -> None:
    ledger: list[Alert] = []
    views = SnapshotViews()

    def watched(times: Iterator[datetime]) -> list[tuple[str, Phase, datetime]]:
        new = []
        for at in times:
            made = decide(observe(SITE, store, at, views), ledger, at)
            ledger.extend(made)
            new += [(alert.name, alert.phase, at) for alert in made]
        return [entry for entry in new if entry[1] is not Phase.NOTED]

    morning = BEGIN + timedelta(hours=11)
    # On the evening of day 30 it takes a week; the next snapshot confirms it.
    opened = watched(record(store, 36))
    assert opened == [("target-full-soon", Phase.OPENED, morning + 31 * DAY)]
    over = watched(record(store, 4, since=36))
    assert [name for name, _, _ in over] == ["target-over-limit"]
    purged = watched(record(store, 3, since=40, freed=600 * 2**30))
    assert ("target-full-soon", Phase.CLOSED) in [(name, phase) for name, phase, _ in purged]
