"""Power that is cut in a run: what the disk has forgotten is found by the next one.

The file system is shut down without its log (``FS_IOC_SHUTDOWN``), as xfstests do it: what was not
on stable storage is lost at once, and the journal of the run, on another file system, is kept.
"""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.purge.run.core_world import CoreWorld
from tests.support import loopback
from tests.support.children import begun, code_of_child
from tests.support.counts import repetitions, seeded

from trimtab.base.trusted_file import opened, synchronise_file_system
from trimtab.purge.run import run_account
from trimtab.purge.run.journal_line import UndoneLine
from trimtab.purge.run.run_journal import journals

pytestmark = pytest.mark.system

SHUTDOWN = 0x8004587D
"""``FS_IOC_SHUTDOWN`` of ext4, xfs and f2fs."""
NO_LOG_FLUSH = 2
FILES = 3000


class Disk:
    """A file system that forgets what it did not write."""

    def __init__(self, device: loopback.LoopDevice, point: Path) -> None:
        self.device, self.point = device, point

    def mount(self) -> None:
        subprocess.run(["mount", self.device.path, self.point], check=True)

    def cut(self) -> None:
        directory = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(directory)

    def again(self) -> None:
        loopback.unmount_everywhere(self.device, self.point)
        self.mount()


def synchronise(directory: Path) -> None:
    with opened(str(directory)) as descriptor:
        synchronise_file_system(descriptor)


@contextlib.contextmanager
def disk(directory: Path, fs: loopback.FileSystem) -> Iterator[Disk]:
    """Give an empty file system at the place where a world has its files."""
    size = {"ext4": 128 * loopback.MIB, "xfs": loopback.XFS_MINIMUM_BYTES}[fs]
    with (
        loopback.loop_device(size, directory) as device,
        loopback.mount_point_of_all(directory / "tree") as point,
    ):
        subprocess.run([f"mkfs.{fs}", "-q", device.path], check=True)
        made = Disk(device, point)
        made.mount()
        try:
            yield made
        finally:
            loopback.unmount_everywhere(device, point)


def one_run(world: CoreWorld, sync_rows: int) -> None:
    """Carry the plan on in this process."""
    run_account.SYNC_ROWS = sync_rows  # type: ignore[misc]
    world.surroundings.sync = lambda: synchronise(world.tree)  # type: ignore[method-assign]
    world.run(id=f"run-{os.getpid()}-{time.monotonic_ns()}")


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
@pytest.mark.parametrize("cuts", repetitions(gate=2, soak=40))
def test_what_a_power_cut_brought_back_is_dealt_with_again(tmp_path, fs, cuts):
    reason = loopback.why_no_loop_devices(fs)
    if reason is not None:
        pytest.skip(reason)
    chance = seeded(f"power cuts of {fs}")
    undone = 0
    for number in range(cuts):
        directory = tmp_path / f"cut-{number}"
        directory.mkdir()
        with disk(directory, fs) as place:
            world = CoreWorld(directory, FILES, target=0.001).make()
            synchronise(world.tree)
            sync_rows = chance.choice((500, 10_000))
            process = begun(partial(one_run, world, sync_rows))
            deadline = time.monotonic() + 60
            goal = chance.randrange(200, FILES - 200)
            while len(rows_done(world)) < goal and time.monotonic() < deadline:
                time.sleep(0.002)
            # The process ends with the power: it must not learn of the end of its file system.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
            place.cut()
            os.kill(process, signal.SIGKILL)
            code_of_child(process)
            place.again()
            lied = rows_done(world) & world.there()
            one_run(world, sync_rows=10_000)
            check(world)
            undone += len(lied)
    assert undone > 0, "no cut brought a file back: nothing was tried"


def rows_done(world: CoreWorld) -> set[int]:
    """Return the rows that the journal says were deleted."""
    if not journals(world.directory / "journals"):
        return set()
    return {row for row, fate in world.fates().items() if fate == "deleted"}


def check(world: CoreWorld) -> None:
    """Hold the journal against what is there: every row once, nothing lost, nothing claimed."""
    assert world.standing().unsettled == ()
    fates = world.settled(missing=("deleted", "gone", "in_quarantine"))
    assert set(fates.values()) <= {"deleted", "gone", "put_back", "ctime_only", "in_quarantine"}
    # Nothing lies aside, and nothing was lost there.
    left = [file for file in (world.tree / ".quarantine").rglob("*") if file.is_file()]
    assert len(left) == [*fates.values()].count("in_quarantine"), left
    for line in world.lines(UndoneLine):
        assert line.files == sum(rows.count for rows in line.rows)
