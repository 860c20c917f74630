"""One suite that every driver passes: in memory; local on ext4, xfs, a directory; Lustre; twin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.driver import driver_of, servers_of
from tests.fake_lustre.state import FakeLustre
from tests.support import loopback
from tests.support.memory_driver import MemoryDriver
from tests.support.narrow import instance, present
from tests.support.polling import eventually
from tests.support.small_twin import small_life

from trimtab.base.error import RefusedError, TrimtabError, UsageError
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TrimPractice,
)
from trimtab.reach.driver_protocol import CAPABILITIES, Driver
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.lustre.server_write import ServerWriter
from trimtab.reach.process import ProcessResult, execute
from trimtab.twin.twin_driver import TwinDriver

pytestmark = pytest.mark.system

AT = datetime(2026, 11, 20, 3, 4, 5, 678901, tzinfo=UTC)
MIB = 1024**2


@dataclass(frozen=True)
class Case:
    """A driver, and how to write to its file system and free that again."""

    driver: Driver
    write: Callable[[int], object]
    free: Callable[[], object]
    file: str
    trims_less_again: bool = True


def _memory(_directory: Path, _cleanup: ExitStack) -> Case:
    driver = MemoryDriver()
    driver.placements["/f"] = ("OST0000",)
    write, free = partial(driver.write, "OST0000"), partial(driver.delete, "OST0000", 1 << 40)
    return Case(driver, write, free, "/f")


def _on(mount_point: Path, driver: Driver, *, trims_less_again: bool = True) -> Case:
    file = mount_point / "data"

    def write(size: int) -> None:
        with file.open("ab") as stream:
            stream.write(os.urandom(size))
            stream.flush()
            os.fsync(stream.fileno())

    return Case(driver, write, file.unlink, str(file), trims_less_again)


def _loop(fs: loopback.FileSystem) -> Callable[[Path, ExitStack], Case]:
    def make(directory: Path, cleanup: ExitStack) -> Case:
        if reason := loopback.why_no_loop_devices(fs):
            pytest.skip(reason)
        scratch = cleanup.enter_context(loopback.mounted(directory, fs=fs, size_bytes=320 * MIB))
        # ext4 remembers which groups were trimmed; xfs hands over all free space each time.
        driver = LocalDriver(str(scratch.mount_point))
        return _on(scratch.mount_point, driver, trims_less_again=fs == "ext4")

    return make


def _lustre(_directory: Path, _cleanup: ExitStack) -> Case:
    fake = FakeLustre.pair()

    def run(argv: Sequence[str], **how: Any) -> ProcessResult:
        return (fake.execute if argv[0] in {"lfs", "lctl"} else execute)(argv, **how)

    servers = servers_of(fake, sudo=True)
    fake.targets[0].untrimmed_bytes = 200 * MIB
    writer = ServerWriter(servers, fake.file_system, 1, "test", fan_out=fake.fan_out)
    driver = driver_of(fake, servers, execute=run, writer=writer)
    first = driver.snapshot(AT).targets[0].target.name
    write, free = partial(fake.write, first), partial(fake.delete, first, 1 << 40)
    return Case(driver, write, free, "/scratch/file")


def _twin(_directory: Path, _cleanup: ExitStack) -> Case:
    life = small_life()
    driver = TwinDriver(life, "/twin")
    driver.guest.make_directory("/twin", ".trimtab-probe-contract")
    file = "/twin/.trimtab-probe-contract/data"
    driver.guest.create(file, first=0, stripe_count=1)
    sizes = {file: 0.0}

    def write(size: int) -> None:
        sizes[file] += size
        driver.guest.write(sizes)

    free = partial(driver.guest.remove, "/twin", ".trimtab-probe-contract")
    return Case(driver, write, free, file)


CASES = {
    "memory": _memory,
    "local-ext4": _loop("ext4"),
    "local-xfs": _loop("xfs"),
    "local-directory": lambda directory, _cleanup: _on(directory, LocalDriver(str(directory))),
    "lustre": _lustre,
    "twin": _twin,
}


OWN = ("memory", "local-ext4", "local-xfs", "lustre", "twin")
"""Those whose file system is the test's own, to trim and to set."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    with ExitStack() as cleanup:
        yield CASES[request.param](tmp_path, cleanup)


@pytest.fixture(params=OWN)
def own_case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    with ExitStack() as cleanup:
        yield CASES[request.param](tmp_path, cleanup)


def _targets(case: Case) -> tuple[Target, ...]:
    return tuple(instance(tuple, case.driver.targets()))


def _target(case: Case) -> str:
    return _targets(case)[0].name


def _explained(answer: object) -> None:
    """A refusal says why, in more than a word."""
    assert not isinstance(answer, NotAvailable) or len(answer.reason.split()) >= 3


def _counters(snapshot: Snapshot) -> dict[tuple[str, str, str | None], float]:
    return {
        (one.target.name, reading.name, reading.label): float(reading.value)
        for one in snapshot.targets
        for reading in one.readings
        if reading.name.endswith("_total")
        and isinstance(reading.value, (int, float))
        and reading.name != "inodes_total"
    }


def test_it_is_a_driver_with_targets_that_have_names_and_a_kind(case: Case) -> None:
    assert case.driver.name in {"local", "lustre", "twin", "memory"}
    assert case.driver.capabilities <= CAPABILITIES
    assert case.driver.clock().utcoffset() == timedelta(0)
    targets = _targets(case)
    assert targets
    assert len({target.name for target in targets}) == len(targets)
    assert all(target.kind in {"ost", "mdt", "file-system"} for target in targets)
    assert case.driver.targets() == targets
    with pytest.raises(TrimtabError):
        case.driver.settings("no\0such")


def test_a_snapshot_has_every_name_with_a_value_or_a_reason(case: Case) -> None:
    abroad = datetime(2026, 11, 20, 3, 4, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    assert case.driver.snapshot(abroad).at is abroad
    snapshot = case.driver.snapshot(AT)
    assert snapshot.at == AT
    assert snapshot.complete
    assert snapshot.driver == case.driver.name
    targets = _targets(case)
    assert [one.target for one in snapshot.targets] == list(targets)
    for one in snapshot.targets:
        assert {reading.name for reading in one.readings} == set(TELEMETRY_UNITS)
        keys = [(reading.name, reading.label) for reading in one.readings]
        assert len(set(keys)) == len(keys)
        for reading in one.readings:
            assert reading.reason if reading.value is None else reading.source
            if reading.value is not None:
                _in_its_unit(reading)


def _in_its_unit(reading: Reading) -> None:
    if reading.unit is None:
        assert isinstance(reading.value, (str, bool)), reading
    else:
        assert isinstance(reading.value, (int, float)), reading
        assert not isinstance(reading.value, bool), reading
        assert reading.value >= 0, reading
    if reading.name.endswith("fraction"):
        assert float(present(reading.value)) <= 1


def test_space_adds_up(case: Case) -> None:
    one = case.driver.snapshot(AT).targets[0]
    capacity, used, available = (
        present(one.number(f"{name}_bytes")) for name in ("capacity", "used", "available")
    )
    assert used + available <= capacity
    assert 0 <= present(one.fullness()) <= 1


def test_writing_is_seen_and_counters_never_decrease(case: Case) -> None:
    before = case.driver.snapshot(AT)
    case.write(8 * MIB)
    after = case.driver.snapshot(AT + timedelta(seconds=5))
    first, second = _counters(before), _counters(after)
    # A directory in memory or on an overlay counts nothing; what has a device counts.
    assert first or isinstance(case.driver.trim_practice(_target(case)), NotAvailable)
    assert set(first) <= set(second)
    for key, value in first.items():
        assert second[key] >= value, key
    written = (_target(case), "bytes_written_total", None)
    if written in first:
        assert second[written] - first[written] >= 8 * MIB
    one, two = before.targets[0], after.targets[0]
    # Others write to a shared disk meanwhile; a loop device is this test's own.
    if case.driver.name == "memory" or two.target.name.startswith(str(Path(case.file).parent)):
        grown = present(two.number("used_bytes")) - present(one.number("used_bytes"))
        assert grown >= 7 * MIB


def test_settings_are_named_and_sourced(case: Case) -> None:
    settings = case.driver.settings(_target(case))
    assert settings
    for name, setting in settings.items():
        if isinstance(setting, NotAvailable):
            assert setting.reason
        else:
            assert setting.name == name
            assert setting.source


def test_set_reads_back_what_was_written(own_case: Case) -> None:
    target = _target(own_case)
    # An md array has no such setting; the drives beneath have.
    before = next(
        setting
        for name, setting in own_case.driver.settings(target).items()
        if name.endswith("wbt_lat_usec") and isinstance(setting, Setting)
    )
    name = before.name
    for value in ("7000", "0", before.value):
        answer = instance(Setting, own_case.driver.set(target, name, value))
        assert (answer.name, answer.value) == (name, value)
        assert own_case.driver.settings(target)[name] == answer
    last = [name for name in own_case.driver.settings(target) if name.endswith("wbt_lat_usec")][-1]
    kept = own_case.driver.settings(target)[last]
    with pytest.raises(UsageError):
        own_case.driver.set(target, last, "rubbish")
    assert own_case.driver.settings(target)[last] == kept


def test_set_refuses_what_is_not_a_setting(case: Case) -> None:
    target = _target(case)
    before = case.driver.settings(target)
    for name in ("no/such/setting", "", "../../etc/passwd", "block/nosuch/queue/wbt_lat_usec"):
        with pytest.raises(UsageError):
            case.driver.set(target, name, "1")
    rotational = next((name for name in before if name.endswith("rotational")), None)
    if rotational is not None:
        with pytest.raises(RefusedError):
            case.driver.set(target, rotational, "0")
    assert case.driver.settings(target) == before


@pytest.mark.parametrize(
    "call",
    [
        lambda driver: driver.settings("no-such-target"),
        lambda driver: driver.set("no-such-target", "x", "1"),
        lambda driver: driver.set_permanent("no-such-target", "x", "1"),
        lambda driver: driver.trim("no-such-target"),
        lambda driver: driver.trim_practice("no-such-target"),
        lambda driver: driver.set_creation("no-such-target", False),
        lambda driver: driver.reset_allocator("no-such-target"),
    ],
)
def test_an_unknown_target_is_wrong_use(case: Case, call: Callable[[Driver], object]) -> None:
    with pytest.raises(UsageError):
        call(case.driver)


def test_a_second_trim_trims_less(own_case: Case) -> None:
    target = _target(own_case)
    first, second = own_case.driver.trim(target), own_case.driver.trim(target)
    assert isinstance(first, int)
    assert isinstance(second, int)
    assert first > 100 * MIB
    assert second <= first
    assert not own_case.trims_less_again or second == 0

    def discarded() -> float:
        return present(own_case.driver.snapshot(AT).targets[0].number("bytes_discarded_total"))

    eventually(lambda: discarded() >= 100 * MIB)  # XFS has them done after fstrim has ended


def test_what_is_freed_can_be_trimmed_again(own_case: Case) -> None:
    target = _target(own_case)
    own_case.write(32 * MIB)
    own_case.driver.trim(target)
    own_case.free()
    os.sync()
    assert instance(int, own_case.driver.trim(target)) >= 32 * MIB


def test_trim_takes_a_range_and_refuses_what_is_none(own_case: Case) -> None:
    target = _target(own_case)
    with pytest.raises(UsageError):
        own_case.driver.trim(target, -1)
    with pytest.raises(UsageError):
        own_case.driver.trim(target, 0, 0)
    assert instance(int, own_case.driver.trim(target, 64 * MIB, 32 * MIB)) <= 32 * MIB


def test_trim_practice_gives_a_reason_for_what_is_missing(case: Case) -> None:
    practice = case.driver.trim_practice(_target(case))
    _explained(practice)
    if isinstance(practice, TrimPractice):
        for part in ("timer_active", "trimmed_since_mount", "discarded_bytes"):
            assert getattr(practice, part) is not None or practice.reasons[part]


def test_what_can_be_closed_can_be_opened_again(case: Case) -> None:
    if "creation" not in case.driver.capabilities:
        return
    targets = _targets(case)
    target = next(target.name for target in targets if target.kind == "ost")
    for enabled in (False, True):
        assert case.driver.set_creation(target, enabled) is None
        snapshot = present(case.driver.snapshot(AT).of(target))
        assert present(snapshot.reading("create_enabled")).value is enabled


def test_what_is_not_available_says_why(case: Case) -> None:
    target = _target(case)
    for answer in (
        case.driver.set_creation(target, True),
        case.driver.reset_allocator(target),
        case.driver.run("no-such-server", ["true"], 5.0),
        case.driver.pools(),
        case.driver.changelogs,
        case.driver.dead_man_s,
        case.driver.confirm(),
    ):
        _explained(answer)
    assert isinstance(case.driver.run("no-such-server", ["true"], 5.0), NotAvailable)
    for capability, answer in (  # capabilities are kept
        ("creation", case.driver.set_creation(target, True)),
        ("allocator-reset", case.driver.reset_allocator(target)),
    ):
        assert capability in case.driver.capabilities or isinstance(answer, NotAvailable)
    if "permanent" not in case.driver.capabilities:
        assert isinstance(case.driver.set_permanent(target, "x", "1"), NotAvailable)


def test_placement_names_targets_and_run_gives_what_came_of_a_program(case: Case) -> None:
    case.write(MIB)
    placement = case.driver.placement(case.file)
    _explained(placement)
    if isinstance(placement, tuple):
        assert set(placement) <= {target.name for target in _targets(case)}
    answer = case.driver.run(None, ["sh", "-c", "echo out; exit 3"], 20.0)
    _explained(answer)
    if isinstance(answer, ProcessResult):
        assert (answer.stdout, answer.exit_code) == (b"out\n", 3)
