"""The driver of the twin: what is set and done reaches the simulation, and shows in time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.codes import raises
from tests.support.narrow import instance, present
from tests.support.small_twin import START, small_life, small_scenario

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.snapshot import NotAvailable, Setting, TrimPractice
from trimtab.twin.scenario import Fault
from trimtab.twin.twin_driver import TwinDriver, TwinPath

DAY_S = 86400.0


def a_driver(**changes: Any) -> TwinDriver:
    driver = TwinDriver(small_life(**changes), "/twin")
    driver.life.pass_by(3600.0)
    return driver


@pytest.fixture
def driver() -> TwinDriver:
    return a_driver()


def busy_pair(fullness: float, days: float = 0.0) -> tuple[TwinDriver, TwinDriver]:
    """Return two drivers of one scenario whose users write 1 GiB a day, so many days later."""
    users = replace(small_scenario().users, fullness=fullness, daily_writes_bytes=2.0**30)
    pair = a_driver(users=users), a_driver(users=users)
    both_pass(pair, days)
    return pair


def both_pass(pair: tuple[TwinDriver, TwinDriver], days: float) -> None:
    for driver in pair:
        driver.life.pass_by(days * DAY_S)


SETTINGS = [
    ("OST0002", "ldiskfs/md0/mb_c1_threshold", "35", "25"),
    ("OST0002", "ldiskfs/md0/mb_c2_threshold", "25", "15"),
    ("OST0002", "ldiskfs/md0/mb_c3_threshold", "15", "5"),
    ("OST0002", "drives/queue/wbt_lat_usec", "7000", "2000"),
    ("OST0002", "drives/queue/wbt_lat_usec", "0", "2000"),
    ("OST0002", "mount/options", "rw,discard", "rw"),
    ("OST0002", "osp/max_create_count", "0", "20000"),
    ("MDT0001", "lod/qos_threshold_rr", "5%", "17%"),
    ("MDT0001", "lod/qos_prio_free", "100%", "91%"),
    ("MDT0001", "drives/queue/wbt_lat_usec", "0", "2000"),
]


def shown(driver: TwinDriver, target: str, name: str) -> str:
    return instance(Setting, driver.settings(target)[name]).value


@pytest.mark.parametrize(("target", "name", "value", "default"), SETTINGS)
def test_a_setting_is_set_on_one_target_alone(
    target: str, name: str, value: str, default: str
) -> None:
    driver = a_driver(mdts=replace(small_scenario().mdts, count=2))
    scenario = driver.life.simulation.scenario
    answer = instance(Setting, driver.set(target, name, value))
    assert answer.value == shown(driver, target, name) == value
    kind = target[:3]
    others = [f"{kind}{number:04x}" for number in range(4 if kind == "OST" else 2)]
    others.remove(target)
    assert {shown(driver, other, name) for other in others} == {default}
    assert driver.life.simulation.scenario is scenario
    driver.life.pass_by(DAY_S)
    assert shown(driver, target, name) == value
    driver.set(target, name, default)
    assert shown(driver, target, name) == default


def test_what_was_set_and_taken_back_leaves_no_trace() -> None:
    """Nor does setting what is set already: the same writes, to the last bit."""
    left, touched = pair = busy_pair(0.8)
    for target, name, value, default in SETTINGS:
        if target.startswith("OST"):
            touched.set(target, name, value)
            touched.set(target, name, default)
    both_pass(pair, 10)
    one, other = (driver.life.simulation for driver in (left, touched))
    for name in ("fullness", "amplification", "walks_per_request"):
        assert np.array_equal(one.trace.of(name), other.trace.of(name))
    assert not other.own_settings.scenarios


def could_write(driver: TwinDriver) -> np.ndarray:
    """Return what each OST could write now."""
    simulation = driver.life.simulation
    moment = simulation._moment(simulation.now, (), simulation._shares(), None)
    return simulation._rates.osts(simulation.scenario, moment.terms, from_clients=False).write


def test_throttling_off_speeds_up_that_target_alone() -> None:
    # Spare blocks are few where a drive is full, so that it copies.
    left, off = busy_pair(0.8, days=10)
    off.set("OST0001", "drives/queue/wbt_lat_usec", "0")
    before, after = could_write(left), could_write(off)
    assert after[1] > 1.02 * before[1]
    assert np.array_equal(after[[0, 2, 3]], before[[0, 2, 3]])


def test_a_threshold_reaches_the_allocator_of_that_target_alone() -> None:
    pair = busy_pair(0.82)
    pair[1].set("OST0001", "ldiskfs/md0/mb_c3_threshold", "40")
    both_pass(pair, 20)
    before, after = (driver.life.simulation.miniature.walks_per_request for driver in pair)
    assert after[1] != before[1]
    assert np.array_equal(after[[0, 2, 3]], before[[0, 2, 3]])


def test_discard_hands_over_what_that_target_deletes(driver: TwinDriver) -> None:
    driver.set("OST0003", "mount/options", "rw,discard")
    driver.life.pass_by(2 * DAY_S)
    discarded = driver.life.simulation.state.bytes_discarded_total
    assert discarded[3] > 0.0 == discarded[:3].max()
    assert instance(TrimPractice, driver.trim_practice("OST0003")).mount_option == "discard"


def test_an_mdt_places_its_part_of_the_files_by_its_own_rule() -> None:
    users = replace(small_scenario().users, fullness_spread=0.1)
    both = {
        "users": users,
        "mdts": replace(small_scenario().mdts, count=2),
        "placement": replace(small_scenario().placement, kind="weighted", qos_threshold_rr=1.0),
    }
    shares = []
    for mdts in (0, 1, 2):
        driver = a_driver(**both)
        for number in range(mdts):
            driver.set(f"MDT{number:04x}", "lod/qos_threshold_rr", "0%")
            driver.set(f"MDT{number:04x}", "lod/qos_prio_free", "100%")
        shares.append(driver.life.simulation._shares())
    (none, around), (half, some), (all_, drawn) = shares
    assert np.allclose(half, (none + all_) / 2)
    assert not np.allclose(none, all_)
    assert (around, some, drawn) == (True, False, False)


def test_what_is_set_is_lost_where_the_target_moves() -> None:
    away = Fault(START + timedelta(hours=3), "failover", START + timedelta(hours=6), (1,))
    driver = a_driver(faults=(away,))
    name = "ldiskfs/md0/mb_c2_threshold"
    for target in ("OST0001", "OST0002"):
        driver.set(target, name, "25")
    driver.life.pass_by(3 * 3600.0)
    assert (shown(driver, "OST0001", name), shown(driver, "OST0002", name)) == ("15", "25")
    driver.set("OST0001", name, "25")
    driver.life.pass_by(4 * 3600.0)
    assert (shown(driver, "OST0001", name), shown(driver, "OST0002", name)) == ("15", "25")


def test_what_is_set_for_all_is_set_where_a_target_had_its_own(driver: TwinDriver) -> None:
    name = "ldiskfs/md0/mb_c2_threshold"
    driver.set("OST0001", name, "25")
    driver.set("OST0001", "drives/queue/wbt_lat_usec", "0")
    driver.life.do("set", key="allocator.c2", value=0.15)
    assert shown(driver, "OST0001", name) == "15"
    assert shown(driver, "OST0001", "drives/queue/wbt_lat_usec") == "0"


def test_the_pointer_of_the_allocator_is_shown_and_set_back(driver: TwinDriver) -> None:
    name = "ldiskfs/md0/mb_last_group"
    driver.life.pass_by(5 * DAY_S)
    groups = {target: int(shown(driver, target, name)) for target in ("OST0000", "OST0001")}
    assert max(groups.values()) > 0
    driver.set("OST0000", name, "0")
    driver.set("OST0001", name, "0")
    assert shown(driver, "OST0001", name) == "0"
    driver.life.pass_by(DAY_S)
    assert int(shown(driver, "OST0001", name)) < 16
    with raises(UsageError, "malformed-value"):
        driver.set("OST0000", name, "5")


@pytest.mark.parametrize("value", ["101", "-1", "0.5", "", "%", "\uff11", "ten"])
def test_what_is_no_percentage_is_refused(driver: TwinDriver, value: str) -> None:
    before = driver.life.simulation.scenario
    with pytest.raises(UsageError):
        driver.set("OST0000", "ldiskfs/md0/mb_c1_threshold", value)
    assert driver.life.simulation.scenario is before


def test_what_is_no_latency_is_refused(driver: TwinDriver) -> None:
    for wrong in ("-1", "a", "0.5", "99999999999"):
        with raises(UsageError, "malformed-value"):
            driver.set("OST0000", "drives/queue/wbt_lat_usec", wrong)


def test_what_a_server_shows_and_the_twin_cannot_change_is_refused(driver: TwinDriver) -> None:
    known = driver.settings("OST0000")
    fixed = [name for name in known if name not in {row[1] for row in SETTINGS}]
    fixed.remove("ldiskfs/md0/mb_last_group")
    assert fixed
    for name in fixed:
        with raises(RefusedError, "setting-read-only"):
            driver.set("OST0000", name, "1")


def test_trim_brings_writes_back_to_speed() -> None:
    pair = busy_pair(0.5, days=20)
    before, after = (driver.life.simulation.state.amplification for driver in pair)
    assert np.array_equal(before, after)
    assert instance(int, pair[1].trim("OST0001")) > 4e8
    for driver in pair:
        driver.life.pass_until(START + timedelta(days=22))
    before, after = (driver.life.simulation.state.amplification for driver in pair)
    assert after[1] < 0.9 * before[1]
    assert np.array_equal(after[[0, 2, 3]], before[[0, 2, 3]])


def test_a_trim_takes_time_and_is_remembered(driver: TwinDriver) -> None:
    began = driver.clock()
    driver.trim("OST0001")
    assert driver.clock() - began == timedelta(seconds=60)
    one, other = (
        instance(TrimPractice, driver.trim_practice(target)) for target in ("OST0001", "OST0000")
    )
    assert (one.trimmed_since_mount, other.trimmed_since_mount) == (True, False)
    assert (one.discarded_bytes or 0) > 0 == other.discarded_bytes


def test_ranges_of_a_trim_add_up_to_the_whole() -> None:
    whole = instance(int, a_driver().trim("OST0000"))
    driver, quarter = a_driver(), 2**29
    began = driver.clock()
    given = [instance(int, driver.trim("OST0000", part * quarter, quarter)) for part in range(4)]
    assert sum(given) == whole
    assert (driver.clock() - began).total_seconds() == pytest.approx(60.0)


def test_a_closed_target_gets_no_new_bytes_until_it_is_opened(driver: TwinDriver) -> None:
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
    pair = busy_pair(0.8, days=20)
    assert pair[1].reset_allocator("OST0001") is None
    both_pass(pair, 1)
    before, after = (driver.life.simulation.miniature.walks_per_request for driver in pair)
    assert before[1] != after[1]
    assert before[3] == after[3]


def test_targets_of_a_class_are_not_touched_alone() -> None:
    driver = a_driver(resolution=replace(small_scenario().resolution, classes=1))
    for act in (
        lambda: driver.trim("OST0000"),
        lambda: driver.set_creation("OST0000", False),
        lambda: driver.reset_allocator("OST0000"),
        lambda: driver.trim_practice("OST0000"),
        lambda: driver.set("OST0000", "ldiskfs/md0/mb_c1_threshold", "25"),
    ):
        with raises(RefusedError, "target-not-alone") as refused:
            act()
        assert 'classes = "all"' in str(refused.value.hint)


def test_an_mdt_is_trimmed(driver: TwinDriver) -> None:
    driver.life.pass_by(DAY_S)
    first = instance(int, driver.trim("MDT0000"))
    seen = present(driver.snapshot(driver.clock()).of("MDT0000"))
    assert first == seen.number("available_bytes") == seen.number("bytes_discarded_total")
    assert seen.value("last_trim_at") == (START + timedelta(hours=25)).isoformat()
    practice = instance(TrimPractice, driver.trim_practice("MDT0000"))
    assert (practice.trimmed_since_mount, practice.has_mechanism) == (True, False)
    assert instance(int, driver.trim("MDT0000")) == 0
    driver.life.pass_by(DAY_S)
    assert 0 < instance(int, driver.trim("MDT0000")) < first


def test_mdts_are_not_closed_or_reset(driver: TwinDriver) -> None:
    for answer in (driver.set_creation("MDT0000", False), driver.reset_allocator("MDT0000")):
        assert isinstance(answer, NotAvailable)


def test_looking_changes_nothing_and_takes_no_time(driver: TwinDriver) -> None:
    first = driver.snapshot(driver.clock())
    driver.targets()
    driver.settings("OST0000")
    assert driver.snapshot(driver.clock()) == first
    assert driver.clock() == START + timedelta(hours=1)


def test_targets_are_added_with_capacity(driver: TwinDriver) -> None:
    driver.life.do("set", key="osts.count", value=6)
    driver.life.pass_by(3600.0)
    names = [one.name for one in instance(tuple, driver.targets()) if one.kind == "ost"]
    assert names == [f"OST{number:04x}" for number in range(6)]
    driver.guest.make_directory("/twin", ".trimtab-probe-x")
    driver.guest.create("/twin/.trimtab-probe-x/data", first=5, stripe_count=1)
    driver.guest.write({"/twin/.trimtab-probe-x/data": 2.0**20})
    assert driver.guest.targets("/twin/.trimtab-probe-x/data") == ("OST0005",)
    assert driver.life.held["/twin/.trimtab-probe-x"].tolist() == [0, 0, 0, 0, 0, 2**20]
    assert isinstance(driver.trim("OST0005"), int)


def test_a_path_shows_what_a_client_sees(driver: TwinDriver) -> None:
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
