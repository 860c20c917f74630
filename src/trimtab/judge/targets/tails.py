"""The complete analysis of surveys of single targets in one metric."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import polars as pl

from trimtab.judge.targets.lower_tail import lower_tail
from trimtab.judge.targets.stragglers import SURVEYS_MINIMUM, stragglers
from trimtab.judge.targets.table import SurveyTable, survey_table
from trimtab.message import Message
from trimtab.model.run import METRIC_UNITS
from trimtab.model.series import SlowEnd, TargetTails
from trimtab.units import plural


def target_tails(
    surveys: pl.DataFrame,
    metric: str,
    *,
    timezone: str = "UTC",
    stripe_count: int | None = None,
) -> TargetTails:
    """Analyse surveys of single targets: lower tail overall and by month, and stragglers.

    Parameters
    ----------
    surveys
        ``at`` (UTC), ``run``, ``target``, ``metric``, ``value`` in the metric's unit, and
        ``server`` if known; one row per target and survey.
    metric
        A rate or bandwidth, a key of `METRIC_UNITS`.
    timezone
        IANA name of the time zone for calendar months.
    stripe_count
        Number of targets that the job of ``stripe_loss`` is striped over; ``None``: all.

    Returns
    -------
    TargetTails
        Lower tails, stragglers and the reason.

    Raises
    ------
    KeyError
        The metric is unknown.
    ValueError
        The metric is a time.
    """
    unit = METRIC_UNITS[metric]
    if unit == "s":
        raise ValueError(f"{metric} is a time: surveys of targets are judged by rates")
    table = survey_table(surveys, metric)
    overall = lower_tail(table, range(len(table.at)), stripe_count=stripe_count)
    named = stragglers(table)
    return TargetTails(
        metric=metric,
        unit=unit,
        surveys=len(table.at),
        targets=len(table.targets),
        overall=overall,
        by_month=_months(table, timezone, stripe_count),
        stragglers=named,
        reason=_reason(table, overall, len(named)),
    )


def _months(table: SurveyTable, timezone: str, stripe_count: int | None) -> tuple[SlowEnd, ...]:
    zone = ZoneInfo(timezone)
    months: dict[tuple[int, int], list[int]] = {}
    for row, at in enumerate(table.at):
        local = at.astimezone(zone)
        months.setdefault((local.year, local.month), []).append(row)
    tails = (
        lower_tail(table, rows, stripe_count=stripe_count) for _, rows in sorted(months.items())
    )
    return tuple(tail for tail in tails if tail is not None)


def _reason(table: SurveyTable, overall: SlowEnd | None, named: int) -> Message:
    if overall is None:
        return Message("not-measured", "no survey measured single targets")
    surveys = plural(len(table.at), "survey")
    if len(table.targets) < 2:
        return Message("one-target", f"only one target in {surveys}: nothing to compare it with")
    of_targets = f"{surveys} of {len(table.targets)} targets"
    if len(table.at) < SURVEYS_MINIMUM:
        return Message(
            "too-few-surveys", f"{of_targets}; detecting stragglers needs {SURVEYS_MINIMUM}"
        )
    if not named:
        return Message("no-straggler", f"no target is slow repeatedly in {of_targets}")
    return Message("stragglers", f"{plural(named, 'straggler')} detected in {of_targets}")
