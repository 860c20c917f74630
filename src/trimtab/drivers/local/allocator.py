"""The ext4 block allocator of a mounted file system: its counters and its free space.

Never reads ``mb_groups`` (`trimtab.drivers.host` refuses it) and never runs e2freefrag, which reads
every bitmap of the file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trimtab.drivers.host import Host
from trimtab.drivers.local.free_space import (
    count_groups,
    fragmented_fraction,
    mean_extent_bytes,
    one_fraction,
    one_mean,
)
from trimtab.drivers.local.mballoc import (
    AllocatorStatistics,
    parse_mb_alloc_stats,
    parse_mb_stats,
    parse_structs_summary,
)
from trimtab.errors import ToolError
from trimtab.launch.bounded import Space
from trimtab.model.telemetry import NotAvailable


@dataclass(frozen=True, slots=True)
class Ext4:
    """Where a mounted ext4 keeps its tunables and counters.

    Attributes
    ----------
    device
        Kernel name of the underlying device (``dm-3``).
    variant
        ``ext4``, or ``ldiskfs`` beneath a Lustre target.
    """

    device: str
    variant: str = "ext4"

    @property
    def settings(self) -> str:
        """The sysfs directory of its settings."""
        return f"/sys/fs/{self.variant}/{self.device}"

    @property
    def statistics(self) -> str:
        """The procfs directory of its statistics."""
        return f"/proc/fs/{self.variant}/{self.device}"


def read_statistics(host: Host, ext4: Ext4) -> tuple[AllocatorStatistics | NotAvailable, str]:
    """Return the allocator's counters and the file they were read from."""
    old = f"{ext4.statistics}/mb_alloc_stats"
    path = f"{ext4.statistics}/mb_stats"
    if not host.exists(path) and host.exists(old):
        text = host.read_text(old)
        return (text if isinstance(text, NotAvailable) else parse_mb_alloc_stats(text)), old
    text = host.read_text(path)
    if isinstance(text, NotAvailable):
        return text, path
    statistics = parse_mb_stats(text)
    if isinstance(statistics, NotAvailable):
        reason = f"{path}: {statistics.reason}"
        if "counters are off" in reason:
            reason += f"; writing 1 to {ext4.settings}/mb_stats turns them on, at little cost"
        return NotAvailable(reason), path
    return statistics, path


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What the allocator's lists prove about the free space, and the file with the lists."""

    extent_mean_bytes: float | NotAvailable
    fragmented_fraction: float | NotAvailable
    source: str


def read_free_space(
    host: Host,
    ext4: Ext4,
    *,
    space: Space | NotAvailable,
    device_bytes: int | None,
) -> FreeSpace:
    """Return what is known of the free space without reading the bitmaps."""
    path = f"{ext4.statistics}/mb_structs_summary"
    # Read before the lists: after a mount groups are loaded all the time, and a group counted as
    # loaded must be in the lists.
    statistics, _ = read_statistics(host, ext4)
    text = host.read_text(path)
    summary = text if isinstance(text, NotAvailable) else parse_structs_summary(text)
    missing = summary if isinstance(summary, NotAvailable) else space
    if isinstance(summary, NotAvailable) or isinstance(space, NotAvailable):
        assert isinstance(missing, NotAvailable)
        return FreeSpace(missing, missing, path)
    counted = isinstance(statistics, AllocatorStatistics)
    groups = count_groups(
        summary,
        reported=(statistics.groups_loaded, statistics.groups) if counted else (None, None),
        device_bytes=device_bytes,
        block_bytes=space.block_size_bytes,
        free_blocks=space.blocks_free * space.fragment_size_bytes // space.block_size_bytes,
    )
    if isinstance(groups, NotAvailable):
        return FreeSpace(groups, groups, path)
    return FreeSpace(
        one_mean(mean_extent_bytes(summary, groups)),
        one_fraction(fragmented_fraction(summary, groups)),
        path,
    )


@contextmanager
def counting(host: Host, ext4: Ext4, *, allowed: bool) -> Iterator[NotAvailable | None]:
    """Turn the allocator's counters on inside the block, then restore ``mb_stats``.

    Yields ``None`` if the counters are on, else the reason. Writes nothing if they are on already
    or if it is not allowed.

    Raises
    ------
    ToolError
        The setting could not be restored.
    """
    path = f"{ext4.settings}/mb_stats"
    before = host.read_text(path)
    if isinstance(before, NotAvailable):
        # Without mb_stats there is the older mb_alloc_stats, which always counts.
        counts = host.exists(f"{ext4.statistics}/mb_alloc_stats")
        yield None if counts else before
        return
    if before.strip() != "0":
        yield None
        return
    if not allowed:
        yield NotAvailable(f"{path} is 0, and turning it on was not allowed")
        return
    try:
        error = host.write_text(path, "1")
        yield None if error is None else NotAvailable(f"{path}: {error.strerror}")
    finally:
        _put_back(host, path, before.strip())


def _put_back(host: Host, path: str, value: str) -> None:
    now = host.read_text(path)
    # Unmounted in the meantime: the setting is gone with the mount.
    if isinstance(now, NotAvailable) or now.strip() == value:
        return
    error = host.write_text(path, value)
    if error is not None:
        raise ToolError(
            f"{path} could not be restored to {value}: {error.strerror}",
            code="setting-not-restored",
            hint=f"restore it by hand: echo {value} > {path}",
        )
