"""``trimtab judge SITE``: from what is kept to what months of it say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.config.problems import did_you_mean
from trimtab.errors import UsageError
from trimtab.judge.changes import Recollection
from trimtab.judge.frame import between, frame_of
from trimtab.judge.series import judge_series
from trimtab.judge.targets.tails import target_tails
from trimtab.judge.variability import higher_is_better
from trimtab.loop.event_log import Place
from trimtab.loop.judging import by_metric
from trimtab.loop.status import rejected_among, series_apart, sweeps_of
from trimtab.loop.watching.agenda import PROBE_PREFIX
from trimtab.loop.workers import Together, one_by_one
from trimtab.message import Message
from trimtab.model.check import HistoryPoint
from trimtab.model.run import METRIC_UNITS, RunStatus
from trimtab.model.series import (
    RUNS_LEFT_OUT,
    InvalidRun,
    SeriesJudgement,
    SeriesKey,
    SiteJudgement,
    TargetTails,
)
from trimtab.model.site import SiteLimits
from trimtab.model.status import RejectedSeries
from trimtab.report.text import levels_text
from trimtab.units import plural, whole_second
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    import polars as pl

    from trimtab.record.kept import LeftOut, Series
    from trimtab.record.store import Store

Progress = Callable[[str, float], None]
Recollections = MutableMapping[SeriesKey, Recollection]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is judged, and by what.

    Attributes
    ----------
    since, until
        As a person writes them; all that is kept where ``None``.
    probe, metric
        Only this one; all where ``None``.
    goal, window_s
        Of the site file where ``None``.
    """

    since: str | None = None
    until: str | None = None
    probe: str | None = None
    metric: str | None = None
    goal: float | None = None
    window_s: float | None = None

    def limits(self, place: Place) -> SiteLimits:
        """Return the limits of a site with what was asked in place of its own."""
        limits = place.limits
        cov = limits.cov if self.goal is None else self.goal
        window_s = limits.window_s if self.window_s is None else self.window_s
        return replace(limits, cov=cov, window_s=window_s)


@dataclass(frozen=True, slots=True)
class Judged:
    """What was judged, with the frames that it was judged by.

    Attributes
    ----------
    store, file
        Where it comes from: one of them.
    surveys
        One row a target measured by itself: at, run, target, server, metric, value.
    """

    judgement: SiteJudgement
    frames: Mapping[SeriesKey, pl.DataFrame] = field(default_factory=dict)
    surveys: pl.DataFrame | None = None
    left_out: Mapping[SeriesKey, tuple[LeftOut, ...]] = field(default_factory=dict)
    store: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class _OfSeries:
    """What is to be said of one series."""

    frame: pl.DataFrame
    key: SeriesKey
    limits: SiteLimits
    timezone: str
    since: datetime | None
    due: tuple[datetime, ...] | None
    left: tuple[LeftOut, ...]
    asked: Mapping[str, object]
    recollection: Recollection | None = None

    def fingerprint(self) -> tuple[object, ...]:
        """Return what is equal for two questions that have the same answer."""
        limits, requested = self.limits, sorted(map(repr, self.asked.items()))
        rest = (limits.cov, limits.window_s, self.timezone, self.since, self.due, self.left)
        return (self.key, *rest, *requested, *_content(self.frame))

    def answer(self) -> SeriesJudgement:
        """Return what is said of it."""
        return judge_series(
            self.frame,
            self.key,
            goal=self.limits.cov,
            window_s=self.limits.window_s,
            timezone=self.timezone,
            since=self.since,
            schedule=self.due,
            invalid=_invalid(self.left),
            requested=self.asked,
            changes=self.recollection,
        )


def _content(frame: pl.DataFrame) -> tuple[object, ...]:
    """Return rows and columns of a frame in few digits."""
    import hashlib

    rows = frame.hash_rows(seed=1).to_numpy().tobytes()
    return (tuple(frame.columns), frame.height, hashlib.sha256(rows).hexdigest())


@dataclass(frozen=True, slots=True)
class _OfTargets:
    """What is to be said of single targets by one metric."""

    surveys: pl.DataFrame
    metric: str
    timezone: str

    def fingerprint(self) -> tuple[object, ...]:
        """Return what is equal for two questions that have the same answer."""
        return (self.metric, self.timezone, *_content(self.surveys))

    def answer(self) -> TargetTails:
        """Return what is said of them."""
        return target_tails(self.surveys, self.metric, timezone=self.timezone)


def judge_site(
    store: Store,
    place: Place,
    terms: Terms | None = None,
    *,
    together: Together = one_by_one,
    recollections: Recollections | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Judged:
    """Return what is said of every series of a site, and of its targets one by one.

    Parameters
    ----------
    together
        Answers for all series and metrics, side by side where there is more than one processor.
    recollections
        What the last look of this process found, where it answers alone: kept for the next one.

    Raises
    ------
    UsageError
        Nothing is kept of it, or nothing of what was asked for; or all runs were rejected: why.
    """
    terms = terms or Terms()
    limits = terms.limits(place)
    since, until = place.moment(terms.since), place.moment(terms.until, end=True)
    stored = series_of(store, place.name, terms.probe)
    histories = {
        (series.site, series.comparability): store.history(
            series.site, series.comparability, until=until
        )
        for series in stored
    }
    apart = series_apart(store, stored, histories)
    frames: dict[SeriesKey, pl.DataFrame] = {}
    left_out: dict[SeriesKey, tuple[LeftOut, ...]] = {}
    questions: list[_OfSeries] = []
    for series in stored:
        left = store.left_out(place.name, series.comparability)
        due = _due(store, place.name, series)
        points = histories[series.site, series.comparability]
        requested = apart.get((series.site, series.comparability), {})
        for key, frame in frames_of(series, points, terms.metric, apart=levels_text(requested)):
            frames[key], left_out[key] = frame, left
            known = None if recollections is None else recollections.setdefault(key, Recollection())
            questions.append(
                _OfSeries(frame, key, limits, place.timezone, since, due, left, requested, known)
            )
    surveys = _surveys(store, place.name, since, until)
    answers = together([*questions, *_of_targets(surveys, place, terms)])
    judged: list[SeriesJudgement] = []
    for question in questions:
        progress(f"judging {visible(question.key.probe)}", len(judged) / (len(questions) + 1))
        judged.append(next(answers))
    progress("judging single targets", len(questions) / (len(questions) + 1))
    tails: tuple[TargetTails, ...] = tuple(answers)
    has_content = any(series.overall.n or series.invalid or series.missing for series in judged)
    # A probe that is named is what is asked about, not the targets that surveys measured.
    if not has_content and (not tails or terms.probe is not None):
        raise _nothing_to_judge(store, place, terms, rejected_among(store, stored, histories))
    judgement = SiteJudgement(
        site=place.name,
        from_=edge(frames, min, since, until),
        to=edge(frames, max, since, until),
        series=tuple(sorted(judged, key=_most_runs_first)),
        tails=tails,
        notes=left_out_notes(store, place.name, terms.probe),
    )
    progress("judged", 1.0)
    return Judged(judgement, frames, surveys, left_out, store=str(store.location))


NOTHING_TO_JUDGE: Final = frozenset({"no-series", "runs-rejected"})
"""Codes of the errors of a site of which no run can be judged yet."""


def _nothing_to_judge(
    store: Store, place: Place, terms: Terms, rejected: Iterator[RejectedSeries]
) -> UsageError:
    """Return what to say where no run can be judged: why not, where there are runs."""
    for series in rejected:
        return UsageError(
            f"none of the {plural(series.runs, 'run')} of {visible(series.probe)} can be judged: "
            f"{visible(series.reason)}",
            code="runs-rejected",
            hint="trimtab runs lists them, trimtab show RUN shows one with its output",
        )
    name = visible(place.name)
    for note in left_out_notes(store, place.name, terms.probe):
        return UsageError(
            f"nothing of {name} can be judged; {note}",
            code="no-series",
            hint=f"trimtab runs --site {shell_text([place.name])} lists them",
        )
    snapshot = None if store.series(place.name) else store.latest_snapshot(place.name)
    if snapshot is not None:
        at = whole_second(snapshot.at)
        return UsageError(
            f"no run of {name} is stored, only what its targets looked like",
            code="no-series",
            hint=f"trimtab targets {shell_text([place.name])} --at {at}",
        )
    return UsageError(
        f"no matching series is stored for {name}",
        code="no-series",
        hint=mistyped(store, place, terms.probe, terms.metric)
        or "trimtab status lists the series; check --since, --until, --probe and --metric",
    )


_LEFT_OUT: Final = {
    "no-time": "without a time (import their files again, with --timezone or --at)",
    "only-summaries": "with summaries alone (for several iterations run mdtest with -v)",
    "not-believed": "with figures that are not believed (trimtab show RUN says why)",
    "failed": "that failed or did something else",
}


def left_out_notes(store: Store, site: str, probe: str | None) -> tuple[Message, ...]:
    """Return what of a site is in no series, and what would bring it in; nothing if all is."""
    counts = store.unjudged(site, probe)
    parts = [f"{counts[why]:,} {text}" for why, text in _LEFT_OUT.items() if why in counts]
    if not parts:
        return ()
    noun = "run" if sum(counts.values()) == 1 else "runs"
    return (Message(RUNS_LEFT_OUT, f"{noun} left out: {', '.join(parts)}"),)


def mistyped(store: Store, place: Place, probe: str | None, metric: str | None) -> str | None:
    """Return which probe or metric may have been meant; ``None`` where both are known."""
    probes = {entry.probe for entry in store.series(place.name)}
    for word, known in ((probe, probes), (metric, METRIC_UNITS)):
        if word is not None and word not in known and (near := did_you_mean(word, known)):
            return near
    return None


def series_of(store: Store, site: str, probe: str | None) -> list[Series]:
    """Return the series of a site, or of one probe; the settings of a sweep are left out."""
    stored = [entry for entry in store.series(site) if probe in (None, entry.probe)]
    of_sweeps = {(entry.site, entry.probe) for entry in sweeps_of(store, stored)}
    return [entry for entry in stored if (entry.site, entry.probe) not in of_sweeps]


def frames_of(
    series: Series, points: Sequence[HistoryPoint], only: str | None, *, apart: str = ""
) -> list[tuple[SeriesKey, pl.DataFrame]]:
    """Return each metric of a series, or one, with its frame; ``apart`` is of its name."""
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


def _due(store: Store, site: str, series: Series) -> tuple[datetime, ...] | None:
    """Return when runs of a probe were due, as the watch kept it; ``None``: it did not watch."""
    slots = store.slots(site, item=PROBE_PREFIX + series.probe)
    return tuple(slot.due_at for slot in slots) or None


def _invalid(left: Sequence[LeftOut]) -> tuple[InvalidRun, ...]:
    return tuple(
        InvalidRun(run.run, run.at, run.reason)
        for run in left
        if run.status is RunStatus.INVALID_WORKLOAD
    )


def _surveys(
    store: Store, site: str, since: datetime | None, until: datetime | None
) -> pl.DataFrame:
    """Return what was measured of single targets, each with the server that serves it now."""
    import polars as pl

    frame = store.survey_frame(site, since=since, until=until)
    last = None if frame.is_empty() else store.latest_snapshot(site)
    targets = () if last is None else last.targets
    servers = {target.target.name: target.target.server for target in targets}
    named = pl.DataFrame(
        {"target": list(servers), "server": list(servers.values())},
        schema={"target": pl.String, "server": pl.String},
    )
    return frame.join(named, on="target", how="left", maintain_order="left")


def _of_targets(surveys: pl.DataFrame, place: Place, terms: Terms) -> Iterator[_OfTargets]:
    import polars as pl

    for metric in surveys["metric"].unique(maintain_order=True).to_list():
        if terms.metric in (None, metric) and METRIC_UNITS.get(metric) != "B":
            of_metric = surveys.filter(pl.col("metric") == metric)
            yield _OfTargets(of_metric, metric, place.timezone)


def edge(
    frames: Mapping[SeriesKey, pl.DataFrame],
    outermost: Callable[[list[datetime]], datetime],
    since: datetime | None = None,
    until: datetime | None = None,
) -> datetime | None:
    """Return the first or last time of all frames in a stretch; ``None`` where it has no run."""
    stretches = [between(frame, since, until)["at"] for frame in frames.values()]
    times = [times[place] for times in stretches if len(times) for place in (0, -1)]
    return outermost(times) if times else None


def _most_runs_first(judged: SeriesJudgement) -> tuple[int, bool, str, str]:
    return (
        -judged.overall.n,
        not judged.key.metric.startswith("write"),
        judged.key.probe,
        judged.key.metric,
    )
