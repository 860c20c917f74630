"""``trimtab check`` on real ext4 and xfs, as root: every finding that a kernel can be made to give.

Loop devices stand for flash (their ``rotational`` is set to 0) or for a disk.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support import loopback
from tests.support.command import Ended, trimtab
from tests.support.polling import eventually

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]
FAST = ("--probe", "builtin", "--budget", "3s", "--repetitions", 1)
FS = ["ext4", pytest.param("xfs", marks=loopback.needs_loop_devices("xfs"))]
each_fs = pytest.mark.parametrize("fs", FS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "trimtab.db"


def checked(mount: loopback.Mounted, store: Path, *words: object) -> Ended:
    """Return what a check said that succeeded."""
    ended = trimtab("check", mount.mount_point, *words, "--json", store=store)
    assert ended.code == 0, ended.stderr
    return ended


def look(mount: loopback.Mounted, store: Path) -> Ended:
    return checked(mount, store, "--no-probe")


def make_healthy(mount: loopback.Mounted) -> None:
    mount.device.set_queue("wbt_lat_usec", 0)
    subprocess.run(["fstrim", str(mount.mount_point)], check=True, stdout=subprocess.DEVNULL)
    # XFS has discards done after fstrim has ended, and a device counts those that are done.
    eventually(lambda: mount.device.discards() > 0)


@each_fs
def test_a_healthy_file_system_yields_no_finding(fs, tmp_path, store):
    with loopback.mounted(tmp_path, fs=fs) as mount:
        make_healthy(mount)
        ended = checked(mount, store, *FAST)
        assert (ended.ids(), ended.document["path"]["is_flash"]) == ([], True)
        assert {path.name for path in mount.mount_point.iterdir()} <= {"lost+found"}


@each_fs
def test_a_file_system_over_its_limit_is_found_and_the_limit_can_be_set(fs, tmp_path, store):
    with loopback.mounted(tmp_path, fs=fs) as mount:
        make_healthy(mount)
        loopback.fill_to(mount.mount_point, 0.8)
        ended = look(mount, store)
        assert ended.ids() == ["fullness-over-limit"]
        assert ended.finding("fullness-over-limit")["seen"]["value"] == pytest.approx(0.8, abs=0.01)
        assert checked(mount, store, "--no-probe", "--fullness-limit", "85%").ids() == []


def test_throttling_is_found_and_the_command_repairs_it(tmp_path, store):
    with loopback.mounted(tmp_path) as mount:
        make_healthy(mount)
        mount.device.set_queue("wbt_lat_usec", 2000)
        finding = look(mount, store).finding("writeback-throttling-on")
        assert finding["seen"] == {
            "value": 0.002,
            "unit": "s",
            "what": f"wbt_lat_usec of {mount.device.name}",
            "source": None,
        }
        assert finding["severity"] == "info"
        subprocess.run(finding["fix"]["argv"], check=True)
        assert mount.device.read_queue("wbt_lat_usec") == "0"
        assert look(mount, store).ids() == []


@each_fs
def test_a_file_system_without_discard_is_reported(fs, tmp_path, store):
    with loopback.mounted(tmp_path, fs=fs, discard=False) as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        assert look(mount, store).ids() == ["no-discard"]


@each_fs
def test_flash_that_nothing_trims_is_reported(fs, tmp_path, store):
    with loopback.mounted(tmp_path, fs=fs) as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        ended = look(mount, store)
        assert ended.ids() == ["never-trimmed"]
        repair = ended.finding("never-trimmed")["fix"]["argv"]
        subprocess.run(repair, check=True, stdout=subprocess.DEVNULL)
        eventually(lambda: mount.device.discards() > 0)
        assert look(mount, store).ids() == []


@each_fs
def test_a_mount_that_discards_needs_no_trim(fs, tmp_path, store):
    with loopback.mounted(tmp_path, fs=fs, options="discard") as mount:
        mount.device.set_queue("wbt_lat_usec", 0)
        assert look(mount, store).ids() == []


def test_a_rotational_device_gets_no_flash_advice(tmp_path, store):
    with loopback.mounted(tmp_path, rotational=1) as mount:
        mount.device.set_queue("wbt_lat_usec", 75000)
        ended = look(mount, store)
        assert (ended.ids(), ended.document["path"]["is_flash"]) == ([], False)


def test_useless_loops_of_a_fragmented_ext4_grow_and_are_named(tmp_path, store):
    with loopback.mounted(tmp_path, size_bytes=loopback.GIB) as mount:
        make_healthy(mount)
        loopback.fragment_ext4(mount.mount_point)
        switch = Path("/sys/fs/ext4") / mount.device.name / "mb_stats"
        assert switch.read_text().strip() == "0"
        finding = checked(mount, store, *FAST).finding("allocator-useless-loops")
        assert "during the probe" in finding["title"]
        grown = {one["what"]: one["value"] for one in finding["evidence"] if one["value"]}
        assert grown
        assert all(what.removeprefix("criterion ") in finding["title"] for what in grown)
        assert switch.read_text().strip() == "0", "mb_stats was not put back"


def test_a_healthy_ext4_shows_no_useless_loops_though_they_are_counted(tmp_path, store):
    with loopback.mounted(tmp_path, size_bytes=loopback.GIB) as mount:
        make_healthy(mount)
        ended = checked(mount, store, *FAST)
        readings = ended.document["targets"][0]["readings"]
        names = {reading["name"] for reading in readings if reading["value"] is not None}
        assert "allocator_useless_loops_total" in names
        assert ended.ids() == []


def test_statistics_are_left_alone_when_that_is_asked(tmp_path, store):
    with loopback.mounted(tmp_path) as mount:
        make_healthy(mount)
        ended = checked(mount, store, *FAST, "--no-allocator-statistics")
        reasons = {one["what"]: one["reason"] for one in ended.document["not_available"]}
        assert "not allowed" in reasons["allocator statistics"]


def test_reads_through_a_cached_loop_are_not_believed(tmp_path, store):
    def only(rows, **key):
        (row,) = [one for one in rows if key.items() <= one.items()]
        return row

    with loopback.mounted(tmp_path, size_bytes=loopback.GIB) as mount:
        make_healthy(mount)
        words = ("--probe", "builtin", "--budget", "11s", "--repetitions", 1)
        ended = trimtab("check", mount.mount_point, "--json", *words, store=store)
        read = only(
            ended.document["runs"][0]["samples"], metric="read_bandwidth", statistic="total"
        )
        assert read["value"] > 0
        assert "cached" in read["reason"]
        verdict = only(ended.document["verdicts"], metric="read_bandwidth", scope="repetitions")
        assert (verdict["status"], verdict["n"]) == ("cannot_tell", 0)
        assert ended.ids() == []
