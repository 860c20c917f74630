"""Causes that void runs: `cached-read`, `workload-mismatch` and `launch-failure`.

What such runs measured, if anything, is not the speed of the file system.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from statistics import median
from typing import Final

from trimtab.base.error import Message, code_of
from trimtab.base.event import EventKind
from trimtab.base.failure import FILE_SYSTEM_ERRORS, NAME_ERRORS, is_of_launcher
from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.base.units import format_bytes, format_bytes_per_s, format_percent
from trimtab.explain.causes.evidence import (
    UNSEEN,
    has_figure,
    levels,
    metric_of,
    runs_of_probe,
)
from trimtab.explain.causes.failed_runs import never_began
from trimtab.explain.context import Cause, Context, RunFact, always_at
from trimtab.explain.contrast import NO_BAD_RUNS, Sign, in_time
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import OSTS, observe
from trimtab.judge.credibility import is_from_memory

_READ: Final = "read"
_CANNOT_BE: Final = 1.05
"""Faster than the hardware by more than a data sheet may be rounded."""
_OTHER_METRIC: Final = -2.0
"""The incident is in writes or metadata, which reads from memory do not affect."""
_CACHED: Final = 1.8
_NOT_CACHED: Final = -1.2
_TOO_FAST: Final = 1.8
_WITHIN: Final = -0.5


def assess_cached_read(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against reads that did not reach the file system.

    It works both ways: if the bad hours were read from memory, their figures are void; if the good
    ones were, the "usual level" was that of memory and the apparent loss is the truth. The rules
    for single repetitions are in `trimtab.judge.credibility`.
    """
    return (
        _metric(context),
        _disbelieved(context),
        _nothing_believed(context),
        _faster_than_carried(context),
    )


def _metric(context: Context) -> Evidence:
    """Return whether the incident is in reads at all."""
    sign = Sign("metric-of-incident", Route.RUNS, view=View.PROBE)
    key = context.incident.key
    if key is None:
        return sign.weighed("the incident belongs to no single metric", 0.0)
    if key.metric.startswith(_READ):
        return sign.weighed(f"the incident is in reads ({key.metric})", 0.0)
    text = f"the incident is in {key.metric}, which cached reads do not affect"
    return sign.weighed(
        text, _OTHER_METRIC, value=key.metric, source=key.probe, against=Against.CONDITION
    )


def _disbelieved(context: Context) -> Evidence:
    sign = Sign(
        "reads-from-memory", Route.RUNS, "reads served from memory", unit="1", view=View.PROBE
    )
    bad, good = runs_of_probe(context)
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    cached = [[run for run in runs if _from_memory(run)] for runs in (bad, good)]
    in_bad = len(cached[0]) / len(bad)
    in_good = len(cached[1]) / len(good) if good else None
    text = f"{len(cached[0])} of {len(bad)} runs in the bad hours read from memory"
    text += "" if in_good is None else f", {len(cached[1])} of {len(good)} in the good ones"
    different = abs(in_bad - (in_good or 0.0)) >= 0.5
    if different:
        weight = _CACHED * _sure(len(bad), len(good))
    elif in_bad >= 0.5:
        return sign.weighed(text, 0.0, value=in_bad, reference=in_good, throughout=True)
    else:
        weight = _NOT_CACHED * _sure(len(bad), len(good))
    first = next((run for runs in cached for run in runs), None)
    return sign.weighed(text, weight, first, value=in_bad, reference=in_good)


def _nothing_believed(context: Context) -> Evidence:
    subject = "reads of the bad hours are credible"
    sign = Sign("reads-believed", Route.EXPECTED, subject, unit="1", view=View.PROBE)
    bad, _ = runs_of_probe(context)
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    metric = metric_of(context) or "read_bandwidth"
    cached = [run for run in bad if _from_memory(run) and not has_figure(run, metric)]
    share = len(cached) / len(bad)
    text = f"{len(bad) - len(cached)} of {len(bad)} {subject}"
    return sign.weighed(text, 1.2 * share, value=share, reference=0.0)


def _sure(n_bad: int, n_good: int) -> float:
    """Return the weight of this many runs: half for one, full for many."""
    n = max(1, min(n_bad, max(n_good, 1)))
    return n / (n + 1)


def _from_memory(run: RunFact) -> bool:
    return any(map(is_from_memory, run.disbelieved))


def _faster_than_carried(context: Context) -> Evidence:
    sign = Sign(
        "read-rate-possible",
        Route.EXPECTED,
        "read rate against the capacity of network and drives",
        unit="B/s",
        view=View.PROBE,
    )
    limits = _carries(context)
    if not limits:
        return sign.missing(
            "hardware-unknown", "the site file does not give the rates of network and drives"
        )
    sides: list[tuple[float, float, str, RunFact]] = []
    for runs in runs_of_probe(context):
        values = [
            (value, run)
            for run in runs
            if (value := run.values.get("read_bandwidth")) is not None and math.isfinite(value)
        ]
        if values:
            # A single odd run is not a level.
            middle = median(value for value, _ in values)
            value, run = min(values, key=lambda pair: abs(pair[0] - middle))
            sides.append((value, *min(limits + _of_clients(context, run)), run))
    if not sides:
        return sign.missing("no-read-bandwidth", "no run has a credible read bandwidth")
    value, limit, of, run = max(sides, key=lambda side: side[0])
    text = f"reads at {format_bytes_per_s(value)}; {of} can carry {format_bytes_per_s(limit)}"
    weight = _TOO_FAST if value > limit * _CANNOT_BE else _WITHIN
    # Reads that were too fast in good hours as well are no change.
    always = len(sides) > 1 and all(side[0] > side[1] * _CANNOT_BE for side in sides)
    return sign.weighed(text, weight, run, value=value, reference=limit, throughout=always)


def _carries(context: Context) -> list[tuple[float, str]]:
    """Return what the servers' network and the drives carry in total, each with its name, B/s."""
    hardware = context.hardware
    limits: list[tuple[float, str]] = []
    if hardware.network is not None and hardware.oss:
        upper = hardware.network.possible(zeros_are_filling=True)[1]
        limits.append((upper * hardware.oss, "the servers' network"))
    each: Sequence[float] = [
        figure.possible(zeros_are_filling=True)[1]
        for figure in (hardware.drive_read, hardware.drive_link)
        if figure is not None
    ]
    if each and hardware.drives:
        limits.append((min(each) * hardware.drives, "the drives together"))
    return [(limit, of) for limit, of in limits if limit > 0 and math.isfinite(limit)]


def _of_clients(context: Context, run: RunFact) -> list[tuple[float, str]]:
    figure, nodes = context.hardware.client_network, run.nodes or len(run.hosts)
    if figure is None or not nodes:
        return []
    return [(figure.possible(zeros_are_filling=True)[1] * nodes, f"the network of {nodes} clients")]


CACHED_READ: Final = Cause(
    id="cached-read",
    title="reads from memory instead of the file system",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess_cached_read,
    acts_on=always_at("client"),
    signs=("reads-from-memory", "read-rate-possible"),
    measurement=(
        "With direct I/O, read more data than all memory on the path holds, or read on other nodes "
        "than those that wrote."
    ),
)


_OTHER: Final = 2.0
_AS_ASKED: Final = -0.8
"""No more than this: imported runs have no request to miss."""
_BYTES_APART: Final = 0.05
"""A difference of a twentieth in bytes moved is another workload: a probe's bytes are fixed, or
follow from its bandwidth, and then `_bytes` says nothing."""
_TELLS: Final = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.INVALID_WORKLOAD)
_SHARE: Final = 0.25


def assess_workload_mismatch(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a probe that ran another workload.

    Edison's `dbscan_read` moved 0.02 GiB instead of 1,536 from 23 August to 7 September 2017: a
    broken probe [S9, errata].
    """
    bad, good = runs_of_probe(context)
    usual = _usual_bytes(good)
    return (
        _invalid(bad, good, usual, metric_of(context)),
        _unjudged(bad),
        _bytes(bad, good, usual),
        _counts(bad, good, "nodes", lambda run: run.nodes),
        _counts(bad, good, "tasks", lambda run: run.tasks),
    )


def _invalid(
    bad: Sequence[RunFact], good: Sequence[RunFact], usual_bytes: float | None, metric: str | None
) -> Evidence:
    sign = Sign(
        "workload-invalid",
        Route.RUNS,
        "runs of another workload than requested",
        unit="1",
        view=View.PROBE,
    )
    reporting = [run for run in bad if run.status in _TELLS]
    if not reporting:
        return sign.missing("no-bad-runs", "no run of the bad hours reports its workload")
    wrong = [run for run in reporting if _is_other(run, usual_bytes, metric)]
    usual = [run for run in good if run.status in _TELLS]
    before = [run for run in usual if _is_other(run, usual_bytes, metric)]
    share = len(wrong) / len(reporting)
    reference = len(before) / len(usual) if usual else None
    text = f"{len(wrong)} of {len(reporting)} {sign.subject} in the bad hours"
    text += "" if reference is None else f", {len(before)} of {len(usual)} in the good ones"
    if wrong:
        reasons = Counter(filter(None, map(_reason, wrong)))
        text += f": {reasons.most_common(1)[0][0][:160]}" if reasons else ""
    sure = len(reporting) / (len(reporting) + 1)
    throughout = reference is not None and min(share, reference) >= 0.9
    if throughout:
        weight = 0.0
    elif not wrong:
        weight = _AS_ASKED * sure
    else:
        weight = _OTHER * sure * min(1.0, max(0.0, share - (reference or 0.0)) / 0.5)
    first = wrong[0] if wrong else None
    return sign.weighed(
        text, weight, first, value=share, reference=reference, throughout=throughout
    )


def _unjudged(bad: Sequence[RunFact]) -> Evidence:
    sign = Sign(
        "runs-not-judged", Route.EXPECTED, "runs that may not be judged", unit="1", view=View.PROBE
    )
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    share = sum(run.status is RunStatus.INVALID_WORKLOAD for run in bad) / len(bad)
    text = f"{format_percent(share, 0)} of the bad runs had another workload and measure no speed"
    return sign.weighed(text, 1.2 * share, value=share, reference=0.0)


def _is_other(run: RunFact, usual_bytes: float | None, metric: str | None) -> bool:
    if run.status is RunStatus.INVALID_WORKLOAD:
        return True
    moved = _moved(run)
    if usual_bytes is not None and moved is not None and run.status is RunStatus.OK:
        return abs(moved / usual_bytes - 1) > _BYTES_APART
    # Figures served from memory belong to another cause.
    return not has_figure(run, metric) and any(
        not is_from_memory(reason) for reason in run.disbelieved
    )


def _reason(run: RunFact) -> str | None:
    return run.problem or next(iter(run.disbelieved), None)


def _usual_bytes(good: Sequence[RunFact]) -> float | None:
    """Return the bytes a run moves if constant: then a different amount is another workload."""
    values = [moved for run in good if (moved := _moved(run)) is not None]
    middle = median(values) if len(values) >= 2 else 0.0
    return middle if middle > 0 and _is_fixed(values, middle) else None


def _bytes(bad: Sequence[RunFact], good: Sequence[RunFact], usual: float | None) -> Evidence:
    subject = "bytes moved per run"
    sign = Sign("bytes-moved", Route.EXPECTED, subject, unit="B", view=View.PROBE)
    sides = [[moved for run in runs if (moved := _moved(run)) is not None] for runs in (bad, good)]
    if len(sides[0]) < 2 or len(sides[1]) < 2:
        return sign.missing("too-few-runs", "too few runs report how much they moved")
    value, reference = median(sides[0]), median(sides[1])
    moved = (format_bytes(value), format_bytes(reference))
    text = f"{subject}: {moved[0]} in the bad hours, {moved[1]} in the good ones"
    weight = 0.0
    if reference <= 0:
        return sign.weighed(text, 0.0, value=value, reference=reference)
    if usual is None:
        text += "; the amount is not fixed"
    elif abs(value / reference - 1) > _BYTES_APART:
        weight = 1.5
        text += f" ({format_percent(value / reference, 1)})"
    else:
        weight = -1.0
    return sign.weighed(text, weight, value=value, reference=reference)


def _moved(run: RunFact) -> float | None:
    # A run that ended early moved less for that reason.
    if run.status not in (RunStatus.OK, RunStatus.INVALID_WORKLOAD):
        return None
    parts = [size for size in (run.bytes_written, run.bytes_read) if size is not None]
    moved = sum(parts)
    return moved if parts and math.isfinite(moved) else None


def _is_fixed(values: Sequence[float], middle: float) -> bool:
    """Return whether runs move a constant amount, so that a different one is another workload."""
    near = sum(abs(value / middle - 1) <= _BYTES_APART / 5 for value in values)
    return near >= 0.8 * len(values)


def _counts(
    bad: Sequence[RunFact], good: Sequence[RunFact], noun: str, of: Callable[[RunFact], int | None]
) -> Evidence:
    sign = Sign(f"{noun}-of-run", Route.EXPECTED, f"{noun} of a run", unit="1", view=View.PROBE)
    # Probes differ in what they request: compare each run with its own probe.
    of_probe: dict[str, Counter[int]] = {}
    for run in good:
        if (n := of(run)) is not None:
            of_probe.setdefault(run.probe, Counter())[n] += 1
    usual = {probe: counts.most_common(1)[0][0] for probe, counts in of_probe.items()}
    differ = [
        [n != usual[run.probe] for run in runs if run.probe in usual and (n := of(run)) is not None]
        for runs in (bad, good)
    ]
    if not differ[0] or not differ[1]:
        return sign.missing("count-unknown", f"the runs do not report {noun}")
    other, before = (sum(side) / len(side) for side in differ)
    sizes = " or ".join(str(n) for n in sorted(set(usual.values())))
    text = f"{format_percent(other, 0)} of the bad runs differed from the usual {sizes} {noun}"
    apart = other - before >= _SHARE
    return sign.weighed(text, 1.2 * other if apart else -0.3, value=other, reference=before)


WORKLOAD_MISMATCH: Final = Cause(
    id="workload-mismatch",
    title="a probe that ran another workload than requested",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess_workload_mismatch,
    acts_on=always_at("client"),
    signs=("workload-invalid", "bytes-moved", "nodes-of-run", "tasks-of-run"),
    measurement=(
        "Run the probe by hand and compare bytes, tasks, nodes and time with its section in the "
        "site file."
    ),
)


_LAUNCHER_CODES: Final = frozenset({
    "controller-silent", "never-started", "program-not-executable", "program-not-found",
    "program-not-started", "slurm-unusable", "step-not-started", "tool-not-found",
})  # fmt: skip
_NOT_MEASURED: Final = (RunStatus.NOT_STARTED, RunStatus.FAILED)
_ALL_SILENT: Final = 1.2
_ONE_RUN: Final = 4
"""Discount for a single run without figures: that happens now and then."""
_MEASURED: Final = -1.5
_WORDS_NAMES: Final = 1.8
_WORDS_LAUNCHER: Final = 1.4
_NOT_BEGUN: Final = 0.9
_EVENT: Final = 1.2
_NEAR: Final = timedelta(hours=2)
_SLOW: Final = 0.5
"""Share of the loss from which a measured run counts as slow."""


def assess_launch_failure(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against runs that never started.

    The launcher failed, or a name was not resolved, as on one of NERSC's 13 bad days: "a
    system-wide issue with the proper resolution of DNS addresses" [S1, VII]. Nothing was measured,
    so nothing is known about the file system: it is never called slow.
    """
    bad, good = runs_of_probe(context)
    return (
        _silent(bad, good),
        _words(bad, good),
        _measured(context, bad, good),
        _logged(context),
        _others_served(context),
    )


def _silent(bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    sign = Sign(
        "runs-not-started", Route.TIME, "runs failed or did not start", unit="1", view=View.PROBE
    )
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    none, before = ([run for run in runs if _is_silent(run)] for runs in (bad, good))
    share, reference = len(none) / len(bad), len(before) / len(good) if good else None
    failed, usual = ([run for run in runs if _has_failed(run)] for runs in (bad, good))
    text = f"{len(failed)} of {len(bad)} {sign.subject} in the bad hours"
    text += f", {len(none)} of them before they measured" if len(none) < len(failed) else ""
    text += "" if reference is None else f"; {len(usual)} of {len(good)} in the good ones"
    sure = len(bad) / (len(bad) + (1 if len(none) > 1 else _ONE_RUN))
    more = share - (reference or 0.0)
    weight = _ALL_SILENT * sure * more if more > 0 else (_MEASURED * sure if not none else 0.0)
    first = none[0] if none else None
    return sign.weighed(
        text, weight, first, value=len(failed) / len(bad),
        reference=len(usual) / len(good) if good else None, quantity="runs-failed",
    )  # fmt: skip


def _has_failed(run: RunFact) -> bool:
    return run.status in _NOT_MEASURED or _is_silent(run)


def _is_silent(run: RunFact) -> bool:
    """Return whether a run measured nothing; one that hung resolving names did not either."""
    if run.values:
        return False
    # A run that failed for its own reason was launched: a node crashed, a disk was full.
    launched = run.status is RunStatus.FAILED and bool(run.problem) and not _speaks(run)
    return (run.status in _NOT_MEASURED and not launched) or _speaks(run)


def _words(bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    subject = "launcher or name resolution errors"
    sign = Sign("launch-words", Route.RUNS, subject, unit="1", view=View.PROBE)
    ended = [run for run in bad if run.status not in (RunStatus.OK, RunStatus.INVALID_WORKLOAD)]
    explained = [run for run in ended if run.problem]
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    if not ended:
        return sign.weighed(
            f"no {subject}: every run finished", -0.8, code="runs-ended-well", unit=None
        )
    if not explained:
        return sign.missing("no-problem-text", "the failed runs give no reason")
    names = [run for run in explained if NAME_ERRORS.search(run.problem or "")]
    launcher = [run for run in explained if run not in names and _of_launcher(run)]
    some, strength = (names, _WORDS_NAMES) if names else (launcher, _WORDS_LAUNCHER)
    code, kind = (
        ("names-unresolved", "name resolution") if names else ("launcher-failed", "a launcher")
    )
    if not some:
        some = [run for run in explained if never_began(run)]
        strength, code = _NOT_BEGUN, "run-never-began"
    if not some:
        common = Counter(run.problem for run in explained).most_common(1)[0][0]
        text = f"no {subject} in {len(explained)} failed runs; most common: {common}"[:240]
        return sign.weighed(
            text, -0.8 * len(explained) / (len(explained) + 1), code="other-words", value=0.0
        )
    # Relative to all bad runs: two failed launches do not explain ten slow runs.
    # Without names a run that has started hangs until its deadline: that explains it as well.
    waiting = [run for run in bad if names and run.status is RunStatus.UNFINISHED]
    share = len({run.id for run in (*names, *launcher, *some, *waiting)}) / len(bad)
    usually = sum(_speaks(run) for run in good) / len(good) if good else 0.0
    report = "never began" if code == "run-never-began" else f"report {kind}"
    text = f"{len(some)} of {len(bad)} runs {report}: {some[0].problem}"[:240]
    # A reason that the run itself gives is surer than that it never began.
    sure = len(some) / (len(some) + (0.5 if code == "run-never-began" else 0.25))
    weight = strength * sure * max(0.0, share - usually) / (1 - min(usually, 0.5))
    return sign.weighed(text, weight, some[0], code=code, value=share, reference=usually)


def _of_launcher(run: RunFact) -> bool:
    """Return whether a run that never measured reports a launcher problem.

    A run that timed out may name its launcher too: it was running, so the file system is
    responsible.
    """
    text = run.problem or ""
    if FILE_SYSTEM_ERRORS.search(text) is not None:
        return False
    return run.status in _NOT_MEASURED and (
        code_of(run.problem) in _LAUNCHER_CODES or is_of_launcher(text)
    )


def _speaks(run: RunFact) -> bool:
    return _of_launcher(run) or NAME_ERRORS.search(run.problem or "") is not None


def _measured(context: Context, bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    """Return whether the bad runs that did measure were slow: a launcher slows none of them."""
    sign = Sign(
        "runs-measured", Route.EXPECTED, "speed of the bad runs that did measure", view=View.PROBE
    )
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    hung = [run for run in bad if run.status is RunStatus.UNFINISHED and not _speaks(run)]
    if hung and not any(NAME_ERRORS.search(run.problem or "") for run in bad):
        # They were started, then waited for the file system.
        text = f"{len(hung)} of {len(bad)} runs started but did not finish in time"
        return sign.weighed(text, -1.5 * len(hung) / len(bad), against=Against.RIVAL)
    ended = (RunStatus.OK, RunStatus.PARTIAL)
    values = levels(context, [run for run in bad if run.status in ended])
    usual = levels(context, good)
    if not values:
        silent = all(run.status in _NOT_MEASURED for run in bad)
        text = "no run of the bad hours measured anything"
        return sign.weighed(text, 0.3 if silent else 0.0)
    if not usual:
        return sign.missing("no-good-runs", "no run in good hours to compare with")
    slow = _slow(context, values, median(usual))
    share = slow / len(bad)
    text = f"{slow} of {len(values)} runs that did measure in the bad hours were slow"
    weight = -1.5 * share if slow else 0.3
    return sign.weighed(text, weight, value=share, reference=0.0, unit="1", against=Against.RIVAL)


def _slow(context: Context, values: Sequence[float], usual: float) -> int:
    """Return how many runs lost half as much as the incident; without a ratio, a tenth."""
    key, effect = context.incident.key, context.incident.effect
    lost = 1 - min(effect, 0.95) if effect is not None and 0 < effect < 1 else 0.2
    sign = 1.0 if key is None or key.more_is_better else -1.0
    return sum(sign * (1 - value / usual) > _SLOW * lost for value in values)


def _logged(context: Context) -> Evidence:
    """Return whether the log book contains failed launches."""
    sign = Sign("launch-failure-logged", Route.LOG, view=View.LOG)
    failures = context.entries(
        lambda event: event.kind is EventKind.LAUNCH_FAILURE or NAME_ERRORS.search(event.detail)
    )
    within = [
        event
        for event in failures
        if any(
            event.at <= window.to + _NEAR and event.end >= window.from_ - _NEAR
            for window in context.bad
        )
    ]
    if not within:
        text = "the log book has no failed launch in the bad hours"
        return sign.weighed(text, 0.0, code="launch-failure-not-logged")
    # Where failed launches are frequent, one in the bad hours weighs less.
    usual = len(failures) - len(within)
    first = within[0]
    text = f"the log book has failed launches at {first.at:%d %B %H:%M}: {first.detail[:160]}"
    return sign.weighed(text, _EVENT / (1 + usual), first)


def _others_served(context: Context) -> Evidence:
    seen = observe(context)
    sign = Sign(
        "others-served",
        Route.TIME,
        "whether the file system served others meanwhile",
        unit="B/s",
        view=View.TRAFFIC,
    )
    rates = seen.rates("client_bytes_written_total", kinds=OSTS)
    if rates.is_empty():
        return sign.not_available(seen.why_not("client_bytes_written_total"))
    contrast = in_time(rates, worse="lower", ratio=2.0, absent=0.0, over="sum")
    if contrast.reason is not None or contrast.value is None:
        return sign.not_available(contrast.reason or Message("no-rate", "no rate is known"))
    # The probe's own traffic is missing, so only a large drop counts, and not for much.
    share = contrast.value / contrast.reference if contrast.reference else 1.0
    text = f"clients wrote {format_percent(share, 0)} of what they usually write meanwhile"
    return sign.counted(text, 0.0, contrast, source="client_bytes_written_total")


LAUNCH_FAILURE: Final = Cause(
    id="launch-failure",
    title="name resolution or launch failure: nothing was measured",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess_launch_failure,
    acts_on=always_at("client"),
    signs=(
        "runs-not-started",
        "launch-words",
        "names-unresolved",
        "launcher-failed",
        "run-never-began",
        "launch-failure-logged",
    ),
    measurement=(
        "On a client node resolve the servers' names (getent hosts) and start an empty job as the "
        "probe is started; then run the probe once by hand."
    ),
)
