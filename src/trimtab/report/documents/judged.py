"""Documents of judging and explaining: judge, incidents, compare, ladder, sweep, hints ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trimtab.explain.hints import Hint, JobRequest
from trimtab.model.compare import CompareResult, Effect, TakenOut  # noqa: F401 (a document)
from trimtab.model.correlation import Correlated, CorrelatedSeries  # noqa: F401 (a document)
from trimtab.model.excluded_runs import Doubt
from trimtab.model.incident import Assessment, Explanation, Incident, LoneRun
from trimtab.model.ladder import CheckedClaim, Efficiency, Estimate, Ladder, Step, Track
from trimtab.model.run import RunStatus
from trimtab.model.series import SeriesJudgement, SiteJudgement
from trimtab.model.sweep import Level, SweepAnalysis, SweepPoint
from trimtab.model.verdict import Verdict
from trimtab.report.documents import values  # noqa: F401 (declares runs and verdicts)
from trimtab.report.documents.encode import bounds, mapped, shape


@dataclass(frozen=True, slots=True)
class JudgeDocument:
    """``trimtab judge --json``."""

    judgement: SiteJudgement
    store: str | None = None
    file: str | None = None
    report: str | None = None


@dataclass(frozen=True, slots=True)
class IncidentsDocument:
    """``trimtab incidents --json``: open ones first; ``standing``: wrong throughout the record.

    From the last search, not a new one: anything it did not store is null.
    """

    store: str
    site: str
    judged_at: datetime | None
    judged_until: datetime | None
    incidents: tuple[Explanation, ...]
    standing: tuple[Assessment, ...] | None
    lone_runs: tuple[LoneRun, ...] | None = ()


@dataclass(frozen=True, slots=True)
class ExplainDocument:
    """``trimtab explain --json``: all evidence about one moment."""

    store: str
    site: str
    at: datetime
    incidents: tuple[Explanation, ...]
    moment: Explanation
    lone_runs: tuple[LoneRun, ...] = ()


@dataclass(frozen=True, slots=True)
class HintsDocument:
    """``trimtab hints --json``; ``text`` is for a job script."""

    job: JobRequest
    hints: tuple[Hint, ...]
    setstripe: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """``trimtab sweep --json``: progress and results."""

    store: str
    site: str
    name: str
    points: tuple[SweepPoint, ...]
    doubts: tuple[Doubt, ...]
    analysis: SweepAnalysis
    waiting: tuple[Mapping[str, Level], ...] = ()
    failures: tuple[str, ...] = ()


shape(
    SeriesJudgement,
    omit=["verdict", "changes"],
    inline={"key": ("site", "probe", "kind", "metric", "unit", "target", "more_is_better")},
    derive={
        "id": mapped("key", lambda key: key.id if key.comparability else None, str | None),
        "runs": "overall.n",
        "unfinished": "overall.unfinished",
        "verdicts": (tuple[Verdict, ...], lambda series: (series.verdict,)),
        "change_points": "changes",
    },
)
shape(JudgeDocument, inline={"judgement": ()})
shape(Assessment, omit=["cause", "measurement"], derive={"id": "cause"})
shape(
    Incident,
    inline={"key": ("probe", "metric", "unit", "apart")},
)
shape(Explanation, inline={"incident": ()})
shape(CorrelatedSeries, inline={"key": ("probe", "kind", "metric", "unit")})
shape(Effect, omit=["level"])
shape(TakenOut, omit=["level"])
shape(
    Estimate,
    omit=["low", "high", "values"],
    derive={
        "interval": bounds("low", "high"),
        "n": (int, lambda rate: len(rate.values) or 1),
    },
)
shape(Efficiency, omit=["low", "high"], derive={"interval": bounds("low", "high")})
shape(Step, inline={"rung": ()})
shape(
    CheckedClaim,
    omit=["low", "high", "loose_low", "loose_high"],
    inline={"claim": ()},
    derive={
        "interval": bounds("low", "high"),
        "interval_if_zeros_are_filling": bounds("loose_low", "loose_high"),
    },
)
shape(Track, omit=["steps", "loss"], derive={"rungs": "steps", "largest_loss": "loss"})
shape(Ladder, omit=["hardware", "claims"], derive={"printed": "claims"})
shape(
    SweepPoint,
    derive={
        "run": (str | None, lambda point: point.run and point.run.id),
        "status": (RunStatus | None, lambda point: point.run and point.run.status),
    },
)
shape(SweepAnalysis, omit=["points", "rounds"])
shape(SweepDocument, inline={"analysis": ()})
