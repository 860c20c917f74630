"""Run a scenario, and store what a site would have observed.

::

    Simulation ──epoch──> probes' outputs, snapshots, events ──> store      what a site observes
               └────────> Truth beside the store                            the true state
    diary and site file ──> `trimtab status NAME.toml`, `watch`, `check` ... continue where it ended
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import RefusedError, UsageError, system_errors
from trimtab.base.interruption import interruptible, lifted, shielded
from trimtab.base.name_set import ost_name
from trimtab.base.run import RunStatus
from trimtab.site.lookup import open_store
from trimtab.twin.life import Diary, Life
from trimtab.twin.scenario import ProbeLoad, Scenario
from trimtab.twin.scenario_fact import TwinRun
from trimtab.twin.scenario_file import to_toml as scenario_toml
from trimtab.twin.simulated_reading import printed_space, readings
from trimtab.twin.simulated_site import site_text
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.site_writer import SiteWriter
from trimtab.twin.truth import Emerging, cause_of

if TYPE_CHECKING:
    from trimtab.store.store import Store

Progress = Callable[[str, float], None]

SCENARIO_FILE: Final = "scenario.toml"
"""The scenario as it ran: the life continues with it, even if the preset changes."""


@dataclass(frozen=True, slots=True)
class TwinRequest:
    """Options of a simulation, and where its results are kept.

    Attributes
    ----------
    directory
        Receives the store, the truth, the site file and the diary.
    store_url
        Another store than the one in ``directory``.
    until_s
        Seconds since the scenario's start; ``None``: to its end.
    snapshot_every_s
        Seconds between snapshots; at least an epoch.
    closed_book
        Store no event of the scenario's own faults and changes.
    truth
        Store the true state, beside the store.
    """

    scenario: Scenario
    directory: Path
    store_url: str | None = None
    until_s: float | None = None
    snapshot_every_s: float = 3600.0
    closed_book: bool = False
    truth: bool = True


def run_twin(wanted: TwinRequest, *, progress: Progress) -> TwinRun:
    """Return what was kept of a scenario.

    Raises
    ------
    UsageError
        It would end before its start, or after the scenario's end.
    RefusedError
        The directory already holds a life, or the store has data of the site.
    UnreadableError
        Something could not be written.
    Interrupted
        A user or the system stopped it; the simulation so far is stored, and the diary continues
        from there.
    """
    scenario, directory = wanted.scenario, wanted.directory
    start = scenario.start.astimezone(UTC)
    until = start + timedelta(seconds=_length_s(wanted))
    _refuse_used(directory)
    store_file = directory.absolute() / f"{scenario.name}.db"
    with (
        interruptible(),
        open_store(wanted.store_url or f"sqlite:///{store_file}", create=True) as store,
    ):
        _refuse_known(store, scenario.name)
        with shielded():
            site_file = _prepare(wanted, store.location.url)
            keeper = _TwinKeeper(wanted, Simulation(scenario), store)
            try:
                with lifted():
                    keeper.run(until, progress)
            finally:
                stored = keeper.close(site_file)
    return stored


def _length_s(wanted: TwinRequest) -> float:
    length_s = wanted.scenario.length_s
    until_s = length_s if wanted.until_s is None else wanted.until_s
    if not 0.0 < until_s <= length_s:
        raise UsageError(
            f"--until is {until_s / 86400:g} days and the scenario has {length_s / 86400:g}",
            code="until-too-late",
            hint="lengthen it: [scenario] length",
        )
    return until_s


def _refuse_used(directory: Path) -> None:
    """Raise if a directory holds a life, or leftovers of a killed simulation."""
    if Diary(directory).path.exists():
        raise RefusedError(
            f"{directory} already holds the life of a twin",
            code="twin-exists",
            hint="name another with --directory, or remove it",
        )
    with system_errors(f"{directory} cannot be created", code="cannot-write"):
        directory.mkdir(parents=True, exist_ok=True)


def _refuse_known(store: Store, name: str) -> None:
    """Raise if a store has data of that site: one record cannot hold two lives."""
    if any(site.name == name for site in store.sites()):
        raise RefusedError(
            f"{store.location} already holds a site {name}",
            code="site-exists",
            hint="name another store with --store, or give the scenario another name",
        )


def _prepare(wanted: TwinRequest, store_url: str) -> Path:
    """Write all files beside the store, and return the site file.

    This precedes the simulation, so that a failed write is reported early.
    """
    scenario, directory = wanted.scenario, wanted.directory.absolute()
    site_file, scenario_file = directory / f"{scenario.name}.toml", directory / SCENARIO_FILE
    _write(scenario_file, scenario_toml(scenario))
    _write(site_file, site_text(scenario, str(scenario_file), directory, store_url))
    Diary(directory).announce()
    return site_file


class _TwinKeeper:
    """Stores the readings of instruments while a simulation runs."""

    def __init__(self, wanted: TwinRequest, simulation: Simulation, store: Store) -> None:
        self._wanted = wanted
        self._simulation = simulation
        self._store = store
        path = str(wanted.directory.absolute())
        self._writer = SiteWriter(store, wanted.scenario, path=path, truth=wanted.truth)
        self._probes: dict[str, ProbeLoad] = {probe.name: probe for probe in wanted.scenario.probes}
        self._next_snapshot = simulation.now + timedelta(seconds=wanted.snapshot_every_s)
        self._jobs = self._surveys = self._events = self._snapshots = 0
        self._statuses: dict[RunStatus, int] = {}
        self._emerging = Emerging()
        if self._writer.truth is not None:
            for change in wanted.scenario.changes:
                self._writer.truth.cause(cause_of(change))
            for fault in simulation.faults:
                self._writer.truth.cause(cause_of(fault, [ost_name(ost) for ost in fault.osts]))

    def run(self, until: datetime, progress: Progress) -> None:
        """Let time pass and store the observations."""
        simulation = self._simulation
        whole = (until - simulation.now).total_seconds()
        while simulation.now < until:
            with shielded():  # all results of a step are stored
                simulation.step()
                self._keep()
            left = (until - simulation.now).total_seconds()
            progress("simulating", min(1.0, 1.0 - left / whole))

    def close(self, site_file: Path) -> TwinRun:
        """Store the last results, and begin the diary with the time reached."""
        if self._writer.truth is not None:
            for cause in self._emerging.left():
                self._writer.truth.cause(cause)
        self._writer.close()
        scenario, simulation = self._wanted.scenario, self._simulation
        directory = self._wanted.directory.absolute()
        Life(scenario, directory, watched_from=simulation.now, simulation=simulation).begin()
        truth = self._writer.truth
        return TwinRun(
            scenario=scenario,
            start=scenario.start.astimezone(UTC),
            end=simulation.now,
            store=str(self._store.location),
            site_file=site_file,
            truth=() if truth is None else (truth.table, truth.lines),
            statuses=self._statuses,
            surveys=self._surveys,
            snapshots=self._snapshots,
            events=self._events,
        )

    def _keep(self) -> None:
        simulation, writer = self._simulation, self._writer
        trace = simulation.trace
        for job in trace.jobs[self._jobs :]:
            self._statuses[job.status] = self._statuses.get(job.status, 0) + 1
            writer.job(job, self._probes[job.probe], printed_space(simulation))
        self._jobs = len(trace.jobs)
        for survey in trace.surveys[self._surveys :]:
            rates = {"write": survey.write_bytes_per_s, "read": survey.read_bytes_per_s}
            writer.survey(survey.at, self._probes[survey.probe], rates, osts=self._surveyed())
        self._surveys = len(trace.surveys)
        for event in simulation.events[self._events :]:
            if not (self._wanted.closed_book and event.id in simulation.log.scripted):
                writer.event(event)
        self._events = len(simulation.events)
        if writer.truth is not None:
            values, member = trace.last(), simulation.columns.member
            writer.truth.epoch(simulation.now, values)
            ended = self._emerging.step(simulation.now, simulation.scenario, member, values)
            for cause in ended:
                writer.truth.cause(cause)
        if simulation.now >= self._next_snapshot:
            writer.snapshot(readings(simulation))
            self._snapshots += 1
            self._next_snapshot += timedelta(seconds=self._wanted.snapshot_every_s)

    def _surveyed(self) -> list[int] | None:
        """Return one OST of each column; ``None`` if each OST has its own column.

        OSTs of one column are one draw: as targets beside each other they would look like evidence.
        """
        columns = self._simulation.columns
        return None if columns.count == columns.osts else sorted(columns.first.tolist())


def _write(path: Path, text: str) -> None:
    with system_errors(f"{path} cannot be written", code="cannot-write"):
        path.write_text(text, encoding="utf-8")
