"""Write a simulated site's store: runs, surveys, snapshots and events like a real site's.

::

    simulation ──> printers of the instruments ──> the real parsers ──> Store   what a site sees
               └─────────────────────────────────────────────────────> Truth   what was really so

Everything is written in batches, each one transaction; leaving the writer writes the last one.
Snapshots are encoded incrementally (`Panel`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from trimtab.base.event import Event, identifier_of
from trimtab.base.run import Run, RunStatus
from trimtab.base.snapshot import Snapshot
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.snapshot_record import Changes
from trimtab.store.store import Store
from trimtab.twin.load_command import FailedOutput, no_name_service, no_space
from trimtab.twin.probe_output import (
    ior_command,
    ior_result,
    ior_run,
    place_of,
    survey_command,
    survey_run,
)
from trimtab.twin.scenario import ProbeLoad, Scenario
from trimtab.twin.simulated_ior import IorResult, PrintedSpace
from trimtab.twin.simulated_reading import SimulatedState, expanded
from trimtab.twin.simulated_site import (
    DRIVER,
    SiteLayout,
    devices_of,
    identity_of,
    machine_values,
    mdt_columns,
    ost_columns,
    ost_settings,
    site_layout_of,
    snapshot_of,
)
from trimtab.twin.simulation.probe_run import JobRun
from trimtab.twin.truth import Truth

if TYPE_CHECKING:
    import polars as pl


_OF_A_BASE: Final = 250
"""Maximum number of snapshots per base: counters far from their base need more bytes."""


@dataclass(slots=True)
class _Template:
    """A base, and the positions of changing values in its rows.

    Attributes
    ----------
    left
        Number of snapshots for which the base is still used.
    rows
        Rows per OST; OSTs come first, all with the same number, with settings after readings.
    places
        Name and label of a reading to its index in an OST's rows.
    now
        The values of the current snapshot.
    mdt_rows
        Rows of all readings of MDTs.
    cpu_rows, network_rows
        Rows of the two readings of each server.
    flags
        Create, degraded and the allocator's last group of each OST, on which the texts of settings
        depend.
    """

    base: Base
    left: int
    rows: int
    places: dict[tuple[str, str | None], int]
    now: Values
    mdt_rows: np.ndarray
    cpu_rows: np.ndarray
    network_rows: np.ndarray
    flags: list[tuple[bool, bool, int]]


class Panel:
    """Builds the snapshots of one file system; see `snapshot_of` for the parameters.

    Between snapshots mostly numbers change. The first is built by `snapshot_of`; while the same
    targets have the same readings, later ones put their numbers into its rows. The result decodes
    to exactly the same snapshot (``tests/twin/instruments/test_snapshots.py``).
    """

    def __init__(self, layout: SiteLayout, *, devices: str, seed: int = 0) -> None:
        self.layout = layout
        self._devices = devices
        self._seed = seed
        self._key: tuple[object, ...] = ()
        self._template: _Template | None = None
        self._partial: Base | None = None

    def snapshot(self, state: SimulatedState) -> Snapshot:
        """Return the snapshot of a state."""
        return snapshot_of(state, self.layout, devices=self._devices, seed=self._seed)

    def batch(self, state: SimulatedState) -> tuple[bool, Base, bytes]:
        """Return whether a state's snapshot is complete, its base, and its changes against it."""
        if not state.osts.answers[state.column].all():
            frame = frame_of(self.snapshot(state))
            if self._partial is None or not self._partial.fits(frame):
                self._partial = Base.of(frame)
            return False, self._partial, self._partial.changes(Values.of(frame))
        whole = expanded(state, self._seed)
        key = self._shape(whole)
        if self._template is None or key != self._key:
            self._key, self._template = key, self._made(state, whole)
        template = self._template
        self._fill(template, whole)
        if template.left == 0:
            template.base, template.left = template.base.with_values(template.now), _OF_A_BASE
        template.left -= 1
        return True, template.base, template.base.changes(template.now)

    def _shape(self, whole: SimulatedState) -> tuple[object, ...]:
        """Return a key that is equal for two snapshots with the same rows."""
        osts = whole.osts
        return (
            len(osts),
            len(whole.mdts),
            whole.settings,
            whole.own_settings,
            whole.own_mdt_settings,
            osts.failover_active.tobytes(),
            np.isnan(osts.last_trim_s).tobytes(),
            np.isnan(whole.mdts.last_trim_s).tobytes(),
        )

    def _made(self, state: SimulatedState, whole: SimulatedState) -> _Template:
        import polars as pl

        frame = frame_of(self.snapshot(state))
        keys = [*ost_columns(whole, self.layout)]
        flags = _flags(whole)
        count = len(keys) + len(self._settings(whole, 0, flags[0]))
        return _Template(
            base=Base.of(frame),
            left=_OF_A_BASE,
            rows=count,
            places={key: place for place, key in enumerate(keys)},
            now=Values.of(frame),
            mdt_rows=_rows(frame, (pl.col("target_kind") == "mdt") & pl.col("part").is_null()),
            cpu_rows=_of_machines(frame, "server_cpu_fraction"),
            network_rows=_of_machines(frame, "network_bytes_total"),
            flags=flags,
        )

    def _settings(
        self, whole: SimulatedState, number: int, flags: tuple[bool, bool, int]
    ) -> list[str]:
        create, degraded, last_group = flags
        settings = whole.own_settings.get(number, whole.settings)
        texts = ost_settings(settings, self._devices, create, degraded)
        return [*texts.values(), str(last_group)]

    def _fill(self, template: _Template, whole: SimulatedState) -> None:
        """Fill a template with the values of a state."""
        rows, now = template.rows, template.now
        for key, values in ost_columns(whole, self.layout).items():
            places = slice(template.places[key], len(whole.osts) * rows, rows)
            _put(now, places, values, is_time=key[0] == "last_trim_at")
        known, template.flags = template.flags, _flags(whole)
        for number, (before, flags) in enumerate(zip(known, template.flags, strict=True)):
            if flags == before:
                continue
            if flags[:-1] == before[:-1]:
                now.texts[(number + 1) * rows - 1] = str(flags[-1])
            else:
                settings = self._settings(whole, number, flags)
                now.texts[(number + 1) * rows - len(settings) : (number + 1) * rows] = settings
        columns = mdt_columns(whole, self.layout)
        mdt_rows = template.mdt_rows.reshape(len(whole.mdts), -1).T[: len(columns)]
        for (key, values), places in zip(columns.items(), mdt_rows, strict=True):
            _put(now, places, values, is_time=key[0] == "last_trim_at")
        busy, moved = machine_values(whole, self.layout)
        now.numbers[template.cpu_rows] = busy
        now.integers[template.network_rows] = moved


def _flags(whole: SimulatedState) -> list[tuple[bool, bool, int]]:
    """Return the values on which the texts of OST settings depend; see `_Template.flags`."""
    osts = whole.osts
    groups = osts.allocator_last_group.astype(int)
    flags = (osts.create_enabled, osts.degraded, groups)
    return list(zip(*(values.tolist() for values in flags), strict=True))


def _put(
    now: Values,
    places: slice | np.ndarray,
    values: Sequence[float | int | str | bool | None] | np.ndarray,
    *,
    is_time: bool,
) -> None:
    """Put one reading of all targets of a kind into its rows."""
    if isinstance(values, np.ndarray):
        (now.numbers if values.dtype == np.float64 else now.integers)[places] = values
        return
    if values.count(None) == len(values):
        return
    kind = type(next(filter(_is_there, values), None))
    if kind is float:
        now.numbers[places] = [value or 0.0 for value in values]
    elif kind is int or kind is bool:
        now.integers[places] = [value or 0 for value in values]
    elif is_time:
        now.texts[places] = [None if value is None else str(value) for value in values]


def _rows(frame: pl.DataFrame, condition: pl.Expr) -> np.ndarray:
    return frame.select(condition.fill_null(value=False)).to_series().arg_true().to_numpy()


def _of_machines(frame: pl.DataFrame, name: str) -> np.ndarray:
    """Return the rows of a reading of machines, in order."""
    import polars as pl

    return _rows(frame, (pl.col("part") == "host reading") & (pl.col("name") == name))


def _is_there(value: object) -> bool:
    return value is not None


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
        space: PrintedSpace | None = None,
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

    def job(self, job: JobRun, probe: ProbeLoad, space: PrintedSpace) -> None:
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

    def ior_run(self, at: datetime, probe: ProbeLoad, result: IorResult | FailedOutput) -> None:
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
        layout = site_layout_of(self.scenario, count)
        osses, home = layout.osses, layout.home
        surveyed = range(count) if osts is None else osts
        servers = {number: osses[home[number]] for number in surveyed}
        survey = survey_command(self.place, servers)
        rates = {test: values[list(surveyed)] for test, values in rates_bytes_per_s.items()}
        self._run(survey_run(self.place, probe, at, survey, rates))

    def snapshot(self, state: SimulatedState) -> None:
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
        layout = site_layout_of(scenario, osts)
        return Panel(layout, devices=devices_of(scenario), seed=scenario.seed)
