"""Runs of a sweep: a scenario, a seed and a time give the same figures anywhere."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import UnreadableError
from trimtab.record.system_errors import system_errors
from trimtab.twin import version
from trimtab.twin.scenario.model import Scenario
from trimtab.visible import visible
from trimtab.whatif.figures import figures_of

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation

Figures = Mapping[str, float | None]
Model = Callable[[Scenario, float], "Simulation"]
"""Runs a scenario for a number of seconds."""
Together = Callable[[Iterable[Any]], Iterator[Any]]
"""Yields the results of runs in order, for any number of processes."""
listener: Final[ContextVar[Callable[[float], None] | None]] = ContextVar("listener", default=None)
"""Called with the completed fraction of this process's run; not set in workers."""
_NOT_PHYSICS: Final = ("source", "title", "assumptions")


def twin(scenario: Scenario, until_s: float) -> Simulation:
    """Run the twin with one thread, since each CPU has its own run."""
    from trimtab.twin.simulation.engine import Simulation

    simulation = Simulation(scenario, threads=1)
    until = simulation.now + timedelta(seconds=until_s)
    simulation.run(until, on_progress=listener.get())
    return simulation


def answered(
    runs: Sequence[Any],
    together: Together,
    progress: Callable[[str, float], None],
    *,
    noun: str,
    at_once: int,
) -> Iterator[Any]:
    """Yield the results of runs in order, and report progress, also within a run.

    Parameters
    ----------
    at_once
        Number of concurrent runs, assumed to progress like the local one.
    """
    count, done, furthest = len(runs), 0, 0.0

    def tell(part: float) -> None:
        nonlocal furthest
        furthest = max(furthest, min(1.0, (done + part * min(at_once, count - done)) / count))
        progress(f"{done} of {count} {noun}", furthest)

    token = listener.set(tell)
    try:
        if runs:
            tell(0.0)
        for answer in together(runs):
            done += 1
            tell(0.0)
            yield answer
    finally:
        listener.reset(token)


@dataclass(frozen=True, slots=True)
class Run:
    """One run, which can be sent to another process.

    Attributes
    ----------
    scenario
        The scenario with the run's seed.
    until_s
        Simulated time, in seconds.
    """

    scenario: Scenario
    until_s: float
    model: Model = twin

    def answer(self) -> Figures:
        """Return its figures."""
        return figures_of(self.model(self.scenario, self.until_s))

    @property
    def key(self) -> str:
        """Hash of everything the figures depend on: scenario, time, and code."""
        values = asdict(self.scenario)
        for name in _NOT_PHYSICS:
            del values[name]
        model = f"{self.model.__module__}.{self.model.__qualname__}"
        parts = [_plain(values), self.until_s, model, code_version()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Return a JSON value, with all digits of floats."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def code_version() -> str:
    """Return the version of simulation and figures; results of others are stale."""
    return version.code_version("whatif", "judge")


def seeded(scenario: Scenario, seeds: int) -> Iterator[Scenario]:
    """Yield the scenario with its own seed and the following ones."""
    for number in range(seeds):
        yield replace(scenario, seed=scenario.seed + number)


class FigureCache:
    """Stores figures of runs as JSON lines, so that a sweep can be resumed.

    Parameters
    ----------
    path
        ``None``: in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._figures: dict[str, Figures] = {}
        for line in self._lines():
            try:
                read = json.loads(line)
                self._figures[read["key"]] = read["figures"]
            except (ValueError, KeyError, TypeError):
                continue  # an incomplete line from a killed process

    def _lines(self) -> Sequence[str]:
        if self._path is None or not self._path.exists():
            return ()
        return self._path.read_text(encoding="utf-8", errors="replace").splitlines()

    def get(self, key: str) -> Figures | None:
        """Return the figures of a run, if stored."""
        return self._figures.get(key)

    def put(self, key: str, figures: Figures) -> None:
        """Store the figures of a run."""
        self._figures[key] = figures
        if self._path is None:
            return
        whole = json.dumps({"key": key, "figures": dict(figures)}, allow_nan=False)
        with system_errors(f"cannot write {visible(str(self._path))}", code="cannot-write"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Start a new line after an incomplete one.
            with self._path.open("a+b") as file:
                torn = file.tell() > 0 and not self._ends_whole()
                file.write((b"\n" if torn else b"") + whole.encode() + b"\n")

    def _ends_whole(self) -> bool:
        assert self._path is not None
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def results_file(named: str | None) -> tuple[Path | None, str | None]:
    """Return where figures of runs are kept, and why nowhere, where nobody named a place.

    Raises
    ------
    UnreadableError
        Nothing can be written at the place that was named.
    """
    problem = "the figures of runs cannot be kept"
    try:
        with system_errors(problem, code="cannot-write", hint="--results FILE names another place"):
            file = default_results() if named is None else Path(named)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.open("ab").close()
    except (UnreadableError, RuntimeError) as error:  # the latter where there is no home at all
        if named is not None:
            raise
        return None, f"{error}; --results FILE keeps them, so that a sweep can be taken up again"
    return file, None


def default_results(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where figures of runs are kept if nothing else is said: they can be worked out again.

    Examples
    --------
    >>> default_results({"XDG_CACHE_HOME": "/c"}).as_posix()
    '/c/trimtab/whatif.jsonl'
    """
    cache = environment.get("XDG_CACHE_HOME", "")
    directory = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return directory / "trimtab" / "whatif.jsonl"
