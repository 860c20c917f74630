"""Parses Lustre's changelog: the binary records of its device, and its users. Pure.

A record is ``struct changelog_rec`` of ``lustre_user.h`` (64 bytes), the extensions that its flags
name, in the order of the flags, and the name::

    namelen:u16 flags:u16 type:u32 index:u64 prev:u64 time:u64 target:fid parent:fid
    [RENAME source:fid source_parent:fid] [JOBID 32 bytes] [EXTRA_FLAGS extra:u64
      [UIDGID 2 x u64] [NID 24 bytes] [OPEN u32] [XATTR 256 bytes]] name [NUL old name]

The device returns complete records. The text of ``lfs changelog`` is not used: a name may contain
line feeds, spaces and anything that looks like a field.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from trimtab.base.error import DataError
from trimtab.base.visible import visible


class RecordType(IntEnum):
    """``enum changelog_rec_type``; an unknown type stays a plain number."""

    MARK = 0
    CREATE = 1
    MKDIR = 2
    HARDLINK = 3
    SOFTLINK = 4
    MKNOD = 5
    UNLINK = 6
    RMDIR = 7
    RENAME = 8
    RENAME_TO = 9
    OPEN = 10
    CLOSE = 11
    LAYOUT = 12
    TRUNCATE = 13
    SETATTR = 14
    SETXATTR = 15
    HSM = 16
    MTIME = 17
    CTIME = 18
    ATIME = 19
    MIGRATE = 20
    FLR_WRITE = 21
    RESYNC = 22
    GETXATTR = 23
    DENIED_OPEN = 24


NEEDED: Final = frozenset(
    ("CREAT", "MKDIR", "HLINK", "SLINK", "MKNOD", "UNLNK", "RMDIR", "RENME", "CLOSE", "LYOUT",
     "TRUNC", "SATTR", "MTIME", "CTIME", "MIGRT")
)  # fmt: skip
"""Record types that an index needs to follow changes, as masks name them."""

STARTED: Final = 0x10000
"""Flag of a mark: recording was switched on; nothing before it was recorded."""
STOPPED: Final = 0x20000

_HEAD: Final = struct.Struct("<HHIQQQ")
_FID: Final = struct.Struct("<QII")
_HEAD_BYTES: Final = 64
_RENAME: Final = 0x2000
_JOBID: Final = 0x4000
_EXTRA: Final = 0x8000
_EXTRAS: Final = ((0x1, 16), (0x2, 24), (0x4, 4), (0x8, 256))
"""Size in bytes of the extension of each extra flag, in order."""
_EXTRAS_WITHOUT: Final = 0x10
"""The NID is in its newer form: no further bytes."""
_EXTRAS_BYTES: Final = tuple(
    8 + sum(size for flag, size in _EXTRAS if extra & flag) for extra in range(16)
)
"""Size in bytes of every extension, by its flags."""
_EXTRAS_UNKNOWN: Final = ~(0xF | _EXTRAS_WITHOUT)
_NAMES_MAX: Final = 2 * 255 + 2
_TYPE_MAX: Final = 63
_SEQUENCE_NORMAL: Final = 0x2_0000_0400
_ROOT: Final = (0x2_0000_0007, 1, 0)
_IGIF: Final = range(12, 2**32)
"""FID sequences of files older than FIDs, which are made from their inode number."""


@dataclass(frozen=True, slots=True)
class Record:
    """One change on one MDT.

    Attributes
    ----------
    index
        The record's number on the MDT.
    time_ns
        Time by the MDT's clock, in ns since 1970.
    target, parent, source, source_parent
        FIDs as an index keeps them (16 bytes); ``None`` without one that clients can see. For a
        rename, ``target`` is the overwritten file and ``source`` the moved one; for a migration
        ``source`` is the previous FID.
    name, old_name
        Raw bytes.
    mark
        Flags of a mark; 0 for other records.
    """

    index: int
    type: int
    time_ns: int
    target: bytes | None
    parent: bytes | None
    name: bytes = b""
    source: bytes | None = None
    source_parent: bytes | None = None
    old_name: bytes = b""
    mark: int = 0


def parse_records(data: bytes) -> Iterator[Record]:
    """Yield the records in the output of a changelog device.

    Raises
    ------
    DataError
        The bytes are not complete records, or have an extension of unknown length.
    """
    at = 0
    while at < len(data):
        record, at = _record(data, at)
        yield record


def _record(data: bytes, at: int) -> tuple[Record, int]:
    if len(data) - at < _HEAD_BYTES:
        raise _cut(at)
    names_bytes, flags, kind, index, _, time = _HEAD.unpack_from(data, at)
    end = at + _HEAD_BYTES
    source = source_parent = None
    if flags & _RENAME:
        source, source_parent = _fid(data, end), _fid(data, end + _FID.size)
        end += 2 * _FID.size
    end += 32 if flags & _JOBID else 0
    if flags & _EXTRA:
        if len(data) < end + 8:
            raise _cut(at)
        extra = int.from_bytes(data[end : end + 8], "little")
        if unknown := extra & _EXTRAS_UNKNOWN:
            raise DataError(
                f"the changelog record at byte {at} has the unknown extension {unknown:#x}",
                code="changelog-unreadable",
                hint="this Lustre is newer than Trimtab: scan instead",
            )
        end += _EXTRAS_BYTES[extra & 0xF]
    if names_bytes > _NAMES_MAX or kind > _TYPE_MAX:
        raise DataError(f"there is no changelog record at byte {at}", code="changelog-unreadable")
    if len(data) < end + names_bytes:
        raise _cut(at)
    name, _, old_name = data[end : end + names_bytes].partition(b"\0")
    is_mark = kind == RecordType.MARK
    record = Record(
        index=index,
        type=kind,
        time_ns=(time >> 30) * 10**9 + (time & (2**30 - 1)),
        target=None if is_mark else _fid(data, at + 32),
        parent=None if is_mark else _fid(data, at + 48),
        name=name,
        source=source,
        source_parent=source_parent,
        old_name=old_name.rstrip(b"\0"),
        mark=int.from_bytes(data[at + 32 : at + 36], "little") if is_mark else 0,
    )
    return record, end + names_bytes


def _fid(data: bytes, at: int) -> bytes | None:
    """Return a FID as an index keeps it; ``None`` for one that clients cannot see."""
    if len(data) < at + _FID.size:
        raise _cut(at)
    sequence, number, version = _FID.unpack_from(data, at)
    seen = sequence >= _SEQUENCE_NORMAL or (sequence, number, version) == _ROOT
    if not seen and sequence not in _IGIF:
        return None
    return struct.pack(">QII", sequence, number, version)


def _cut(at: int) -> DataError:
    return DataError(f"the changelog record at byte {at} is cut off", code="changelog-unreadable")


@dataclass(frozen=True, slots=True)
class ChangelogUser:
    """One user of an MDT's changelog.

    Attributes
    ----------
    name
        ``cl2-trimtab``, or ``cl2`` if it was registered without a name.
    index
        Last record that it has cleared.
    idle_s
        Seconds since it last cleared, or was registered.
    """

    name: str
    index: int
    idle_s: int

    @property
    def number(self) -> int:
        """The number in its name, which identifies it to the device."""
        return int(self.name[2:].partition("-")[0])


@dataclass(frozen=True, slots=True)
class ChangelogUsers:
    """The users of an MDT's changelog, and what it records.

    Attributes
    ----------
    index
        Number of the last record.
    mask
        Record types that are written.
    """

    index: int
    users: tuple[ChangelogUser, ...]
    mask: frozenset[str]

    def named(self, name: str) -> ChangelogUser | None:
        """Return the user with exactly this name."""
        return next((user for user in self.users if user.name == name), None)

    def of(self, who: str) -> tuple[ChangelogUser, ...]:
        """Return the users registered under a name: ``trimtab`` of ``cl2-trimtab``."""
        return tuple(user for user in self.users if user.name.partition("-")[2] == who)


_CURRENT: Final = re.compile(r"current_index: (\d{1,20})")
_USER: Final = re.compile(
    r"(cl\d{1,10}(?:-[A-Za-z0-9_.-]{1,15})?)\s+(\d{1,20}) \((\d{1,15})\)(?: .*)?"
)


def parse_users(users: str, mask: str) -> ChangelogUsers:
    """Parse ``mdd.*.changelog_users`` and ``changelog_current_mask`` of one MDT.

    Raises
    ------
    DataError
        A line has an unknown format.
    """
    lines = [line.rstrip() for line in users.splitlines() if line.strip()]
    current = _CURRENT.fullmatch(lines[0]) if lines else None
    if current is None or len(lines) < 2 or not lines[1].startswith("ID "):
        raise _unreadable(users)
    listed = []
    for line in lines[2:]:
        match = _USER.fullmatch(line)
        if match is None:
            raise _unreadable(line)
        listed.append(ChangelogUser(match[1], int(match[2]), int(match[3])))
    return ChangelogUsers(int(current[1]), tuple(listed), frozenset(mask.split()))


def _unreadable(text: str) -> DataError:
    return DataError(
        f"not a list of changelog users: {visible(text[:120])}", code="changelog-users-unreadable"
    )


def mdts_of(parameters: Mapping[str, str], file_system: str) -> Mapping[str, ChangelogUsers]:
    """Return the changelog users of each MDT of a file system, from a server's parameters.

    Raises
    ------
    DataError
        The parameters of an MDT cannot be read.
    """
    mdts = {}
    for name, text in parameters.items():
        match = re.fullmatch(r"mdd\.(.+)-(MDT[0-9a-f]{4})\.changelog_users", name)
        if match is not None and match[1] == file_system:
            mask = parameters.get(f"mdd.{match[1]}-{match[2]}.changelog_current_mask", "")
            mdts[match[2]] = parse_users(text, mask)
    return mdts
