"""Journals: chained lines on stable storage, in one file or, for several hosts, in a directory.

A line is one JSON object. Its ``sum`` is the SHA-256 of the sum before and of the rest of the line,
so a line that was changed, lost or inserted later is detected. It proves nothing against a user who
may write the file and writes all of it anew. A writer goes on only when its line is on stable
storage.

A `ChainedFile` is appended to by one process. `NumberedLines` are a chain that processes of several
hosts append to, with each line in a file of its own::

    1. write the line to a file under a unique name, and fsync it
    2. link that file to the next number        EEXIST: another was first; read on, decide anew
    3. fsync the directory

A line exists completely or not at all, and exactly one of the processes that want a number gets it:
``link`` never replaces a file, on any POSIX file system, and on NFS and Lustre the server decides.
No lock is needed, so none can be lost, left behind, or hold on this host only. A process that
appends has read every line before its own; what it decided from them still holds at the moment at
which its line appears.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from trimtab.base.error import (
    DataError,
    RefusedError,
    UnreadableError,
    system_errors,
    unreleased,
    visible,
)
from trimtab.base.trusted_file import trusted_directory

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Line = TypeVar("Line")


class StrictLine:
    """Base of the dataclasses of lines: no key besides the fields, and only finite numbers."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}


FIRST_SUM: Final = "0" * 64
RUN_RUNNING: Final = "run-running"
"""Code of an error: another process has the journals."""
_SUM_KEY: Final = b'{"sum":"'
_REST_FROM: Final = len(_SUM_KEY) + 64 + len('",')


@dataclass(frozen=True, slots=True)
class Chain:
    """Contents of a chained file.

    Attributes
    ----------
    lines
        The JSON object of each line, without the sum.
    last_sum
        Sum of the last line, which the next line includes.
    size_bytes
        Size up to the end of the last whole line.
    torn
        Bytes after that: a line that was not finished.
    """

    lines: tuple[bytes, ...]
    last_sum: str = FIRST_SUM
    size_bytes: int = 0
    torn: bytes = field(default=b"", repr=False)


def linked(line: bytes, last_sum: str) -> tuple[bytes, str]:
    """Return a JSON object as a line with its end, and the line's sum.

    Parameters
    ----------
    line
        The object, with at least one key.
    last_sum
        Sum of the previous line; `FIRST_SUM` if there is none.
    """
    line_sum = _sum(last_sum, line[1:])
    return _head(line_sum) + line[1:] + b"\n", line_sum


def unlinked(text: bytes, *, hint: str, after: str = FIRST_SUM) -> Chain:
    """Return what a chained file holds, up to its last whole line.

    Parameters
    ----------
    hint
        What to do about a file that was changed.
    after
        The sum of the line before the first.

    Raises
    ------
    DataError
        A line is not what was written; `DataError.line` says which.
    """
    size = text.rfind(b"\n") + 1
    lines: list[bytes] = []
    last_sum = after
    for number, data in enumerate(text[:size].split(b"\n")[:-1], start=1):
        rest = data[_REST_FROM:]
        last_sum = _sum(last_sum, rest)
        if data[:_REST_FROM] != _head(last_sum):
            raise DataError(
                "the journal was changed or damaged here: the line does not follow from those "
                "before",
                code="journal-changed",
                line=number,
                hint=hint,
            )
        lines.append(b"{" + rest)
    return Chain(tuple(lines), last_sum, size, text[size:])


@cache
def line_adapter(lines: Any) -> TypeAdapter[Any]:
    """Return the adapter for a journal's lines, which are a union discriminated by ``do``."""
    from typing import Annotated

    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[lines, Field(discriminator="do")])


def line_value(adapter: TypeAdapter[Line], text: bytes, *, unreleased_hint: str) -> Line:
    """Return what a line of a journal says; every key that is written has to be there, once.

    Parameters
    ----------
    text
        The line's JSON object without its sum.
    unreleased_hint
        What to do with a journal of an unreleased version, whose lines had fewer keys.

    Raises
    ------
    DataError
        It is no such line.
    """
    from pydantic import ValidationError

    try:
        line = adapter.validate_json(text, strict=True)
        plain = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        if isinstance(error, ValidationError) and any(
            problem["type"] == "missing" for problem in error.errors(include_url=False)
        ):
            raise unreleased("the journal", unreleased_hint) from error
        reason = visible(str(error).splitlines()[0])
        raise DataError(
            f"it is not a line of a journal: {reason}", code="journal-malformed"
        ) from error
    if _lacks(plain, adapter.dump_python(line, mode="json")):
        raise unreleased("the journal", unreleased_hint)
    return line


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise ValueError("an object names a key twice")
    return plain


def _lacks(plain: Any, written: Any) -> bool:
    """Return whether an object, or one within it, lacks a key that is written today."""
    return isinstance(written, dict) and any(
        key not in plain or _lacks(plain[key], value) for key, value in written.items()
    )


def sum_of(line: bytes) -> str:
    """Return the sum that a line of a chained text has."""
    return line[len(_SUM_KEY) : len(_SUM_KEY) + 64].decode("ascii", "replace")


class ChainedFile:
    """A chained file that only this process appends to.

    Parameters
    ----------
    file
        Descriptor, open for reading and appending.

    Attributes
    ----------
    last_sum
        Sum of the last line that was read or written.
    """

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file
        self.last_sum: str = FIRST_SUM
        self._broken = False

    def read(self, *, hint: str) -> Chain:
        """Return what it holds; a line that was not finished is cut off.

        Raises
        ------
        DataError
            It was changed or damaged.
        UnreadableError
            It cannot be read.
        """
        with system_errors(f"cannot read {self._shown}", code="unreadable-file"):
            with os.fdopen(os.dup(self._file), "rb") as stream:
                stream.seek(0)
                content = stream.read()
            try:
                chain = unlinked(content, hint=hint)
            except DataError as error:
                raise error.of(self._shown) from error
            if chain.torn:
                os.ftruncate(self._file, chain.size_bytes)
                os.fsync(self._file)
        self.last_sum = chain.last_sum
        return chain

    @property
    def size_bytes(self) -> int:
        """Current size."""
        return os.fstat(self._file).st_size

    def append(self, line: bytes) -> None:
        """Write a JSON object as a line, and wait until it is on stable storage.

        Raises
        ------
        UnreadableError
            It could not be written. The writer must not go on, since its work would be unrecorded.
        """
        if self._broken:
            raise UnreadableError(
                f"an earlier write to {self._shown} failed; open it again",
                code="journal-unwritable",
            )
        text, line_sum = linked(line, self.last_sum)
        self._broken = True
        with system_errors(
            f"{self._shown} cannot be written",
            code="journal-unwritable",
            hint="free space there and run again: it continues where it stopped",
        ):
            if os.write(self._file, text) != len(text):
                raise OSError(28, "only a part of a line could be written")
            os.fsync(self._file)
        self._broken = False
        self.last_sum = line_sum

    @property
    def _shown(self) -> str:
        return visible(os.fspath(self.path))


@contextlib.contextmanager
def opened_chain(path: Path, directory: int, *, owner: int = 0) -> Iterator[ChainedFile]:
    """Open a chained file to append to; create it if it does not exist.

    Parameters
    ----------
    path
        Its name is looked up in ``directory``, a descriptor (`trimtab.base.trusted_file`).
    owner
        Uid of the required owner.

    Raises
    ------
    RefusedError
        It is not a file of that user that only that user can write to.
    UnreadableError
        It cannot be opened.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    shown = visible(os.fspath(path))
    with system_errors(f"cannot open {shown}", code="journal-unreadable"):
        file = os.open(path.name, flags, 0o600, dir_fd=directory)
    try:
        with system_errors(f"cannot open {shown}", code="journal-unreadable"):
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_uid != owner or state.st_mode & 0o022:
                raise RefusedError(
                    f"{shown} is not a file of user {owner} that only this user can write to",
                    code="journal-untrusted",
                    hint=f"see who made it: ls -l {shown}",
                )
            os.fsync(directory)  # its name too has to outlast a power cut
        yield ChainedFile(path, file)
    finally:
        os.close(file)


@contextlib.contextmanager
def locked(
    name: str, directory: int, shown: str, *, hint: str, shared: bool = False
) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest.

    Parameters
    ----------
    name
        What is locked; its hash names the lock's file in ``directory``.
    shown
        What is at work there, for people.
    shared
        Whether others that ask for it so may hold it too.

    Raises
    ------
    RefusedError
        Another process holds it.
    UnreadableError
        It cannot be had.
    """
    file_name = f".lock-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        try:
            file = os.open(file_name, flags, 0o600, dir_fd=directory)
            stack.callback(os.close, file)  # which also unlocks, as does the end of the process
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                f"another run is at work on {shown} now", code=RUN_RUNNING, hint=hint
            ) from error
        except OSError as error:
            raise UnreadableError(
                f"{shown} cannot be locked: {error.strerror}", code="journal-unlocked"
            ) from error
        yield


def is_locked(directory: Path, locks: Path = Path("/proc/locks")) -> bool:
    """Return whether a process of this host holds one of a directory's locks; it takes none itself.

    Parameters
    ----------
    locks
        The kernel's list (proc(5)): ``major:minor:inode`` is the sixth word of a line.
    """
    files = set()
    with contextlib.suppress(OSError):
        for file in directory.glob(".lock-*"):
            state = file.stat(follow_symlinks=False)
            major, minor = os.major(state.st_dev), os.minor(state.st_dev)
            files.add(f"{major:02x}:{minor:02x}:{state.st_ino}")
    if not files:
        return False
    with contextlib.suppress(OSError):
        words = (line.split() for line in locks.read_text().splitlines())
        return any(len(row) > 5 and row[5] in files for row in words)
    return False


def _head(line_sum: str) -> bytes:
    return _SUM_KEY + line_sum.encode() + b'",'


def _sum(last_sum: str, rest: bytes) -> str:
    return hashlib.sha256(last_sum.encode() + rest).hexdigest()


_DIGITS: Final = 10
_PART: Final = ".part"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NumberedLines:
    """The lines of a directory, as far as this process has read them.

    Parameters
    ----------
    path
        Path of the directory, for messages.
    directory
        Its descriptor (`trimtab.base.trusted_file`).
    hint
        What to do about lines that were changed.

    Attributes
    ----------
    count
        Number of lines read or written.
    last_sum
        Sum of the last line that was read or written.
    """

    def __init__(self, path: Path, directory: int, *, hint: str) -> None:
        self.path, self.count = path, 0
        self._directory, self._hint = directory, hint
        self.last_sum: str = FIRST_SUM

    def read(self) -> tuple[bytes, ...]:
        """Return the lines that were not read before, each as its JSON object without the sum.

        Raises
        ------
        DataError
            A line was changed or damaged, or is missing.
        UnreadableError
            One cannot be read.
        """
        lines: list[bytes] = []
        while (text := self._text(self.count + 1)) is not None:
            lines.append(self._line(text, self.count + 1))
            self.count += 1
        return tuple(lines)

    def append(self, line: bytes) -> bool:
        """Append a JSON object after the last line that was read, and wait for stable storage.

        Returns ``False`` if another process has taken that place: read on, and decide anew.

        Raises
        ------
        UnreadableError
            It could not be written completely. Read again to see whether the line exists.
        """
        text, line_sum = linked(line, self.last_sum)
        with (
            system_errors(
                f"{self._shown} cannot be written",
                code="journal-unwritable",
                hint="free space there and run again: it continues where it stopped",
            ),
            self._part(text) as (part, inode),
        ):
            if not self._place(part, inode, _name(self.count + 1)):
                return False
            os.fsync(self._directory)
        self.count, self.last_sum = self.count + 1, line_sum
        return True

    def _text(self, number: int) -> bytes | None:
        with system_errors(f"cannot read {self._shown}", code="unreadable-file"):
            try:
                file = os.open(_name(number), _READ, dir_fd=self._directory)
            except FileNotFoundError:
                return None
            with os.fdopen(file, "rb") as stream:
                return stream.read()

    def _line(self, text: bytes, number: int) -> bytes:
        try:
            chain = unlinked(text, hint=self._hint, after=self.last_sum)
            if len(chain.lines) != 1 or chain.torn:
                raise DataError("it is not one line", code="journal-changed", hint=self._hint)
        except DataError as error:
            raise error.of(f"{self._shown}/{_name(number)}") from error
        self.last_sum = chain.last_sum
        return chain.lines[0]

    @contextlib.contextmanager
    def _part(self, text: bytes) -> Iterator[tuple[str, int]]:
        """Write a file of a name of one's own, and remove that name in the end."""
        name = f".{secrets.token_hex(8)}{_PART}"
        file = os.open(name, _NEW, 0o600, dir_fd=self._directory)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
                inode = os.fstat(stream.fileno()).st_ino
            yield name, inode
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._directory)

    def _place(self, part: str, inode: int, name: str) -> bool:
        """Return whether a file has got a number; on NFS the answer to a first try may be lost."""
        directory = self._directory
        try:
            os.link(part, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == inode
        return True

    @property
    def _shown(self) -> str:
        return visible(os.fspath(self.path))


@contextlib.contextmanager
def opened_lines(path: Path, *, owner: int, hint: str) -> Iterator[NumberedLines]:
    """Open the directory of a journal, made where there is none.

    Raises
    ------
    RefusedError
        It is not a directory of that user alone.
    UnreadableError
        It cannot be made or opened.
    """
    shown = visible(os.fspath(path))
    with system_errors(f"cannot make {shown}", code="journal-unwritable"):
        path.mkdir(mode=0o700, exist_ok=True)
    with trusted_directory(path, "the journal", owner=owner, private=True) as directory:
        yield NumberedLines(path, directory, hint=hint)


def text_of(path: Path) -> bytes:
    """Return all lines of a directory as one chained text, in order of their numbers.

    None where there is no directory.

    Raises
    ------
    DataError
        A number is missing.
    UnreadableError
        It cannot be read.
    """
    shown = visible(os.fspath(path))
    last = 0
    lines: list[bytes] = []
    problem = system_errors(f"cannot read {shown}", code="unreadable-file")
    with problem, contextlib.suppress(FileNotFoundError):
        last = max((int(entry.name) for entry in path.iterdir() if entry.name.isdigit()), default=0)
        while True:  # others may be appending
            lines.append((path / _name(len(lines) + 1)).read_bytes())
    if len(lines) < last:
        number = len(lines) + 1
        raise DataError(f"line {number} is missing", file=shown, code="journal-changed")
    return b"".join(lines)


def _name(number: int) -> str:
    if number >= 10**_DIGITS:
        raise UnreadableError(f"line {number} is over the limit", code="journal-unwritable")
    return f"{number:0{_DIGITS}}"
