"""Changing a Lustre: what is done, put back, and told when something goes wrong in the midst."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.narrow import instance, present

from trimtab.drivers.lustre.driver import LustreDriver
from trimtab.drivers.lustre.writing import Result, Writer
from trimtab.drivers.outcomes import outcome_of
from trimtab.drivers.protocol import TrimResult
from trimtab.errors import RefusedError, ToolError, TrimtabError, UsageError
from trimtab.message import code_of
from trimtab.model.action import Outcome
from trimtab.model.site import Servers
from trimtab.model.telemetry import NotAvailable, Setting

AT = datetime(2026, 11, 20, 3, 4, 5, tzinfo=UTC)
GIB = 2**30
OST = "OST0003"
SET = "lctl set_param"
EINVAL = "error: set_param: setting /sys/fs/lustre/x=1: Invalid argument\n"
"""As in params/set_bad."""


@dataclass
class World:
    """A fake Lustre, and a driver that may change it."""

    fake: FakeLustre
    driver: LustreDriver

    @property
    def counts(self) -> list[int]:
        """max_create_count of the OST on each MDT."""
        counts = self.fake.target(OST).max_create_count
        return [counts.get(mdt.name, 20000) for mdt in self.fake.mdts]

    def writes(self) -> list[str]:
        """What was written, as the servers logged it."""
        lines = [line for server in self.fake.servers for line in server.log]
        return [line for line in lines if ": begun " in line]


def a_world(
    *, token: int = 5, fake: FakeLustre | None = None, sudo: bool = False, **more: Any
) -> World:
    fake = fake or FakeLustre.pair()
    servers = Servers(oss=tuple(server.name for server in fake.servers), sudo=sudo)
    dead_man_s = more.pop("dead_man_s", None)
    writer = Writer(servers, fake.file_system, token, "ops@login1", dead_man_s, fake.fan_out)
    driver = LustreDriver(
        *("/scratch", fake.file_system, servers),
        execute=fake.execute,
        fan_out=fake.fan_out,
        clock=lambda: AT,
        writer=writer,
        **more,
    )
    driver.snapshot(AT)
    return World(fake, driver)


def attempt(call: Callable[[], object]) -> object:
    """Return what a call returned, or the error that it raised."""
    try:
        return call()
    except TrimtabError as error:
        return error


def code(answer: object) -> str | None:
    return (
        code_of(answer.reason)
        if isinstance(answer, NotAvailable)
        else getattr(answer, "code", None)
    )


# Rights


def test_a_driver_that_was_opened_for_reading_cannot_write() -> None:
    world = a_world()
    servers = Servers(oss=tuple(server.name for server in world.fake.servers))
    reading = LustreDriver(
        "/scratch", "scratch", servers, execute=world.fake.execute, fan_out=world.fake.fan_out
    )
    assert not reading.capabilities & {"set", "trim", "creation", "allocator-reset"}
    with pytest.raises(RefusedError) as error:
        reading.set("MDT0000", "lod/qos_prio_free", "80")
    assert error.value.code == "driver-read-only"
    for answer in (
        *(reading.trim(OST), reading.trim_ranges(OST)),
        *(reading.set_creation(OST, False), reading.reset_allocator(OST)),
    ):
        assert code(answer) == "driver-read-only"
    assert world.writes() == []


@pytest.mark.parametrize(
    ("euid", "sudo", "sudoers", "able"),
    [(0, False, False, True), (1000, True, True, True), (1000, True, False, True),
     (1000, False, True, False)],
)  # fmt: skip
def test_writing_needs_root_or_sudo(euid: int, sudo: bool, sudoers: bool, able: bool) -> None:
    fake = FakeLustre.pair()
    for server in fake.servers:
        server.euid, server.sudoers = euid, sudoers
    world = a_world(fake=fake, sudo=sudo)
    assert ("set" in world.driver.capabilities) is able
    calls: list[Callable[[], object]] = [
        lambda: world.driver.set("MDT0000", "lod/qos_prio_free", "80"),
        lambda: world.driver.set(OST, "drives/queue/nr_requests", "64"),
        lambda: world.driver.set_creation(OST, False),
        lambda: world.driver.trim(OST),
    ]
    answers = [attempt(call) for call in calls]
    if euid == 0 or (sudo and sudoers):
        assert not any(isinstance(answer, (NotAvailable, TrimtabError)) for answer in answers)
        return
    for answer in answers:
        assert isinstance(answer, RefusedError), answer
        assert answer.code == "permission-denied"
        assert outcome_of(answer)[0] is Outcome.REFUSED
    assert world.counts == [20000, 20000]


def test_a_later_token_ends_an_earlier_holder() -> None:
    first = a_world(token=5)
    second = a_world(token=6, fake=first.fake)
    assert isinstance(first.driver.set("MDT0000", "lod/qos_prio_free", "80"), Setting)
    assert isinstance(second.driver.set("MDT0000", "lod/qos_prio_free", "70"), NotAvailable)
    second.driver.snapshot(AT)
    assert isinstance(second.driver.set("MDT0000", "lod/qos_prio_free", "70"), Setting)
    answer = attempt(lambda: first.driver.set("MDT0000", "lod/qos_prio_free", "60"))
    assert isinstance(answer, RefusedError)
    assert answer.code == "fenced"
    # A server that the second has not reached yet still believes the first.
    assert isinstance(first.driver.set(OST, "obdfilter/no_create", "1"), Setting)


# Settings


@pytest.mark.parametrize(
    ("target", "name", "value", "reads"),
    [
        ("MDT0000", "lod/qos_prio_free", "80", "80%"),
        ("MDT0001", "lod/qos_threshold_rr", "5%", "5%"),
        (OST, "osp/max_create_count", "5000", "5000"),
        (OST, "obdfilter/no_create", "1", "1"),
        (OST, "drives/queue/wbt_lat_usec", "0", "0"),
        (OST, "drives/queue/scheduler", "mq-deadline", "mq-deadline"),
    ],
)
def test_a_setting_is_written_wherever_it_is_one(
    target: str, name: str, value: str, reads: str
) -> None:
    world = a_world()
    before = instance(Setting, world.driver.settings(target)[name])
    answer = instance(Setting, world.driver.set(target, name, value))
    assert (answer.value, answer.source) == (reads, before.source)
    assert world.driver.settings(target)[name] == answer
    world.driver.snapshot(AT)
    assert world.driver.settings(target)[name] == answer
    # And back, without another look at the servers.
    calls = world.fake.calls
    back = instance(Setting, world.driver.set(target, name, before.value))
    assert back.value == before.value
    assert world.fake.calls > calls


def test_ldiskfs_of_old_kernels_has_thresholds() -> None:
    world = a_world(fake=FakeLustre.pair(allocator="loops"))
    device = world.fake.target(OST).device
    for name, value in (
        (f"ldiskfs/{device}/mb_c1_threshold", "40"),
        (f"ldiskfs/{device}/mb_max_to_scan", "400"),
        (f"ldiskfs/{device}/prealloc_table", "256 512 1024"),
    ):
        assert instance(Setting, world.driver.set(OST, name, value)).value == value
    answer = attempt(lambda: world.driver.set(OST, f"ldiskfs/{device}/prealloc_table", "abc"))
    assert isinstance(answer, UsageError)
    new = a_world()
    with pytest.raises(UsageError) as error:
        new.driver.set(OST, f"ldiskfs/{device}/mb_c1_threshold", "40")
    assert error.value.code == "setting-unknown"


@pytest.mark.parametrize("value", ["off", "-1", "1 2", "30000", "", "0;reboot", "$(id)", "0\n"])
def test_values_outside_of_the_table_reach_no_server(value: str) -> None:
    world = a_world()
    calls = world.fake.calls
    names = {"MDT0000": "lod/qos_prio_free", OST: "osp/max_create_count"}
    for target, name in names.items():
        with pytest.raises(UsageError):
            world.driver.set(target, name, value)
    with pytest.raises(RefusedError):
        world.driver.set(OST, "osp/active", value)
    with pytest.raises(RefusedError):
        world.driver.set(OST, "drives/queue/discard_max_bytes", value)
    assert world.fake.calls == calls
    assert world.writes() == []


def test_what_somebody_else_changed_meanwhile_is_left() -> None:
    world = a_world()
    world.fake.lctl("mds1", ["set_param", "lod.scratch-MDT0000-mdtlov.qos_prio_free=55"])
    answer = world.driver.set("MDT0000", "lod/qos_prio_free", "80")
    assert code(answer) == "changed-by-others"
    assert outcome_of(answer)[0] is Outcome.CHANGED
    assert world.writes() == []


def test_a_client_is_set_too_and_no_mdt_with_it() -> None:
    fake = FakeLustre.small()
    (host,) = (server.name for server in fake.servers)
    servers = Servers(clients=(host,))
    writer = Writer(servers, fake.file_system, 5, "ops", fan_out=fake.fan_out)
    driver = LustreDriver(
        *("/scratch", fake.file_system, servers),
        execute=fake.execute,
        fan_out=fake.fan_out,
        writer=writer,
    )
    for name, value in (
        ("rpcs_in_flight", "64"),
        ("checksum_type", "adler"),
        ("read_ahead_mb", "512"),
    ):
        assert instance(Setting, driver.set(host, name, value)).value == value
    counts = fake.lctl(host, ["get_param", "osc.*.max_rpcs_in_flight"]).stdout.split()
    assert [line.endswith("=64") for line in counts] == ["-MDT" not in line for line in counts]
    assert sum(line.endswith("=64") for line in counts) == len(fake.osts)
    for name, value in (("checksums", "0"), ("llite_checksums", "0")):
        with pytest.raises(UsageError):
            driver.set(host, name, value)
    with pytest.raises(RefusedError):
        driver.set(host, "kernel_release", "1")


# What goes wrong, as recorded


@pytest.mark.parametrize(
    ("fault", "outcome", "expected"),
    [
        # params/set_bad: EINVAL; ERANGE of max_create_count
        (Fault("refuse", SET, code=22, text=EINVAL), Outcome.REFUSED, "setting-value-refused"),
        (
            Fault("refuse", SET, code=34, text="error: x: Numerical result out of range\n"),
            Outcome.REFUSED,
            "setting-value-refused",
        ),
        # params/set_ro, discard/14
        (
            Fault("refuse", SET, code=13, text="error: opening 'x': Permission denied\n"),
            Outcome.REFUSED,
            "permission-denied",
        ),
        # create_gating/50_qos: qos_maxage is echoed, and not stored
        (Fault("swallow", SET), Outcome.NOT_STORED, "setting-not-kept"),
        (Fault("hang", SET), Outcome.UNKNOWN, "write-hangs"),
        (Fault("die", SET), Outcome.UNKNOWN, "answer-cut"),
        (Fault("hang", "ssh"), Outcome.UNKNOWN, "answer-cut"),
        (Fault("half", "ssh", lines=2), Outcome.UNKNOWN, "answer-cut"),
        (Fault("garbage", "ssh"), Outcome.UNKNOWN, "answer-cut"),
        # params/get_missing
        (
            Fault(
                "refuse",
                "lctl get_param",
                after_calls=1,
                code=2,
                text="error: get_param: param_path 'x': No such file or directory\n",
            ),
            Outcome.SKIPPED,
            "setting-missing",
        ),
        (Fault("hang", "lctl get_param"), Outcome.SKIPPED, "recovery-unknown"),
    ],
)
def test_failures_of_a_parameter(fault: Fault, outcome: Outcome, expected: str) -> None:
    world = a_world()
    world.fake.faults.append(fault)
    answer = attempt(lambda: world.driver.set("MDT0000", "lod/qos_prio_free", "80"))
    assert (outcome_of(answer)[0], code(answer)) == (outcome, expected), answer


@pytest.mark.parametrize(
    ("fault", "outcome", "expected"),
    [
        (Fault("refuse", "write", code=errno.EINVAL), Outcome.REFUSED, "setting-value-refused"),
        (Fault("refuse", "write", code=errno.EROFS), Outcome.REFUSED, "target-read-only"),
        (Fault("refuse", "write", code=errno.EACCES), Outcome.REFUSED, "permission-denied"),
        (Fault("swallow", "write"), Outcome.NOT_STORED, "setting-not-kept"),
        (Fault("hang", "write"), Outcome.UNKNOWN, "write-hangs"),
        (Fault("die", "write"), Outcome.UNKNOWN, "answer-cut"),
    ],
)
def test_failures_of_a_file(fault: Fault, outcome: Outcome, expected: str) -> None:
    world = a_world()
    device = world.fake.target(OST).device
    world.fake.faults.append(fault)
    answer = attempt(lambda: world.driver.set(OST, f"ldiskfs/{device}/mb_max_to_scan", "300"))
    assert (outcome_of(answer)[0], code(answer)) == (outcome, expected), answer


def test_qos_maxage_is_echoed_and_not_stored() -> None:
    answer = attempt(lambda: a_world().driver.set("MDT0000", "lod/qos_maxage", "6"))
    assert isinstance(answer, ToolError)
    assert outcome_of(answer)[0] is Outcome.NOT_STORED


def test_a_server_that_is_gone_was_not_written_to() -> None:
    world = a_world()
    world.fake.kill_server(world.fake.target("MDT0000").server)
    answer = world.driver.set("MDT0000", "lod/qos_prio_free", "80")
    assert (outcome_of(answer)[0], code(answer)) == (Outcome.UNREACHABLE, "server-unreachable")


def test_a_target_that_failed_over_since_is_not_looked_for_elsewhere() -> None:
    world = a_world()
    world.fake.fail_over(OST)
    for call in (
        lambda: world.driver.set(OST, "obdfilter/no_create", "1"),
        lambda: world.driver.trim(OST),
        lambda: world.driver.reset_allocator(OST),
    ):
        answer = call()
        assert (outcome_of(answer)[0], code(answer)) == (Outcome.SKIPPED, "target-not-here")
    world.driver.snapshot(AT)
    assert isinstance(world.driver.set(OST, "obdfilter/no_create", "1"), Setting)


def test_nothing_is_changed_during_recovery() -> None:
    world = a_world()
    world.fake.target(OST).recovery = "RECOVERING"
    for answer in (
        world.driver.set(OST, "drives/queue/nr_requests", "64"),
        world.driver.trim(OST),
        world.driver.reset_allocator(OST),
    ):
        assert code(answer) == "in-recovery"
    world.fake.target("MDT0001").recovery = "WAITING_FOR_CLIENTS"
    assert code(world.driver.set_creation(OST, False)) == "in-recovery"
    assert world.counts == [20000, 20000]
    assert len(world.writes()) == 2  # MDT0000: closed and put back


def test_when_a_drive_fails_those_before_are_put_back() -> None:
    world = a_world()
    before = instance(Setting, world.driver.settings(OST)["drives/queue/nr_requests"])
    drives = len(world.fake.target(OST).drives)
    last = Fault("refuse", "write", after_calls=drives - 1, times=1, code=errno.EINVAL)
    world.fake.faults.append(last)
    answer = attempt(lambda: world.driver.set(OST, "drives/queue/nr_requests", "64"))
    assert isinstance(answer, UsageError)
    world.fake.faults.clear()
    world.driver.snapshot(AT)
    assert world.driver.settings(OST)["drives/queue/nr_requests"] == before
    assert len(world.writes()) == drives + (drives - 1)


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
    answer = instance(TrimResult, world.driver.trim(OST, 0, 2 * GIB))
    assert answer == TrimResult(OST, 0, 2 * GIB, 2 * GIB)
    world.fake.fail_over(OST)
    world.driver.snapshot(AT)
    assert instance(TrimResult, world.driver.trim(OST)).trimmed_bytes == 3 * GIB


def test_trim_in_ranges_names_where_to_go_on() -> None:
    world = a_world()
    world.fake.target(OST).untrimmed_bytes = 5 * GIB
    capacity = world.fake.target(OST).capacity_bytes
    whole = instance(Result, world.driver.trim_ranges(OST, range_bytes=capacity // 4 + 512))
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
    assert [result.detail.code for result in world.driver.confirm()] == ["nothing-pending"] * 2


def test_what_is_confirmed_stays() -> None:
    world = a_world(dead_man_s=60.0)
    assert world.driver.set_creation(OST, False) is None
    setting = instance(Setting, world.driver.set("MDT0000", "lod/qos_prio_free", "80"))
    results = world.driver.confirm()
    assert [result.outcome for result in results] == [Outcome.DONE] * 3
    assert world.driver.confirm() == ()
    world.fake.pass_time(500)
    assert world.counts == [0, 0]
    world.driver.snapshot(AT)
    assert world.driver.settings("MDT0000")["lod/qos_prio_free"] == setting


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
