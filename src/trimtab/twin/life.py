"""The life of a simulated file system: a simulation that continues between commands.

The stored state is a diary: the scenario, the current time, and all external actions. Since a
simulation is a function of its scenario, opening the diary replays it to the state where the last
command left it.

The diary has one line per action. One process writes it at a time; others may read. An incomplete
line left by a killed process is cut off. The last line may be the current time: it is overwritten
in place, always with the same length, so that a diary grows with its actions and not with time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from trimtab.base.code_version import code_version
from trimtab.base.error import (
    RefusedError,
    TrimtabError,
    UnreadableError,
    UsageError,
    shell_text,
    unreleased,
)
from trimtab.base.interruption import shielded
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.ost_array import Array, unfolded

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


Progress = Callable[[float], None]


class Life:
    """A simulated file system and its clock.

    Parameters
    ----------
    scenario
        Its own probes run only until ``watched_from``: later measurements are made by the watch.
    directory
        Directory of the diary; ``None``: nothing is stored.
    simulation
        A simulation that already ran; ``None``: a new one.

    Attributes
    ----------
    simulation
        The simulation at the start of the epoch of `now`.
    held
        Bytes of guests on each real OST, by directory.
    """

    def __init__(
        self,
        scenario: Scenario,
        directory: Path | None = None,
        *,
        watched_from: datetime | None = None,
        simulation: Simulation | None = None,
    ) -> None:
        self.scenario = scenario
        self.diary = None if directory is None else Diary(directory)
        start = scenario.start.astimezone(UTC)
        self.watched_from = start if watched_from is None else watched_from
        self._epoch = timedelta(seconds=scenario.resolution.epoch_s)
        self.simulation = Simulation(scenario) if simulation is None else simulation
        self.held: dict[str, Array] = {}
        self._now = self._written_until = self.simulation.now
        self._end_probes()

    @classmethod
    def open(
        cls,
        directory: Path,
        name: str,
        *,
        watched_from: datetime | None = None,
        progress: Progress | None = None,
    ) -> Life:
        """Return the life in a directory, or a new one of the scenario ``name``.

        Parameters
        ----------
        watched_from
            For a new life; ``None``: from its start.

        Raises
        ------
        UsageError
            The scenario cannot be read.
        RefusedError
            The scenario or Trimtab has changed since this life started.
        UnreadableError
            The diary cannot be read or written.
        """
        scenario = load_scenario(name)
        diary = Diary(directory)
        first, deeds = diary.read()
        if not first:
            life = cls(scenario, directory, watched_from=watched_from)
            life.pass_until(life.watched_from, progress=progress)
            life.begin()
            return life
        life = cls(scenario, watched_from=_watched_from(first, scenario, diary.path))
        life._relive(deeds, diary.path, progress)
        life.diary = diary
        return life

    def begin(self) -> None:
        """Start the diary at the current time, before which there are no external actions."""
        if self.diary is not None:
            self.diary.begin(
                fingerprint(self.scenario), self.watched_from, self._now, version=code_version()
            )
            self._written_until = self._now

    @property
    def now(self) -> datetime:
        """The current simulated time, aware UTC."""
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.pass_until(self._now + timedelta(seconds=seconds))

    def pass_until(self, until: datetime, *, progress: Progress | None = None) -> None:
        """Let time pass; does nothing if the time is in the past."""
        until = until.astimezone(UTC)
        begun, whole = self._now, max((until - self._now).total_seconds(), 1.0)
        while self.simulation.now + self._epoch <= until:
            with shielded():  # an epoch passes completely or not at all
                self.simulation.step()
                self._end_probes()
                self._now = self.simulation.now
            if progress is not None:
                progress(min(1.0, (self.simulation.now - begun).total_seconds() / whole))
        self._now = max(self._now, until)

    def do(self, deed: str, *, of: str | None = None, **arguments: Any) -> Any:
        """Perform an external action now, and record it in the diary.

        Parameters
        ----------
        deed
            ``set``, ``set-alone``, ``trim``, ``trim-mdt``, ``creation``, ``reset``, ``write`` or
            ``remove``.
        of
            The directory of the files written or removed.

        Raises
        ------
        RefusedError
            Another process runs this life.
        """
        self.claim()  # an action that cannot be recorded must not happen
        done = self._done(deed, of, arguments)
        if self.diary is not None:
            line = {"do": deed, "how": arguments} | ({} if of is None else {"of": of})
            self.diary.add(line, self._now)
            self._written_until = self._now
        return done

    def claim(self) -> None:
        """Lock this life for this process.

        Raises
        ------
        RefusedError
            Another process runs it, or has run it since it was opened.
        """
        if self.diary is not None:
            self.diary.claim()

    def close(self) -> None:
        """Record the time, and release the life for other processes."""
        self.keep_time()
        if self.diary is not None:
            self.diary.close()

    def keep_time(self) -> None:
        """Record the current time in the diary if it has advanced.

        Raises
        ------
        RefusedError
            Another process runs this life.
        """
        if self.diary is not None and self._now > self._written_until:
            self.diary.keep_time(self._now)
            self._written_until = self._now

    def _done(self, deed: str, of: str | None, arguments: dict[str, Any]) -> Any:
        simulation = self.simulation
        deeds: dict[str, Callable[..., Any]] = {
            "set": simulation.set_key,
            "set-alone": simulation.set_alone,
            "trim": simulation.trim,
            "trim-mdt": simulation.trim_mdt,
            "creation": simulation.set_creation,
            "reset": simulation.reset_allocator,
            "write": simulation.write,
            "remove": simulation.remove,
        }
        done = deeds[deed](**arguments)
        if of is not None:
            self._hold(of, arguments["bytes_of_osts"], 1.0 if deed == "write" else -1.0)
        return done

    def _hold(self, directory: str, bytes_of_osts: Any, sign: float) -> None:
        osts = self.simulation.columns.osts
        before = self.held.pop(directory, np.zeros(osts))
        now = np.pad(before, (0, osts - len(before))) + sign * unfolded(bytes_of_osts, osts)
        if (now >= 1.0).any():
            self.held[directory] = np.where(now >= 1.0, now, 0.0)

    def _relive(self, deeds: tuple[Line, ...], path: Path, progress: Progress | None) -> None:
        """Replay the lines of a diary."""
        begun = self._now
        last = datetime.fromisoformat(deeds[-1]["at"]) if deeds else self.watched_from
        whole = max((last - begun).total_seconds(), 1.0)

        def advance(until: datetime) -> None:
            part = (until - self._now).total_seconds() / whole
            done = (self._now - begun).total_seconds() / whole

            def tell(fraction: float) -> None:
                if progress is not None:
                    progress(min(1.0, done + part * fraction))

            self.pass_until(until, progress=tell)

        advance(self.watched_from)
        for number, line in enumerate(deeds):
            advance(datetime.fromisoformat(line["at"]))
            if line["do"] == PASS:
                continue
            try:
                self._done(line["do"], line.get("of"), line["how"])
            except (KeyError, TypeError, ValueError, TrimtabError) as error:
                raise UnreadableError(
                    f"{path} is not the diary of this twin: line {number + 2}",
                    code="diary-unreadable",
                    hint="remove it to start again",
                ) from error
        self._written_until = self._now

    def _end_probes(self) -> None:
        if self.simulation.now >= self.watched_from:
            self.simulation.end_probes()


def fingerprint(scenario: Scenario) -> str:
    """Return an identity of the scenario and of the twin's version."""
    text = f"{code_version()} {replace(scenario, source=None)!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _watched_from(first: Line, scenario: Scenario, path: Path) -> datetime:
    """Return the start of watching in a diary, after checking that it is this scenario's."""
    if first.get("fingerprint") is None:
        raise RefusedError(
            f"the simulation of {path} was killed before it recorded its time",
            code="simulation-killed",
            hint=f"remove {path.parent} and run it again",
        )
    if first["fingerprint"] != fingerprint(scenario):
        raise RefusedError(
            f"{_changed(first, scenario)} since the life in {path.parent} started, and would "
            f"continue differently",
            code="scenario-changed",
            hint="status, judge, incidents and targets --at TIME still read its record; to "
            "continue, "
            f"simulate it again: trimtab twin run {shell_text([scenario.source or scenario.name])} "
            f"--directory {shell_text([f'{path.parent}-2'])}",
        )
    return datetime.fromisoformat(first["watched_from"])


def _changed(first: Line, scenario: Scenario) -> str:
    """Return what has changed since a life started."""
    if first["version"] == code_version():
        return f"the scenario {scenario.name} has changed"
    return f"Trimtab has changed ({first['version']} then, {code_version()} now)"


def life_directory(path: str) -> Path:
    """Return the directory of a twin, from the site's path.

    Raises
    ------
    UsageError
        The path is not absolute.
    """
    directory = Path(path)
    if not directory.is_absolute():
        raise UsageError(
            f"{path} is not an absolute path",
            code="path-relative",
            hint="[site] path is the directory of the twin's life",
        )
    return directory
