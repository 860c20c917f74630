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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.purge.run.test_core import CoreWorld
from tests.support import loopback
from tests.support.counts import repetitions, seeded

from trimtab.purge.run import run_account, runner
from trimtab.purge.run.journal_line import UndoneLine
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.run_journal import journals, read
from trimtab.store.trusted_file import opened, synchronise_file_system

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
    runner.run(world.core_job(id=f"run-{os.getpid()}-{time.monotonic_ns()}"), apply=True)


def started(world: CoreWorld, sync_rows: int) -> int:
    """Return the process of a run."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            one_run(world, sync_rows)
            code = 0
        finally:
            os._exit(code)
    return process


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
@pytest.mark.parametrize("cuts", repetitions(gate=2, soak=40))
def test_what_a_power_cut_brought_back_is_dealt_with_again(tmp_path, fs, cuts):
    reason = loopback.why_no_loop_devices(fs)
    if reason is not None:
        pytest.skip(reason)
    chance = seeded(f"power cuts of {fs}")
    undone = Counter()
    for number in range(cuts):
        directory = tmp_path / f"cut-{number}"
        directory.mkdir()
        with disk(directory, fs) as place:
            world = CoreWorld(directory, FILES, target=0.001)
            world.make()
            synchronise(world.tree)
            process = started(world, sync_rows=chance.choice((500, 10_000)))
            deadline = time.monotonic() + 60
            goal = chance.randrange(200, FILES - 200)
            while len(rows_done(world)) < goal and time.monotonic() < deadline:
                time.sleep(0.002)
            # The process ends with the power: it must not learn of the end of its file system.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
            place.cut()
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            place.again()
            lied = rows_done(world) & world.there()
            one_run(world, sync_rows=10_000)
            check(world)
            undone[fs] += len(lied)
    assert undone[fs] > 0, "no cut brought a file back: nothing was tried"


def rows_done(world: CoreWorld) -> set[int]:
    """Return the rows that the journal says were deleted."""
    paths = journals(world.directory / "journals")
    if not paths:
        return set()
    fates = replay(read(paths[0])).fates
    return {row for rows, fate in fates if fate == "deleted" for row in range(rows.first, rows.end)}


def check(world: CoreWorld) -> None:
    """Hold the journal against what is there: every row once, nothing lost, nothing claimed."""
    (path,) = journals(world.directory / "journals")
    chronicle = read(path)
    standing = replay(chronicle)
    assert (standing.claims, standing.unsettled) == ((), ())
    fates = {row: fate for rows, fate in standing.fates for row in range(rows.first, rows.end)}
    assert sum(rows.count for rows, _ in standing.fates) == len(fates)
    gone = {row for row, fate in fates.items() if fate in ("deleted", "gone")}
    aside = {row for row, fate in fates.items() if fate == "in_quarantine"}
    assert world.there() == set(range(world.files)) - gone - aside
    assert all(stranger.exists() for stranger in world.strangers)
    assert set(fates.values()) <= {"deleted", "gone", "put_back", "ctime_only", "in_quarantine"}
    # Nothing lies aside, and nothing was lost there.
    left = [file for file in (world.tree / ".quarantine").rglob("*") if file.is_file()]
    assert len(left) == len(aside), left
    undone = [line for line in chronicle.lines if isinstance(line, UndoneLine)]
    assert sum(line.files for line in undone) == sum(
        rows.count for line in undone for rows in line.rows
    )
