"""Writes a simulated site's store: runs, surveys, snapshots and events like a real site's.

::

    simulation ──> printers of the instruments ──> the real parsers ──> Store   what a site sees
               └─────────────────────────────────────────────────────> Truth   what was really so

Everything is written in batches, each one transaction; leaving the writer writes the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import numpy as np

from trimtab.model.event import Event
from trimtab.model.identifier import identifier_of
from trimtab.model.run import Run, RunStatus
from trimtab.record.snapshots import Changes
from trimtab.record.store import Store
from trimtab.twin.instruments.failures import Failure, no_name_service, no_space
from trimtab.twin.instruments.ior import IorResult, Space
from trimtab.twin.instruments.layout import devices_of, identity_of, layout_of
from trimtab.twin.instruments.panel import Panel
from trimtab.twin.instruments.probes import (
    ior_command,
    ior_result,
    ior_run,
    place_of,
    survey_command,
    survey_run,
)
from trimtab.twin.instruments.snapshots import DRIVER
from trimtab.twin.instruments.state import TargetState
from trimtab.twin.scenario.model import ProbeLoad, Scenario
from trimtab.twin.simulation.probes import JobRun
from trimtab.twin.truth import Truth

_BATCH: Final = 250


class SiteWriter:
    """Writes a simulation's instrument readings to a store.

    Use it as a context manager. Its input need not be in chronological order.

    Attributes
    ----------
    truth
        ``None`` if the store is not a file, or if it was not requested.
    """

    def __init__(
        self,
        store: Store,
        scenario: Scenario,
        *,
        path: str | None = None,
        truth: bool = True,
    ) -> None:
        self.store = store
        self.scenario = scenario
        self.place = place_of(scenario, path)
        database_path = store.location.path
        self.truth = Truth(Path(database_path)) if truth and database_path else None
        self._panel = self._panel_of(scenario.osts.count)
        self._runs: list[Run] = []
        self._snapshots: list[Changes] = []
        self._events: list[Event] = []
        store.ensure_site(
            scenario.name,
            driver=DRIVER,
            identity=f"{identity_of(scenario)}:{self.place.path}",
            path=self.place.path,
            timezone=scenario.timezone,
        )

    def ior(
        self,
        at: datetime,
        probe: ProbeLoad,
        *,
        write_s: float,
        read_s: float,
        space: Space | None = None,
    ) -> None:
        """Store a run of IOR, given the times of its phases; infinite if it hung."""
        local = at.astimezone(self.scenario.zone)
        result = ior_result(
            ior_command(probe, self.place.path),
            local,
            write_s=write_s,
            read_s=read_s,
            timeout_s=probe.timeout_s,
            space=space,
        )
        self.ior_run(at, probe, result)

    def job(self, job: JobRun, probe: ProbeLoad, space: Space) -> None:
        """Store a simulated run, with what IOR prints of a file system with that space."""
        if job.status is RunStatus.NOT_STARTED:
            self.ior_run(job.at, probe, no_name_service())
            return
        if job.status is RunStatus.FAILED:
            self.ior_run(job.at, probe, no_space(self.place.path))
            return
        self.ior(
            job.at,
            probe,
            write_s=math.inf if job.write_s is None else job.write_s,
            read_s=math.inf if job.read_s is None else job.read_s,
            space=space,
        )

    def ior_run(self, at: datetime, probe: ProbeLoad, result: IorResult | Failure) -> None:
        """Store a run of IOR, or a failed one."""
        self._run(ior_run(self.place, probe, at, result))

    def survey(
        self,
        at: datetime,
        probe: ProbeLoad,
        rates_bytes_per_s: Mapping[str, np.ndarray],
        *,
        osts: Sequence[int] | None = None,
    ) -> None:
        """Store a survey of OSTs.

        Parameters
        ----------
        rates_bytes_per_s
            ``write`` and ``read`` to one rate for each real OST; NaN if it did not answer.
        osts
            Numbers of the surveyed OSTs; ``None``: all.
        """
        count = len(next(iter(rates_bytes_per_s.values())))
        layout = layout_of(self.scenario, count)
        osses, home = layout.osses, layout.home
        surveyed = range(count) if osts is None else osts
        servers = {number: osses[home[number]] for number in surveyed}
        survey = survey_command(self.place, servers)
        rates = {test: values[list(surveyed)] for test, values in rates_bytes_per_s.items()}
        self._run(survey_run(self.place, probe, at, survey, rates))

    def snapshot(self, state: TargetState) -> None:
        """Store the telemetry of a state."""
        if self._panel.layout.osts != len(state.column):
            self._panel = self._panel_of(len(state.column))
        at = state.at.astimezone(UTC)
        identifier = identifier_of(at, self.place.site, "snapshot")
        complete, base, batch = self._panel.batch(state)
        self._snapshots.append(Changes(identifier, at, DRIVER, complete, base, batch))
        if len(self._snapshots) >= _BATCH:
            self.flush()

    def event(self, event: Event) -> None:
        """Store an event."""
        self._events.append(event)

    def flush(self) -> None:
        """Write everything so far to the store."""
        runs, self._runs = self._runs, []
        snapshots, self._snapshots = self._snapshots, []
        events, self._events = self._events, []
        self.store.add_runs(runs)
        self.store.add_changes(self.place.site, snapshots)
        self.store.add_events(events)

    def close(self) -> None:
        """Write the last batch, and the truth."""
        self.flush()
        if self.truth is not None:
            self.truth.write()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Write the last batch, even after an error: the simulation up to then is valid."""
        self.close()

    def _run(self, run: Run) -> None:
        self._runs.append(run)
        if len(self._runs) >= _BATCH:
            self.flush()

    def _panel_of(self, osts: int) -> Panel:
        scenario = self.scenario
        layout = layout_of(scenario, osts)
        return Panel(layout, devices=devices_of(scenario), seed=scenario.seed)
