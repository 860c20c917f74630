from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from trimtab.twin.scenario.model import Fault
from trimtab.twin.simulation.faults import active, added_bytes, carriers, conditions

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FAULTS = (
    Fault(NOON, "silent-ost", NOON + HOUR, (1,)),
    Fault(NOON, "slow-drive", None, (2,), 0.5),
    Fault(NOON, "failed-drive", NOON + 2 * HOUR, (0, 9)),
    Fault(NOON + HOUR, "failover", NOON + 2 * HOUR, (3,)),
    Fault(NOON + HOUR, "name-service", NOON + 2 * HOUR),
)


def test_what_is_wrong_at_a_moment():
    now = conditions(FAULTS, NOON, NOON, 4)
    assert now.silent.tolist() == [False, True, False, False]
    assert now.drive_factor.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert now.rebuilding.tolist() == [True, False, False, False]
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
    faults = (
        Fault(NOON, "filling", NOON + HOUR, (1,), 2e9),
        Fault(NOON, "burst", NOON + HOUR / 2, (), 10e9),
    )
    filling, burst = added_bytes(faults, NOON - HOUR / 4, NOON + HOUR / 4, 3)
    np.testing.assert_allclose(filling, [0.0, 2e9 * 900, 0.0])
    assert burst == pytest.approx(10e9 * 900)
    filling, burst = added_bytes(faults, NOON + HOUR / 2, NOON + 2 * HOUR, 3)
    assert filling[1] == pytest.approx(2e9 * 1800)
    assert burst == 0.0


def test_an_ost_that_failed_over_is_on_its_partner():
    moved = np.array([False, True, True, False, True])
    assert carriers(moved, 1).tolist() == [0, 0, 3, 3, 4], "the last has no partner"
    assert carriers(np.array([True, False, False, False]), 2).tolist() == [1, 0, 1, 1]
