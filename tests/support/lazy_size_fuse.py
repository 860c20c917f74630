"""A mounted file system that moves the ctime of a file when it is closed, as Lustre does.

An MDS that had not heard of a file's blocks stores what the client reports when it closes the file,
and that store sets the ctime to now, even of a file that was only opened to be looked at (recorded
of Lustre 2.17.0: 36 s after the last write, ``os.open(path, O_RDONLY | O_NOATIME)`` and
``os.close`` moved the ctime to the time of the close, and nothing else). Here every file is in that
state until it is closed once.

The root holds files ``f0``, ``f1`` and so on. They have a project (``FS_IOC_FSGETXATTR``), so that
whoever opens a file to ask for it gets an answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.silent_fuse import fuse_mount

PROJECT: Final = 7
_HEADER = struct.Struct("<IIQQIIII")  # fuse_in_header: len opcode unique nodeid uid gid pid
_REPLY = struct.Struct("<IiQ")  # fuse_out_header: len error unique
_FORGET, _BATCH_FORGET = 2, 42
_IOCTL_DIR: Final = 1 << 11
_FSGETXATTR: Final = 0x801C581F
_ROOT: Final = 1
_OLD_S: Final = 1_600_000_000


@dataclass(slots=True)
class LazySizes:
    """A mount, and which of its files were opened.

    Attributes
    ----------
    ctimes_ns
        Of each file.
    opened
        Numbers of files that somebody opened.
    """

    point: Path
    ctimes_ns: list[int]
    opened: set[int] = field(default_factory=set)

    @property
    def paths(self) -> list[Path]:
        """The root and every file."""
        return [self.point, *(self.point / f"f{n}" for n in range(len(self.ctimes_ns)))]


@contextlib.contextmanager
def lazy_sizes_mount(point: Path, files: int) -> Iterator[LazySizes]:
    """Mount it; skips the test where FUSE cannot be mounted."""
    with fuse_mount(point, "lazysizes") as (_, device):
        made = LazySizes(point, [_OLD_S * 10**9] * files)
        server = threading.Thread(target=_serve, args=(device, made), daemon=True)
        server.start()
        yield made
    server.join(5.0)


def _serve(device: int, made: LazySizes) -> None:
    while True:
        try:
            request = os.read(device, 2**20)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            return  # it is unmounted
        _, opcode, unique, node, *_ = _HEADER.unpack_from(request)
        if opcode in (_FORGET, _BATCH_FORGET):
            continue
        answer = _answer(opcode, node, request[_HEADER.size :], made)
        code, body = (answer, b"") if isinstance(answer, int) else (0, answer)
        with contextlib.suppress(OSError):  # nobody waits for it any more
            os.write(device, _REPLY.pack(_REPLY.size + len(body), code, unique) + body)


def _answer(opcode: int, node: int, body: bytes, made: LazySizes) -> bytes | int:
    """Return the body of an answer, or an error as a negative number."""
    answers: dict[int, Callable[[], bytes | int]] = {
        1: lambda: _found(body, made),  # LOOKUP
        3: lambda: struct.pack("<QII", 0, 0, 0) + _attributes(node, made),  # GETATTR
        14: lambda: _open(node, made),
        17: lambda: struct.pack("<QQQQQIIII", *[1 << 30] * 5, 4096, 255, 4096, 0).ljust(80, b"\0"),
        18: lambda: _release(node, made),
        26: lambda: struct.pack("<IIIIHHI", 7, 31, 0, _IOCTL_DIR, 0, 0, 4096).ljust(64, b"\0"),
        27: lambda: bytes(16),  # OPENDIR
        28: lambda: _entries(*struct.unpack_from("<QI", body, 8), made=made),  # READDIR
        29: lambda: b"",  # RELEASEDIR
        39: lambda: _ioctl(struct.unpack_from("<I", body, 12)[0]),
    }
    return answers.get(opcode, lambda: -errno.ENOSYS)()


def _found(body: bytes, made: LazySizes) -> bytes | int:
    node = _named(body.rstrip(b"\0").decode("ascii", "replace"), made)
    if node is None:
        return -errno.ENOENT
    return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + _attributes(node, made)


def _open(node: int, made: LazySizes) -> bytes:
    made.opened.add(node - _ROOT - 1)
    return bytes(16)


def _release(node: int, made: LazySizes) -> bytes:
    """Note the last close: what was not known of the file is stored, and that moves its ctime."""
    if made.ctimes_ns[node - _ROOT - 1] == _OLD_S * 10**9:
        made.ctimes_ns[node - _ROOT - 1] = time.time_ns()
    return b""


def _ioctl(number: int) -> bytes | int:
    if number != _FSGETXATTR:
        return -errno.ENOTTY
    return struct.pack("<iIIIIIII12x", 0, 0, 0, 0, 0, 0, 0, PROJECT)


def _named(name: str, made: LazySizes) -> int | None:
    known = name[:1] == "f" and name[1:].isdigit() and int(name[1:]) < len(made.ctimes_ns)
    return int(name[1:]) + _ROOT + 1 if known else None


def _entries(offset: int, most_bytes: int, made: LazySizes) -> bytes:
    records = b""
    for number in range(offset, len(made.ctimes_ns)):
        name = f"f{number}".encode()
        record = struct.pack("<QQII", number + _ROOT + 1, number + 1, len(name), 8) + name
        record = record.ljust(-(-len(record) // 8) * 8, b"\0")
        if len(records) + len(record) > most_bytes:
            break
        records += record
    return records


def _attributes(node: int, made: LazySizes) -> bytes:
    """Return a ``fuse_attr``."""
    is_root = node == _ROOT
    change_ns = _OLD_S * 10**9 if is_root else made.ctimes_ns[node - _ROOT - 1]
    mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o644
    change_s, rest_ns = divmod(change_ns, 10**9)
    return struct.pack(
        "<QQQQQQIIIIIIIIII",
        node, 4096, 8, _OLD_S, _OLD_S, change_s, 0, 0, rest_ns, mode, 2 if is_root else 1,
        1000, 1000, 0, 4096, 0,
    )  # fmt: skip
