"""A chain of lines that processes of several hosts append to: a file a line, in one directory.

::

    1. write the line to a file of a name of one's own, and fsync it
    2. link that file to the next number        EEXIST: another was first; read on, decide anew
    3. fsync the directory

A line is there completely or not at all, and of all that want one number exactly one gets it:
``link`` never replaces, on any POSIX file system, and on NFS and Lustre the server decides it.
No lock is needed, so none can be lost, left over, or be of this host only. Who appends has
read every line before; what it decided from them holds at the moment at which its line is there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trimtab.errors import DataError, UnreadableError
from trimtab.record.chain import FIRST_SUM, linked, unlinked
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import trusted_directory
from trimtab.visible import visible

_DIGITS: Final = 10
_PART: Final = ".part"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NumberedLines:
    """The lines of a directory, as far as this process has read them.

    Parameters
    ----------
    path
        Of the directory, for people.
    directory
        Its descriptor (`trimtab.record.trusted`).
    hint
        What to do about lines that were changed.

    Attributes
    ----------
    count
        How many lines were read or written.
    last_sum
        Of the last line that was read or written.
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
        """Append a JSON object behind the last line that was read, and see it to stable storage.

        Returns ``False`` where another process has taken that place: read on, and decide anew.

        Raises
        ------
        UnreadableError
            It could not be written. Whether it is there has to be read anew.
        """
        text, line_sum = linked(line, self.last_sum)
        with (
            system_errors(
                f"{self._shown} cannot be written",
                code="journal-unwritable",
                hint="free space there and run again: it goes on where it was",
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
        raise UnreadableError(f"line {number} is too many", code="journal-unwritable")
    return f"{number:0{_DIGITS}}"
