"""The Rust core: thin bindings, one group of functions for each crate."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Final, Literal

__version__: Final[str]

def ioload_main() -> int:
    """Run the load generator with the arguments in ``sys.argv``; return its exit code.

    Prints one JSON object on stdout. This is the command ``trimtab-ioload``.
    """

def ioload(args: Sequence[str | PathLike[str]]) -> tuple[str, int]:
    """Run the load generator; return its JSON report and its exit code.

    Parameters
    ----------
    args : sequence of str or path
        The command line without the program's name; ``trimtab-ioload --help`` lists it.

    Returns
    -------
    tuple of str and int
        The report (empty on a rank other than 0) and 0 done, 3 input or output failed,
        130 interrupted. A failed run has a report too: its ``status`` says so.

    Raises
    ------
    ValueError
        Wrong use; the message says what and gives a hint.
    """

class FlashDrive:
    """One page-mapped drive: units written out of place, superblocks cleaned when room runs out.

    Parameters
    ----------
    superblocks, units
        Superblocks for data and spare, and units in one; what is being filled and what is kept
        erased come on top.
    spare
        Part of them that is not for data.
    policy
        Which superblock is cleaned next.
    separate
        Whether copies fill a superblock of their own.
    seed
        Of what the policy draws.

    Raises
    ------
    ValueError
        No such drive can be; the message names the key.
    """

    def __init__(
        self,
        superblocks: int,
        units: int,
        spare: float,
        *,
        policy: Literal["greedy", "fifo", "cost-benefit"] | str = "greedy",
        separate: bool = False,
        seed: int = 0,
    ) -> None: ...
    @property
    def logical(self) -> int:
        """Units that the host can address."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Units written by the host and by collection, superblocks erased, units trimmed."""

    def write(self, unit: int) -> int:
        """Write a unit; return how many others were copied to make room for it."""

    def trim(self, unit: int) -> bool:
        """Give a unit back; return whether it held anything."""

    def place(self, unit: int) -> tuple[int, int] | None:
        """Return superblock and place in it of a unit, ``None`` where it holds nothing."""

    def superblocks(self) -> tuple[list[int], list[int]]:
        """Return valid units of each superblock, and how often each was erased."""

class FlashWorkload:
    """A host that writes at random for ever, without the interpreter's lock.

    Parameters
    ----------
    logical
        Units of the drive.
    live
        Part of them that holds data; each write then follows a trim of another unit.
    hot
        Part of the live units, and the share of writes that goes to it; writes then go over what
        is there.

    Raises
    ------
    ValueError
        A part or a share that is none.
    """

    def __init__(
        self,
        logical: int,
        *,
        live: float = 1.0,
        hot: tuple[float, float] | None = None,
        seed: int = 0,
    ) -> None: ...
    def fill(self, drive: FlashDrive) -> None:
        """Write every live unit once, in order."""

    def run(self, drive: FlashDrive, writes: int) -> None:
        """Write so many units."""

class BlockAllocator:
    """The block allocator of ldiskfs and ext4 in which every loop walks all groups.

    Parameters
    ----------
    groups, units
        Block groups, and units of each: a power of two.
    enter
        Free parts under which the search begins at c1, c2, c3; ``None``: there are no thresholds.

    Raises
    ------
    ValueError
        There can be no such file system; the message names the key.
    """

    def __init__(
        self,
        groups: int,
        units: int,
        *,
        enter: tuple[float, float, float] | None = (0.25, 0.15, 0.05),
    ) -> None: ...
    @property
    def free(self) -> int:
        """Units that are free."""

    @property
    def counts(self) -> dict[str, int]:
        """``requests``, ``whole``, ``goals``, ``scanned``, ``breaks``."""

    @property
    def loops(self) -> dict[str, list[int]]:
        """``hits``, ``useless`` and ``considered`` of c0 to c3."""

    def group(self, number: int) -> tuple[int, int, int] | None:
        """Return free units, free runs and the order of the largest buddy of a group."""

    def allocate(
        self, length: int, *, goal: tuple[int, int] | None = None, stream: bool = False
    ) -> tuple[int, int, int] | None:
        """Take up to so many units; return group, start, length; ``None``: nothing is free."""

    def release(self, group: int, start: int, length: int) -> None:
        """Give a stretch back."""

    def reset(self, group: int) -> None:
        """Send the next large request to a group, as writing to ``mb_last_group`` does."""

def run_window(
    *,
    write_bytes_per_s: float,
    read_bytes_per_s: float,
    write_iops: float,
    read_iops: float,
    amplification: float,
    seed: int,
    drives: int = 12,
    data: int = 8,
    parity: int = 2,
    chunk_bytes: int = 131_072,
    kind: Literal["gridraid", "draid", "raid10"] | str = "gridraid",
    throttle: bool = True,
    throttle_target_s: float = 0.002,
    write_class: Literal["plain", "sync", "direct"] | str = "plain",
    queue_depth: int = 1023,
    submitters: int = 8,
    serial_s: float = 0.0,
    write_latency_s: float = 25e-6,
    read_latency_s: float = 100e-6,
    transfer_bytes: int = 1_048_576,
    depth: int = 256,
    operations_per_s: float | None = None,
    read_share: float = 0.0,
    reads_per_s: float = 0.0,
    read_bytes: int = 4096,
    superblock_bytes: float | None = None,
    urgency: float | None = None,
    slice_s: float | None = None,
    slice_hit: float | None = None,
    erase_s: float | None = None,
    erase_hit: float | None = None,
    idle_s: float | None = None,
    slow_drive: tuple[int, float] | None = None,
    failed_drives: int = 0,
    rebuild_share: float = 0.0,
    warm_s: float = 1.0,
    duration_s: float = 5.0,
) -> dict[str, Any]:
    """Simulate seconds of one RAID group event by event, without the interpreter's lock.

    Parameters
    ----------
    write_bytes_per_s, read_bytes_per_s, write_iops, read_iops
        Of one drive, as its data sheet says.
    amplification
        Units that the flash programs for each of the host; 1: it never collects.
    drives, data, parity, chunk_bytes, kind
        The group; mirrors (``raid10``) have parity 0.
    throttle, throttle_target_s, write_class
        Writeback throttling of each drive's queue, and what the RAID layer's writes are to it.
    queue_depth
        Requests that a drive's queue holds.
    submitters
        Threads that hand requests down; one that sleeps for one drive serves no other.
    serial_s
        Seconds that each operation takes one after another in the whole group.
    transfer_bytes, depth, operations_per_s
        Size of an operation and how many are outstanding; with a rate they come by chance.
    read_share, reads_per_s, read_bytes
        Part of the operations that reads; other reads a second; bytes of a read of either kind.
    superblock_bytes, urgency, slice_s, slice_hit, erase_s, erase_hit, idle_s
        How drives collect; ``None``: as ``flash::window::Collection`` has it.
    slow_drive
        Number of a drive and the part of its speed that is left.
    failed_drives, rebuild_share
        Drives that are lost, and the part of every drive's speed that goes into rebuilding.
    warm_s, duration_s
        Seconds that are not counted, and those that are.

    Returns
    -------
    dict
        ``write_bytes_per_s``, ``read_bytes_per_s``, ``ceiling_bytes_per_s``; ``writes`` and
        ``reads``: ``count``, ``mean_s``, ``p50_s`` to ``p9999_s``, ``max_s``, or ``None``; ``met``:
        part of the writes that waited for collection; ``started``, ``ended``, ``outstanding``;
        ``sampled``: of ``looks`` at drives, one each millisecond, those in which they were
        ``collecting``, throttled ``below`` normal, ``held`` (a thread slept for them), each also
        ``_quiet``: while not collecting; ``starved_quiet``: without work then; ``steps_below``.

    Raises
    ------
    ValueError
        There can be no such group or load; the message names the key.
    """

def raid_write_ceiling(
    *,
    write_bytes_per_s: float,
    read_bytes_per_s: float,
    write_iops: float,
    read_iops: float,
    drives: int = 12,
    data: int = 8,
    parity: int = 2,
    chunk_bytes: int = 131_072,
    kind: Literal["gridraid", "draid", "raid10"] | str = "gridraid",
    transfer_bytes: int = 1_048_576,
) -> float:
    """Return the bytes a second that a group takes when every drive is busy and none collects.

    Raises
    ------
    ValueError
        There can be no such group.
    """

def raid_read_ceiling(
    *,
    read_bytes_per_s: float,
    drives: int,
    shared: int,
    slot_bytes_per_s: float,
    controllers: int,
) -> float:
    """Return the bytes a second read from one OST of several that share their drives.

    Parameters
    ----------
    read_bytes_per_s
        Of a drive.
    drives, shared
        Drives, and OSTs that they carry together, all of them busy.
    slot_bytes_per_s, controllers
        What the lanes between a drive and one controller carry; controllers that use each drive.
    """
