"""The life of a simulated file system: a simulation that goes on from one command to the next.

What is kept is a diary: the scenario, how far its time has come, and what was done to it from
outside. Since a simulation is a function of its scenario, whoever opens the diary lives through it
again and stands where the last one left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.errors import RefusedError, TrimtabError, UnreadableError, UsageError
from trimtab.launch.interruption import shielded
from trimtab.twin.arrays import Array
from trimtab.twin.diary import PASS, Diary, Line
from trimtab.twin.scenario.load import load_scenario
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.bytes_of_osts import unfolded
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.version import code_version
from trimtab.visible import shell_text

Progress = Callable[[float], None]


class Life:
    """A simulated file system and its clock.

    Parameters
    ----------
    scenario
        Its own probes run until ``watched_from``, and no more from then on: what is measured
        after that is measured by whoever watches it.
    directory
        Holds the diary; ``None``: nothing is kept.
    simulation
        That ran already; ``None``: a new one.

    Attributes
    ----------
    simulation
        At the beginning of the epoch that `now` is in.
    held
        Bytes that guests hold on each real OST, by directory.
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
        """Return the life that a directory holds, or a new one of the scenario ``name``.

        Parameters
        ----------
        watched_from
            Of a new one; ``None``: from its beginning.

        Raises
        ------
        UsageError
            The scenario cannot be read.
        RefusedError
            The scenario, or Trimtab, is another one than when this life began.
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
        """Begin the diary with the time until now, in which nobody did anything from outside."""
        if self.diary is not None:
            self.diary.begin(
                fingerprint(self.scenario), self.watched_from, self._now, version=code_version()
            )
            self._written_until = self._now

    @property
    def now(self) -> datetime:
        """The time in it, aware UTC."""
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.pass_until(self._now + timedelta(seconds=seconds))

    def pass_until(self, until: datetime, *, progress: Progress | None = None) -> None:
        """Let time pass; to a time that has passed already, nothing happens."""
        until = until.astimezone(UTC)
        begun, whole = self._now, max((until - self._now).total_seconds(), 1.0)
        while self.simulation.now + self._epoch <= until:
            with shielded():  # an epoch passes whole, or not at all
                self.simulation.step()
                self._end_probes()
                self._now = self.simulation.now
            if progress is not None:
                progress(min(1.0, (self.simulation.now - begun).total_seconds() / whole))
        self._now = max(self._now, until)

    def do(self, deed: str, *, of: str | None = None, **arguments: Any) -> Any:
        """Do something to it now, and write it into the diary.

        Parameters
        ----------
        deed
            ``set``, ``set-alone``, ``trim``, ``trim-mdt``, ``creation``, ``reset``, ``write`` or
            ``remove``.
        of
            The directory in which files are written or removed.

        Raises
        ------
        RefusedError
            Another process goes on with this life.
        """
        self.claim()  # what cannot be written must not be done
        done = self._done(deed, of, arguments)
        if self.diary is not None:
            line = {"do": deed, "how": arguments} | ({} if of is None else {"of": of})
            self.diary.add(line, self._now)
            self._written_until = self._now
        return done

    def claim(self) -> None:
        """Make this life the process's own to go on with, until it ends.

        Raises
        ------
        RefusedError
            Another process goes on with it, or has since it was opened.
        """
        if self.diary is not None:
            self.diary.claim()

    def close(self) -> None:
        """Keep the time, and let other processes go on with it."""
        self.keep_time()
        if self.diary is not None:
            self.diary.close()

    def keep_time(self) -> None:
        """Write into the diary how far time has come, if it has come any further.

        Raises
        ------
        RefusedError
            Another process goes on with this life.
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
        """Let pass and be done what the lines of a diary say."""
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
                    f"{path} is no diary of this twin: line {number + 2}",
                    code="diary-unreadable",
                    hint="remove it to begin anew",
                ) from error
        self._written_until = self._now

    def _end_probes(self) -> None:
        if self.simulation.now >= self.watched_from:
            self.simulation.end_probes()


def fingerprint(scenario: Scenario) -> str:
    """Return what tells one scenario from another, and one version of the twin from the next."""
    text = f"{code_version()} {replace(scenario, source=None)!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _watched_from(first: Line, scenario: Scenario, path: Path) -> datetime:
    """Return when the life of a diary began to be watched, if it is that of this scenario."""
    if first.get("fingerprint") is None:
        raise RefusedError(
            f"the simulation that {path} belongs to was killed before it could say how far it came",
            code="simulation-killed",
            hint=f"remove {path.parent} and run it again",
        )
    if first["fingerprint"] != fingerprint(scenario):
        raise RefusedError(
            f"{_changed(first, scenario)} since the life in {path.parent} began, and would go on "
            "as another one",
            code="scenario-changed",
            hint="status, judge, incidents and targets --at TIME still read its record; to go on, "
            f"simulate it anew: trimtab twin run {shell_text([scenario.source or scenario.name])} "
            f"--directory {shell_text([f'{path.parent}-2'])}",
        )
    return datetime.fromisoformat(first["watched_from"])


def _changed(first: Line, scenario: Scenario) -> str:
    """Return what is another than when a life began."""
    if first["version"] == code_version():
        return f"the scenario {scenario.name} has changed"
    return f"Trimtab has changed ({first['version']} then, {code_version()} now)"


def life_directory(path: str) -> Path:
    """Return the directory of a twin, from the site's path.

    Raises
    ------
    UsageError
        It is no absolute path.
    """
    directory = Path(path)
    if not directory.is_absolute():
        raise UsageError(
            f"{path} is no absolute path",
            code="path-relative",
            hint="[site] path holds the twin's life",
        )
    return directory
