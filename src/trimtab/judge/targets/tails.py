"""Everything that surveys of single targets say in one metric."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from trimtab.judge.targets.lower_tail import lower_tail
from trimtab.judge.targets.stragglers import (
    FALSE_DISCOVERIES,
    SURVEYS_MINIMUM,
    WORST,
    stragglers,
)
from trimtab.judge.targets.table import survey_table
from trimtab.model.run import METRIC_UNITS
from trimtab.model.series import SlowEnd, TargetTails
from trimtab.units import plural

if TYPE_CHECKING:
    import polars as pl

    from trimtab.judge.targets.table import SurveyTable


def target_tails(
    surveys: pl.DataFrame,
    metric: str,
    *,
    timezone: str = "UTC",
    stripe_count: int | None = None,
    worst: float = WORST,
    false_discoveries: float = FALSE_DISCOVERIES,
    level: float = 0.95,
) -> TargetTails:
    """Return the slow end of all targets, by month and on the whole, and the stragglers.

    Parameters
    ----------
    surveys
        ``at`` (UTC), ``run``, ``target``, ``metric``, ``value`` in the metric's unit, and where
        it is known ``server``.
    metric
        A rate or bandwidth: less of it is slower.
    timezone
        IANA name of the zone whose months are meant.
    stripe_count
        Over how many targets the job is striped whose loss is told; ``None``: all.
    worst
        The share of a survey's targets that counts as slow in it.
    false_discoveries
        Up to this q-value a target is named a straggler.

    Raises
    ------
    ValueError
        The metric is a time.
    """
    unit = METRIC_UNITS[metric]
    if unit == "s":
        raise ValueError(f"{metric} is a time: surveys of targets are judged by rates")
    table = survey_table(surveys, metric)
    every = lower_tail(table, range(len(table.at)), stripe_count=stripe_count, level=level)
    named = stragglers(table, worst=worst, false_discoveries=false_discoveries)
    return TargetTails(
        metric=metric,
        unit=unit,
        surveys=len(table.at),
        targets=len(table.targets),
        overall=every,
        by_month=_months(table, timezone, stripe_count, level),
        stragglers=named,
        reason=_reason(table, every, len(named)),
    )


def _months(
    table: SurveyTable, timezone: str, stripe_count: int | None, level: float
) -> tuple[SlowEnd, ...]:
    zone = ZoneInfo(timezone)
    months: dict[tuple[int, int], list[int]] = {}
    for row, at in enumerate(table.at):
        local = at.astimezone(zone)
        months.setdefault((local.year, local.month), []).append(row)
    found = (
        lower_tail(table, rows, stripe_count=stripe_count, level=level)
        for _, rows in sorted(months.items())
    )
    return tuple(one for one in found if one is not None)


def _reason(table: SurveyTable, every: SlowEnd | None, named: int) -> str:
    if every is None:
        return "no survey measured a target by itself"
    surveys = plural(len(table.at), "survey")
    if len(table.targets) < 2:
        return f"one target in {surveys}: there is none to hold it against"
    if len(table.at) < SURVEYS_MINIMUM:
        return (
            f"{surveys} of {len(table.targets)} targets: it takes {SURVEYS_MINIMUM} to tell who is "
            "slow again and again"
        )
    what = "no target is" if not named else f"{named} target{' is' if named == 1 else 's are'}"
    return f"{what} slow again and again in {surveys} of {len(table.targets)} targets"
