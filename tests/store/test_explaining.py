"""Frames hold what the snapshots hold; incidents found again replace those found before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from tests.store.values import a_run, keep
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.base.event import new_identifier
from trimtab.base.run import Sample
from trimtab.base.snapshot import (
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
)
from trimtab.store import history, snapshot_record
from trimtab.store.kept import Judged, KeptIncident
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.store import Store

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
HUGE = 2**64 - 3


def snapshot(at: datetime, used: float) -> Snapshot:
    readings = (
        Reading("used_bytes", used, "lfs df"),
        Reading("capacity_bytes", HUGE, "lfs df"),
        Reading("create_enabled", False, "lctl"),
        Reading("import_state", "FULL", "lctl"),
        Reading("wbt_latency_s", 0.002, "sysfs", None, "nvme0n1"),
        Reading("server_cpu_fraction", None, None, "no answer"),
    )
    settings = {
        "mb_c2_threshold": Setting("mb_c2_threshold", "15", "sysfs"),
        "mb_stats": NotAvailable("not on this kernel"),
    }
    target = TargetSnapshot(Target("OST0001", "ost", "oss01"), readings, settings)
    host = HostSnapshot(
        "oss01",
        "server",
        readings=(Reading("server_cpu_fraction", 0.25, "/proc/stat"),),
        settings={"kernel_release": Setting("kernel_release", "4.18", "uname")},
    )
    empty = TargetSnapshot(Target("OST0002", "ost", None), ())
    return Snapshot(at, "lustre", True, (target, empty), (host,))


def timed_batch(one: Snapshot) -> snapshot_record.TimedBatch:
    """A snapshot as the changes of one with the same rows and other values."""
    base = Base.of(frame_of(snapshot(one.at, 0.5)))
    return one.at, base.changes(Values.of(frame_of(one))), base


def test_frames_hold_what_the_snapshots_hold() -> None:
    first, second = snapshot(AT, 1.5), snapshot(LATER, 2.5)
    batches = [timed_batch(one) for one in (first, second)]

    readings, settings = snapshot_record.telemetry_frames(batches)

    assert readings.schema == snapshot_record.readings_columns()
    assert settings.schema == snapshot_record.settings_columns()
    rows = {(row["at"], row["target"], row["name"]): row for row in readings.to_dicts()}
    for name, column, value in (
        ("used_bytes", "number", 1.5),
        ("used_bytes", "server", "oss01"),
        ("capacity_bytes", "number", float(HUGE)),
        ("capacity_bytes", "text", None),
        ("create_enabled", "number", 0.0),
        ("import_state", "text", "FULL"),
        ("import_state", "number", None),
        ("wbt_latency_s", "label", "nvme0n1"),
        ("server_cpu_fraction", "reason", "no answer"),
    ):
        assert rows[AT, "OST0001", name][column] == value, (name, column)
    assert rows[second.at, "OST0001", "used_bytes"]["number"] == 2.5
    of_server = rows[AT, "oss01", "server_cpu_fraction"]
    assert (of_server["number"], of_server["kind"]) == (0.25, "server")
    assert len(rows) == 2 * 7
    kept = {(row["at"], row["target"], row["name"]): row["value"] for row in settings.to_dicts()}
    assert kept == {
        (at, target, name): value
        for at in (AT, second.at)
        for target, name, value in (
            ("OST0001", "mb_c2_threshold", "15"),
            ("oss01", "kernel_release", "4.18"),
        )
    }


def two_batches() -> list[snapshot_record.TimedBatch]:
    return [timed_batch(one) for one in (snapshot(AT, 1.0), snapshot(LATER, 2.0))]


def test_names_and_times_of_settings_are_chosen() -> None:
    readings, settings = snapshot_record.telemetry_frames(
        two_batches(), names=["used_bytes"], settings_at=[AT]
    )
    assert readings["name"].to_list() == ["used_bytes"] * 2
    assert set(settings["at"]) == {AT}


def test_categories_are_the_same_texts() -> None:
    plain, _ = snapshot_record.telemetry_frames(two_batches())
    kept, _ = snapshot_record.telemetry_frames(two_batches(), categories=True)
    assert kept.schema["target"] == pl.Categorical
    assert kept.cast({pl.Categorical: pl.String}).equals(plain)


@pytest.mark.parametrize("target", ["OST0001", "oss01", "OST0002", "a\x10b"])
def test_readings_of_one_target_are_those_of_all_without_the_others(target: str) -> None:
    of_all = snapshot_record.telemetry_frames(two_batches())
    of_one = snapshot_record.telemetry_frames(two_batches(), target=target)
    for whole, some in zip(of_all, of_one, strict=True):
        assert some.equals(whole.filter(pl.col("target") == target))


def test_no_snapshot_gives_empty_frames_of_the_same_columns() -> None:
    readings, settings = snapshot_record.telemetry_frames([])
    assert readings.schema == snapshot_record.readings_columns()
    assert settings.schema == snapshot_record.settings_columns()
    assert readings.is_empty()


@pytest.mark.parametrize("at", [0, 20, -1])
def test_a_damaged_batch_is_told(at: int) -> None:
    _, changes, base = timed_batch(snapshot(AT, 1.0))
    damaged = bytearray(changes)
    damaged[at] ^= 0xFF
    with raises(UnreadableError, "snapshot-unreadable", "2026-03-01"):
        snapshot_record.telemetry_frames([(AT, bytes(damaged), base)])


@pytest.mark.system
def test_the_store_gives_frames_of_the_times_asked_for(store: Store) -> None:
    times = [AT + timedelta(hours=hour) for hour in range(500)]
    for place, at in enumerate(times[:3]):
        store.add_snapshot("scratch", snapshot(at, float(place)))
    store.add_snapshot("other", snapshot(AT, 99.0))

    assert store.snapshot_times("scratch") == tuple(times[:3])
    assert store.snapshot_times("scratch", since=times[1]) == tuple(times[1:3])
    readings, _ = store.telemetry_frames("scratch", times, names=["used_bytes"])
    assert readings["number"].to_list() == [0.0, 1.0, 2.0]


def test_surveys_are_one_row_a_target_and_metric(store: Store) -> None:
    samples = (
        Sample("write_bandwidth", 10.0, 0, "OST0000"),
        Sample("write_bandwidth", 30.0, 1, "OST0000"),
        Sample("write_bandwidth", 0.0, 0, "OST0001"),
        Sample("write_bandwidth", 4.0, 0, "a\x10b"),
        Sample("write_bandwidth", 6.0, 0, "caf\udce9"),
        Sample("write_bandwidth", 5.0, 0, "OST0002", reason="cached"),
        Sample("write_bandwidth", 7.0, 0),
        Sample("write_bandwidth", 8.0, 0, "OST0000", statistic="p99"),
    )
    run = keep(store, replace(a_run(), site="scratch", at=AT, samples=samples, outputs=()))

    frame = store.survey_frame("scratch")

    found = {(row["target"], row["metric"]): row["value"] for row in frame.to_dicts()}
    assert found == {
        ("OST0000", "write_bandwidth"): 20.0,
        ("OST0001", "write_bandwidth"): 0.0,
        ("a\x10b", "write_bandwidth"): 4.0,
        # No frame holds bytes that are no UTF-8: they stay as the store writes them.
        ("caf\x10dce9", "write_bandwidth"): 6.0,
    }
    assert set(frame["run"]) == {run.id}
    assert store.survey_frame("scratch", since=AT + timedelta(seconds=1)).is_empty()
    assert store.survey_frame("elsewhere").is_empty()


def test_runs_of_a_stretch_come_without_the_samples_of_targets(store: Store) -> None:
    whole, single = Sample("write_bandwidth", 7.0, 0), Sample("write_bandwidth", 1.0, 0, "OST0000")
    keep(store, a_run(at=AT, samples=(whole, single)))

    ((found, comparability),) = store.runs_between("scratch", until=AT)

    assert found.samples == (whole,)
    assert comparability == store.series("scratch")[0].comparability
    early = AT - timedelta(days=1)
    assert list(store.runs_between("scratch", until=early)) == []


def test_many_runs_come_by_time_though_few_are_read_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_AT_ONCE", 2)
    times = [AT + timedelta(hours=hour) for hour in (4, 0, 3, 1, 2)]
    for at in times:
        run = replace(a_run(), id=new_identifier(at), site="scratch", at=at, outputs=())
        store.add_run(run)
    stored = list(store.runs_between("scratch", until=max(times)))
    assert [run.at for run, _ in stored] == sorted(times)
    assert all(run.samples for run, _ in stored)


def incident(name: str, at: datetime, state: str = "open") -> KeptIncident:
    return KeptIncident(
        id=name, site="scratch", at=at, until=None, detected_at=at, shape="step", state=state,
        certainty="confirmed", effect=0.83, summary="writes are 17 % down", document={"id": name},
    )  # fmt: skip


def test_incidents_found_again_replace_those_of_their_stretch(store: Store) -> None:
    day = timedelta(days=1)
    old, stale = incident("old", AT), incident("stale", AT + 10 * day)
    again = incident("again", AT + 11 * day, "ended")
    assert store.judged("scratch") is None
    store.keep_incidents("scratch", [old, stale], since=None, judged=Judged(AT, AT))
    judged = Judged(AT + 12 * day, AT)
    store.keep_incidents("scratch", [again], since=AT + 5 * day, judged=judged)

    assert [one.id for one in store.incidents("scratch")] == ["again", "old"]
    assert store.incidents("scratch", states=["open"]) == (old,)
    assert store.incidents("scratch", since=AT + day) == (again,)
    assert store.judged("scratch") == judged
    assert store.incidents("elsewhere") == ()


def test_one_incident_that_moved_back_in_time_is_not_kept_twice(store: Store) -> None:
    store.keep_incidents("scratch", [incident("one", AT)], since=None, judged=Judged(AT, None))
    moved = incident("one", AT + timedelta(days=9))
    store.keep_incidents("scratch", [moved], since=AT + timedelta(days=5), judged=Judged(AT, None))
    assert store.incidents("scratch") == (moved,)
