"""Runs a probe of the site file now, as the watch does, and records missing runs.

A missing run holds no number: it says that a probe was due and why nothing was measured.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.code_version import __version__
from trimtab.base.encode import Problem
from trimtab.base.error import Interrupted, RefusedError, TrimtabError, UsageError, visible
from trimtab.base.event import Event, EventKind, identifier_of, new_identifier
from trimtab.base.interruption import shielded
from trimtab.base.plain import as_list
from trimtab.base.run import ASKED, Run, RunStatus, comparability_key
from trimtab.base.site import Site, SiteProbe
from trimtab.base.snapshot import NotAvailable
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.verdict import Comparison, HistoryPoint, Verdict
from trimtab.judge.run_verdict import comparisons, verdicts
from trimtab.probe.maintenance import window_of
from trimtab.probe.probe import ProbeRunner, Progress, RunContext
from trimtab.reach.driver_protocol import Driver

if TYPE_CHECKING:
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class Likeness:
    """Kind and settings of a probe's last run, so that a missing one joins the same series.

    Attributes
    ----------
    kind
        The benchmark that ran.
    asked
        Its requested parameters; ``None`` if no run is known.
    """

    kind: str
    asked: object = None


def likeness_of(run: Run) -> Likeness:
    """Return what the next run of the probe will be like."""
    return Likeness(run.kind, run.parameters.get(ASKED))


SILENT: Final = (RunStatus.UNFINISHED, RunStatus.FAILED, RunStatus.NOT_STARTED)
"""Runs with these statuses may have no output that states their parameters."""


def as_asked(run: Run, last: Likeness | None) -> Run:
    """Return a run in the series of the last one if its own output does not state its parameters.

    A command that was killed has not printed its parameters. The run still counts as 0, and must
    count in the series of the others: if its requested parameters equal those of the last run.
    """
    requested, before = run.parameters.get(ASKED), last.asked if last is not None else None
    if run.status not in SILENT or last is None:
        return run
    if not isinstance(requested, dict) or not isinstance(before, dict):
        return run
    if not all(name in before and before[name] == value for name, value in requested.items()):
        return run
    return replace(run, kind=last.kind, parameters={**run.parameters, ASKED: before})


@dataclass(frozen=True, slots=True)
class AbsentRun:
    """A slot of a probe from which no run came."""

    site: str
    item: str
    due_at: datetime
    probe: str
    path: str

    @property
    def run_id(self) -> str:
        """The id of the slot's run, whatever its outcome; the same after every restart."""
        return identifier_of(self.due_at, self.site, self.item)

    def run(
        self, status: RunStatus, reason: str, like: Likeness, at: datetime | None = None
    ) -> Run:
        """Return the run that records it; ``at`` is its start, if it was started."""
        parameters: dict[str, object] = {"due_at": self.due_at.isoformat()}
        if like.asked is not None:
            parameters[ASKED] = like.asked
        return Run(
            id=self.run_id,
            site=self.site,
            probe=self.probe,
            kind=like.kind,
            status=status,
            at=at or self.due_at,
            path=self.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters=parameters,
            problem=reason,
        )


def stretch(site: str, item: str, first: datetime, last: datetime, reason: str) -> Event:
    """Return one event for more missed slots than are worth listing one by one."""
    return Event(
        id=identifier_of(first, site, item, "missed"),
        site=site,
        kind=EventKind.LAUNCH_FAILURE,
        at=first,
        until=last,
        detail=f"no slot of {item} was begun: {reason}",
        source="watch",
    )


@dataclass(frozen=True, slots=True)
class ProbeDocument:
    """``trimtab probe --json``: the run, its results, and why it is incomplete.

    Further runs follow if one command measured several things.

    Attributes
    ----------
    notes
        Other steps that failed: a snapshot, a verdict.
    error
        Why the run is incomplete. An interruption is raised once the run is stored.
    """

    store: str
    runs: tuple[Run, ...]
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    error: Problem | None

    @property
    def run(self) -> Run:
        """The requested run."""
        return self.runs[0]


def probe_of(site: Site, name: str) -> SiteProbe:
    """Return a probe of a site.

    Raises
    ------
    UsageError
        The site has no probe of that name.
    """
    for probe in site.probes:
        if probe.name == name:
            return probe
    names = [configured.name for configured in site.probes]
    known = ", ".join(names)
    raise UsageError(
        f"{site.name} has no probe {name!r}",
        code="probe-unknown",
        hint=did_you_mean(name, names)
        or (f"there are {known}" if known else "write a [probe.NAME] into its site file"),
    )


def probe_now(
    site: Site,
    probe: SiteProbe,
    store: Store,
    driver: Driver,
    runner: ProbeRunner,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    trim: bool = False,
) -> ProbeDocument:
    """Run a probe and return the outcome; the run, and snapshots before and after, are stored.

    Parameters
    ----------
    trim
        Whether every target is trimmed first.

    Raises
    ------
    TrimtabError
        It could not be started, or its result could not be stored.
    """
    started_at = clock()
    context = RunContext(new_identifier(started_at), started_at, progress)
    notes = [*(_trimmed(driver, progress) if trim else ())]
    notes += _snapshot(site, store, driver, clock)
    outcome = runner(probe, context)
    run = as_asked(outcome.run, _last(site, probe, store))
    notes += map(str, as_list(run.parameters.get("warnings")))
    runs = (run, *outcome.others)
    with shielded():
        for made in runs:
            store.add_run(made)
    if isinstance(outcome.error, Interrupted):
        raise outcome.error
    notes += _snapshot(site, store, driver, clock)
    judged: tuple[Verdict, ...] = ()
    compared: tuple[Comparison, ...] = ()
    window = window_of(store, run)
    if window is not None:
        notes.append(f"kept and not judged: in maintenance, {visible(window.why)}")
    elif run.at is not None:
        history = _history(store, site, run)
        judged = verdicts(run, history, goal=site.limits.cov)
        compared = comparisons(run, history)
    place = str(store.location)
    return ProbeDocument(place, runs, judged, compared, tuple(notes), outcome.error)


def verdicts_on(store: Store, site: Site, run: Run) -> tuple[Verdict, ...]:
    """Return the verdicts on a stored run, by the runs up to it within the site's window."""
    return verdicts(run, _history(store, site, run, until=run.at), goal=site.limits.cov)


def _history(
    store: Store, site: Site, run: Run, *, until: datetime | None = None
) -> tuple[HistoryPoint, ...]:
    """Return the runs of the same probe from the site's window before a run, this one included."""
    assert run.at is not None
    since = run.at - timedelta(seconds=site.limits.window_s)
    return store.history(site.name, comparability_key(run), since=since, until=until)


def _last(site: Site, probe: SiteProbe, store: Store) -> Likeness | None:
    """Return kind and settings of the probe's last run."""
    runs = store.runs(site=site.name, probe=probe.name, limit=1)
    return likeness_of(runs[0]) if runs else None


def _trimmed(driver: Driver, progress: Progress) -> list[str]:
    """Trim every target that can be trimmed; return which could not.

    Raises
    ------
    RefusedError
        None could: the probe would not measure what was requested.
    """
    notes, targets = [], driver.targets()
    if isinstance(targets, NotAvailable):
        raise RefusedError(
            f"the targets to trim are unknown: {targets.reason}", code="targets-unknown"
        )
    for number, target in enumerate(targets):
        progress(f"trimming {target.name}", number / len(targets))
        result = driver.trim(target.name)
        if isinstance(result, NotAvailable):
            notes.append(f"{target.name} was not trimmed: {result.reason}")
    if targets and len(notes) == len(targets):
        raise RefusedError(
            f"no target could be trimmed before the probe: {notes[0]}",
            code="trim-failed",
            hint="trim the targets by hand, or omit --trim",
        )
    return notes


def _snapshot(site: Site, store: Store, driver: Driver, clock: Callable[[], datetime]) -> list[str]:
    """Store a snapshot of all targets; return why that failed, if it did."""
    try:
        store.add_snapshot(site.name, driver.snapshot(clock()))
    except TrimtabError as error:
        return [f"no snapshot: {error.message}"]
    return []
