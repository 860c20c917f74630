"""The file system hour by hour: forward in time, each hour from the one before."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tests.incidents.instruments import Moved, measure_hour
from tests.incidents.mechanism import Mechanism
from tests.incidents.physics import CAPACITY_BYTES, Array
from tests.incidents.rates import Rates, make_rates
from tests.incidents.system import (
    Book,
    Conditions,
    Flags,
    State,
    System,
    Weather,
    calm,
    first_state,
)
from tests.incidents.world import Profile, Run, SurveyValue

LIMIT = 0.75
REOPEN = 0.70


@dataclass(frozen=True, slots=True)
class Hour:
    """All that was true in one hour."""

    state: State
    now: Conditions
    rates: Rates
    closed: Flags
    moved: Moved
    trimmed: Flags


@dataclass(slots=True)
class Record:
    """What came of a world before it is written down as telemetry."""

    system: System
    first: int = 0
    hours: list[Hour] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    surveys: list[SurveyValue] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)


def simulate(
    system: System,
    weather: Weather,
    mechanisms: list[Mechanism],
    book: Book,
    *,
    begin: tuple[int, State] | None = None,
    end: int | None = None,
) -> Record:
    """Return the record of a world, or of a part of it.

    Parameters
    ----------
    begin
        Hour to begin with, and the state in which it begins; ``None``: the start of the record.
    end
        Hour before which it ends.
    """
    first, state = begin if begin is not None else (0, first_state(system))
    for mechanism in mechanisms:
        mechanism.prepare()
    before = np.array(state.fullness)
    _grow_into(state, mechanisms, before)
    record = Record(system, first)
    for hour in range(first, system.hours if end is None else end):
        now = calm(system, weather, hour)
        for mechanism in mechanisms:
            mechanism.act(now, state)
        closed = now.closed | _gate(system, state, now, book)
        rates = make_rates(system, state, now)
        moved = measure_hour(record, weather, state, now, rates, closed)
        trimmed = now.exists & ~now.untrimmed & now.trim
        record.hours.append(Hour(state.copy(), now, rates, closed, moved, trimmed))
        if trimmed.any():
            targets = None if trimmed.sum() == now.exists.sum() else system.names(trimmed)
            book.write("trim", hour, "fstrim", targets=targets, source="journal")
        _advance(system, state, hour, record.hours[-1])
    return record


def _grow_into(state: State, mechanisms: list[Mechanism], before: Array) -> None:
    """Let what began before the record have had its effect already."""
    for mechanism in mechanisms:
        if not mechanism.standing:
            continue
        goal = getattr(mechanism, "goal", 0.0)
        if goal > 0:
            state.fullness = np.where(
                mechanism.where, goal + (before - before.mean()), state.fullness
            )
        if mechanism.incident.cause == "trim-overdue":
            state.dose = np.where(mechanism.where, 2.1, state.dose)
            state.last_trim_hour = np.where(mechanism.where, np.nan, state.last_trim_hour)


def _gate(system: System, state: State, now: Conditions, book: Book) -> Flags:
    """Close full targets and open others again, and write both down."""
    if not system.site.gate:
        return state.closed_by_gate
    was = state.closed_by_gate
    wanted = now.exists & ((state.fullness >= LIMIT) | (was & (state.fullness >= REOPEN)))
    most = int(now.exists.sum()) - system.site.open_at_least
    if wanted.sum() > most:
        # Those that are closed stay closed; of the others the fullest go first.
        order = np.argsort(-(state.fullness + 10.0 * was))
        kept = np.zeros_like(wanted)
        kept[[ost for ost in order if wanted[ost]][:most]] = True
        wanted = kept
    for kind, changed in (("target-closed", wanted & ~was), ("target-opened", was & ~wanted)):
        if changed.any():
            detail = f"policy: {'over 75' if kind == 'target-closed' else 'under 70'} % full"
            book.write(
                kind,
                now.hour,
                detail,
                targets=system.names(changed),
                source="policy",
                of_incident=True,
            )
    state.closed_by_gate = wanted
    return wanted


def _advance(system: System, state: State, hour: int, what: Hour) -> None:
    """Carry space and dose over to the next hour."""
    now, moved = what.now, what.moved
    purge = hour % 168 == 148
    open_now = now.exists & ~what.closed & ~now.parted
    # 3 % of what users write stays; the rest is deleted or written over within the hour.
    grown = 0.03 * np.minimum(now.user_write, 1e9).sum() * 3600
    weight = open_now * np.maximum(1 - state.fullness, 0.01)
    placed = grown * weight / max(weight.sum(), 1e-9)
    state.fullness = np.clip(state.fullness + (placed + now.fill) / CAPACITY_BYTES, 0.01, 0.99)
    if purge:
        grown_since = 0.03 * 0.07 * 7
        state.fullness = np.clip(state.fullness - grown_since, 0.01, 0.99)
    state.dose = np.where(
        what.trimmed, 0.005, np.minimum(state.dose + moved.device_written / CAPACITY_BYTES, 2.1)
    )
    state.last_trim_hour = np.where(what.trimmed, float(hour), state.last_trim_hour)
