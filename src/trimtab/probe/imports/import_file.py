"""Finds the files to import, and returns their content: unpacked, or converted to text.

Directories are walked in the order of names. Links in them are not followed, so nothing is read
twice or from elsewhere; a link that a person names is followed. Only regular files are opened.
Binary formats are converted in a child process.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from trimtab.base.error import DataError
from trimtab.base.filesystem import parse_mountinfo
from trimtab.base.units import format_bytes
from trimtab.base.visible import visible
from trimtab.formats import darshan
from trimtab.reach import bounded
from trimtab.reach.process import execute

DEPTH_LIMIT = 64
SIZE_LIMIT_BYTES = 256 * 1024**2
"""No output of a benchmark is larger; a file of any size can lie in a directory."""
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to look into.

    Attributes
    ----------
    path
        As it was named; of a file in a directory, the directory's name and the rest.
    problem
        Why it cannot be looked into, where that is known already.
    size_bytes
        0 where it cannot.
    """

    path: str
    named: bool
    problem: str | None = None
    size_bytes: int = 0


def candidates(paths: Sequence[str]) -> Iterator[FoundFile]:
    """Yield every file once: in the order of the arguments, and of names within a directory.

    Raises
    ------
    NoAnswer
        The file system of an argument does not answer.
    """
    seen: set[tuple[int, int]] = set()
    answering: set[str] = set()
    for path in paths:
        for candidate in _of_argument(path, answering):
            if candidate.problem is None:
                try:
                    status = os.stat(candidate.path)  # noqa: PTH116 (a name of any bytes)
                except OSError as error:
                    yield FoundFile(candidate.path, candidate.named, error.strerror)
                    continue
                identity = (status.st_dev, status.st_ino)
                if identity in seen:
                    continue
                seen.add(identity)
                yield replace(candidate, size_bytes=status.st_size)
            else:
                yield candidate


def _of_argument(path: str, answering: set[str]) -> Iterator[FoundFile]:
    """Yield the files of one argument; ``answering`` are directories whose file system answers."""
    directory = os.path.dirname(path.rstrip("/")) or "."  # noqa: PTH120 (a name of any bytes)
    # Asked by a child that may hang in our place: the file system may be the one under test.
    # Once for a directory: a shell unfolds a pattern into thousands of arguments.
    if directory not in answering:
        bounded.describe(directory)
        answering.add(directory)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            bounded.describe(path)
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError as error:
        yield FoundFile(path, True, _why(path, error))
        return
    if stat.S_ISDIR(mode):
        real = os.path.realpath(path)
        yield from _walk(path.rstrip("/") or "/", real, _mount_points(), 0)
    elif stat.S_ISREG(mode):
        yield FoundFile(path, True)
    else:
        yield FoundFile(path, True, "it is not a regular file")


def _why(path: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        is_link = os.path.islink(path)  # noqa: PTH114
        return "it is a link to nothing" if is_link else "there is no such file"
    return error.strerror or str(error)


def _mount_points() -> frozenset[str]:
    """Return where file systems are mounted: what hangs there is not touched."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return frozenset(mount.mount_point for mount in parse_mountinfo(text))


def _walk(
    directory: str, real: str, mount_points: frozenset[str], depth: int
) -> Iterator[FoundFile]:
    """Yield the files below a directory, without leaving its file system.

    Parameters
    ----------
    real
        The same directory without links, as the mount table names it.
    """
    if depth > DEPTH_LIMIT:
        yield FoundFile(directory, False, f"more than {DEPTH_LIMIT} directories deep")
        return
    try:
        with os.scandir(directory) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield FoundFile(directory, False, error.strerror)
        return
    for entry in ordered:
        inner = f"{real.rstrip('/')}/{entry.name}"
        if inner in mount_points:
            why = "another file system is mounted there; name it to have it read"
            yield FoundFile(entry.path, False, why)
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            yield FoundFile(entry.path, False, error.strerror)
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(entry.path, inner, mount_points, depth + 1)
        elif stat.S_ISREG(mode):
            yield FoundFile(entry.path, False)


@contextmanager
def opened_file(path: str, *, follow: bool) -> Iterator[BinaryIO]:
    """Yield a regular file to read.

    Raises
    ------
    DataError
        It is something else, or too large.
    OSError
        It cannot be opened, or is a link that is not to be followed.
    """
    # Not blocking: between the look at its type and this it may have become a pipe.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as stream:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise DataError("it is not a regular file", code="not-a-file", file=visible(path))
        _check_size(state.st_size, visible(path))
        yield stream


def _check_size(size: int, file: str) -> None:
    if size > SIZE_LIMIT_BYTES:
        limit = format_bytes(SIZE_LIMIT_BYTES)
        raise DataError(f"it is larger than {limit}", code="file-too-large", file=file)


def content_of(path: str, *, follow: bool) -> bytes:
    """Return the bytes of a file, unpacked where it is gzip.

    Raises
    ------
    DataError
        It is too large, or a damaged archive.
    OSError
        It cannot be opened.
    """
    with opened_file(path, follow=follow) as stream:
        return whole_of(path, stream)


def whole_of(path: str, stream: BinaryIO) -> bytes:
    """Return the bytes of an opened file, unpacked where it is gzip; raises as `content_of`."""
    stream.seek(0)
    content = stream.read(SIZE_LIMIT_BYTES + 1)
    _check_size(len(content), visible(path))
    return unpacked(content, visible(path))


def unpacked(content: bytes, file: str) -> bytes:
    """Return what is in a file, unpacked where it is gzip.

    Raises
    ------
    DataError
        It is a damaged archive, one of several files, or too large unpacked.
    """
    if content.startswith(GZIP):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(SIZE_LIMIT_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"a damaged gzip archive: {error}", code="archive-damaged", file=file
            ) from error
        _check_size(len(content), file)
    if content[257:262] == b"ustar":
        raise DataError(
            "an archive of several files (tar)",
            code="archive",
            file=file,
            hint="unpack it and import the directory",
        )
    return content


_TIMEOUT_S: Final = 120.0
_LIMIT_BYTES: Final = 256 * 1024**2


def converted(content: bytes) -> bytes | None:
    """Return the text of a binary file; ``None`` where the content is to be read as it is.

    The child gets a copy: its library reads untrusted bytes, from a path, and may crash.

    Raises
    ------
    DataError
        It did not end, or printed nothing.
    """
    if not darshan.is_log(content):
        return None
    with tempfile.NamedTemporaryFile(suffix=".darshan") as copy:
        copy.write(content)
        copy.flush()
        argv = darshan.dump_command(copy.name)
        result = execute(argv, timeout_s=_TIMEOUT_S, output_limit_bytes=_LIMIT_BYTES)
    if result.timed_out or result.truncated or not result.stdout:
        problem = result.problem or "it printed nothing"
        raise DataError(
            f"PyDarshan cannot read this Darshan log: {problem}", code="format-unreadable"
        )
    return result.stdout
