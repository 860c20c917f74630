"""A cause that is a cure: `few-targets-open`, too few targets that accept new files."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.units import format_bytes_per_s, format_percent
from trimtab.explain.breadth import survey_view
from trimtab.explain.causes.evidence import (
    SLACK,
    flags,
    logged,
    named,
    of_incident,
    targets_of,
    timing,
    value_of,
)
from trimtab.explain.causes.onset import down_before
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign, expected, in_time
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import MDTS, OSTS, Observations, observe

_SOURCE: Final = "create_enabled, read_only"
_CLOSED_TARGETS: Final = "targets closed to new files"
_CLOSED_NOW: Final = Sign(
    "closed-now",
    Route.EXPECTED,
    f"share of {_CLOSED_TARGETS}",
    source=_SOURCE,
    unit="1",
    view=View.TARGETS,
)
_IN_TIME: Final = Sign(
    "closed-in-time",
    Route.TIME,
    f"{_CLOSED_TARGETS} in bad and good hours",
    source=_SOURCE,
    unit="1",
    view=View.TARGETS,
)
_WHY: Final = Sign("why-closed", Route.EXPECTED, "why targets are closed", view=View.TARGETS)
_MANY: Final = 0.25
"""Creating a file of the usual layout needs three quarters of the requested targets, or fails
[S8, lod_qos.c, lod_stripe_count_min]: with a quarter closed, layouts break and each open target
gets a third more."""
_SOME: Final = 0.05
_FEW_CLOSED: Final = 0.3
_LOGGED: Final = 0.6
_POLICY: Final = frozenset({"journal", "policy", "trimtab", "act"})
"""Sources of entries written by a policy, not by a person."""


def assess_few_targets_open(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against too few open targets.

    Closing full targets is a cure that can become the cause: three of NERSC's bad days came when
    load balancing had left about 50 of 298 OSTs open [S1, VII]. Ways to close a target: [S8,
    osp_precreate.c and lod_qos.c].
    """
    seen = observe(context)
    closed = _closed(seen)
    share = _share(closed)
    if share is None:
        why = seen.why_not("create_enabled", kinds=OSTS)
        return (
            _CLOSED_NOW.not_available(why),
            _IN_TIME.not_available(why),
            _logged(context),
            _WHY.not_available(why, source=_SOURCE),
            _enough(context, None),
        )
    names = targets_of(closed)
    mean = in_time(closed, over="mean", by=_SOME, present_from=_SOME, absent=-0.7)
    if share < _MANY:
        # One closed target among many leaves enough: it only explains why that one is idle.
        mean = replace(mean, weight=min(mean.weight, _FEW_CLOSED))
    many_closed = flags(_at_each_time(closed), pl.col("value") >= max(_SOME, share / 2))
    return (
        _closed_now(share, names, closed),
        _IN_TIME.of(mean, f"share of {_CLOSED_TARGETS}", targets=names),
        timing(context, many_closed, f"{len(names)} {_CLOSED_TARGETS}", view=View.TARGETS),
        _for_one_mdt(seen),
        _logged(context),
        _why_closed(context, seen, names),
        _enough(context, 1 - share),
    )


def _closed(seen: Observations) -> pl.DataFrame:
    """Return the closed share of each OST over time: 1 if closed by the server or by all MDTs.

    A target that one of several MDTs does not use still accepts files from the others.
    """
    rows = flags(seen.labelled("create_enabled", kinds=OSTS), pl.col("value") > 0.5)
    mdts = max(1, seen.values("create_enabled", kinds=MDTS)["target"].n_unique())
    overall = pl.col("label").is_null()
    creation = (
        rows.group_by("at", "target", "bad")
        .agg(
            whole=pl.col("value").filter(overall).min(),
            parts=(1 - pl.col("value")).filter(~overall).sum(),
            n=(~overall).sum(),
        )
        .with_columns(
            value=pl.when(pl.col("whole") == 0)
            .then(1.0)
            .when(pl.col("whole").is_not_null())
            .then((pl.col("parts") / pl.max_horizontal("n", pl.lit(mdts))).clip(0, 0.5))
            .otherwise(pl.col("parts") / pl.max_horizontal("n", pl.lit(1)))
        )
        .select("at", "target", "bad", "value")
    )
    flag = seen.values("read_only", kinds=OSTS).select("at", "target", "bad", "value")
    read_only = flags(flag, pl.col("value") > 0.5).filter(pl.col("value") > 0)
    both = pl.concat([creation, read_only])
    return both.group_by("at", "target", "bad").agg(pl.max("value")).sort("at", "target")


def _share(closed: pl.DataFrame) -> float | None:
    """Return the median share of closed targets in the bad hours."""
    bad = _at_each_time(closed).filter("bad")["value"]
    return None if bad.is_empty() else float(bad.median() or 0.0)  # pyrefly: ignore[bad-argument-type]


def _at_each_time(closed: pl.DataFrame) -> pl.DataFrame:
    return closed.group_by("at", "bad").agg(pl.mean("value")).sort("at")


def _closed_now(share: float, names: tuple[str, ...], closed: pl.DataFrame) -> Evidence:
    n = closed["target"].n_unique()
    if not names:
        text = f"all {n} targets accept new files"
        return _CLOSED_NOW.weighed(
            text, -1.5, code="all-open", value=0.0, reference=_MANY, against=Against.CONDITION
        )
    subject = (
        f"{len(names)} of {n} targets accepted no new files ({named(names)}); in the median hour"
    )
    contrast = expected(share, _MANY, over=1.0, under=-1.0, scale=0.15)
    return _CLOSED_NOW.of(contrast, subject, targets=names, against=Against.CONDITION)


def _for_one_mdt(seen: Observations) -> Evidence:
    sign = Sign(
        "closed-for-one-mdt",
        Route.EXPECTED,
        "OSTs unused by a single MDT",
        "create_enabled",
        view=View.TARGETS,
    )
    rows = seen.labelled("create_enabled", kinds=OSTS).filter(pl.col("label").is_not_null())
    osts = seen.values("create_enabled", kinds=OSTS)["target"].n_unique()
    closed = rows.filter(value=0)
    by_mdt = (
        closed.group_by("label", "at", "bad")
        .agg(value=pl.len() / max(1, osts))
        .group_by("label", "bad")
        .agg(pl.median("value"))
    )
    bad, good = (
        dict(by_mdt.filter(bad=side).select("label", "value").iter_rows()) for side in (True, False)
    )
    if not bad:
        return sign.weighed(f"{sign.subject}: no data", 0.0)
    worst = max(bad, key=lambda mdt: (bad[mdt] - good.get(mdt, 0.0), mdt))
    more = bad[worst] - good.get(worst, 0.0)
    text = f"{worst} used {format_percent(bad[worst], 0)} of the OSTs for no new file; earlier "
    text += format_percent(good.get(worst, 0.0), 0)
    weight = 0.4 if more >= _MANY and bad[worst] >= _MANY else 0.0
    always = more < _SOME and bad[worst] >= _MANY
    return replace(sign, route=Route.TIME, unit="1").weighed(
        text, weight, value=bad[worst], reference=good.get(worst, 0.0), throughout=always
    )


def _logged(context: Context) -> Evidence:
    kinds = (EventKind.TARGET_CLOSED,)
    within = context.entries(lambda event: event.kind in kinds and context.is_bad(event.at))
    # Surveys may date the incident earlier: the entry is not late if runs were still good.
    late = _LOGGED if within and not down_before(context, within[0].at) else 0.0
    evidence = logged(context, kinds, "targets being closed", weight=_LOGGED, late=late)
    by = [
        event
        for event in context.events
        if event.kind is EventKind.TARGET_CLOSED
        and event.source in _POLICY
        and context.incident.at - timedelta(days=14) <= event.at <= context.incident.at + SLACK
    ]
    if evidence.weight <= 0 or not by:
        return evidence
    text = f"{evidence.what} (by a policy: a mitigation, not a failure)"
    return replace(evidence, what=Message("closing-logged", text))


def _why_closed(context: Context, seen: Observations, names: tuple[str, ...]) -> Evidence:
    """Return whether the closed targets are the full ones: then the mitigation itself is felt.

    It weighs nothing: a good reason for closing makes it neither more nor less likely that it slows
    the file system. It links this cause to the fullness.
    """
    if not names:
        return _WHY.weighed("no target is closed", 0.0)
    bad = seen.fullness().filter(pl.col("bad") & pl.col("target").is_in(list(names)))
    by_target = bad.group_by("target").agg(pl.max("value"))
    if by_target.is_empty():
        return _WHY.not_available(seen.why_not("used_bytes", kinds=OSTS))
    full = by_target.filter(pl.col("value") > context.limits.reopen)["target"].to_list()
    code = "why-closed"
    text = (
        f"{len(full)} of the {len(names)} closed targets are over "
        f"{format_percent(context.limits.reopen, 0)} full"
    )
    if len(full) * 2 >= len(names):
        code = "closed-by-mitigation"
        text += ": closed because they were full; the mitigation itself is the cause"
    return _WHY.weighed(
        text,
        0.0,
        code=code,
        value=float(len(full)),
        reference=float(len(names)),
        targets=sorted(full),
        source="used_bytes",
    )


def _enough(context: Context, open_share: float | None) -> Evidence:
    sign = Sign(
        "open-enough",
        Route.EXPECTED,
        "capacity of the open targets",
        unit="B/s",
        view=survey_view(context),
    )
    metric = "write_bandwidth" if context.incident.key is None else context.incident.key.metric
    usual = [v for run in of_incident(context, bad=False) if (v := value_of(context, run))]
    surveys = context.surveys
    if open_share is None or not usual or not {"metric", "value", "target"} <= set(surveys.columns):
        return sign.missing("level-unknown", "open targets, level or surveys unknown")
    rates = surveys.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    if rates.is_empty():
        return sign.missing("no-survey", f"no survey measured {metric} of single targets")
    rate_of_one = float(rates["value"].median() or 0.0)  # pyrefly: ignore[bad-argument-type]
    n = rates["target"].n_unique()
    level = sorted(usual)[len(usual) // 2]
    carried = rate_of_one * n * open_share
    text = (
        f"{open_share * n:.0f} open targets carry {format_bytes_per_s(carried)} at most; the "
        f"probe usually reaches {format_bytes_per_s(level)}"
    )
    # Others write too: with less than twice its own rate left, the probe does not get all of it.
    weight = 0.6 if carried < level else 0.3 if carried < 2 * level else -0.2
    return sign.weighed(
        text, weight if open_share < 1 else 0.0, value=carried, reference=level,
        against=Against.CONDITION,
    )  # fmt: skip


FEW_TARGETS_OPEN: Final = Cause(
    id="few-targets-open",
    title="too few targets open for new files",
    prior=0.3,  # 3 of the 13 bad days
    assess=assess_few_targets_open,
    acts_on=always_at("target"),
    slows_metadata=False,
    signs=(
        "closed-now",
        "closed-in-time",
        "closed-for-one-mdt",
        "event-logged",
        "event-logged-late",
        "closing-logged",
    ),
    measurement="See which targets take no new files (trimtab targets SITE).",
    measurement_where=(
        (
            "closed-now",
            "Open the least full of the closed targets until at most a quarter is closed, for a "
            "day, and see whether the next runs of the probe recover.",
        ),
    ),
    mitigation=True,
)
