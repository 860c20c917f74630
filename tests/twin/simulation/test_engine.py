import uuid
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.support.codes import raises
from tests.support.narrow import present
from tests.twin.simulation.small import DAY, START, small
from tests.twin.simulation.stand_ins import SlowLayout, quick, slow_layout, unthrottled

from trimtab.base.error import UsageError
from trimtab.base.event import Event, EventKind
from trimtab.twin.scenario import (
    Allocator,
    Fault,
    Gating,
    Lifetime,
    Purge,
    Queue,
    Resolution,
    Scenario,
    ScenarioChange,
    Trim,
)
from trimtab.twin.simulated_reading import readings
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.traffic import SURVEY_BYTES

HOUR = timedelta(hours=1)


def ran(scenario: Scenario) -> Simulation:
    of = quick(scenario)
    of.run()
    return of


def layout_of(simulated: Simulation) -> SlowLayout:
    layout = simulated.miniature.layout
    assert isinstance(layout, SlowLayout)
    return layout


def kinds(of: Simulation) -> list[EventKind]:
    return [event.kind for event in of.events]


def events(of: Simulation, kind: EventKind) -> list[Event]:
    return [event for event in of.events if event.kind is kind]


def balance(of: Simulation) -> float:
    """Return bytes that came and did not stay, go or get refused: 0."""
    totals, stored = of.population.totals, float(of.population.used @ of.columns.weight)
    return totals.stored_at_start + totals.written - stored - totals.deleted - totals.purged


@pytest.mark.calibration
@pytest.mark.parametrize("classes", [None, 3])
def test_every_byte_is_accounted_for(classes):
    scenario = small(
        10.0,
        resolution=Resolution(classes=classes),
        purge=Purge(enabled=True, target=0.5, min_age_s=2 * DAY),
        faults=(
            Fault(START + 5 * HOUR, "filling", START + 9 * HOUR, (2,), 3e9),
            Fault(START + 30 * HOUR, "burst", START + 40 * HOUR, (), 10e9),
        ),
        changes=(ScenarioChange(START + 50 * HOUR, {"osts.count": 12}),),
    )
    of = quick(scenario)
    for _ in range(240):
        of.step()
        assert balance(of) == pytest.approx(0.0, abs=of.population.totals.written * 1e-9 + 1.0)
        held = of.accounts.held.sum()
        assert held == pytest.approx(float(of.population.used @ of.columns.weight), rel=1e-9)
        assert (of.state.used_bytes <= of.state.capacity_bytes * (1 + 1e-12)).all()
    assert of.population.totals.purged > 0.0
    assert of.columns.osts == 12


def test_an_epoch_of_a_toy_by_hand():
    plain = small(1.0, probes=())
    users = replace(
        plain.users,
        fullness=0.5,
        fullness_spread=0.0,
        rhythm=0.0,
        burstiness=0.0,
        size_sigma=0.0,
        reread_share=0.0,
        size_median_bytes=1.0,
        daily_writes_bytes=24 * 8e12,
        lifetimes=(Lifetime(1.0, 36000.0),),
    )
    of = quick(replace(plain, users=users))
    capacity = 12 * 15.36e12 * 11 / 12 * 0.8
    np.testing.assert_allclose(of.state.capacity_bytes, capacity)
    np.testing.assert_allclose(of.state.used_bytes, capacity / 2)
    of.step()
    # 8 TB an hour over 8 OSTs, a file a byte; a tenth of the mean life passes.
    survives = np.exp(-0.1)
    left = capacity / 2 * survives + 1e12 * (1 - survives) / 0.1
    np.testing.assert_allclose(of.state.used_bytes, left, rtol=1e-5)
    written, deleted, purged, burst, files, resets = layout_of(of).calls[-1]
    np.testing.assert_allclose(written, 1e12 / capacity, rtol=1e-5)
    assert (purged, burst, files, resets) == ([0.0] * 8, [0.0] * 8, [0] * 8, [0.0] * 8)
    assert sum(deleted) > 0.0


def test_the_same_scenario_gives_the_same_bit_for_bit():
    first, second = ran(small()), ran(small())
    assert first.trace.jobs == second.trace.jobs
    np.testing.assert_array_equal(first.trace.of("fullness"), second.trace.of("fullness"))
    assert first.events == second.events
    assert ran(small(seed=8)).trace.jobs != first.trace.jobs


def test_steps_and_runs_in_parts_are_one_run():
    whole, parts = ran(small()), quick(small())
    parts.run(START + 10 * HOUR)
    parts.step()
    parts.run()
    assert whole.trace.jobs == parts.trace.jobs
    assert whole.now == parts.now == START + 72 * HOUR


def test_a_fault_changes_nothing_of_what_users_draw():
    fault = Fault(START + 24 * HOUR, "slow-drive", START + 48 * HOUR, (3,), 0.2)
    calm, troubled = ran(small()), ran(small(faults=(fault,)))
    # They want as much, wherever the longer runs of the probe meet some of it.
    written = calm.population.totals.written
    assert troubled.population.totals.written == pytest.approx(written, rel=1e-9)
    full, other = (of.trace.of("fullness")[:24] for of in (calm, troubled))
    np.testing.assert_array_equal(full, other)
    pairs = zip(calm.trace.jobs, troubled.trace.jobs, strict=True)
    differs = [one.at for one, other in pairs if one != other]
    assert differs
    assert all(fault.at <= at for at in differs)


def test_users_get_enospc_when_nothing_is_left_and_life_goes_on():
    scenario = small(4.0)
    users = replace(scenario.users, daily_writes_bytes=8 * 135e12, lifetimes=(Lifetime(1.0, None),))
    of = ran(replace(scenario, users=users))
    assert of.state.refused_space_bytes > 0.0
    np.testing.assert_allclose(of.state.fullness, 1.0)
    assert sum("ENOSPC" in event.detail for event in events(of, EventKind.NOTE)) == 1
    assert (of.trace.jobs[-1].status, balance(of)) == ("failed", pytest.approx(0.0, abs=1e6))


def test_closed_osts_take_nothing_until_they_are_opened():
    of = quick(small())
    of.set_creation(2, False)
    before = of.state.bytes_written_total.copy()
    for _ in range(5):
        of.step()
    got = of.state.bytes_written_total - before
    assert got[2] == 0.0
    assert (np.delete(got, 2) > 0.0).all()
    of.set_creation(2, True)
    of.step()
    assert of.state.bytes_written_total[2] > before[2]
    assert kinds(of)[:2] == [EventKind.TARGET_CLOSED, EventKind.TARGET_OPENED]
    assert of.events[0].targets == ("OST0002",)


@pytest.mark.calibration
def test_gating_holds_osts_near_the_limit():
    gating = Gating(enabled=True, limit=0.62, reopen=0.61, every_s=3600.0)
    of = ran(small(20.0, gating=gating, probes=()))
    assert {EventKind.TARGET_CLOSED, EventKind.TARGET_OPENED} <= {*kinds(of)}
    closed = of.trace.of("open") == 0.0
    full = of.trace.of("fullness")
    # An OST that closed only ever loses until it opens again.
    falling = np.diff(full, axis=0)[closed[:-1] & closed[1:]]
    assert len(falling)
    assert (falling <= 0.0).all()


@pytest.mark.calibration
def test_a_silent_ost_hangs_jobs_and_is_missing_in_surveys():
    of = ran(small(faults=(Fault(START + 10 * HOUR, "silent-ost", START + 30 * HOUR, (5,)),)))
    bad = [run.at for run in of.trace.jobs if run.status == "unfinished"]
    assert bad == [START + hour * HOUR for hour in range(10, 30)]
    survey = of.trace.surveys[0]
    assert survey.at == START + 20 * HOUR
    assert np.isnan(survey.write_bytes_per_s).tolist() == [ost == 5 for ost in range(8)]
    assert np.isfinite(of.trace.surveys[1].write_bytes_per_s).all()
    assert not of.events, "it is silent"


def test_without_names_jobs_do_not_start_or_do_not_end_and_surveys_do():
    of = ran(small(faults=(Fault(START + 10 * HOUR, "name-service", START + 40 * HOUR),)))
    bad = [run.status for run in of.trace.jobs if run.status != "ok"]
    assert ({*bad}, len(bad)) == ({"not_started", "unfinished"}, 30)
    assert of.trace.surveys[0].status == "ok"


def test_a_slow_drive_is_seen_by_the_survey_and_not_by_a_job_that_clients_limit():
    fault = Fault(START, "slow-drive", None, (3,), 0.5)
    # Users who write much can make an OST at half speed the slowest after all.
    few = replace(small(2.0).users, daily_writes_bytes=1e9)
    calm, slow = (ran(small(2.0, users=few, faults=faults)) for faults in ((), (fault,)))
    healthy, halved = (of.trace.surveys[0].write_bytes_per_s[3] for of in (calm, slow))
    assert halved == pytest.approx(healthy / 2, rel=0.2)
    assert slow.trace.jobs == calm.trace.jobs


def test_capacity_is_added_empty_in_columns_of_its_own():
    change = ScenarioChange(START + 24 * HOUR, {"osts.count": 10}, "two more")
    of = quick(small(2.0, resolution=Resolution(classes=4), changes=(change,)))
    of.run(START + 24 * HOUR)
    assert of.columns.count == 4
    of.step()
    assert (of.columns.count, of.columns.weight.tolist()) == (5, [2.0, 2.0, 2.0, 2.0, 2.0])
    added = events(of, EventKind.CAPACITY_ADDED)
    assert (added[0].targets, added[0].at) == (("OST0008", "OST0009"), change.at)
    assert of.state.fullness[4] < 0.02
    of.run()
    fullness = of.trace.of("fullness")
    assert np.isnan(fullness[23, 4])
    assert np.isfinite(fullness[24:]).all()


def test_osts_that_something_happens_to_have_columns_of_their_own():
    fault = Fault(START, "slow-drive", None, (5,), 0.5)
    of = quick(small(1.0, resolution=Resolution(classes=2), faults=(fault,)))
    assert (of.columns.count, of.columns.weight.tolist()) == (3, [4.0, 3.0, 1.0])
    assert of.columns.member[5] == 2


def test_changes_are_set_and_told_at_their_time():
    both = {"trim.discard": True, "clients.saferet": True}
    change = ScenarioChange(START + 24.5 * HOUR, both, "both")
    of = quick(small(changes=(change,)))
    of.run(START + 24 * HOUR)
    assert not of.scenario.trim.discard
    of.step()
    assert of.scenario.trim.discard
    assert of.scenario.clients.saferet
    assert all(ost["discard"] for ost in layout_of(of).ost)
    told = events(of, EventKind.CONFIG_CHANGE)
    assert [event.at for event in told] == [change.at, change.at]
    assert told[0].detail == "trim.discard: false -> true (both)"


def test_settings_that_belong_together_change_together():
    both = {"gating.limit": 0.5, "gating.reopen": 0.45}
    of = quick(small(changes=(ScenarioChange(START + HOUR, both),)))
    of.run(START + 3 * HOUR)
    assert (of.scenario.gating.limit, of.scenario.gating.reopen) == (0.5, 0.45)


def test_what_cannot_change_is_refused_by_name():
    of = quick(small())
    of.set_key("purge.enabled", True)
    of.set_key("trim.every", "24h")
    assert of.scenario.trim.every_s == DAY
    for key, value, code in [
        ("users.fullness", 0.3, "key-fixed"),
        ("osts.count", 4, "osts-removed"),
        ("trim.evry", "1d", "unknown-key"),
    ]:
        with raises(UsageError, code):
            of.set_key(key, value)
    with raises(UsageError, "target-unknown"):
        of.trim(8)


def test_a_trim_gives_back_and_is_told_once_a_night():
    of = ran(small(3.0, trim=Trim(every_s=DAY)))
    trims = events(of, EventKind.TRIM)
    assert len(trims) == 3
    assert all(event.until is not None and not event.targets for event in trims)
    assert (of.state.bytes_discarded_total > 0.0).all()
    assert (of.state.amplification < ran(small(3.0)).state.amplification).all()
    by_hand = quick(small())
    assert by_hand.trim(1) > 0.0
    assert by_hand.trim(1) == pytest.approx(0.0)
    assert by_hand.events[0].targets == ("OST0001",)


def test_resets_reach_the_layout():
    of = quick(small(1.0, allocator=Allocator(reset_s=900.0)))
    of.step()
    assert layout_of(of).calls[-1][5] == [4.0] * 8
    of.reset_allocator(3)
    assert layout_of(of).calls[-1] == ("reset", [3])


def test_readings_have_a_row_a_column_and_counters_only_grow():
    of = quick(small(2.0, trim=Trim(every_s=DAY)))
    before = now = readings(of)
    for _ in range(48):
        of.step()
        now = readings(of)
        for name in (
            *("bytes_written_total", "bytes_read_total", "bytes_discarded_total"),
            *("client_bytes_written_total", "allocator_requests_total"),
            *("allocator_useless_loops_total", "allocator_groups_considered_total"),
            "drive_percentage_used",
        ):
            assert (getattr(now.osts, name) >= getattr(before.osts, name)).all(), name
        assert (now.mdts.metadata_operations_total > before.mdts.metadata_operations_total).all()
        before = now
    assert len(now.osts) == 8
    # 45 jobs of 3 TB, and what users wrote.
    users = of.population.totals.written
    written = now.osts.client_bytes_written_total.sum()
    assert written == pytest.approx(users + 48 * 3e12, rel=1e-6)


def test_progress_ends_with_all():
    told: list[float] = []
    quick(small(1.0)).run(on_progress=told.append)
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_a_window_slows_what_the_survey_sees():
    def throttled(scenario, amplification):
        slow = 0.9 if scenario.queue.writeback_throttling else 1.0
        return np.full(len(amplification), slow)

    def survey(**changed):
        of = Simulation(small(1.0, **changed), layout=slow_layout, windows=throttled)
        of.run()
        return of.trace.surveys[0].write_bytes_per_s

    off = survey(queue=Queue(writeback_throttling=False))
    np.testing.assert_allclose(survey(), 0.9 * off, rtol=0.02)


def test_a_rebuilding_ost_is_degraded_and_slower_and_one_moved_shares_a_server():
    moved = Fault(START, "failover", START + 30 * HOUR, (3,))
    faults = (Fault(START + 19 * HOUR, "failed-drive", START + 30 * HOUR, (1,)), moved)
    of = Simulation(small(2.0, faults=faults), layout=slow_layout, windows=unthrottled)
    of.run(START + 21 * HOUR)
    assert of.state.degraded.tolist() == [ost == 1 for ost in range(8)]
    assert of.state.server.tolist() == [0, 1, 2, 2, 4, 5, 6, 7]
    write = of.trace.surveys[0].write_bytes_per_s
    assert write[1] < 0.8 * write[0]
    assert kinds(of) == [EventKind.FAILOVER, EventKind.REBUILD]
    until = present(of.events[1].until)
    assert START + 23 * HOUR > until == of.faults[1].until
    of.run()
    assert not of.state.degraded.any()
    assert of.state.server.tolist() == list(range(8))


@pytest.mark.calibration
def test_a_purge_brings_it_under_its_target_and_says_how_old_it_went():
    purge = Purge(enabled=True, target=0.5, min_age_s=7 * DAY)
    of = ran(small(3.0, purge=purge, probes=()))
    assert "days ago" in events(of, EventKind.PURGE)[0].detail
    used, room = (
        values @ of.columns.weight for values in (of.state.used_bytes, of.state.capacity_bytes)
    )
    assert used / room == pytest.approx(0.5, abs=0.04)
    slow = ran(small(3.0, purge=replace(purge, bytes_per_day=1e12), probes=()))
    # The first pass is due at the end of the first day, so it begins in that day's last hour.
    assert slow.population.totals.purged == pytest.approx(49 / 24 * 1e12)


def test_ids_of_events_are_unique_uuids_of_their_time():
    of = ran(small(3.0, trim=Trim(every_s=DAY)))
    ids = [uuid.UUID(event.id) for event in of.events]
    assert len(set(ids)) == len(ids) > 0
    assert {one.version for one in ids} == {7}
    times_ms = [int(event.at.timestamp() * 1000) for event in of.events]
    assert [one.int >> 80 for one in ids] == times_ms


def test_osts_that_are_added_are_set_as_the_others_are_by_then():
    grown = ScenarioChange(START + 4 * HOUR, {"osts.count": 10})
    changes = (ScenarioChange(START + 2 * HOUR, {"trim.discard": True}), grown)
    of = quick(small(1.0, changes=changes))
    of.run(START + 6 * HOUR)
    assert [ost["discard"] for ost in layout_of(of).ost] == [True] * 10


def test_useless_loops_of_guests_are_counted_as_those_of_users():
    of = quick(small(1.0, users=replace(small().users, fullness=0.8), probes=()))
    of.step()
    before = readings(of).osts
    of.write([(1e12, "0-7")])
    of.remove([(1e12, "0-7")])
    after = readings(of).osts
    asked = after.allocator_requests_total - before.allocator_requests_total
    loops = after.allocator_useless_loops_total - before.allocator_useless_loops_total
    np.testing.assert_allclose(asked, 1e12 / 2**20)
    np.testing.assert_allclose(loops.sum(axis=1), 0.05 * asked)
    looked = after.allocator_groups_considered_total - before.allocator_groups_considered_total
    assert (looked.sum(axis=1) > loops.sum(axis=1)).all()


@pytest.mark.parametrize(("fullness", "spread"), [(0.0, 0.02), (0.01, 0.05), (0.99, 0.05)])
def test_it_begins_as_full_as_it_is_to_be(fullness, spread):
    as_full = {"fullness": fullness, "fullness_spread": spread, "daily_writes_bytes": 0.0}
    users = replace(small().users, **as_full)
    of = quick(small(1.0, users=users, resolution=Resolution(classes=3)))
    whole = of.columns.weight.sum()
    assert of.state.fullness @ of.columns.weight / whole == pytest.approx(fullness, abs=1e-12)
    assert of.state.fullness.min() >= 0.0
    assert of.state.fullness.max() <= 1.0


def test_little_writing_is_no_lack_of_space():
    users = replace(small().users, daily_writes_bytes=1e6)
    of = ran(small(5.0, osts=replace(small().osts, count=1), users=users, probes=()))
    assert of.state.refused_space_bytes == 0.0
    assert of.population.totals.written > 2e6
    assert not [event for event in of.events if "ENOSPC" in event.detail]


def test_servers_are_as_busy_as_all_that_they_serve_makes_them():
    def cpu(**changed):
        of = quick(small(1.0, probes=(), **changed))
        of.run(START + 6 * HOUR)
        return of, readings(of).osts.server_cpu_fraction

    _, plain = cpu()
    _, checked = cpu(clients=replace(small().clients, checksums=True))
    assert (checked > plain).all()
    # A server of the next generation does the same work with fewer of its cores.
    _, newer = cpu(server=replace(small().server, generation="e2000"))
    np.testing.assert_allclose(newer, plain / 2.12)
    # One that took its partner's OST over works for both, and the partner for none.
    moved, both = cpu(faults=(Fault(START, "failover", START + 30 * HOUR, (3,)),))
    assert both[2] == both[3]
    cores = moved.state.write_bytes_per_s[2:4].sum() / 2**20 * 0.4e-3
    assert both[2] == pytest.approx(cores / 32, rel=1e-6)


def test_a_change_that_what_was_set_by_hand_stands_against_is_told_and_not_made():
    change = ScenarioChange(START + 4 * HOUR, {"osts.count": 9})
    of = quick(small(1.0, changes=(change,)))
    of.set_key("osts.count", 10)
    of.run()
    assert of.scenario.osts.count == 10
    (told,) = events(of, EventKind.NOTE)
    assert told.at == change.at
    assert "fewer" in told.detail


@pytest.mark.calibration
def test_an_epoch_of_a_day_writes_what_24_of_an_hour_write():
    users = replace(small().users, burstiness=0.0, quota_bytes=None)
    written = []
    for epoch_s in (3600.0, DAY):
        of = ran(small(7.0, users=users, resolution=Resolution(None, epoch_s=epoch_s)))
        written.append(of.population.totals.written)
    assert written[1] == pytest.approx(written[0], rel=1e-9)


def test_a_silent_ost_that_is_closed_hangs_no_job():
    of = quick(small(1.0, faults=(Fault(START + 3 * HOUR, "silent-ost", None, (3,)),)))
    of.set_creation(3, False)
    of.run()
    assert {job.status for job in of.trace.jobs} == {"ok"}


def test_where_all_osts_are_silent_jobs_hang_for_no_lack_of_space():
    fault = Fault(START + 3.5 * HOUR, "silent-ost", None, tuple(range(8)))
    of = ran(small(1.0, faults=(fault,)))
    assert {job.status for job in of.trace.jobs[4:]} == {"unfinished"}


def test_more_resets_than_requests_are_as_many_as_the_layout_takes():
    of = Simulation(small(0.25, allocator=Allocator(reset_s=0.1), probes=()), threads=1)
    of.run()
    assert np.isfinite(of.state.amplification).all()


def test_what_is_over_is_no_longer_shown():
    moved = Fault(START + 6.2 * HOUR, "failover", START + 6.4 * HOUR, (4,))
    faults = (Fault(START + 3 * HOUR, "silent-ost", START + 5 * HOUR, (3,)), moved)
    of = quick(small(1.0, faults=faults))
    shown = []
    for _ in range(8):
        of.step()
        osts = readings(of).osts
        shown.append((not osts.answers[3], bool(osts.failover_active[4])))
    # At the end of the third hour it is silent, at that of the fifth no longer.
    assert [silent for silent, _ in shown] == [hour in (3, 4) for hour in range(1, 9)]
    assert not any(moved for _, moved in shown)


def test_discard_at_each_deletion_is_counted():
    of = ran(small(1.0, trim=Trim(None, discard=True)))
    totals, given = of.population.totals, of.state.bytes_discarded_total.sum()
    assert given == pytest.approx(totals.deleted + 24 * 3e12 + 8 * SURVEY_BYTES)
