"""Trees of GUFI: for each directory of the file system one of the index, with its ``db.db``.

A database holds the files and links of one directory (``entries``) and the directory itself
(``summary``). What ``gufi_rollup`` copies upwards (``pentries``, further rows of ``summary``) is
passed over: every directory is taken from its own database, once. The core reads the databases
(`crates/namespace/src/gufi.rs`), of every version since 0.4.0; the name of a directory is that of
the index's own directory.

The index is read through descriptors, directory by directory, and a symbolic link in it is never
followed: GUFI gives its directories to the owners of the originals. Times are whole seconds.
FIFOs, sockets and devices are not in such a tree, nor files named ``db.db``, and a directory that
GUFI could not read is missing without a word.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.errors import DataError
from trimtab.purge.index import fields
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import Reading
from trimtab.record.system_errors import system_errors
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

DATABASE: Final = "db.db"
_WRITING: Final = (f"{DATABASE}-journal", f"{DATABASE}-wal")
_COLUMNS: Final = frozenset(
    {"id", "nlink", "uid", "gid", "size_bytes", "allocated_bytes", "atime_ns", "mtime_ns",
     "ctime_ns", "btime_ns", "type"}
)  # fmt: skip
_BATCH_BYTES: Final = 32 * 1024**2
_DATABASE_MAX_BYTES: Final = 4 * 1024**3
"""A database is read as a whole: some 30 million files in one directory."""
_DEPTH_MAX: Final = 400
"""A descriptor is open for each level."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Held = tuple[bytes, bytes]
"""Path of a directory relative to the root, and its database."""


class _Unusable(Exception):
    """A database cannot be taken."""


def read(tree: Path, reading: Reading) -> Iterator[pl.DataFrame]:
    """Yield the rows of a tree.

    Parameters
    ----------
    tree
        The directory of the index that stands for the root: ``INDEX/NAME`` of
        ``gufi_dir2index .../NAME INDEX``.

    Raises
    ------
    DataError
        It is no such directory.
    UnreadableError
        It cannot be opened.
    """
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, fields.NS_PER_S
    reading.columns |= _COLUMNS
    reading.note(
        "GUFI keeps no FIFOs, sockets, devices and files named db.db: none is in the index"
    )
    with system_errors(f"cannot read {visible(str(tree))}", code="unreadable-file"):
        top = os.open(tree, _DIRECTORY)
    held: list[Held] = []
    held_bytes = 0
    first = True
    for database in _databases(top, b"", reading, 0):
        held.append(database)
        held_bytes += len(database[1])
        if first or held_bytes >= _BATCH_BYTES:
            yield _frame(held, reading, first=first)
            held, held_bytes, first = [], 0, False
    if first:
        raise _foreign(f"there is no {DATABASE} in it that can be read")
    if held:
        yield _frame(held, reading, first=False)


def _foreign(problem: str) -> DataError:
    return DataError(
        f"this is no directory of a GUFI index: {problem}",
        code="format-unknown",
        hint="name the directory that stands for the root: INDEX/NAME, where "
        "`gufi_dir2index /path/NAME INDEX` was run",
    )


def _databases(directory: int, path: bytes, reading: Reading, depth: int) -> Iterator[Held]:
    """Yield the databases of a directory of the index and of all beneath; close it."""
    try:
        try:
            yield path, _database(directory, reading)
        except (OSError, _Unusable) as error:
            if not path:
                raise _foreign(_reason(error)) from error
            reading.refuse(_reason(error), text=path)
        try:
            inner = _directories(directory, path, reading)
        except OSError as error:
            reading.refuse(f"its directory cannot be read: {error.strerror}", text=path)
            return
        for name in inner:
            below = path + b"/" + name if path else name
            if depth >= _DEPTH_MAX:
                reading.refuse(f"it is more than {_DEPTH_MAX} directories deep", text=below)
                continue
            try:
                child = os.open(name, _DIRECTORY, dir_fd=directory)
            except OSError as error:
                reading.refuse(f"its directory cannot be read: {error.strerror}", text=below)
                continue
            yield from _databases(child, below, reading, depth + 1)
    finally:
        os.close(directory)


def _reason(error: OSError | _Unusable) -> str:
    if isinstance(error, _Unusable):
        return str(error)
    return f"its {DATABASE} cannot be read: {error.strerror}"


def _database(directory: int, reading: Reading) -> bytes:
    """Return the bytes of the database of a directory, which nobody wrote in the meantime."""
    descriptor = os.open(DATABASE, _FILE, dir_fd=directory)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise _Unusable(f"its {DATABASE} is no regular file")
        if before.st_size > _DATABASE_MAX_BYTES:
            raise _Unusable(f"its {DATABASE} is larger than 4 GiB")
        data = os.read(descriptor, before.st_size + 1)
        while len(data) < before.st_size and (more := os.read(descriptor, before.st_size)):
            data += more  # one call reads 2 GiB at most
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if len(data) != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
        raise _Unusable(f"its {DATABASE} was written while it was read")
    reading.written_ns = max(reading.written_ns or 0, before.st_mtime_ns)
    return data


def _directories(directory: int, path: bytes, reading: Reading) -> list[bytes]:
    """Return the names of directories, in order; refuse what must not be in such a tree."""
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                names.append(os.fsencode(entry.name))
            elif entry.name == DATABASE:  # refused when it was opened, unless it is regular
                continue
            elif entry.is_symlink():
                below = (path + b"/" if path else b"") + os.fsencode(entry.name)
                reading.refuse("a symbolic link in the index is not followed", text=below)
            elif entry.name in _WRITING and entry.stat(follow_symlinks=False).st_size:
                reading.refuse("its database is being written", text=path)
    return sorted(names)


def _frame(held: list[Held], reading: Reading, *, first: bool) -> pl.DataFrame:
    """Return the rows of databases; the first of all is the root's.

    Raises
    ------
    DataError
        The root's cannot be read.
    """
    import polars as pl

    from trimtab._core import gufi_rows

    rows, directories, refused = gufi_rows(held)
    for path, name, reason in refused:
        if first and not directories:
            raise _foreign(reason)
        reading.refuse(reason, text=path + b"/" + name if path and name else path or name)
    return pl.DataFrame(rows).with_columns(id_kind=pl.lit("inode"))
