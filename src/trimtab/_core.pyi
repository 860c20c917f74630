"""The Rust core: thin bindings, one group of functions for each crate."""

from collections.abc import Sequence
from os import PathLike
from types import EllipsisType
from typing import Any, Final, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.simulation.ost_rate import WindowTerms

INDEX_COLUMNS: Final[tuple[tuple[str, str, bool], ...]]
"""The columns of an index in the order of its shards: name, kind (``binary``, ``string``,
``uint32``, ``uint64``, ``int64``, ``list[uint32]``) and whether a row may have no value."""

GONE_ERRNOS: Final[tuple[int, ...]]
"""What Lustre answers to a question about a FID that names nothing any more."""

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

def book(
    held: NDArray[np.float64],
    written: NDArray[np.float64],
    plan: NDArray[np.float64],
    entries: Sequence[tuple[float, Sequence[float], float]],
) -> None:
    """Add what users wrote in some epochs to what they hold; as if booked one by one.

    Parameters
    ----------
    held
        Lifetimes x users, changed in place.
    written
        Of each user since the start, changed in place.
    plan
        Of each user, to be multiplied by an entry's first number.
    entries
        Bytes of all users, the factor of each lifetime, and the part that was written.

    Raises
    ------
    ValueError
        Lengths differ.
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
        policy: str = "greedy",
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
    """The block allocator of ldiskfs and ext4, in one of its families.

    Parameters
    ----------
    groups, units
        Block groups, and units of each: a power of two.
    enter
        Free parts under which the search begins at the second, third, fourth criterion: Lustre's
        ``mb_c1_threshold`` to ``mb_c3_threshold``. Left out: those of the family's series (25, 15
        and 5 % for ``classic`` and ``optimize-scan``, none for the others). ``None``: none.
    family
        ``classic``: Linux before 5.13 and ldiskfs of RHEL 8 up to 8.7, every loop walks all groups.
        ``optimize-scan``: 5.13 to 6.4, and ldiskfs of RHEL 8.8 and 8.10: lists of groups for the
        first two loops. ``el9``: 6.5 to 6.16, five criteria. ``ordered``: from 6.17 on, the same
        criteria, groups of a list in the order of their numbers. The older two have the criteria
        power of two, average run, free space, anything; the newer two have before free space one
        that cuts the request down.
    max_to_scan, min_to_scan, max_linear_groups, max_trim_order
        As ``mb_max_to_scan``, ``mb_min_to_scan``, ``mb_max_linear_groups`` (4 on a rotating disk)
        and ``mb_best_avail_max_trim_order``.
    order2_bits
        Bits of the shortest request that the first criterion is for, as ``mb_order2_req``: 8 in
        Lustre's series, 2 in Linux. In units larger than a block it has to be less by as many bits.
    stripe
        Units of a RAID stripe, 0: none.
    flex_groups
        Groups of which the first is kept for metadata, 0: none.
    stream_goals
        Places from which large requests go on; one before Linux 6.17.

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
        enter: tuple[float, float, float] | EllipsisType | None = ...,
        family: str = "classic",
        max_to_scan: int = 200,
        min_to_scan: int = 10,
        order2_bits: int = 8,
        max_linear_groups: int = 0,
        max_trim_order: int = 3,
        stripe: int = 0,
        flex_groups: int = 0,
        stream_goals: int = 1,
    ) -> None: ...
    @property
    def family(self) -> str:
        """Which allocator it is."""

    @property
    def free(self) -> int:
        """Units that are free."""

    @property
    def counts(self) -> dict[str, int]:
        """``requests``, ``whole``, ``goals``, ``scanned``, ``breaks``."""

    @property
    def loops(self) -> dict[str, list[int]]:
        """``hits``, ``useless``, ``considered`` and ``bad_suggestions`` of each criterion.

        Lists of 4 (c0 to c3: power of two, average run, free space, anything), of 5 for ``el9`` and
        ``ordered`` (power of two, average run, cut down, free space, anything). As in the kernel, a
        group that a list gave counts twice as considered, and ``optimize-scan`` and ``el9`` count a
        criterion whose lists have nothing neither as a hit nor as useless.
        """

    def group(self, number: int) -> tuple[int, int, int] | None:
        """Return free units, free runs and the order of the largest buddy of a group."""

    def allocate(
        self,
        length: int,
        *,
        goal: tuple[int, int] | None = None,
        stream: bool = False,
        least: int | None = None,
        exact: bool = True,
        pointer: int = 0,
        data: bool = True,
    ) -> tuple[int, int, int] | None:
        """Take up to so many units; return group, start, length; ``None``: nothing is free.

        Parameters
        ----------
        goal
            Group and unit where they are wanted; the search begins at that group.
        stream
            A large request: the search begins where the last such one was served.
        least
            Units before the request was normalised, which are not cut off; left out: all.
        exact
            Whether just the goal is tried before any search.
        pointer
            A file's number: by it one of the ``stream_goals`` is chosen.
        data
            Whether it is for data; extent trees and directories are not.
        """

    def occupy(self, group: int, start: int, length: int) -> None:
        """Take a stretch for good and count nothing, as the metadata of a new file system."""

    def release(self, group: int, start: int, length: int) -> None:
        """Give a stretch back."""

    def reset(self, group: int) -> None:
        """Send the next large request to a group, as writing to ``mb_last_group`` does."""

class OstFleet:
    """OSTs in miniature, stepped in parallel: files, the block allocator and a drive in one space.

    A column is one OST. Amounts are fractions of its capacity; what is less than a request or a
    file is carried on to the next call. The same terms and seed give the same results, whatever
    the number of threads, and a column's do not depend on how many there are beside it.

    Parameters
    ----------
    columns
        How many.
    spare
        Usable spare of the drive: part of the flash that is not for data.
    groups
        Block groups of 2,048 units. A unit is the allocator's block and what the drive maps.
    superblock_units
        Units that the drive erases at once.
    policy, separate
        As of `FlashDrive`.
    family
        Of the allocator, as of `BlockAllocator`.
    enter
        Free fractions under which its search begins at c1, c2, c3; ``None``: no thresholds. They
        say nothing to ``el9`` and ``ordered``, which have none.
    discard
        Whether what is deleted is trimmed at once.
    size_median_units, size_sigma
        Log-normal sizes of users' files.
    largest
        The largest file, as a fraction of the OST.
    stream_units
        Units of the smallest request that is placed as a stream, as ``mb_small_req``; smaller ones
        go near others like them.
    writers
        Users' files that are written at a time.
    threads
        ``None``: one a processor.

    Raises
    ------
    ValueError
        There can be no such OST, or no such step; the message names the key.
    """

    def __init__(
        self,
        columns: int,
        *,
        spare: float,
        groups: int = 16,
        superblock_units: int = 64,
        policy: str = "greedy",
        separate: bool = False,
        family: str = "classic",
        enter: tuple[float, float, float] | None = (0.25, 0.15, 0.05),
        discard: bool = False,
        size_median_units: float = 4.0,
        size_sigma: float = 2.2,
        largest: float = 0.015625,
        stream_units: int = 16,
        writers: int = 8,
        seed: int = 0,
        threads: int | None = None,
    ) -> None: ...
    @property
    def columns(self) -> int:
        """How many OSTs there are."""

    @property
    def units(self) -> int:
        """Units of one."""

    def fill(self, fractions: Sequence[float], *, churn: float = 2.0) -> None:
        """Fill each to a fraction, then write and delete so many capacities: an OST in use.

        Two capacities bring layout and write amplification close to where they stay.
        """

    def advance(
        self,
        written: Sequence[float],
        deleted: Sequence[float],
        purged: Sequence[float],
        burst: Sequence[float],
        burst_files: Sequence[int],
        resets: Sequence[float],
    ) -> None:
        """Let one step of time pass; one value a column.

        A benchmark writes ``burst`` in ``burst_files`` files and deletes them; then users write,
        and delete files at random, and the oldest are purged, evenly mixed. ``resets`` send the
        allocator to group 0, evenly spread over all requests. What does not fit is counted.
        """

    def trim(self, columns: Sequence[int]) -> list[float]:
        """Hand groups' free space to the drives, of those freed in since the last time.

        Returns the fraction of each OST that its drive still held.
        """

    def reset(self, columns: Sequence[int]) -> None:
        """Send the next large request to group 0, as writing 0 to ``mb_last_group`` does."""

    def configure(
        self,
        columns: Sequence[int],
        *,
        enter: tuple[float, float, float] | None = None,
        discard: bool | None = None,
        family: str | None = None,
    ) -> None:
        """Change settings from now on; ``None`` leaves one as it is.

        Another family begins as after a mount; what is allocated stays.
        """

    def add(self, columns: int) -> None:
        """Add empty OSTs behind the others."""

    def figures(self, names: Sequence[str]) -> bytes:
        """Return some of what `state` has: names x columns, doubles of this machine.

        0 where `state` has no such name.
        """

    def state(self) -> dict[str, list[float]]:
        """Return counts since the beginning and how each is now, one value a column.

        Returns
        -------
        dict of str to list of float
            Counts: ``requests`` (of up to 16 units), ``extents`` that they were given, ``goals``
            (those given right where wanted), ``scanned`` (free stretches looked at), ``hits_c0``
            to ``hits_c4``, ``useless_c0`` and ``considered_c0`` likewise (the latter in groups),
            ``written_units``, ``copied_units``, ``erased_superblocks``, ``trimmed_units``,
            ``refused_units`` (no room).
            Now: ``used`` by files and ``live`` in the drive, fractions of the capacity;
            ``free_runs`` and ``free_run_units`` (their mean length), ``files``, ``wear_mean`` and
            ``wear_max`` in erasures of a superblock.
        """

def run_window(terms: WindowTerms) -> dict[str, Any]:
    """Simulate seconds of one RAID group event by event, without the interpreter's lock.

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

def raid_write_ceiling(terms: WindowTerms) -> float:
    """Return the bytes a second that a group takes when every drive is busy and none collects.

    Raises
    ------
    ValueError
        There can be no such group; the message names the key.
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

class ScanProgress:
    """How far a scan is.

    Attributes
    ----------
    entries
        Names seen so far, the root not among them.
    directories
        Directories read to their end.
    pending
        Directories that it knows of and that nobody reads yet.
    vanished
        Names that were gone when they were looked at.
    elsewhere
        Names on which something else is mounted; they are no part of the index.
    unread
        Names and directories that could not be read.
    allocated_bytes
        What the entries take up; a file of several names is counted with each.
    elapsed_s
        How long it has taken, earlier runs of the same scan included.
    """

    entries: Final[int]
    directories: Final[int]
    pending: Final[int]
    vanished: Final[int]
    elsewhere: Final[int]
    unread: Final[int]
    allocated_bytes: Final[int]
    elapsed_s: Final[float]

class ScanResult:
    """What a scan came to.

    Attributes
    ----------
    entries, directories, vanished, elsewhere, allocated_bytes, elapsed_s
        As of `ScanProgress`; ``entries`` without names that were carried over.
    unchanged, carried
        Directories that were not read since they hold the names that the base lists, and names in
        them that are no directories.
    unread
        Path relative to the root and error number of what could not be read: the first 10,000.
        With any of them the index is incomplete.
    unread_count
        How many there were.
    started_ns, ended_ns
        When it first began, and when it ended or was stopped, in nanoseconds since 1970.
    shards, rows
        Names of the files of the index, and how many rows each has.
    stopped
        Whether it was stopped; another `NamespaceScan` of the same root and index goes on.
    """

    entries: Final[int]
    directories: Final[int]
    vanished: Final[int]
    elsewhere: Final[int]
    allocated_bytes: Final[int]
    unchanged: Final[int]
    carried: Final[int]
    unread: Final[list[tuple[bytes, int]]]
    unread_count: Final[int]
    started_ns: Final[int]
    ended_ns: Final[int]
    elapsed_s: Final[float]
    shards: Final[list[str]]
    rows: Final[list[int]]
    stopped: Final[bool]

class NamespaceScan:
    """A parallel metadata scan into the Parquet shards of an index, in threads of its own.

    It follows no link and stays on the device and the mount of the root. Where the index holds a
    checkpoint of a scan of the same root, it goes on from there, whatever ended that one.

    Parameters
    ----------
    root
        The directory to scan; its last component may not be a link.
    index
        The directory of the index; made, for its owner only, if it is not there.
    threads
        Calls under way at a time, 1 to 256, whatever the number of processors. 0: one a
        processor, and 64 on Lustre.
    checkpoint_s
        Seconds between checkpoints; in a long scan a twentieth of what it took so far.
    project
        Whether the project of each file is asked for: one call more for each.
    layout
        Whether stripes, OSTs and pools are read, on Lustre.
    lustre
        Whether identities are FIDs, and times and sizes what the MDS knows of them.
    exact_sizes
        Whether all servers of a file are asked for its size.
    descriptors
        Directories that may stay open; fewer where the limit of the process says so.
    delay_s
        Seconds by which each call is held up: ``threads / delay_s`` calls a second at most.
    latency_s_max
        A call that takes longer is late: while more than one in a hundred is, fewer are made, on
        Lustre to the same MDT.
    each_mdt
        On Lustre: seconds that names of one MDT are apart at least, and threads that ask it at
        most. Which MDT a name lies on is known from its inode number before it is asked for.
    device
        Device number that rows get, where several hosts scan one file system; ``None``: that of
        the root on this host.
    base
        An earlier index that the scan starts from: its id, its shards (each a path, or a path and
        the file with the numbers of its rows that count no more), the time in nanoseconds since
        1970 that change times of directories have to be older than, and whether directories that
        had no names are read again. Of what lies in unchanged directories only directories are
        written; the rest is in the base.

    Raises
    ------
    ValueError
        A number that makes no sense.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        index: str | PathLike[str],
        *,
        threads: int = 0,
        checkpoint_s: float = 30.0,
        project: bool = False,
        layout: bool = False,
        lustre: bool = False,
        exact_sizes: bool = False,
        descriptors: int = 1024,
        delay_s: float = 0.0,
        latency_s_max: float | None = None,
        each_mdt: tuple[float, int] | None = None,
        device: int | None = None,
        base: tuple[str, Sequence[str | tuple[str, str]], int, bool] | None = None,
    ) -> None: ...
    def start(self) -> None:
        """Begin; it goes on until it ends or is stopped, whatever becomes of this object.

        Raises
        ------
        RuntimeError
            It was started before.
        """

    def stop(self) -> None:
        """Ask it to write a checkpoint and end."""

    def wait(self, timeout_s: float) -> bool:
        """Wait so long for the end; return whether it came."""

    def progress(self) -> ScanProgress:
        """Return how far it is."""

    def result(self) -> ScanResult:
        """Return what it came to.

        Raises
        ------
        OSError
            The root, or a file of the index, could not be read or written.
        ValueError
            The index is another scan's, or whole, or being written by another process.
        DataError
            The checkpoint or a shard is damaged.
        RuntimeError
            The scan has not ended.
        """

class Rules:
    """Who may be deleted: the one definition, for curves, candidates and the last check.

    Parameters
    ----------
    counted : sequence of str
        Of ``atime``, ``mtime``, ``ctime``: the most recent of them is a file's last use. A file
        without one of them stays.
    as_of_s
        When the metadata were taken, in seconds since 1970: no time is believed to be later.
    old_enough_before_s
        Only what was last used before this may go, whatever the horizon.
    minimum_size_bytes
        Files of fewer bytes stay.
    exempt_paths : sequence of bytes
        Relative to the root, without a slash in front or behind; the file, or all that lies under
        the directory. Empty: the root.
    exempt_users, exempt_groups, exempt_projects : sequence of int
        What belongs to them stays.
    linked
        Whether files with several names may go; all of their names have to be eligible then.

    Raises
    ------
    ValueError
        A time of another name, or a path that can be written in two ways.
    """

    def __init__(
        self,
        *,
        counted: Sequence[str],
        as_of_s: int,
        old_enough_before_s: int,
        minimum_size_bytes: int,
        exempt_paths: Sequence[bytes],
        exempt_users: Sequence[int],
        exempt_groups: Sequence[int],
        exempt_projects: Sequence[int],
        linked: bool,
    ) -> None: ...

_ShardPath: TypeAlias = str | PathLike[str] | tuple[str | PathLike[str], str | PathLike[str]]
"""A shard, or a shard and the file with the numbers of its rows that count no more."""

def tally(
    shards: Sequence[_ShardPath],
    rules: Rules,
    *,
    threads: int = 0,
    users: bool = True,
    projects: bool = False,
    osts: bool = False,
) -> Tally:
    """Count what lies in the shards of an index, without the interpreter's lock.

    Parameters
    ----------
    shards
        Parquet files with the columns of an index, whoever wrote them; each may be a pair with the
        file that names its rows which count no more.
    threads
        0: one a core.
    users, projects, osts
        Which curves are wanted besides the one of all.

    Raises
    ------
    DataError
        A file is not what it should be; which, and what is wrong.
    OSError
        A file cannot be opened or read.
    ValueError
        The bytes of the index add up to more than 2^64.
    """

def select(
    shards: Sequence[_ShardPath],
    rules: Rules,
    *,
    before_s: int,
    out: str | PathLike[str],
    threads: int = 0,
    memory_bytes: int = 2**30,
) -> tuple[int, int]:
    """Write the candidates of a cut-off to a Parquet file; return their files and bytes.

    Parameters
    ----------
    before_s
        Only what was last used before this, by the rules.
    out
        The file; it appears when it is complete and durable. Its rows have the columns of the index
        and are in the order of the hour of ``last_use_s``, which is the last use by the rules;
        within an hour by parent and name.
    memory_bytes
        About so much is used for rows; more of them go through the disk, beside ``out``.

    Returns
    -------
    tuple of int and int
        Files and allocated bytes. A file with several names counts once, and has a row for each.

    Raises
    ------
    DataError
        A file is not what it should be, or contradicts itself.
    OSError
        A file cannot be read or written.
    """

def select_part(
    shards: Sequence[_ShardPath],
    rules: Rules,
    *,
    before_s: int,
    out: str | PathLike[str],
    linked: Tally | None = None,
    memory_bytes: int = 2**28,
) -> tuple[int, int]:
    """Write the candidates of some shards of an index, as `select` would; see `merge_parts`.

    Parameters
    ----------
    linked
        A tally of the whole index; needed where the rules let files with several names go.

    Returns
    -------
    tuple of int and int
        Files with one name, and their allocated bytes.
    """

def merge_parts(parts: Sequence[str | PathLike[str]], out: str | PathLike[str]) -> None:
    """Merge what `select_part` wrote of all shards into the file that `select` would write."""

def look_up(
    root: str | PathLike[str],
    ids: Sequence[bytes],
    *,
    out: str | PathLike[str],
    project: bool = False,
    layout: bool = False,
    exact_sizes: bool = False,
    device: int | None = None,
    threads: int = 0,
    deadline_s: float = 60.0,
) -> tuple[bytes, list[bytes], list[tuple[bytes, int]], list[bytes], list[tuple[bytes, bytes]]]:
    """Look at files of a Lustre by their FIDs, and write a row for each of their names.

    Parameters
    ----------
    root
        Of the mounted file system.
    ids
        16 bytes each, as an index keeps a FID.
    out
        A Parquet file with the columns of an index, except that ``parent`` is the directory's FID.
    project, layout, exact_sizes
        As a scan asks for them.
    device
        What stands in that column; ``None``: as this host numbers the file system.
    deadline_s
        Of a call that does not return; its file fails with ``ETIMEDOUT``.

    Returns
    -------
    tuple
        The FID of the root; those without a name; those that could not be looked at, with the
        error number; those of which Lustre does not keep all names; directories that are stripes of
        those that they are in, which no client sees.
    """

def children(
    root: str | PathLike[str],
    ids: Sequence[bytes],
    *,
    threads: int = 0,
    deadline_s: float = 60.0,
) -> tuple[list[bytes], list[tuple[bytes, int]]]:
    """Return what lies in directories of a Lustre, by FID; and which of them could not be read.

    A directory that is gone holds nothing.
    """

class Columns:
    """Rows as an Arrow array, to be taken over once."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Hand the rows over, by Arrow's C data interface.

        Raises
        ------
        OverflowError
            The texts of a column have more than 4 GiB.
        """

def place_paths(
    paths: Sequence[bytes], root: bytes, beneath: bytes, absolute: bool | None = None
) -> tuple[Columns, list[tuple[int, str]]]:
    """Return ``parent`` and ``name`` of paths, null where one is not beneath the root.

    Parameters
    ----------
    absolute
        Whether all paths have to be absolute, or relative; ``None``: each may be either.

    Returns
    -------
    tuple
        The columns; the index of each path that has no place, and why: the root's reason is empty.
    """

def csv_head(data: bytes, delimiter: bytes, ended: bool) -> tuple[list[bytes], int] | None:
    """Return the fields of the first record of a table and its length; ``None``: it goes on.

    Raises
    ------
    ValueError
        It is no CSV.
    """

def csv_rows(
    data: bytes, delimiter: bytes, wanted: Sequence[tuple[int, bool]], fields: int, ended: bool
) -> tuple[Columns, list[tuple[int, int, str]], int, int]:
    """Return the rows of a part of a table, from the beginning of a record.

    Parameters
    ----------
    wanted
        Of each column its place in a record, and whether it may hold numbers.
    fields
        So many has each record.
    ended
        Whether nothing follows the data; otherwise the last record may go on.

    Returns
    -------
    tuple
        Of each row its number among the records, where it begins and ends, and the columns wanted:
        UInt64 where all is digits that fit, otherwise Binary, null for an empty field. Number,
        place and reason of records that are no CSV or have other fields. How many records there
        are, empty lines among them, and what they take.
    """

class RecordReader:
    """Reads records of a list, block after block: fields, a tab behind each, and a path.

    Parameters
    ----------
    fields
        Of each the column (empty: none), its shape and its reader, by the names of
        ``crates/namespace/src/records/fields.rs``.
    root, beneath
        What absolute paths begin with, and what others do.
    terminator
        The byte that ends a record.
    joined
        Whether a name may hold that byte: a record is whole when the next one begins.
    token
        What each record begins with, a tab behind it.
    vanishing
        Whether an empty first field stands for a file that is gone.
    closed
        Whether each record repeats its first field behind the path.
    foreign
        What no path holds; empty: it may hold anything.
    latest_ns
        No file was changed later; used or written neither, where records are not closed.
    record_max_bytes
        More is no record.
    shown
        How many refused records are kept to be shown, in each step.
    """

    def __init__(
        self,
        fields: Sequence[tuple[str, str, str]],
        *,
        root: bytes,
        beneath: bytes,
        terminator: int,
        joined: bool,
        token: bytes | None,
        vanishing: bool,
        closed: bool,
        foreign: bytes,
        latest_ns: int,
        record_max_bytes: int,
        shown: int,
    ) -> None: ...
    def add(self, block: bytes, begin: int, end: int, number: int, offset: int) -> None:
        """Take whole records, part of a block; number and offset are those of the first."""

    def finish(self) -> None:
        """Take the record that the list ends with."""

    def take(self) -> RecordBatch:
        """Return what the records since the last time became."""

    @property
    def ended(self) -> tuple[int | None, bool]:
        """When the list ended, in seconds, if it said so; whether nothing came after that."""

class RecordBatch(Columns):
    """Rows, and what was refused."""

    @property
    def records(self) -> int:
        """How many records were whole, with those that were refused."""

    @property
    def vanished(self) -> int:
        """How many of them are of files that were gone."""

    def refused(self) -> tuple[list[tuple[str, int]], list[tuple[str, int, int, bytes]]]:
        """Return how many by reason; and of the first their reason, number, offset and bytes."""

def glimpse(
    root: str | PathLike[str],
    files: Sequence[tuple[bytes, bytes, bytes]],
    *,
    lustre: bool,
    project: bool = False,
    threads: int = 0,
    deadline_s: float = 60.0,
) -> tuple[list[int], list[int], list[int | None], list[int]]:
    """Look at files as all of their servers know them now.

    Parameters
    ----------
    files
        Identity, directory relative to the root, and name of each.
    lustre
        Whether they are found by their FIDs; else by their names.
    project
        Whether the project of each is asked for: an open and a call more.
    deadline_s
        For how long a file is waited for whose servers do not answer: its error is ``ETIMEDOUT``,
        and the thread that asked stays until they do. Once one was late, others have a sixth.

    Returns
    -------
    tuple
        Size, allocated bytes, project and error number of each; an error number of 0 is none.

    Raises
    ------
    RefusedError
        The root is not on Lustre, where ``lustre`` is asked for.
    OSError
        The root cannot be opened.
    """

class Tally:
    """The amounts of an index by age; tallies of any sets of its shards merge exactly.

    Arrays are ``bytes`` for `numpy.frombuffer`: ``int64`` buckets, ``uint64`` files, ``uint64``
    allocated bytes, the oldest first, and only buckets that hold something.
    """

    @property
    def files(self) -> int:
        """Every regular file, eligible or not; one with several names once."""

    @property
    def allocated_bytes(self) -> int:
        """What they take up."""

    @property
    def future_files(self) -> int:
        """Files of which a time that counts lies after the scan."""

    @property
    def latest_future_s(self) -> int | None:
        """The latest such time, in seconds since 1970."""

    def merge(self, other: Tally) -> None:
        """Add a tally of other shards of the same index.

        Raises
        ------
        ValueError
            It was made by other rules or for other curves.
        """

    def to_bytes(self) -> bytes:
        """Return all it knows; the same tally is always the same bytes."""

    @staticmethod
    def from_bytes(data: bytes) -> Tally:
        """Return the tally that made the bytes.

        Raises
        ------
        ValueError
            They are no tally.
        """

    def kept(self) -> dict[str, tuple[int, int]]:
        """Return files and bytes by the first reason for which they stay.

        The reasons are ``not_regular`` (counted by names, and not part of the files),
        ``exempt_path``, ``exempt_user``, ``exempt_group``, ``exempt_project``,
        ``project_unknown`` (while any project is exempt), ``other_links``, ``too_small``,
        ``time_unknown``, ``too_young``.
        """

    def hours(self) -> tuple[bytes, bytes, bytes]:
        """Return what is eligible by the hour of its last use since 1970."""

    def users(self) -> list[int]:
        """Return the users of whom something is eligible."""

    def projects(self) -> list[int]:
        """Return the projects of which something is eligible."""

    def osts(self) -> list[int]:
        """Return the OSTs that hold something eligible."""

    def total_of_user(self, uid: int) -> tuple[int, int]:
        """Return files and bytes of a user, eligible or not."""

    def total_of_project(self, project: int) -> tuple[int, int]:
        """Return files and bytes of a project, eligible or not."""

    def days_of_user(self, uid: int) -> tuple[bytes, bytes, bytes]:
        """Return what of a user's is eligible by the day of its last use since 1970."""

    def days_of_project(self, project: int) -> tuple[bytes, bytes, bytes]:
        """Return what of a project's is eligible by the day of its last use since 1970."""

    def hours_of_ost(self, ost: int) -> tuple[bytes, bytes, bytes]:
        """Return what is eligible on an OST by the hour.

        The bytes of a file are split evenly over its stripes, the remainder with the first.
        """

    def unplaced(self) -> tuple[int, int]:
        """Return what is eligible and lies on OSTs that the index does not know."""

REMOVAL_OUTCOMES: Final[dict[int, str]]
"""The name of each code in `RemovalBatch.outcomes`: ``deleted``, ``would_delete``, ``gone``,
``touched``, ``changed_owner``, ``changed_type``, ``not_same``, ``moved``, ``other_links``,
``open``, ``open_unknown``, ``immutable``, ``exempt``, ``too_small``, ``too_young``,
``time_unknown``, ``cannot_return``, ``in_quarantine``, ``denied``, ``failed``,
``names_unknown``, ``put_back``, ``size_unknown``, ``replaced``, ``too_late``,
``changed_project``, ``changed_size``, ``changed_mtime``, ``changed_atime``, ``ctime_only``. A code
never changes its meaning."""

class _Quarantine(TypedDict):
    prefix: str
    stranded: str
    reserve: str
    ready: str
    cell_files: dict[str, tuple[int, int]]

QUARANTINE: Final[_Quarantine]
"""What is in a quarantine besides files that were taken: how its name begins, the names of the
directories for stranded files and for the reserve, how the names of ready cells begin, and the
files of a cell with their bytes and their bytes for each row of a batch."""

class Candidates:
    """The candidates of a plan, open for reading.

    Parameters
    ----------
    path
        Their Parquet file; of an open one, for messages only.
    descriptor
        An open descriptor of the file. It is duplicated, and its position does not matter.
    parts
        Rows, bytes and SHA-256 of each row group, and in the end of what lies behind them, each
        part where the one before ends. What lies behind the row groups is verified now, each of
        them when its rows are read; rows are decoded from the bytes in memory that were verified.
        ``None``: nothing is verified.

    Raises
    ------
    DataError
        The file is not what it should be.
    RefusedError
        It is not what was signed.
    OSError
        It cannot be read.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        descriptor: int | None = None,
        parts: Sequence[tuple[int, int, bytes]] | None = None,
    ) -> None: ...
    @property
    def rows(self) -> int:
        """How many candidates the plan has."""

    def listed(self, first: int, count: int) -> tuple[bytes, bytes]:
        """Return owners and allocated bytes of rows, and of those that follow in the last group.

        Both are arrays, of 32 and of 64 bits a row. The groups of these rows stay in memory,
        verified, until others are asked for.

        Raises
        ------
        RefusedError
            One of the groups is not what was signed.
        """

def parts_of(
    path: str | PathLike[str], descriptor: int
) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """Return the SHA-256 of an open file of candidates and its parts, each byte read once.

    The parts are as `Candidates` takes them; the path is for messages.

    Raises
    ------
    DataError
        The file is not Parquet, or its row groups are not in order.
    """

class Removal:
    """The deletion of the candidates of one plan, each verified at the last moment.

    Parameters
    ----------
    candidates
        Those of the plan; rows are numbered from 0 in their order.
    root
        The directory that the paths of the plan are relative to.
    before_s
        The cut-off: only what was last used before this goes, in seconds since 1970.
    quarantine
        The name of a directory that is made beneath the root while files are deleted. Unused with
        ``lustre``.
    time_resolution_ns
        How finely the source of the index knew the times.
    open_files
        Whether files may go that somebody has, or may have, open. Lustre never deletes such.
    lustre
        Whether files are deleted by FID; the rows then have FIDs.
    exact_sizes
        Whether the plan has sizes as they were. A size that an MDS knew lazily is no sign of use.
    listed_s
        When the plan's index was begun: another file of a planned name that was born since is
        ``replaced`` and not ``not_same``.
    root_descriptor
        An open descriptor of the root, which is gone by in place of its path.

    Raises
    ------
    RefusedError
        The root is not on Lustre, where ``lustre`` is asked for.
    OSError
        The root cannot be opened.
    ValueError
        Wrong use.
    """

    def __init__(
        self,
        candidates: Candidates,
        root: str | PathLike[str],
        rules: Rules,
        *,
        before_s: int,
        quarantine: str,
        time_resolution_ns: int = 1,
        threads: int = 2,
        open_files: bool = False,
        lustre: bool = False,
        exact_sizes: bool = True,
        listed_s: int | None = None,
        root_descriptor: int | None = None,
    ) -> None: ...
    @property
    def rows(self) -> int:
        """How many candidates the plan has."""

    @property
    def watches(self) -> bool | None:
        """Whether a change that moves only the ctime is seen between the last look and the removal.

        ``None`` before anything was deleted, and on Lustre.
        """

    def check(self, first: int, count: int) -> RemovalBatch:
        """Return what a deletion of these rows would come to; nothing is touched.

        Raises
        ------
        ValueError
            There are no such rows.
        DataError
            The file of the plan is not what it should be.
        """

    def delete(self, first: int, count: int, until_s: float | None = None) -> RemovalBatch:
        """Delete each of these rows that passes every check.

        Once this host is up for ``until_s`` seconds (``CLOCK_BOOTTIME``) no more file is taken: the
        rows that are left are ``too_late``.

        After an interruption within a batch, `recover` that batch first: what was noted about it
        is forgotten here.

        Raises
        ------
        RefusedError
            Somebody else could reach into the quarantine, another run is using it, or this kernel
            or file system lacks what a safe deletion needs. Nothing was deleted.
        OSError
            The quarantine cannot be made. Nothing was deleted.
        """

    def recover(self, first: int, count: int) -> RemovalBatch:
        """Delete these rows after a run was interrupted while it did so.

        What was begun is ended, the other rows are gone through as by `delete`. What the
        interrupted run deleted is ``deleted`` here, on Lustre ``gone``.

        Raises
        ------
        RefusedError, OSError
            As `delete`.
        """

    def take_over(self, first: int, count: int, quarantines: list[str]) -> RemovalBatch:
        """Say what became of rows that other processes had begun to delete and have not ended.

        They may be alive: what they have aside in these quarantines is put back, and the
        directories in there are removed, so that they delete nothing any more; only then the rows
        are looked at. Asked of a remover for which nothing may go.

        Raises
        ------
        RefusedError
            As `delete`; or something lies aside there that nothing explains.
        OSError
            As `delete`.
        """

    def sweep(self) -> tuple[list[tuple[int, int]], list[bytes]]:
        """Put back what interrupted runs have left aside, found by the whole plan.

        Asked of a remover for which nothing may go, and after `recover` of an interrupted batch,
        which knows what it had taken. Returns the rows whose files lay there, each with its code of
        `REMOVAL_OUTCOMES`, and the paths, relative to the root, of what waits there for a person.

        Raises
        ------
        RefusedError, OSError, DataError
            As `delete`.
        """

def quarantines(root: str | PathLike[str]) -> list[bytes]:
    """Return the names of the directories in a root where files of plans wait for a person.

    Only directories of the process's user or root, 0700: others may bear such a name.
    """

def files_aside(
    root: str | PathLike[str], *, restore: bool = False, into: bytes | None = None
) -> list[dict[str, Any]]:
    """Return the files in all quarantines of a root; with ``restore``, put each back.

    A dict each: ``quarantine``, ``place``, ``origin``, ``row``, ``uid``, ``size_bytes``, ``fate``.
    No name is replaced. ``into`` is a directory beneath the root, relative to it, for files whose
    own is gone.

    Raises
    ------
    OSError
        The root, a quarantine or ``into`` cannot be opened.
    """

class RemovalBatch:
    """What became of a batch of rows."""

    @property
    def outcomes(self) -> bytes:
        """One code of `REMOVAL_OUTCOMES` for each row, in their order."""

    @property
    def freed_bytes(self) -> int:
        """What the deleted files took up; files that have names left are not counted."""

    @property
    def deleted(self) -> int:
        """How many rows were deleted."""

    @property
    def errors(self) -> list[tuple[int, int]]:
        """Rows that were denied or failed, by their number in the plan, with the system's error."""

    @property
    def unexplained(self) -> list[bytes]:
        """Paths, relative to the root, of files in quarantine that no row explains.

        They are never deleted: a person decides. Only `recover` looks for them.
        """

    @property
    def elapsed_s(self) -> float:
        """How long the batch took."""

    @property
    def latency_s_median(self) -> float:
        """How long one row took, at the median."""

    @property
    def latency_s_p99(self) -> float:
        """How long one row took, at the 99th percentile."""
