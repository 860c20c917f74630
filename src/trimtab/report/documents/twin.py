"""``trimtab twin wa|list|show|run --json``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from trimtab.report.documents.base import Document, fields
from trimtab.twin.amplification import Amplification
from trimtab.twin.kept import TwinRun
from trimtab.twin.scenario import facts
from trimtab.twin.scenario.geometry import capacity_bytes
from trimtab.twin.scenario.model import Scenario

Value = bool | int | float | str | None


class AmplificationDocument(Document):
    """Units that a drive writes for each that it is given, in its steady state."""

    simulated: float
    error: float
    formula: float | None
    relative_error: float | None
    bound: float | None
    settled: bool
    warm_drive_writes: int
    measured_drive_writes: int
    drive: str | None
    spare: float
    pages_per_block: int
    superblocks: int
    policy: str
    live: float
    hot: tuple[float, float] | None
    separate: bool
    seed: int


def amplification_document(found: Amplification, drive: str | None) -> AmplificationDocument:
    """Return what was simulated as its JSON document."""
    terms = found.terms
    return AmplificationDocument(
        simulated=found.simulated,
        error=found.error,
        formula=found.formula,
        relative_error=found.relative_error,
        bound=found.bound,
        settled=found.settled,
        warm_drive_writes=found.warm,
        measured_drive_writes=found.measured,
        drive=drive,
        spare=terms.spare,
        pages_per_block=terms.units,
        superblocks=terms.superblocks,
        policy=terms.policy,
        live=terms.live,
        hot=terms.hot,
        separate=terms.separate,
        seed=terms.seed,
    )


class ScenarioSummary(Document):
    """One scenario of a list; bytes are those at the start."""

    name: str
    title: str
    start: datetime
    end: datetime
    osts: int
    capacity_bytes: float
    probes: int
    changes: int
    faults: int


class ScenariosDocument(Document):
    """The scenarios that come with Trimtab."""

    scenarios: list[ScenarioSummary]


class SettingDocument(Document):
    """One setting in base SI; ``assumed`` says why, where no source prints the value."""

    key: str
    value: Value
    unit: str | None
    assumed: str | None


class LifetimeDocument(Document):
    """A share of what is written; ``mean_s`` is null for what lives until a purge takes it."""

    share: float
    mean_s: float | None


class ProbeDocument(Document):
    """A benchmark that runs by a schedule."""

    name: str
    kind: str
    schedule: str
    nodes: int
    tasks_per_node: int
    transfer_size_bytes: int
    bytes_written: float
    timeout_s: float
    since: datetime | None


class ChangeDocument(Document):
    """Settings that change at a time, in base SI."""

    at: datetime
    set: dict[str, Value]
    detail: str


class FaultDocument(Document):
    """Something that goes wrong; ``size`` is a fraction up to 1, above it bytes a second."""

    at: datetime
    until: datetime | None
    kind: str
    osts: list[int]
    size: float | None
    detail: str


class ScenarioDocument(Document):
    """A whole scenario."""

    name: str
    title: str
    source: str | None
    start: datetime
    end: datetime
    length_s: float
    timezone: str
    seed: int
    capacity_bytes: float
    capacity_at_end_bytes: float
    settings: list[SettingDocument]
    lifetimes: list[LifetimeDocument]
    probes: list[ProbeDocument]
    changes: list[ChangeDocument]
    faults: list[FaultDocument]
    assumptions: dict[str, str]


def scenarios_document(scenarios: Iterable[Scenario]) -> ScenariosDocument:
    """Return a list of scenarios as its JSON document."""
    return ScenariosDocument(
        scenarios=[
            ScenarioSummary(
                name=one.name,
                title=one.title,
                start=one.start,
                end=one.end,
                osts=one.osts.count,
                capacity_bytes=capacity_bytes(one),
                probes=len(one.probes),
                changes=len(one.changes),
                faults=len(one.faults),
            )
            for one in scenarios
        ]
    )


def scenario_document(scenario: Scenario) -> ScenarioDocument:
    """Return a scenario as its JSON document."""
    return ScenarioDocument(
        name=scenario.name,
        title=scenario.title,
        source=scenario.source,
        start=scenario.start,
        end=scenario.end,
        length_s=scenario.length_s,
        timezone=scenario.timezone,
        seed=scenario.seed,
        capacity_bytes=capacity_bytes(scenario),
        capacity_at_end_bytes=capacity_bytes(facts.at_the_end(scenario)),
        settings=[
            SettingDocument(**fields(one, SettingDocument)) for one in facts.settings(scenario)
        ],
        lifetimes=[
            LifetimeDocument(**fields(one, LifetimeDocument)) for one in scenario.users.lifetimes
        ],
        probes=[ProbeDocument(**fields(one, ProbeDocument)) for one in scenario.probes],
        changes=[
            ChangeDocument.model_validate(
                {"at": one.at, "set": dict(one.set), "detail": one.detail}
            )
            for one in scenario.changes
        ],
        faults=[
            FaultDocument(
                at=one.at,
                until=one.until,
                kind=one.kind,
                osts=list(one.osts),
                size=one.size,
                detail=one.detail,
            )
            for one in scenario.faults
        ],
        assumptions=dict(scenario.assumptions),
    )


class RunDocument(Document):
    """What was kept of a simulated stretch."""

    scenario: str
    start: datetime
    end: datetime
    seed: int
    store: str
    site_file: str
    truth: list[str]
    runs: dict[str, int]
    surveys: int
    snapshots: int
    events: int


def run_document(kept: TwinRun) -> RunDocument:
    """Return what was kept as its JSON document."""
    return RunDocument(
        scenario=kept.scenario.name,
        start=kept.start,
        end=kept.end,
        seed=kept.scenario.seed,
        store=kept.store,
        site_file=str(kept.site_file),
        truth=[str(path) for path in kept.truth],
        runs={status.value: count for status, count in kept.statuses.items()},
        surveys=kept.surveys,
        snapshots=kept.snapshots,
        events=kept.events,
    )
