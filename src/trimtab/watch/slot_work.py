"""Do one slot, and store its results so that it can be interrupted at any moment.

A probe's slot is three transactions::

    claim       the slot is started
    measured    + the run, with the snapshot that was taken before it
    done        + the snapshot after it, and the verdicts

After a kill before ``claim`` the slot is due as if nothing had happened; before ``measured`` the
probe runs again, or is dropped if its time is past; before ``done`` the rest is done. Ids follow
from site, item and time, so that nothing can be stored twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trimtab.act.apply import GivesWay, never
from trimtab.act.session import ActingPlace
from trimtab.base.error import Interrupted, TrimtabError, UnreadableError, panics_as_errors
from trimtab.base.event import identifier_of
from trimtab.base.run import Run, RunStatus
from trimtab.base.schedule import PROBE_PREFIX, PURGE_PLAN
from trimtab.base.site import Site, SiteProbe
from trimtab.base.snapshot import Snapshot
from trimtab.base.verdict import Verdict
from trimtab.probe.probe import ProbeRunner, RunContext
from trimtab.probe.probe_now import (
    SILENT,
    AbsentRun,
    Likeness,
    as_asked,
    likeness_of,
    stretch,
    verdicts_on,
)
from trimtab.reach.driver_protocol import Driver
from trimtab.store.slot import Slot, SlotState, lease_end
from trimtab.watch.agenda import MissMany
from trimtab.watch.armed_policy import PlanEnd, PolicyKeeper, PurgePlanning, armed, state_of
from trimtab.watch.service import Notifier, fields
from trimtab.watch.upkeep import StorePatience, Taking

if TYPE_CHECKING:
    from trimtab.store.store import Store

ENDED_WHILE_IT_RAN: Final = "the watch ended while it ran"
AN_ERROR_ENDED_IT: Final = "an error of the watch ended it"
_ATTEMPTS: Final = 6
"""Attempts at optional reads: a minute in all."""
_TELLS_NOTHING: Final = (RunStatus.FAILED, RunStatus.NOT_STARTED)


@dataclass(slots=True)
class SlotWork:
    """Does the slots of a site.

    Attributes
    ----------
    holder
        Name of this process in the lease.
    alive
        Called now and then while something takes long: a sign of life, and the lease.
    beside
        Called now and then while a probe runs: takes the snapshots that come due meanwhile.
    settle
        Called once a probe is over: waits for a snapshot that is still being taken.
    keeper
        Keeps the armed policies; ``None``: the site file arms none.
    planning
        Makes purge plans; ``None``: the site file schedules none.
    """

    site: Site
    store: Store
    driver: Driver
    runner: ProbeRunner
    clock: Callable[[], datetime]
    log: logging.Logger
    notify: Notifier
    patience: StorePatience
    holder: str
    alive: Callable[[], None]
    beside: Callable[[], object] = lambda: None
    settle: Callable[[], object] = lambda: None
    keeper: PolicyKeeper | None = field(default=None, init=False)
    planning: PurgePlanning | None = field(default=None, init=False)
    _likeness: dict[str, Likeness] = field(default_factory=dict, init=False)

    def arm(self, open_acting: Callable[..., Driver], wait: Callable[[float], None]) -> None:
        """Set up policies and purge plans, as far as the site file arms or schedules them.

        Parameters
        ----------
        open_acting
            Opens the driver with the right to change the file system.
        wait
            Waits for that many seconds; the watch stays alive meanwhile.
        """
        if armed(self.site):
            place = ActingPlace(self.site, self.store, self.clock, open_acting, wait)
            self.keeper = PolicyKeeper(place, self.driver, self.log)
        if self.site.policies.purge.schedule is not None:
            self.planning = PurgePlanning(self.site, self.store.location.url, self.log)

    def probe(self, item: str, due_at: datetime) -> Slot | None:
        """Run a probe and return its ended slot; ``None`` if it had ended before.

        Raises
        ------
        RefusedError
            Another process watches the site by now.
        Interrupted
            The slot is left as it is, to be resumed.
        """
        probe, started_at = self._probe_of(item), self.clock()
        if probe is None or not self._claim(item, due_at, started_at):
            return None
        self._tell(item, due_at, "probing")
        slot = self._slot(item, due_at, SlotState.STARTED, started_at)
        before, problem = self._snapshot(slot, "before")
        run, others = self._measure(probe, slot)
        self.settle()
        slot = replace(slot, run=run.id, before=next(iter(before), None), detail=problem)
        if not self._finish(slot, run=run, others=others, snapshots=before):
            return None
        return self._conclude(slot, run)

    def snapshot(self, item: str, due_at: datetime, taking: Taking | None = None) -> Slot | None:
        """Take a snapshot that is due and return its slot; ``None`` if it had ended before.

        Parameters
        ----------
        taking
            The snapshot, if it was already taken beside a probe.
        """
        self._tell(item, due_at, "taking a snapshot")
        started_at = self.clock() if taking is None else taking.started_at
        slot = self._slot(item, due_at, SlotState.DONE, started_at)
        taken, problem = self._snapshot(slot, "after", taking)
        state = SlotState.DONE if taken else SlotState.FAILED
        after = next(iter(taken), None)
        slot = replace(slot, state=state, ended_at=self.clock(), after=after, detail=problem)
        return self._end(slot, snapshots=taken)

    def policies(
        self,
        item: str,
        due_at: datetime,
        gives_way: GivesWay = never,
    ) -> Slot | None:
        """Keep the armed policies and return the slot; ``None`` if it had ended before.

        The journal and the ledger record what was done, whatever becomes of the slot.

        Parameters
        ----------
        gives_way
            Whether another slot is due within so many seconds: no further change is begun.
        """
        if self.keeper is None or not self._claim(item, due_at, self.clock()):
            return None
        self._tell(item, due_at, "keeping policies")
        slot = self._slot(item, due_at, SlotState.STARTED, self.clock())

        def interrupted(seconds: float) -> bool:
            self.alive()
            return gives_way(seconds)

        try:
            results = self.keeper.keep(interrupted)
            state = state_of(results)
            detail = "; ".join(map(str, results))
        except TrimtabError as error:  # of this slot; the next one tries again
            if isinstance(error, Interrupted):
                raise
            state, detail = SlotState.FAILED, error.message
        slot = replace(slot, state=state, ended_at=self.clock(), detail=detail)
        return self._end(slot)

    def purge_plan(self, item: str, due_at: datetime) -> Slot | None:
        """Begin or continue a purge plan; `planned` returns its slot once that has ended."""
        if self.is_planning:
            return self.miss(item, due_at, "the plan before it is still being made")
        if self.planning is not None and self._claim(item, due_at, self.clock()):
            self._tell(item, due_at, "making a purge plan")
            self.planning.begin(due_at)
        return None

    @property
    def is_planning(self) -> bool:
        """Whether a purge plan is being made."""
        return self.planning is not None and self.planning.due_at is not None

    def planned(self) -> Slot | None:
        """Return the slot of the purge plan that has ended by now."""
        if self.planning is None or (due_at := self.planning.due_at) is None:
            return None
        try:
            end = self.planning.ended()
        except TrimtabError as error:
            end, self.planning.due_at = PlanEnd(failed=True, detail=error.message), None
        if end is None:
            return None
        state = SlotState.FAILED if end.failed else SlotState.DONE
        slot = self._slot(PURGE_PLAN, due_at, state, None)
        return self._end(replace(slot, ended_at=self.clock(), detail=end.detail))

    def miss(self, item: str, due_at: datetime, reason: str) -> Slot | None:
        """Record a missed slot, for a probe with a run that states it."""
        slot = Slot(self.site.name, item, due_at, SlotState.MISSED, detail=reason)
        run = None
        if (probe := self._probe_of(item)) is not None:
            like = self._like(probe)
            run = self._absent(probe, slot).run(RunStatus.NOT_STARTED, reason, like)
            slot = replace(slot, run=run.id)
        return self._end(slot, run=run)

    def miss_many(self, work: MissMany) -> Slot | None:
        """Record a long stretch of missed slots in one event."""
        event = stretch(self.site.name, work.item, work.first, work.last, work.reason)
        detail = f"and every slot since {work.first.isoformat()}: {work.reason}"
        slot = Slot(self.site.name, work.item, work.last, SlotState.MISSED, detail=detail)
        return self._end(slot, event=event)

    def go_on(self, slot: Slot, reason: str) -> Slot | None:
        """Do the rest of a slot whose run is stored, and return the ended slot; ``reason``: why."""
        identifier = slot.run
        if identifier is None or not self._claim(slot.item, slot.due_at, slot.started_at):
            return None
        read = partial(self.store.run, identifier)
        run = self.patience.keep("reading a run", read, attempts=_ATTEMPTS)
        detail = _and(slot.detail, f"{reason}: what comes after the run was done later")
        return self._conclude(replace(slot, holder=self.holder, detail=detail), run)

    def give_up(self, slot: Slot, reason: str) -> Slot | None:
        """Close a slot that was started without a result."""
        if not self._claim(slot.item, slot.due_at, slot.started_at):
            return None
        run, probe = None, self._probe_of(slot.item)
        if probe is not None:
            absent = self._absent(probe, slot)
            self._clean_up(probe, absent.run_id)
            run = absent.run(RunStatus.FAILED, reason, self._like(probe), slot.started_at)
        identifier = None if run is None else run.id
        slot = replace(slot, state=SlotState.FAILED, ended_at=self.clock(), run=identifier)
        slot = replace(slot, detail=reason, holder=self.holder)
        return self._end(slot, run=run)

    # Within

    def _claim(self, item: str, due_at: datetime, started_at: datetime | None) -> bool:
        claim = partial(self.store.claim_slot, self.site.name, item, due_at, holder=self.holder)
        claim = partial(claim, started_at=started_at or self.clock())
        return self.patience.keep(
            "claiming a slot", lambda: claim(lease_until=lease_end(self.clock()))
        )

    def _finish(self, slot: Slot, **more: Any) -> bool:
        finish = partial(self.store.finish_slot, slot, **more)
        return self.patience.keep("keeping a slot", finish)

    def _end(self, slot: Slot, **more: Any) -> Slot | None:
        """Store the end of a slot with its results; ``None`` if it had ended before."""
        return self._ended(slot) if self._finish(slot, **more) else None

    def _slot(self, item: str, due_at: datetime, state: SlotState, at: datetime | None) -> Slot:
        return Slot(self.site.name, item, due_at, state, at, holder=self.holder)

    def _snapshot(
        self, slot: Slot, part: str, taking: Taking | None = None
    ) -> tuple[dict[str, Snapshot], str | None]:
        """Return the snapshot under its id, or none and the reason."""
        self.alive()
        try:
            with panics_as_errors():
                if taking is None:
                    taken = self.driver.snapshot(self.clock())
                else:
                    taken = taking.answer.result()
        except TrimtabError as error:
            problem = f"no snapshot {part} it: {error.message}"
        except Exception as error:  # one snapshot only; the watch goes on and logs the bug in full
            self.log.exception("a snapshot failed", extra=fields(item=slot.item))
            problem = f"no snapshot {part} it: {type(error).__name__}: {error}"
        else:
            return {identifier_of(slot.due_at, slot.site, slot.item, part): taken}, None
        self.log.warning("no snapshot", extra=fields(item=slot.item, problem=problem))
        return {}, problem

    def _measure(self, probe: SiteProbe, slot: Slot) -> tuple[Run, tuple[Run, ...]]:
        """Return the run, and others that were measured with it.

        If the probe could not be started, the run states that.
        """
        absent, started_at = self._absent(probe, slot), slot.started_at or slot.due_at

        def progress(text: str, fraction: float) -> None:
            self.alive()
            self.beside()

        try:
            with panics_as_errors():
                outcome = self.runner(probe, RunContext(absent.run_id, started_at, progress))
        except TrimtabError as error:
            status, reason = RunStatus.NOT_STARTED, error.message
        except Exception as error:  # one probe only; the watch goes on and logs the bug in full
            self.log.exception("a probe failed", extra=fields(item=slot.item))
            status, reason = RunStatus.FAILED, f"{type(error).__name__}: {error}"
        else:
            if isinstance(outcome.error, Interrupted):
                raise outcome.error
            run = outcome.run
            if run.status in SILENT:
                run = as_asked(run, self._like(probe))
            self._likeness[probe.name] = likeness_of(run)
            return run, outcome.others
        self._clean_up(probe, absent.run_id)
        return absent.run(status, reason, self._like(probe), started_at), ()

    def _conclude(self, slot: Slot, run: Run) -> Slot | None:
        """Take the snapshot after a run, judge it, and end its slot."""
        after, problem = self._snapshot(slot, "after")
        judged, why_not = self._judge(run)
        failed = run.status in _TELLS_NOTHING
        slot = replace(
            slot,
            state=SlotState.FAILED if failed else SlotState.DONE,
            ended_at=self.clock(),
            after=next(iter(after), None),
            verdicts=judged,
            detail=_and(run.problem if failed else None, slot.detail, problem, why_not),
        )
        return self._end(slot, snapshots=after)

    def _judge(self, run: Run) -> tuple[tuple[Verdict, ...], str | None]:
        """Return the verdicts on a stored run, from the runs within the site's window."""
        if run.status in _TELLS_NOTHING or run.at is None:
            return (), None
        judge = partial(verdicts_on, self.store, self.site, run)
        try:
            with panics_as_errors():
                return self.patience.keep("reading earlier runs", judge, attempts=_ATTEMPTS), None
        except Exception as error:  # the run is kept without a verdict, and the error is reported
            self.log.exception("a run could not be judged", extra=fields(run=run.id))
            return (), f"not judged: {type(error).__name__}: {error}"

    def _like(self, probe: SiteProbe) -> Likeness:
        known = self._likeness.get(probe.name)
        if known is None:
            runs = self._last_run(probe.name)
            known = likeness_of(runs[0]) if runs else Likeness(probe.benchmark)
            self._likeness[probe.name] = known
        return known

    def _last_run(self, probe: str) -> tuple[Run, ...]:
        read = partial(self.store.runs, site=self.site.name, probe=probe, limit=1)
        try:
            return self.patience.keep("reading the last run", read, attempts=_ATTEMPTS)
        except UnreadableError as error:
            self.log.warning("no last run", extra=fields(probe=probe, problem=error.message))
            return ()

    def _clean_up(self, probe: SiteProbe, run: str) -> None:
        try:
            self.runner.clean_up(probe, run)
        except TrimtabError as error:
            extra = fields(run=run, problem=error.message)
            self.log.warning("files may be left behind", extra=extra)

    def _probe_of(self, item: str) -> SiteProbe | None:
        name = item.removeprefix(PROBE_PREFIX)
        probes = (probe for probe in self.site.probes if probe.name == name)
        return next(probes, None) if item != name else None

    def _absent(self, probe: SiteProbe, slot: Slot) -> AbsentRun:
        return AbsentRun(slot.site, slot.item, slot.due_at, probe.name, self.site.path)

    def _tell(self, item: str, due_at: datetime, activity: str) -> None:
        self.notify.status(f"{activity}: {item} of {due_at.isoformat()}")
        self.log.info(activity, extra=fields(item=item, due_at=due_at.isoformat()))

    def _ended(self, slot: Slot) -> Slot:
        log = self.log.info if slot.state is SlotState.DONE else self.log.warning
        judged = {verdict.metric: verdict.status.value for verdict in slot.verdicts}
        outcome = {"run": slot.run, "verdicts": judged, "detail": slot.detail}
        extra = fields(item=slot.item, due_at=slot.due_at.isoformat(), **outcome)
        log(f"slot {slot.state.value}", extra=extra)
        return slot


def _and(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None
