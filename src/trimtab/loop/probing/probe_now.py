"""Run a probe of the site file now: measured, kept and judged as the watch does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trimtab.config.problems import did_you_mean
from trimtab.drivers.protocol import Driver
from trimtab.errors import Interrupted, RefusedError, TrimtabError, UsageError
from trimtab.launch.interruption import shielded
from trimtab.loop.judging import comparisons, verdicts
from trimtab.loop.probing.missing import Likeness, as_asked, likeness_of
from trimtab.loop.probing.probe import ProbeRunner, Progress, RunContext
from trimtab.measure.plain import as_list
from trimtab.model.identifier import new_identifier
from trimtab.model.run import Run
from trimtab.model.site import Site, SiteProbe
from trimtab.model.telemetry import NotAvailable
from trimtab.model.verdict import Comparison, Verdict
from trimtab.record.comparability import comparability_key
from trimtab.report.documents.encode import Problem

if TYPE_CHECKING:
    from trimtab.record.store import Store


@dataclass(frozen=True, slots=True)
class ProbeDocument:
    """``trimtab probe --json``: the run, its results, and why it is incomplete.

    Further runs follow if one command measured several things.

    Attributes
    ----------
    notes
        What could not be done beside it: a snapshot, a verdict.
    error
        Why the run is not whole. An interruption is raised once the run is kept.
    """

    store: str
    runs: tuple[Run, ...]
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    error: Problem | None

    @property
    def run(self) -> Run:
        """The run that was asked for."""
        return self.runs[0]


def probe_of(site: Site, name: str) -> SiteProbe:
    """Return a probe of a site.

    Raises
    ------
    UsageError
        There is none of that name.
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
    """Run a probe and return what came of it; the run and a snapshot each side of it are kept.

    Parameters
    ----------
    trim
        Whether every target is trimmed first.

    Raises
    ------
    TrimtabError
        It could not be started, or its result could not be kept.
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
    if run.at is not None:
        since = run.at - timedelta(seconds=site.limits.window_s)
        history = store.history(site.name, comparability_key(run), since=since)
        judged = verdicts(run, history, goal=site.limits.cov)
        compared = comparisons(run, history)
    place = str(store.location)
    return ProbeDocument(place, runs, judged, compared, tuple(notes), outcome.error)


def _last(site: Site, probe: SiteProbe, store: Store) -> Likeness | None:
    """Return what the last run of the probe was."""
    runs = store.runs(site=site.name, probe=probe.name, limit=1)
    return likeness_of(runs[0]) if runs else None


def _trimmed(driver: Driver, progress: Progress) -> list[str]:
    """Trim every target that can be trimmed; return which could not.

    Raises
    ------
    RefusedError
        None could: the probe would not measure what was asked for.
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
    """Keep what every target looks like; return why it could not be, if so."""
    try:
        store.add_snapshot(site.name, driver.snapshot(clock()))
    except TrimtabError as error:
        return [f"no snapshot: {error.message}"]
    return []
