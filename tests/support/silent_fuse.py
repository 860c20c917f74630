"""A mounted file system that never answers: what a dead server looks like to a client.

The kernel's side of FUSE is mounted without a daemon behind it that would answer. Two ways:

- ``deaf``: not even the first message (INIT) is answered. Whoever touches the mount waits, and can
  still be killed.
- ``mute``: INIT is answered, then every request is read and none is answered. Whoever touches the
  mount waits in the kernel and cannot be killed: the case of a hard mount (``request_wait_answer``
  in fs/fuse/dev.c waits without end for a request that was already read).

With ``files`` a mute mount has a root with files ``f0``, ``f1`` and so on, which are found; whoever
asks for the attributes of every other one waits, as where one of several servers is lost.

The connection is aborted on leaving, whatever happened, and everything that waits is released.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_MNT_DETACH = 2
_LOOKUP, _FORGET, _GETATTR, _INIT, _OPENDIR, _BATCH_FORGET = 1, 2, 3, 26, 27, 42
_ROOT = 1
FILE_BYTES = 4096
_FUSE_HEADER = struct.Struct("<IIQQIIII")  # fuse_in_header: len opcode unique nodeid uid gid pid
_REPLY_HEADER = struct.Struct("<IiQ")  # fuse_out_header: len error unique
_CONNECTIONS = Path("/sys/fs/fuse/connections")


def why_not() -> str | None:
    """Return why a silent file system cannot be mounted here; ``None`` if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is missing"
    return None


@contextlib.contextmanager
def silent_mount(
    path: Path | str, *, mute: bool = False, files: int | None = None
) -> Iterator[Path]:
    """Mount a file system at ``path`` that does not answer; skip the test where it may not be.

    Parameters
    ----------
    mute
        Read every request, so that whoever waits cannot even be killed.
    files
        Of a mute mount: how many files it has, every second of them on a lost server.
    """
    with fuse_mount(path, "silent") as (point, device):
        stop = threading.Event()
        reader = threading.Thread(
            target=_read_and_say_nothing, args=(device, stop, files), daemon=True
        )
        try:
            if mute:
                reader.start()
                _wait_until_mute(reader)
            yield point
        finally:
            stop.set()
            if mute:
                reader.join(5.0)


@contextlib.contextmanager
def fuse_mount(path: Path | str, kind: str) -> Iterator[tuple[Path, int]]:
    """Mount FUSE at ``path``, and yield it with the descriptor by which requests are answered.

    Skips the test where that is not possible.
    """
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    point = Path(path)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (kind.encode(), os.fsencode(point), f"fuse.{kind}".encode(), 0, options.encode())
    if libc.mount(*arguments) != 0:
        number = ctypes.get_errno()
        os.close(device)
        pytest.skip(f"mounting FUSE is not possible here: {os.strerror(number)}")
    connection = _connection_of(point)
    try:
        yield point, device
    finally:
        _release(connection, point, libc)
        os.close(device)


def _connection_of(point: Path) -> Path | None:
    """Return the control directory of the mount, found without touching the mount itself."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4] == str(point):
            minor = int(fields[2].partition(":")[2])
            return _CONNECTIONS / str(minor)
    return None


def _release(connection: Path | None, point: Path, libc: ctypes.CDLL) -> None:
    """Abort the connection, so that nobody waits any more, and take the mount away."""
    if not _CONNECTIONS.exists() or not any(_CONNECTIONS.iterdir()):
        libc.mount(b"fusectl", os.fsencode(_CONNECTIONS), b"fusectl", 0, None)
    if connection is not None:
        with contextlib.suppress(OSError):
            (connection / "abort").write_text("1")
    libc.umount2(os.fsencode(point), _MNT_DETACH)


def _read_and_say_nothing(device: int, stop: threading.Event, files: int | None) -> None:
    """Answer INIT, so that requests are handed out; then take them and keep silent."""
    os.set_blocking(device, False)
    while not stop.is_set():
        try:
            request = os.read(device, 2**20)
        except BlockingIOError:
            time.sleep(0.005)
            continue
        except OSError:
            return  # the connection was aborted
        _, opcode, unique, node, *_ = _FUSE_HEADER.unpack_from(request)
        if opcode == _INIT:
            # fuse_init_out of protocol 7.31: 64 bytes, all features off, writes of 4 KiB.
            body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, 0)
        elif files is None or (body := _answer(opcode, node, request[40:], files)) is None:
            continue
        error = body if isinstance(body, int) else 0
        body = b"" if isinstance(body, int) else body
        os.write(device, _REPLY_HEADER.pack(_REPLY_HEADER.size + len(body), error, unique) + body)


def _answer(opcode: int, node: int, request: bytes, files: int) -> bytes | int | None:
    """Return what a file system with a lost server answers, an error, or nothing."""
    if opcode in (_FORGET, _BATCH_FORGET) or (opcode == _GETATTR and node > _ROOT and node % 2):
        return None
    if opcode == _LOOKUP:
        name = request.rstrip(b"\0").decode()
        number = int(name[1:]) if name[:1] == "f" and name[1:].isdigit() else files
        if number >= files:
            return -errno.ENOENT
        node = number + _ROOT + 1
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + _attributes(node)
    if opcode == _GETATTR:
        return struct.pack("<QII", 0, 0, 0) + _attributes(node)
    if opcode == _OPENDIR:
        return bytes(16)
    return -errno.ENOSYS


def _attributes(node: int) -> bytes:
    """Return a ``fuse_attr``: of the root, or of a file."""
    mode = stat.S_IFDIR | 0o755 if node == _ROOT else stat.S_IFREG | 0o644
    size = FILE_BYTES
    return struct.pack(
        "<QQQQQQIIIIIIIIII", node, size, 8, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
    )


def _wait_until_mute(reader: threading.Thread) -> None:
    """Give the thread a moment for INIT; later requests wait for it anyway."""
    reader.join(0.1)
    if not reader.is_alive():
        pytest.skip("the FUSE connection was refused by the kernel")
