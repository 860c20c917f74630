from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.narrow import present
from tests.twin.simulation.small import START, small

from trimtab.base.event import EventKind
from trimtab.twin.scenario import Fault, Raid, Scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.fault import (
    RebuildPhase,
    acting,
    active,
    added_bytes,
    carriers,
    conditions,
    phases,
)

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FAULTS = (
    Fault(NOON, "silent-ost", NOON + HOUR, (1,)),
    Fault(NOON, "slow-drive", None, (2,), 0.5),
    RebuildPhase("rebuilding", NOON, NOON + 2 * HOUR, (0, 9)),
    Fault(NOON + HOUR, "failover", NOON + 2 * HOUR, (3,)),
    Fault(NOON + HOUR, "name-service", NOON + 2 * HOUR),
)


def test_what_is_wrong_at_a_moment():
    now = conditions(FAULTS, NOON, NOON, 4)
    assert now.silent.tolist() == [False, True, False, False]
    assert now.drive_factor.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert now.rebuilding.tolist() == now.degraded.tolist() == [True, False, False, False]
    assert not now.short.any()
    assert not now.moved.any()
    assert now.names_resolve
    later = conditions(FAULTS, NOON + HOUR, NOON + HOUR, 4)
    assert not later.silent.any(), "it answers again at the moment at which it ends"
    assert later.moved.tolist() == [False, False, False, True]
    assert not later.names_resolve


def test_an_epoch_has_all_that_was_wrong_within_it():
    whole = conditions(FAULTS, NOON, NOON + HOUR, 4)
    assert whole.silent.any()
    assert whole.moved.any()
    assert [fault.kind for fault in active(FAULTS, NOON - HOUR, NOON - HOUR / 2)] == []


def test_bytes_that_faults_write_are_those_of_the_overlap():
    burst = Fault(NOON, "burst", NOON + HOUR / 2, (), 10e9)
    faults = (Fault(NOON, "filling", NOON + HOUR, (1,), 2e9), burst)
    filling, burst = added_bytes(faults, NOON - HOUR / 4, NOON + HOUR / 4, 3)
    assert filling is not None
    np.testing.assert_allclose(filling, [0.0, 2e9 * 900, 0.0])
    assert burst == pytest.approx(10e9 * 900)
    filling, burst = added_bytes(faults, NOON + HOUR / 2, NOON + 2 * HOUR, 3)
    assert filling is not None
    assert filling[1] == pytest.approx(2e9 * 1800)
    assert burst == 0.0


def test_an_ost_that_failed_over_is_on_its_partner():
    moved = np.array([False, True, True, False, True])
    assert carriers(moved, 1).tolist() == [0, 0, 3, 3, 4], "the last has no partner"
    assert carriers(np.array([True, False, False, False]), 2).tolist() == [1, 0, 1, 1]


def _with(raid: Raid, fault: Fault, **osts: Any) -> Scenario:
    scenario = small(faults=(fault,))
    return replace(scenario, osts=replace(scenario.osts, raid=raid, **osts))


def test_a_rebuild_onto_spare_space_begins_at_once_and_takes_its_time():
    fault = Fault(NOON, "failed-drive", NOON + HOUR, (2,))
    scenario = _with(Raid(), fault)
    (rebuilding,) = phases(fault, scenario)
    assert rebuilding.kind == "rebuilding"
    assert rebuilding.until is not None
    hours = (rebuilding.until - NOON) / HOUR
    assert hours == pytest.approx(3.36, rel=0.01), "replaced after an hour, it goes on to its end"
    assert acting(fault, scenario).until == rebuilding.until
    waits = replace(fault, until=NOON + 48 * HOUR)
    first, then = phases(waits, scenario)
    assert (then.kind, then.at, then.until) == ("short", first.until, waits.until)
    assert acting(waits, scenario).until == first.until, "all data are there again"
    later = present(next(phases(fault, _with(Raid(rebuild_share=0.1), fault))).until)
    assert (later - NOON) / HOUR == pytest.approx(3 * hours, rel=1e-6)


def test_an_array_without_spare_space_is_degraded_until_the_drive_is_replaced():
    fault = Fault(NOON, "failed-drive", NOON + 5 * HOUR, (2,))
    scenario = _with(Raid(drives=10, spares=0), fault)
    degraded, rebuilding = phases(fault, scenario)
    assert (degraded.kind, degraded.at, degraded.until) == ("degraded", NOON, fault.until)
    assert rebuilding.until is not None
    assert fault.until == rebuilding.at < rebuilding.until
    (for_ever,) = phases(replace(fault, until=None), scenario)
    assert for_ever.until is None
    assert acting(replace(fault, until=None), scenario).until is None


def test_osts_that_share_their_drives_lose_one_together():
    fault = Fault(NOON, "slow-drive", None, (5,), 0.5)
    scenario = _with(Raid(drives=32, spares=2, shared=4), fault)
    assert acting(fault, scenario).osts == (4, 5, 6, 7)
    assert acting(replace(fault, kind="silent-ost"), scenario).osts == (5,)


def test_a_failed_drive_slows_its_ost_for_as_long_as_the_rebuild_lasts():
    fault = Fault(START + 4 * HOUR, "failed-drive", START + 5 * HOUR, (2,))
    simulation = Simulation(small(days=0.5, faults=(fault,), probes=()), threads=1)
    states = []
    while simulation.now < simulation.end:
        simulation.step()
        states.append(bool(simulation.state.degraded[2]))
    assert states == [False] * 3 + [True] * 4 + [False] * 5
    (event,) = [event for event in simulation.events if event.kind is EventKind.REBUILD]
    assert event.until is not None
    assert (event.until - event.at) / HOUR == pytest.approx(3.36, rel=0.01)
