"""The driver of the twin: what is set and done reaches the simulation, and shows in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.codes import raises
from tests.support.small_twin import START, small_life, small_scenario

from trimtab.drivers.protocol import TrimResult
from trimtab.errors import RefusedError, UsageError
from trimtab.model.telemetry import NotAvailable, Setting
from trimtab.twin.driver import TwinDriver
from trimtab.twin.path import TwinPath
from trimtab.twin.scenario.keys import value_of

DAY_S = 86400.0


def a_driver(**changes: Any) -> TwinDriver:
    driver = TwinDriver(small_life(**changes), "/twin")
    driver.life.pass_by(3600.0)
    return driver


SETTINGS = [
    ("ldiskfs/md0/mb_c1_threshold", "25", "allocator.c1", 0.25),
    ("ldiskfs/md0/mb_c2_threshold", "15", "allocator.c2", 0.15),
    ("ldiskfs/md0/mb_c3_threshold", "5", "allocator.c3", 0.05),
    ("lod/qos_threshold_rr", "17%", "placement.qos_threshold_rr", 0.17),
    ("lod/qos_prio_free", "90%", "placement.qos_prio_free", 0.90),
]


@pytest.mark.parametrize(("name", "value", "key", "fraction"), SETTINGS)
def test_percentages_reach_the_simulation_as_fractions(
    name: str, value: str, key: str, fraction: float
) -> None:
    driver = a_driver()
    mine = "OST0000"
    if name not in driver.settings(mine):
        mine = "MDT0000"
    answer = driver.set(mine, name, value)
    assert isinstance(answer, Setting)
    assert value_of(driver.life.simulation.scenario, key) == pytest.approx(fraction)
    assert answer.value.removesuffix("%") == value.removesuffix("%")
    told = driver.life.simulation.events[-1]
    assert key in told.detail


@pytest.mark.parametrize("value", ["101", "-1", "0.5", "", "%", "\uff11", "ten"])
def test_what_is_no_percentage_is_refused(value: str) -> None:
    driver = a_driver()
    before = driver.life.simulation.scenario
    with pytest.raises(UsageError):
        driver.set("OST0000", "ldiskfs/md0/mb_c1_threshold", value)
    assert driver.life.simulation.scenario is before


def test_throttling_is_set_in_microseconds() -> None:
    driver = a_driver()
    name = "drives/queue/wbt_lat_usec"
    answer = driver.set("OST0002", name, "7000")
    assert isinstance(answer, Setting)
    queue = driver.life.simulation.scenario.queue
    assert (queue.writeback_throttling, queue.target_latency_s) == (True, pytest.approx(0.007))
    # Of all OSTs: a scenario has one value.
    assert driver.settings("OST0001")[name] == replace(answer)
    driver.set("OST0002", name, "0")
    assert driver.life.simulation.scenario.queue.writeback_throttling is False
    shown = driver.settings("OST0000")[name]
    assert isinstance(shown, Setting)
    assert shown.value == "0"
    for wrong in ("-1", "a", "0.5", "99999999999"):
        with raises(UsageError, "malformed-value"):
            driver.set("OST0000", name, wrong)


def test_what_a_server_shows_and_the_twin_cannot_change_is_refused() -> None:
    driver = a_driver()
    known = driver.settings("OST0000")
    fixed = [name for name in known if name not in {one[0] for one in SETTINGS}]
    fixed.remove("drives/queue/wbt_lat_usec")
    assert fixed
    for name in fixed:
        with raises(RefusedError, "setting-read-only"):
            driver.set("OST0000", name, "1")


def test_trim_brings_writes_back_to_speed() -> None:
    busy = replace(small_scenario().users, fullness=0.5, daily_writes_bytes=2.0**30)
    left, trimmed = a_driver(users=busy), a_driver(users=busy)
    for driver in (left, trimmed):
        driver.life.pass_by(20 * DAY_S)
    assert np.array_equal(
        left.life.simulation.state.amplification, trimmed.life.simulation.state.amplification
    )
    given = trimmed.trim("OST0001")
    assert isinstance(given, TrimResult)
    assert given.trimmed_bytes > 4e8
    for driver in (left, trimmed):
        driver.life.pass_until(START + timedelta(days=22))
    before = left.life.simulation.state.amplification
    after = trimmed.life.simulation.state.amplification
    assert after[1] < 0.9 * before[1]
    assert np.array_equal(after[[0, 2, 3]], before[[0, 2, 3]])


def test_a_trim_takes_time_and_is_remembered() -> None:
    driver = a_driver()
    began = driver.clock()
    driver.trim("OST0001")
    assert driver.clock() - began == timedelta(seconds=60)
    one, other = driver.trim_practice("OST0001"), driver.trim_practice("OST0000")
    assert not isinstance(one, NotAvailable)
    assert not isinstance(other, NotAvailable)
    assert (one.trimmed_since_mount, other.trimmed_since_mount) == (True, False)
    assert (one.discarded_bytes or 0) > 0 == other.discarded_bytes


def test_ranges_of_a_trim_add_up_to_the_whole() -> None:
    whole = a_driver().trim("OST0000")
    assert isinstance(whole, TrimResult)
    driver, quarter, given = a_driver(), 2**29, 0
    began = driver.clock()
    for part in range(4):
        result = driver.trim("OST0000", part * quarter, quarter)
        assert isinstance(result, TrimResult)
        given += result.trimmed_bytes
    assert given == whole.trimmed_bytes
    assert (driver.clock() - began).total_seconds() == pytest.approx(60.0)


def test_a_closed_target_gets_no_new_bytes_until_it_is_opened() -> None:
    driver = a_driver()
    assert driver.set_creation("OST0002", False) is None
    driver.life.pass_by(3600.0)
    state = driver.life.simulation.state
    assert state.create_enabled.tolist() == [True, True, False, True]
    before = state.client_bytes_written_total.copy()
    driver.life.pass_by(DAY_S)
    written = driver.life.simulation.state.client_bytes_written_total - before
    assert written[2] == 0.0 < written[[0, 1, 3]].min()
    driver.set_creation("OST0002", True)
    driver.life.pass_by(DAY_S)
    assert (driver.life.simulation.state.client_bytes_written_total - before)[2] > 0.0


def test_the_allocator_is_reset() -> None:
    full = replace(small_scenario().users, fullness=0.8, daily_writes_bytes=2.0**30)
    left, reset = a_driver(users=full), a_driver(users=full)
    for driver in (left, reset):
        driver.life.pass_by(20 * DAY_S)
    assert reset.reset_allocator("OST0001") is None
    for driver in (left, reset):
        driver.life.pass_by(DAY_S)
    goals = [driver.life.simulation.miniature for driver in (left, reset)]
    assert goals[0].walks_per_request[1] != goals[1].walks_per_request[1]
    assert goals[0].walks_per_request[3] == goals[1].walks_per_request[3]


def test_targets_of_a_class_are_not_touched_alone() -> None:
    driver = a_driver(resolution=replace(small_scenario().resolution, classes=1))
    for act in (
        lambda: driver.trim("OST0000"),
        lambda: driver.set_creation("OST0000", False),
        lambda: driver.reset_allocator("OST0000"),
        lambda: driver.trim_practice("OST0000"),
    ):
        with raises(RefusedError, "target-not-alone") as refused:
            act()
        assert 'classes = "all"' in str(refused.value.hint)
    answer = driver.set("OST0000", "ldiskfs/md0/mb_c1_threshold", "25")
    assert isinstance(answer, Setting)


def test_mdts_are_not_trimmed_closed_or_reset() -> None:
    driver = a_driver()
    for answer in (
        driver.trim("MDT0000"),
        driver.set_creation("MDT0000", False),
        driver.reset_allocator("MDT0000"),
    ):
        assert isinstance(answer, NotAvailable)


def test_looking_changes_nothing_and_takes_no_time() -> None:
    driver = a_driver()
    first = driver.snapshot(driver.clock())
    driver.targets()
    driver.settings("OST0000")
    assert driver.snapshot(driver.clock()) == first
    assert driver.clock() == START + timedelta(hours=1)


def test_targets_are_added_with_capacity() -> None:
    driver = a_driver()
    driver.life.do("set", key="osts.count", value=6)
    driver.life.pass_by(3600.0)
    targets = driver.targets()
    assert not isinstance(targets, NotAvailable)
    assert [one.name for one in targets if one.kind == "ost"] == [
        f"OST{number:04x}" for number in range(6)
    ]
    driver.guest.make_directory("/twin", ".trimtab-probe-x")
    driver.guest.create("/twin/.trimtab-probe-x/data", first=5, stripe_count=1)
    driver.guest.write({"/twin/.trimtab-probe-x/data": 2.0**20})
    assert driver.guest.targets("/twin/.trimtab-probe-x/data") == ("OST0005",)
    assert driver.life.held["/twin/.trimtab-probe-x"].tolist() == [0, 0, 0, 0, 0, 2**20]
    assert isinstance(driver.trim("OST0005"), TrimResult)


def test_a_path_shows_what_a_client_sees() -> None:
    driver = a_driver()
    path = TwinPath(driver, "/twin")
    snapshot = path.snapshot(path.clock())
    space = driver.guest.space()
    assert snapshot.targets[0].number("capacity_bytes") == space.capacity_bytes
    assert snapshot.targets[0].number("used_bytes") == space.used_bytes
    assert path.settings("/twin")["osc/checksums"]
    for answer in (
        path.set("/twin", "osc/checksums", "0"),
        path.trim("/twin"),
        path.trim_practice("/twin"),
        path.set_creation("/twin", False),
        path.reset_allocator("/twin"),
    ):
        assert isinstance(answer, NotAvailable)
    with raises(UsageError, "path-missing"):
        TwinPath(driver, "/twin/else")
