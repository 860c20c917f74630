"""`workload-mismatch`: the probe ran a different workload than requested. Not a slow file system.

Edison's `dbscan_read` moved 0.02 GiB instead of 1,536 from 23 August to 7 September 2017: a broken
probe [S9, errata].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from trimtab.base.incident import Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.base.units import format_bytes, format_percent
from trimtab.explain.causes.evidence import UNSEEN
from trimtab.explain.causes.run_evidence import has_figure, metric_of, runs_of_probe
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.contrast import NO_BAD_RUNS, Sign
from trimtab.judge.credibility import is_from_memory

_OTHER: Final = 2.0
_AS_ASKED: Final = -0.8
"""No more than this: imported runs have no request to miss."""
_BYTES_APART: Final = 0.05
"""A difference of a twentieth in bytes moved is another workload: a probe's bytes are fixed, or
follow from its bandwidth, and then `_bytes` says nothing."""
_TELLS: Final = (RunStatus.OK, RunStatus.PARTIAL, RunStatus.INVALID_WORKLOAD)
_SHARE: Final = 0.25


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a probe that ran another workload."""
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
    sign = Sign("workload-invalid", Route.RUNS, "runs of another workload than requested", unit="1")
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
    sign = Sign("runs-not-judged", Route.EXPECTED, "runs that may not be judged", unit="1")
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
    sign = Sign("bytes-moved", Route.EXPECTED, subject, unit="B")
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
    sign = Sign(f"{noun}-of-run", Route.EXPECTED, f"{noun} of a run", unit="1")
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


CAUSE: Final = Cause(
    id="workload-mismatch",
    title="a probe that ran another workload than requested",
    prior=UNSEEN,  # no case in [S1]: equal to the other unnamed causes
    assess=assess,
    signs=("workload-invalid", "bytes-moved", "nodes-of-run", "tasks-of-run"),
    measurement=(
        "Run the probe by hand and compare bytes, tasks, nodes and time with its section in the "
        "site file."
    ),
)
