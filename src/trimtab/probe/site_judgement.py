"""``trimtab judge SITE``: judges months of a site from the store, every series and target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from trimtab.base.error import visible
from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.schedule import PROBE_PREFIX
from trimtab.base.series import (
    CovAt,
    InvalidRun,
    SeriesJudgement,
    SeriesKey,
    SiteJudgement,
    TargetTails,
)
from trimtab.base.site import SiteLimits
from trimtab.base.text import levels_text
from trimtab.base.verdict import HistoryPoint
from trimtab.judge.series_analysis import changes_of, judge_series
from trimtab.judge.series_frame import between
from trimtab.judge.straggler import target_tails
from trimtab.judge.walk_forward import Walked
from trimtab.probe.kept_windows import KeptWindows
from trimtab.probe.site_series import (
    frames_of,
    last_runs,
    left_out_notes,
    nothing_to_judge,
    rejected_among,
    series_apart,
    series_of,
    surveying_series,
)
from trimtab.probe.survey_record import survey_record
from trimtab.reach.worker_process import Together, one_by_one
from trimtab.site.place import Place
from trimtab.store.kept import Keeping, RestsOn, is_afresh, keeping

if TYPE_CHECKING:
    import polars as pl

    from trimtab.store.kept import LeftOut, Series
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class JudgeTerms:
    """Options of a judgement.

    Attributes
    ----------
    since, until
        Times as the user wrote them; ``None``: the whole record.
    probe, metric
        Only this one; ``None``: all.
    goal, window_s
        ``None``: those of the site file.
    """

    since: str | None = None
    until: str | None = None
    probe: str | None = None
    metric: str | None = None
    goal: float | None = None
    window_s: float | None = None

    def limits(self, place: Place) -> SiteLimits:
        """Return the limits of a site, replaced by those requested."""
        limits = place.limits
        cov = limits.cov if self.goal is None else self.goal
        window_s = limits.window_s if self.window_s is None else self.window_s
        return replace(limits, cov=cov, window_s=window_s)


@dataclass(frozen=True)
class JudgedSite:
    """The judgement of a site, with the frames it used, read on request.

    Attributes
    ----------
    store, file
        Source of the data: one of the two.
    """

    judgement: SiteJudgement
    read_frames: Callable[[], Mapping[SeriesKey, pl.DataFrame]]
    read_surveys: Callable[[], pl.DataFrame] | None = None
    store: str | None = None
    file: str | None = None

    @cached_property
    def frames(self) -> Mapping[SeriesKey, pl.DataFrame]:
        """The runs of each series."""
        return self.read_frames()

    @cached_property
    def surveys(self) -> pl.DataFrame | None:
        """One row per target measured separately: at, run, target, server, metric, value."""
        return None if self.read_surveys is None else self.read_surveys()


@dataclass(frozen=True, slots=True)
class _OfSeries:
    """Question for the judgement of one series."""

    frame: pl.DataFrame
    key: SeriesKey
    limits: SiteLimits
    timezone: str
    since: datetime | None
    until: datetime | None
    due: tuple[datetime, ...] | None
    left: tuple[LeftOut, ...]
    walked: Walked | None
    windows_after: datetime | None

    def answer(self) -> tuple[SeriesJudgement, Walked | None]:
        """Return its judgement, and the state from which the next one continues."""
        invalid = _invalid(self.left)
        changes = changes_of(
            self.frame, self.key, timezone=self.timezone, invalid=invalid, after=self.walked
        )
        judgement = judge_series(
            self.frame,
            self.key,
            goal=self.limits.cov,
            window_s=self.limits.window_s,
            timezone=self.timezone,
            since=self.since,
            schedule=self.due,
            invalid=invalid,
            changes=changes,
            rolling_after=self.windows_after,
        )
        return judgement, changes.walked


@dataclass(frozen=True, slots=True)
class _OfTargets:
    """Question for the judgement of single targets by one metric."""

    surveys: pl.DataFrame
    metric: str
    timezone: str

    def answer(self) -> TargetTails:
        """Return that judgement."""
        return target_tails(self.surveys, self.metric, timezone=self.timezone)


def judge_site(
    store: Store,
    place: Place,
    terms: JudgeTerms | None = None,
    *,
    together: Together = one_by_one,
    progress: Progress = lambda text, fraction: None,
) -> JudgedSite:
    """Return the judgement of every series of a site, and of its targets one by one.

    Parameters
    ----------
    together
        Answers all series and metrics, in parallel if there is more than one processor.

    Raises
    ------
    UsageError
        Nothing matching is stored for it, or all runs were rejected, with the reason.
    """
    terms = terms or JudgeTerms()
    with keeping(store, place.name) as look:
        return _SiteJudging(store, place, terms, look).judged(together, progress)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One metric of a series judged, and its first and last run."""

    judgement: SeriesJudgement
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class _SiteJudging:
    """The series of a site, each read only if needed; earlier results that hold are reused."""

    store: Store
    place: Place
    terms: JudgeTerms
    look: Keeping

    @cached_property
    def stored(self) -> list[Series]:
        return series_of(self.store, self.look.series(), self.terms.probe)

    @cached_property
    def since(self) -> datetime | None:
        return self.place.moment(self.terms.since)

    @cached_property
    def until(self) -> datetime | None:
        return self.place.moment(self.terms.until, end=True)

    @cached_property
    def last_runs(self) -> dict[tuple[str, str], str | None]:
        if self.until is None:
            return last_runs(self.stored, self.look)
        histories = {series.key: self.history(series) for series in self.stored}
        return {key: points[-1].run if points else None for key, points in histories.items()}

    @cached_property
    def apart(self) -> dict[tuple[str, str], dict[str, object]]:
        return series_apart(self.store, self.stored, self.last_runs)

    def history(self, series: Series) -> tuple[HistoryPoint, ...]:
        return self.look.history(series, self.until)

    @cached_property
    def surveys(self) -> pl.DataFrame:
        """Measurements of single targets, each with the server that serves it now."""
        import polars as pl

        frame = (
            survey_record(self.look)
            if self._is_whole
            else self.store.survey_frame(self.place.name, since=self.since, until=self.until)
        )
        servers = {} if frame.is_empty() else self._servers
        named = pl.DataFrame(
            {"target": list(servers), "server": list(servers.values())},
            schema={"target": pl.String, "server": pl.String},
        )
        return frame.join(named, on="target", how="left", maintain_order="left")

    def frames(self) -> dict[SeriesKey, pl.DataFrame]:
        """Return the runs of each series."""
        return {
            replace(key, apart=levels_text(self.apart.get(series.key, {}))): frame
            for series in self.stored
            for key, frame in self._frames_of(series)
        }

    def _frames_of(self, series: Series) -> list[tuple[SeriesKey, pl.DataFrame]]:
        if series.key not in self._frames:
            made = frames_of(series, self.history(series), self.terms.metric)
            self._frames[series.key] = made
        return self._frames[series.key]

    @cached_property
    def _frames(self) -> dict[tuple[str, str], list[tuple[SeriesKey, pl.DataFrame]]]:
        return {}

    def judged(self, together: Together, progress: Progress) -> JudgedSite:
        """Return the judgement of all."""
        taken_over = {series.key: self._taken_over(series) for series in self.stored}
        questions = {
            series.key: [*self._questions(series)]
            for series in self.stored
            if taken_over[series.key] is None
        }
        tails = self._tails_taken_over()
        of_targets = [*self._questions_of_targets()] if tails is None else []
        answers = together([*chain.from_iterable(questions.values()), *of_targets])
        parts: list[_Judged] = []
        for number, series in enumerate(self.stored):
            progress(f"judging {visible(series.probe)}", number / (len(self.stored) + 1))
            metrics = taken_over[series.key]
            if metrics is None:
                answered = [(question, next(answers)) for question in questions[series.key]]
                metrics = tuple(_judged(question, answer[0]) for question, answer in answered)
                if self._is_whole and self.terms.metric is None:
                    walked = {question.key.metric: answer[1] for question, answer in answered}
                    self.look.note(*self._place_of_walked(series), walked)
                    metrics = self._noted(series, metrics)
            requested = self.apart.get(series.key, {})
            parts += [
                replace(part, judgement=_set_apart(part.judgement, requested))
                for part in metrics
                if self.terms.metric in (None, part.judgement.key.metric)
            ]
        progress("judging single targets", len(self.stored) / (len(self.stored) + 1))
        if tails is None:
            tails = tuple(answers)
            if self._is_whole and self.terms.metric is None:
                tails = self.look.note(*self._place_of_tails(), tails)
        judged = [part.judgement for part in parts]
        has_content = any(series.overall.n or series.invalid or series.missing for series in judged)
        # A named probe is the question, not the targets that surveys measured.
        if not has_content and (not tails or self.terms.probe is not None):
            rejected = rejected_among(self.store, self.stored, self.last_runs)
            probe, metric = self.terms.probe, self.terms.metric
            raise nothing_to_judge(self.look, self.place, rejected, probe=probe, metric=metric)
        judgement = SiteJudgement(
            site=self.place.name,
            from_=min((part.first for part in parts if part.first is not None), default=None),
            to=max((part.last for part in parts if part.last is not None), default=None),
            series=tuple(sorted(judged, key=_most_runs_first)),
            tails=tuple(tail for tail in tails if self.terms.metric in (None, tail.metric)),
            notes=left_out_notes(self.look, self.terms.probe),
        )
        progress("judged", 1.0)
        location = str(self.store.location)
        return JudgedSite(judgement, self.frames, lambda: self.surveys, store=location)

    @property
    def _is_whole(self) -> bool:
        """Whether the whole record is judged: only that judgement is stored."""
        return self.since is None and self.until is None

    def _taken_over(self, series: Series) -> tuple[_Judged, ...] | None:
        known = self.look.known(*self._place_of(series)) if self._is_whole else None
        if known is None:
            return None
        metrics: tuple[_Judged, ...] = known[0]
        if any(each.judgement.rolling for each in metrics):
            return metrics
        windows = self._windows(series, [each.judgement.key for each in metrics]).all
        return None if windows is None else _with_windows(metrics, windows)

    def _noted(self, series: Series, metrics: tuple[_Judged, ...]) -> tuple[_Judged, ...]:
        """Keep what a series was judged to be, its windows apart: they are megabytes."""
        if series.key in self._dense:
            return self.look.note(*self._place_of(series), metrics)
        made = {each.judgement.key.metric: each.judgement.rolling for each in metrics}
        windows = self._windows(series, [each.judgement.key for each in metrics]).filled(made)
        bare = self.look.note(*self._place_of(series), _with_windows(metrics, {}))
        return _with_windows(bare, windows)

    def _windows(self, series: Series, keys: Iterable[SeriesKey]) -> KeptWindows:
        names = frozenset(key.metric for key in keys)
        place = series.comparability, names
        if place not in self._windows_of:
            limits = self.terms.limits(self.place)
            self._windows_of[place] = KeptWindows(self.look, *place, limits)
        return self._windows_of[place]

    @cached_property
    def _windows_of(self) -> dict[tuple[str, frozenset[str]], KeptWindows]:
        return {}

    @cached_property
    def _dense(self) -> set[tuple[str, str]]:
        """Series that may be so dense that their last run decides which windows are judged."""
        return set()

    def _windows_after(
        self, series: Series, frames: Sequence[tuple[SeriesKey, pl.DataFrame]]
    ) -> dict[str, datetime]:
        """Return metric to the last of the windows that are kept; none where all are made."""
        from trimtab.judge.rolling import may_be_thinned

        window_s = self.terms.limits(self.place).window_s
        if any(may_be_thinned(frame, window_s=window_s) for _, frame in frames):
            self._dense.add(series.key)
            return {}
        first = self._windows(series, [key for key, _ in frames]).first
        return {metric: windows[-1].at for metric, windows in first.items() if windows}

    def _place_of(self, series: Series) -> tuple[str, Any, RestsOn]:
        limits, item = self.terms.limits(self.place), PROBE_PREFIX + series.probe

        def rests_on(sums: Sums) -> object:
            rows = sums.runs.get(series.comparability), sums.slots.get(item)
            return *rows, limits.cov, limits.window_s, self.place.timezone

        return f"judged {series.comparability}", tuple[_Judged, ...], rests_on

    def _place_of_walked(self, series: Series) -> tuple[str, Any, RestsOn]:
        """Return, as `_place_of`, the place of the state that the next look at a series continues.

        It is kept apart from the judgement, whose windows are megabytes.
        """
        rests_on = self._place_of(series)[2]
        return f"walked {series.comparability}", dict[str, Walked | None], rests_on

    def _questions(self, series: Series) -> Iterator[_OfSeries]:
        goes_on = self._is_whole and not is_afresh()
        before = self.look.before(*self._place_of_walked(series)[:2]) if goes_on else None
        walked: dict[str, Walked | None] = before or {}
        left = self.store.left_out(*series.key)
        due = _due(self.store, self.place.name, series)
        frames = self._frames_of(series)
        keeps = self._is_whole and self.terms.metric is None
        windows = self._windows_after(series, frames) if keeps else {}
        for key, frame in frames:
            limits, timezone = self.terms.limits(self.place), self.place.timezone
            since, until = self.since, self.until
            after = walked.get(key.metric), windows.get(key.metric)
            yield _OfSeries(frame, key, limits, timezone, since, until, due, left, *after)

    def _tails_taken_over(self) -> tuple[TargetTails, ...] | None:
        known = self.look.known(*self._place_of_tails()) if self._is_whole else None
        return None if known is None else known[0]

    @cached_property
    def _servers(self) -> dict[str, str | None]:
        """Target to the server that serves it, by the last stored snapshot."""

        def make() -> dict[str, str | None]:
            last = self.store.latest_snapshot(self.place.name)
            targets = () if last is None else [each.target for each in last.targets]
            return {target.name: target.server for target in targets}

        kind = dict[str, str | None]
        return self.look.remembered("servers", kind, lambda sums: sums.tables.get("snapshot"), make)

    def _place_of_tails(self) -> tuple[str, Any, RestsOn]:
        surveying = surveying_series(self.look)
        servers = sorted(self._servers.items()) if surveying else ()

        def rests_on(sums: Sums) -> object:
            rows = [sums.runs.get(series.comparability) for series in surveying]
            return rows, servers, self.place.timezone

        return "tails", tuple[TargetTails, ...], rests_on

    def _questions_of_targets(self) -> Iterator[_OfTargets]:
        import polars as pl

        for metric in self.surveys["metric"].unique(maintain_order=True).to_list():
            if self.terms.metric in (None, metric) and METRIC_UNITS.get(metric) != "B":
                of_metric = self.surveys.filter(pl.col("metric") == metric)
                yield _OfTargets(of_metric, metric, self.place.timezone)


def _judged(question: _OfSeries, judgement: SeriesJudgement) -> _Judged:
    times = between(question.frame, question.since, question.until)["at"]
    first, last = (times[0], times[-1]) if len(times) else (None, None)
    return _Judged(judgement, first, last)


def _with_windows(
    metrics: Sequence[_Judged], windows: Mapping[str, tuple[CovAt, ...]]
) -> tuple[_Judged, ...]:
    return tuple(
        replace(each, judgement=replace(each.judgement, rolling=windows.get(metric, ())))
        for each in metrics
        for metric in [each.judgement.key.metric]
    )


def _set_apart(judgement: SeriesJudgement, requested: Mapping[str, object]) -> SeriesJudgement:
    """Return a series with the requested parameters that distinguish it from similar ones."""
    key = replace(judgement.key, apart=levels_text(requested))
    return replace(judgement, key=key, asked=dict(requested))


def _due(store: Store, site: str, series: Series) -> tuple[datetime, ...] | None:
    """Return when runs of a probe were due, as the watch recorded; ``None`` if it did not watch.

    In a maintenance window none is missed.
    """
    slots = store.slots(site, item=PROBE_PREFIX + series.probe)
    windows, due = store.windows(site), [slot.due_at for slot in slots]
    return tuple(at for at in due if not any(each.holds(at) for each in windows)) or None


def _invalid(left: Sequence[LeftOut]) -> tuple[InvalidRun, ...]:
    return tuple(
        InvalidRun(run.run, run.at, run.reason)
        for run in left
        if run.status is RunStatus.INVALID_WORKLOAD
    )


def _most_runs_first(judged: SeriesJudgement) -> tuple[int, bool, str, str]:
    return (
        -judged.overall.n,
        not judged.key.metric.startswith("write"),
        judged.key.probe,
        judged.key.metric,
    )
