"""Describe an index: its file system, when and how it was made, and how far to trust it.

Values only; `trimtab.purge.index.manifest_file` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from trimtab.base.encode import shape
from trimtab.base.units import EpochNs

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE: Final = "beneath the root: other file systems, and not part of it"
"""End of a scan's note about mounts; an index does not show what they hide."""
SCHEMA_VERSION: Final = 2
"""Version of ``manifest.json`` and the shards' columns, raised when the meaning of either changes.

Unreleased versions wrote 1, with and without today's columns and keys.
"""

EXAMPLES_MAXIMUM: Final = 20
"""Number of rejected records kept with their text; all are counted."""


class IndexSource(StrEnum):
    """Program that read the file system."""

    SCAN = "scan"
    CSV = "csv"
    PARQUET = "parquet"
    GNU_FIND = "gnu-find"
    LFS_FIND = "lfs-find"
    MFU = "mfu"


class TimeTrust(StrEnum):
    """Precision and reliability of the times.

    Attributes
    ----------
    EXACT_NS
        As in ``stat``, to the nanosecond.
    SECONDS
        As in ``stat``, rounded down to seconds.
    MDS_ONLY
        From a Lustre metadata server, which learns of a use when the file is closed: actual times
        may be later, never earlier. Files that look old must be checked again before deletion.
    """

    EXACT_NS = "exact_ns"
    SECONDS = "seconds"
    MDS_ONLY = "mds_only"


class Lack(StrEnum):
    """Data that the source lacks, with the column's value in that case.

    Attributes
    ----------
    IDENTITY
        No inode number or FID: the row number, with 0x80 as the first of 16 bytes.
    DEVICE
        No device number: 0.
    LINKS
        No link count: 1. A file with several names counts once for each.
    BLOCKS
        No allocated size: the file's length, too much for a sparse and too little for a small file.
    TYPE
        No type: all names are taken to be regular files.
    ACCESS, MODIFICATION, CHANGE, BIRTH, PROJECT, LAYOUT, POOL
        Null.
    GROUP
        No group: 4294967295, which is not a valid group.
    PLAIN_NAMES
        A name with a line feed cannot be distinguished from two records.
    READS
        No reads since the scan: changelogs do not record them. An access time is as of the scan, or
        of the file's last change since.
    IN_PLACE
        No changes of files in place since a directory was read, because its rows were carried over.
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
    """Properties that identify a file system.

    Attributes
    ----------
    kind
        Type in the mount table: ``ext4``, ``lustre``.
    name
        Source in the mount table; on Lustre only the file system's name.
    fsid
        ``f_fsid`` of statvfs(3); on Lustre it depends on the mount and is useless. ``None`` if it
        is 0 or the device number, which the next file system on that device shares.
    device
        ``st_dev`` of the root; it may change at the next boot.
    uuid
        UUID of the file system, from the kernel; ``None`` if it has none.
    mount
        Mount and boot; it changes whenever the file system is mounted again.
    made_ns
        When the root directory of a Lustre was created, in nanoseconds since 1970, because two may
        have the same name. ``None`` if clients do not report it (before 2.14) or mount only a part.
    root_inode, root_path
        Inode number of the scanned directory, and its path within the file system, independent of
        mounts. Another directory may be mounted over its path.
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
        """One text that identifies it: by its UUID, ``f_fsid`` or source."""
        mark = None if self.kind == "lustre" else self.uuid or self.fsid
        return f"{self.kind} {mark or self.name}"

    def is_same(self, other: FileSystemIdentity) -> bool:
        """Return whether both are certainly the same file system.

        A file system without a UUID or ``f_fsid`` of its own (FUSE, NFS) is the same only while the
        same source stays mounted; the next mount cannot be identified.
        """
        if not self.may_be_same(other):
            return False
        if self.kind == "lustre":
            return self.name is not None and self.name == other.name
        if self._says("uuid", other) or self._says("fsid", other):
            return True
        return self._says("name", other) and self._says("mount", other)

    def may_be_same(self, other: FileSystemIdentity) -> bool:
        """Return whether both may be the same: enough to compare, never to delete."""
        if self.kind != other.kind:
            return False
        known = ("name", "made_ns") if self.kind == "lustre" else ("uuid", "fsid")
        return not any(self._contradicts(word, other) for word in known)

    def shares_caps(self, other: FileSystemIdentity) -> bool:
        """Return whether deletions on one count towards the caps of the other.

        They do unless the two certainly differ.

        A file system without marks of its own (FUSE, NFS, an old tmpfs) is identified by its
        source, even after a new mount.
        """
        marks = ("uuid", "fsid", "name")
        return self.may_be_same(other) and any(self._says(mark, other) for mark in marks)

    def has_another_root(self, other: FileSystemIdentity) -> bool:
        """Return whether the same path leads to different directories of one file system."""
        return any(self._contradicts(word, other) for word in ("root_inode", "root_path"))

    def _contradicts(self, word: str, other: FileSystemIdentity) -> bool:
        ours, theirs = getattr(self, word), getattr(other, word)
        return _is_known(ours) and _is_known(theirs) and ours != theirs

    def _says(self, word: str, other: FileSystemIdentity) -> bool:
        return _is_known(getattr(self, word)) and getattr(self, word) == getattr(other, word)


def _is_known(word: str | int | None) -> bool:
    """Return whether a value is informative: every file system without an ``f_fsid`` has 0."""
    return word is not None and word not in ("", 0)


@dataclass(frozen=True, slots=True)
class Unread:
    """A subtree that could not be read.

    Attributes
    ----------
    path
        Relative to the root; empty for the root itself.
    reason
        Error of the system.
    """

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A rejected record of a list.

    Attributes
    ----------
    record
        Its number in the list, from 1; ``None`` for the list as a whole.
    offset_bytes
        Offset of its start.
    reason
        Why it was rejected.
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
        File with their numbers: 32 bits each, little-endian, increasing.
    sha256
        Its hash, in hexadecimal.
    """

    name: str
    rows: int
    sha256: str

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return 4 * self.rows


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file of an index.

    Attributes
    ----------
    name
        File name in the index directory.
    rows
        Number of rows in the file.
    sha256
        Its hash, in hexadecimal; ``None`` if not computed.
    superseded
        Its replaced rows; ``None`` if there are none.
    read_ns
        When the scan that read its rows began; ``None`` for the scan that made the index.
    """

    name: str
    rows: int
    size_bytes: int
    sha256: str | None
    superseded: Superseded | None = None
    read_ns: EpochNs | None = None

    @property
    def rows_in_force(self) -> int:
        """Number of rows not replaced."""
        return self.rows - (0 if self.superseded is None else self.superseded.rows)


class SizesMode(StrEnum):
    """How a Lustre scan obtained sizes."""

    LAZY = "lazy"
    """As last reported to the MDS: often wrong for files written shortly before."""
    SAMPLED = "sampled"
    """Lazy, plus exact sizes for a random sample."""
    EXACT = "exact"
    """All servers were asked about every file."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How the sizes of an index were obtained.

    Attributes
    ----------
    sample
        The file with the sample, beside the shards; ``None`` without one.
    looked_at, unknown
        Sampled files with an exact size, and those whose servers did not answer.
    elapsed_s
        Duration of the sampling.
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
        Trimtab's changelog user: ``cl2-trimtab``.
    mark
        Every change up to this record is in the index. It never decreases, unless the changelog was
        recreated.
    scanned
        Changes up to this record may date from during the scan: a directory renamed then may have
        been listed twice or not at all.
    due
        Whether records were read since that user's last clear.
    missing
        A record that was missing at the last reading although a later one existed.
    stale
        Why changes may have been lost, one sentence per reason; empty if none were.
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
    """State of an index that is kept up to date from changelogs.

    Attributes
    ----------
    generation
        Number of updates.
    mdts
        Every MDT of the file system.
    again
        File with the files to look at again, beside the shards; ``None`` if there are none.
    stale
        Why the index as a whole may be wrong, one sentence per reason.
    """

    generation: int
    mdts: tuple[FollowedMdt, ...]
    again: Shard | None = None
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incremental:
    """Facts of an incremental scan: its base, and what it carried over from there.

    Attributes
    ----------
    base
        The ``index_id`` of the earlier index.
    generation
        Number of incremental scans since the last full one.
    read_since_ns
        When the last full scan began; no row is older.
    unchanged
        Number of directories not read.
    carried
        Number of rows carried over without reading their files.
    """

    base: str
    generation: int
    read_since_ns: EpochNs
    unchanged: int
    carried: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of an index.

    Attributes
    ----------
    index_id
        UUIDv7.
    root
        Absolute path that all names are relative to, in bytes.
    filesystem
        The file system; ``None`` if unknown.
    source, tool
        Program that made it; ``tool`` includes the version.
    started_ns, ended_ns
        Start and end of the scan, since 1970; ``started_ns`` is ``None`` if unknown. File times
        after the end are not trusted.
    times, time_resolution_ns
        Reliability and resolution of the times.
    lacking
        Data that the source lacks.
    complete
        Whether it has everything beneath the root.
    unread
        Subtrees that could not be read.
    refused, refused_examples
        Number of rejected records of a list, and the first of them.
    vanished
        Number of names deleted during the scan: harmless.
    notes
        Further remarks for readers, one sentence each.
    atime_settings
        Settings at the time that decide whether reads are recorded; ``None`` if not checked.
    sizes
        How sizes were obtained from a source with lazy ones; ``None`` for others.
    followed
        How it is kept up to date since the scan; ``None`` if it is not.
    incremental
        What the scan carried over from an earlier index; ``None`` for a full scan.
    """

    index_id: str
    root: bytes
    filesystem: FileSystemIdentity | None
    source: IndexSource
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
        """Number of names."""
        return sum(shard.rows_in_force for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """Total size of its shards."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def oldest_ns(self) -> int:
        """When the oldest row was read, since 1970."""
        read = (shard.read_ns for shard in self.shards if shard.rows_in_force)
        return min((at for at in read if at is not None), default=self.ended_ns)

    @property
    def as_of_s(self) -> int:
        """The second in which the scan ended."""
        return self.ended_ns // 10**9

    @property
    def can_delete(self) -> bool:
        """Whether it may be used for deletion. Curves and lists are always possible."""
        return not self.obstacles

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it must not be used for deletion, one sentence per reason; empty if it may."""
        return tuple(_obstacles(self))


def _obstacles(manifest: Manifest) -> Iterator[str]:
    if Lack.IDENTITY in manifest.lacking:
        yield "it identifies files only by name, and another file may have the name by now"
    if Lack.PLAIN_NAMES in manifest.lacking:
        yield "a name with a line feed could pass for the record of another file"
    if manifest.refused:
        yield f"{manifest.refused} records of the list could not be read"
    if manifest.unread:
        yield f"{len(manifest.unread)} subtrees could not be read"
    if not manifest.complete and not manifest.refused and not manifest.unread:
        yield "nothing shows that it covers everything beneath its root"
    if manifest.started_ns is None:
        yield "time of the scan unknown"
    if manifest.filesystem is None:
        yield "its file system is unknown"
    if manifest.followed is not None:
        yield from _lost_changes(manifest.followed)


def _lost_changes(followed: Followed) -> Iterator[str]:
    for mdt in followed.mdts:
        for reason in mdt.stale:
            yield f"{mdt.mdt} must be scanned again (purge follow --rescan): {reason}"
    for reason in followed.stale:
        yield f"it must be scanned again: {reason}"


ShardPath: TypeAlias = str | tuple[str, str]
"""A shard, or a shard and the file with the numbers of its rows that count no more."""


def shard_paths(directory: Path, manifest: Manifest) -> list[ShardPath]:
    """Return the shards of an index as the core takes them."""
    return [shard_path(directory, shard) for shard in manifest.shards]


def shard_path(directory: Path, shard: Shard) -> ShardPath:
    """Return the path of a shard; with that of the rows that count no more, where some do not."""
    path = str(directory / shard.name)
    if shard.superseded is None:
        return path
    return path, str(directory / shard.superseded.name)


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """An index as described by its manifest.

    ``obstacles`` say why no file may be deleted by it; empty: a plan may be made from it.
    """

    directory: str
    manifest: Manifest


shape(
    Manifest,
    omit=["filesystem", "schema_version"],
    derive={
        "file_system": "filesystem",
        "obstacles": (tuple[str, ...], attrgetter("obstacles")),
        "names": "rows",
        "size_bytes": "size_bytes",
    },
)
shape(IndexDocument, inline={"manifest": ()})
