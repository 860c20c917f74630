"""The contract of the store, over every database that it can stand on."""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from tests.store import values
from tests.store.conftest import OpenStore
from tests.store.values import NOON, a_run, a_snapshot, an_event, an_output, keep
from tests.support.codes import raises

from trimtab.base.error import UnreadableError, UsageError
from trimtab.base.event import EventKind, new_identifier
from trimtab.base.run import Run, RunStatus, Sample, comparability_key
from trimtab.base.snapshot import Snapshot
from trimtab.base.verdict import HistoryPoint
from trimtab.store import checksum, schema
from trimtab.store.connection import insert_imports, insert_runs
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

one_store_for_all_examples = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.system
def test_a_new_store_is_empty_and_whole(store: Store) -> None:
    assert store.sites() == store.runs() == store.series() == store.events() == ()
    assert store.latest_snapshot("scratch") is None
    assert store.check(contents=True).problems == ()


# Runs


@pytest.mark.system
@one_store_for_all_examples
@given(run=values.runs)
def test_a_run_comes_back_as_it_was(store: Store, run: Run) -> None:
    store.add_run(run)
    kept = store.run(run.id, outputs=True)
    assert kept == run
    # 1, 1.0 and True are equal to Python, but not the same measurement.
    assert repr(kept) == repr(run)


def test_a_run_is_there_when_the_store_is_opened_again(open_store: OpenStore) -> None:
    run = a_run(outputs=(an_output(),))
    open_store().add_run(run)
    assert open_store().run(run.id, outputs=True) == run


def test_outputs_are_listed_with_their_hashes_and_read_one_by_one(store: Store) -> None:
    outputs = (an_output(b"first" * 1000), an_output(b"", "read 0"), an_output(b"x", "read 1"))
    run = keep(store, a_run(outputs=outputs))
    kept = store.outputs(run.id)
    assert [one.ordinal for one in kept] == [0, 1, 2]
    assert [one.label for one in kept] == ["write 0", "read 0", "read 1"]
    assert kept[0].stdout_sha256 == hashlib.sha256(b"first" * 1000).hexdigest()
    assert kept[0].stdout_bytes == 5000
    assert tuple(store.raw_output(one) for one in kept) == outputs
    assert store.run(run.id).outputs == ()


def test_times_come_back_in_utc(store: Store) -> None:
    tokyo = timezone(timedelta(hours=9))
    kept = store.run(keep(store, a_run(at=datetime(2026, 11, 20, 21, tzinfo=tokyo))).id).at
    assert kept == NOON
    assert kept is not None
    assert kept.tzinfo is UTC


def test_a_time_without_a_zone_is_a_bug_and_keeps_nothing(store: Store) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        store.add_run(a_run(at=datetime(2026, 11, 20)))
    assert store.runs() == ()


@pytest.mark.parametrize("value", [math.nan, datetime(2026, 11, 20, tzinfo=UTC), object()])
def test_parameters_that_json_has_no_word_for_keep_nothing(store: Store, value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        store.add_run(a_run(parameters={"spec": {"x": value}}))
    assert store.runs() == ()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_not_finite_is_kept_as_missing_with_its_reason(
    store: Store, value: float
) -> None:
    run = a_run(samples=(Sample("write_bandwidth", value, 0), Sample("read_bandwidth", 1.0, 0)))
    store.add_run(run)
    bad, good = store.run(run.id).samples
    assert bad.value is None
    assert str(value) in (bad.reason or "")
    assert good.value == 1.0
    metrics = {point.metric for point in past(store, run)}
    assert metrics == {"read_bandwidth"}


def test_an_id_is_kept_once(store: Store) -> None:
    run = keep(store, a_run())
    with raises(UsageError, "run-already-kept"):
        store.add_run(run)
    assert len(store.runs()) == 1


def test_a_run_that_breaks_another_rule_of_the_database_is_not_said_to_be_kept(
    store: Store,
) -> None:
    whole, broken = a_run(), a_run(probe=None)
    with pytest.raises(IntegrityError):
        store.add_run(broken)
    with pytest.raises(IntegrityError):
        store.add_runs([whole, broken])
    assert store.runs() == ()


def test_runs_are_listed_newest_first_and_those_without_time_last(store: Store) -> None:
    runs = [a_run(hour) for hour in (2, 0, 1)]
    timeless = a_run(5, at=None, at_reason="the output has no time zone")
    keep(store, timeless, *runs)
    assert [run.id for run in store.runs()] == [
        runs[0].id, runs[2].id, runs[1].id, timeless.id
    ]  # fmt: skip
    assert store.runs(limit=1) == (runs[0],)
    assert store.runs(since=NOON + timedelta(hours=1)) == (runs[0], runs[2])
    assert store.runs(limit=0) == ()


def test_runs_are_listed_by_site_and_probe(store: Store) -> None:
    here, there, other = a_run(), a_run(site="home"), a_run(probe="nightly")
    keep(store, here, there, other)
    assert store.runs(site="home") == (there,)
    assert store.runs(probe="nightly") == (other,)
    assert store.runs(site="home", probe="nightly") == ()
    assert store.runs(site="nowhere") == ()


def test_more_runs_than_one_query_asks_for_keep_their_samples(store: Store) -> None:
    with store._writing() as connection:
        insert_runs(connection, [a_run(h, values=(h + 1.0,)) for h in range(501)])
    listed = store.runs()
    assert len(listed) == 501
    assert [run.samples[0].value for run in listed] == [float(n) for n in range(501, 0, -1)]


# Prefixes


def _with_id(identifier: str) -> Run:
    return a_run(id=identifier)


def test_any_unique_prefix_names_a_run(store: Store) -> None:
    one, other = "01a1f640-bc00-7000-8000-000000000001", "01a1f640-bc00-7000-9000-000000000001"
    store.add_run(_with_id(one))
    store.add_run(_with_id(other))
    assert store.run("01a1f640-bc00-7000-8").id == one
    assert store.run("01A1F640-BC00-7000-9").id == other
    assert store.run(other).id == other


def test_an_ambiguous_prefix_lists_the_candidates(store: Store) -> None:
    ids = [f"01a1f640-bc00-7000-8000-00000000000{n}" for n in range(7)]
    for identifier in ids:
        store.add_run(_with_id(identifier))
    with pytest.raises(UsageError) as caught:
        store.run("01a1")
    assert all(identifier in caught.value.message for identifier in ids[:5])
    assert "and more" in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("prefix", ["ffff", "", "%", "_", "'; DROP TABLE run; --", "\0", "\udce9"])
def test_an_unknown_prefix_names_the_newest(store: Store, prefix: str) -> None:
    run = keep(store, a_run())
    with raises(UsageError, "run-unknown") as caught:
        store.run(prefix)
    assert run.id in (caught.value.hint or "")
    with pytest.raises(UsageError):
        store.outputs(prefix)


def test_an_empty_store_says_so(store: Store) -> None:
    with pytest.raises(UsageError) as caught:
        store.run("01")
    assert caught.value.hint == "the store holds no run yet"


# Import


def imported(run: Run) -> ImportedRun:
    return ImportedRun(replace(run, outputs=()), (), "ab" * 32)


def test_the_same_output_is_imported_once(store: Store) -> None:
    first, again = a_run(outputs=(an_output(),)), a_run(1, outputs=(an_output(),))
    assert store.add_imports([imported(first)]) == [None]
    assert store.add_imports([imported(again)]) == [first.id]
    assert store.runs() == (replace(first, outputs=()),)


def test_the_same_output_of_another_site_or_kind_is_another_import(store: Store) -> None:
    for run in (a_run(), a_run(site="home"), a_run(kind="ior")):
        assert store.add_imports([imported(run)]) == [None]
    assert len(store.runs()) == 3


def test_an_import_that_breaks_another_rule_of_the_database_is_tried_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    monkeypatch.setattr(
        "trimtab.store.store.insert_imports", lambda *of: tried.append(of) or insert_imports(*of)
    )
    with pytest.raises(IntegrityError):
        store.add_imports([imported(a_run(probe=None))])
    assert len(tried) == 1
    assert store.runs() == ()


def test_runs_of_our_own_may_print_the_same(store: Store) -> None:
    store.add_run(a_run(outputs=(an_output(),)))
    store.add_run(a_run(outputs=(an_output(),)))
    assert len(store.runs()) == 2


# Sites


def test_a_site_is_filled_in_as_it_becomes_known(store: Store) -> None:
    store.add_run(a_run())
    assert [site.name for site in store.sites()] == ["scratch"]
    assert store.sites()[0].driver is None
    known = store.ensure_site("scratch", driver="local", identity="uuid:/scratch", path="/scratch")
    assert known == store.ensure_site("scratch") == store.sites()[0]
    assert (known.driver, known.identity, known.path) == ("local", "uuid:/scratch", "/scratch")


def test_a_name_does_not_stand_for_two_file_systems(store: Store) -> None:
    store.ensure_site("scratch", identity="one:/scratch")
    with raises(UsageError, "site-identity-differs", "one:/scratch"):
        store.ensure_site("scratch", identity="other:/scratch")
    assert store.sites()[0].identity == "one:/scratch"


@pytest.mark.parametrize("name", ["caf\udce9:/mnt/\udcff", "a\0b", "\x10dce9", "Ω ' \" %", ""])
def test_any_name_of_a_site_comes_back(store: Store, name: str) -> None:
    run = keep(store, a_run(site=name, path=name))
    store.ensure_site(name, path=name)
    assert store.sites()[0].name == store.sites()[0].path == name
    assert store.runs(site=name) == (run,)


# History


def past(store: Store, run: Run, **within: Any) -> tuple[HistoryPoint, ...]:
    """Return the points of the series that a run is of."""
    return store.history("scratch", comparability_key(run), **within)


def test_the_point_of_a_run_is_the_median_of_its_repetitions(store: Store) -> None:
    odd, even = a_run(0, values=(3.0, 1.0, 2.0)), a_run(1, values=(4.0, 1.0, 2.0, 3.0))
    keep(store, even, odd)
    points = past(store, odd)
    assert [(point.run, point.value) for point in points] == [(odd.id, 2.0), (even.id, 2.5)]
    assert [point.at for point in points] == [odd.at, even.at]
    assert not any(point.unfinished for point in points)


def test_what_is_not_believed_is_not_in_the_past(store: Store) -> None:
    run = a_run(
        samples=(
            Sample("write_bandwidth", 5.0, 0),
            Sample("write_bandwidth", 900.0, 1, reason="read from the cache"),
            Sample("write_bandwidth", None, 2, reason="was not printed"),
            Sample("write_bandwidth", 700.0, 0, statistic="p99"),
            Sample("write_bandwidth", 800.0, 0, target="OST0000"),
            Sample("write_bandwidth", 600.0),
            Sample("read_bandwidth", 900.0, 0, reason="read from the cache"),
        )
    )
    store.add_run(run)
    assert [(p.metric, p.value) for p in past(store, run)] == [("write_bandwidth", 5.0)]
    assert [p.value for p in past(store, run, target="OST0000")] == [800.0]


def test_a_figure_of_the_whole_run_counts_where_there_are_no_repetitions(store: Store) -> None:
    run = keep(store, a_run(samples=(Sample("write_bandwidth", 7.0),)))
    assert [p.value for p in past(store, run)] == [7.0]


def test_an_unfinished_run_counts_as_zero_where_more_is_better(store: Store) -> None:
    both = (Sample("write_bandwidth", 2.0, 0), Sample("write_latency", 0.01, 0))
    good, hung = a_run(0, samples=both), a_run(1, samples=both, status=RunStatus.UNFINISHED)
    keep(store, good, hung)
    points = past(store, good)
    assert [(p.run, p.metric, p.value, p.unfinished) for p in points] == [
        (good.id, "write_bandwidth", 2.0, False),
        (good.id, "write_latency", 0.01, False),
        (hung.id, "write_bandwidth", 0.0, True),
    ]


def test_a_series_that_never_finished_is_zero_for_the_metric_asked_for(store: Store) -> None:
    hung = keep(store, a_run(status=RunStatus.UNFINISHED, samples=()))
    assert [p.value for p in past(store, hung, metric="write_bandwidth")] == [0.0]
    assert past(store, hung, metric="write_latency") == ()
    assert past(store, hung) == ()
    assert past(store, hung, metric="write_bandwidth", target="OST0000") == ()


def test_a_series_that_never_finished_is_zero_for_what_it_was_asked_to_do(store: Store) -> None:
    asked = {"spec": {"accesses": ["write", "read", "odd"], "tasks": 4}}
    hung = keep(store, a_run(status=RunStatus.UNFINISHED, samples=(), parameters=asked))
    points = past(store, hung)
    assert [(p.metric, p.value, p.unfinished) for p in points] == [
        ("read_bandwidth", 0.0, True),
        ("write_bandwidth", 0.0, True),
    ]
    assert past(store, hung, target="OST0000") == ()


def test_a_run_that_hung_counts_as_zero_in_a_stretch_in_which_none_finished(store: Store) -> None:
    both = (Sample("file_stat_rate", 9.0, 0), Sample("file_stat_rate", 8.0, 0, target="OST0000"))
    good, hung = a_run(0, samples=both), a_run(9, samples=(), status=RunStatus.UNFINISHED)
    keep(store, good, hung)
    for target in (None, "OST0000"):
        points = past(store, hung, target=target, since=NOON + timedelta(hours=1))
        assert [(p.run, p.metric, p.value) for p in points] == [(hung.id, "file_stat_rate", 0.0)]


@pytest.mark.system
@pytest.mark.parametrize(
    "spec", [None, 7, [], {}, {"accesses": 7}, {"accesses": "write"}, {"accesses": [None, {}]}]
)
def test_what_a_hung_run_was_asked_may_be_anything(store: Store, spec: object) -> None:
    hung = keep(store, a_run(status=RunStatus.UNFINISHED, samples=(), parameters={"spec": spec}))
    assert past(store, hung) == ()


@pytest.mark.parametrize(
    "status", [RunStatus.FAILED, RunStatus.NOT_STARTED, RunStatus.INVALID_WORKLOAD]
)
def test_runs_that_say_nothing_of_the_file_system_are_not_in_the_past(
    store: Store, status: RunStatus
) -> None:
    assert store.history("scratch", comparability_key(keep(store, a_run(status=status)))) == ()
    assert store.series()[0].runs == 1


def test_the_past_is_of_one_site_one_series_and_one_stretch(store: Store) -> None:
    runs = [a_run(hour) for hour in range(4)]
    wider = a_run(parameters={"spec": {"tasks": 8}})
    keep(store, *runs, wider, a_run(site="home"), a_run(at=None, at_reason="no zone"))
    found = past(store, runs[0], since=NOON + timedelta(hours=1), until=NOON + timedelta(hours=2))
    assert [point.run for point in found] == [runs[1].id, runs[2].id]
    assert len(past(store, runs[0], metric="write_bandwidth")) == 4
    assert past(store, runs[0], metric="read_bandwidth") == ()
    by_count = [(one.site, one.runs, one.first_at, one.last_at) for one in store.series("scratch")]
    assert by_count == [("scratch", 5, NOON, NOON + timedelta(hours=3)), ("scratch", 1, NOON, NOON)]
    assert len(store.series()) == 3


def test_a_run_has_the_same_key_before_and_after_it_was_kept(store: Store) -> None:
    run = a_run(parameters={"spec": {"accesses": ("write", "read"), "duration_s": 5.0}})
    store.add_run(run)
    assert comparability_key(store.run(run.id)) == comparability_key(run)
    assert store.series()[0].comparability == comparability_key(run)


# Snapshots and events


@pytest.mark.system
@one_store_for_all_examples
@given(snapshot=values.snapshots)
def test_a_snapshot_comes_back_as_it_was(store: Store, snapshot: Snapshot) -> None:
    site = new_identifier(snapshot.at)
    store.add_snapshot(site, snapshot)
    kept = store.latest_snapshot(site)
    assert kept == snapshot
    assert repr(kept) == repr(snapshot)


def test_the_latest_snapshot_is_the_last_one_not_after_that_time(store: Store) -> None:
    for minute in (10, 0, 20):
        store.add_snapshot("scratch", a_snapshot(minute, used_bytes=minute))
    store.add_snapshot("home", a_snapshot(30))
    assert store.latest_snapshot("scratch") == a_snapshot(20, used_bytes=20)
    at = NOON + timedelta(minutes=19)
    assert store.latest_snapshot("scratch", at) == a_snapshot(10, used_bytes=10)
    assert store.latest_snapshot("scratch", NOON) == a_snapshot(0, used_bytes=0)
    assert store.latest_snapshot("scratch", NOON - timedelta(seconds=1)) is None
    within = store.snapshots("scratch", since=NOON + timedelta(minutes=10), until=at)
    assert within == (a_snapshot(10, used_bytes=10),)


def test_events_come_back_oldest_first(store: Store) -> None:
    later, earlier = an_event(2, EventKind.PURGE), an_event(1)
    elsewhere = an_event(3, site="home")
    for event in (later, earlier, elsewhere):
        store.add_event(event)
    assert store.events(site="scratch") == (earlier, later)
    assert store.events() == (earlier, later, elsewhere)
    assert store.events(since=later.at, until=later.at) == (later,)
    with raises(UsageError, "event-already-kept"):
        store.add_event(later)


@one_store_for_all_examples
@given(event=values.events)
def test_an_event_comes_back_as_it_was(store: Store, event: object) -> None:
    store.add_event(event)  # type: ignore[arg-type]
    assert event in store.events(made=True)


# What a newer program may have written


@pytest.mark.parametrize(
    ("table", "column", "word"),
    [("run", "status", "suspended"), ("sample", "metric", "teleportation_rate")],
)
def test_a_word_of_a_newer_program_is_said_and_the_rest_stands(
    store: Store, table: str, column: str, word: str
) -> None:
    newer, plain = a_run(), a_run(site="home")
    keep(store, newer, plain)
    first = {"run": schema.run.c.number == 1, "sample": schema.sample.c.run == 1}[table]
    with store._writing() as connection:
        connection.execute(
            schema.metadata.tables[table].update().where(first).values({column: word})
        )
        # With the checksums that such a program writes.
        samples = connection.execute(select(schema.sample).where(schema.sample.c.run == 1))
        total = schema.checksum([tuple(row)[1:] for row in samples])
        of_newer = schema.run.update().where(schema.run.c.number == 1)
        connection.execute(of_newer.values(sample_checksum=total))
        checksum.resum(connection, schema.run)
    with raises(UnreadableError, "record-unreadable", word):
        store.run(newer.id)
    assert store.run(plain.id) == plain
    assert store.series()


# Together


def test_threads_share_a_store(store: Store) -> None:
    failed: list[BaseException] = []

    def add(worker: int) -> None:
        try:
            for hour in range(5):
                store.add_run(a_run(hour, site=f"site {hour}", outputs=(an_output(b"same"),)))
                store.add_snapshot("scratch", a_snapshot(worker))
        except BaseException as error:  # noqa: BLE001  # told below, in the main thread
            failed.append(error)

    workers = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failed == []
    assert len(store.runs()) == 20
    assert len(store.snapshots("scratch")) == 20
    assert len(store.sites()) == 6
    assert store.check(contents=True).problems == ()
