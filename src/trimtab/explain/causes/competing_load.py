"""Causes that lie in other jobs: `competing-load`, more bytes than usual, and `metadata-load`.

The servers count the traffic of all clients; the probe's own share is subtracted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

import polars as pl

from trimtab.base.error import Message
from trimtab.base.incident import Against, Evidence, Found, Route, Shape
from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.units import format_bytes, format_bytes_per_s, format_percent
from trimtab.explain.causes.evidence import (
    UNSEEN,
    heavier,
    levels,
    of_incident,
    ratios,
    typical,
    with_circumstance,
)
from trimtab.explain.causes.failed_runs import kept_from_starting
from trimtab.explain.causes.onset import onset_of
from trimtab.explain.context import LONGEST_STEP, Cause, Context, Period, RunFact, always_at
from trimtab.explain.contrast import Sign, in_time
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import (
    MDTS,
    OSTS,
    SERVERS,
    TARGETS,
    Observations,
    holds,
    marked,
    observe,
)

TrafficStep = tuple[datetime, float, float, bool]
"""End, seconds, B/s over all targets, whether bad."""

_OF_CLIENTS: Final = ("client_bytes_written_total", "client_bytes_read_total")
_OF_DEVICES: Final = ("bytes_written_total", "bytes_read_total")
_MORE: Final = 1.5
"""One and a half times the good hours; users' load varies by that much between day and night."""
_MORE_JOBS: Final = 1.3
_AS_MANY_JOBS: Final = -0.4
"""Weight if no more jobs ran than in good hours."""
_JOBS_MOST: Final = 0.5
"""Most that more jobs weigh: jobs are not bytes."""
_MATTERS: Final = 0.15
"""Share of what the probe reaches alone: smaller additional load takes no more than this from
it."""
_LOAD_WENT_ON: Final = -0.7
"""Weight if the load continued after runs had recovered."""
_AS_MUCH: Final = 0.9
"""Share of the load of the bad hours above which it continued."""
_BY_LOAD: Final = 0.5
"""Least share of what filled the targets that is known to be new, and written by others."""
_FILLED: Final = 1.5
"""What is written stays until it is removed: hardly a coincidence, if it is far more than usual."""
_WHOLE: Final = 0.9
"""Share of the targets that a sum must cover."""
ACCOUNTING: Final = "accounting of the batch system"
_LONGEST_RUN: Final = timedelta(hours=8)

_NO_RATE: Final = Message("no-rate", "no rate in the bad hours")
_OWN_BYTES_UNKNOWN: Final = Message(
    "own-bytes-unknown", "the bytes of the site's own probes in these hours are unknown"
)


def assess_competing_load(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against load from other jobs."""
    steps, source, why = _others(context)
    if context.incident.shape is Shape.UNSTEADY:
        steps = _busier(steps)
    beside = _against_the_probe(context, steps, source, why)
    seen = (
        _in_time(steps, source, why),
        beside,
        _went_on(context, steps, source),
        _jobs(context, measured=bool(steps)),
    )
    filled = _filled(context, steps, source)
    if filled.found is Found.FOR:
        # A full file system takes no more: nothing can be seen of the load once it had filled it.
        seen = tuple(
            replace(piece, found=Found.NEUTRAL, weight=0.0, against=None)
            if piece.found is Found.AGAINST else piece
            for piece in seen
        )  # fmt: skip
    seen = (*seen, kept_from_starting(context), filled)
    # Load as large as the probe's own reach slows it, though jobs seldom last so long.
    is_heavy = isinstance(beside.value, float) and beside.value >= 1 and beside.found is Found.FOR
    return with_circumstance(seen, _shape(context, is_heavy=is_heavy))


def _others(context: Context) -> tuple[list[TrafficStep], str, Message]:
    """Return the traffic of others over time, its counters, and the reason if there is none."""
    seen = observe(context)
    for names in (_OF_CLIENTS, _OF_DEVICES):
        frames = [seen.rates(name, kinds=OSTS) for name in names]
        frames = [frame for frame in frames if not frame.is_empty()]
        steps = _summed(frames) if frames else []
        if any(is_bad for *_, is_bad in steps):
            source = " and ".join(names)
            if names is _OF_DEVICES:
                return steps, source, _NO_RATE
            known = [step for step in steps if not _unknown(step, context.runs)]
            if not any(is_bad for *_, is_bad in known):
                return [], source, _OWN_BYTES_UNKNOWN
            own_runs = _own_runs(context)
            return [_less(step, own_runs) for step in known], source, _NO_RATE
    return [], _OF_CLIENTS[0], seen.why_not(_OF_CLIENTS[0], kinds=OSTS)


def _busier(steps: Sequence[TrafficStep]) -> list[TrafficStep]:
    """Return the busier half of the bad and of the good hours.

    Load that makes runs scatter comes and goes: its pauses look like good hours.
    """
    halves: list[TrafficStep] = []
    for side in (True, False):
        of_side = [step for step in steps if step[3] is side]
        middle = median(rate for _, _, rate, _ in of_side) if of_side else 0.0
        halves += [step for step in of_side if step[2] >= middle]
    return sorted(halves)


def _summed(frames: Sequence[pl.DataFrame]) -> list[TrafficStep]:
    """Return sums over targets and directions, without times at which many targets are missing."""
    columns = ["at", "target", "value", "seconds", "bad"]
    rows = pl.concat([frame.select(columns) for frame in frames])
    times = (
        rows.group_by("at")
        .agg(
            pl.median("seconds"),
            pl.sum("value"),
            pl.col("bad").any(),
            # One row per target and direction: a gap in one of them is a gap in the sum.
            parts=pl.len(),
        )
        .sort("at")
    )
    most = times["parts"].max()
    complete = times.filter(pl.col("parts") >= _WHOLE * float(most or 0))  # pyrefly: ignore[bad-argument-type]
    return complete.select("at", "seconds", "value", "bad").rows()


def _own_runs(context: Context) -> list[RunFact]:
    own_runs = [
        run
        for run in context.runs
        if run.until is not None
        and timedelta() < run.until - run.at <= _LONGEST_RUN
        and (run.bytes_written or run.bytes_read)
    ]
    return sorted(own_runs, key=lambda run: run.at)


def _unknown(step: TrafficStep, runs: Sequence[RunFact]) -> bool:
    """Return whether an unfinished run moved an unknown share of a step's bytes."""
    end, seconds, *_ = step
    begin = end - timedelta(seconds=seconds)
    return any(
        run.status is RunStatus.UNFINISHED
        and not (run.bytes_written or run.bytes_read)
        and run.at < end
        and (run.until or run.at + timedelta(hours=1)) > begin
        for run in runs
    )


def _less(step: TrafficStep, runs: Sequence[RunFact]) -> TrafficStep:
    """Return a step minus the traffic of the site's own probes."""
    end, seconds, rate, is_bad = step
    begin = end - timedelta(seconds=seconds)
    own_bytes = 0.0
    first = bisect_left(runs, begin - _LONGEST_RUN, key=lambda run: run.at)
    for run in runs[first:]:
        if run.at >= end:
            break
        if run.until is None or run.until <= begin:
            continue
        within = (min(run.until, end) - max(run.at, begin)).total_seconds()
        moved = (run.bytes_written or 0.0) + (run.bytes_read or 0.0)
        if math.isfinite(moved):
            own_bytes += moved * within / (run.until - run.at).total_seconds()
    return end, seconds, max(0.0, rate - own_bytes / seconds), is_bad


def _in_time(steps: Sequence[TrafficStep], source: str, why: Message) -> Evidence:
    sign = Sign(
        "load-in-time",
        Route.TIME,
        "bytes per second moved by other jobs",
        unit="B/s",
        view=View.TRAFFIC,
    )
    if not steps:
        return sign.not_available(why, source=source)
    frame = pl.DataFrame(
        [(at, value, is_bad) for at, _, value, is_bad in steps],
        schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "bad": pl.Boolean},
        orient="row",
    )
    contrast = in_time(frame, ratio=_MORE, absent=-1.5, over="sum")
    return sign.of(contrast, source=source)


def _against_the_probe(
    context: Context, steps: Sequence[TrafficStep], source: str, why: Message
) -> Evidence:
    sign = Sign(
        "load-of-reach",
        Route.EXPECTED,
        "additional load relative to what the probe reaches",
        unit="1",
        view=View.TRAFFIC,
    )
    bad = [value for *_, value, is_bad in steps if is_bad]
    good = [value for *_, value, is_bad in steps if not is_bad]
    if not bad:
        return sign.not_available(why, source=source)
    reach = _reach(context)
    if reach is None:
        return sign.missing(
            "no-good-runs", "no run of good hours shows what the probe reaches", source=source
        )
    more = median(bad) - (median(good) if good else 0.0)
    share = more / reach
    text = (
        f"other jobs moved {format_bytes_per_s(max(0.0, more))} more than in good hours, "
        f"{format_percent(max(0.0, share), 0)} of what the probe reaches"
    )
    weight = _weight_of_share(share) if good else 0.0
    return sign.weighed(text, weight, value=share, reference=_MATTERS, source=source)


def _weight_of_share(share: float) -> float:
    """Return the weight of additional load, continuous in its share of what the probe reaches.

    -1.5 up to a third of `_MATTERS`, 0.5 at `_MATTERS`, then 0.5 more per power of ten; at most 1.
    """
    powers = math.log10(max(share, _MATTERS / 3) / _MATTERS)
    return min(1.0, 0.5 + powers * (0.5 if powers > 0 else 2 / math.log10(3)))


def _filled(context: Context, steps: Sequence[TrafficStep], source: str) -> Evidence:
    """Return whether others wrote what filled the targets, faster than they usually write.

    From where they filled fastest in the day before the onset up to the first snapshot that shows
    them over the limit.
    """
    sign = Sign(
        "load-filled", Route.TIME, "what other jobs wrote while the targets filled",
        source=source.partition(" and ")[0], unit="B", view=View.TRAFFIC,
    )  # fmt: skip
    usual = [value for *_, value, is_bad in steps if not is_bad]
    around = Period(onset_of(context)[0] - LONGEST_STEP, context.end)
    filling = _filling(Observations(context.telemetry, bad=(around,), good=context.good), context)
    if filling is None or not usual:
        return sign.missing("not-filled", "the targets did not fill up as it began")
    begin, end, grown = filling
    seen = Observations(context.telemetry, bad=(Period(begin, end),), good=())
    rates = seen.rates(sign.source or "", kinds=OSTS)
    own_runs = [replace(run, bytes_read=None) for run in _own_runs(context)]
    written = [_less(step, own_runs) for step in (_summed([rates]) if rates.height else [])]
    wrote = sum(seconds * rate for _, seconds, rate, _ in written)
    faster = wrote > _MORE * median(usual) * (end - begin).total_seconds()
    text = (
        f"other jobs wrote {format_bytes(wrote)} from {begin:%d %B %H:%M} to {end:%d %B %H:%M}, "
        f"while the targets filled by {format_bytes(grown)}"
    )
    weight = _FILLED if faster and wrote >= _BY_LOAD * grown else 0.0
    return sign.weighed(text, weight, value=wrote, reference=grown, at=begin)


def _filling(seen: Observations, context: Context) -> tuple[datetime, datetime, float] | None:
    """Return from when to when most targets rose over the limit, and by how many bytes in all.

    ``None`` if they did not, or if most of that had been there before.
    """
    full = seen.fullness().group_by("at").agg(full=pl.median("value"))
    used = seen.values("used_bytes", kinds=OSTS).group_by("at", "bad").agg(used=pl.sum("value"))
    joined = full.join(used, on="at").sort("at")
    usual = joined.filter(~pl.col("bad"))["used"].median()
    rows = joined.filter("bad").select("at", "full", "used").rows()
    over = next((n for n, (_, share, _) in enumerate(rows) if share > context.limits.fullness), 0)
    if not over or not isinstance(usual, float):
        return None
    end, _, most = rows[over]
    begin, _, least = max(
        pairwise(rows[: over + 1]),
        key=lambda step: (step[1][2] - step[0][2]) / (step[1][0] - step[0][0]).total_seconds(),
    )[0]
    grown = most - least
    return (begin, end, grown) if grown > 0 and grown >= _BY_LOAD * (most - usual) else None


def _went_on(context: Context, steps: Sequence[TrafficStep], source: str) -> Evidence:
    """Return whether the load continued after runs had recovered: then it did not slow them."""
    sign = Sign("load-after", Route.TIME, "load after the incident", unit="B/s", view=View.TRAFFIC)
    sides = [[value for *_, value, is_bad in steps if is_bad is side] for side in (True, False)]
    until = context.incident.until
    # The end of a spread is known only to within a day: load after it may belong to it.
    if until is None or context.incident.shape is Shape.UNSTEADY or not all(sides):
        return sign.missing(
            "not-ended", "the incident goes on, or its load is unknown", source=source
        )
    afterwards = (Period(until, until + LONGEST_STEP),)
    seen = Observations(context.telemetry, bad=afterwards, good=())
    frames = [seen.rates(name, kinds=OSTS) for name in source.split(" and ")]
    known = [frame for frame in frames if not frame.is_empty()]
    # An interval that began before the end includes load of the bad hours.
    after = [
        value
        for at, seconds, value, is_after in (_summed(known) if known else [])
        if is_after and at - timedelta(seconds=seconds) >= until
    ]
    if not after:
        return sign.missing("no-snapshots", "no snapshots soon after its end", source=source)
    bad, good = map(median, sides)
    text = (
        f"other jobs moved {format_bytes_per_s(min(after))} after it had ended, "
        f"{format_bytes_per_s(bad)} in the bad hours"
    )
    went_on = bad > _MORE * good and min(after) > _AS_MUCH * bad
    return sign.weighed(
        text, _LOAD_WENT_ON if went_on else 0.0, value=min(after), reference=bad, source=source,
        against=Against.CONDITION,
    )  # fmt: skip


def _reach(context: Context) -> float | None:
    key = context.incident.key
    if key is None or not key.metric.endswith("bandwidth"):
        return None
    values = levels(context, of_incident(context, bad=False))
    return median(values) if values else None


def _jobs(context: Context, *, measured: bool) -> Evidence:
    """Return whether more jobs ran: from accounting, which covers every hour, else snapshots.

    Beside measured bytes, jobs in the same few snapshots are the same observation once more: they
    add half as much, and a usual number contradicts nothing.
    """
    sign = Sign(
        "concurrent-jobs",
        Route.RUNS,
        "concurrent jobs",
        source="concurrent_jobs",
        unit="jobs",
        view=View.ACCOUNTING,
    )
    # Jobs are not bytes, most of them move little, so this adds to the traffic.
    if context.jobs.filter(holds(context.bad)).height:
        sides = marked(context.jobs, context.bad, context.good)
        return heavier(*(
            _more(
                replace(sign, subject=subject, source=ACCOUNTING, unit=column),
                sides.with_columns(value=pl.col(column)),
                _AS_MANY_JOBS,
            )
            for column, subject in (("jobs", "running jobs"), ("nodes", "nodes that jobs ran on"))
        ))  # fmt: skip
    seen = observe(context)
    jobs = seen.values("concurrent_jobs", kinds=(*TARGETS, "server"), fold="max")
    if jobs.is_empty():
        return sign.not_available(seen.why_not("concurrent_jobs"))
    if measured:
        return _more(sign, jobs, 0.0, most=_JOBS_MOST / 2)
    return _more(sign, jobs, _AS_MANY_JOBS)


def _more(sign: Sign, frame: pl.DataFrame, absent: float, *, most: float = _JOBS_MOST) -> Evidence:
    contrast = in_time(frame, ratio=_MORE_JOBS, by=1.0, absent=absent, over="max")
    if contrast.reason is not None:
        return sign.not_available(contrast.reason)
    text = f"{sign.subject}: {contrast.in_words(sign.unit)}"
    return sign.counted(text, min(most, contrast.weight), contrast)


def _shape(context: Context, *, is_heavy: bool) -> Evidence:
    """Return whether it came and went the way jobs do."""
    sign = Sign("shape-of-load", Route.EXPECTED, view=View.PROBE)
    shape = context.incident.shape
    if shape in (Shape.DIP, Shape.UNSTEADY):
        return sign.weighed("intermittent, as jobs are", 0.2)
    end = context.incident.until or context.now
    days = (end - context.incident.at) / timedelta(days=1)
    if shape is Shape.STEP and days >= 4:
        # The longest job of NERSC runs 24 h [S1, VII].
        text = f"it has lasted {days:.0f} days; jobs end sooner"
        rare = 0.4 if is_heavy else 0.4 + 0.8 * min(1.0, (days - 4) / 6)
        return sign.weighed(text, -rare, value=days, unit="days")
    return sign.weighed(f"its shape ({shape}) does not indicate load", 0.0)


COMPETING_LOAD: Final = Cause(
    id="competing-load",
    title="load of other jobs",
    prior=UNSEEN,  # [S1] names none of the 13 days so: equal to the others not named
    assess=assess_competing_load,
    acts_on=always_at("network", "server", "target"),
    signs=("load-in-time", "load-of-reach", "load-filled"),
    measurement=(
        "Find who moves the data (lctl get_param obdfilter.*.job_stats on the servers), and run "
        "the probe again when that job has ended."
    ),
    brings_about=("targets-over-limit", "target-filling", "few-targets-open"),
)


_OPERATIONS: Final = "metadata_operations_total"
_CPU: Final = "server_cpu_fraction"
_MORE_OPERATIONS: Final = 1.5
"""One and a half times; users' operations vary by that much between day and night."""
_FOLDS: Final = ("sum", "max")
_BUSIER: Final = 0.15
"""Share of an MDS's CPUs."""
_RATES: Final = tuple(
    name for name in METRIC_UNITS if name.startswith(("file_", "directory_", "tree_"))
)
_BANDWIDTHS: Final = ("write_bandwidth", "read_bandwidth")
_APART: Final = 0.1
_FELL: Final = 0.9


def assess_metadata_load(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against load on the metadata servers.

    It affects file creation and removal, and the opens and closes of a file-per-task probe; it
    hardly affects streaming.
    """
    seen = (
        _operations(context), _cpu(context), _rates(context), kept_from_starting(context)
    )  # fmt: skip
    return with_circumstance(seen, _metric(context))


def _operations(context: Context) -> Evidence:
    seen = observe(context)
    subject = "metadata operations per second"
    sign = Sign(
        "metadata-operations",
        Route.TIME,
        subject,
        source=_OPERATIONS,
        unit="1/s",
        view=View.TRAFFIC,
    )
    rates = seen.rates(_OPERATIONS, kinds=MDTS)
    if rates.is_empty():
        return sign.not_available(seen.why_not(_OPERATIONS, kinds=MDTS))
    # Users' directories are spread over the MDTs by name: one may be loaded alone [S1, II].
    total, busiest = (
        in_time(rates, ratio=_MORE_OPERATIONS, absent=-1.2, over=over) for over in _FOLDS
    )
    return max(
        sign.of(total, f"{subject}, all MDTs"),
        sign.of(busiest, f"{subject}, the busiest MDT"),
        key=lambda ratio: (ratio.reason is None, ratio.weight),
    )


def _cpu(context: Context) -> Evidence:
    seen = observe(context)
    subject = "CPU of the busiest metadata server"
    sign = Sign("mds-cpu", Route.EXPECTED, subject, source=_CPU, unit="1", view=View.SERVERS)
    cpu = seen.values(_CPU, kinds=MDTS)
    if cpu.is_empty():
        cpu = _of_mds(context, seen.values(_CPU, kinds=SERVERS))
    if cpu.is_empty():
        return sign.not_available(seen.why_not(_CPU, kinds=(*MDTS, *SERVERS)))
    contrast = in_time(cpu, by=_BUSIER, ratio=1.2, absent=-0.7, over="max")
    if contrast.reason is not None:
        return sign.not_available(contrast.reason)
    # Another counter on another machine: it adds to the number of operations.
    return sign.counted(f"{subject}: {contrast.in_words('1')}", contrast.weight, contrast)


def _of_mds(context: Context, machines: pl.DataFrame) -> pl.DataFrame:
    names = {server for target, server in context.home.items() if target.startswith("MDT")}
    return machines.filter(pl.col("target").is_in(sorted(names)))


def _rates(context: Context) -> Evidence:
    sign = Sign(
        "metadata-rates",
        Route.RUNS,
        "metadata rates compared with bandwidth",
        unit="1",
        view=View.PROBE,
    )
    metadata, bandwidth = (typical(ratios(context, names)) for names in (_RATES, _BANDWIDTHS))
    if metadata is None:
        return sign.missing("no-metadata-probe", "no metadata probe ran in both good and bad hours")
    text = f"metadata rates at {format_percent(metadata, 0)} of their usual level"
    if bandwidth is not None:
        text += f", bandwidth at {format_percent(bandwidth, 0)}"
    held = 1.0 if bandwidth is None else bandwidth
    if metadata <= _FELL and metadata <= held - _APART:
        weight = 0.9
    elif metadata > _FELL:
        weight = -1.0
    else:
        weight = -0.2
    return sign.weighed(text, weight, value=metadata, reference=bandwidth)


def _metric(context: Context) -> Evidence:
    """Return whether the incident shows in metadata or in bandwidth."""
    sign = Sign("metric-of-incident", Route.EXPECTED, view=View.PROBE)
    key = context.incident.key
    if key is None:
        return sign.weighed("the incident belongs to no single metric", 0.0)
    if key.metric in _RATES or key.metric == "metadata_time":
        weight = 0.0 if _any(context.incident.moved_with, _BANDWIDTHS) else 0.4
        return sign.weighed(f"the incident shows in {key.metric}", weight)
    weight = -0.2 if _any(context.incident.moved_with, ("file_", "directory_")) else -0.6
    return sign.weighed(f"the incident shows in {key.metric}", weight)


def _any(names: Iterable[str], words: Iterable[str]) -> bool:
    words = tuple(words)
    return any(word in name for name in names for word in words)


METADATA_LOAD: Final = Cause(
    id="metadata-load",
    title="load on the metadata servers",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess_metadata_load,
    acts_on=always_at("server"),
    signs=("metadata-operations",),
    measurement=(
        "Find the jobs (lctl get_param mdt.*.job_stats on each MDS) and run mdtest in directories "
        "of the busiest MDT and of a quiet one."
    ),
)
