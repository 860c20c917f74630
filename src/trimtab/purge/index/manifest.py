"""What an index is: of which file system, taken when and how, how far it can be trusted.

Values only; `trimtab.purge.index.manifest_file` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.units import EpochNs

ELSEWHERE: Final = "beneath the root: other file systems, and not part of it"
"""How a scan ends its note about mounts; what they hide cannot be told from an index."""
SCHEMA_VERSION: Final = 2
"""Of ``manifest.json`` and of the columns of the shards; raised when either changes its meaning.
Unreleased versions wrote 1, with and without the columns and keys of today."""

EXAMPLES_MAXIMUM: Final = 20
"""So many refused records are kept with their text; all are counted."""


class Source(StrEnum):
    """Which program looked at the file system."""

    SCAN = "scan"
    CSV = "csv"
    PARQUET = "parquet"
    GNU_FIND = "gnu-find"
    LFS_FIND = "lfs-find"
    MFU = "mfu"


class TimeTrust(StrEnum):
    """How far the times can be trusted.

    Attributes
    ----------
    EXACT_NS
        As ``stat`` says, to the nanosecond.
    SECONDS
        As ``stat`` says, rounded down to seconds.
    MDS_ONLY
        Of a Lustre metadata server, which hears of a use when the file is closed: the truth may be
        younger, never older. What looks old has to be looked at again before it is deleted.
    """

    EXACT_NS = "exact_ns"
    SECONDS = "seconds"
    MDS_ONLY = "mds_only"


class Lack(StrEnum):
    """What the source does not tell; what stands in the column then is said here.

    Attributes
    ----------
    IDENTITY
        Neither inode number nor FID: the number of the row, with the first of 16 bytes 0x80.
    DEVICE
        No device number: 0.
    LINKS
        No count of links: 1. A file with several names is counted once for each.
    BLOCKS
        Not what a file takes up: its length, which is more for a sparse and less for a small file.
    TYPE
        Not what a name is: all were taken to be regular files.
    ACCESS, MODIFICATION, CHANGE, BIRTH, PROJECT, LAYOUT, POOL
        Null.
    GROUP
        No group: 4294967295, which is no group.
    PLAIN_NAMES
        A name with a line feed in it cannot be told from two records.
    READS
        Reads since the scan: changelogs do not record them. An access time is that of the scan,
        or of the last change of the file since.
    IN_PLACE
        Changes of files in place since a directory was read: its rows were carried over.
    """

    IDENTITY = "identity"
    DEVICE = "device"
    LINKS = "links"
    BLOCKS = "blocks"
    TYPE = "type"
    ACCESS = "access time"
    MODIFICATION = "modification time"
    CHANGE = "change time"
    BIRTH = "birth time"
    PROJECT = "project"
    LAYOUT = "layout"
    POOL = "pool"
    GROUP = "group"
    PLAIN_NAMES = "unambiguous names"
    READS = "reads since the scan"
    IN_PLACE = "changes in place"


@dataclass(frozen=True, slots=True)
class FileSystemIdentity:
    """By what a file system is known again.

    Attributes
    ----------
    kind
        As the mount table names the type: ``ext4``, ``lustre``.
    name
        What is mounted, as the mount table has it; on Lustre the file system's name alone.
    fsid
        ``f_fsid`` of statvfs(3); on Lustre it follows from the mount and says nothing. ``None``
        where it is 0 or the device's number, which the next file system there has as well.
    device
        ``st_dev`` of the root; it may be another after the next boot.
    uuid
        Of the file system, as the kernel says it; ``None`` where it has none.
    mount
        Which mount it is, of which boot: another one as soon as it is mounted anew.
    made_ns
        When the root directory of a Lustre was made, in nanoseconds since 1970: two may have one
        name. ``None`` where clients do not say it (before 2.14), or mount a part only.
    root_inode, root_path
        Of the directory that was looked at: its inode number, and its path within the file system,
        whatever is mounted where. Another directory may be mounted over its path.
    """

    kind: str
    name: str | None = None
    fsid: int | None = None
    device: int | None = None
    uuid: str | None = None
    mount: str | None = None
    made_ns: EpochNs | None = None
    root_inode: int | None = None
    root_path: str | None = None

    @property
    def key(self) -> str:
        """What it is called where one text has to do: by its UUID, its ``f_fsid`` or its source."""
        mark = None if self.kind == "lustre" else self.uuid or self.fsid
        return f"{self.kind} {mark or self.name}"

    def is_same(self, other: FileSystemIdentity) -> bool:
        """Return whether both are the same file system for certain.

        What has neither a UUID nor an ``f_fsid`` of its own (FUSE, NFS) is the same only while the
        same source stays mounted: of what is mounted there next nothing can be told.
        """
        if not self.may_be_same(other):
            return False
        if self.kind == "lustre":
            return self.name is not None and self.name == other.name
        if self._says("uuid", other) or self._says("fsid", other):
            return True
        return self._says("name", other) and self._says("mount", other)

    def may_be_same(self, other: FileSystemIdentity) -> bool:
        """Return whether nothing says that they are two: enough to compare, never to delete."""
        if self.kind != other.kind:
            return False
        known = ("name", "made_ns") if self.kind == "lustre" else ("uuid", "fsid")
        return not any(self._contradicts(word, other) for word in known)

    def shares_caps(self, other: FileSystemIdentity) -> bool:
        """Return whether what was deleted on one counts on the other: unless they surely are two.

        What has no mark of its own (FUSE, NFS, an old tmpfs) is known by its source, also when it
        is mounted anew.
        """
        marks = ("uuid", "fsid", "name")
        return self.may_be_same(other) and any(self._says(mark, other) for mark in marks)

    def has_another_root(self, other: FileSystemIdentity) -> bool:
        """Return whether the same path leads to two directories, of one file system."""
        return any(self._contradicts(word, other) for word in ("root_inode", "root_path"))

    def _contradicts(self, word: str, other: FileSystemIdentity) -> bool:
        ours, theirs = getattr(self, word), getattr(other, word)
        return _is_known(ours) and _is_known(theirs) and ours != theirs

    def _says(self, word: str, other: FileSystemIdentity) -> bool:
        return _is_known(getattr(self, word)) and getattr(self, word) == getattr(other, word)


def _is_known(word: str | int | None) -> bool:
    """Return whether it says anything: an ``f_fsid`` of 0 is that of every file system without."""
    return word is not None and word not in ("", 0)


@dataclass(frozen=True, slots=True)
class Unread:
    """A subtree that could not be read.

    Attributes
    ----------
    path
        Relative to the root; empty: the root itself.
    reason
        What the system said.
    """

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A record of a list that could not be taken.

    Attributes
    ----------
    record
        Its number in the list, from 1; ``None`` where it is of the list as a whole.
    offset_bytes
        Where it begins.
    reason
        Why.
    text
        Its beginning, made visible.
    """

    record: int | None
    offset_bytes: int | None
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """The rows of a shard that later shards replace.

    Attributes
    ----------
    name
        Of the file with their numbers, 32 bits each, little-endian, increasing.
    sha256
        In hexadecimal.
    """

    name: str
    rows: int
    sha256: str

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return 4 * self.rows


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file of an index.

    Attributes
    ----------
    name
        Of the file, within the directory of the index.
    rows
        In the file.
    sha256
        In hexadecimal; ``None`` where it was not taken.
    superseded
        Rows of it that count no more; ``None``: all count.
    read_ns
        When the scan that read its rows began; ``None``: the one that made the index.
    """

    name: str
    rows: int
    size_bytes: int
    sha256: str | None
    superseded: Superseded | None = None
    read_ns: EpochNs | None = None

    @property
    def rows_in_force(self) -> int:
        """How many rows count."""
        return self.rows - (0 if self.superseded is None else self.superseded.rows)


class SizesMode(StrEnum):
    """How a scan of Lustre learned sizes."""

    LAZY = "lazy"
    """As the MDS had last been told: often wrong for what was written shortly before."""
    SAMPLED = "sampled"
    """The same, and a random sample was looked at exactly."""
    EXACT = "exact"
    """Of every file all servers were asked."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How the sizes of an index were learned.

    Attributes
    ----------
    sample
        The file with the sample, beside the shards; ``None`` without one.
    looked_at, unknown
        Files of the sample that all servers were asked about, and those that did not answer.
    elapsed_s
        What the sample took.
    """

    mode: SizesMode
    sample: Shard | None = None
    looked_at: int = 0
    unknown: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FollowedMdt:
    """How far an index follows the changelog of one MDT.

    Attributes
    ----------
    mdt
        ``MDT0000``.
    user
        The changelog user that is Trimtab's: ``cl2-trimtab``.
    mark
        Every change up to this record is in the index. It never goes down, unless the changelog
        was begun anew.
    scanned
        Changes up to this record may be of while the scan ran: a directory that was renamed then
        may have been listed twice, or not at all.
    due
        Whether something was read since that user cleared last.
    missing
        A record that was not there when the changelog was read last, though a later one was.
    stale
        Why changes may have been lost, a sentence each; empty: none was.
    """

    mdt: str
    user: str
    mark: int
    scanned: int
    due: bool = False
    missing: int | None = None
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """What a scanned index learnt from changelogs since.

    Attributes
    ----------
    generation
        How often something was added.
    mdts
        Every MDT of the file system.
    again
        Files to look at once more, beside the shards; ``None``: none.
    stale
        Why the index may be wrong whatever the MDT, a sentence each.
    """

    generation: int
    mdts: tuple[FollowedMdt, ...]
    again: Shard | None = None
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incremental:
    """What an incremental scan took over from an earlier index.

    Attributes
    ----------
    base
        The ``index_id`` of that one.
    generation
        How many incremental scans lie between the last full one and this index.
    read_since_ns
        When that full scan began: no row is older.
    unchanged
        Directories that were not read.
    carried
        Rows that were taken over: nobody looked at what they describe.
    """

    base: str
    generation: int
    read_since_ns: EpochNs
    unchanged: int
    carried: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index is.

    Attributes
    ----------
    index_id
        UUIDv7.
    root
        The absolute path that all names are relative to, in bytes.
    filesystem
        ``None`` where nobody said which one it is.
    source, tool
        Which program made it; ``tool`` names it with its version.
    started_ns, ended_ns
        When the file system was looked at, since 1970; ``started_ns`` is ``None`` where that is
        not known. No time of a file is believed to be later than the end.
    times, time_resolution_ns
        How far the times can be trusted, and what they are multiples of.
    lacking
        What the source does not tell.
    complete
        Whether everything beneath the root is in it.
    unread
        The subtrees that are not.
    refused, refused_examples
        How many records of a list could not be taken, and the first of them.
    vanished
        Names that were gone when they were looked at: no trouble.
    notes
        What else a reader should know, a sentence each.
    atime_settings
        What decides how reads are recorded, as it was then: words and values; ``None`` where
        nobody looked.
    sizes
        How sizes were learned where a source has lazy ones; ``None`` where it has none.
    followed
        How it was kept up to date since the scan; ``None``: it was not.
    incremental
        What the scan took over from an earlier index; ``None``: nothing, it read every directory.
    """

    index_id: str
    root: bytes
    filesystem: FileSystemIdentity | None
    source: Source
    tool: str
    started_ns: EpochNs | None
    ended_ns: EpochNs
    times: TimeTrust
    time_resolution_ns: int
    lacking: frozenset[Lack]
    complete: bool
    shards: tuple[Shard, ...]
    unread: tuple[Unread, ...] = ()
    refused: int = 0
    refused_examples: tuple[Refused, ...] = ()
    vanished: int = 0
    notes: tuple[str, ...] = ()
    atime_settings: Mapping[str, str] | None = None
    sizes: Sizes | None = None
    followed: Followed | None = None
    incremental: Incremental | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def rows(self) -> int:
        """How many names it has."""
        return sum(shard.rows_in_force for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """What its shards take up."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def oldest_ns(self) -> int:
        """When the file system was looked at for the oldest row, since 1970."""
        read = (shard.read_ns for shard in self.shards if shard.rows_in_force)
        return min((at for at in read if at is not None), default=self.ended_ns)

    @property
    def as_of_s(self) -> int:
        """The second in which the file system was looked at last."""
        return self.ended_ns // 10**9

    @property
    def can_delete(self) -> bool:
        """Whether a deletion may rest on it. Curves and lists can always be drawn."""
        return not self.obstacles

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why no deletion may rest on it, a sentence each; empty where one may."""
        return tuple(_obstacles(self))


def _obstacles(manifest: Manifest) -> Iterator[str]:
    if Lack.IDENTITY in manifest.lacking:
        yield "it knows files by their names only, and another file may have the name by now"
    if Lack.PLAIN_NAMES in manifest.lacking:
        yield "a name with a line feed in it could have passed for a record of another file"
    if manifest.refused:
        yield f"{manifest.refused} records of the list could not be read"
    if manifest.unread:
        yield f"{len(manifest.unread)} subtrees could not be read"
    if not manifest.complete and not manifest.refused and not manifest.unread:
        yield "nothing says that it holds everything beneath its root"
    if manifest.started_ns is None:
        yield "it is not known when the file system was looked at"
    if manifest.filesystem is None:
        yield "it is not known which file system it is of"
    if manifest.followed is not None:
        yield from _lost_changes(manifest.followed)


def _lost_changes(followed: Followed) -> Iterator[str]:
    for mdt in followed.mdts:
        for reason in mdt.stale:
            yield f"{mdt.mdt} has to be scanned again (purge follow --rescan): {reason}"
    for reason in followed.stale:
        yield f"it has to be scanned again: {reason}"
