"""The life of a simulated file system: a simulation that continues between commands.

The stored state is a diary: the scenario, the current time, and all external actions. Since a
simulation is a function of its scenario, opening the diary replays it to the state where the last
command left it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.config.version import code_version
from trimtab.errors import RefusedError, TrimtabError, UnreadableError, UsageError
from trimtab.launch.interruption import shielded
from trimtab.twin.arrays import Array
from trimtab.twin.diary import PASS, Diary, Line
from trimtab.twin.scenario.load import load_scenario
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.bytes_of_osts import unfolded
from trimtab.twin.simulation.engine import Simulation
from trimtab.visible import shell_text

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
