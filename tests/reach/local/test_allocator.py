from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.reach.hosts import host
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.host import Host
from trimtab.reach.local.block_allocator import (
    AllocatorStatistics,
    Ext4,
    counting,
    read_free_space,
    read_statistics,
)
from trimtab.reach.local.local_driver import LocalDriver
from trimtab.reach.touch import StatvfsSpace

NVME = Ext4("nvme0n1p2")
SPACE = StatvfsSpace(4096, 4096, 3_700_000_000, 1_000_000, 900_000, 100, 60, 0)


def _machine(tmp_path: Path, mb_stats: str | None) -> Host:
    settings = tmp_path / "sys/fs/ext4/dm-0"
    settings.mkdir(parents=True)
    if mb_stats is not None:
        (settings / "mb_stats").write_text(f"{mb_stats}\n")
    return Host(str(tmp_path))


def _value(machine: Host) -> str:
    return machine.path("/sys/fs/ext4/dm-0/mb_stats").read_text().strip()


def test_counters_that_are_off_say_how_to_turn_them_on() -> None:
    statistics, source = read_statistics(host("nvme-partition"), NVME)
    assert isinstance(statistics, NotAvailable)
    assert "writing 1 to /sys/fs/ext4/nvme0n1p2/mb_stats" in statistics.reason
    assert source == "/proc/fs/ext4/nvme0n1p2/mb_stats"


def test_lists_that_leave_groups_out_give_no_number() -> None:
    """A disk of 15 TB and lists of 8 groups: nearly all groups were not read since the mount."""
    free = read_free_space(host("nvme-partition"), NVME, space=SPACE, device_bytes=15362990366720)
    assert isinstance(free.extent_mean_bytes, NotAvailable)
    assert "of 114464 groups are not loaded yet" in free.extent_mean_bytes.reason
    assert isinstance(free.fragmented_fraction, NotAvailable)
    assert free.source == "/proc/fs/ext4/nvme0n1p2/mb_structs_summary"


def test_without_the_free_space_nothing_is_known_of_it() -> None:
    silent = NotAvailable("/ did not answer in 10 s")
    free = read_free_space(host("nvme-partition"), NVME, space=silent, device_bytes=1)
    assert (free.extent_mean_bytes, free.fragmented_fraction) == (silent, silent)


def test_the_older_statistics_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "proc/fs/ldiskfs/sdb"
    folder.mkdir(parents=True)
    (folder / "mb_alloc_stats").write_text(
        "mballoc:\n\treqs: 5\n\tuseless_c1_loops: 2\n\tdiscarded: 0\n"
    )
    statistics, source = read_statistics(Host(str(tmp_path)), Ext4("sdb", "ldiskfs"))
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.criteria[0].name == "cr0"
    assert source == "/proc/fs/ldiskfs/sdb/mb_alloc_stats"


@pytest.mark.parametrize("leave", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_counting_is_put_back_on_every_way_out(
    leave: type[BaseException] | None, tmp_path: Path
) -> None:
    machine = _machine(tmp_path, "0")

    def use() -> None:
        with counting(machine, Ext4("dm-0"), allowed=True) as why_not:
            assert why_not is None
            assert _value(machine) == "1"
            if leave is not None:
                raise leave

    if leave is None:
        use()
    else:
        with pytest.raises(leave):
            use()
    assert _value(machine) == "0"


@pytest.mark.parametrize("before", ["1", "3"])
def test_what_counts_already_is_left_alone(before: str, tmp_path: Path) -> None:
    machine = _machine(tmp_path, before)
    os.utime(machine.path("/sys/fs/ext4/dm-0/mb_stats"), (0, 0))
    with counting(machine, Ext4("dm-0"), allowed=True) as why_not:
        assert why_not is None
    assert _value(machine) == before
    assert machine.modified_at_s("/sys/fs/ext4/dm-0/mb_stats") == 0


def test_nothing_is_written_unless_it_is_allowed(tmp_path: Path) -> None:
    machine = _machine(tmp_path, "0")
    with counting(machine, Ext4("dm-0"), allowed=False) as why_not:
        assert isinstance(why_not, NotAvailable)
        assert _value(machine) == "0"


def test_a_kernel_without_the_setting(tmp_path: Path) -> None:
    with counting(_machine(tmp_path, None), Ext4("dm-0"), allowed=True) as why_not:
        assert isinstance(why_not, NotAvailable)


def test_an_unmount_meanwhile_is_no_error(tmp_path: Path) -> None:
    machine = _machine(tmp_path, "0")
    with counting(machine, Ext4("dm-0"), allowed=True):
        machine.path("/sys/fs/ext4/dm-0/mb_stats").unlink()


def test_a_setting_that_cannot_be_put_back_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = _machine(tmp_path, "0")
    write = Host.write_text

    def fails_on_0(self: Host, path: str, value: str) -> OSError | None:
        return OSError(30, "Read-only file system") if value == "0" else write(self, path, value)

    monkeypatch.setattr(Host, "write_text", fails_on_0)
    with (
        raises(ToolError, "setting-not-restored", "restored to 0"),
        counting(machine, Ext4("dm-0"), allowed=True),
    ):
        pass


_opened: list[str] = []
_listening = False


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _listening and event == "open":
        _opened.append(
            os.fsdecode(arguments[0]) if isinstance(arguments[0], bytes) else str(arguments[0])
        )


@pytest.fixture
def opened() -> Callable[[], list[str]]:
    """Return what this process opened since; an audit hook sees it all, and stays for ever."""
    global _listening  # noqa: PLW0603
    if not hasattr(sys, "_trimtab_listens"):
        sys.addaudithook(_listen)
        sys._trimtab_listens = True  # type: ignore[attr-defined]
    _opened.clear()
    _listening = True

    def stop() -> list[str]:
        global _listening  # noqa: PLW0603
        _listening = False
        return list(_opened)

    return stop


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_snapshot_never_opens_mb_groups(opened: Callable[[], list[str]], tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        with driver.allocator_counting(target, allowed=True):
            driver.snapshot(datetime.now(UTC))
        driver.settings(target)
        driver.trim_practice(target)
        seen = opened()
        assert any(path.endswith("mb_structs_summary") for path in seen)
        assert not any(path.endswith("mb_groups") for path in seen)


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_useless_loops_are_counted_while_it_counts(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=3 * loopback.GIB) as scratch:
        loopback.fragment_ext4(scratch.mount_point)
        driver = LocalDriver(str(scratch.mount_point))
        target, now = driver.targets()[0].name, datetime.now(UTC)
        assert driver.snapshot(now).targets[0].value("allocator_requests_total") is None
        with driver.allocator_counting(target, allowed=True) as why_not:
            assert why_not is None
            before = driver.snapshot(now).targets[0]
            loopback.ext4_allocate_large(scratch.mount_point)
            after = driver.snapshot(now).targets[0]
        name = "allocator_useless_loops_total"
        grown = sum(after.labelled(name).values()) - sum(before.labelled(name).values())
        requests = present(after.number("allocator_requests_total"))
        assert grown > 100
        assert grown / requests > 0.01
        mean = present(after.number("free_extent_mean_bytes"))
        assert 32 * 1024 < mean < 128 * 1024
        fragmented = present(after.number("free_space_fragmented_fraction"))
        assert fragmented > 0.9
        setting = Path(f"/sys/fs/ext4/{scratch.device.name}/mb_stats")
        assert setting.read_text().strip() == "0"
