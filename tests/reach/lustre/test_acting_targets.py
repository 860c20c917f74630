"""Closing, opening, trimming and resetting targets of a Lustre, and the way back by itself."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.lustre.changing import AT, EINVAL, GIB, OST, SET, a_world, attempt, code
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.action import Outcome
from trimtab.base.error import ToolError
from trimtab.base.snapshot import Setting
from trimtab.reach.driver_protocol import outcome_of
from trimtab.reach.lustre.server_write import InstructionResult

# Creation


def test_an_ost_is_closed_on_every_mdt_and_opened_as_it_was() -> None:
    world = a_world()
    world.fake.target(OST).max_create_count = {"MDT0001": 5000}
    world.driver.snapshot(AT)
    assert world.driver.set_creation(OST, False) is None
    assert world.counts == [0, 0]
    assert world.driver.set_creation(OST, False) is None  # again: nothing is written
    assert len(world.writes()) == 2
    assert world.driver.set_creation(OST, True) is None
    assert world.counts == [20000, 5000]
    assert not any(".before." in name for s in world.fake.servers for name in s.kept)
    assert world.driver.set_creation(OST, True) is None
    assert len(world.writes()) == 4


def test_the_value_of_before_is_the_latest_one() -> None:
    world = a_world()
    world.fake.target(OST).max_create_count = {"MDT0000": 5000, "MDT0001": 5000}
    world.driver.snapshot(AT)
    world.driver.set_creation(OST, False)
    # The MDT moves: it begins with 20000 there, and with what it kept here when it comes back.
    world.fake.fail_over("MDT0000")
    world.fake.fail_over("MDT0000")
    world.driver.snapshot(AT)
    assert world.counts == [20000, 0]
    world.driver.set_creation(OST, False)
    world.driver.set_creation(OST, True)
    assert world.counts == [20000, 5000]


def test_an_mdt_that_is_not_seen_keeps_an_ost_open() -> None:
    world = a_world()
    world.fake.kill_server(world.fake.target("MDT0001").server)
    world.driver.snapshot(AT)
    answer = world.driver.set_creation(OST, False)
    assert code(answer) == "mdt-not-seen"
    assert world.counts == [20000, 20000]
    assert world.writes() == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("refuse", SET, code=22, text=EINVAL),
        Fault("swallow", SET),
        Fault("refuse", "lctl get_param", code=2, text="error: No such file or directory\n"),
    ],
)
def test_what_was_closed_is_opened_when_another_mdt_cannot_be(fault: Fault) -> None:
    world = a_world()
    fault.host = world.fake.target("MDT0001").server
    world.fake.faults.append(fault)
    answer = attempt(lambda: world.driver.set_creation(OST, False))
    assert outcome_of(answer)[0] is not Outcome.DONE
    assert world.counts == [20000, 20000]


def test_what_cannot_be_put_back_is_named() -> None:
    world = a_world()
    first, second = (world.fake.target(mdt).server for mdt in ("MDT0000", "MDT0001"))
    world.fake.faults += [
        Fault("refuse", SET, host=second, code=22, text=EINVAL),
        Fault("refuse", SET, host=first, after_calls=1, code=22, text=EINVAL),
    ]
    answer = attempt(lambda: world.driver.set_creation(OST, False))
    assert isinstance(answer, ToolError)
    assert answer.code == "partly-written"
    assert f"osp.scratch-{OST}-osc-MDT0000.max_create_count on {first}" in answer.message
    assert world.counts == [0, 20000]
    # It is known what it was: opening brings it back.
    world.fake.faults.clear()
    world.driver.snapshot(AT)
    assert world.driver.set_creation(OST, True) is None
    assert world.counts == [20000, 20000]


def test_opening_goes_on_where_one_mdt_fails() -> None:
    world = a_world()
    assert world.driver.set_creation(OST, False) is None
    host = world.fake.target("MDT0000").server
    world.fake.faults.append(Fault("refuse", SET, host=host, code=22, text=EINVAL))
    answer = attempt(lambda: world.driver.set_creation(OST, True))
    assert isinstance(answer, ToolError)
    assert answer.code == "partly-written"
    assert world.counts == [0, 20000]


def test_no_create_is_the_other_way() -> None:
    world = a_world(mechanism="no_create")
    assert world.driver.set_creation(OST, False) is None
    assert (world.fake.target(OST).no_create, world.counts) == (True, [20000, 20000])
    world.driver.snapshot(AT)
    assert world.driver.set_creation(OST, True) is None
    assert not world.fake.target(OST).no_create
    old = a_world(fake=FakeLustre.pair(lustre_version="2.15.5"), mechanism="no_create")
    assert old.driver.set_creation(OST, False) is None
    assert old.fake.target(OST).no_create
    assert any("no_precreate" in line for line in old.writes())


def test_only_osts_are_closed() -> None:
    assert code(a_world().driver.set_creation("MDT0000", False)) == "not-supported"


# Trim, and the allocator


def test_trim_is_sent_to_the_server_that_has_the_target() -> None:
    world = a_world()
    world.fake.target(OST).untrimmed_bytes = 5 * GIB
    assert world.driver.trim(OST, 0, 2 * GIB) == 2 * GIB
    world.fake.fail_over(OST)
    world.driver.snapshot(AT)
    assert world.driver.trim(OST) == 3 * GIB


def test_trim_in_ranges_names_where_to_go_on() -> None:
    world = a_world()
    world.fake.target(OST).untrimmed_bytes = 5 * GIB
    capacity = world.fake.target(OST).capacity_bytes
    whole = instance(
        InstructionResult, world.driver.trim_ranges(OST, range_bytes=capacity // 4 + 512)
    )
    assert whole.next_start is None
    assert len(whole.ranges) == 4
    assert int(whole.found or 0) == 5 * GIB
    world.fake.target(OST).untrimmed_bytes = 5 * GIB
    world.fake.faults.append(Fault("hang", "fstrim", after_calls=2))
    answer = attempt(lambda: world.driver.trim_ranges(OST, range_bytes=GIB))
    assert isinstance(answer, ToolError)
    assert outcome_of(answer)[0] is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("change", "outcome", "expected"),
    [
        ({"aborted": True}, Outcome.SKIPPED, "target-has-errors"),  # readonly_target/fstrim
        ({"errors_count": 3}, Outcome.SKIPPED, "target-has-errors"),
        ({"discard_granularity": 0}, Outcome.SKIPPED, "discard-unsupported"),
        ({"osd": "zfs"}, Outcome.SKIPPED, "zfs"),
        ({"mount_options": "ro"}, Outcome.SKIPPED, "target-read-only"),
        ({"up": False}, Outcome.SKIPPED, "target-not-served"),
    ],
)
def test_targets_that_are_not_trimmed(
    change: dict[str, Any], outcome: Outcome, expected: str
) -> None:
    fake = FakeLustre.pair()
    for name, value in change.items():
        setattr(fake.target(OST), name, value)
    answer = a_world(fake=fake).driver.trim(OST)
    assert (outcome_of(answer)[0], code(answer)) == (outcome, expected), answer


def test_an_unmounted_target_does_not_trim_the_root() -> None:
    world = a_world()
    world.fake.target(OST).up = False
    assert code(world.driver.trim(OST)) == "target-not-here"
    assert not any("fstrim" in line for line in world.writes())


def test_the_allocators_goal_is_reset() -> None:
    world = a_world()
    target = world.fake.target(OST)
    target.mb_last_group = 17
    world.driver.snapshot(AT)
    assert world.driver.reset_allocator(OST) is None
    assert target.mb_last_group == 0
    target.mb_last_group = 4  # it moves by itself: not somebody else's change
    assert world.driver.reset_allocator(OST) is None
    zfs = FakeLustre.pair()
    zfs.target(OST).osd = "zfs"
    assert code(a_world(fake=zfs).driver.reset_allocator(OST)) == "not-supported"


# The way back by itself


def test_what_is_not_confirmed_is_put_back() -> None:
    world = a_world(dead_man_s=60.0)
    assert world.driver.set_creation(OST, False) is None
    world.fake.pass_time(50)
    assert world.counts == [0, 0]
    world.fake.pass_time(20)
    assert world.counts == [20000, 20000]
    with raises(ToolError, "setting-not-kept"):
        world.driver.confirm()
    world.driver.confirm()  # there is nothing left to confirm


def test_what_is_confirmed_stays() -> None:
    world = a_world(dead_man_s=60.0)
    assert world.driver.set_creation(OST, False) is None
    setting = instance(Setting, world.driver.set("MDT0000", "lod/qos_prio_free", "80"))
    world.driver.confirm()
    world.fake.pass_time(500)
    assert world.counts == [0, 0]
    world.driver.snapshot(AT)
    assert world.driver.settings("MDT0000")["lod/qos_prio_free"] == setting


def test_a_value_of_before_that_is_never_written_is_not_put_back() -> None:
    world = a_world(fake=FakeLustre.pair(allocator="loops"), dead_man_s=60.0)
    device = world.fake.target(OST).device
    server = world.fake.server(world.fake.target(OST).server)
    path = f"/proc/fs/ldiskfs/{device}/prealloc_table"
    server.files[path] = "\n"  # emptied, as in mballoc/41_prealloc_bad
    world.driver.snapshot(AT)
    name = f"ldiskfs/{device}/prealloc_table"
    assert instance(Setting, world.driver.set(OST, name, "256 512")).value == "256 512"
    world.driver.confirm()
    world.fake.pass_time(100)
    assert server.files[path] == "256 512 \n"


def test_a_server_that_dies_before_the_answer_puts_back_what_it_wrote() -> None:
    world = a_world(dead_man_s=60.0)
    world.fake.faults.append(Fault("half", "ssh", lines=2, times=1, after_calls=0))
    answer = attempt(lambda: world.driver.set("MDT0000", "lod/qos_prio_free", "80"))
    assert outcome_of(answer)[0] in {Outcome.UNKNOWN}
    world.fake.faults.clear()
    world.fake.pass_time(61)
    world.driver.snapshot(AT)
    setting = instance(Setting, world.driver.settings("MDT0000")["lod/qos_prio_free"])
    assert setting.value == "90%"


def test_a_server_that_cannot_be_told_puts_back_what_was_changed() -> None:
    world = a_world(dead_man_s=60.0)
    assert isinstance(world.driver.set("MDT0000", "lod/qos_prio_free", "80"), Setting)
    world.fake.faults.append(Fault("hang", "ssh"))
    with raises(ToolError, "not-confirmed"):
        world.driver.confirm()
    world.fake.faults.clear()
    world.fake.pass_time(61)
    world.driver.snapshot(AT)
    setting = instance(Setting, world.driver.settings("MDT0000")["lod/qos_prio_free"])
    assert setting.value == "90%"


def test_every_write_stands_in_the_servers_log() -> None:
    world = a_world()
    world.driver.set("MDT0000", "lod/qos_prio_free", "80")
    log = world.fake.server(world.fake.target("MDT0000").server).log
    name = "lod.scratch-MDT0000-mdtlov.qos_prio_free"
    assert log == [
        f"scratch token 5 ops@login1: begun {name} 90% -> 80",
        f"scratch token 5 ops@login1: done {name} 90% -> 80",
    ]


def test_present_readings_follow() -> None:
    world = a_world()
    world.driver.set_creation(OST, False)
    snapshot = present(world.driver.snapshot(AT).of(OST))
    assert present(snapshot.reading("create_enabled")).value is False
    assert os.strerror(errno.EINVAL) in EINVAL
