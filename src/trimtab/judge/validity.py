"""Whether runs did what their probe asks for: before any statistic.

A broken probe is not a slow file system: `dbscan_read` on Edison moved 0.02 GiB instead of 1,536
from 23 August 2017 until it did again on 7 September, and printed a hundredth of its bandwidth
(TOKIO-ABC's summaries of Edison, column `darshan_tot_bytes_read_posix`). Where the probe's
parameters are written down they are the measure; in an archive without them it is what the series
did most often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trimtab.model.series import InvalidRun
from trimtab.units import format_bytes

TOLERANCE: Final = 0.005
"""Rounding of printed figures: three significant digits."""

LASTING_S: Final = 30 * 86400.0
"""Another workload that goes on for so long is taken for a probe that was changed on purpose.
Edison's was broken for 15 days."""

RUNS_MINIMUM: Final = 10
"""Fewer runs are no series of their own."""

SHARE_MINIMUM: Final = 0.25
"""What is rarer than this within its own time is no probe but accidents of one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one run was asked for and what it did.

    Attributes
    ----------
    did
        Name of a quantity to its value; names that begin with ``bytes`` are in bytes, all others
        are counts (``opens``, ``tasks``, ``nodes``, ``files``). ``None``: not known.
    asked
        The same quantities as the probe asks for them; empty where that is not written down.
    """

    run: str
    at: datetime | None
    did: Mapping[str, float | None]
    asked: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload that a series carried out again and again.

    Attributes
    ----------
    from_, to
        First and last run; ``None`` where no run has a time.
    n
        How many runs did it.
    """

    figures: Mapping[str, float]
    from_: datetime | None
    to: datetime | None
    n: int


@dataclass(frozen=True, slots=True)
class Workloads:
    """What the runs of a series did.

    Attributes
    ----------
    specs
        The workloads, the commonest first; more than one: the probe was changed, and the runs of
        each are a series of their own.
    spec_of
        Run to its place in ``specs``; invalid and unconfirmed runs have none.
    invalid
        Runs that are not to be judged.
    unconfirmed
        Runs of which nothing is known that could be compared.
    notes
        In words: what else there is to know.
    """

    specs: tuple[WorkloadSpec, ...]
    spec_of: Mapping[str, int]
    invalid: tuple[InvalidRun, ...]
    unconfirmed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def mismatch(
    did: Mapping[str, float | None],
    asked: Mapping[str, float | None],
    *,
    tolerance: float = TOLERANCE,
) -> str | None:
    """Return in words in what a run differs from what was asked; ``None`` where in nothing.

    What is not known on either side is not compared.

    Examples
    --------
    >>> mismatch({"bytes_read": 23625728, "tasks": 2048}, {"bytes_read": 1.649e12, "tasks": 2048})
    'bytes read: 22.5 MiB instead of 1.50 TiB'
    """
    parts = []
    for name, wanted in asked.items():
        found = did.get(name)
        if wanted is None or found is None or _alike(found, wanted, tolerance):
            continue
        parts.append(f"{name.replace('_', ' ')}: {_words(name, found, wanted)}")
    return "; ".join(parts) or None


def invalid_runs(
    runs: Sequence[Workload], *, tolerance: float = TOLERANCE
) -> tuple[InvalidRun, ...]:
    """Return the runs that did not do what they were asked for, in the order given.

    Runs without anything asked are passed over: see `workloads`.
    """
    found = ((run, mismatch(run.did, run.asked, tolerance=tolerance)) for run in runs)
    return tuple(InvalidRun(run.run, run.at, why) for run, why in found if why is not None)


def workloads(
    runs: Sequence[Workload],
    *,
    tolerance: float = TOLERANCE,
    lasting_s: float = LASTING_S,
) -> Workloads:
    """Return what the runs of one series did, where what they were asked for is not written down.

    Parameters
    ----------
    runs
        Of one series, in any order; ``asked`` is not looked at.
    tolerance
        Relative differences up to it are rounding.
    lasting_s
        Another workload over at least so long is a series of its own, not a broken probe.

    Notes
    -----
    The commonest workload is the spec. Another one is a series of its own where it has at least
    `RUNS_MINIMUM` runs over ``lasting_s``, and at least `SHARE_MINIMUM` of the runs between its
    first and its last; every other run is invalid. A workload that is new at the end of the
    record may be either: its runs are invalid until it has lasted, and a note says so.
    """
    dated = sorted(
        (run for run in runs if _known(run.did)),
        key=lambda run: (run.at is None, run.at and run.at.timestamp(), run.run),
    )
    unconfirmed = tuple(run.run for run in runs if not _known(run.did))
    if not dated:
        return Workloads((), {}, (), unconfirmed, ())
    groups = _groups(dated, tolerance)
    first, *others = sorted(groups, key=lambda group: (-len(group), dated.index(group[0])))
    kept = [first, *(group for group in others if _lasting(group, dated, lasting_s))]
    specs = [_spec(group) for group in kept]
    spec_of = {run.run: place for place, group in enumerate(kept) for run in group}
    invalid = tuple(
        InvalidRun(run.run, run.at, _why(run, specs, tolerance))
        for run in dated
        if run.run not in spec_of
    )
    notes = [_note_of_series(specs)] if len(specs) > 1 else []
    recent = _at_the_end(dated, spec_of)
    if recent:
        notes.append(_note_of_end(recent, specs[0], tolerance))
    return Workloads(tuple(specs), spec_of, invalid, unconfirmed, tuple(notes))


def _known(did: Mapping[str, float | None]) -> bool:
    return any(value is not None for value in did.values())


def _alike(found: float, wanted: float, tolerance: float) -> bool:
    return abs(found - wanted) <= tolerance * max(abs(found), abs(wanted))


def _words(name: str, found: float, wanted: float) -> str:
    if not name.startswith("bytes"):
        return f"{found:,.10g} instead of {wanted:,.10g}"
    shown, meant = format_bytes(found), format_bytes(wanted)
    if shown == meant:  # they differ beyond the digits shown
        return f"{found:,.0f} B instead of {wanted:,.0f} B"
    return f"{shown} instead of {meant}"


def _groups(runs: Sequence[Workload], tolerance: float) -> list[list[Workload]]:
    """Return the runs that did the same, by time within each group."""
    names = sorted({name for run in runs for name in run.did})
    steps = {name: _steps([run.did.get(name) for run in runs], tolerance) for name in names}
    groups: dict[tuple[int | None, ...], list[Workload]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(tuple(steps[name][place] for name in names), []).append(run)
    return list(groups.values())


def _steps(values: Sequence[float | None], tolerance: float) -> list[int | None]:
    """Return for each value the number of its cluster: a gap over the tolerance begins a new one.

    Held against the first of its cluster, so that a slow creep does not pass for one value.
    """
    ordered = sorted({value for value in values if value is not None})
    numbers: dict[float, int] = {}
    start, number = None, -1
    for value in ordered:
        if start is None or not _alike(value, start, tolerance):
            start, number = value, number + 1
        numbers[value] = number
    return [None if value is None else numbers[value] for value in values]


def _lasting(group: Sequence[Workload], runs: Sequence[Workload], lasting_s: float) -> bool:
    times = [run.at for run in group if run.at is not None]
    if len(times) < RUNS_MINIMUM or max(times) - min(times) < timedelta(seconds=lasting_s):
        return False
    low, high = min(times), max(times)
    between = sum(run.at is not None and low <= run.at <= high for run in runs)
    return len(times) >= SHARE_MINIMUM * between


def _spec(group: Sequence[Workload]) -> WorkloadSpec:
    names = sorted({name for run in group for name in run.did})
    figures = {}
    for name in names:
        values = Counter(run.did.get(name) for run in group)
        commonest = values.most_common(1)[0][0]
        if commonest is not None:
            figures[name] = commonest
    times = [run.at for run in group if run.at is not None]
    return WorkloadSpec(figures, min(times, default=None), max(times, default=None), len(group))


def _why(run: Workload, specs: Sequence[WorkloadSpec], tolerance: float) -> str:
    """Return in what a run differs from the workload of its own time, else from the commonest."""
    spec = specs[0]
    for other in specs:
        within = run.at and other.from_ and other.to and other.from_ <= run.at <= other.to
        if within:
            spec = other
            break
    found = mismatch(run.did, spec.figures, tolerance=tolerance)
    if found is not None:
        return f"{found} as in {spec.n} runs of its series"
    lacks = [name for name in spec.figures if run.did.get(name) is None]
    return f"its workload is not known whole: no {', '.join(lacks).replace('_', ' ')}"


def _at_the_end(runs: Sequence[Workload], spec_of: Mapping[str, int]) -> list[Workload]:
    """Return the runs after the last valid one, all of which differ."""
    recent: list[Workload] = []
    for run in reversed([run for run in runs if run.at is not None]):
        if run.run in spec_of:
            break
        recent.append(run)
    return recent[::-1]


def _note_of_series(specs: Sequence[WorkloadSpec]) -> str:
    first, *others = specs
    parts = []
    for other in others:
        found = mismatch(other.figures, first.figures) or "other quantities are known"
        when = "" if other.from_ is None else f" from {other.from_:%Y-%m-%d}"
        until = "" if other.to is None else f" to {other.to:%Y-%m-%d}"
        parts.append(f"{other.n} runs{when}{until} had another workload ({found})")
    return "; ".join(parts) + ": a series of its own, not judged with the others"


def _note_of_end(recent: Sequence[Workload], spec: WorkloadSpec, tolerance: float) -> str:
    last = recent[-1]
    found = mismatch(last.did, spec.figures, tolerance=tolerance) or "not known whole"
    since = "" if recent[0].at is None else f" since {recent[0].at:%Y-%m-%d %H:%M}"
    count = f"the last {len(recent)} runs" if len(recent) > 1 else "the last run"
    return (
        f"{count}{since} differ from the others ({found}) and are not judged; if the probe was "
        "changed on purpose, they are the beginning of another series"
    )
