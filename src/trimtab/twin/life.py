"""The life of a simulated file system: a simulation that goes on from one command to the next.

What is kept is a diary: the scenario, how far its time has come, and what was done to it from
outside. Since a simulation is a function of its scenario, whoever opens the diary lives through it
again and stands where the last one left.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trimtab import __version__
from trimtab.errors import RefusedError, UnreadableError, UsageError
from trimtab.twin.scenario.load import load_scenario
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.engine import Simulation

DIARY: Final = "life.jsonl"
PASS: Final = "pass"
"""What a line does that only tells the time."""

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
        self.directory = directory
        start = scenario.start.astimezone(UTC)
        self.watched_from = start if watched_from is None else watched_from
        self.end = start + timedelta(seconds=scenario.length_s)
        self._epoch = timedelta(seconds=scenario.resolution.epoch_s)
        self.simulation = Simulation(scenario) if simulation is None else simulation
        self._now = self.simulation.now
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
        path = directory / DIARY
        lines = _read(path)
        if not lines:
            life = cls(scenario, directory, watched_from=watched_from)
            life.begin()
            return life
        if lines[0].get("fingerprint") != fingerprint(scenario):
            raise RefusedError(
                f"the scenario {name}, or Trimtab, is another one than when the life in "
                f"{directory} began",
                hint=f"remove {path} to begin anew, or put the scenario back",
            )
        life = cls(scenario, None, watched_from=datetime.fromisoformat(lines[0]["watched_from"]))
        last = datetime.fromisoformat(lines[-1].get("at", lines[0]["watched_from"]))
        begun, whole = life.now, max((last - life.now).total_seconds(), 1.0)
        for line in lines[1:]:
            life.pass_until(datetime.fromisoformat(line["at"]))
            if line["do"] != PASS:
                life.do(line["do"], **line["how"])
            if progress is not None:
                progress(min(1.0, (life.now - begun).total_seconds() / whole))
        life.directory = directory
        return life

    def begin(self) -> None:
        """Begin the diary with the time until now, in which nobody did anything from outside."""
        whole = {
            "fingerprint": fingerprint(self.scenario),
            "watched_from": self.watched_from.isoformat(),
        }
        self._note(whole)
        self.keep_time()

    @property
    def now(self) -> datetime:
        """The time in it, aware UTC."""
        return self._now

    @property
    def is_over(self) -> bool:
        """Whether the scenario's time is over; time can pass beyond it all the same."""
        return self._now >= self.end

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.pass_until(self._now + timedelta(seconds=seconds))

    def pass_until(self, until: datetime, *, progress: Progress | None = None) -> None:
        """Let time pass; to a time that has passed already, nothing happens."""
        until = until.astimezone(UTC)
        begun, whole = self._now, max((until - self._now).total_seconds(), 1.0)
        while self.simulation.now + self._epoch <= until:
            self.simulation.step()
            self._end_probes()
            if progress is not None:
                progress(min(1.0, (self.simulation.now - begun).total_seconds() / whole))
        self._now = max(self._now, until)

    def do(self, deed: str, **how: Any) -> Any:
        """Do something to it now, and write it into the diary.

        Parameters
        ----------
        deed
            ``set``, ``trim``, ``creation``, ``reset``, ``write`` or ``remove``.
        """
        simulation = self.simulation
        deeds: dict[str, Callable[..., Any]] = {
            "set": simulation.set_key,
            "trim": simulation.trim,
            "creation": simulation.set_creation,
            "reset": simulation.reset_allocator,
            "write": simulation.write,
            "remove": simulation.remove,
        }
        done = deeds[deed](**how)
        self._note({"at": self._now.isoformat(), "do": deed, "how": how})
        return done

    def keep_time(self) -> None:
        """Write into the diary how far time has come."""
        self._note({"at": self._now.isoformat(), "do": PASS})

    def _note(self, line: dict[str, Any]) -> None:
        if self.directory is not None:
            _append(self.directory / DIARY, line)

    def _end_probes(self) -> None:
        if self.simulation.now >= self.watched_from:
            self.simulation.end_probes()


def fingerprint(scenario: Scenario) -> str:
    """Return what tells one scenario from another, and one version of the twin from the next."""
    text = f"{__version__} {replace(scenario, source=None)!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a diary; the last one is left out where it was cut off."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path} cannot be read: {error}") from error
    whole = text.splitlines()[: text.count("\n")]
    try:
        return [json.loads(line) for line in whole]
    except ValueError as error:
        raise UnreadableError(
            f"{path} is no diary of a twin: {error}", hint="remove it to begin anew"
        ) from error


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, separators=(",", ":")) + "\n")
    except OSError as error:
        raise UnreadableError(f"{path} cannot be written: {error.strerror}") from error


def life_directory(path: str) -> Path:
    """Return the directory of a twin, from the site's path.

    Raises
    ------
    UsageError
        It is no absolute path.
    """
    directory = Path(path)
    if not directory.is_absolute():
        raise UsageError(f"{path} is no absolute path", hint="[site] path holds the twin's life")
    return directory
