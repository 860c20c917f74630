"""The trace on a real ext4: files made by fallocate on a loop device, counters read from /proc."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
from pathlib import Path

from benchmarks.allocator.trace import Phase
from tests.support.loopback import Mounted

from trimtab.base.error import ToolError
from trimtab.reach.block_allocator import AllocatorStatistics, parse_mb_stats

BLOCK_BYTES = 4096
GROUP_BLOCKS = 32768
MKFS_OPTIONS = ("-b", "4096", "-m", "0", "-i", "262144", "-O", "^has_journal,^resize_inode")
"""No journal: freed blocks are free at once and not at the next commit, as in the model."""

_FREE = re.compile(r"^  Free blocks: (.*)$", re.MULTILINE)
_SETTINGS = {
    "max_to_scan": "mb_max_to_scan",
    "min_to_scan": "mb_min_to_scan",
    "order2_bits": "mb_order2_req",
    "max_linear_groups": "mb_max_linear_groups",
    "max_trim_order": "mb_best_avail_max_trim_order",
}


class Kernel:
    """One mounted ext4 that follows a trace.

    Parameters
    ----------
    mounted
        A new file system without a journal.
    request_blocks
        Blocks that one call asks for.
    writes
        Whether the blocks are written, past the page cache, instead of taken with fallocate.
    """

    def __init__(self, mounted: Mounted, request_blocks: int, *, writes: bool = False) -> None:
        # Direct writes want memory that is aligned: a mapping of its own is.
        self._zeros = mmap.mmap(-1, request_blocks * BLOCK_BYTES) if writes else None
        name = mounted.device.name
        self.directory = mounted.mount_point
        self.request_blocks = request_blocks
        self.inodes: list[int] = []
        self._settings = Path("/sys/fs/ext4") / name
        self._statistics = Path("/proc/fs/ext4") / name
        (self._settings / "mb_stats").write_text("1")
        # Loads every group: the first two criteria leave out groups that are not in memory yet.
        (self._statistics / "mb_groups").read_bytes()

    def settings(self) -> dict[str, int]:
        """Return what the allocator is set to, by the names of `BlockAllocator`."""
        found = {
            ours: int((self._settings / theirs).read_text())
            for ours, theirs in _SETTINGS.items()
            if (self._settings / theirs).exists()
        }
        processors = Path("/sys/devices/system/cpu/possible").read_text().strip()
        return found | {"processors": int(processors.split("-")[-1]) + 1}

    def criteria(self) -> list[str]:
        """Return the names of the criteria, in the order of `counts`."""
        return [one.name.removeprefix("cr_") for one in self._read().criteria]

    def counts(self) -> dict[str, list[int]]:
        """Return the counters since the beginning, by criterion, under the names of the model."""
        criteria = self._read().criteria
        return {
            "hits": [one.hits or 0 for one in criteria],
            "useless": [one.useless_loops for one in criteria],
            "considered": [one.groups_considered or 0 for one in criteria],
        }

    def family(self) -> str:
        """Return which family of `BlockAllocator` the running kernel is, told by what it counts.

        Raises
        ------
        ToolError
            It walks all groups: the file system is too small for lists, or the kernel too old.
        """
        text = (self._statistics / "mb_stats").read_text()
        lists = self._statistics / "mb_structs_summary"
        if not lists.exists() or "optimize_scan: 1" not in lists.read_text():
            raise ToolError(
                f"{lists}: this file system is searched without lists",
                hint="it takes Linux 5.13 and at least 16 groups, 2 GiB",
            )
        if "stream_goal_hits" in text:
            return "ordered"
        return "el9" if "cr_best_avail" in text else "optimize-scan"

    def follow(self, phase: Phase) -> None:
        """Make and delete the files of a phase."""
        for event in phase.events:
            if event > 0:
                self._write(event)
            else:
                (self.directory / str(-event)).unlink()

    def free_groups(self) -> list[tuple[int, int]]:
        """Return free blocks and free runs of every group."""
        text = (self._statistics / "mb_groups").read_text()
        rows = re.findall(r"^#\d+\s*: (\d+)\s+(\d+)", text, re.MULTILINE)
        return [(int(free), int(runs)) for free, runs in rows]

    def _read(self) -> AllocatorStatistics:
        path = self._statistics / "mb_stats"
        found = parse_mb_stats(path.read_text())
        if not isinstance(found, AllocatorStatistics):
            raise ToolError(f"{path}: {found.reason}", hint="uname -r tells which kernel it is")
        return found

    def _write(self, blocks: int) -> None:
        path = self.directory / str(len(self.inodes))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if self._zeros else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            self.inodes.append(os.fstat(descriptor).st_ino)
            for start in range(0, blocks, self.request_blocks):
                length = min(self.request_blocks, blocks - start)
                offset, size = start * BLOCK_BYTES, length * BLOCK_BYTES
                if self._zeros is None:
                    os.posix_fallocate(descriptor, offset, size)
                else:
                    os.pwrite(descriptor, memoryview(self._zeros)[:size], offset)
        finally:
            os.close(descriptor)


def taken_at_first(device: Path) -> list[tuple[int, int]]:
    """Return first block and length of what is taken on a file system, in its order.

    Raises
    ------
    ToolError
        dumpe2fs does not tell it.
    """
    argv = ["dumpe2fs", str(device)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ToolError(f"dumpe2fs {device}: {ended.stderr.strip()}", hint="it is in e2fsprogs")
    return taken_between(_FREE.findall(ended.stdout))


def taken_between(free: list[str]) -> list[tuple[int, int]]:
    """Return first block and length of what lies between free blocks; no stretch leaves its group.

    Parameters
    ----------
    free
        Of each group, as dumpe2fs lists them: ``551-32767, 32770``.
    """
    taken = []
    for group, text in enumerate(free):
        at, end = group * GROUP_BLOCKS, (group + 1) * GROUP_BLOCKS
        for part in filter(None, text.strip().split(", ")):
            first, _, last = part.partition("-")
            if int(first) > at:
                taken.append((at, int(first) - at))
            at = int(last or first) + 1
        if at < end:
            taken.append((at, end - at))
    return taken
