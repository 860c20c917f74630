"""Lustre's changelogs: parses records and users, reads and clears, and looks up FIDs.

A record is ``struct changelog_rec`` of ``lustre_user.h`` (64 bytes), the extensions that its flags
name, in the order of the flags, and the name::

    namelen:u16 flags:u16 type:u32 index:u64 prev:u64 time:u64 target:fid parent:fid
    [RENAME source:fid source_parent:fid] [JOBID 32 bytes] [EXTRA_FLAGS extra:u64
      [UIDGID 2 x u64] [NID 24 bytes] [OPEN u32] [XATTR 256 bytes]] name [NUL old name]

A client has a device for each connected MDT, ``/dev/changelog-FSNAME-MDT0000``, for root only:
reading starts at a record and returns complete records, writing clears. The text of
``lfs changelog`` is not used: a name may contain line feeds, spaces and anything that looks like a
field. Users are listed, registered and removed on the MDSs. FIDs are looked up on the mounted
client. What may hang while an MDT is down runs in a child process
(`trimtab.reach.lustre.lustre_child`). The parsers are pure.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from trimtab.base.error import DataError, ToolError, visible
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.reach.bounded import ask_child, reason_of
from trimtab.reach.fleet import FanOut
from trimtab.reach.lustre.change_order import Order, act_alone
from trimtab.reach.lustre.lustre_child import Names, clear, list_by_fid, mdt_indices, read
from trimtab.reach.lustre.read_table import OF_FOLLOWING, request
from trimtab.reach.lustre.server_query import sudo_of, views_of
from trimtab.reach.lustre.server_write import ServerWriter
from trimtab.reach.lustre.write_table import CHANGELOG_USER, changelog_parameter, mdt_service
from trimtab.reach.lustre.writer_order import REGISTER_TIMEOUT_S


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


DEVICES: Final = Path("/dev")
READ_MAX_BYTES: Final = 32 * 2**20
"""Limit of one read: a quarter of a million records."""
_READ_S: Final = 120.0
_CLEAR_S: Final = 120.0


def ask_users(
    servers: Servers, file_system: str, *, fan_out: FanOut
) -> Mapping[str, ChangelogUsers]:
    """Return the changelog users of each MDT: one round trip to each MDS.

    MDTs whose server did not answer are missing.

    Raises
    ------
    ToolError
        ssh, or the Python to run here, is missing.
    DataError
        A server's answer cannot be read.
    """
    answers = ask_users_by_server(servers, file_system, fan_out=fan_out)
    return {mdt: users for served in answers.values() for mdt, users in (served or {}).items()}


def ask_users_by_server(
    servers: Servers, file_system: str, *, fan_out: FanOut
) -> Mapping[str, Mapping[str, ChangelogUsers] | None]:
    """Return the changelog users of each MDS's MDTs; ``None`` if it did not answer.

    Raises
    ------
    ToolError, DataError
        As `ask_users`.
    """
    question = request(OF_FOLLOWING, deadline_s=servers.timeout_s, sudo=sudo_of(servers))
    views = views_of(servers.mds, question, servers, file_system, fan_out=fan_out)
    answers: dict[str, Mapping[str, ChangelogUsers] | None] = {}
    for name, view in views.items():
        if view.lacks("parameters"):
            answers[name] = None
        else:
            parameters = view.parameters
            texts = {key: parameters.get(key) or "" for key in parameters.names}
            answers[name] = mdts_of(texts, file_system)
    return answers


def mdts_of_client(file_system: str, devices: Path = DEVICES) -> tuple[str, ...]:
    """Return the MDTs whose changelogs this client can read."""
    names = (file.name for file in devices.glob(f"changelog-{file_system}-MDT*"))
    return tuple(sorted(name[-7:] for name in names if re.search("-MDT[0-9a-f]{4}$", name)))


def read_records(
    file_system: str,
    mdt: str,
    after: int,
    *,
    devices: Path = DEVICES,
    limit_bytes: int = READ_MAX_BYTES,
) -> tuple[bytes, bool]:
    """Return the records of an MDT after record ``after``, and whether that is all of them.

    Raises
    ------
    ToolError
        They could not be read in time.
    """
    device = str(devices / f"changelog-{file_system}-{mdt}")
    try:
        return ask_child(partial(read, device, after + 1, limit_bytes), device, deadline_s=_READ_S)
    except (OSError, ToolError) as error:
        raise _failed(f"the changelog of {mdt} cannot be read", error) from error


def clear_records(
    file_system: str, mdt: str, user: int, index: int, *, devices: Path = DEVICES
) -> None:
    """Clear the records of a user up to record ``index``.

    A missing user is not an error here; the next query of the users shows it.

    Raises
    ------
    ToolError
        The MDT refused, or did not answer in time.
    """
    device = str(devices / f"changelog-{file_system}-{mdt}")
    try:
        ask_child(partial(clear, device, user, index), device, deadline_s=_CLEAR_S)
    except FileNotFoundError:
        return
    except (OSError, ToolError) as error:
        raise _failed(f"records of {mdt} up to {index} cannot be cleared", error) from error


def _failed(failure: str, error: OSError | ToolError) -> ToolError:
    return ToolError(
        f"{failure}: {reason_of(error)}",
        code="changelog-unreachable",
        hint="the index is intact; repeat the command to continue. Reading changelogs needs root",
    )


@dataclass(frozen=True, slots=True)
class Registrar:
    """Trimtab's changelog users on the MDTs of a file system.

    Attributes
    ----------
    writer
        ``None`` for read-only use.
    """

    servers: Servers
    file_system: str
    writer: ServerWriter | None
    fan_out: FanOut

    def user(self, mdt: str) -> str | NotAvailable:
        """Return the user of an MDT, empty if it has none; see `ChangelogRegistrar.user`."""
        users = ask_users(self.servers, self.file_system, fan_out=self.fan_out).get(mdt)
        if users is None:
            return not_available("server-silent", f"the server of {mdt} does not answer")
        return ", ".join(user.name for user in users.of(CHANGELOG_USER))

    def change(self, server: str, mdt: str, before: str, *, registered: bool) -> str | NotAvailable:
        """Register or remove the user of an MDT; see `ChangelogRegistrar.change`."""
        if self.writer is None:
            return not_available("driver-read-only", "this driver is read-only")
        fields = {"fs": self.file_system, "mdt": mdt}
        instruction = {
            "do": "changelog", "fields": fields, "place": {"service": mdt_service(fields)},
            "registered": registered, "before": before, "needed": sorted(NEEDED),
        }  # fmt: skip
        order = Order(server, mdt, changelog_parameter(fields, "changelog_users"), instruction)
        timeout_s = self.servers.timeout_s + REGISTER_TIMEOUT_S
        change = f"{'registration' if registered else 'removal'} of the changelog user of {mdt}"
        result = act_alone(self.writer, order, change, timeout_s=timeout_s)
        return result if isinstance(result, NotAvailable) else result.found or ""


_TIMEOUT_S: Final = 600.0
_BATCH: Final = 1000
"""Directories per child: its answer is held in memory."""

_Answer = TypeVar("_Answer")


def list_directories(root: str, directories: Sequence[bytes]) -> Iterator[tuple[bytes, Names, int]]:
    """Yield each directory, its entries and its error number (0 also for a deleted one).

    Raises
    ------
    ToolError
        They could not be listed in time.
    """
    from trimtab._core import GONE_ERRNOS

    for start in range(0, len(directories), _BATCH):
        batch = directories[start : start + _BATCH]
        answers = _answer(partial(list_by_fid, root, batch, GONE_ERRNOS), root)
        for directory, (names, number) in zip(batch, answers, strict=True):
            yield directory, names, number


def mdts_of_fids(root: str, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
    """Return the MDT of each FID, from its sequence; ``None`` if Lustre does not know.

    Raises
    ------
    ToolError
        They could not be queried in time.
    """
    one_each = list({file[:8]: file for file in files}.values())
    indices = _answer(partial(mdt_indices, root, one_each), root)
    of_sequence = {
        file[:8]: None if index is None else f"MDT{index:04x}"
        for file, index in zip(one_each, indices, strict=True)
    }
    return {file: of_sequence[file[:8]] for file in files}


def _answer(question: Callable[[], _Answer], root: str) -> _Answer:
    try:
        return ask_child(question, root, deadline_s=_TIMEOUT_S)
    except (OSError, ToolError) as error:
        raise ToolError(
            f"directories of {visible(root)} cannot be listed: {reason_of(error)}",
            code="listing-failed",
            hint="the index is intact; repeat the command",
        ) from error
