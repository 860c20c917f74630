"""Metrics of a site: nothing missing is 0, nothing unbounded is a label; what its store says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.act.world import NOW, action, ago, ost
from tests.support.watched import a_site

from trimtab.answers.site_overview import target_overviews
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.site import Site, SiteProbe
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.base.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.explain.status import FullWhen
from trimtab.explain.trouble import site_state
from trimtab.judge.crossing import Crossing
from trimtab.site.place import Place, add_event
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store
from trimtab.watch.metrics import (
    LEVELS,
    METRICS,
    MetricSample,
    ReceiverNow,
    SeriesNow,
    SiteNow,
    families_of,
    samples,
)
from trimtab.watch.site_metrics import Collector

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SITE = Site("scratch", "lustre", "/scratch", probes=(SiteProbe("hourly"),))


def rows(**changes: Any) -> list[MetricSample]:
    return list(samples(SiteNow(SITE, "1.0", NOON, **changes)))


def value(found: list[MetricSample], name: str, *labels: str) -> float | None:
    values = [row.value for row in found if (row.name, row.labels) == (name, labels)]
    return values[0] if values else None


def readings(*values: tuple[Any, ...]) -> tuple[Reading, ...]:
    """Return readings: name, value and label."""
    return tuple(
        Reading(name, number, source="x", label=label)
        if number is not None
        else Reading(name, None, reason="not there", label=label)
        for name, number, label in (each if len(each) == 3 else (*each, None) for each in values)
    )


def snapshot(*values: tuple[Any, ...]) -> Snapshot:
    target = TargetSnapshot(Target("OST0000", "ost"), readings(*values))
    return Snapshot(NOON, "lustre", True, (target,))


def test_targets_of_lustre_have_the_names_of_its_exporters() -> None:
    named = {"file_system": "scratch", "snapshot": snapshot(("degraded", True), ("used_bytes", 3))}
    trims = {"OST0000": NOON}
    found = [row for row in rows(**named, trimmed=trims) if "_target_" in row.name]
    assert {row.labels[0] for row in found} == {"scratch-OST0000"}
    assert value(found, "trimtab_target_trimmed_timestamp_seconds", "scratch-OST0000") is not None
    elsewhere = rows(snapshot=named["snapshot"])
    assert value(elsewhere, "trimtab_target_used_bytes", "OST0000") == 3


def test_the_days_of_a_forecast_are_samples_as_far_as_they_are_known() -> None:
    forecasts = (
        FullWhen("bytes", Crossing(0.75, NOON), Crossing(1.0)),
        FullWhen(
            "inodes",
            Crossing(0.95, is_passed=True),
            Crossing(1.0, reason=Message("forecast-too-short", "3 days")),
        ),
    )
    found = rows(snapshot=snapshot(("used_bytes", 3)), full_when={"OST0000": forecasts})
    of = [
        row
        for row in found
        if row.name.endswith(("_limit_timestamp_seconds", "_full_timestamp_seconds"))
    ]
    assert [(row.name, row.labels, row.value) for row in of] == [
        ("trimtab_target_limit_timestamp_seconds", ("OST0000", "bytes"), NOON.timestamp())
    ]
    assert value(found, "trimtab_target_trouble", "OST0000", "full-soon", "warning") == 1


def test_what_is_not_known_has_no_sample() -> None:
    names = {row.name for row in rows()}
    assert names == {
        "trimtab_site", "trimtab_fullness_limit_ratio", "trimtab_watch_refreshed_timestamp_seconds",
    }  # fmt: skip
    found = rows(snapshot=snapshot(("used_bytes", None), ("drive_write_amplification", None, "a")))
    for name in ("used_bytes", "fullness_ratio", "write_amplification_ratio"):
        assert value(found, f"trimtab_target_{name}", "OST0000") is None


def test_a_series_has_its_level_its_spread_and_the_state_of_its_goal() -> None:
    verdict = Verdict(
        "write_bandwidth", "B/s", "hourly", Scope.HISTORY, VerdictStatus.MISSED,
        Message("goal-missed", "missed"), 48, mean=2e9, cov=0.12,
        cov_interval=Interval(0.1, 0.15), goal=0.08,
    )  # fmt: skip
    found = rows(series=(SeriesNow("hourly", "ior", verdict, NOON, 1.5e9),))
    labels = ("hourly", "ior", "write_bandwidth")
    expected = {
        "bandwidth_bytes_per_second": 2e9,
        "last_bandwidth_bytes_per_second": 1.5e9,
        "cov_ratio": 0.12,
        "cov_lower_bound_ratio": 0.1,
        "cov_upper_bound_ratio": 0.15,
    }
    assert {name: value(found, f"trimtab_probe_{name}", *labels) for name in expected} == expected
    states = [
        value(found, "trimtab_probe_goal_state", *labels, state.value) for state in VerdictStatus
    ]
    assert states == [0.0, 1.0, 0.0]


def test_every_unit_of_a_metric_has_a_name() -> None:
    from trimtab.base.run import METRIC_UNITS

    assert set(METRIC_UNITS.values()) <= set(LEVELS)


def test_a_target_counts_once_and_each_of_its_troubles_is_named() -> None:
    found = rows(snapshot=snapshot(("degraded", True), ("read_only", True)))
    counted = {row.labels[0]: row.value for row in found if row.name == "trimtab_targets"}
    assert {state: count for state, count in counted.items() if count} == {"read-only": 1}
    assert counted["ok"] == 0
    for trouble in (("degraded", "warning"), ("read-only", "critical")):
        assert value(found, "trimtab_target_trouble", "OST0000", *trouble) == 1


def test_write_amplification_is_of_all_drives_and_missing_where_one_is() -> None:
    hosts, media = "drive_host_written_bytes_total", "drive_media_written_bytes_total"
    known = [(hosts, 100, "a"), (hosts, 300, "b"), (media, 200, "a")]
    factors = [("drive_write_amplification", 2.0, "a"), ("drive_write_amplification", 4.0, "b")]
    for readings_, ratio in (
        ([*known, (media, 1000, "b")], 3.0),
        ([*known, (media, None, "b")], None),
        (factors, 3.0),
    ):
        found = rows(snapshot=snapshot(*readings_))
        assert value(found, "trimtab_target_write_amplification_ratio", "OST0000") == ratio


def test_useless_loops_are_by_criterion_or_of_all() -> None:
    name = "trimtab_target_allocator_useless_loops"
    counted = "allocator_useless_loops_total"
    found = rows(snapshot=snapshot((counted, 7), (counted, 3, "0"), (counted, 4, "1")))
    assert value(found, name, "OST0000", "0") == 3
    assert sum(row.value for row in found if row.name == name) == 7
    assert value(rows(snapshot=snapshot((counted, 3))), name, "OST0000", "all") == 3


def test_the_rest_is_counted_by_bounded_labels() -> None:
    began, ended = (NOON + timedelta(seconds=seconds) for seconds in (3, 10))
    slot = Slot("scratch", "snapshot", NOON, SlotState.DONE, began, ended)
    found = rows(
        causes=("trim-overdue", "unexplained", "unexplained"),
        actions={("trim", "trim", "done"): 4, ("trim", "trim", None): 1},
        plans={"purge": 1},
        receivers=(ReceiverNow("mail", 2, 5),),
        slots={("snapshot", "done"): 9},
        last_slots=(slot,),
        store_bytes=4096,
        judged_at=NOON,
    )
    for expected, name, *labels in (
        (2, "incidents_open", "unexplained"),
        (1, "actions", "trim", "trim", "unknown-yet"),
        (1, "plans_waiting", "purge"),
        (2, "alerts_waiting", "mail"),
        (3.0, "watch_slot_lag_seconds", "snapshot"),
        (7.0, "watch_slot_duration_seconds", "snapshot"),
        (4096, "store_size_bytes"),
    ):
        assert value(found, f"trimtab_{name}", *labels) == expected, name
    assert value(rows(judged_at=NOON), "trimtab_incidents_open", "unexplained") == 0


def test_every_sample_has_as_many_labels_as_its_metric_says() -> None:
    found = rows(snapshot=snapshot(("degraded", True), ("used_bytes", 1), ("available_bytes", 3)))
    for metric, of_metric in families_of(found):
        assert all(len(row.labels) == len(metric.labels) - 1 for row in of_metric), metric.name
    assert sum(len(of_metric) for _, of_metric in families_of(found)) == len(found)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


DAY_S = 86400.0


@pytest.mark.parametrize(
    ("reported", "trims", "logged", "days"),
    [
        (None, [], None, None),
        ("n/a", [], None, None),
        (ago(3 * DAY_S).isoformat(), [(9, Outcome.DONE)], None, 3),
        (ago(3 * DAY_S).isoformat(), [(1, Outcome.DONE)], None, 1),
        (ago(3 * DAY_S).isoformat(), [(1, Outcome.FAILED)], None, 3),
        (ago(-DAY_S).isoformat(), [(1, Outcome.DONE)], None, 1),  # by a wrong clock
        (None, [(9, Outcome.DONE)], ("OST0000", 2), 2),
        (None, [(9, Outcome.DONE)], ("OST0001", 2), 9),
        (None, [(9, Outcome.DONE)], (None, 200), 9),
        (None, [], (None, 200), 200),  # all targets
    ],
)
def test_metric_and_overview_know_the_same_last_trim(
    store: Store, reported, trims, logged, days
) -> None:
    site = a_site(name="small")  # as the ledger of `tests.act.world` has it
    snapshot = Snapshot(NOW, "lustre", True, (ost(0, last_trim_at=reported),))
    store.ensure_site(site.name, driver=site.driver, path=site.path)
    store.add_snapshot(site.name, snapshot)
    for ago_days, outcome in trims:
        at = ago_days * DAY_S
        done = action(ActionKind.TRIM, "OST0000", at, outcome=outcome, policy="trim")
        store.put_action(done)
    if logged is not None:
        targets, ago_days = logged
        at = (NOW - timedelta(days=ago_days)).isoformat()
        place = Place(site.name, site)
        add_event(store, place, kind="trim", detail="by hand", at=at, now=NOW, targets=targets)
    metrics = Collector(site, store, clock=lambda: NOW).collect().trimmed
    state = site_state(site.name, snapshot, site.limits)
    events = store.events(site=site.name, kinds=[EventKind.TRIM])
    (shown,) = target_overviews(store, site.name, state, events)
    expected = None if days is None else ago(days * DAY_S)
    assert (metrics.get("OST0000"), shown.trimmed_at) == (expected, expected)
