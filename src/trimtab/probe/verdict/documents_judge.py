"""The ``--json`` documents of judge, incidents, explain, hints and sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trimtab.base.incident import Assessment, Explanation, Incident, LoneRun
from trimtab.base.run import Doubt
from trimtab.base.series import SeriesJudgement, SiteJudgement
from trimtab.base.verdict import Verdict
from trimtab.explain.hint import Hint, JobRequest
from trimtab.judge.sweep_result import Level, SweepAnalysis, SweepPoint
from trimtab.show.encode import mapped, shape


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
shape(SweepDocument, inline={"analysis": ()})
