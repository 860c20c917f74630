"""Measures the first target of a rollout before and after its change: a survey, a probe.

Surveys show whether a target got slower after it was changed, beside those of the others: a change
of all targets at once, such as load, is divided out. What counts is the target's rate as a fraction
of the median of the targets that were not changed. A probe that the policy names is compared with
its own earlier runs: it shows what a first change did to the whole system.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.act.decide.site_observed import SiteObserved, server_of, why_left_alone
from trimtab.act.decide.tunables import ALL, CANARY
from trimtab.base.action import Action, ActionKind, Outcome, Plan
from trimtab.base.error import TrimtabError
from trimtab.base.run import comparability_key, higher_is_better
from trimtab.base.site import Site
from trimtab.probe.survey import SurveyRequest, Tools, carry_out, prepare
from trimtab.site.lookup import reach_of

if TYPE_CHECKING:
    import polars as pl

    from trimtab.base.verdict import HistoryPoint
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store

REFERENCES: Final = 3
"""Number of other targets surveyed with it, to divide out what slows all of them."""


def first_targets(plan: Plan) -> tuple[str, ...]:
    """Return the targets that a plan changes first."""
    rows = (each for each in plan.instructions if each.kind is ActionKind.SET)
    return tuple(dict.fromkeys(each.target for each in rows if each.stage == CANARY))


def pending(observed: SiteObserved) -> tuple[str, ...]:
    """Return the first targets whose change was not surveyed since."""
    rows = (action for action in observed.actions if action.facts.get("verdict") == "pending")
    return tuple(dict.fromkeys(action.instruction.target for action in rows))


def changed(actions: Sequence[Action], names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some targets that were changed."""
    done = {action.instruction.target for action in actions if action.outcome is Outcome.DONE}
    return tuple(name for name in names if name in done)


def measure(
    site: Site, store: Store, driver: Driver, observed: SiteObserved, names: Sequence[str]
) -> None:
    """Measure first targets by the policy's means: a survey of OSTs, a probe of the site.

    Raises
    ------
    TrimtabError
        It cannot be measured, or that failed.
    """
    policy = site.policies.tunables
    osts = [name for name in names if name.startswith("OST")]
    if policy.survey and osts:
        _survey(site, store, driver, observed, osts)
    if policy.probe is not None and names:
        _probe(site, store, driver, policy.probe)


def measure_if_possible(
    site: Site, store: Store, driver: Driver, observed: SiteObserved, names: Sequence[str]
) -> None:
    """Measure as `measure`; where that fails the verdict stays pending, and the next run tries."""
    with contextlib.suppress(TrimtabError):
        measure(site, store, driver, observed, names)


def _survey(
    site: Site, store: Store, driver: Driver, observed: SiteObserved, names: Sequence[str]
) -> None:
    """Survey targets from this client, and with them some of other servers that are well."""
    tools = Tools(reach_of(site))
    request = SurveyRequest("client", targets=(*names, *_references(observed, names)))
    prepared = prepare(site, driver, request, tools)
    carry_out(prepared, driver, store, progress=_no_progress, tools=tools)


def _probe(site: Site, store: Store, driver: Driver, name: str) -> None:
    from trimtab.probe.probe_now import probe_now, probe_of
    from trimtab.probe.site_probe import runner_of

    reach, probe = reach_of(site), probe_of(site, name)
    runner = runner_of(site, store, reach)
    terms = {"clock": reach.clock, "progress": _no_progress}
    made = probe_now(site, probe, store, driver, runner, **terms)
    if made.error is not None:
        raise made.error


def _no_progress(text: str, fraction: float) -> None:
    """Show nothing."""


def _references(observed: SiteObserved, names: Sequence[str]) -> tuple[str, ...]:
    if observed.snapshot is None:
        return ()
    others = [
        seen
        for seen in observed.snapshot.targets
        if seen.target.kind == "ost"
        and seen.target.name not in names
        and seen.value("create_enabled") is True
        and why_left_alone(observed, seen) is None
    ]
    servers = {server_of(seen) for seen in observed.snapshot.targets if seen.target.name in names}
    others.sort(key=lambda seen: (server_of(seen) in servers, seen.target.name))
    return tuple(seen.target.name for seen in others[:REFERENCES])


# Whether a target got slower after it was changed

SURVEYS: Final = 5
"""Number of surveys, or runs, before and after a change that are compared."""
EARLIER: Final = timedelta(days=90)
"""Older surveys say nothing about a change."""
_SYSTEM: Final = ""
"""Name in place of a target: the whole file system, as a probe measures it."""


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
    """Return first targets measured before their change: otherwise no later one shows an effect."""
    import polars as pl

    first: dict[str, datetime] = dict(rates.group_by("target").agg(pl.col("at").min()).iter_rows())
    return frozenset(
        row.id
        for row in changes
        if row.instruction.stage == CANARY
        and (at := first.get(subjects[row.id])) is not None
        and at < row.at
    )
