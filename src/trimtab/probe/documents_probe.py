"""The result of a check, and the ``--json`` documents of commands that measure, look or import."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trimtab.base.error import Interrupted, TrimtabError, code_of
from trimtab.base.filesystem import PathDescription
from trimtab.base.finding import Finding, Missing
from trimtab.base.run import METRIC_UNITS, LatencyHistogram, Run, Sample, Timeline
from trimtab.base.site import Checked
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot, TargetSnapshot
from trimtab.base.verdict import Comparison, HistoryPoint, Scope, Verdict, VerdictStatus
from trimtab.explain.status import SiteState
from trimtab.probe.imports.import_result import Imported, ImportedFile
from trimtab.probe.survey.survey_result import SLOW, Spread, Standing, Survey, SurveyPlan
from trimtab.show.encode import SCHEMA_VERSION, Problem, dumps, plain_of, shape
from trimtab.store.kept import value_of


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, the source of JSON, terminal text and report.

    Attributes
    ----------
    site
        Name of the site, or the identity of a path without one.
    at
        Start of the check, aware UTC.
    host
        The host on which the check ran.
    settings
        Target name to setting name to value or reason.
    run
        ``None`` with ``--no-probe`` or when the probe could not be started.
    not_available
        What could not be checked, with the reasons.
    history
        Earlier runs of the same probe.
    report
        Path of the HTML report; ``None`` if none was written.
    """

    site: str
    at: datetime
    host: str
    trimtab_version: str
    path: PathDescription
    snapshot: Snapshot
    settings: dict[str, dict[str, Setting | NotAvailable]]
    run: Run | None = None
    verdicts: tuple[Verdict, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_available: tuple[Missing, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    history: tuple[HistoryPoint, ...] = ()
    report: str | None = None

    @property
    def missed_history(self) -> bool:
        """Whether a verdict over history is missed."""
        return any(
            verdict.scope is Scope.HISTORY and verdict.status is VerdictStatus.MISSED
            for verdict in self.verdicts
        )


@dataclass(frozen=True, slots=True)
class RateRow:
    """One figure of one target: ``ratio`` is relative to the median of all measured targets."""

    metric: str
    unit: str
    value: float
    ratio: float | None
    slow: bool


@dataclass(frozen=True, slots=True)
class ImportedSample:
    """One number of a file; ``result`` names the result if a file has several."""

    sample: Sample
    result: str | None


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """``trimtab check --json``."""

    result: CheckResult
    error: Problem | None = None


@dataclass(frozen=True, slots=True)
class SnapshotDocument:
    """``trimtab snapshot --json``: what was stored, under which id, and where."""

    store: str
    id: str
    snapshot: SiteState


@dataclass(frozen=True, slots=True)
class SiteDocument:
    """``trimtab site --json``: a site file, its warnings, and how the live system differs."""

    site: str
    file: str | None
    driver: str
    path: str
    warnings: tuple[str, ...]
    checked: tuple[Checked, ...]


@dataclass(frozen=True, slots=True)
class InitDocument:
    """``trimtab init --json``: the new site file, and the findings behind it."""

    site: str
    file: str | None
    text: str
    found: tuple[str, ...]
    not_found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstallDocument:
    """``trimtab init PATH --install --yes --json``.

    Attributes
    ----------
    written
        Installed files, without those that were already there.
    next
        Commands that start the watch.
    """

    site: str
    written: tuple[str, ...]
    next: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SurveyDocument:
    """``trimtab survey --json``: the plan, and with ``--apply`` its outcome.

    ``targets`` are sorted slowest first. Without ``--apply`` nothing was done: ``applied`` is
    false, ``store`` null, and there is no target, spread or run.
    """

    plan: SurveyPlan
    applied: bool
    slow_under: float
    store: str | None
    targets: tuple[Standing, ...] = ()
    spreads: tuple[Spread, ...] = ()
    notes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    error: Problem | None = None


@dataclass(frozen=True, slots=True)
class ImportDocument:
    """``trimtab import --json``."""

    store: str | None
    site: str
    files: tuple[ImportedFile, ...]
    error: Problem | None


def survey_document(survey: Survey, store: str, error: TrimtabError | None) -> SurveyDocument:
    """Return the document of a completed survey."""
    more = {"applied": True, "slow_under": SLOW, "store": store, "targets": survey.standings}
    return value_of(SurveyDocument, survey, **more, runs=(survey.run,), error=error)


def import_json(files: Iterable[ImportedFile], *, store: str | None, site: str) -> Iterator[str]:
    """Yield an `ImportDocument` as JSON, piece by piece, each file as soon as it is read.

    An error that ends it early is in ``error``, and is raised once the document is complete.
    """
    head = dumps({"schema_version": SCHEMA_VERSION, "store": store, "site": site})
    yield f'{head[:-1]}, "files": ['
    try:
        for number, file in enumerate(files):
            yield (",\n" if number else "\n") + dumps(file)
    except (TrimtabError, Interrupted) as error:
        yield f'\n], "error": {dumps(error)}}}\n'
        error.reported = True
        raise
    yield '\n], "error": null}\n'


def _checked_targets(check: CheckResult) -> tuple[TargetSnapshot, ...]:
    """Return the targets with the settings that the check read."""
    return tuple(
        replace(seen, settings=dict(sorted(check.settings.get(seen.target.name, {}).items())))
        for seen in check.snapshot.targets
    )


def _rates(standing: Standing) -> tuple[RateRow, ...]:
    return tuple(
        RateRow(
            metric,
            METRIC_UNITS[metric],
            value,
            standing.ratios.get(metric),
            metric in standing.slow,
        )
        for metric, value in standing.rates.items()
    )


_LINE = re.compile(r"line ([0-9]+)")


def _imported_samples(file: ImportedFile) -> list[dict[str, Any]]:
    """Return every number of a file as the keys of `ImportedSample`.

    Bypasses that class: a directory of surveys has a quarter of a million samples.
    """
    plain = plain_of(Sample)
    samples = [
        {**plain(sample), "result": result.name}
        for result in file.results
        for sample in result.samples
    ]
    return samples + [reading for result in file.results for reading in _readings(result)]


def _readings(result: Imported) -> Iterator[dict[str, Any]]:
    """Yield each number of a snapshot as a sample: the metric is the telemetry's name."""
    for target in () if result.snapshot is None else result.snapshot.targets:
        for reading in target.readings:
            if isinstance(reading.value, (str, bool)):
                continue
            line = _LINE.search(reading.source or "")
            yield {
                "metric": reading.name,
                "unit": reading.unit or "1",
                "value": reading.value,
                "statistic": "total",
                "repetition": None,
                "target": target.target.name,
                "output": None,
                "line": None if line is None else int(line.group(1)),
                "reason": reading.reason,
                "reason_code": code_of(reading.reason),
                "result": result.name,
            }


shape(
    CheckResult,
    omit=["snapshot", "settings", "run", "timelines", "histograms", "history"],
    derive={
        "targets": (tuple[TargetSnapshot, ...], _checked_targets),
        "runs": (tuple[Run, ...], lambda check: () if check.run is None else (check.run,)),
    },
)
shape(CheckDocument, inline={"result": ()})
shape(
    Standing,
    omit=["ratios"],
    inline={"result": ()},
    derive={"rates": (tuple[RateRow, ...], _rates)},
)
shape(SurveyDocument, inline={"plan": ()})
shape(
    ImportedFile,
    omit=["named"],
    derive={"samples": (tuple[ImportedSample, ...], _imported_samples)},
)
shape(Imported, omit=["samples", "snapshot", "site", "told"])
shape(ImportedSample, inline={"sample": ()})
