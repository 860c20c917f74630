"""The diary of a simulated file system: one line per action, and the current time.

One process writes it at a time; others may read. An incomplete line left by a killed process is cut
off. The last line may be the current time: it is overwritten in place, always with the same length,
so that a diary grows with its actions and not with time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trimtab.errors import RefusedError, UnreadableError, unreleased

NAME: Final = "life.jsonl"
PASS: Final = "pass"
"""Action of a line that only has the time."""

_BEGUN: Final = "fingerprint"
"""Keys of the first line; ``None``: its current time is not yet known."""
_BESIDE_IT: Final = frozenset({"watched_from", "version"})
"""Keys of other lines."""

Line = dict[str, Any]


class Diary:
    """The diary in a directory.

    Attributes
    ----------
    path
        Its file, which need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._file: int | None = None
        self._end = 0
        self._seen = b""  # the last complete line as it was read or written
        self._time_at: int | None = None  # position of the last line, if it only has the time

    def read(self) -> tuple[Line, tuple[Line, ...]]:
        """Return its first line and the actions since; both empty without a diary.

        Raises
        ------
        UnreadableError
            It cannot be read, or is not a diary.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise UnreadableError(
                f"{self.path} cannot be read: {error.strerror}", code="file-unreadable"
            ) from error
        whole = text[: text.rfind(b"\n") + 1]
        lines = [self._parsed(number, line) for number, line in enumerate(whole.splitlines())]
        last = whole[:-1].rfind(b"\n") + 1
        self._end, self._seen = len(whole), whole[last:]
        self._time_at = last if lines and lines[-1].get("do") == PASS else None
        return (lines[0] if lines else {}), tuple(lines[1:])

    def time(self) -> datetime | None:
        """Return the current time, ``None`` without a diary; see `read`."""
        first, deeds = self.read()
        last_moment = deeds[-1]["at"] if deeds else first.get("watched_from")
        return None if last_moment is None else datetime.fromisoformat(last_moment)

    def announce(self) -> None:
        """Start a diary whose current time is not yet known."""
        self._replace(_bytes({_BEGUN: None}))

    def begin(
        self, fingerprint: str, watched_from: datetime, at: datetime, *, version: str
    ) -> None:
        """Start it again: the fingerprint, the start of watching, and the current time.

        Parameters
        ----------
        version
            Version of the twin, which is also part of the fingerprint.
        """
        begun = {_BEGUN: fingerprint, "watched_from": _iso(watched_from), "version": version}
        head = _bytes(begun)
        self._replace(head + _time(at))
        self._end, self._time_at, self._seen = len(head + _time(at)), len(head), _time(at)

    def _replace(self, text: bytes) -> None:
        """Replace it atomically."""
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            new.write_bytes(text)
            new.replace(self.path)
        except OSError as error:
            raise self._unwritten(error) from error

    def add(self, line: Line, at: datetime) -> None:
        """Append an action.

        Raises
        ------
        RefusedError
            Another process writes it, or has written to it since it was read.
        UnreadableError
            It cannot be written.
        """
        self._put(self._end, _bytes({"at": _iso(at), **line}))
        self._time_at = None

    def keep_time(self, at: datetime) -> None:
        """Record the current time; see `add`."""
        where = self._end if self._time_at is None else self._time_at
        self._put(where, _time(at))
        self._time_at = where

    def claim(self) -> None:
        """Lock it for writing by this process; see `add`."""
        try:
            self._claimed()
        except OSError as error:
            raise self._unwritten(error) from error

    def close(self) -> None:
        """Release it for other processes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _put(self, where: int, text: bytes) -> None:
        try:
            file = self._claimed()
            os.pwrite(file, text, where)
        except OSError as error:
            raise self._unwritten(error) from error
        self._end = where + len(text)

    def _claimed(self) -> int:
        """Return its descriptor, locked by this process."""
        if self._file is not None:
            return self._file
        file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._refuse_strangers_lines(file)
        except BlockingIOError as error:
            os.close(file)
            raise RefusedError(
                f"another process is running the twin of {self.path.parent}",
                code="twin-in-use",
                hint="wait until it has ended, or stop it; it may be a watch of this site",
            ) from error
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _refuse_strangers_lines(self, file: int) -> None:
        content = os.pread(file, os.fstat(file).st_size, 0)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) != self._end or not whole.endswith(self._seen):
            raise RefusedError(
                f"another process has continued the twin of {self.path.parent} in the meantime",
                code="twin-in-use",
                hint="start again: this process has an older state",
            )
        if len(content) > len(whole):
            os.ftruncate(file, len(whole))

    def _parsed(self, number: int, text: bytes) -> Line:
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict) or not (_is_deed(line) if number else _BEGUN in line):
            raise UnreadableError(
                f"{self.path} is not the diary of a twin: line {number + 1}",
                code="diary-unreadable",
                hint="remove it to start again",
            )
        if not number and line[_BEGUN] is not None and not line.keys() >= _BESIDE_IT:
            again = "simulate again: trimtab twin run SCENARIO --directory NEW"
            raise unreleased(f"the simulation in {self.path.parent}", again)
        return line

    def _unwritten(self, error: OSError) -> UnreadableError:
        return UnreadableError(
            f"{self.path} cannot be written: {error.strerror}", code="file-unwritable"
        )


def _is_deed(line: Line) -> bool:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        at = datetime.fromisoformat(line["at"])
        return at.tzinfo is not None and isinstance(line["do"], str)
    return False


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _time(at: datetime) -> bytes:
    return _bytes({"at": _iso(at), "do": PASS})


def _bytes(line: Line) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
