"""Confirm that runs carried out the workload of their probe, before any statistics.

A broken probe is not a slow file system: `dbscan_read` on Edison moved 0.02 GiB instead of 1,536
from 23 August to 7 September 2017, and printed a hundredth of its bandwidth (TOKIO-ABC's summaries
of Edison, column `darshan_tot_bytes_read_posix`). Where the probe's parameters are recorded they
are the reference; in an archive without them it is the most frequent workload of the series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trimtab.message import Message
from trimtab.model.series import InvalidRun
from trimtab.units import format_bytes

TOLERANCE: Final = 0.005
"""Rounding of printed figures: three significant digits."""

LASTING_S: Final = 30 * 86400.0
"""A different workload that lasts this long counts as a deliberate change of the probe. Edison's
probe was broken for 15 days."""

RUNS_MINIMUM: Final = 10
"""Fewer runs do not make a separate series."""

SHARE_MINIMUM: Final = 0.25
"""A workload rarer than this within its own time span is an accident, not a probe."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of one run: requested and measured.

    Attributes
    ----------
    did
        Measured quantities by name; names that begin with ``bytes`` are in bytes, all others are
        counts (``opens``, ``tasks``, ``nodes``, ``files``). ``None``: unknown.
    asked
        The same quantities as requested by the probe; empty where that is not recorded.
    """

    run: str
    at: datetime | None
    did: Mapping[str, float | None]
    asked: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload that runs of a series have in common.

    Attributes
    ----------
    figures
        Quantities by name, as in `Workload.did`.
    from_, to
        First and last run; ``None`` where no run has a time.
    n
        Number of runs.
    """

    figures: Mapping[str, float]
    from_: datetime | None
    to: datetime | None
    n: int


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of the runs of a series.

    Attributes
    ----------
    specs
        The workloads, the commonest first; more than one: the probe was changed, and the runs of
        each form a separate series.
    spec_of
        Run to its index in ``specs``; invalid and unconfirmed runs have none.
    invalid
        Runs that must not be judged.
    unconfirmed
        Runs without any quantity to compare.
    notes
        Codes: ``workload-changed``, ``workload-new-at-end``.
    """

    specs: tuple[WorkloadSpec, ...]
    spec_of: Mapping[str, int]
    invalid: tuple[InvalidRun, ...]
    unconfirmed: tuple[str, ...] = ()
    notes: tuple[Message, ...] = ()


def mismatch(
    did: Mapping[str, float | None],
    requested: Mapping[str, float | None],
    *,
    tolerance: float = TOLERANCE,
) -> str | None:
    """Return how a run differs from the requested workload; ``None`` if it does not.

    Parameters
    ----------
    did, requested
        Measured and requested quantities by name; what is unknown on either side is ignored.
    tolerance
        Relative differences up to this are rounding.

    Examples
    --------
    >>> mismatch({"bytes_read": 23625728, "tasks": 2048}, {"bytes_read": 1.649e12, "tasks": 2048})
    'bytes read: 22.5 MiB instead of 1.50 TiB'
    """
    parts = []
    for name, expected in requested.items():
        measured = did.get(name)
        if expected is None or measured is None or _alike(measured, expected, tolerance):
            continue
        parts.append(f"{name.replace('_', ' ')}: {_words(name, measured, expected)}")
    return "; ".join(parts) or None


def invalid_runs(
    runs: Sequence[Workload], *, tolerance: float = TOLERANCE
) -> tuple[InvalidRun, ...]:
    """Return the runs that differ from their requested workload, in the order given.

    Parameters
    ----------
    runs
        Runs without a requested workload are ignored: for those see `workloads`.
    tolerance
        Relative differences up to this are rounding.
    """
    differences = ((run, mismatch(run.did, run.asked, tolerance=tolerance)) for run in runs)
    return tuple(
        InvalidRun(run.run, run.at, Message("workload-differs", difference))
        for run, difference in differences
        if difference is not None
    )


def workloads(
    runs: Sequence[Workload],
    *,
    tolerance: float = TOLERANCE,
    lasting_s: float = LASTING_S,
) -> Workloads:
    """Infer the workloads of one series where the requested workload is not recorded.

    Parameters
    ----------
    runs
        Of one series, in any order; ``asked`` is ignored.
    tolerance
        Relative differences up to this are rounding.
    lasting_s
        A different workload over at least this many seconds is a separate series, not a broken
        probe.

    Returns
    -------
    Workloads
        The workloads, the runs of each, invalid runs and notes.

    Notes
    -----
    The commonest workload is the reference. Another one is a separate series where it has at
    least `RUNS_MINIMUM` runs over ``lasting_s``, and at least `SHARE_MINIMUM` of the runs between
    its first and its last; every other run is invalid. A workload that is new at the end of the
    record may be either: its runs are invalid until it has lasted, and a note states this.
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
    series = [first, *(group for group in others if _lasting(group, dated, lasting_s))]
    specs = [_spec(group) for group in series]
    spec_of = {run.run: place for place, group in enumerate(series) for run in group}
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


def _alike(first: float, second: float, tolerance: float) -> bool:
    return abs(first - second) <= tolerance * max(abs(first), abs(second))


def _words(name: str, measured: float, wanted: float) -> str:
    if not name.startswith("bytes"):
        return f"{measured:,.10g} instead of {wanted:,.10g}"
    shown, meant = format_bytes(measured), format_bytes(wanted)
    if shown == meant:  # they differ beyond the digits shown
        return f"{measured:,.0f} B instead of {wanted:,.0f} B"
    return f"{shown} instead of {meant}"


def _groups(runs: Sequence[Workload], tolerance: float) -> list[list[Workload]]:
    """Return the runs with the same workload, by time within each group."""
    names = sorted({name for run in runs for name in run.did})
    steps = {name: _steps([run.did.get(name) for run in runs], tolerance) for name in names}
    groups: dict[tuple[int | None, ...], list[Workload]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(tuple(steps[name][place] for name in names), []).append(run)
    return list(groups.values())


def _steps(values: Sequence[float | None], tolerance: float) -> list[int | None]:
    """Return for each value the number of its cluster: a gap over the tolerance starts a new one.

    Compared with the first of its cluster, so that a slow drift is not one value.
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


def _why(run: Workload, specs: Sequence[WorkloadSpec], tolerance: float) -> Message:
    """Return how a run differs from the workload of its own time, else from the commonest."""
    spec = specs[0]
    for other in specs:
        within = run.at and other.from_ and other.to and other.from_ <= run.at <= other.to
        if within:
            spec = other
            break
    difference = mismatch(run.did, spec.figures, tolerance=tolerance)
    if difference is not None:
        return Message("workload-unlike-series", f"{difference} as in {spec.n} runs of its series")
    lacks = [name for name in spec.figures if run.did.get(name) is None]
    return Message(
        "workload-incomplete",
        f"workload only partly known: no {', '.join(lacks).replace('_', ' ')}",
    )


def _at_the_end(runs: Sequence[Workload], spec_of: Mapping[str, int]) -> list[Workload]:
    """Return the runs after the last valid one, all of which differ."""
    recent: list[Workload] = []
    for run in reversed([run for run in runs if run.at is not None]):
        if run.run in spec_of:
            break
        recent.append(run)
    return recent[::-1]


def _note_of_series(specs: Sequence[WorkloadSpec]) -> Message:
    first, *others = specs
    parts = []
    for other in others:
        difference = mismatch(other.figures, first.figures) or "other quantities are known"
        since = "" if other.from_ is None else f" from {other.from_:%Y-%m-%d}"
        until = "" if other.to is None else f" to {other.to:%Y-%m-%d}"
        parts.append(f"{other.n} runs{since}{until} had a different workload ({difference})")
    return Message("workload-changed", "; ".join(parts) + ": judged as a separate series")


def _note_of_end(recent: Sequence[Workload], spec: WorkloadSpec, tolerance: float) -> Message:
    last = recent[-1]
    difference = mismatch(last.did, spec.figures, tolerance=tolerance) or "only partly known"
    since = "" if recent[0].at is None else f" since {recent[0].at:%Y-%m-%d %H:%M}"
    runs = f"the last {len(recent)} runs" if len(recent) > 1 else "the last run"
    return Message(
        "workload-new-at-end",
        f"{runs}{since} had a different workload ({difference}), not judged; if the probe was "
        "changed on purpose, they start a new series",
    )
