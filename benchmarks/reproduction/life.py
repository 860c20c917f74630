"""Simulated lives, and what is kept of them: little enough to pass between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from trimtab.base.event import Event
from trimtab.twin.scenario import Scenario, ost_capacity_bytes
from trimtab.twin.simulated_reading import drive_percentage_used
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.hardware import OstHardware, hardware
from trimtab.twin.simulation.probe_run import NAMES, JobRun, SurveyRun
from trimtab.twin.whatif.whatif_figure import listener

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mark:
    """Totals at one moment.

    Attributes
    ----------
    at
        End of the epoch that reached the moment.
    purged_bytes
        Of the whole, since the start.
    percentage_used
        Part of the drives' rated life that is gone, 0 to 1, mean over OSTs.
    """

    at: datetime
    purged_bytes: float
    percentage_used: float


@dataclass(frozen=True, slots=True)
class Life:
    """What a simulation left.

    Attributes
    ----------
    scenario
        As it was at the start.
    until
        When it ended.
    ends_s
        End of each epoch, seconds since 1970.
    weight
        Real OSTs of each column, at the end.
    traced
        By name of `trimtab.twin.simulation.probe_run.NAMES`: epochs x columns, NaN before a column
        was there.
    capacity_bytes
        Of the whole, at the end.
    by_day
        Bytes of the whole by days since their last use, at the end.
    """

    scenario: Scenario
    until: datetime
    jobs: tuple[JobRun, ...]
    surveys: tuple[SurveyRun, ...]
    events: tuple[Event, ...]
    ends_s: Array
    weight: Array
    traced: Mapping[str, NDArray[np.float32]]
    marks: tuple[Mark, ...]
    capacity_bytes: float
    by_day: Array

    def mean(self, name: str, since: datetime, until: datetime) -> float | None:
        """Return a traced value's mean over OSTs and epochs; ``None`` where no epoch ended then."""
        rows = (self.ends_s > since.timestamp()) & (self.ends_s <= until.timestamp())
        if not rows.any():
            return None
        values = self.traced[name][rows].astype(np.float64)
        weights = np.where(np.isfinite(values), self.weight, 0.0)
        return float((np.nan_to_num(values) * weights).sum() / weights.sum())

    def over_time(self, name: str) -> Array:
        """Return a traced value of each epoch, mean over OSTs."""
        values = self.traced[name].astype(np.float64)
        weights = np.where(np.isfinite(values), self.weight, 0.0)
        return (np.nan_to_num(values) * weights).sum(axis=1) / weights.sum(axis=1)

    def at(self, moment: datetime) -> Mark | None:
        """Return the totals at a moment that was asked for, if it was reached."""
        return next((mark for mark in self.marks if mark.at >= moment), None)


@dataclass(frozen=True, slots=True)
class LifeRun:
    """A life to be lived, here or in another process.

    Attributes
    ----------
    name
        What it is for: rows ask for lives by it.
    until_s
        Simulated time; ``None``: all of the scenario.
    marks
        Moments at which totals are kept.
    trims
        Moments at which all OSTs are trimmed, whatever the schedule says.
    most_seeds
        Runs of it at most; ``None``: as many as are asked for.
    """

    name: str
    scenario: Scenario
    until_s: float | None = None
    marks: tuple[datetime, ...] = ()
    trims: tuple[datetime, ...] = ()
    most_seeds: int | None = None

    def answer(self) -> Life:
        """Live it; one thread, since each processor has a life of its own."""
        simulation = Simulation(self.scenario, threads=1)
        start, tell = simulation.now, listener.get()
        length_s = self.scenario.length_s if self.until_s is None else self.until_s
        end = min(simulation.now + timedelta(seconds=length_s), simulation.end)
        marks = []

        def advance(_: float) -> None:
            if tell is not None:
                tell((simulation.now - start) / (end - start))

        for moment in sorted({*self.marks, *self.trims}):
            if moment > end:
                break
            simulation.run(moment, on_progress=advance)
            if moment in self.trims:
                for column in range(simulation.columns.count):
                    simulation.trim(column)
            if moment in self.marks:
                marks.append(_mark(simulation))
        simulation.run(end, on_progress=advance)
        trace = simulation.trace
        return Life(
            scenario=self.scenario,
            until=simulation.now,
            jobs=tuple(trace.jobs),
            surveys=tuple(trace.surveys),
            events=tuple(simulation.events),
            ends_s=trace.ends_s,
            weight=simulation.columns.weight,
            traced={name: trace.of(name) for name in NAMES},
            marks=tuple(marks),
            capacity_bytes=float(simulation.state.capacity_bytes @ simulation.columns.weight),
            by_day=simulation.population.by_age().sum(axis=0),
        )


def _mark(simulation: Simulation) -> Mark:
    weight = simulation.columns.weight
    used = drive_percentage_used(simulation.scenario, simulation.state)
    return Mark(
        simulation.now,
        simulation.population.totals.purged,
        float(used @ weight / weight.sum()),
    )


def machine_of(scenario: Scenario) -> OstHardware:
    """Return what the layers need of a scenario's machines."""
    osts = replace(scenario.osts, capacity_bytes=ost_capacity_bytes(scenario.osts))
    return hardware(osts, scenario.server)


def with_classes(scenario: Scenario, classes: int | None) -> Scenario:
    """Return the scenario simulated by so many columns; ``None``: one for each OST."""
    return replace(scenario, resolution=replace(scenario.resolution, classes=classes))
