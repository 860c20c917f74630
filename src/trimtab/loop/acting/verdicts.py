"""Whether a target got slower after it was changed: its surveys, beside those of the others.

A change of all targets at once, as of load, is divided out: what counts is the target's rate as a
part of the median of the targets that were not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.act.rollout import CANARY
from trimtab.model.action import Action, ActionKind, Outcome

if TYPE_CHECKING:
    import polars as pl

    from trimtab.record.store import Store

SURVEYS: Final = 5
"""So many surveys before a change, and after it, are compared."""


def with_verdicts(
    store: Store, site: str, actions: Sequence[Action], *, surveyed: bool = False
) -> tuple[Action, ...]:
    """Return actions with `FACTS` ``slower`` where surveys before and after them tell.

    Parameters
    ----------
    surveyed
        Whether first targets are surveyed for that: where one was before its change, its
        ``verdict`` is pending until it was again.
    """
    untold = [action for action in actions if _is_asked(action)]
    if not untold:
        return tuple(actions)
    frame = store.survey_frame(site)
    if frame.is_empty():
        return tuple(actions)
    rates = _rates(frame, {action.instruction.target for action in untold})
    known = {}
    for action in untold:
        slower = _slower(rates.get(action.instruction.target), action.at, action.until)
        if slower is not None:
            known[action.id] = replace(action, facts={**action.facts, "slower": f"{slower:.4f}"})
        elif surveyed and _is_awaited(frame, action):
            known[action.id] = replace(action, facts={**action.facts, "verdict": "pending"})
    return tuple(known.get(action.id, action) for action in actions)


def _is_asked(action: Action) -> bool:
    return (
        action.outcome is Outcome.DONE
        and action.instruction.kind is ActionKind.SET
        and not action.instruction.reverts
        and "slower" not in action.facts
    )


def _is_awaited(frame: pl.DataFrame, action: Action) -> bool:
    """Return whether a first target was surveyed before its change: else none after it tells."""
    import polars as pl

    if action.instruction.stage != CANARY:
        return False
    of_target = pl.col("target") == action.instruction.target
    return not frame.filter(of_target & (pl.col("at") < action.at)).is_empty()


def _rates(frame: pl.DataFrame, changed: set[str]) -> dict[str, pl.DataFrame]:
    """Return changed target to its rates: parts of the median of the targets not changed."""
    import polars as pl

    is_changed = pl.col("target").is_in(changed)
    others = frame.filter(~is_changed).group_by("at", "metric")
    usual = others.agg(pl.col("value").median().alias("usual"))
    rates = (
        frame.filter(is_changed)
        .join(usual, on=["at", "metric"], how="left")
        .select("target", "at", "metric", rate=pl.col("value") / pl.col("usual").fill_null(1.0))
    )
    parts = rates.partition_by("target", as_dict=True)
    return {str(target): of_target for (target,), of_target in parts.items()}


def _slower(rates: pl.DataFrame | None, begun: datetime, ended: datetime | None) -> float | None:
    """Return by which fraction a target got slower, by its worst metric; ``None``: not known."""
    import polars as pl

    if rates is None:
        return None
    before = rates.filter(pl.col("at") < begun).sort("at").group_by("metric").tail(SURVEYS)
    after = (
        rates.filter(pl.col("at") > (ended or begun)).sort("at").group_by("metric").head(SURVEYS)
    )
    both = _median(before, "before").join(_median(after, "after"), on="metric")
    both = both.filter(pl.col("before") > 0)
    losses = both.select(1.0 - pl.col("after") / pl.col("before")).to_series()
    return None if losses.is_empty() else float(losses.max())  # type: ignore[arg-type]


def _median(rates: pl.DataFrame, name: str) -> pl.DataFrame:
    import polars as pl

    return rates.group_by("metric").agg(pl.col("rate").median().alias(name))
