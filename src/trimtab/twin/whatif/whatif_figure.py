"""The figures of a simulated run, and a cache of them that lets a sweep resume.

A scenario, a seed and a time give the same figures in any process.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.base import code_version as version
from trimtab.base.error import UnreadableError, system_errors, visible
from trimtab.base.run import RunStatus
from trimtab.base.site import LIMITS
from trimtab.base.units import DAY_S
from trimtab.base.verdict import HistoryPoint
from trimtab.judge.rolling import rolling
from trimtab.judge.series_frame import frame_of
from trimtab.twin.scenario import GROUP_UNITS, Scenario
from trimtab.twin.simulation.ost_array import Array
from trimtab.twin.simulation.probe_run import JobRun, SurveyRun

if TYPE_CHECKING:
    from trimtab.twin.simulation.engine import Simulation


_BEGAN: Final = (RunStatus.OK, RunStatus.UNFINISHED)
_RUNS_LEAST: Final = 24
_SPAN_LEAST: Final = timedelta(hours=36)
_ALMOST_ALL: Final = 0.99
_SUPERBLOCKS_LEAST: Final = 10
"""Minimum units written per miniature OST: with fewer, a single collection dominates."""


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure of a run.

    Attributes
    ----------
    unit
        A unit of `trimtab.base.units.format_value`.
    """

    name: str
    title: str
    unit: str


KINDS: Final = (
    FigureKind("ior_write", "IOR write, mean", "B/s"),
    FigureKind("ior_read", "IOR read, mean", "B/s"),
    FigureKind("ior_cov", "COV of IOR write over 48 h, median", "1"),
    FigureKind("ior_cov_missed", "48 h with a COV over 8 %", "1"),
    FigureKind("ior_unfinished", "IOR runs that did not finish", "1"),
    FigureKind("ost_write", "OST write by survey, mean", "B/s"),
    FigureKind("ost_write_least", "OST write by survey, least", "B/s"),
    FigureKind("write_amplification", "write amplification", "B/B"),
    FigureKind("flash_drive_writes_per_day", "flash drive writes a day", "B/B"),
    FigureKind("fullness", "fullness at the end", "1"),
    FigureKind("fullest", "fullest OST ever", "1"),
    FigureKind("purged", "purged", "B"),
    FigureKind("horizon", "99 % of the bytes were used within", "s"),
    FigureKind("refused_space", "refused for want of space", "B"),
    FigureKind("refused_quota", "refused by quotas", "B"),
    FigureKind("closed", "OSTs closed, mean", "1"),
    FigureKind("useless_loops", "useless allocator loops a request", "B/B"),
)


def figures_of(simulated: Simulation) -> dict[str, float | None]:
    """Return the figures of a run; ``None`` for missing ones."""
    trace, weight = simulated.trace, simulated.columns.weight
    figures: dict[str, float | None] = dict.fromkeys(kind.name for kind in KINDS)
    figures |= of_jobs(trace.jobs)
    figures |= of_surveys(trace.surveys)
    figures |= _of_flash(simulated)
    fullness = trace.of("fullness").astype(np.float64)
    figures["fullness"] = float(simulated.state.fullness @ weight / weight.sum())
    figures["fullest"] = float(np.nanmax(fullness)) if fullness.size else None
    figures["purged"] = simulated.population.totals.purged
    figures["horizon"] = _horizon_s(simulated.population.by_age().sum(axis=0))
    figures["refused_space"] = simulated.state.refused_space_bytes
    figures["refused_quota"] = simulated.state.refused_quota_bytes
    open_, useless = (trace.of(name).astype(np.float64) for name in ("open", "useless_per_request"))
    figures["closed"] = None if (share := _over_time(open_, weight)) is None else 1 - share
    figures["useless_loops"] = _over_time(useless, weight)
    return figures


def of_jobs(jobs: Sequence[JobRun]) -> Mapping[str, float | None]:
    """Return rates of the IOR runs of all probes, and their spread within each probe.

    Unfinished runs count as 0 in the spread.
    """
    began = [job for job in jobs if job.status in _BEGAN]
    ok = [job for job in jobs if job.status is RunStatus.OK]
    # Two probes have different parameters, which is not a spread of either.
    probes = dict.fromkeys(run.probe for run in began)
    covs = [cov for probe in probes for cov in _covs([run for run in began if run.probe == probe])]
    return {
        "ior_write": _mean([run.write_bytes_per_s for run in ok]),
        "ior_read": _mean([run.read_bytes_per_s for run in ok]),
        "ior_cov": float(np.median(covs)) if covs else None,
        "ior_cov_missed": sum(cov > LIMITS.cov for cov in covs) / len(covs) if covs else None,
        "ior_unfinished": 1 - len(ok) / len(jobs) if jobs else None,
    }


def _covs(jobs: Sequence[JobRun]) -> list[float]:
    """Return the COV over the 48 h before each run with enough earlier runs."""
    points = [
        HistoryPoint(job.at, "write_bandwidth", job.write_bytes_per_s or 0.0,
                     job.status is not RunStatus.OK, f"{job.probe} {number}")
        for number, job in enumerate(jobs)
    ]  # fmt: skip
    if not points:
        return []
    enough = points[0].at + _SPAN_LEAST
    return [
        window.cov
        for window in rolling(frame_of(points), goal=LIMITS.cov, window_s=LIMITS.window_s)
        if window.cov is not None and window.n >= _RUNS_LEAST and window.at >= enough
    ]


def of_surveys(surveys: Sequence[SurveyRun]) -> Mapping[str, float | None]:
    """Return mean and minimum of all OSTs in all surveys, without silent ones."""
    ended = [survey for survey in surveys if survey.status in _BEGAN]
    rates = [run.write_bytes_per_s for run in ended]
    values = np.concatenate(rates) if rates else np.empty(0)
    values = values[np.isfinite(values)]
    if not values.size:
        return {"ost_write": None, "ost_write_least": None}
    return {"ost_write": float(values.mean()), "ost_write_least": float(values.min())}


def _of_flash(simulated: Simulation) -> Mapping[str, float | None]:
    """Return the amplification of all writes, and the current flash's drive writes per day."""
    state, weight, osts = simulated.state, simulated.columns.weight, simulated.scenario.osts
    written = float(state.bytes_written_total @ weight)
    ends_s = simulated.trace.ends_s
    if not ends_s.size or written < _told_from(simulated):
        return {}
    # Not the requested time: the last epoch may end later.
    elapsed_s = float(ends_s[-1]) - simulated.scenario.start.timestamp()
    flash = float(state.flash_written_total @ weight)
    raid = osts.raid
    drives = float(weight.sum()) * raid.drives / raid.shared
    daily = flash / raid.data_share / drives / (elapsed_s / DAY_S)
    return {
        "write_amplification": flash / written,
        "flash_drive_writes_per_day": daily / osts.drive.capacity_bytes,
    }


def _told_from(simulated: Simulation) -> float:
    """Return the bytes of the whole above which miniatures give reliable drive writes."""
    resolution = simulated.scenario.resolution
    part = _SUPERBLOCKS_LEAST * resolution.superblock_units / (resolution.groups * GROUP_UNITS)
    return part * float(simulated.state.capacity_bytes @ simulated.columns.weight)


def _horizon_s(by_day: Array) -> float | None:
    """Return the age, in whole days, that covers all but 1 % of the bytes."""
    whole = float(by_day.sum())
    if whole <= 0:
        return None
    return float((np.searchsorted(np.cumsum(by_day), _ALMOST_ALL * whole) + 1) * DAY_S)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _over_time(values: Array, weight: Array) -> float | None:
    """Return the mean over epochs and OSTs, without columns that did not exist yet."""
    if not values.size:
        return None
    is_known = np.isfinite(values)
    weights = np.where(is_known, weight[None, : values.shape[1]], 0.0)
    return float((np.where(is_known, values, 0.0) * weights).sum() / weights.sum())


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
class SimulatedRun:
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
    return version.code_version("judge")


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
    """Return the file that keeps the figures of runs, or why the default one cannot be used.

    Raises
    ------
    UnreadableError
        The file named by the user cannot be written.
    """
    problem = "the figures of runs cannot be kept"
    try:
        with system_errors(problem, code="cannot-write", hint="--results FILE names another place"):
            file = default_results() if named is None else Path(named)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.open("ab").close()
    except (UnreadableError, RuntimeError) as error:  # the latter without any home directory
        if named is not None:
            raise
        return None, f"{error}; --results FILE keeps them, so that a sweep can be resumed"
    return file, None


def default_results(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the default file for the figures of runs, in the cache: they can be computed again.

    Examples
    --------
    >>> default_results({"XDG_CACHE_HOME": "/c"}).as_posix()
    '/c/trimtab/whatif.jsonl'
    """
    cache = environment.get("XDG_CACHE_HOME", "")
    directory = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return directory / "trimtab" / "whatif.jsonl"
