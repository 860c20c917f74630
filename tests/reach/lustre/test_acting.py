"""Changing a Lustre: what is done, put back, and told when something goes wrong in the midst."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.lustre.changing import AT, EINVAL, OST, SET, a_world, attempt, code
from tests.support.narrow import instance

from trimtab.base.action import Outcome
from trimtab.base.error import RefusedError, ToolError, TrimtabError, UsageError
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.driver_protocol import outcome_of
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_write import ServerWriter

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
    writer = ServerWriter(servers, fake.file_system, 5, "ops", fan_out=fake.fan_out)
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
