"""Changing a Lustre: what is written, put back, and said when something goes wrong meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.fake_lustre.driver import driver_of, servers_of
from tests.fake_lustre.state import FakeLustre, FakeTarget, Fault
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.action import Outcome
from trimtab.base.error import RefusedError, ToolError, TrimtabError, UsageError, code_of
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.driver_protocol import outcome_of
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_write import InstructionResult, ServerWriter

AT = datetime(2026, 11, 20, 3, 4, 5, tzinfo=UTC)
GIB = 2**30
OST = "OST0003"
QOS = ("MDT0000", "lod/qos_prio_free")
"""A setting of an MDT, 90% at first."""
DRIVES = (OST, "drives/queue/nr_requests")
SET = "lctl set_param"
EINVAL = "error: set_param: setting /sys/fs/lustre/x=1: Invalid argument\n"
"""As in params/set_bad."""
REFUSED = Outcome.REFUSED


@dataclass
class World:
    """A fake Lustre, and a driver that may change it."""

    fake: FakeLustre
    driver: LustreDriver

    @property
    def ost(self) -> FakeTarget:
        """The OST that is changed."""
        return self.fake.target(OST)

    @property
    def counts(self) -> list[int]:
        """max_create_count of the OST on each MDT."""
        return [self.ost.max_create_count.get(mdt.name, 20000) for mdt in self.fake.mdts]

    def server_of(self, target: str) -> str:
        """Return who serves a target."""
        return self.fake.target(target).server

    def writes(self) -> list[str]:
        """What was written, as the servers logged it."""
        lines = [line for server in self.fake.servers for line in server.log]
        return [line for line in lines if ": begun " in line]

    def setting(self, target: str, name: str) -> Setting:
        """Return a setting as the driver knows it."""
        return instance(Setting, self.driver.settings(target)[name])

    def set(self, target: str, name: str, value: str) -> Setting:
        """Change a setting, and return it as it is then."""
        return instance(Setting, self.driver.set(target, name, value))

    def create(self, enabled: bool) -> None:
        """Close the OST to new objects, or open it."""
        assert self.driver.set_creation(OST, enabled) is None


def a_world(
    fake: FakeLustre | None = None,
    *,
    token: int = 5,
    sudo: bool = False,
    clients: str = "",
    dead_man_s: float | None = None,
    **more: Any,
) -> World:
    """Return a world that was looked at once; with ``clients`` no server is in it."""
    fake = fake or FakeLustre.pair()
    servers = Servers(clients=(clients,)) if clients else servers_of(fake, sudo=sudo)
    writer = ServerWriter(servers, fake.file_system, token, "ops@login1", dead_man_s, fake.fan_out)
    world = World(fake, driver_of(fake, servers, clock=lambda: AT, writer=writer, **more))
    world.driver.snapshot(AT)
    return world


def attempt(call: Callable[..., object], *words: object, **more: object) -> object:
    """Return what a call returned, or the error that it raised."""
    try:
        return call(*words, **more)
    except TrimtabError as error:
        return error


def code(answer: object) -> str | None:
    """Return the code of an error, or of the reason why something is not available."""
    if isinstance(answer, NotAvailable):
        return code_of(answer.reason)
    return getattr(answer, "code", None)


def ended(answer: object) -> tuple[Outcome, str | None]:
    """Return what became of a change, and the code that says why."""
    return outcome_of(answer)[0], code(answer)


# Rights


def test_a_driver_that_was_opened_for_reading_cannot_write() -> None:
    world = a_world()
    reading = driver_of(world.fake)
    assert not reading.capabilities & {"set", "trim", "creation", "allocator-reset"}
    for answer in (
        *(attempt(reading.set, *QOS, "80"), reading.trim(OST), reading.trim_ranges(OST)),
        *(reading.set_creation(OST, False), reading.reset_allocator(OST)),
    ):
        assert code(answer) == "driver-read-only"
    assert world.writes() == []


@pytest.mark.parametrize(
    ("euid", "sudo", "sudoers", "able", "done"),
    [
        (0, False, False, True, True),
        (1000, True, True, True, True),
        (1000, True, False, True, False),
        (1000, False, True, False, False),
    ],
)
def test_writing_needs_root_or_sudo(
    euid: int, sudo: bool, sudoers: bool, able: bool, done: bool
) -> None:
    fake = FakeLustre.pair()
    for server in fake.servers:
        server.euid, server.sudoers = euid, sudoers
    world = a_world(fake, sudo=sudo)
    assert ("set" in world.driver.capabilities) is able
    for answer in (
        *(attempt(world.driver.set, *QOS, "80"), attempt(world.driver.set, *DRIVES, "64")),
        *(attempt(world.driver.set_creation, OST, False), attempt(world.driver.trim, OST)),
    ):
        assert isinstance(answer, (NotAvailable, TrimtabError)) is not done, answer
        assert done or ended(answer) == (Outcome.REFUSED, "permission-denied")
    assert world.counts == ([0, 0] if done else [20000, 20000])


def test_a_later_token_ends_an_earlier_holder() -> None:
    first = a_world(token=5)
    second = a_world(first.fake, token=6)
    assert isinstance(first.driver.set(*QOS, "80"), Setting)
    assert isinstance(second.driver.set(*QOS, "70"), NotAvailable)
    second.driver.snapshot(AT)
    assert isinstance(second.driver.set(*QOS, "70"), Setting)
    answer = attempt(first.driver.set, *QOS, "60")
    assert isinstance(answer, RefusedError)
    assert answer.code == "fenced"
    # A server that the second has not reached yet still believes the first.
    assert isinstance(first.driver.set(OST, "obdfilter/no_create", "1"), Setting)


# Settings


@pytest.mark.parametrize(
    ("target", "name", "value", "reads"),
    [
        (*QOS, "80", "80%"),
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
    before = world.setting(target, name)
    answer = world.set(target, name, value)
    assert (answer.value, answer.source) == (reads, before.source)
    assert world.setting(target, name) == answer
    world.driver.snapshot(AT)
    assert world.setting(target, name) == answer
    # And back, without another look at the servers.
    calls = world.fake.calls
    back = world.set(target, name, before.value)
    assert back.value == before.value
    assert world.fake.calls > calls


def test_ldiskfs_of_old_kernels_has_thresholds() -> None:
    world = a_world(FakeLustre.pair(allocator="loops"))
    device = world.ost.device
    for name, value in (
        (f"ldiskfs/{device}/mb_c1_threshold", "40"),
        (f"ldiskfs/{device}/mb_max_to_scan", "400"),
        (f"ldiskfs/{device}/prealloc_table", "256 512 1024"),
    ):
        assert world.set(OST, name, value).value == value
    answer = attempt(world.driver.set, OST, f"ldiskfs/{device}/prealloc_table", "abc")
    assert isinstance(answer, UsageError)
    new = a_world()
    with pytest.raises(UsageError) as error:
        new.driver.set(OST, f"ldiskfs/{device}/mb_c1_threshold", "40")
    assert error.value.code == "setting-unknown"


@pytest.mark.parametrize("value", ["off", "-1", "1 2", "30000", "", "0;reboot", "$(id)", "0\n"])
def test_values_outside_of_the_table_reach_no_server(value: str) -> None:
    world = a_world()
    calls = world.fake.calls
    for target, name, kind in (
        (*QOS, UsageError),
        (OST, "osp/max_create_count", UsageError),
        (OST, "osp/active", RefusedError),
        (OST, "drives/queue/discard_max_bytes", RefusedError),
    ):
        with pytest.raises(kind):
            world.driver.set(target, name, value)
    assert (world.fake.calls, world.writes()) == (calls, [])


def test_a_client_is_set_too_and_no_mdt_with_it() -> None:
    fake = FakeLustre.small()
    (host,) = (server.name for server in fake.servers)
    world = a_world(fake, clients=host)
    for name, value in (
        ("rpcs_in_flight", "64"),
        ("checksum_type", "adler"),
        ("read_ahead_mb", "512"),
    ):
        assert world.set(host, name, value).value == value
    counts = fake.lctl(host, ["get_param", "osc.*.max_rpcs_in_flight"]).stdout.split()
    assert [line.endswith("=64") for line in counts] == ["-MDT" not in line for line in counts]
    assert sum(line.endswith("=64") for line in counts) == len(fake.osts)
    for name in ("checksums", "llite_checksums"):
        with pytest.raises(UsageError):
            world.driver.set(host, name, "0")
    with pytest.raises(RefusedError):
        world.driver.set(host, "kernel_release", "1")


# What goes wrong, as recorded


def refused(number: int, text: str, command: str = SET, **more: Any) -> Fault:
    """Return that lctl refuses a command with an error number and its text."""
    return Fault("refuse", command, code=number, text=f"error: {text}\n", **more)


MISSING = refused(
    2, "get_param: param_path 'x': No such file or directory", "lctl get_param", after_calls=1
)
"""As in params/get_missing."""
FILE = (OST, "ldiskfs/DEVICE/mb_max_to_scan")


@pytest.mark.parametrize(
    ("setting", "fault", "outcome", "expected"),
    [
        # params/set_bad: EINVAL; ERANGE of max_create_count
        (QOS, Fault("refuse", SET, code=22, text=EINVAL), REFUSED, "setting-value-refused"),
        (QOS, refused(34, "x: Numerical result out of range"), REFUSED, "setting-value-refused"),
        # params/set_ro, discard/14
        (QOS, refused(13, "opening 'x': Permission denied"), REFUSED, "permission-denied"),
        # create_gating/50_qos: qos_maxage is echoed, and not stored
        (QOS, Fault("swallow", SET), Outcome.NOT_STORED, "setting-not-kept"),
        (("MDT0000", "lod/qos_maxage"), None, Outcome.NOT_STORED, "setting-not-kept"),
        (QOS, Fault("hang", SET), Outcome.UNKNOWN, "write-hangs"),
        (QOS, Fault("die", SET), Outcome.UNKNOWN, "answer-cut"),
        (QOS, Fault("hang", "ssh"), Outcome.UNKNOWN, "answer-cut"),
        (QOS, Fault("half", "ssh", lines=2), Outcome.UNKNOWN, "answer-cut"),
        (QOS, Fault("garbage", "ssh"), Outcome.UNKNOWN, "answer-cut"),
        (QOS, MISSING, Outcome.SKIPPED, "setting-missing"),
        (QOS, Fault("hang", "lctl get_param"), Outcome.SKIPPED, "recovery-unknown"),
        (FILE, Fault("refuse", "write", code=errno.EINVAL), REFUSED, "setting-value-refused"),
        (FILE, Fault("refuse", "write", code=errno.EROFS), REFUSED, "target-read-only"),
        (FILE, Fault("refuse", "write", code=errno.EACCES), REFUSED, "permission-denied"),
        (FILE, Fault("swallow", "write"), Outcome.NOT_STORED, "setting-not-kept"),
        (FILE, Fault("hang", "write"), Outcome.UNKNOWN, "write-hangs"),
        (FILE, Fault("die", "write"), Outcome.UNKNOWN, "answer-cut"),
    ],
)
def test_what_comes_of_a_change_that_fails(
    setting: tuple[str, str], fault: Fault | None, outcome: Outcome, expected: str
) -> None:
    world = a_world()
    target, name = setting
    world.fake.faults += [fault] if fault else []
    value = "300" if setting == FILE else "80" if setting == QOS else "6"
    answer = attempt(world.driver.set, target, name.replace("DEVICE", world.ost.device), value)
    assert ended(answer) == (outcome, expected), answer


def test_what_somebody_else_changed_and_what_is_gone_is_not_written() -> None:
    world = a_world()
    world.fake.lctl("mds1", ["set_param", "lod.scratch-MDT0000-mdtlov.qos_prio_free=55"])
    assert ended(world.driver.set(*QOS, "80")) == (Outcome.CHANGED, "changed-by-others")
    world.fake.kill_server(world.server_of("MDT0000"))
    assert ended(world.driver.set(*QOS, "80")) == (Outcome.UNREACHABLE, "server-unreachable")
    assert world.writes() == []


def test_a_target_that_failed_over_since_is_not_looked_for_elsewhere() -> None:
    world = a_world()
    world.fake.fail_over(OST)
    for call in (
        lambda: world.driver.set(OST, "obdfilter/no_create", "1"),
        lambda: world.driver.trim(OST),
        lambda: world.driver.reset_allocator(OST),
    ):
        answer = call()
        assert ended(answer) == (Outcome.SKIPPED, "target-not-here")
    world.driver.snapshot(AT)
    assert isinstance(world.driver.set(OST, "obdfilter/no_create", "1"), Setting)


def test_nothing_is_changed_during_recovery() -> None:
    world = a_world()
    world.ost.recovery = "RECOVERING"
    for answer in (
        world.driver.set(*DRIVES, "64"),
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
    before = world.setting(*DRIVES)
    drives = len(world.ost.drives)
    last = Fault("refuse", "write", after_calls=drives - 1, times=1, code=errno.EINVAL)
    world.fake.faults.append(last)
    answer = attempt(world.driver.set, *DRIVES, "64")
    assert isinstance(answer, UsageError)
    world.fake.faults.clear()
    world.driver.snapshot(AT)
    assert world.setting(*DRIVES) == before
    assert len(world.writes()) == drives + (drives - 1)


# Creation


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("refuse", SET, code=22, text=EINVAL),
        Fault("swallow", SET),
        refused(2, "No such file or directory", "lctl get_param"),
    ],
    ids=lambda fault: fault.kind,
)
def test_one_mdt_that_cannot_be_changed_keeps_an_ost_open(fault: Fault, enabled: bool) -> None:
    """What was closed is opened again; opening goes on with the other MDT."""
    world = a_world()
    if enabled:
        world.create(False)
    failing = "MDT0000" if enabled else "MDT0001"
    world.fake.faults.append(replace(fault, host=world.server_of(failing)))
    answer = attempt(world.driver.set_creation, OST, enabled)
    assert outcome_of(answer)[0] is not Outcome.DONE
    assert world.counts == [0 if enabled else 20000, 20000]
    assert not enabled or code(answer) == "partly-written"


def test_an_ost_is_closed_on_every_mdt_and_opened_as_it_was() -> None:
    world = a_world()
    world.ost.max_create_count = {"MDT0001": 5000}
    world.driver.snapshot(AT)
    world.create(False)
    assert world.counts == [0, 0]
    world.create(False)  # again: nothing is written
    assert len(world.writes()) == 2
    world.create(True)
    assert world.counts == [20000, 5000]
    assert not any(".before." in name for s in world.fake.servers for name in s.kept)
    world.create(True)
    assert len(world.writes()) == 4


def test_the_value_of_before_is_the_latest_one() -> None:
    world = a_world()
    world.ost.max_create_count = {"MDT0000": 5000, "MDT0001": 5000}
    world.driver.snapshot(AT)
    world.create(False)
    # The MDT moves: it begins with 20000 there, and with what it kept here when it comes back.
    world.fake.fail_over("MDT0000")
    world.fake.fail_over("MDT0000")
    world.driver.snapshot(AT)
    assert world.counts == [20000, 0]
    world.create(False)
    world.create(True)
    assert world.counts == [20000, 5000]


def test_an_mdt_that_is_not_seen_keeps_an_ost_open() -> None:
    world = a_world()
    world.fake.kill_server(world.server_of("MDT0001"))
    world.driver.snapshot(AT)
    answer = world.driver.set_creation(OST, False)
    assert code(answer) == "mdt-not-seen"
    assert world.counts == [20000, 20000]
    assert world.writes() == []


def test_what_cannot_be_put_back_is_named() -> None:
    world = a_world()
    first, second = (world.fake.target(mdt).server for mdt in ("MDT0000", "MDT0001"))
    world.fake.faults += [
        Fault("refuse", SET, host=second, code=22, text=EINVAL),
        Fault("refuse", SET, host=first, after_calls=1, code=22, text=EINVAL),
    ]
    answer = attempt(world.driver.set_creation, OST, False)
    assert code(answer) == "partly-written"
    assert f"osp.scratch-{OST}-osc-MDT0000.max_create_count on {first}" in str(answer)
    assert world.counts == [0, 20000]
    # It is known what it was: opening brings it back.
    world.fake.faults.clear()
    world.driver.snapshot(AT)
    world.create(True)
    assert world.counts == [20000, 20000]


def test_no_create_is_the_other_way() -> None:
    world = a_world(mechanism="no_create")
    world.create(False)
    assert (world.ost.no_create, world.counts) == (True, [20000, 20000])
    world.driver.snapshot(AT)
    world.create(True)
    assert not world.ost.no_create
    old = a_world(FakeLustre.pair(lustre_version="2.15.5"), mechanism="no_create")
    old.create(False)
    assert old.fake.target(OST).no_create
    assert any("no_precreate" in line for line in old.writes())
    assert code(old.driver.set_creation("MDT0000", False)) == "not-supported"


# Trim, and the allocator


def test_trim_is_sent_to_the_server_that_has_the_target() -> None:
    world = a_world()
    world.ost.untrimmed_bytes = 5 * GIB
    assert world.driver.trim(OST, 0, 2 * GIB) == 2 * GIB
    world.fake.fail_over(OST)
    world.driver.snapshot(AT)
    assert world.driver.trim(OST) == 3 * GIB


def test_trim_in_ranges_names_where_to_go_on() -> None:
    world = a_world()
    world.ost.untrimmed_bytes = 5 * GIB
    capacity = world.ost.capacity_bytes
    whole = instance(
        InstructionResult, world.driver.trim_ranges(OST, range_bytes=capacity // 4 + 512)
    )
    assert whole.next_start is None
    assert len(whole.ranges) == 4
    assert int(whole.found or 0) == 5 * GIB
    world.ost.untrimmed_bytes = 5 * GIB
    world.fake.faults.append(Fault("hang", "fstrim", after_calls=2))
    answer = attempt(world.driver.trim_ranges, OST, range_bytes=GIB)
    assert isinstance(answer, ToolError)
    assert outcome_of(answer)[0] is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"aborted": True}, "target-has-errors"),  # readonly_target/fstrim
        ({"errors_count": 3}, "target-has-errors"),
        ({"discard_granularity": 0}, "discard-unsupported"),
        ({"osd": "zfs"}, "zfs"),
        ({"mount_options": "ro"}, "target-read-only"),
        ({"up": False}, "target-not-served"),
    ],
)
def test_targets_that_are_not_trimmed(change: dict[str, Any], expected: str) -> None:
    fake = FakeLustre.pair()
    for name, value in change.items():
        setattr(fake.target(OST), name, value)
    answer = a_world(fake).driver.trim(OST)
    assert ended(answer) == (Outcome.SKIPPED, expected), answer
    # Unmounted since the last look: it does not trim the root.
    world = a_world()
    world.ost.up = False
    assert code(world.driver.trim(OST)) == "target-not-here"
    assert not any("fstrim" in line for line in world.writes())


def test_the_allocators_goal_is_reset() -> None:
    world = a_world()
    target = world.ost
    target.mb_last_group = 17
    world.driver.snapshot(AT)
    assert world.driver.reset_allocator(OST) is None
    assert target.mb_last_group == 0
    target.mb_last_group = 4  # it moves by itself: not somebody else's change
    assert world.driver.reset_allocator(OST) is None
    zfs = FakeLustre.pair()
    zfs.target(OST).osd = "zfs"
    assert code(a_world(zfs).driver.reset_allocator(OST)) == "zfs"


def test_a_target_on_zfs_has_no_setting_of_ldiskfs_or_its_devices() -> None:
    fake = FakeLustre.pair()
    fake.target(OST).osd = "zfs"
    driver = a_world(fake).driver
    other = next(each.name for each in fake.targets if each.kind == "OST" and each.name != OST)
    of_ldiskfs, of_zfs = (
        {name.split("/")[0] for name in driver.settings(target)} & {"block", "ldiskfs", "ext4"}
        for target in (other, OST)
    )
    assert of_ldiskfs > of_zfs == set()


# The way back by itself


def test_what_is_not_confirmed_is_put_back() -> None:
    world = a_world(dead_man_s=60.0)
    world.create(False)
    world.fake.pass_time(50)
    assert world.counts == [0, 0]
    world.fake.pass_time(20)
    assert world.counts == [20000, 20000]
    with raises(ToolError, "setting-not-kept"):
        world.driver.confirm()
    world.driver.confirm()  # there is nothing left to confirm


def test_what_is_confirmed_stays() -> None:
    world = a_world(dead_man_s=60.0)
    world.create(False)
    setting = world.set(*QOS, "80")
    world.driver.confirm()
    world.fake.pass_time(500)
    assert world.counts == [0, 0]
    world.driver.snapshot(AT)
    assert world.setting(*QOS) == setting


def test_a_value_of_before_that_is_never_written_is_not_put_back() -> None:
    world = a_world(FakeLustre.pair(allocator="loops"), dead_man_s=60.0)
    device = world.ost.device
    server = world.fake.server(world.server_of(OST))
    path = f"/proc/fs/ldiskfs/{device}/prealloc_table"
    server.files[path] = "\n"  # emptied, as in mballoc/41_prealloc_bad
    world.driver.snapshot(AT)
    name = f"ldiskfs/{device}/prealloc_table"
    assert world.set(OST, name, "256 512").value == "256 512"
    world.driver.confirm()
    world.fake.pass_time(100)
    assert server.files[path] == "256 512 \n"


def test_a_server_that_dies_before_the_answer_or_is_never_told_puts_back_what_it_wrote() -> None:
    dying = a_world(dead_man_s=60.0)
    dying.fake.faults.append(Fault("half", "ssh", lines=2, times=1))
    assert outcome_of(attempt(dying.driver.set, *QOS, "80"))[0] is Outcome.UNKNOWN
    untold = a_world(dead_man_s=60.0)
    assert untold.set(*QOS, "80").value == "80%"
    untold.fake.faults.append(Fault("hang", "ssh"))
    with raises(ToolError, "not-confirmed"):
        untold.driver.confirm()
    for world in (dying, untold):
        world.fake.faults.clear()
        world.fake.pass_time(61)
        world.driver.snapshot(AT)
        assert world.setting(*QOS).value == "90%"


def test_every_write_stands_in_the_servers_log_and_readings_follow() -> None:
    world = a_world()
    world.driver.set(*QOS, "80")
    name = "lod.scratch-MDT0000-mdtlov.qos_prio_free"
    assert world.fake.server(world.server_of("MDT0000")).log == [
        f"scratch token 5 ops@login1: {step} {name} 90% -> 80" for step in ("begun", "done")
    ]
    world.create(False)
    seen = present(world.driver.snapshot(AT).of(OST))
    assert present(seen.reading("create_enabled")).value is False
    assert os.strerror(errno.EINVAL) in EINVAL
