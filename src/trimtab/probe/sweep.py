"""Measures a matrix of settings point by point: shuffled in rounds, kept, resumable.

Every run is kept as soon as it ends, with its levels and its round. The store shows which are
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
"""So many points in a row that fail are not the fault of a setting."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """How far a sweep has come.

    Attributes
    ----------
    waiting
        Manual levels that are to be set for the points that are left, each once.
    failures
        What went wrong at which point, this time.
    left_out
        Runs of this sweep that are kept and were asked something else: the probe was changed.
    """

    sweep: Sweep
    points: tuple[SweepPoint, ...]
    waiting: tuple[dict[str, Level], ...]
    failures: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def measured(self) -> int:
        """How many points of all rounds are measured."""
        return sum(point.run is not None for point in self.points)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why runs that are kept hold no figure that is believed, the most frequent reason first.

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
    """Return the document of a sweep as far as it has come; ``store`` is its location."""
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
    """Return how far a sweep has come, from what is kept; nothing without a store."""
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
    """Return how far a sweep has come, and where it is stored."""
    probe = probe_of(site, sweep.probe)
    if (place := nothing_kept(url)) is not None:
        return state_of(sweep, site, probe, None), place
    with open_store(url) as store:
        return state_of(sweep, site, probe, store), str(store.location)


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """A sweep as the store has it, without its file: what was measured, not what is left.

    Attributes
    ----------
    measured
        Levels, round and run of each point of a round, as `measured_points` takes them.
    fixed
        Levels that are the same at every point.
    left_out
        Runs that were asked something else than later ones at the same levels.
    """

    name: str
    measured: tuple[tuple[Mapping[str, Level], int, Run], ...]
    fixed: Mapping[str, Level]
    left_out: int

    @property
    def points(self) -> int:
        """How many combinations of levels were measured."""
        return len({_key(levels) for levels, _, _ in self.measured})

    @property
    def varying(self) -> frozenset[str]:
        """Factors whose level differs between points."""
        return frozenset(factor for levels, _, _ in self.measured for factor in levels)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why runs hold no figure that is believed, the most frequent reason first."""
        return doubts(run for _, _, run in self.measured)


def stored_sweep(store: Store, site: str, name: str) -> StoredSweep:
    """Return a sweep from the runs of a site alone.

    Raises
    ------
    UsageError
        The store holds none of that name: `code` is ``sweep-unknown``.
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
        A factor is no key of a probe, or a level does not suit it.
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
        """Measure every point that can be measured now and is not yet; return how far it came.

        Parameters
        ----------
        now
            Manual levels that are set.

        Raises
        ------
        UsageError
            A level does not suit the probe; nothing was measured.
        RefusedError
            A point would take too much of the space that is free now; nothing was measured.
        ToolError
            Several points in a row failed; what was measured is kept.
        Interrupted
            As asked; what was measured is kept.
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
        """Yield what can be measured now and is not yet, round by round."""
        runs, _ = _measured(self.sweep, self.site, probes, self.store)
        for number in range(self.sweep.rounds):
            for levels in points_now(self.sweep.order(number), now, self.sweep.manual):
                if (_key(levels), number) not in runs:
                    yield SweepPoint(levels, number)

    def _refuse_too_large(
        self, todo: Iterable[SweepPoint], probes: Mapping[str, SiteProbe]
    ) -> None:
        """Refuse now what a point would be refused for hours later: the space that it takes."""
        space_of = cache(self.reach.writable_space)
        for point in {_key(point.levels): point for point in todo}.values():
            probe = probes[_key(point.levels)]
            if probe.is_one_command:
                continue  # its command alone knows what it writes
            space = space_of(directory_of(self.site, probe))
            try:
                spec_of(probe, space.available_bytes, self.reach.processors)
            except RefusedError as error:
                problem = f"{levels_text(point.levels)}: {error.message}"
                raise RefusedError(problem, code=error.code, hint=error.hint) from error

    def _measure(self, point: SweepPoint, probe: SiteProbe, progress: Progress) -> str | None:
        """Measure one point and keep it; return what went wrong."""
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
    """Measure every point that can be measured now; return as `state_in_store`.

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
    """Return the run with its point; what was set by hand is part of what was asked."""
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
    """Return levels and round to the run that measured them, the newest where there are two.

    Beside it how many runs of the sweep were asked something else, and so are of no point.
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
    """Yield the runs of a sweep that measured their points, the newest first, with the places."""
    for run in store.runs(site=site, probe=f"sweep-{name}"):
        place = run.parameters.get(SWEEP)
        if run.status in MEASURED and isinstance(place, dict):
            yield run, place


def _requested_text(probe: SiteProbe) -> str:
    """Return what a probe is asked to do as a short text, equal exactly when that is.

    How long it may wait and when it is due is no part of it.
    """
    plain = replace(probe, schedule=None, jitter_s=0.0, pending_s=0.0, timeout_s=None)
    text = json.dumps(asdict(plain), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(levels: Mapping[str, Level]) -> str:
    return json.dumps(dict(levels), sort_keys=True)
