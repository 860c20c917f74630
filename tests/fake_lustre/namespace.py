"""A Lustre in memory: a tree over several MDTs, their changelogs, and who reads them.

It keeps the rules of the server that a follower has to live with: a record of attributes is left
out where the file already has one since somebody cleared; a rename is one record on one MDT; a
migration gives a new FID; users are dropped, and clearing backwards drops them; a FID of what is
gone is unknown. Records are handed out in their binary form.

A directory may be spread over MDTs: each of its stripes has a FID, which `trusted.link` of what
lies in it names, while records name the directory. No client can look at a stripe (EPERM), and only
the server's path leads from it to the directory; a migrated directory has one stripe. All of this
is as recorded of a Lustre 2.17.0 (`tests/fixtures/lustre/2.17.0/fid`). That a directory which is
split becomes a stripe of its successor is from its sources (`mdd_dir_split_plain`).
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from trimtab.purge.follow_decision import Clear
from trimtab.purge.index.shard import columns, last_use_s
from trimtab.purge.lustre_changes import LookedUp
from trimtab.reach.lustre.changelog import NEEDED, ChangelogUser, ChangelogUsers, Record, RecordType

ROOT = struct.pack(">QII", 0x2_0000_0007, 1, 0)
DEVICE = 77
BEGAN_NS = 1_700_000_000 * 10**9
_ZERO = bytes(16)
_SUPPRESSED = (RecordType.MTIME, RecordType.CTIME, RecordType.ATIME)


def inode_of(fid: bytes) -> int:
    """Return the inode number that a client shows of a FID (``fid_flatten`` of ``lustre_fid.h``).

    Examples
    --------
    >>> hex(inode_of(bytes.fromhex("00000002000004020000000100000000")))
    '0x200000402000001'
    """
    sequence, number, _ = struct.unpack(">QII", fid)
    if 12 <= sequence < 2**32:
        return sequence
    flat = (sequence << 24) + ((sequence >> 24) & 0xFFFFFF0000) + number
    return flat & (2**64 - 1) or number


def encoded(record: Record, *, rng: random.Random | None = None) -> bytes:
    """Return a record as a device hands it out, with some of the extensions that it may have."""
    rng = rng or random.Random(record.index)
    names = record.name + (b"\0" + record.old_name if record.old_name else b"")
    flags, more = 0x1000, b""
    if record.type in (RecordType.RENAME, RecordType.MIGRATE):
        flags |= 0x2000
        more += _wire(record.source) + _wire(record.source_parent)
    if rng.random() < 0.7:
        flags |= 0x4000
        more += b"cp.1000".ljust(32, b"\0")
    if rng.random() < 0.7:
        flags |= 0x8000
        extra = rng.choice((0x1, 0x3, 0x7, 0x13, 0x0B))
        more += struct.pack("<Q", extra)
        for flag, size in ((0x1, 16), (0x2, 24), (0x4, 4), (0x8, 256)):
            more += rng.randbytes(size) if extra & flag else b""
    target = _wire(record.target)
    if record.type == RecordType.MARK:
        target = struct.pack("<I12x", record.mark)
    seconds, ns = divmod(record.time_ns, 10**9)
    head = struct.pack(
        "<HHIQQQ", len(names), flags, record.type, record.index, 0, seconds << 30 | ns
    )
    return head + target + _wire(record.parent) + more + names


def _wire(fid: bytes | None) -> bytes:
    return struct.pack("<QII", *struct.unpack(">QII", fid or _ZERO))


@dataclass
class Node:
    """A file or directory: its names, and what `stat` says."""

    fid: bytes
    kind: str
    mdt: int
    uid: int
    size: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    names: list[tuple[bytes, bytes]] = field(default_factory=list)
    children: dict[bytes, bytes] = field(default_factory=dict)
    stripes: list[bytes] = field(default_factory=list)
    logged_ns: int = -1
    nlink: int = 0
    """Only of a copy."""


@dataclass
class Log:
    """The changelog of one MDT."""

    records: list[Record] = field(default_factory=list)
    index: int = 0
    cleared_ns: int = 0
    users: dict[str, list[int]] = field(default_factory=dict)
    """Name to what it has cleared, and when it did so last."""
    registered: int = 0


class ClearRefusedError(Exception):
    """What an MDT answers to a clearing that it refuses."""


class FakeNamespace:
    """A tree with its changelogs; what a follower calls is that of `LiveChangelogs`.

    Parameters
    ----------
    mdts
        How many.
    """

    def __init__(self, mdts: int = 2) -> None:
        self.now_ns = BEGAN_NS
        self._numbers = [0] * mdts
        self._stripe_numbers = [0] * mdts
        self.logs = [Log() for _ in range(mdts)]
        self.nodes: dict[bytes, Node] = {}
        self.broken: dict[bytes, int] = {}
        self.unreadable: dict[bytes, int] = {}
        self.silent: set[str] = set()
        self.read_maximum = 10**9
        self.repeat = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.cleared: list[Clear] = []
        self.refused = 0
        self.nodes[ROOT] = self._node(ROOT, "d", 0)

    # -- operations of users --

    def create(
        self,
        parent: bytes,
        name: bytes,
        *,
        kind: str = "f",
        mdt: int | None = None,
        stripes: int = 0,
    ) -> bytes:
        """Make a file, link or directory; a directory may be on other MDTs than its parent."""
        above = self.nodes[parent]
        node = self._node(self._fid(mdt if mdt is not None else above.mdt), kind,
                          mdt if mdt is not None else above.mdt)  # fmt: skip
        node.stripes = [self._stripe(node.mdt + number) for number in range(stripes)]
        self.nodes[node.fid] = node
        self._enter(node, parent, name)
        kinds = {"f": RecordType.CREATE, "d": RecordType.MKDIR, "l": RecordType.SOFTLINK}
        self._log(node.mdt, kinds[kind], target=node.fid, parent=parent, name=name)
        return node.fid

    def link(self, fid: bytes, parent: bytes, name: bytes) -> None:
        """Give a file another name."""
        node = self.nodes[fid]
        self._enter(node, parent, name)
        node.ctime_ns = self._tick()
        self._log(self.nodes[parent].mdt, RecordType.HARDLINK, target=fid, parent=parent, name=name)

    def unlink(self, parent: bytes, name: bytes) -> None:
        """Remove a name; with the last one the file goes."""
        node = self.nodes[self.nodes[parent].children[name]]
        self._leave(node, parent, name)
        node.ctime_ns = self._tick()
        kind = RecordType.RMDIR if node.kind == "d" else RecordType.UNLINK
        if not node.names:
            del self.nodes[node.fid]
        self._log(node.mdt, kind, target=node.fid, parent=parent, name=name)

    def rename(self, parent: bytes, name: bytes, to: bytes, as_name: bytes) -> None:
        """Give a file or directory another place; what has that name goes."""
        node = self.nodes[self.nodes[parent].children[name]]
        over = self.nodes[to].children.get(as_name)
        if over == node.fid:
            return
        target = None
        if over is not None:
            target = self.nodes[over]
            self._leave(target, to, as_name)
            target.ctime_ns = self._tick()
            if not target.names:
                del self.nodes[over]
        self._leave(node, parent, name)
        self._enter(node, to, as_name)
        node.ctime_ns = self._tick()
        # One record on one MDT: that of what was overwritten, else that of the new directory.
        mdt = target.mdt if target is not None else self.nodes[to].mdt
        self._log(mdt, RecordType.RENAME, target=over, parent=to, name=as_name,
                  source=node.fid, source_parent=parent, old_name=name)  # fmt: skip

    def write(self, fid: bytes, size: int) -> None:
        """Write a file and close it."""
        node = self.nodes[fid]
        node.size = size
        node.mtime_ns = node.ctime_ns = self._tick()
        self._log_data(node, RecordType.CLOSE)

    def touch(self, fid: bytes, kind: RecordType = RecordType.MTIME) -> None:
        """Set times: no record where the file has one since somebody cleared."""
        node = self.nodes[fid]
        node.mtime_ns = node.ctime_ns = self._tick()
        self._log_data(node, kind)

    def chown(self, fid: bytes, uid: int) -> None:
        """Give a file to another user."""
        node = self.nodes[fid]
        node.uid = uid
        node.ctime_ns = self._tick()
        self._log_data(node, RecordType.SETATTR)

    def read_file(self, fid: bytes) -> None:
        """Read a file: its access time moves, and no record says so."""
        self.nodes[fid].atime_ns = self._tick()

    def migrate(self, fid: bytes, mdt: int) -> bytes:
        """Move a file or directory to another MDT: it gets a new FID.

        A file with several names keeps it until each of them was moved; its records name it twice.
        """
        node = self.nodes[fid]
        if node.kind != "d" and len(node.names) > 1:
            self._log_moved(node, fid)
            return fid
        node.stripes = [self._stripe(mdt)] if node.kind == "d" else []
        self._renumber(node, mdt)
        return node.fid

    def split(self, fid: bytes) -> bytes:
        """Spread a directory over one more MDT; a plain one becomes a stripe of a new one."""
        node = self.nodes[fid]
        mdt = node.mdt + len(node.stripes)
        if node.stripes:
            node.stripes.append(self._stripe(mdt))
            self._log(node.mdt, RecordType.LAYOUT, target=fid)
            return fid
        node.stripes = [fid, self._stripe(mdt + 1)]
        self._renumber(node, node.mdt)
        return node.fid

    def _renumber(self, node: Node, mdt: int) -> None:
        """Give a file or directory another FID, which is a migration."""
        before = node.fid
        del self.nodes[before]
        node.fid, node.mdt, node.logged_ns = self._fid(mdt), mdt, -1
        self.nodes[node.fid] = node
        for parent, name in node.names:
            self.nodes[parent].children[name] = node.fid
        for child in node.children.values():
            below = self.nodes[child]
            below.names = [(node.fid if p == before else p, name) for p, name in below.names]
        node.ctime_ns = self._tick()
        self._log_moved(node, before)

    def _log_moved(self, node: Node, before: bytes) -> None:
        parent, name = node.names[0]
        self._log(node.mdt, RecordType.MIGRATE, target=node.fid, parent=parent, name=name,
                  source=before, source_parent=parent, old_name=name)  # fmt: skip

    # -- what administrators and time do --

    def register(self, name: str = "trimtab", *, mdt: int | None = None) -> None:
        """Register a user on every MDT, or on one."""
        for log in self.logs if mdt is None else (self.logs[mdt],):
            log.registered += 1
            log.users[f"cl{log.registered}-{name}"] = [log.index, self.now_ns]

    def drop(self, mdt: int, name: str | None = None) -> None:
        """Garbage collection: users go, with a warning on a console that nobody reads."""
        log = self.logs[mdt]
        for user in [user for user in log.users if name is None or user.endswith(name)]:
            del log.users[user]
        self._purge(log)

    def lose(self, mdt: int, index: int) -> bool:
        """Lose a record; say whether it was there."""
        log = self.logs[mdt]
        before = len(log.records)
        log.records = [record for record in log.records if record.index != index]
        return len(log.records) < before

    # -- what a follower calls --

    def mdts(self) -> Sequence[str]:
        return [f"MDT{number:04x}" for number in range(len(self.logs))]

    def users(self) -> dict[str, ChangelogUsers]:
        return {
            mdt: ChangelogUsers(
                log.index,
                tuple(
                    ChangelogUser(name, index, (self.now_ns - at_ns) // 10**9)
                    for name, (index, at_ns) in log.users.items()
                ),
                NEEDED,
            )
            for mdt, log in zip(self.mdts(), self.logs, strict=True)
            if mdt not in self.silent
        }

    def read(self, mdt: str, after: int) -> tuple[bytes, bool]:
        log = self.logs[int(mdt[3:], 16)]
        records = [record for record in log.records if record.index > after - self.repeat]
        part = records[: self.read_maximum + self.repeat]
        return b"".join(map(encoded, part)), len(part) == len(records)

    def clear(self, order: Clear) -> None:
        log = self.logs[int(order.mdt[3:], 16)]
        self.cleared.append(order)
        name = next((n for n in log.users if n.startswith(f"cl{order.user}-")), None)
        if name is None:
            raise ClearRefusedError(errno.ENOENT)
        if order.index > log.index:
            raise ClearRefusedError(errno.EINVAL)
        if order.index < log.users[name][0]:
            self.refused += 1
            later = [user for user in log.users if int(user[2:].split("-")[0]) >= order.user]
            for user in later:
                del log.users[user]
        else:
            log.users[name] = [order.index, self.now_ns]
        log.cleared_ns = self._tick()
        self._purge(log)

    def look(self, files: Sequence[bytes]) -> LookedUp:
        self.meanwhile()
        rows, gone, failed, stripes = [], set(), {}, {}
        for fid in files:
            node = self.nodes.get(fid)
            if fid in self.broken:
                failed[fid] = self.broken[fid]
            elif (directory := self.directory_of(fid)) is not None:
                stripes[fid] = directory
            elif node is None or not (node.names or fid == ROOT):
                gone.add(fid)
            else:
                copy = self._copy(node)
                rows += [(self.linked(parent, name), name, copy) for parent, name in node.names]
            self.meanwhile()
        return LookedUp(ROOT, self._frame(rows), frozenset(gone), failed, stripes=stripes)

    def children(self, directories: Sequence[bytes]) -> tuple[set[bytes], dict[bytes, int]]:
        found: set[bytes] = set()
        for fid in directories:
            directory = self.directory_of(fid) or fid
            if directory in self.nodes and fid not in self.unreadable:
                found |= set(self.nodes[directory].children.values())
            self.meanwhile()
        return found, {fid: self.unreadable[fid] for fid in directories if fid in self.unreadable}

    def list(self, directories: Sequence[bytes]) -> tuple[pl.DataFrame, dict[bytes, int]]:
        rows = []
        for fid in directories:
            if fid in self.nodes:
                children = self.nodes[fid].children
                rows += [(fid, name, inode_of(child)) for name, child in children.items()]
            self.meanwhile()
        kinds = {"directory": pl.Binary, "name": pl.Binary, "inode": pl.UInt64}
        return pl.DataFrame(rows, schema=kinds, orient="row"), {}

    def mdts_of(self, files: Sequence[bytes]) -> dict[bytes, str | None]:
        sequences = [0x2_0000_0402 + number * 0x4000_0000 for number in range(len(self.logs))]
        mdts = dict(zip(sequences, self.mdts(), strict=True))
        return {file: mdts.get(int.from_bytes(file[:8], "big")) for file in files}

    def directory_of(self, fid: bytes) -> bytes | None:
        """Return the directory that a stripe is a part of, as the server's path tells it."""
        return next((node.fid for node in self.nodes.values() if fid in node.stripes), None)

    def linked(self, parent: bytes, name: bytes) -> bytes:
        """Return what ``trusted.link`` names as the directory of a name: the stripe that has it."""
        stripes = self.nodes[parent].stripes
        return stripes[sum(name) % len(stripes)] if stripes else parent

    # -- listings --

    def listing(self, *, during: Callable[[], None] = lambda: None) -> pl.DataFrame:
        """Return the rows that a scan finds, directory by directory; others act meanwhile."""
        rows = []
        todo = [(ROOT, b"")]
        while todo:
            fid, path = todo.pop()
            directory = self.nodes.get(fid)
            if directory is None:
                continue
            for name, child in list(directory.children.items()):
                node = self.nodes[child]
                rows.append((path, name, self._copy(node)))
                if node.kind == "d":
                    todo.append((child, path + b"/" + name if path else name))
            during()
        return self._frame(rows)

    def _copy(self, node: Node) -> Node:
        return replace(node, names=list(node.names), nlink=self._nlink(node))

    def _frame(self, rows: Iterable[tuple[bytes, bytes, Node]]) -> pl.DataFrame:
        rows = list(rows)
        nodes = [node for _, _, node in rows]
        kinds = columns()
        values: dict[str, list[object]] = {
            "parent": [parent for parent, _, _ in rows],
            "name": [name for _, name, _ in rows],
            "id": [node.fid for node in nodes],
            "id_kind": ["fid"] * len(rows),
            "device": [DEVICE] * len(rows),
            "uid": [node.uid for node in nodes],
            "gid": [node.uid for node in nodes],
            "size_bytes": [node.size for node in nodes],
            "allocated_bytes": [-(-node.size // 4096) * 4096 for node in nodes],
            "nlink": [node.nlink for node in nodes],
            "atime_ns": [node.atime_ns for node in nodes],
            "mtime_ns": [node.mtime_ns for node in nodes],
            "ctime_ns": [node.ctime_ns for node in nodes],
            "type": [node.kind for node in nodes],
            "osts": [[node.size % 4] if node.kind == "f" else None for node in nodes],
        }
        frame = pl.DataFrame(values, schema={name: kinds[name] for name in values})
        missing = [name for name in kinds if name not in values and name != "last_use_s"]
        frame = frame.with_columns(pl.lit(None).cast(kinds[name]).alias(name) for name in missing)
        return frame.with_columns(last_use_s=last_use_s()).select(*kinds)

    def _nlink(self, node: Node) -> int:
        if node.kind != "d":
            return len(node.names)
        return 2 + sum(self.nodes[child].kind == "d" for child in node.children.values())

    # -- inside --

    def _tick(self) -> int:
        self.now_ns += 10**6
        return self.now_ns

    def _fid(self, mdt: int) -> bytes:
        self._numbers[mdt] += 1
        return struct.pack(">QII", 0x2_0000_0402 + mdt * 0x4000_0000, self._numbers[mdt], 0)

    def _stripe(self, mdt: int) -> bytes:
        """Return a FID that an MDT gives to a part of a directory."""
        mdt %= len(self.logs)
        self._stripe_numbers[mdt] += 1
        return struct.pack(">QII", 0x2_0000_0400 + mdt * 0x4000_0000, self._stripe_numbers[mdt], 0)

    def _node(self, fid: bytes, kind: str, mdt: int) -> Node:
        now = self._tick()
        return Node(fid, kind, mdt, 1000, 4096 if kind == "d" else 0, now, now, now)

    def _enter(self, node: Node, parent: bytes, name: bytes) -> None:
        above = self.nodes[parent]
        assert name not in above.children
        above.children[name] = node.fid
        node.names.append((parent, name))
        above.mtime_ns = above.ctime_ns = self._tick()

    def _leave(self, node: Node, parent: bytes, name: bytes) -> None:
        above = self.nodes[parent]
        del above.children[name]
        node.names.remove((parent, name))
        above.mtime_ns = above.ctime_ns = self._tick()

    def _log_data(self, node: Node, kind: RecordType) -> None:
        log = self.logs[node.mdt]
        if kind in _SUPPRESSED and node.logged_ns > log.cleared_ns:
            return
        if log.users:
            node.logged_ns = self.now_ns
        self._log(node.mdt, kind, target=node.fid)

    def _log(self, mdt: int, kind: RecordType, **values: object) -> None:
        log = self.logs[mdt]
        if not log.users:
            return  # nobody reads: nothing is recorded, and no number is used up
        log.index += 1
        record: dict[str, object] = {"target": None, "parent": None, **values}
        log.records.append(Record(index=log.index, type=kind, time_ns=self.now_ns, **record))  # type: ignore[arg-type]

    @staticmethod
    def _purge(log: Log) -> None:
        least = min((index for index, _ in log.users.values()), default=log.index)
        log.records = [record for record in log.records if record.index > least]
