"""`allocator-loops`: the block allocator scans all groups without a result, burning CPU.

NERSC found it by comparing counters of fast and slow OSTs: the slow ones had many useless loops
and high CPU, from about 75 % full [S1, IV.B; S2; S4]. With the default thresholds of older ldiskfs
it starts below 25 % free, where the only loop that still works is skipped [S8, LU-12103;
reproduced in S10]. It moves with the thresholds, shows up in CPU and loops, and does not respond to
a trim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import polars as pl

from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.units import format_percent
from trimtab.explain.breadth import breadth
from trimtab.explain.causes.evidence import (
    UNSEEN,
    commonest,
    flags,
    settings,
    targets_of,
    timing,
    writes_and_reads,
)
from trimtab.explain.causes.server_load import (
    CPU,
    LOOPS,
    PROFILE,
    cpu_share_of_allocator,
    cpu_up,
    per_request,
)
from trimtab.explain.causes.target_space import FULLEST
from trimtab.explain.causes.trim_history import recovery_evidence
from trimtab.explain.context import Cause, Context, always_at
from trimtab.explain.contrast import Sign, between_targets, expected, in_time
from trimtab.explain.finding_table import RATE_LIMIT
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, Observations, observe

_SOURCE: Final = "allocator_useless_loops_total, allocator_requests_total"
_LOOPS: Final = "useless loops per request"
_IN_TIME: Final = Sign("loops-in-time", Route.TIME, _LOOPS, source=_SOURCE, view=View.TARGETS)
_BETWEEN: Final = Sign(
    "loops-between-targets", Route.TARGETS, _LOOPS, source=_SOURCE, view=View.TARGETS
)
_OVER_LIMIT: Final = Sign(
    "loops-over-limit", Route.EXPECTED, _LOOPS, source=_SOURCE, view=View.TARGETS
)
_CPU: Final = Sign(
    "server-cpu",
    Route.TIME,
    "server CPU",
    source="server_cpu_fraction",
    unit="1",
    view=View.SERVERS,
)
_TIMES: Final = 2.0
_CPU_SHARE: Final = 0.1
"""Telling share of the CPU in the allocator. 24 useless loops per 1,000 requests on a 133 TB OST
take 6.9 of 32 cores [S10], a fifth; half of that is already noticeable."""
_NEEDS_FULL: Final = 0.72
"""No useless loops up to 75 % full in the simulation; fullness in a snapshot lags behind."""
_LOWERED: Final = 0.8
"""Weight of thresholds that were changed back: other settings may have changed with them."""
_DEFAULTS: Final = {"1": 25, "2": 15, "3": 5}


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against useless loops of the block allocator."""
    seen = observe(context)
    return (
        *_loops(context, seen),
        _groups(seen),
        _CPU.of(
            cpu_up(seen, absent=-0.5), why_not=seen.why_not("server_cpu_fraction"), quantity=CPU
        ),
        _cpu_of_slow(context, seen),
        _profile(context),
        _thresholds(context, seen),
        _full(seen),
        recovery_evidence(context, speaks_for=False),
        writes_and_reads(context),
    )


def _loops(context: Context, seen: Observations) -> tuple[Evidence, ...]:
    """Return the counters compared with good hours, with fast targets and with the limit."""
    rate = per_request(seen, "allocator_useless_loops_total")
    bad = rate.filter("bad")
    if bad.is_empty():
        why = seen.why_not("allocator_useless_loops_total", kinds=OSTS)
        return tuple(sign.not_available(why) for sign in (_IN_TIME, _BETWEEN, _OVER_LIMIT))
    over_limit = flags(rate, pl.col("value") >= RATE_LIMIT)
    names = targets_of(over_limit)
    per_target = bad.group_by("target").agg(pl.median("value"))
    worst = float(per_target["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    time = in_time(rate, ratio=_TIMES, present_from=RATE_LIMIT, absent=-0.8)
    slow = between_targets(
        rate, breadth(context), ratio=_TIMES, present_from=RATE_LIMIT, absent=-0.9
    )
    limit = expected(worst, RATE_LIMIT, over=0.6, under=-1.2, scale=RATE_LIMIT / 2)
    return (
        _IN_TIME.of(time, targets=names, quantity=LOOPS),
        timing(context, over_limit, f"{_LOOPS} over {RATE_LIMIT:g}", view=View.TARGETS),
        _BETWEEN.of(slow, targets=names),
        _OVER_LIMIT.of(limit, f"{_LOOPS} of the worst target", targets=names),
    )


def _groups(seen: Observations) -> Evidence:
    source = "allocator_groups_considered_total"
    sign = Sign(
        "groups-searched",
        Route.TIME,
        "block groups searched per request",
        source=source,
        view=View.TARGETS,
    )
    contrast = in_time(per_request(seen, source), ratio=_TIMES, by=1.0, absent=-0.2)
    return sign.of(contrast, why_not=seen.why_not(source, kinds=OSTS))


def _cpu_of_slow(context: Context, seen: Observations) -> Evidence:
    """Return whether the servers of the slow targets were busier than those of the fast ones."""
    contrast = between_targets(
        seen.values("server_cpu_fraction", kinds=OSTS), breadth(context), ratio=1.15, by=0.05,
        absent=-0.4,
    )  # fmt: skip
    return _CPU.of(contrast, "CPU of the targets' servers", code="cpu-of-slow-targets")


def _profile(context: Context) -> Evidence:
    subject = "share of CPU samples in ldiskfs_mb_* and ext4_mb_*"
    sign = Sign(
        "allocator-cpu-share",
        Route.EXPECTED,
        subject,
        source="CPU profile",
        unit="1",
        view=View.SERVERS,
    )
    share, usual = (cpu_share_of_allocator(context, bad=side) for side in (True, False))
    if share is None:
        return sign.missing("no-cpu-profile", "no CPU profile of the bad hours", source=None)
    contrast = expected(share, _CPU_SHARE, over=1.2, under=-0.9, scale=0.03)
    before = "" if usual is None else f", {format_percent(usual, 0)} in good hours"
    same = usual is not None and usual >= 0.7 * share and share >= _CPU_SHARE
    text = f"{subject}: {format_percent(share, 0)}{before}"
    weight = contrast.weight / 3 if same else contrast.weight
    return sign.weighed(
        text, weight, value=share, reference=_CPU_SHARE, throughout=same, quantity=PROFILE
    )


def _thresholds(context: Context, seen: Observations) -> Evidence:
    subject = "thresholds of the allocator's loops"
    sign = Sign(
        "thresholds",
        Route.EXPECTED,
        subject,
        source="ldiskfs/*/mb_c1_threshold",
        view=View.SETTINGS,
    )
    family = seen.texts("allocator_family", kinds=OSTS).filter("bad")
    values = _threshold_values(context)
    if not values:
        if family.is_empty():
            return sign.missing(
                "name-missing", "no snapshot contains mb_c1_threshold to mb_c3_threshold"
            )
        name = commonest(family) or ""
        old = name.startswith("loops-by-number")
        text = f"allocator family {name}"
        # Newer kernels keep lists of groups: fewer scans, none of them controlled by a threshold.
        return sign.weighed(
            text, 0.0 if old else -0.3, code="allocator-family", source="allocator_family",
            against=Against.CONDITION,
        )  # fmt: skip
    shown = ", ".join(f"c{n} {value}" for n, value in sorted(values.items()))
    skipped, before = _skips(values), _threshold_values(context, bad=False)
    text = f"{subject}: {shown}"
    if before and _skips(before) and not skipped:
        # The remedy was reverted with the first bad runs.
        return replace(sign, route=Route.TIME).weighed(
            f"{text}; in good hours the useless loop was skipped", _LOWERED,
            code="thresholds-lowered", value=shown,
        )  # fmt: skip
    text += "; the useless loop is skipped" if skipped else ""
    weight = -0.6 if skipped else 0.3 if values.get("1") == _DEFAULTS["1"] else 0.0
    code = "thresholds-in-force" if skipped else "thresholds"
    return sign.weighed(
        text, weight, code=code, value=shown, reference="c1 25, c2 15, c3 5",
        against=Against.CONDITION,
    )  # fmt: skip


def _skips(values: Mapping[str, int]) -> bool:
    """Return whether c1 is skipped from the same fullness as c0: the remedy of [S1]."""
    return values.get("2", _DEFAULTS["2"]) >= values.get("1", _DEFAULTS["1"])


def _threshold_values(context: Context, *, bad: bool = True) -> dict[str, int]:
    """Return the most common value of each threshold in the bad hours, or in the good ones."""
    thresholds: dict[str, int] = {}
    for number in _DEFAULTS:
        rows = settings(context, f"mb_c{number}_threshold")
        value = commonest(rows if bad else rows.with_columns(~pl.col("bad")))
        # Kernels print it with or without a percent sign: "25", "25%".
        match = None if value is None else re.match(r"\d+", value)
        if match is not None:
            thresholds[number] = int(match.group())
    return thresholds


def _full(seen: Observations) -> Evidence:
    sign = Sign("fullest-target", Route.EXPECTED, "the fullest target", unit="1", view=View.TARGETS)
    bad = seen.fullness().filter("bad")
    if bad.is_empty():
        return sign.not_available(seen.why_not("used_bytes", kinds=OSTS), source="used_bytes")
    fullest = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    contrast = expected(fullest, _NEEDS_FULL, over=0.3, under=-0.7, scale=0.03)
    source = "used_bytes, available_bytes"
    return sign.of(contrast, source=source, against=Against.CONDITION, quantity=FULLEST)


ALLOCATOR_LOOPS: Final = Cause(
    id="allocator-loops",
    title="useless loops of the block allocator",
    prior=UNSEEN,
    assess=assess,
    acts_on=always_at("target"),
    slows_metadata=False,
    signs=(
        "loops-in-time",
        "loops-between-targets",
        "loops-over-limit",
        "groups-searched",
        "allocator-cpu-share",
        "thresholds-lowered",
    ),
    measurement=(
        "Raise mb_c2_threshold to mb_c1_threshold on one slow target (older ldiskfs only), or "
        "free a tenth of it elsewhere, and measure it beside its neighbours. If the allocator "
        "is the cause, loops, CPU and writes change together."
    ),
    measurement_where=(
        (
            "thresholds-in-force",
            "The thresholds skip the useless loop already. Free a tenth of one slow target "
            "elsewhere and measure it beside its neighbours: if the allocator is the cause, loops, "
            "CPU and writes change together.",
        ),
    ),
)
