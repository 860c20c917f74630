"""Measures a matrix of settings point by point: shuffled in rounds, stored, resumable.

Every run is stored as soon as it ends, with its levels and its round. The store shows which are
missing, so an interrupted sweep continues where it stopped and measures no point twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import Interrupted, RefusedError, ToolError, TrimtabError, UsageError
from trimtab.base.event import new_identifier
from trimtab.base.interruption import shielded
from trimtab.base.run import ASKED, Doubt, Run, RunStatus, doubts
from trimtab.base.site import Site, SiteProbe
from trimtab.base.text import levels_text
from trimtab.base.units import plural
from trimtab.judge.sweep_result import SWEEP, Level, SweepAnalysis, SweepDocument, SweepPoint
from trimtab.probe.probe import ProbeRunner, Progress, RunContext
from trimtab.probe.probe_now import probe_of
from trimtab.probe.question_file import Sweep, points_now, varied
from trimtab.probe.site_probe import directory_of, runner_of, spec_of
from trimtab.site.lookup import nothing_kept, open_store, reach_of
from trimtab.site.path_access import THIS_HOST, Reach

if TYPE_CHECKING:
    from trimtab.store.store import Store

MEASURED: Final = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.UNFINISHED)
"""A run that failed or never started says nothing about its point: it is measured again."""
FAILURES_MAXIMUM: Final = 3
"""Maximum of failed points in a row: more are not the fault of a setting."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """Progress of a sweep.

    Attributes
    ----------
    waiting
        Manual levels that must be set for the remaining points, each once.
    failures
        Failed points of this call, with the errors.
    left_out
        Stored runs of this sweep with other parameters: the probe was changed.
    """

    sweep: Sweep
    points: tuple[SweepPoint, ...]
    waiting: tuple[dict[str, Level], ...]
    failures: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def measured(self) -> int:
        """Number of measured points in all rounds."""
        return sum(point.run is not None for point in self.points)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why stored runs have no credible figure, the most frequent reason first.

        Each run counts once.
        """
        return doubts(point.run for point in self.points if point.run is not None)

    @property
    def error(self) -> ToolError | None:
        """Error with which the command ends if points failed this time."""
        if not self.failures:
            return None
        failed = plural(len(self.failures), "point")
        return _points_failed(f"{failed} could not be measured, the first: {self.failures[0]}")


def _points_failed(text: str) -> ToolError:
    hint = "results so far are stored; fix the problem and start again to resume"
    return ToolError(text, code="points-failed", hint=hint)


def points_of(
    state: SweepState,
) -> Iterator[tuple[Mapping[str, Level], int, Run | None]]:
    """Yield levels, round and run of each point, without factors that have one level.

    `trimtab.judge.sweep_analysis.measured_points` takes them.
    """
    varying = state.sweep.varying
    for point in state.points:
        levels = {key: level for key, level in point.levels.items() if key in varying}
        yield levels, point.round, point.run


def document_of_sweep(
    state: SweepState, analysis: SweepAnalysis, *, store: str, site: str
) -> SweepDocument:
    """Return the document of a sweep so far; ``store`` is the store's location."""
    return SweepDocument(
        store,
        site,
        state.sweep.name,
        state.points,
        state.doubts,
        analysis,
        waiting=state.waiting,
        failures=state.failures,
    )


def state_of(sweep: Sweep, site: Site, probe: SiteProbe, store: Store | None) -> SweepState:
    """Return the progress of a sweep from its stored runs; without a store, no progress."""
    probes = check_levels(sweep, site, probe)
    runs, left_out = ({}, 0) if store is None else _measured(sweep, site, probes, store)
    points = tuple(
        SweepPoint(levels, number, runs.get((_key(levels), number)))
        for number in range(sweep.rounds)
        for levels in sweep.points
    )
    left = [point.levels for point in points if point.run is None]
    manual = [{key: levels[key] for key in sweep.manual} for levels in left]
    waiting = [levels for at, levels in enumerate(manual) if levels and levels not in manual[:at]]
    return SweepState(sweep, points, tuple(waiting), left_out=left_out)


def state_in_store(sweep: Sweep, site: Site, url: str | None) -> tuple[SweepState, str]:
    """Return the progress of a sweep, and where it is stored."""
    probe = probe_of(site, sweep.probe)
    if (place := nothing_kept(url)) is not None:
        return state_of(sweep, site, probe, None), place
    with open_store(url) as store:
        return state_of(sweep, site, probe, store), str(store.location)


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A sweep from the store, without its file: the measured points, not the remaining ones.

    Attributes
    ----------
    measured
        Levels, round and run of each point of a round, as `measured_points` takes them.
    fixed
        Levels that are the same at every point.
    left_out
        Number of runs whose parameters differ from those of later ones at the same levels.
    """

    name: str
    measured: tuple[tuple[Mapping[str, Level], int, Run], ...]
    fixed: Mapping[str, Level]
    left_out: int

    @property
    def points(self) -> int:
        """Number of measured combinations of levels."""
        return len({_key(levels) for levels, _, _ in self.measured})

    @property
    def varying(self) -> frozenset[str]:
        """Factors whose level differs between points."""
        return frozenset(factor for levels, _, _ in self.measured for factor in levels)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why runs have no credible figure, the most frequent reason first."""
        return doubts(run for _, _, run in self.measured)


def stored_sweep(store: Store, site: str, name: str) -> StoredSweep:
    """Return a sweep from only the stored runs of a site.

    Raises
    ------
    UsageError
        The store has no sweep of that name: `code` is ``sweep-unknown``.
    """
    newest: dict[str, object] = {}
    runs: dict[tuple[str, int], tuple[Mapping[str, Level], Run]] = {}
    left_out = 0
    for run, place in _placed(store, site, name):
        levels: Mapping[str, Level] = place.get("levels", {})
        key, number = _key(levels), place.get("round", 0)
        if newest.setdefault(key, place.get("asked")) != place.get("asked"):
            left_out += 1
        else:
            runs.setdefault((key, number), (levels, run))
    if not runs:
        raise UsageError("no such sweep", code="sweep-unknown")
    values: dict[str, list[Level]] = {}
    for levels, _ in runs.values():
        for factor, level in levels.items():
            values.setdefault(factor, []).append(level)
    fixed = {
        factor: levels[0]
        for factor, levels in values.items()
        if len(levels) == len(runs) and len(set(map(repr, levels))) == 1
    }
    measured = tuple(
        ({factor: level for factor, level in levels.items() if factor not in fixed}, number, run)
        for (_, number), (levels, run) in sorted(runs.items(), key=lambda pair: pair[0][1])
    )
    return StoredSweep(name, measured, fixed, left_out)


def check_levels(sweep: Sweep, site: Site, probe: SiteProbe) -> dict[str, SiteProbe]:
    """Return the probe of every point, by its levels as JSON.

    Raises
    ------
    UsageError
        A factor is not a key of a probe, or a level is invalid for it.
    """
    return {_key(levels): varied(site, probe, sweep, levels) for levels in sweep.points}


@dataclass(frozen=True, slots=True)
class SweepWork:
    """Measures the points of a sweep."""

    sweep: Sweep
    site: Site
    probe: SiteProbe
    store: Store
    runner: ProbeRunner
    clock: Callable[[], datetime]
    reach: Reach = THIS_HOST

    def run(self, now: Mapping[str, Level], progress: Progress) -> SweepState:
        """Measure every remaining point that can be measured now; return the progress.

        Parameters
        ----------
        now
            Current manual levels.

        Raises
        ------
        UsageError
            A level is invalid for the probe; nothing was measured.
        RefusedError
            A point would take too much of the space that is free now; nothing was measured.
        ToolError
            Several points in a row failed; the points measured so far are stored.
        Interrupted
            On request; the points measured so far are stored.
        """
        sweep = self.sweep
        probes = check_levels(sweep, self.site, self.probe)
        todo = list(self._todo(probes, now))
        self._refuse_too_large(todo, probes)
        failures: list[str] = []
        in_a_row = 0
        for place, point in enumerate(todo):
            text = f"round {point.round + 1} of {sweep.rounds}: {levels_text(point.levels)}"

            def tell(step: str, fraction: float, place: int = place, text: str = text) -> None:
                progress(f"{text}: {step}", (place + fraction) / len(todo))

            problem = self._measure(point, probes[_key(point.levels)], tell)
            in_a_row = in_a_row + 1 if problem else 0
            if problem:
                failures.append(f"{levels_text(point.levels)}: {problem}")
            if in_a_row == FAILURES_MAXIMUM:
                text = f"{in_a_row} points in a row could not be measured, the last: {problem}"
                raise _points_failed(text)
        state = state_of(sweep, self.site, self.probe, self.store)
        return replace(state, failures=tuple(failures))

    def _todo(
        self, probes: Mapping[str, SiteProbe], now: Mapping[str, Level]
    ) -> Iterator[SweepPoint]:
        """Yield the remaining points that can be measured now, round by round."""
        runs, _ = _measured(self.sweep, self.site, probes, self.store)
        for number in range(self.sweep.rounds):
            for levels in points_now(self.sweep.order(number), now, self.sweep.manual):
                if (_key(levels), number) not in runs:
                    yield SweepPoint(levels, number)

    def _refuse_too_large(
        self, todo: Iterable[SweepPoint], probes: Mapping[str, SiteProbe]
    ) -> None:
        """Refuse now a point that takes too much space, rather than hours later."""
        space_of = cache(self.reach.writable_space)
        for point in {_key(point.levels): point for point in todo}.values():
            probe = probes[_key(point.levels)]
            if probe.is_one_command:
                continue  # only its command knows what it writes
            space = space_of(directory_of(self.site, probe))
            try:
                spec_of(probe, space.available_bytes, self.reach.processors)
            except RefusedError as error:
                problem = f"{levels_text(point.levels)}: {error.message}"
                raise RefusedError(problem, code=error.code, hint=error.hint) from error

    def _measure(self, point: SweepPoint, probe: SiteProbe, progress: Progress) -> str | None:
        """Measure one point and store it; return the error, if any."""
        started_at = self.clock()
        context = RunContext(new_identifier(started_at), started_at, progress)
        try:
            outcome = self.runner(probe, context)
        except TrimtabError as error:
            return error.message + (f" ({error.hint})" if error.hint else "")
        if isinstance(outcome.error, Interrupted):
            raise outcome.error
        with shielded():
            for run in (outcome.run, *outcome.others):
                self.store.add_run(_of_point(run, self.sweep, point, probe))
        return None if outcome.run.status in MEASURED else outcome.run.problem or "it failed"


def measure_sweep(
    sweep: Sweep, site: Site, url: str | None, now: Mapping[str, Level], progress: Progress
) -> tuple[SweepState, str]:
    """Measure every point that can be measured now; return the result of `state_in_store`.

    Raises
    ------
    TrimtabError, Interrupted
        As `SweepWork.run`.
    """
    probe = probe_of(site, sweep.probe)
    with open_store(url, create=True) as store:
        reach = reach_of(site)
        runner = runner_of(site, store, reach)
        work = SweepWork(sweep, site, probe, store, runner, reach.clock, reach)
        return work.run(now, progress), str(store.location)


def _of_point(run: Run, sweep: Sweep, point: SweepPoint, probe: SiteProbe) -> Run:
    """Return the run with its point; manual levels are part of its requested parameters."""
    requested: dict[str, Any] = dict(run.parameters[ASKED])  # type: ignore[call-overload]
    manual = {key: point.levels[key] for key in sweep.manual}
    if manual:
        requested["settings"] = manual
    place = {
        "name": sweep.name,
        "levels": dict(point.levels),
        "round": point.round,
        "asked": _requested_text(probe),
    }
    return replace(run, parameters={**run.parameters, ASKED: requested, SWEEP: place})


def _measured(
    sweep: Sweep, site: Site, probes: Mapping[str, SiteProbe], store: Store
) -> tuple[dict[tuple[str, int], Run], int]:
    """Return levels and round to the newest run that measured them.

    The second value is the number of runs of the sweep with other parameters, which belong to no
    point.
    """
    runs: dict[tuple[str, int], Run] = {}
    left_out = 0
    for run, place in _placed(store, site.name, sweep.name):
        key = _key(place.get("levels", {}))
        if key in probes and place.get("asked") == _requested_text(probes[key]):
            runs.setdefault((key, place.get("round", 0)), run)
        else:
            left_out += 1
    return runs, left_out


def _placed(store: Store, site: str, name: str) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield the runs of a sweep that measured their points, newest first, with their places."""
    for run in store.runs(site=site, probe=f"sweep-{name}"):
        place = run.parameters.get(SWEEP)
        if run.status in MEASURED and isinstance(place, dict):
            yield run, place


def _requested_text(probe: SiteProbe) -> str:
    """Return the work of a probe as a short text, equal exactly when the work is.

    Its waiting time and its schedule are not part of the text.
    """
    plain = replace(probe, schedule=None, jitter_s=0.0, pending_s=0.0, timeout_s=None)
    text = json.dumps(asdict(plain), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(levels: Mapping[str, Level]) -> str:
    return json.dumps(dict(levels), sort_keys=True)
