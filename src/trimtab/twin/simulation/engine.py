"""Simulate a file system in epochs of users' and operators' actions.

Each epoch: due changes and faults; placement of users' writes; deletions; purge; gating; the layout
beneath and trims; probes at their slots; recording. Gating and the layout divide a long epoch into
parts. A slot or a fault at the very end of an epoch belongs to it, a change to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from trimtab._core import OstFleet
from trimtab.base.error import UsageError
from trimtab.base.event import Event, EventKind
from trimtab.base.name_set import mdt_name, ost_name
from trimtab.twin.scenario import ProbeLoad, Scenario, ScenarioChange, ost_capacity_bytes
from trimtab.twin.scenario_check import replace_running
from trimtab.twin.scenario_key import value_text
from trimtab.twin.simulation import operation, traffic
from trimtab.twin.simulation.fault import (
    Conditions,
    EventLog,
    Trouble,
    acting,
    active,
    carriers,
    conditions,
    log_faults,
    phases,
)
from trimtab.twin.simulation.miniature import ColumnState, Miniature, drive_steps
from trimtab.twin.simulation.operation import (
    OF_MDT,
    OF_OST,
    MdtTrims,
    Operations,
    OwnSettings,
    is_last_stretch,
    placements_of,
    windows_of,
)
from trimtab.twin.simulation.ost_array import (
    Array,
    Integers,
    OstRates,
    columns_of,
    unfolded,
    with_more,
)
from trimtab.twin.simulation.ost_rate import OstTerms, StackRates, throttling
from trimtab.twin.simulation.population import COHORT_S, Accounts, Population
from trimtab.twin.simulation.probe_run import (
    ProbeAgenda,
    ProbeMoment,
    Trace,
    load_at,
    run_job,
    run_survey,
)
from trimtab.twin.simulation.traffic import Asks, ProbeTraffic, laid_out, layers_of, probed, serve
from trimtab.twin.simulation.user_load import UserLoad, shares_of

Placing = tuple[Array, bool]
"""Each OST's share of new files, and whether placement is round-robin."""


class Simulation:
    """A scenario, running.

    Parameters
    ----------
    scenario
        The scenario to simulate.
    layout
        Creates the miniature OSTs; default: those of the Rust core.
    rates
        Ceilings of the layers above; default: those of `trimtab.twin.simulation.hardware`.
    windows
        Factor on writes through collection and throttling within seconds.
    threads
        Threads of the core; the result does not depend on it. ``None``: one per CPU.

    Attributes
    ----------
    scenario
        Its current settings.
    now
        Aware UTC.
    state
        Arrays over columns.
    columns
        The real OSTs that they represent.
    own_settings, own_mdt_settings
        Settings of columns and MDTs that differ from the scenario.
    faults
        In their effective form: on all OSTs of an array, until a lost drive's data is restored.
    trace
        The state in each epoch, and the probes' results.
    """

    def __init__(
        self,
        scenario: Scenario,
        threads: int | None = None,
        *,
        layout: Callable[[Scenario, int, int | None], OstFleet] | None = None,
        rates: StackRates | None = None,
        windows: Callable[[Scenario, Array], Array] = throttling,
    ) -> None:
        self.scenario = scenario
        self.now = scenario.start.astimezone(UTC)
        self.end = self.now + timedelta(seconds=scenario.length_s)
        self.zone = scenario.zone
        faults = (acting(fault, scenario) for fault in scenario.faults)
        self.faults = tuple(sorted(faults, key=lambda fault: fault.at))
        self._apart = frozenset(ost for fault in self.faults for ost in fault.osts)
        self.columns = columns_of(scenario.osts.count, scenario.resolution.classes, self._apart)
        self.own_settings, self.own_mdt_settings = OwnSettings(OF_OST), OwnSettings(OF_MDT)
        self.mdt_trims = MdtTrims(scenario.mdts)
        self.log = EventLog(scenario.name)
        self.trace = Trace()
        self._epoch = 0
        self._rates = rates or StackRates()
        self._windows = windows
        self._agenda = ProbeAgenda(scenario.probes, self.now, scenario.timezone)
        self._changes = sorted(scenario.changes, key=lambda change: change.at)
        lost = (phase for fault in scenario.faults for phase in phases(fault, scenario))
        self._troubles: list[Trouble] = [*self.faults, *lost]
        self._faults_reported = 0
        self._calm: Conditions | None = None
        self._shown: Conditions | None = None
        self._carriers: tuple[Conditions, Integers] | None = None
        self._operations = Operations(self)
        self.state = ColumnState.empty(self.columns.count, ost_capacity_bytes(scenario.osts))
        self.usage = UserLoad(self)
        self._count_space()
        self._user_rate = np.zeros(self.columns.count)
        self._user_read_rate = np.zeros(self.columns.count)
        self.miniature = Miniature(scenario, self.state.fullness, layout, threads)

    @property
    def population(self) -> Population:
        """Bytes by column, lifetime and age."""
        return self.usage.population

    @property
    def accounts(self) -> Accounts:
        """Bytes by user."""
        return self.usage.accounts

    @property
    def events(self) -> list[Event]:
        """Events so far."""
        return self.log.events

    def run(
        self, until: datetime | None = None, on_progress: Callable[[float], None] | None = None
    ) -> Trace:
        """Run to a time, or to the end of the scenario.

        Parameters
        ----------
        until
            Aware; the last epoch ends at or after it.
        on_progress
            Called with the completed fraction, 0 to 1, about a hundred times.
        """
        begun, until = self.now, until or self.end
        whole = max((until - begun).total_seconds(), 1.0)
        reported_s = 0.0
        while self.now < until:
            self.step()
            done = min(1.0, (self.now - begun).total_seconds() / whole)
            if on_progress is not None and (done >= reported_s + 0.01 or done == 1.0):
                on_progress(done)
                reported_s = done
        return self.trace

    def step(self) -> None:
        """Let one epoch pass."""
        seconds = self.scenario.resolution.epoch_s
        start, end = self.now, self.now + timedelta(seconds=seconds)
        while self._changes and self._changes[0].at < end:
            self._apply_due(self._changes.pop(0))
        self._faults_reported = log_faults(self.log, self.faults, self._faults_reported, end)
        faults = active(self._troubles, start, end)
        troubles = self._conditions(faults, start, end)
        self._show_conditions(troubles)
        day = int((end - self.scenario.start).total_seconds() // COHORT_S)
        self.usage.begin_day(day)
        self.usage.begin_epoch(self._epoch, start, end)
        flow = self._flow(faults, start, end)
        burst = self._lay_out(flow, start, end)
        self.state.write_bytes_per_s = (flow.written + burst) / seconds
        self._user_rate = flow.written / seconds
        # Faults that ended within the epoch are over at its end.
        self._show_conditions(self._conditions(active(self._troubles, end, end), end, end))
        self._record(end)
        self.now = end
        self._epoch += 1

    def _flow(self, faults: tuple[Trouble, ...], start: datetime, end: datetime) -> traffic.Flow:
        """Run probes, users' writes and deletions, purges and gating checks that are due.

        If OSTs may close or open within the epoch, it is divided at the gating checks: otherwise
        few open OSTs would get the writes of a whole epoch, regardless of their limit.
        """
        written, deleted, purged = np.zeros((3, self.columns.count))
        flow = traffic.Flow(written, deleted, purged)
        placing = self._shares()
        for part, (begun, until) in enumerate(pairwise(self._looks(faults, placing, start, end))):
            if part > 0:
                placing = self._shares()
            flow.written += self._traffic(flow, part, faults, placing, (begun, until))
            flow.deleted += self.usage.delete((until - begun).total_seconds())
            flow.purged += self._operations.purge(begun, until)
            self._count_space()
            self._operations.gate(until)
        return flow

    def _traffic(
        self,
        flow: traffic.Flow,
        part: int,
        faults: tuple[Trouble, ...],
        placing: Placing,
        span: tuple[datetime, datetime],
    ) -> Array:
        """Run probes and users' I/O in a part of an epoch; return the written bytes."""
        start, end = span
        seconds = (end - start).total_seconds()
        weight = self.columns.weight
        troubles = self._conditions(active(faults, start, end), start, end)
        # Drives and allocators keep the state of the last epoch in all its parts.
        if flow.terms is None or flow.terms.conditions is not troubles:
            flow.terms, flow.layers = self._terms(troubles), None
        terms = flow.terms
        if flow.layers is None or flow.layers.seconds != seconds:
            could = self._rates.osts(self.scenario, terms, from_clients=True)
            flow.layers = layers_of(could, self.scenario.clients, self.columns, seconds)
        layers = flow.layers
        books = traffic.Books.of(self.state) if traffic.are_checked() else None
        wanted = self.usage.want(
            placing[0],
            most=float(np.where(placing[0] > 0.0, layers.write, 0.0) @ weight),
            draw=(self._epoch, part),
            faults=faults,
            start=start,
            end=end,
        )
        self._user_rate = wanted.placed / seconds
        reads = self.usage.reads(seconds)
        self._user_read_rate = reads / seconds
        moved: list[ProbeTraffic] = []
        for probe, at in self._agenda.due(end):
            moment = self._moment(at, faults, placing, terms)
            moved.append(self._measure(probe, moment, at, wanted.room_taken))
            flow.moved.append((at, moved[-1]))
        by_probes = probed(moved, self.columns, seconds)
        asks = Asks(wanted.placed, wanted.filling, reads)
        written, read = serve(self.state, self.columns, layers, by_probes, asks)
        self.usage.write(wanted, written)
        if books is not None:
            traffic.check_traffic(layers, by_probes, (written, read), weight, seconds=seconds)
            demand, whole = self.usage.new_demand, float(written @ weight)
            traffic.check_books(books, self.state, new_demand=demand, written=whole)
        return written

    def _looks(
        self, faults: tuple[Trouble, ...], placing: Placing, start: datetime, end: datetime
    ) -> Sequence[datetime]:
        """Return the epoch's ends and the times between at which gating may change."""
        gating, state = self.scenario.gating, self.state
        if not gating.enabled:
            return (start, end)
        most = self.usage.expected(placing[0], faults=faults, start=start, end=end)
        return traffic.looks(start, end, gating, state.closed_by_gating, state.fullness_after(most))

    def _lay_out(self, flow: traffic.Flow, start: datetime, end: datetime) -> Array:
        """Advance the layout beneath by the epoch; return probes' bytes on one OST of each column.

        Uses steps of at most an hour, with jobs, trims and resets at their times: a drive's copies
        depend on the writes between two trims, not on the length of an epoch.
        """
        parts = drive_steps((end - start).total_seconds())
        whole = np.zeros(self.columns.count)
        for begun, until in pairwise(traffic.spans(start, end, parts)):
            runs = [run for at, run in flow.moved if begun < at <= until]
            burst, burst_files = laid_out(runs, self.columns)
            self.miniature.advance(
                self.state,
                written=flow.written / parts,
                deleted=flow.deleted / parts,
                purged=flow.purged / parts,
                burst=burst,
                burst_files=burst_files,
                resets=operation.resets_due(
                    (begun - self.scenario.start).total_seconds(),
                    (until - self.scenario.start).total_seconds(),
                    self.scenario.allocator.reset_s,
                ),
            )
            self._operations.trim(begun, until)
            whole += burst
        return whole

    def apply(self, change: ScenarioChange) -> None:
        """Apply a change, and record an event."""
        self._set(change.set, max(change.at, self.now), change.detail)

    def _apply_due(self, change: ScenarioChange) -> None:
        """Apply a change of the scenario, which may conflict with settings made by hand."""
        known = len(self.log.events)
        try:
            self.apply(change)
            self.log.scripted |= {event.id for event in self.log.events[known:]}
        except UsageError as error:
            self.log.add(EventKind.NOTE, max(change.at, self.now), f"refused: {error.message}")

    def set_key(self, key: str, value: object) -> None:
        """Set one setting by its dotted key; see `trimtab.twin.scenario_check.replace_running`."""
        self._set({key: value}, self.now, "")

    def set_alone(self, kind: str, number: int, values: Mapping[str, object]) -> None:
        """Set keys of `OF_OST` only for the OSTs of a column, or of `OF_MDT` only for one MDT."""
        settings = self.own_settings if kind == "ost" else self.own_mdt_settings
        settings.set(self.scenario, number, values)
        osts = np.flatnonzero(self.columns.member == number).tolist() if kind == "ost" else []
        name = ost_name(osts[0]) if osts else mdt_name(number)
        text = ", ".join(f"{key}: {value!r}" for key, value in values.items())
        self.log.add(EventKind.CONFIG_CHANGE, self.now, f"{text} of {name}", osts=osts)
        if osts:
            self.miniature.configure_own({number: settings.of(self.scenario, number)})

    def trim(self, column: int, start: float = 0.0, length: float = 1.0) -> float:
        """Trim an OST of a column now; return the bytes that its drives released.

        Parameters
        ----------
        start, length
            Fractions of the OST. The miniature trims whole OSTs: only the last range that covers it
            takes effect, earlier ones return 0.

        Raises
        ------
        UsageError
            There is no such column or range.
        """
        self._check_column(column)
        if not is_last_stretch(start, length):
            return 0.0
        return self._operations.trim_now(column)

    def trim_mdt(self, number: int, start: float = 0.0, length: float = 1.0) -> float:
        """Trim an MDT now; see `trim`."""
        if not is_last_stretch(start, length):
            return 0.0
        return self.mdt_trims.trim(number, self.accounts, self.now)

    def set_creation(self, column: int, enabled: bool) -> None:
        """Open or close OSTs of a column to new files, regardless of gating."""
        self._check_column(column)
        self.state.closed_by_hand[column] = not enabled
        kind = EventKind.TARGET_OPENED if enabled else EventKind.TARGET_CLOSED
        osts = np.flatnonzero(self.columns.member == column)
        self.log.add(kind, self.now, "by hand", osts=osts)

    def reset_allocator(self, column: int) -> None:
        """Reset the allocator of a column's OSTs to the first block group."""
        self._check_column(column)
        self.miniature.reset([column])

    def end_probes(self) -> None:
        """Stop the scenario's own probes from now on."""
        self._agenda = ProbeAgenda((), self.now, self.scenario.timezone)

    def write(self, bytes_of_osts: Sequence[tuple[float, str]]) -> None:
        """Write a guest's bytes to real OSTs now: pairs of bytes and OST ranges."""
        self._guest(bytes_of_osts, 1.0)

    def remove(self, bytes_of_osts: Sequence[tuple[float, str]]) -> None:
        """Remove a guest's bytes."""
        self._guest(bytes_of_osts, -1.0)

    def placing(self, at: datetime) -> tuple[Array, bool]:
        """Return each real OST's share of a guest's new files, and if placement is round-robin.

        Returns
        -------
        tuple
            Shares of files, 0 for a closed or full OST; whether files go round-robin over the open
            OSTs or are drawn at random.
        """
        moment = self._moment(at, active(self._troubles, at, at), self._shares(), None)
        return moment.chosen, moment.even

    def met(self, at: datetime) -> tuple[OstRates, OstRates]:
        """Return each real OST's rates for clients, and users' demand on it, at a time.

        Parameters
        ----------
        at
            Aware; within the current epoch.
        """
        moment = self._moment(at, active(self._troubles, at, at), self._shares(), None)
        could = self._rates.osts(self.scenario, moment.terms, from_clients=True)
        return could, load_at(self.scenario, moment, at)

    def _guest(self, bytes_of_osts: Sequence[tuple[float, str]], sign: float) -> None:
        each = unfolded(bytes_of_osts, self.columns.osts)
        change = self.columns.means(each)
        state = self.state
        state.guest_bytes = np.maximum(state.guest_bytes + sign * change, 0.0)
        self._count_space()
        nothing = np.zeros(self.columns.count)
        self.miniature.serve(
            state,
            written=change if sign > 0.0 else nothing,
            deleted=change if sign < 0.0 else nothing,
        )
        if sign > 0.0:
            state.client_bytes_written_total += change

    def _check_column(self, column: int) -> None:
        if not 0 <= column < self.columns.count:
            raise UsageError(
                f"there is no column {column}",
                code="target-unknown",
                hint=f"columns: 0 to {self.columns.count - 1}",
            )

    def _set(self, values: Mapping[str, object], at: datetime, detail: str) -> None:
        before = self.scenario
        self.scenario = replace_running(before, values)
        more = f" ({detail})" if detail else ""
        for key in values:
            old, new = value_text(before, key), value_text(self.scenario, key)
            if key == "osts.count":
                self._grow(at, detail)
            else:
                self.log.add(EventKind.CONFIG_CHANGE, at, f"{key}: {old} -> {new}{more}")
        if self.scenario.users != before.users:
            self.accounts.plan(self.scenario.users)
        self.own_settings.follow(self.scenario, values)
        self.own_mdt_settings.follow(self.scenario, values)
        self.miniature.configure(self.scenario, self.own_settings.scenarios)

    def _grow(self, at: datetime, detail: str) -> None:
        old, count = self.columns, self.scenario.osts.count
        if count == old.osts:
            return
        self.columns = with_more(old, count, self.scenario.resolution.classes, self._apart)
        more = self.columns.count - old.count
        self._user_rate = np.pad(self._user_rate, (0, more))
        self._user_read_rate = np.pad(self._user_read_rate, (0, more))
        self.state.add(more, ost_capacity_bytes(self.scenario.osts))
        self.population.add_columns(self.columns.weight)
        self.miniature.add(more)
        self._calm = None
        added = range(old.osts, count)
        detail_text = f"{old.osts} -> {count} OSTs" + (f" ({detail})" if detail else "")
        self.log.add(EventKind.CAPACITY_ADDED, at, detail_text, osts=added)

    def _shares(self) -> Placing:
        """Return the share of new files of one OST of each column, and if it is round-robin."""
        state, columns = self.state, self.columns
        open_ = state.create_enabled & state.answers
        room = np.where(open_, np.maximum(state.available_bytes, 0.0), 0.0)
        server = columns.first // self.scenario.osts.per_server
        answers = [
            (part, shares_of(placement, room, open_, columns.weight, server))
            for placement, part in placements_of(self.scenario, self.own_mdt_settings)
        ]
        if len(answers) == 1:
            return answers[0][1]
        mixed = np.sum([part * shares for part, (shares, _) in answers], axis=0)
        return mixed, all(even for _, (_, even) in answers)

    def _count_space(self) -> None:
        self.state.used_bytes = self.population.used + self.state.guest_bytes

    def _conditions(
        self, faults: tuple[Trouble, ...], start: datetime, end: datetime
    ) -> Conditions:
        if faults:
            return conditions(faults, start, end, self.columns.osts)
        if self._calm is None:
            self._calm = conditions((), start, end, self.columns.osts)
        return self._calm

    def _show_conditions(self, troubles: Conditions) -> None:
        if troubles is self._shown:
            return
        self._shown = troubles
        first, state = self.columns.first, self.state
        state.answers = ~troubles.silent[first]
        remounted = np.flatnonzero(troubles.moved[first] != state.failover_active).tolist()
        for column in self.own_settings.forget(remounted):
            self.miniature.configure_own({column: self.scenario})
        state.failover_active = troubles.moved[first]
        state.degraded = troubles.degraded[first]
        state.server = self._servers(troubles)[first]
        state.names_resolve = troubles.names_resolve

    def _servers(self, troubles: Conditions) -> Integers:
        if self._carriers is None or self._carriers[0] is not troubles:
            moved = carriers(troubles.moved, self.scenario.osts.per_server)
            self._carriers = (troubles, moved)
        return self._carriers[1]

    def _measure(
        self, probe: ProbeLoad, moment: ProbeMoment, at: datetime, taken: Array
    ) -> ProbeTraffic:
        moment = replace(moment, room=moment.room - taken[self.columns.member])
        if probe.kind == "ior":
            job, moved = run_job(self.scenario, probe, at, moment, self._rates)
            self.trace.jobs.append(job)
        else:
            survey, moved = run_survey(self.scenario, probe, at, moment, self._rates)
            self.trace.surveys.append(survey)
        return moved

    def _terms(self, troubles: Conditions) -> OstTerms:
        member, copies = self.columns.member, self.state.amplification
        windows = windows_of(self._windows, self.scenario, self.own_settings, copies)[member]
        walks = self.miniature.walks_per_request[member]
        return OstTerms(copies[member], walks, windows, self._servers(troubles), troubles)

    def _moment(
        self, at: datetime, faults: tuple[Trouble, ...], placing: Placing, terms: OstTerms | None
    ) -> ProbeMoment:
        """Return the state for a probe; the epoch's ``terms`` apply under the same conditions."""
        shares, even = placing
        troubles = self._conditions(active(faults, at, at), at, at)
        member, state = self.columns.member, self.state
        chosen = np.where(state.create_enabled, shares, 0.0)[member]
        # A silent OST that is open still gets files: the metadata servers have not noticed.
        silent = troubles.silent & state.create_enabled[member]
        if silent.any():
            chosen = np.where(silent, chosen.max() or 1.0, chosen)
        return ProbeMoment(
            terms if terms and terms.conditions is troubles else self._terms(troubles),
            self._user_rate[member],
            self._user_read_rate[member],
            chosen,
            even,
            state.available_bytes[member],
        )

    def _record(self, end: datetime) -> None:
        state = self.state
        self.trace.record(
            end.timestamp(),
            state.fullness,
            state.amplification,
            self.miniature.useless_per_request,
            self.miniature.walks_per_request,
            state.create_enabled,
        )
