"""What acting rests on: a snapshot of now, the record of before, the ledger, what is going on.

Whether a target got slower after it was changed is told by its surveys, beside those of the others:
a change of all targets at once, as of load, is divided out. What counts is the target's rate as a
part of the median of the targets that were not changed. A probe that the policy names is compared
with its own runs before: it says of the whole system what a first change brought about.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.act.ledger import still_counting
from trimtab.act.observed import Observed
from trimtab.act.rollout import ALL, CANARY
from trimtab.config.targets import ost_name
from trimtab.explain.troubles import site_state
from trimtab.judge.variability import higher_is_better
from trimtab.loop.purging.place import purge_place
from trimtab.loop.watching.agenda import PROBE_PREFIX
from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Outcome
from trimtab.model.driver import DRIVERS
from trimtab.model.site import Site
from trimtab.model.telemetry import NotAvailable, Snapshot
from trimtab.model.trim import TrimPractice
from trimtab.record.chain import is_locked
from trimtab.record.comparability import comparability_key

if TYPE_CHECKING:
    import polars as pl

    from trimtab.drivers.protocol import Driver
    from trimtab.model.verdict import HistoryPoint
    from trimtab.record.store import Store


LEDGER: Final = timedelta(days=30)
"""What was set or closed is in force until it is taken back; of the rest so much counts."""
REPEATED_S: Final = {ActionKind.RESET_ALLOCATOR: 2 * 3600.0, ActionKind.TRIM: 2 * 86400.0}
"""Or two of their intervals, where that is longer: a large site has a million in thirty days."""
_READ_AGAIN: Final = timedelta(days=1)
_LASTING: Final = (ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN)
BASELINE: Final = timedelta(hours=1)
_INTEGRITY: Final = frozenset({"bad-checksums", "file-system-errors"})
"""Troubles that say that data may be wrong: while they last, nothing is changed."""


def observe(
    site: Site, driver: Driver, store: Store, now: datetime, long_ago: LongAgo | None = None
) -> Observed:
    """Return a site as it is now; everything that could not be observed is said in it.

    Parameters
    ----------
    long_ago
        What earlier visits of this process read of the ledger; ``None``: nothing.
    """
    snapshot = driver.snapshot(now)
    latest = store.latest_snapshot(site.name)
    return Observed(
        site=site,
        snapshot=snapshot,
        baseline=store.latest_snapshot(site.name, now - BASELINE),
        actions=ledger(store, site, now, long_ago),
        busy=busy(site, store, snapshot),
        practices=practices(driver, snapshot),
        pools=pools(driver),
        measured={target: at for at, target, _, _ in store.last_survey(site.name)},
        integrity=integrity(site, snapshot),
        clock_jump_s=0.0 if latest is None else max(0.0, (latest.at - now).total_seconds()),
    )


class LongAgo:
    """Actions of long ago that still count, kept in memory between two visits.

    Each visit reads those that have become old since the one before it; all of them are read at
    first, and once a day, as another process may have settled one.
    """

    def __init__(self) -> None:
        self._actions: tuple[Action, ...] = ()
        self._from: datetime | None = None
        self._until: datetime | None = None

    def before(
        self, store: Store, site: str, until: datetime, reverted: Collection[str] = frozenset()
    ) -> tuple[Action, ...]:
        """Return what was set or closed before a time and may be in force.

        Parameters
        ----------
        reverted
            Ids of actions that were taken back since.
        """
        known, first, end = self._until, self._from, until - timedelta(microseconds=1)
        if first is None or known is None or not known <= until < first + _READ_AGAIN:
            self._actions, self._from, known = (), until, None
        newer = store.actions(site, since=known, until=end, kinds=_LASTING)
        self._actions = tuple(still_counting((*self._actions, *newer), reverted))
        self._until = until
        return self._actions


def ledger(
    store: Store, site: Site, now: datetime, long_ago: LongAgo | None = None
) -> tuple[Action, ...]:
    """Return the actions that decisions may rest on: those of lately, and what may be in force."""
    since, policies = now - LEDGER, site.policies
    recent = list(store.actions(site.name, since=since, kinds=set(ActionKind) - REPEATED_S.keys()))
    reverted = {name for action in recent for name in action.instruction.reverts}
    older = (long_ago or LongAgo()).before(store, site.name, since, reverted)
    for kind, policy in (
        (ActionKind.RESET_ALLOCATOR, policies.allocator),
        (ActionKind.TRIM, policies.trim),
    ):
        begin = now - timedelta(seconds=max(REPEATED_S[kind], 2 * policy.every_s))
        recent += store.actions(site.name, since=begin, kinds=(kind,))
    ordered = sorted(recent, key=lambda action: (action.at, action.id))
    known = with_verdicts(
        store, site.name, ordered, surveyed=policies.tunables.survey, probe=policies.tunables.probe
    )
    return (*older, *known)


def busy(site: Site, store: Store, snapshot: Snapshot) -> dict[str, Message]:
    """Return why targets must be left alone; the empty name stands for all."""
    reasons: dict[str, Message] = {}
    for slot in store.open_slots(site.name):
        if slot.item.startswith(PROBE_PREFIX):
            reasons[""] = Message("probe-running", f"{slot.item} has been running since its slot")
    if not DRIVERS[site.driver].simulated and is_locked(purge_place().journals):
        reasons[""] = Message("purge-running", "a purge is running on this host")
    for target in snapshot.targets:
        if target.value("degraded") is True:
            reasons[target.target.name] = Message("target-degraded", "its array is being rebuilt")
    return reasons


def practices(driver: Driver, snapshot: Snapshot) -> dict[str, TrimPractice | NotAvailable]:
    """Return how each target is trimmed without Trimtab."""
    return {
        target.target.name: driver.trim_practice(target.target.name) for target in snapshot.targets
    }


def pools(driver: Driver) -> dict[str, frozenset[str]] | NotAvailable:
    """Return the OSTs of each pool, by the names of targets."""
    members = driver.pools()
    if isinstance(members, NotAvailable):
        return members
    return {
        pool: frozenset(ost_name(number) for number in numbers) for pool, numbers in members.items()
    }


def integrity(site: Site, snapshot: Snapshot) -> tuple[Message, ...]:
    """Return what says that data may be wrong."""
    state = site_state(site.name, snapshot, site.limits)
    named = [(host.name, host.troubles) for host in state.hosts]
    named += [(target.name, target.troubles) for target in state.targets]
    return tuple(
        Message(trouble.id, f"{name}: {trouble.text}")
        for name, troubles in named
        for trouble in troubles
        if trouble.id in _INTEGRITY
    )


# Whether a target got slower after it was changed

SURVEYS: Final = 5
"""So many surveys, or runs, before a change and after it are compared."""
EARLIER: Final = timedelta(days=90)
"""Older surveys say nothing about a change."""
_SYSTEM: Final = ""
"""In the place of a target: what a probe measures."""


def with_verdicts(
    store: Store,
    site: str,
    actions: Sequence[Action],
    *,
    surveyed: bool = False,
    probe: str | None = None,
) -> tuple[Action, ...]:
    """Return actions with the fact ``slower`` where measurements before and after them tell.

    Parameters
    ----------
    surveyed
        Whether first targets are surveyed for that: where one was before its change, its
        ``verdict`` is pending until it was again.
    probe
        The probe that runs before the change of a first target and after it.
    """
    untold = [action for action in actions if _is_asked(action)]
    if not untold:
        return tuple(actions)
    since = min(action.at for action in untold) - EARLIER
    targets = {action.id: action.instruction.target for action in untold}
    surveys = store.survey_frame(site, since=since)
    measured: list[tuple[pl.DataFrame, dict[str, str], bool]] = []
    if not surveys.is_empty():
        measured.append((_beside_others(surveys, frozenset(targets.values())), targets, surveyed))
    early = {action.id: _SYSTEM for action in untold if action.instruction.stage != ALL}
    if probe is not None and early:
        measured.append((_of_probe(store, site, probe, since), early, True))
    slower: dict[str, float] = {}
    awaited: set[str] = set()
    for rates, subjects, is_awaited in measured:
        changes = [action for action in untold if action.id in subjects]
        losses = _slower(rates, changes, subjects)
        slower |= {name: max(loss, slower.get(name, loss)) for name, loss in losses.items()}
        if is_awaited:
            awaited |= _awaited(rates, changes, subjects) - losses.keys()
    facts: dict[str, dict[str, str]] = {
        name: {"slower": f"{loss:.4f}"} for name, loss in slower.items()
    }
    facts |= {name: {**facts.get(name, {}), "verdict": "pending"} for name in awaited}
    return tuple(
        replace(action, facts={**action.facts, **facts[action.id]})
        if action.id in facts
        else action
        for action in actions
    )


def _is_asked(action: Action) -> bool:
    return (
        action.outcome is Outcome.DONE
        and action.instruction.kind is ActionKind.SET
        and not action.instruction.reverts
        and "slower" not in action.facts
    )


def _beside_others(frame: pl.DataFrame, changed: Collection[str]) -> pl.DataFrame:
    """Return the rates of targets as parts of the median of those that were not changed."""
    import polars as pl

    others = frame.filter(~pl.col("target").is_in(changed)).group_by("at", "metric")
    usual = others.agg(pl.col("value").median().alias("usual"))
    rows = frame.filter(pl.col("target").is_in(changed)).join(
        usual, on=["at", "metric"], how="left"
    )
    rate = pl.col("value") / pl.col("usual").fill_null(1.0)
    return rows.select("at", "target", "metric", rate=rate)


def _of_probe(store: Store, site: str, probe: str, since: datetime) -> pl.DataFrame:
    """Return the rates of the runs of a probe that can be compared with its last one."""
    import polars as pl

    last = store.runs(site=site, probe=probe, since=since, limit=1)
    history = store.history(site, comparability_key(last[0]), since=since) if last else ()
    rows = [(point.at, _SYSTEM, point.metric, _rate(point)) for point in history]
    schema = {"at": pl.Datetime("us", "UTC"), "target": pl.String, "metric": pl.String}
    return pl.DataFrame(rows, {**schema, "rate": pl.Float64}, orient="row")


def _rate(point: HistoryPoint) -> float:
    """Return a run's value as one of which more is better; 0 for a run that was not finished."""
    if point.unfinished or higher_is_better(point.metric):
        return 0.0 if point.unfinished else point.value
    return 1.0 / point.value if point.value else 0.0


def _slower(
    rates: pl.DataFrame, changes: Sequence[Action], subjects: dict[str, str]
) -> dict[str, float]:
    """Return action to the fraction by which its subject got slower, by its worst metric."""
    import polars as pl

    time = pl.Datetime("us", "UTC")
    rows = pl.DataFrame(
        [(row.id, subjects[row.id], row.at, row.until or row.at) for row in changes],
        {"id": pl.String, "target": pl.String, "begun": time, "ended": time},
        orient="row",
    ).join(rates.sort("at"), on="target", maintain_order="left_right")
    keys = ["id", "metric"]
    before = rows.filter(pl.col("at") < pl.col("begun")).group_by(keys).tail(SURVEYS)
    after = rows.filter(pl.col("at") > pl.col("ended")).group_by(keys).head(SURVEYS)
    both = (
        before.group_by(keys)
        .agg(before=pl.col("rate").median())
        .filter(pl.col("before") > 0)
        .join(after.group_by(keys).agg(after=pl.col("rate").median()), on=keys)
    )
    losses = both.group_by("id").agg(loss=(1.0 - pl.col("after") / pl.col("before")).max())
    return dict(losses.select("id", "loss").iter_rows())


def _awaited(
    rates: pl.DataFrame, changes: Sequence[Action], subjects: dict[str, str]
) -> frozenset[str]:
    """Return first targets that were measured before their change: else none after it tells."""
    import polars as pl

    first: dict[str, datetime] = dict(rates.group_by("target").agg(pl.col("at").min()).iter_rows())
    return frozenset(
        row.id
        for row in changes
        if row.instruction.stage == CANARY
        and (at := first.get(subjects[row.id])) is not None
        and at < row.at
    )
