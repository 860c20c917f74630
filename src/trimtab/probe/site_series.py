"""Lists the series of a site, what distinguishes them, and the runs that belong to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message, UsageError, shell_text, visible
from trimtab.base.maintenance_window import IN_MAINTENANCE
from trimtab.base.run import ASKED, METRIC_UNITS, Run, grouped, higher_is_better
from trimtab.base.series import RUNS_LEFT_OUT, SeriesKey
from trimtab.base.text import levels_text
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.units import plural, whole_second
from trimtab.base.verdict import HistoryPoint, by_metric
from trimtab.explain.status import BENCHMARK, RejectedSeries, SweepStatus
from trimtab.judge.series_frame import frame_of
from trimtab.judge.sweep_result import SWEEP
from trimtab.site.place import Place
from trimtab.store.kept import Keeping, RestsOn
from trimtab.store.kept_period import KeptPeriods, in_order

if TYPE_CHECKING:
    import polars as pl

    from trimtab.store.kept import Series
    from trimtab.store.store import Store


KeptKey = tuple[str, str]
"""Site and comparability of a stored series: `trimtab.store.kept.Series.key`."""
_SWEEP_PREFIX: Final = "sweep-"


def last_runs(stored: Sequence[Series], look: Keeping) -> dict[KeptKey, str | None]:
    """Return the last run that can be judged of each series of a site; ``None`` if none can."""

    def last(entry: Series) -> str | None:
        points = look.history(entry)
        return points[-1].run if points else None

    return {
        entry.key: look.remembered(
            f"last run of {entry.comparability}",
            str | None,
            _runs_of(entry),
            lambda entry=entry: last(entry),
        )
        for entry in stored
    }


def _runs_of(entry: Series) -> RestsOn:
    return lambda sums: sums.runs.get(entry.comparability)


def rejected_among(
    store: Store, stored: Sequence[Series], last_runs: Mapping[KeptKey, str | None]
) -> Iterator[RejectedSeries]:
    """Yield the series without a run that can be judged, each with the most frequent reason."""
    for entry in stored:
        left = () if last_runs[entry.key] else store.left_out(*entry.key)
        if not left:
            continue
        (reason, count), *others = Counter(run.reason for run in left).most_common()
        text = f"{reason} ({count} of {len(left)})" if others else reason
        yield RejectedSeries(entry.site, entry.probe, entry.kind, len(left), text)


def sweeps_of(store: Store, stored: Sequence[Series]) -> tuple[SweepStatus, ...]:
    """Return the sweeps among series: their settings, each a series, would hide the others."""
    of_sweeps = (entry for entry in stored if entry.probe.startswith(_SWEEP_PREFIX))
    by_sweep = grouped(of_sweeps, attrgetter("site", "probe"))
    sweeps = []
    for (site, probe), series in by_sweep.items():
        newest = store.runs(site=site, probe=probe, limit=1)
        if newest and SWEEP in newest[0].parameters:  # else a probe that has such a name
            name, runs = probe.removeprefix(_SWEEP_PREFIX), sum(entry.runs for entry in series)
            sweeps.append(SweepStatus(site, name, probe, len(series), runs))
    return tuple(sweeps)


def series_apart(
    store: Store, stored: Sequence[Series], last_runs: Mapping[KeptKey, str | None]
) -> dict[KeptKey, dict[str, object]]:
    """Return what distinguishes the series of each probe, according to their last runs.

    The keys are site and comparability; series that are alone are left out. No two series of a
    probe have equal texts (`trimtab.base.text.levels_text`): the benchmark is named if a probe has
    several, and the beginning of its comparability key for a series that would read like another.
    """
    judged = (entry for entry in stored if last_runs[entry.key])
    differences: dict[KeptKey, dict[str, object]] = {}
    for series in grouped(judged, attrgetter("site", "probe")).values():
        if len(series) > 1:
            requested = [_requested(store.run(str(last_runs[entry.key]))) for entry in series]
            differences |= distinct_settings(series, requested)
    return differences


_KEY_LEAST: Final = 6
"""Digits of a comparability key that a name shows at least."""


def distinct_settings(
    series: Sequence[Series], requested: Sequence[Mapping[str, object]]
) -> dict[KeptKey, dict[str, object]]:
    """Return of the series of one probe the settings in which each differs from the others.

    Parameters
    ----------
    requested
        What was asked for in a run of each.
    """
    kinds = {entry.kind for entry in series}
    settings: dict[KeptKey, dict[str, object]] = {}
    for kind in sorted(kinds):
        alike = [pair for pair in zip(series, requested, strict=True) if pair[0].kind == kind]
        names = dict.fromkeys(name for _, values in alike for name in values)
        differing = [
            name for name in names if len({repr(values.get(name)) for _, values in alike}) > 1
        ]
        for entry, values in alike:
            named: dict[str, object] = {BENCHMARK: kind} if len(kinds) > 1 else {}
            settings[entry.key] = named | {
                name: values.get(name) for name in differing if name not in named
            }
    for same in grouped(settings, lambda key: levels_text(settings[key])).values():
        if len(same) > 1:  # rounded alike, or different in what no run states
            for key, beginning in zip(same, _beginnings([key[1] for key in same]), strict=True):
                settings[key] |= {"series": beginning}
    return settings


def _beginnings(keys: Sequence[str]) -> list[str]:
    """Return the shortest beginnings of different keys that differ as well."""
    longest = max(map(len, keys))
    for length in range(_KEY_LEAST, longest):
        beginnings = [key[:length] for key in keys]
        if len(set(beginnings)) == len(keys):
            return beginnings
    return [*keys]


def _requested(run: Run) -> dict[str, object]:
    """Return the requested parameters, options and settings of a run, and its layer."""
    recorded = run.parameters.get(ASKED, run.parameters)
    values: dict[str, object] = {}
    for name, value in recorded.items() if isinstance(recorded, dict) else ():
        values |= value if isinstance(value, dict) else {name: value}
    layer = run.parameters.get("layer")
    return values if layer in (None, "client") else {**values, "layer": layer}


def surveying_series(look: Keeping) -> list[Series]:
    """Return the series of a site with a run that measured single targets."""
    return [
        entry
        for entry in look.series()
        if look.remembered(
            f"{_SURVEYING} {entry.comparability}",
            bool,
            _runs_of(entry),
            lambda entry=entry: _measures_targets(look, entry),
        )
    ]


_SURVEYING: Final = "whether targets are measured by"


def _measures_targets(look: Keeping, entry: Series) -> bool:
    """Return whether a series measured single targets in any period: only new ones are read."""
    name = entry.comparability
    periods = in_order(at for of, at in look.sums.runs_in if of == name)
    noun = f"{_SURVEYING} {name}"
    rests_on = lambda at: lambda sums: sums.runs_in.get((name, at))  # noqa: E731
    measured = KeptPeriods[bool](look, noun, bool, rests_on, periods)
    made = (look.store.measures_targets(*entry.key, period) for period in measured.missing)
    return any(measured.filled(made))


NOTHING_TO_JUDGE: Final = frozenset({"no-series", "runs-rejected"})
"""Codes of the errors for a site without any run that can be judged yet."""


def nothing_to_judge(
    look: Keeping,
    place: Place,
    rejected: Iterator[RejectedSeries],
    *,
    probe: str | None,
    metric: str | None,
) -> UsageError:
    """Return the error for a site without a run that can be judged, with the reason."""
    store = look.store
    for series in rejected:
        return UsageError(
            f"none of the {plural(series.runs, 'run')} of {visible(series.probe)} can be judged: "
            f"{visible(series.reason)}",
            code="runs-rejected",
            hint="trimtab runs lists them, trimtab show RUN shows one with its output",
        )
    name = visible(place.name)
    for note in left_out_notes(look, probe):
        return UsageError(
            f"nothing of {name} can be judged; {note}",
            code="no-series",
            hint=f"trimtab runs --site {shell_text([place.name])} lists them",
        )
    snapshot = None if store.series(place.name) else store.latest_snapshot(place.name)
    if snapshot is not None:
        at = whole_second(snapshot.at)
        return UsageError(
            f"no run of {name} is stored, only snapshots of its targets",
            code="no-series",
            hint=f"trimtab targets {shell_text([place.name])} --at {at}",
        )
    return UsageError(
        f"no matching series is stored for {name}",
        code="no-series",
        hint=mistyped(store, place, probe, metric)
        or "trimtab status lists the series; check --since, --until, --probe and --metric",
    )


def _left_out(look: Keeping, probe: str, comparabilities: Sequence[str]) -> dict[str, int]:
    """Return why runs of a probe are in no series, and how many are."""
    return look.remembered(
        f"left out of {probe}",
        dict[str, int],
        lambda sums: [sums.runs.get(comparability) for comparability in comparabilities],
        lambda: look.store.unjudged(look.site, probe),
    )


_LEFT_OUT: Final = {
    IN_MAINTENANCE: "in a maintenance",
    "stored-twice": "stored twice, which count once",
    "no-time": "without a time (import their files again, with --timezone or --at)",
    "only-summaries": "with summaries alone (for several iterations run mdtest with -v)",
    "not-believed": "with figures that are not credible (trimtab show RUN says why)",
    "failed": "that failed or did something else",
}


def left_out_notes(look: Keeping, probe: str | None) -> tuple[Message, ...]:
    """Return which runs of a site are in no series, and how to include them; empty if none."""
    counts: Counter[str] = Counter()
    by_probe = grouped(look.series(), attrgetter("probe"))
    for name, series in by_probe.items():
        if probe in (None, name):
            counts.update(_left_out(look, name, [each.comparability for each in series]))
    parts = [f"{counts[why]:,} {text}" for why, text in _LEFT_OUT.items() if why in counts]
    if not parts:
        return ()
    noun = "run" if sum(counts.values()) == 1 else "runs"
    return (Message(RUNS_LEFT_OUT, f"{noun} left out: {', '.join(parts)}"),)


def mistyped(store: Store, place: Place, probe: str | None, metric: str | None) -> str | None:
    """Return the probe or metric that may have been meant; ``None`` if both are known."""
    probes = {entry.probe for entry in store.series(place.name)}
    for word, known in ((probe, probes), (metric, METRIC_UNITS)):
        if word is not None and word not in known and (near := did_you_mean(word, known)):
            return near
    return None


def series_of(store: Store, stored: Iterable[Series], probe: str | None) -> list[Series]:
    """Return the series of a probe, or all; the settings of a sweep are left out."""
    wanted = [entry for entry in stored if probe in (None, entry.probe)]
    of_sweeps = {(entry.site, entry.probe) for entry in sweeps_of(store, wanted)}
    return [entry for entry in wanted if (entry.site, entry.probe) not in of_sweeps]


def frames_of(
    series: Series, points: Sequence[HistoryPoint], only: str | None, *, apart: str = ""
) -> list[tuple[SeriesKey, pl.DataFrame]]:
    """Return each metric of a series, or one, with its frame; ``apart`` is part of its name."""
    frames = []
    for metric, of_metric in by_metric(points):
        if only not in (None, metric):
            continue
        key = SeriesKey(
            site=series.site,
            probe=series.probe,
            kind=series.kind,
            metric=metric,
            unit=METRIC_UNITS[metric],
            comparability=series.comparability,
            more_is_better=higher_is_better(metric),
            apart=apart,
        )
        frames.append((key, frame_of(of_metric)))
    return frames
