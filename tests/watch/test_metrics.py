"""Metrics of a site: nothing missing is 0, nothing unbounded is a label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.base.error import Message
from trimtab.base.site import Site, SiteProbe
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.base.verdict import Interval, Scope, Verdict, VerdictStatus
from trimtab.store.slot import Slot, SlotState
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


def test_what_is_not_known_has_no_sample() -> None:
    names = {row.name for row in rows()}
    assert names == {
        "trimtab_site", "trimtab_fullness_limit_ratio", "trimtab_watch_refreshed_timestamp_seconds",
    }  # fmt: skip
    found = rows(snapshot=snapshot(("used_bytes", None), ("drive_write_amplification", None, "a")))
    assert value(found, "trimtab_target_used_bytes", "OST0000") is None
    assert value(found, "trimtab_target_fullness_ratio", "OST0000") is None
    assert value(found, "trimtab_target_write_amplification_ratio", "OST0000") is None


def test_a_series_has_its_level_its_spread_and_the_state_of_its_goal() -> None:
    verdict = Verdict(
        "write_bandwidth", "B/s", "hourly", Scope.HISTORY, VerdictStatus.MISSED,
        Message("goal-missed", "missed"), 48, mean=2e9, cov=0.12,
        cov_interval=Interval(0.1, 0.15), goal=0.08,
    )  # fmt: skip
    found = rows(series=(SeriesNow("hourly", "ior", verdict, NOON, 1.5e9),))
    labels = ("hourly", "ior", "write_bandwidth")
    assert value(found, "trimtab_probe_bandwidth_bytes_per_second", *labels) == 2e9
    assert value(found, "trimtab_probe_last_bandwidth_bytes_per_second", *labels) == 1.5e9
    assert value(found, "trimtab_probe_cov_ratio", *labels) == 0.12
    assert value(found, "trimtab_probe_cov_lower_bound_ratio", *labels) == 0.1
    assert value(found, "trimtab_probe_cov_upper_bound_ratio", *labels) == 0.15
    states = [
        value(found, "trimtab_probe_goal_state", *labels, state.value) for state in VerdictStatus
    ]
    assert states == [0.0, 1.0, 0.0]


def test_every_unit_of_a_metric_has_a_name() -> None:
    from trimtab.base.run import METRIC_UNITS

    assert set(METRIC_UNITS.values()) <= set(LEVELS)


def test_a_target_counts_once_and_each_of_its_troubles_is_named() -> None:
    found = rows(snapshot=snapshot(("degraded", True), ("read_only", True)))
    assert value(found, "trimtab_targets", "read-only") == 1
    assert value(found, "trimtab_targets", "ok") == 0
    assert sum(row.value for row in found if row.name == "trimtab_targets") == 1
    assert value(found, "trimtab_target_trouble", "OST0000", "degraded", "warning") == 1
    assert value(found, "trimtab_target_trouble", "OST0000", "read-only", "critical") == 1


def test_write_amplification_is_of_all_drives_and_missing_where_one_is() -> None:
    counters = [
        ("drive_host_written_bytes_total", 100, "a"),
        ("drive_host_written_bytes_total", 300, "b"),
    ]
    media = [("drive_media_written_bytes_total", 200, "a")]
    whole = [*counters, *media, ("drive_media_written_bytes_total", 1000, "b")]
    part = [*counters, *media, ("drive_media_written_bytes_total", None, "b")]
    name = "trimtab_target_write_amplification_ratio"
    assert value(rows(snapshot=snapshot(*whole)), name, "OST0000") == 3.0
    assert value(rows(snapshot=snapshot(*part)), name, "OST0000") is None
    factors = [("drive_write_amplification", 2.0, "a"), ("drive_write_amplification", 4.0, "b")]
    assert value(rows(snapshot=snapshot(*factors)), name, "OST0000") == 3.0


def test_useless_loops_are_by_criterion_or_of_all() -> None:
    name = "trimtab_target_allocator_useless_loops"
    labelled = [
        ("allocator_useless_loops_total", 3, "0"),
        ("allocator_useless_loops_total", 4, "1"),
    ]
    found = rows(snapshot=snapshot(("allocator_useless_loops_total", 7), *labelled))
    assert value(found, name, "OST0000", "0") == 3
    assert sum(row.value for row in found if row.name == name) == 7
    assert value(rows(snapshot=snapshot(labelled[0][:2])), name, "OST0000", "all") == 3


def test_the_rest_is_counted_by_bounded_labels() -> None:
    began = NOON + timedelta(seconds=3)
    ended = began + timedelta(seconds=7)
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
    assert value(found, "trimtab_incidents_open", "unexplained") == 2
    assert value(found, "trimtab_actions", "trim", "trim", "unknown-yet") == 1
    assert value(found, "trimtab_plans_waiting", "purge") == 1
    assert value(found, "trimtab_alerts_waiting", "mail") == 2
    assert value(found, "trimtab_watch_slot_lag_seconds", "snapshot") == 3.0
    assert value(found, "trimtab_watch_slot_duration_seconds", "snapshot") == 7.0
    assert value(found, "trimtab_store_size_bytes") == 4096
    none = rows(judged_at=NOON)
    assert value(none, "trimtab_incidents_open", "unexplained") == 0


def test_every_sample_has_as_many_labels_as_its_metric_says() -> None:
    found = rows(snapshot=snapshot(("degraded", True), ("used_bytes", 1), ("available_bytes", 3)))
    for metric, of_metric in families_of(found):
        assert all(len(row.labels) == len(metric.labels) - 1 for row in of_metric), metric.name
    assert sum(len(of_metric) for _, of_metric in families_of(found)) == len(found)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
