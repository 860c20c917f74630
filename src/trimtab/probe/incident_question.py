"""Questions about the incidents of a site, answered side by side from its snapshots, runs and jobs.

Each incident is a separate question. Snapshots are read last, and only those that an explanation
asks for.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from trimtab.base.code_version import __version__
from trimtab.base.failure import failure_of
from trimtab.base.incident import Assessment, Explanation, Incident, IncidentState
from trimtab.base.plain import as_dict, as_list, as_number, time_since_1970
from trimtab.base.run import ASKED, EXPLAINING, JOBS_KIND, PERF_KIND, Run, RunStatus, Sample
from trimtab.explain.context import (
    JOBS,
    LONGEST_STEP,
    Context,
    CpuProfile,
    Period,
    RunFact,
    Telemetry,
)
from trimtab.explain.explanation import explain
from trimtab.explain.site_explanation import (
    BEGINNING,
    Known,
    context_of,
    stages_of,
    standing_of,
)
from trimtab.reach.worker_process import Together
from trimtab.site.lookup import borrowed
from trimtab.store.kept_period import Period as KeptPeriod

if TYPE_CHECKING:
    from trimtab.store.store import Store


@dataclass(slots=True)
class StoreTelemetry:
    """Snapshots of one site, a `trimtab.explain.site_explanation.TelemetrySource`."""

    store: Store
    site: str
    _times: tuple[datetime, ...] | None = field(default=None, init=False)

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots within a stretch."""
        if self._times is None:
            self._times = self.store.snapshot_times(self.site)
        return self._times[bisect_left(self._times, since) : bisect_right(self._times, until)]

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return the snapshots of these times."""
        readings, settings = self.store.telemetry_frames(self.site, times, categories=True)
        return Telemetry(readings, settings)


_PLACED_S: Final = 300.0

JobHours = tuple[tuple[datetime, float, float], ...]
"""Middle of an hour, running jobs and busy nodes, by time."""


@dataclass(frozen=True, slots=True)
class PeriodFacts:
    """Facts from the runs of a period: runs of probes, profiles of servers, hours of jobs."""

    runs: tuple[RunFact, ...]
    profiles: tuple[CpuProfile, ...]
    hours: JobHours


Conditions = tuple[Assessment, ...]
"""Conditions that were wrong throughout a record."""
SETTLED: Final = timedelta(days=4)
"""Time after the end of an incident: later data adds only hours to compare it with. It is longer
than `trimtab.explain.site_explanation` and the causes look at."""


@dataclass(slots=True)
class _Asking:
    """Records which snapshots each context asks for, and returns none of them yet."""

    source: StoreTelemetry
    times_requested: list[tuple[datetime, ...]] = field(default_factory=list)

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots within a stretch."""
        return self.source.times(since, until)

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Record the times; return no snapshot."""
        self.times_requested.append(tuple(times))
        return self.source.frames(())


@dataclass(frozen=True, slots=True)
class ExplanationBasis:
    """Data that an explanation rests on.

    Attributes
    ----------
    digest
        Digest of everything but the content of snapshots.
    snapshots
        Number of snapshots that it uses from the hours around the incident.
    are_removed
        Whether snapshots of these hours have outlived their retention.
    """

    digest: str
    snapshots: int
    are_removed: bool = False


@dataclass(frozen=True, slots=True)
class IncidentQuestion:
    """One incident with the facts of its hours, except the snapshots: those are read last.

    Attributes
    ----------
    times
        Times of the snapshots to read.
    stages
        Each of its stages by itself, and the times of its snapshots.
    """

    url: str
    site: str
    context: Context
    times: tuple[datetime, ...]
    first_snapshot: datetime | None = None
    stages: tuple[tuple[Context, tuple[datetime, ...]], ...] = ()

    @property
    def incident(self) -> Incident:
        """The incident to explain."""
        return self.context.incident

    def basis(self) -> ExplanationBasis | None:
        """Return the data the explanation rests on; ``None`` while it may still change daily."""
        context, incident = self.context, self.context.incident
        if incident.state is not IncidentState.ENDED or incident.until is None:
            return None
        if incident.until + SETTLED > context.now:
            return None
        # The first snapshots of the record change each day once the retention is over.
        begins = min(window.from_ for window in (*context.bad, *context.good))
        times = tuple(at for at in self.times if at >= begins - LONGEST_STEP)
        contexts = ((context, times), *self.stages)
        rests_on = (__version__, *(_rests_on(*each) for each in contexts))
        digest = hashlib.sha256(repr(rests_on).encode()).hexdigest()[:32]
        are_removed = self.first_snapshot is None or self.first_snapshot > begins
        return ExplanationBasis(digest, len(times), are_removed)

    def answer(self) -> Explanation:
        """Return the explanation of the incident."""
        source = StoreTelemetry(borrowed(self.url), self.site)
        whole, *stages = (
            replace(context, telemetry=source.frames(times))
            for context, times in ((self.context, self.times), *self.stages)
        )
        return explain(whole, stages=stages)


def _rests_on(context: Context, times: tuple[datetime, ...]) -> tuple[object, ...]:
    """Return all that an explanation of this context rests on, but the content of snapshots."""
    return (
        *(context.incident, context.record_from),
        *(_placed(window) for window in (*context.bad, *context.good)),
        *(context.runs, context.events, context.messages, context.log_entries, context.profiles),
        *(context.limits, context.hardware, sorted(context.home.items())),
        context.has_site_file,
        *(frame.write_csv() for frame in (context.surveys, context.jobs)),
        times,
    )


def _placed(window: Period) -> tuple[int, int]:
    """Return a window rounded to some minutes: the spacing of runs varies by seconds."""
    begin, end = window.from_.timestamp(), window.to.timestamp()
    return round(begin / _PLACED_S), round(end / _PLACED_S)


@dataclass(frozen=True, slots=True)
class _Standing:
    """Conditions that were wrong throughout the record: its first days compared with its last."""

    url: str
    known: Known

    def answer(self) -> Conditions:
        """Return those conditions."""
        source = StoreTelemetry(borrowed(self.url), self.known.site)
        return standing_of(self.known, source)


@dataclass(frozen=True, slots=True)
class FactsQuestion:
    """Facts from the runs of a site, profiles of its servers and accounting of its jobs.

    Attributes
    ----------
    until
        Later runs are left out.
    periods
        Only the runs of these, each by itself; ``None``: all of the record together.
    """

    url: str
    site: str
    until: datetime | None = None
    periods: tuple[KeptPeriod, ...] | None = None

    def answer(self) -> tuple[PeriodFacts, ...]:
        """Return the facts of each period."""
        store = borrowed(self.url)
        if self.periods is None:
            return (self._facts_of(store.runs_between(self.site, until=self.until)),)
        return tuple(self._facts_of(store.runs_in(self.site, period)) for period in self.periods)

    def _facts_of(self, runs: Iterable[tuple[Run, str]]) -> PeriodFacts:
        facts: list[RunFact] = []
        profiles: list[CpuProfile] = []
        accounts: list[Run] = []
        # A run is far larger than its fact: a year of them is never in memory.
        for run, series in runs:
            if run.kind not in EXPLAINING and (fact := run_fact(run, series)) is not None:
                facts.append(fact)
            if (profile := profile_of(run)) is not None:
                profiles.append(profile)
            if run.kind == JOBS_KIND:
                accounts.append(run)
        return PeriodFacts(tuple(facts), tuple(profiles), hours_of(accounts, self.until))


def questions_of(
    store: Store, incidents: Iterable[Incident], known: Known, *, others: Sequence[Incident]
) -> Iterator[IncidentQuestion]:
    """Yield the question of each incident, in their order.

    Parameters
    ----------
    others
        All known incidents; their hours do not count as good.
    """
    source, url = StoreTelemetry(store, known.site), store.location.url
    first = next(iter(source.times(known.record_from, known.now)), None)
    for incident in incidents:
        asking = _Asking(source)
        context = context_of(incident, known, asking, others=others)
        stages = stages_of(incident, known, asking, others=others)
        times, *of_stages = asking.times_requested
        yield IncidentQuestion(
            url, known.site, context, times, first, tuple(zip(stages, of_stages, strict=True))
        )


def ask_for_standing(store: Store, known: Known, together: Together) -> Iterator[Conditions]:
    """Begin to search for permanent conditions, and return what yields them."""
    return together([_Standing(store.location.url, _at_its_ends(known))])


def _at_its_ends(known: Known) -> Known:
    """Return the facts of the first and the last days only."""
    first, last = known.record_from + BEGINNING, known.now - BEGINNING
    return replace(
        known,
        series={},
        surveys=known.surveys.filter((pl.col("at") <= first) | (pl.col("at") >= last)),
        runs=tuple(run for run in known.runs if run.at <= first or run.at >= last),
    )


def run_fact(run: Run, series: str) -> RunFact | None:
    """Return a stored run as a fact; ``None`` if it has no time, as it then explains nothing.

    Parameters
    ----------
    series
        Its comparability.
    """
    if run.at is None:
        return None
    parameters = run.parameters
    job, cost = as_dict(parameters.get("job")), as_dict(parameters.get("cost"))
    requested = as_dict(parameters.get(ASKED))
    totals, tails = _figures(run.samples)
    nodes = tuple(str(name) for name in as_list(job.get("nodes")))
    return RunFact(
        id=run.id,
        at=run.at,
        until=run.until,
        probe=run.probe,
        kind=run.kind,
        series=series,
        status=run.status,
        values=totals,
        tails=tails,
        disbelieved=tuple(dict.fromkeys(sample.reason for sample in run.samples if sample.reason)),
        problem=run.problem,
        hosts=nodes or (() if run.host is None else (run.host,)),
        bytes_written=_moved(totals, cost, "bytes_written"),
        bytes_read=_moved(totals, cost, "bytes_read"),
        # The nodes it ran on, not those requested: half the nodes give half the bandwidth.
        nodes=len(set(nodes)) or _count(requested.get("nodes")),
        tasks=_count(requested.get("tasks")),
        failure=None if run.status is RunStatus.OK else failure_of(run.problem),
        place=_place(run),
    )


def _place(run: Run) -> dict[str, str]:
    """Return what a run ran in: options of its batch job, launcher, program and tool version."""
    job, launcher = as_dict(run.parameters.get("job")), as_dict(run.parameters.get("launcher"))
    names = {
        **as_dict(job.get("options")),
        "launcher": launcher.get("name"),
        "launcher version": launcher.get("version"),
        "program": run.parameters.get("program"),
        "tool version": run.tool_version,
    }
    return {name: str(value) for name, value in names.items() if value}


def profile_of(run: Run) -> CpuProfile | None:
    """Return the CPU profile of a server from an imported output of perf, ``None`` for others."""
    if run.kind != PERF_KIND:
        return None
    recorded = as_dict(run.parameters.get("told"))
    shares = {
        str(name): share
        for name, value in as_dict(recorded.get("shares")).items()
        if (share := as_number(value)) is not None
    }
    return CpuProfile(run.at, shares) if shares else None


def hours_of(runs: Iterable[Run], until: datetime | None) -> JobHours:
    """Return the hours of imported accounting.

    Parameters
    ----------
    until
        Hours that end later are left out.
    """
    hours: dict[datetime, tuple[float, float]] = {}
    for run in runs:
        recorded = as_dict(run.parameters.get("told"))
        hour = timedelta(seconds=as_number(recorded.get("hour_s")) or 0.0)
        begin = time_since_1970(as_number(recorded.get("from_s")))
        columns = (as_list(recorded.get(name)) for name in ("running_jobs", "busy_nodes"))
        for number, pair in enumerate(zip(*columns, strict=False)):
            jobs, nodes = map(as_number, pair)
            if begin is None or jobs is None or nodes is None:
                continue
            at = begin + number * hour + hour / 2
            if until is None or at + hour / 2 <= until:
                hours[at] = (jobs, nodes)
    return tuple((at, *figures) for at, figures in sorted(hours.items()))


def jobs_of(facts: Iterable[PeriodFacts]) -> pl.DataFrame:
    """Return all hours of jobs, as `Context.jobs` has them; of two runs the later counts."""
    hours = {at: figures for period in facts for at, *figures in period.hours}
    rows = [(at, *figures) for at, figures in sorted(hours.items())]
    return pl.DataFrame(rows, schema=JOBS, orient="row")


def _figures(samples: Iterable[Sample]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median of each metric over repetitions, and of each other statistic of it."""
    totals: dict[str, list[float]] = {}
    tails: dict[str, list[float]] = {}
    for sample in samples:
        if sample.target is not None or not sample.believed or sample.value is None:
            continue
        if sample.statistic == "total":
            totals.setdefault(sample.metric, []).append(sample.value)
        else:
            tails.setdefault(f"{sample.metric}:{sample.statistic}", []).append(sample.value)
    return (
        {name: median(values) for name, values in totals.items()},
        {name: median(values) for name, values in tails.items()},
    )


def _moved(totals: dict[str, float], cost: dict[str, Any], name: str) -> float | None:
    moved = totals.get(name, as_number(cost.get(name)))
    return None if moved is None else float(moved)


def _count(value: object) -> int | None:
    number = as_number(value)
    return None if number is None or number < 1 else int(number)
