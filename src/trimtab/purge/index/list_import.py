"""Import a list of another tool, with a person's description of it, as an index.

The index is written beside its destination and renamed when complete, so it never exists in part.
The next import removes leftovers of an interrupted one.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import polars as pl

from trimtab.base.error import (
    DataError,
    RefusedError,
    ToolError,
    UsageError,
    system_errors,
    visible,
)
from trimtab.base.event import new_identifier, utc_now
from trimtab.base.trusted_file import opened, synchronise
from trimtab.base.units import parse_moment
from trimtab.purge.core_call import require_answer
from trimtab.purge.index import list_reading
from trimtab.purge.index.list_reading import (
    CHUNK_BYTES,
    NS_PER_S,
    RECORD_MAX_BYTES,
    ListReading,
    placed,
)
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest, TimeTrust
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.table_list import NO_NAMES, Names, names_of, parse_map
from trimtab.purge.root_facts import root_facts

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_PROGRESS_ROWS: Final = 100_000
_EARLY_S: Final = 10 * 365 * 86400
"""Ten years after 1970: if no file was changed later, the times are in another unit."""
_CLOCKS_NS: Final = 86400 * NS_PER_S
"""Tolerated clock difference of clients and servers.

Times later than the list by more are damage.
"""


@dataclass(frozen=True, slots=True)
class ListDescription:
    """A person's description of a list: how to read it, and what the list itself does not say.

    Attributes
    ----------
    root
        Directory that contains its paths.
    filesystem
        The file system of the list.
    started_ns, ended_ns
        When the tool that made it started and ended, in ns since 1970.
    complete
        Whether that tool ended without an error, so that the list has everything beneath the root.
    beneath
        Prefix of relative paths.
    format_text
        Argument of ``-printf``.
    column_map
        Pairs of a column map.
    names
        Numbers of users and groups, for a table with names.
    delimiter
        Delimiter of a CSV file.
    """

    source: IndexSource
    root: bytes
    filesystem: FileSystemIdentity | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    complete: bool = False
    beneath: bytes = b""
    format_text: str | None = None
    column_map: Sequence[str] = ()
    names: Names = NO_NAMES
    delimiter: str = ","


def import_list(
    file: Path,
    directory: Path,
    described: ListDescription,
    *,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Import a list as an index and return its manifest.

    Parameters
    ----------
    file
        The list, optionally compressed with gzip.
    directory
        Directory of the new index; it must not exist yet.
    described
        How to read the list, and its absolute root.
    now
        Current time, for the identifier and as the latest possible time of the list.
    progress
        Called with the number of rows so far.

    Raises
    ------
    UsageError
        The root, the format or the column map is invalid.
    RefusedError
        The index directory already exists, or another import is writing it.
    DataError
        The list is not of this format.
    UnreadableError
        It cannot be read, or the index cannot be written.
    """
    from trimtab.purge.index.shard import ShardWriter, fill

    root = described.root
    if not root.startswith(b"/") or b"/../" in root + b"/" or b"\0" in root:
        raise UsageError(
            f"the root {visible(root)!r} is not an absolute path", code="path-relative"
        )
    root = root.rstrip(b"/") or b"/"
    reading = ListReading(root=root, beneath=described.beneath)
    tallied = _Tallied(progress)
    with _aside(directory) as work, _opened(file, reading) as stream:
        reading.latest_ns = _written_ns(stream, now) + _CLOCKS_NS
        writer = ShardWriter(work)
        try:
            frames = tallied.counted(_frames(file, stream, reading, described))
            shards = fill(writer, frames)
        except DataError as error:
            raise error if error.file else error.of(visible(file)) from error
        changed_ns = _written_ns(stream, now)
        tallied.warn(reading)
        if writer.repeated:
            reading.note(f"{writer.repeated} names were in the list twice and were imported once")
        manifest = _manifest(reading, described, changed_ns, now)
        manifest = replace(manifest, shards=shards, notes=tuple(reading.notes))
        save_manifest(manifest, work)
        with system_errors(
            f"cannot put the index at {visible(directory)}", code="index-unwritable"
        ):
            work.rename(directory)
            synchronise(directory.parent)
    return manifest


def _frames(
    file: Path, stream: BinaryIO, reading: ListReading, described: ListDescription
) -> Iterator[pl.DataFrame]:
    """Return the frames of the importer for a source."""
    from trimtab.purge.index import printf_list, table_list

    source, form = described.source, described
    if source in (IndexSource.CSV, IndexSource.PARQUET):
        mapping = parse_map(form.column_map)
        if source is IndexSource.PARQUET:
            return table_list.read_parquet(str(file), reading, mapping=mapping, names=form.names)
        return table_list.read_csv(
            stream, reading, mapping=mapping, names=form.names, delimiter=form.delimiter
        )
    if form.column_map:
        raise UsageError(
            f"a column map is for tables, not for {source.value}", code="option-unfitting"
        )
    if source is IndexSource.GNU_FIND:
        return printf_list.read_gnu_list(stream, reading, format_text=form.format_text)
    if source is IndexSource.LFS_FIND:
        return printf_list.read_lfs_list(stream, reading, format_text=form.format_text)
    if form.format_text is not None:
        raise UsageError(
            f"a printf format is for lists of find, not for {source.value}",
            code="option-unfitting",
        )
    if source is IndexSource.MFU:
        return read_mfu_list(stream, reading)
    raise UsageError(
        f"{source.value} is not imported",
        code="source-unknown",
        hint="scan instead: trimtab purge scan ROOT --index DIR",
    )


def _written_ns(stream: BinaryIO, now: datetime) -> int:
    """Return when a list was last written, at most now, in ns since 1970."""
    return min(os.fstat(stream.fileno()).st_mtime_ns, _ns(now))


def _manifest(
    reading: ListReading, claims: ListDescription, changed_ns: int, now: datetime
) -> Manifest:
    """Return the manifest without shards; the list's own statements precede a person's."""
    ended_ns = reading.ended_ns or claims.ended_ns
    if ended_ns is None:
        ended_ns = changed_ns
        reading.note("end of the list unknown: taken to be the last write of its file")
    started_ns = reading.started_ns or claims.started_ns
    for name, at_ns in (("started", started_ns), ("ended", ended_ns)):
        if at_ns is not None and not 0 <= at_ns <= _ns(now) + NS_PER_S:
            raise DataError(
                f"by its own account the list {name} in the future",
                code="time-in-future",
                hint="set the clock",
            )
    if started_ns is not None and started_ns > ended_ns:
        raise DataError(
            "the list ends before it begins",
            code="times-reversed",
            hint="give --started and --ended in order",
        )
    ended_well = reading.ended_well or claims.complete
    if not ended_well:
        reading.note("nothing shows that the tool that made the list ended without an error")
    if claims.complete and not reading.ended_well:
        reading.note("the list was declared complete at the import")
    for reason, count in sorted(reading.reasons.items(), key=lambda pair: -pair[1]):
        reading.note(f"refused {count}: {reason}")
    return Manifest(
        index_id=new_identifier(now),
        root=reading.root,
        filesystem=claims.filesystem,
        source=claims.source,
        tool=claims.source.value,
        started_ns=started_ns,
        ended_ns=ended_ns,
        times=reading.times,
        time_resolution_ns=reading.resolution_ns,
        lacking=reading.lacking(),
        complete=ended_well and not reading.refused,
        shards=(),
        refused=reading.refused,
        refused_examples=tuple(reading.examples),
        vanished=reading.vanished,
    )


def _ns(at: datetime) -> int:
    return int(at.timestamp()) * NS_PER_S


class _Tallied:
    """Counts rows as they pass, and checks whether their times are plausible."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._rows = 0
        self._reported = 0
        self._latest_ns: int | None = None
        self._births = False

    def counted(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the frames unchanged."""
        for frame in frames:
            self._rows += frame.height
            for name in ("mtime_ns", "ctime_ns"):
                if name in frame.columns and (latest := frame[name].max()) is not None:
                    self._latest_ns = max(self._latest_ns or 0, int(latest))  # type: ignore[arg-type]
            if "btime_ns" in frame.columns and frame["btime_ns"].count():
                self._births = True
            if self._progress is not None and self._rows - self._reported >= _PROGRESS_ROWS:
                self._reported = self._rows
                self._progress(self._rows)
            yield frame

    def warn(self, reading: ListReading) -> None:
        """Note times that seem to be in another unit, and drop a column without values."""
        if not self._births:
            reading.columns.discard("btime_ns")
        if self._latest_ns is not None and self._latest_ns < _EARLY_S * NS_PER_S:
            reading.note("no file was changed after 1979: the times are probably in another unit")


@contextlib.contextmanager
def _aside(directory: Path) -> Iterator[Path]:
    """Create the directory beside the index's destination, and remove it unless it was renamed."""
    shown = visible(directory)
    work = directory.with_name(f".{directory.name}.importing")
    with contextlib.ExitStack() as stack:
        with system_errors(f"cannot make {shown}", code="index-unwritable"):
            if directory.is_symlink() or (directory.exists() and any(directory.iterdir())):
                raise RefusedError(
                    f"{shown} already exists",
                    code="index-present",
                    hint="name another directory for the index, or remove it first",
                )
            directory.parent.mkdir(parents=True, exist_ok=True)
            work.mkdir(mode=0o700, exist_ok=True)
            lock = stack.enter_context(opened(work))
        _alone(lock, work)
        for left in work.iterdir():  # of an interrupted import
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()
        try:
            yield work
        finally:
            if _is_at(lock, work):  # not renamed
                shutil.rmtree(work, ignore_errors=True)


def _alone(lock: int, work: Path) -> None:
    """Raise if another import is using the directory, or has just renamed it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        if _is_at(lock, work):
            return
    raise RefusedError(
        f"another import is running at {visible(work)}",
        code="import-running",
        hint="wait until it ends",
    )


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _opened(file: Path, reading: ListReading) -> Iterator[BinaryIO]:
    shown = visible(file)
    with system_errors(f"cannot read {shown}", code="unreadable-file"), file.open("rb") as plain:
        begins = plain.read(4)
        plain.seek(0)
        if begins.startswith(b"\x28\xb5\x2f\xfd"):
            raise UsageError(
                f"{shown} is compressed with zstd",
                code="compression-unknown",
                hint="decompress it first: zstd -d",
            )
        if begins.startswith(b"\x1f\x8b"):
            with gzip.open(plain) as unpacked:
                yield io.BufferedReader(_Tolerant(unpacked, plain, reading), CHUNK_BYTES)
        else:
            yield plain


class _Tolerant(io.RawIOBase):
    """A compressed list, possibly truncated or damaged; it is read up to that point."""

    def __init__(self, unpacked: gzip.GzipFile, plain: BinaryIO, reading: ListReading) -> None:
        super().__init__()
        self._unpacked, self._plain, self._reading = unpacked, plain, reading
        self._broken = False

    def readable(self) -> bool:
        """Return true."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._plain.fileno()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read the next bytes; none after damage, which counts as a rejected record."""
        view = memoryview(buffer)
        if self._broken:
            return 0
        try:
            data = self._unpacked.read(len(view))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._broken = True
            self._reading.refuse(f"the compressed list is damaged or truncated: {error}")
            return 0
        view[: len(data)] = data
        return len(data)


def import_index(
    file: Path,
    directory: Path,
    described: ListDescription,
    *,
    mounted: bool = False,
    started: str | None = None,
    ended: str | None = None,
    users: Path | None = None,
    groups: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Return the manifest of the index that a list became.

    Parameters
    ----------
    mounted
        Whether what is mounted at the root now is what the list is of.
    started, ended
        When the tool was started and ended, as text; UTC where it names no zone.
    users, groups
        Files as ``getent passwd`` and ``getent group`` print them, for tables that hold names;
        ``None``: what this host enumerates.

    Raises
    ------
    UsageError
        The description is impossible.
    ToolError
        There is no file system at the root whose list it could be.
    RefusedError, DataError, UnreadableError
        As `trimtab.purge.index.list_import.import_list`.
    """
    described = replace(
        described,
        filesystem=_mounted(os.fsdecode(described.root)) if mounted else None,
        started_ns=_parsed_ns(started),
        ended_ns=_parsed_ns(ended),
        names=names_of(described.column_map, users, groups),
    )
    return import_list(file, directory, described, now=utc_now(), progress=progress)


def _mounted(root: str) -> FileSystemIdentity:
    require_answer(root, "the import")
    top = root_facts(root)
    if top.trouble is not None or top.file_system is None:
        raise ToolError(
            f"the file system at {visible(root)} cannot be identified: {top.trouble}",
            code="file-system-unknown",
            hint="import on a client that has it mounted, or without --mounted",
        )
    return top.file_system


def _parsed_ns(text: str | None) -> int | None:
    return None if text is None else int(parse_moment(text).timestamp()) * 10**9


_NUMBERS: Final = ("mode", "uid", "gid", "atime", "atime_rest", "mtime", "mtime_rest", "ctime",
                   "ctime_rest", "size_bytes")  # fmt: skip
_COLUMNS: Final = frozenset(
    {"uid", "gid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns", "type"}
)
_TABLE_MAX_BYTES: Final = 2**32
_SECONDS_MAX: Final = 10**11
"""The year 5138: a later time in a header is invalid."""


def read_mfu_list(file: BinaryIO, reading: ListReading) -> Iterator[pl.DataFrame]:
    """Yield the rows of a list.

    mpiFileUtils writes them (``dwalk -o``) as 64-bit big-endian numbers, in version 3 or 4::

        version 3:  3 start end  users user_chars  groups group_chars  files file_chars
        version 4:  4            users user_chars  groups group_chars  files file_chars
        users  x  name[user_chars], number
        groups x  name[group_chars], number
        files  x  path[file_chars], mode, uid, gid, three times of seconds and nanoseconds
                  (access, modification, change), size

    Names and paths are padded with NUL to the longest one; a list may be a terabyte, so it is
    streamed. Source: ``src/common/mfu_flist_io.c`` of mpiFileUtils at 2dbcf1c (2026-06). It has no
    identity, link count or allocated size, and does not show whether everything could be read.

    Raises
    ------
    DataError
        Not a list of a known version, or its header is invalid.
    """
    reading.times, reading.resolution_ns = TimeTrust.EXACT_NS, 1
    reading.columns |= _COLUMNS
    files, characters, offset = _head(file, reading)
    size = characters + 8 * len(_NUMBERS)
    number = 0
    while number < files:
        many = min(files - number, max(1, CHUNK_BYTES // size))
        data = _exactly(file, many * size)
        whole = len(data) // size
        if whole:
            yield _frame(data[: whole * size], characters, reading, number=number, offset=offset)
        number += whole
        offset += whole * size
        if whole < many:
            reading.refuse(
                f"the list ends after {number} of {files} files", record=number + 1, offset=offset
            )
            return
    if file.read(1):
        reading.refuse("unexpected data after the last file", offset=offset)


def _head(file: BinaryIO, reading: ListReading) -> tuple[int, int, int]:
    """Return the number of files, the length of a path and the offset of the files, in bytes."""
    version = int.from_bytes(file.read(8), "big")
    if version not in (3, 4):
        raise DataError(
            "not an mpiFileUtils file list of version 3 or 4",
            code="format-unknown",
            hint="create one with `dwalk -o LIST.mfu`; its text formats are not exact enough",
        )
    many = 6 if version == 4 else 8
    data = _exactly(file, 8 * many)
    if len(data) < 8 * many:
        raise DataError("the list ends within its header", code="list-truncated")
    *times, users, user_characters, groups, group_characters, files, characters = struct.unpack(
        f">{many}Q", data
    )
    tables = users * (user_characters + 8) * bool(user_characters)
    tables += groups * (group_characters + 8) * bool(group_characters)
    if tables > _TABLE_MAX_BYTES or characters > RECORD_MAX_BYTES or (files and not characters):
        raise DataError("invalid header: the list is damaged", code="list-damaged")
    if times and 0 < times[0] <= times[1] < _SECONDS_MAX:
        reading.started_ns = times[0] * list_reading.NS_PER_S
        reading.ended_ns = times[1] * list_reading.NS_PER_S + list_reading.NS_PER_S - 1
    left = tables  # names of users and groups: only the numbers matter
    while left:
        skipped = len(file.read(min(left, CHUNK_BYTES)))
        if not skipped:
            raise DataError(
                "the list ends within its table of users and groups", code="list-truncated"
            )
        left -= skipped
    return files, characters, 8 + 8 * many + tables


def _exactly(file: BinaryIO, size: int) -> bytes:
    """Return exactly ``size`` bytes, fewer only at the end of the file."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _frame(
    data: bytes, characters: int, reading: ListReading, *, number: int, offset: int
) -> pl.DataFrame:
    kind = np.dtype([("path", f"S{characters}"), *((name, ">u8") for name in _NUMBERS)])
    array = np.frombuffer(data, dtype=kind)
    numbers = pl.DataFrame(
        # Times are signed numbers stored as unsigned.
        {
            name: array[name].astype(np.uint64).view(np.int64 if "time" in name else np.uint64)
            for name in _NUMBERS
        }
    )
    col = pl.col
    small = numbers.select(
        *(pl.when(col(name) < 2**32).then(col(name)).cast(pl.UInt32) for name in ("uid", "gid")),
        "size_bytes",
        pl.when(col("mode") < 2**32).then("mode"),
    )
    times = [_time(numbers, name) for name in ("atime", "mtime", "ctime")]
    kinds = list_reading.type_of_mode(small["mode"]).alias("type")
    frame = small.drop("mode").with_columns(*times, kinds)
    size = kind.itemsize
    paths = array["path"].tolist()
    reading.take_kind(paths)
    return placed(
        frame, lambda at: (number + at + 1, offset + at * size, paths[at]), paths, reading
    )


def _time(numbers: pl.DataFrame, name: str) -> pl.Series:
    rest_ns = pl.col(f"{name}_rest")
    plain_ns = pl.when((rest_ns >= 0) & (rest_ns < list_reading.NS_PER_S)).then(rest_ns)
    rest = numbers.select(rest=plain_ns).to_series()
    return list_reading.nanoseconds(numbers[name], rest).alias(f"{name}_ns")
