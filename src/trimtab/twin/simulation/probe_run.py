"""Run scheduled probes in competition with users, and record the true state of each epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from trimtab.base.run import RunStatus
from trimtab.base.schedule import Schedule, parse_schedule
from trimtab.twin.scenario import ProbeLoad, Scenario
from trimtab.twin.simulation import job, traffic
from trimtab.twin.simulation.job import JobResult
from trimtab.twin.simulation.ost_array import Array, Flags, Integers, OstRates, stream
from trimtab.twin.simulation.ost_rate import OstTerms, StackRates
from trimtab.twin.simulation.traffic import SURVEY_BYTES, ProbeTraffic
from trimtab.twin.simulation.user_load import competing

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job over all OSTs.

    Attributes
    ----------
    at
        Start, aware UTC.
    write_bytes_per_s, read_bytes_per_s
        ``None`` unless it finished.
    """

    probe: str
    at: datetime
    status: RunStatus
    write_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    write_s: float | None = None
    read_s: float | None = None


@dataclass(frozen=True, slots=True)
class SurveyRun:
    """One survey of each real OST, in bytes/s; NaN if it did not answer."""

    probe: str
    at: datetime
    status: RunStatus
    write_bytes_per_s: Array
    read_bytes_per_s: Array


class ProbeAgenda:
    """Determines due probes; each schedule is evaluated once per slot.

    Parameters
    ----------
    start
        Only later slots count.
    """

    def __init__(self, probes: tuple[ProbeLoad, ...], start: datetime, timezone: str) -> None:
        self._zone = timezone
        self._schedules: list[Schedule] = [parse_schedule(probe.schedule) for probe in probes]
        self._probes = probes
        begin = [
            start if probe.since is None else max(start, probe.since - _INSTANT) for probe in probes
        ]
        self._next = [
            schedule.next_after(at, timezone)
            for schedule, at in zip(self._schedules, begin, strict=True)
        ]
        self._soonest = min(self._next, default=None)

    def due(self, end: datetime) -> list[tuple[ProbeLoad, datetime]]:
        """Return probes that start up to ``end`` and were not returned before, chronologically."""
        due = []
        if self._soonest is None or self._soonest > end:
            return due
        for place, schedule in enumerate(self._schedules):
            while self._next[place] <= end:
                due.append((self._probes[place], self._next[place]))
                self._next[place] = schedule.next_after(self._next[place], self._zone)
        self._soonest = min(self._next)
        return sorted(due, key=lambda start: start[1])


@dataclass(frozen=True, slots=True)
class ProbeMoment:
    """The state of the file system for a probe; arrays over real OSTs.

    Attributes
    ----------
    terms
        State of the OSTs.
    user_rate, user_read_rate
        Users' writes to and reads from each, mean of the epoch, in bytes/s.
    chosen
        Each OST's share of new files; 0 if closed.
    even
        Whether placement is round-robin over the open OSTs.
    room
        Free bytes of each.
    """

    terms: OstTerms
    user_rate: Array
    user_read_rate: Array
    chosen: Array
    even: bool
    room: Array


def load_at(scenario: Scenario, moment: ProbeMoment, at: datetime) -> OstRates:
    """Return the current demand of users' jobs on each real OST."""
    seconds = int(at.timestamp())
    return OstRates(
        competing(moment.user_rate, scenario.users, stream(scenario.seed, "competing", seconds)),
        competing(moment.user_read_rate, scenario.users, stream(scenario.seed, "reading", seconds)),
    )


def run_job(
    scenario: Scenario, probe: ProbeLoad, at: datetime, moment: ProbeMoment, rates: StackRates
) -> tuple[JobRun, ProbeTraffic]:
    """Run a job that starts at ``at``; return its result, and all bytes moved meanwhile."""
    nothing = ProbeTraffic.nothing(len(moment.room))
    draws = stream(scenario.seed, "probe", probe.name, int(at.timestamp()))
    luck = draws.standard_normal(2)
    troubles = moment.terms.conditions
    if not troubles.names_resolve:
        # It fails before or during its run, depending on when it resolves names.
        begins = draws.random() >= 0.5
        status = RunStatus.UNFINISHED if begins else RunStatus.NOT_STARTED
        return JobRun(probe.name, at, status), nothing
    load = load_at(scenario, moment, at)
    if not moment.chosen.any():
        return JobRun(probe.name, at, RunStatus.FAILED), nothing
    ost_of_task = place_files(probe.tasks, moment.chosen, moment.even, draws)
    each = probe.bytes_per_task
    files = np.bincount(ost_of_task, minlength=len(moment.room)).astype(np.float64)
    if (files * each > moment.room).any():
        return JobRun(probe.name, at, RunStatus.FAILED), nothing
    could = rates.osts(scenario, moment.terms, from_clients=True)
    write_share, read_share = job.run_share(luck).tolist()
    shares = (write_share, read_share)
    got = rates.job(scenario, probe, could, load, ost_of_task, client_share=shares)
    if traffic.are_checked():
        traffic.check_job(scenario, probe, could, ost_of_task, got)
    moved = _moved(files, each, beside=(could, load), got=got, timeout_s=probe.timeout_s)
    if got.write_s + got.read_s > probe.timeout_s:
        return JobRun(probe.name, at, RunStatus.UNFINISHED), moved
    run = JobRun(
        probe.name,
        at,
        RunStatus.OK,
        got.write_bytes_per_s,
        got.read_bytes_per_s,
        got.write_s,
        got.read_s,
    )
    return run, moved


def _moved(
    files: Array,
    each: float,
    *,
    beside: tuple[OstRates, OstRates],
    got: JobResult,
    timeout_s: float,
) -> ProbeTraffic:
    """Return the bytes moved by a job until its end or timeout, and by users meanwhile."""
    could, load = beside
    write_s = min(got.write_s, timeout_s)
    read_s = min(got.read_s, timeout_s - write_s)
    every = np.ones_like(files)
    return ProbeTraffic(
        written=files * np.minimum(each, got.write_of_file * write_s),
        read=files * np.minimum(each, got.read_of_file * read_s),
        files=files,
        write_s=every * write_s,
        read_s=every * read_s,
        users_write=_beside(load.write, could.write, files * got.write_of_file),
        users_read=_beside(load.read, could.read, files * got.read_of_file),
    )


def _beside(users: Array, could: Array, taken: Array) -> Array:
    """Return what users get of their demand while a probe takes its share."""
    return np.minimum(users, np.maximum(could - taken, 0.0))


def run_survey(
    scenario: Scenario, probe: ProbeLoad, at: datetime, moment: ProbeMoment, rates: StackRates
) -> tuple[SurveyRun, ProbeTraffic]:
    """Run a survey of all OSTs that starts at ``at``; return its result, and all bytes moved.

    It needs neither clients nor names: only silent OSTs are missing.
    """
    load = load_at(scenario, moment, at)
    could = rates.osts(scenario, moment.terms, from_clients=False)
    write, read = rates.survey(could, load)
    if traffic.are_checked():
        traffic.check_survey(probe, write, could.write)
        traffic.check_survey(probe, read, could.read)
    silent = moment.terms.conditions.silent
    takes = ~silent & (moment.room > SURVEY_BYTES)
    moved = _surveyed(write, read, takes, beside=(could, load))
    write, read = np.where(silent, np.nan, write), np.where(silent, np.nan, read)
    status = RunStatus.UNFINISHED if silent.any() else RunStatus.OK
    return SurveyRun(probe.name, at, status, write, read), moved


def _surveyed(
    write: Array, read: Array, takes: Flags, *, beside: tuple[OstRates, OstRates]
) -> ProbeTraffic:
    """Return the bytes moved by a survey on OSTs that answer and have room, and by users."""
    could, load = beside
    takes = takes & (write > 0.0) & (read > 0.0)
    size = np.where(takes, float(SURVEY_BYTES), 0.0)
    return ProbeTraffic(
        written=size,
        read=size,
        files=takes.astype(np.float64),
        write_s=size / np.where(takes, write, 1.0),
        read_s=size / np.where(takes, read, 1.0),
        users_write=_beside(load.write, could.write, write),
        users_read=_beside(load.read, could.read, read),
        from_clients=False,
    )


def place_files(files: int, chosen: Array, even: bool, draws: np.random.Generator) -> Integers:
    """Return the OST of each of a job's files, with one stripe per file.

    Parameters
    ----------
    chosen
        Each OST's share of new files; 0 if closed. At least one is open.
    even
        Round-robin over the open OSTs from a random first one; otherwise each file is drawn.
    """
    if not even:
        counts = draws.multinomial(files, chosen / chosen.sum())
        return np.repeat(np.arange(len(chosen)), counts)
    open_ = np.flatnonzero(chosen)
    return open_[(int(draws.integers(len(open_))) + np.arange(files)) % len(open_)]


NAMES = ("fullness", "amplification", "useless_per_request", "walks_per_request", "open")
"""Values of each column, in single precision; ``open`` is 0 or 1."""
_BLOCK = 256


@dataclass(slots=True)
class Trace:
    """The truth.

    Attributes
    ----------
    jobs, surveys
        Runs of the probes.
    """

    jobs: list[JobRun] = field(default_factory=list)
    surveys: list[SurveyRun] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _blocks: list[NDArray[np.float32]] = field(default_factory=list)
    _row: int = _BLOCK

    def record(self, end_s: float, *values: Array | Flags) -> None:
        """Record an epoch that ended at ``end_s``, seconds since 1970; values as in `NAMES`."""
        columns = len(values[0])
        if self._row == _BLOCK or self._blocks[-1].shape[2] != columns:
            if self._blocks and self._row < _BLOCK:
                self._blocks[-1] = self._blocks[-1][: self._row]
            self._blocks.append(np.empty((_BLOCK, len(NAMES), columns), np.float32))
            self._row = 0
        for place, of_columns in enumerate(values):
            self._blocks[-1][self._row, place] = of_columns
        self._row += 1
        self._ends.append(end_s)

    def last(self) -> dict[str, NDArray[np.float32]]:
        """Return the values of the last epoch, by name."""
        return dict(zip(NAMES, self._blocks[-1][self._row - 1], strict=True))

    @property
    def ends_s(self) -> Array:
        """End of each epoch, seconds since 1970 UTC."""
        return np.array(self._ends)

    def of(self, name: str) -> NDArray[np.float32]:
        """Return epochs x columns of a name in `NAMES`; NaN before a column existed."""
        place = NAMES.index(name)
        if not self._blocks:
            return np.empty((0, 0), np.float32)
        columns = self._blocks[-1].shape[2]
        result = np.full((len(self._ends), columns), np.nan, np.float32)
        row = 0
        for number, block in enumerate(self._blocks):
            rows = self._row if number == len(self._blocks) - 1 else len(block)
            result[row : row + rows, : block.shape[2]] = block[:rows, place]
            row += rows
        return result
