from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.reach.hosts import HOSTS, host, no_tools, touch_of
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import instance

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.host import Host
from trimtab.reach.local.local_driver import LocalDriver


@pytest.fixture
def raid(tmp_path: Path) -> LocalDriver:
    """The RAID machine, as a copy that may be written to."""
    root = tmp_path / "host"
    shutil.copytree(HOSTS / "raid6-lvm", root, symlinks=True)
    return LocalDriver("/scratch", host=Host(str(root)), touch=touch_of("253:3"), execute=no_tools)


def test_settings_of_every_layer() -> None:
    driver = LocalDriver(
        "/scratch", host=host("raid6-lvm"), touch=touch_of("253:3"), execute=no_tools
    )
    settings = driver.settings("/scratch")
    assert settings["block/nvme2n1/queue/wbt_lat_usec"] == Setting(
        "block/nvme2n1/queue/wbt_lat_usec",
        "2000",
        "/sys/class/block/nvme2n1/queue/wbt_lat_usec",
    )
    assert settings["md/md127/stripe_cache_size"] == Setting(
        "md/md127/stripe_cache_size", "256", "/sys/class/block/md127/md/stripe_cache_size"
    )
    # A stacked device has no throttling of its own: not available, not 0.
    assert isinstance(settings["block/dm-3/queue/wbt_lat_usec"], NotAvailable)
    assert settings["block/nvme0n1/queue/scheduler"] == Setting(
        "block/nvme0n1/queue/scheduler", "none", "/sys/class/block/nvme0n1/queue/scheduler"
    )
    assert not any("nvme0n1p1" in name for name in settings)


def test_ext4_has_its_own() -> None:
    driver = LocalDriver(
        "/", host=host("nvme-partition"), touch=touch_of("259:2"), execute=no_tools
    )
    settings = driver.settings("/")
    assert isinstance(settings["ext4/nvme0n1p2/mb_stats"], Setting)
    assert isinstance(settings["ext4/nvme0n1p2/mb_max_linear_groups"], NotAvailable)


def test_what_is_behind_a_loop_device_is_another_file_systems() -> None:
    driver = LocalDriver(
        "/mnt/with space", host=host("loop-on-flash"), touch=touch_of("7:4"), execute=no_tools
    )
    names = driver.settings("/mnt/with space")
    assert any(name.startswith("block/loop4/") for name in names)
    assert not any(name.startswith("block/nvme0n1/") for name in names)


def test_a_write_is_read_back(raid: LocalDriver) -> None:
    name = "md/md127/stripe_cache_size"
    setting = raid.set("/scratch", name, "8192")
    assert setting == Setting(name, "8192", "/sys/class/block/md127/md/stripe_cache_size")
    assert raid.settings("/scratch")[name] == setting


@pytest.mark.parametrize("value", ["0", "00", "0x0", " 0 ", "0b0"])
def test_discard_is_never_switched_off(value: str, raid: LocalDriver) -> None:
    name = "block/nvme0n1/queue/discard_max_bytes"
    before = raid.settings("/scratch")[name]
    with raises(RefusedError, "setting-value-harmful"):
        raid.set("/scratch", name, value)
    assert raid.settings("/scratch")[name] == before


@pytest.mark.parametrize(
    "name",
    [
        "block/nvme0n1/queue/write_cache",
        "block/nvme0n1/queue/rotational",
        "block/nvme0n1/queue/discard_granularity",
        "md/md127/level",
        "mount/options",
    ],
)
def test_what_guards_data_is_read_only(name: str, raid: LocalDriver) -> None:
    with raises(RefusedError, "setting-read-only"):
        raid.set("/scratch", name, "1")


@pytest.mark.parametrize("value", ["", "1\n2", "1\0", "\t"])
def test_a_value_is_one_line(value: str, raid: LocalDriver) -> None:
    with raises(UsageError, "setting-value-invalid"):
        raid.set("/scratch", "md/md127/stripe_cache_size", value)


def test_unknown_names_are_listed(raid: LocalDriver) -> None:
    with pytest.raises(UsageError) as caught:
        raid.set("/scratch", "block/nvme0n1/queue/wbt", "0")
    assert "block/nvme0n1/queue/wbt_lat_usec" in (caught.value.hint or "")


def test_a_setting_that_is_not_there_is_not_available(raid: LocalDriver) -> None:
    assert isinstance(raid.set("/scratch", "block/dm-3/queue/wbt_lat_usec", "0"), NotAvailable)


def test_a_value_that_does_not_stick_is_an_error(
    raid: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "write_text", lambda self, path, value: None)
    with raises(ToolError, "setting-not-kept", "reads '2000'"):
        raid.set("/scratch", "block/nvme0n1/queue/wbt_lat_usec", "7")


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_real_kernels_settings(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path) as scratch:
        driver = LocalDriver(str(scratch.mount_point))
        target = driver.targets()[0].name
        prefix = f"block/{scratch.device.name}/queue"
        for name, value in (
            (f"{prefix}/wbt_lat_usec", "0"),
            (f"{prefix}/wbt_lat_usec", "2000"),
            (f"{prefix}/read_ahead_kb", "4096"),
            (f"{prefix}/scheduler", "mq-deadline"),
            (f"{prefix}/scheduler", "none"),
            (f"ext4/{scratch.device.name}/mb_stats", "1"),
        ):
            setting = instance(Setting, driver.set(target, name, value))
            assert setting.value == value
            assert driver.settings(target)[name] == setting
        default = instance(Setting, driver.set(target, f"{prefix}/wbt_lat_usec", "-1"))
        assert int(default.value) > 0
        with pytest.raises(UsageError, match="refuses"):
            driver.set(target, f"{prefix}/scheduler", "no-such-scheduler")
        with pytest.raises(RefusedError):
            driver.set(target, f"{prefix}/discard_max_bytes", "0")
        assert int(scratch.device.read_queue("discard_max_bytes")) > 0
