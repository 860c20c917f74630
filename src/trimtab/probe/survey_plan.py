"""Surveys, which measure every OST by itself: targets, waves and results. Pure.

A plan describes what a survey would do, a result what happened, with one row per target. A target
is slow relative to the median of the targets measured in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median, stdev
from typing import Final, Literal

from trimtab.base.encode import Problem, shape
from trimtab.base.error import Interrupted, Message, RefusedError, TrimtabError, UsageError
from trimtab.base.run import METRIC_UNITS, Run, RunStatus
from trimtab.base.snapshot import CONNECTED, INACTIVE, NotAvailable, Snapshot, TargetSnapshot
from trimtab.base.units import format_bytes

Way = Literal["client", "server"]
"""Files pinned to each OST from this client, or obdfilter-survey on the servers."""

SLOW: Final = 0.75
"""Fraction of the median: NERSC's slow OSTs were 25 to 50 % below the expected rate [S1, III]."""

METRICS: Final = ("write_bandwidth", "rewrite_bandwidth", "read_bandwidth")


class SurveyOutcome(StrEnum):
    """Outcome for one target."""

    MEASURED = "measured"
    REFUSED = "refused"
    """Refused by a safety rule: the target was not touched."""
    CLOSED = "closed"
    """Not open for creation: its files were placed elsewhere and not measured."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The survey ended before its turn."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A target that may be surveyed.

    Attributes
    ----------
    target, server
        Name, and the server if known.
    partners
        Other servers that can take it over; ``None`` if unknown.
    available_bytes
        Free space for new files.
    load_bytes_per_s
        Current load of the target.
    refusal
        Why it is not surveyed; ``None`` if it may be.
    closed
        Whether the reason is that it accepts no new files.
    """

    target: str
    server: str | None
    partners: frozenset[str] | None = None
    available_bytes: float | None = None
    load_bytes_per_s: float | None = None
    refusal: Message | None = None
    closed: bool = False

    def result(self, outcome: SurveyOutcome, reason: str | None = None) -> TargetResult:
        """Return an outcome for this target."""
        return TargetResult(self.target, self.server, outcome, reason)

    @property
    def refused(self) -> TargetResult:
        """The outcome if it is not surveyed."""
        return self.result(
            SurveyOutcome.CLOSED if self.closed else SurveyOutcome.REFUSED, self.refusal
        )


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """The plan of a survey; nothing has been done yet.

    Attributes
    ----------
    waves
        Targets measured at the same time, one wave after the other.
    refused
        Targets that are excluded, with the reason.
    steps
        Actions on the targets of a wave, as text.
    parameters
        Requested settings, as plain values.
    """

    site: str
    way: Way
    waves: tuple[tuple[Candidate, ...], ...]
    refused: tuple[Candidate, ...]
    steps: tuple[str, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def targets(self) -> tuple[Candidate, ...]:
        """Every target of the waves, in order."""
        return tuple(candidate for wave in self.waves for candidate in wave)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """The outcome of one target.

    Attributes
    ----------
    reason
        Why it was not measured, or what is wrong although it was.
    """

    target: str
    server: str | None
    outcome: SurveyOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """One target compared with the others.

    Attributes
    ----------
    rates
        Metric to its median over the repetitions, bytes per second.
    ratios
        Metric to the rate over the median of all targets.
    """

    result: TargetResult
    rates: Mapping[str, float]
    ratios: Mapping[str, float]

    @property
    def worst(self) -> float | None:
        """The lowest ratio; ``None`` if nothing was measured."""
        return min(self.ratios.values(), default=None)

    @property
    def slow(self) -> tuple[str, ...]:
        """The metrics in which it is below `SLOW` times the median."""
        return tuple(metric for metric, ratio in self.ratios.items() if ratio < SLOW)


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of all measured targets in one metric.

    Attributes
    ----------
    targets
        Number of measured targets.
    median_bytes_per_s, least_bytes_per_s, most_bytes_per_s
        Median, minimum and maximum over the targets.
    cov
        Sample standard deviation (n - 1) over mean, a fraction; ``None`` below two targets.
    """

    metric: str
    targets: int
    median_bytes_per_s: float
    least_bytes_per_s: float
    most_bytes_per_s: float
    cov: float | None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Outcome of a survey: one run, and the result of each target.

    Attributes
    ----------
    interrupted
        Set if a user or the system stopped it; to be raised once everything is stored.
    """

    run: Run
    results: tuple[TargetResult, ...]
    notes: tuple[str, ...] = ()
    interrupted: Interrupted | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A completed survey.

    Attributes
    ----------
    standings
        The targets, slowest first.
    spreads
        One per measured metric.
    notes
        Other events: removed objects, lack of space.
    """

    plan: SurveyPlan
    run: Run
    standings: tuple[Standing, ...]
    spreads: tuple[Spread, ...]
    notes: tuple[str, ...] = ()


def status_of(results: Sequence[TargetResult]) -> tuple[RunStatus, str | None]:
    """Return how a survey ended as a whole, and why it is not whole."""
    measured = [result for result in results if result.outcome is SurveyOutcome.MEASURED]
    whole = [sample for sample in measured if sample.reason is None]
    if len(whole) == len(results) and results:
        return RunStatus.OK, None
    reasons = [
        f"{result.target}: {result.reason}" for result in results if result.reason is not None
    ]
    problem = "; ".join(reasons[:8]) + (" ..." if len(reasons) > 8 else "")
    status = RunStatus.PARTIAL if measured else RunStatus.FAILED
    return status, problem or "no target was measured"


def standings(
    run: Run, results: Iterable[TargetResult]
) -> tuple[tuple[Standing, ...], tuple[Spread, ...]]:
    """Return the targets, slowest first and those without a value last, and the spreads.

    Only credible values count.

    Parameters
    ----------
    run
        The run of the survey, with one sample per target, metric and repetition.
    results
        The outcome of each target.

    Returns
    -------
    tuple of Standing
        One per result.
    tuple of Spread
        One per metric with values.
    """
    rates = {metric: run.believed_of_targets(metric) for metric in METRICS}
    spreads = {metric: _spread(metric, list(of.values())) for metric, of in rates.items() if of}
    rows = []
    for result in results:
        target_rates = {
            metric: of[result.target] for metric, of in rates.items() if result.target in of
        }
        ratios = {
            metric: rate / spreads[metric].median_bytes_per_s
            for metric, rate in target_rates.items()
            if spreads[metric].median_bytes_per_s > 0
        }
        rows.append(Standing(result, target_rates, ratios))
    rows.sort(
        key=lambda standing: (
            standing.worst is None,
            standing.worst or 0.0,
            standing.result.target,
        )
    )
    return tuple(rows), tuple(spreads.values())


def _spread(metric: str, rates: list[float]) -> Spread:
    mean = sum(rates) / len(rates)
    cov = stdev(rates) / mean if len(rates) > 1 and mean > 0 else None
    return Spread(metric, len(rates), median(rates), min(rates), max(rates), cov)


@dataclass(frozen=True, slots=True)
class RateRow:
    """One figure of one target: ``ratio`` is relative to the median of all measured targets."""

    metric: str
    unit: str
    value: float
    ratio: float | None
    slow: bool


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


def document_of_survey(survey: Survey, store: str, error: TrimtabError | None) -> SurveyDocument:
    """Return the document of a completed survey."""
    return SurveyDocument(
        survey.plan,
        applied=True,
        slow_under=SLOW,
        store=store,
        targets=survey.standings,
        spreads=survey.spreads,
        notes=survey.notes,
        runs=(survey.run,),
        error=error,
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


shape(
    Standing,
    omit=["ratios"],
    inline={"result": ()},
    derive={"rates": (tuple[RateRow, ...], _rates)},
)
shape(SurveyDocument, inline={"plan": ()})


LOAD_LIMIT_BYTES_PER_S: Final = 20e6
"""About a hundredth of the rate of one all-flash OST."""
MARGIN_FRACTION: Final = 0.05
"""Share of a target that stays free: obdfilter-survey does not report that it ran out of space."""
MARGIN_BYTES: Final = 256 * 2**20
_COUNTERS: Final = ("bytes_written_total", "bytes_read_total")


@dataclass(frozen=True, slots=True)
class SurveyLimits:
    """Conditions that a target must meet.

    Attributes
    ----------
    size_bytes
        Bytes that a survey writes to it.
    load_bytes_per_s
        Maximum rate of other I/O on it now; ``None``: not checked.
    """

    size_bytes: int
    load_bytes_per_s: float | None = LOAD_LIMIT_BYTES_PER_S


def choose(snapshot: Snapshot, names: Sequence[str], *, everything: bool) -> tuple[str, ...]:
    """Return the selected OSTs, in their order.

    Raises
    ------
    UsageError
        A name is no OST of the site, or none is selected.
    """
    osts = sorted(target.target.name for target in snapshot.targets if target.target.kind == "ost")
    if not osts:
        raise UsageError(
            "no OST of the site is known: a survey measures Lustre's OSTs", code="no-ost"
        )
    unknown = [name for name in names if name not in osts]
    if unknown:
        raise UsageError(
            f"there is no OST {unknown[0]!r}",
            code="target-unknown",
            hint=f"known: {', '.join(osts[:12])}",
        )
    if not names and not everything:
        raise UsageError(
            "no OST is named", code="target-missing", hint="name OSTs with --target, or use --all"
        )
    return tuple(osts) if everything else tuple(dict.fromkeys(names))


def candidate(
    name: str, before: Snapshot, now: Snapshot, limits: SurveyLimits, *, on_server: bool
) -> Candidate:
    """Return a target with the reason not to survey it, if there is one.

    Parameters
    ----------
    before, now
        Two snapshots a few seconds apart: the bytes moved in between are the load.
    on_server
        Whether it is surveyed on its server; a client has fewer conditions.
    """
    seen, earlier = now.of(name), before.of(name)
    if seen is None or earlier is None:
        return Candidate(name, None, refusal=Message("target-not-seen", "it was not seen twice"))
    elapsed_s = (now.at - before.at).total_seconds()
    load = _load(earlier, seen, elapsed_s)
    server = seen.target.server
    refusal = _state(seen) or _space(seen, limits)
    if refusal is None and on_server:
        refusal = _of_server(seen) or _too_loaded(load, limits)
    closed = False
    if refusal is None and not on_server and seen.value("create_enabled") is False:
        refusal, closed = Message("target-closed", "it is not open for creation"), True
    return Candidate(
        name,
        server,
        _partners(seen, server),
        seen.number("available_bytes"),
        None if isinstance(load, NotAvailable) else load,
        refusal,
        closed,
    )


def waves(candidates: Iterable[Candidate], *, together: bool) -> tuple[tuple[Candidate, ...], ...]:
    """Return the targets in waves: never two of one server or of two failover partners.

    A target whose partners are unknown shares a wave with no other.

    Parameters
    ----------
    together
        Whether all are measured at once, whichever server they are on.
    """
    allowed = [planned for planned in candidates if planned.refusal is None]
    if together:
        return (tuple(allowed),) if allowed else ()
    groups: list[list[Candidate]] = []
    for target in allowed:
        apart = (wave for wave in groups if not any(meet(target, other) for other in wave))
        wave = next(apart, None)
        if wave is None:
            groups.append([target])
        else:
            wave.append(target)
    return tuple(map(tuple, groups))


def meet(first: Candidate, other: Candidate) -> bool:
    """Return whether two targets share a server or a failover partner; unknown counts as shared."""
    if first.server is None or other.server is None or first.server == other.server:
        return True
    if first.partners is None or other.partners is None:
        return True
    return bool((first.partners | {first.server}) & (other.partners | {other.server}))


def refuse_named(candidates: Iterable[Candidate]) -> None:
    """Raise if a target that the user named may not be surveyed.

    Raises
    ------
    RefusedError
        With every reason.
    """
    reasons = [
        f"{named.target}: {named.refusal}" for named in candidates if named.refusal is not None
    ]
    if reasons:
        raise RefusedError(
            f"not surveyed: {'; '.join(reasons[:8])}",
            code="survey-refused",
            hint="nothing was done; leave them out, or wait until they are healthy and idle",
        )


def _state(seen: TargetSnapshot) -> Message | None:
    """Return the state of a target that forbids any survey."""
    if seen.value("read_only") is True:
        return Message("target-read-only", "it is read-only")
    errors = seen.number("errors_total")
    if errors:
        # An aborted journal makes it read-only, while everything else reports it as healthy.
        return Message("target-errors", f"its file system counts {errors:.0f} errors")
    if seen.value("degraded") is True:
        return Message("target-degraded", "it is degraded")
    state = seen.value("import_state")
    if isinstance(state, str) and state not in CONNECTED:
        if state == INACTIVE:
            return Message("target-inactive", "the client does not use it")
        return Message("target-not-connected", f"it is not connected ({state})")
    return None


def _space(seen: TargetSnapshot, limits: SurveyLimits) -> Message | None:
    available, capacity = seen.number("available_bytes"), seen.number("capacity_bytes")
    if available is None or capacity is None:
        return Message("free-space-unknown", "its free space is unknown")
    margin = max(MARGIN_BYTES, MARGIN_FRACTION * capacity)
    if available >= limits.size_bytes + margin:
        return None
    return Message(
        "target-too-full",
        f"it is too full: {format_bytes(available)} are available,"
        f" {format_bytes(limits.size_bytes)} and a margin of {format_bytes(margin)} are needed",
    )


def _of_server(seen: TargetSnapshot) -> Message | None:
    """Return why a survey on the target's server is forbidden."""
    if seen.target.server is None:
        reading = seen.reading("server")
        why = None if reading is None else reading.reason
        text = f"no known server has it mounted: {why or 'no server reports it'}"
        return Message("server-unknown", text)
    if seen.value("failover_active") is True:
        return Message("target-failed-over", f"it has failed over to {seen.target.server}")
    for name, state in (("degraded", "degraded"), ("read_only", "read-only")):
        if seen.value(name) is None:
            return Message("target-state-unknown", f"whether it is {state} is unknown")
    return None


def _load(before: TargetSnapshot, now: TargetSnapshot, elapsed_s: float) -> float | NotAvailable:
    moved = 0.0
    if elapsed_s <= 0:
        return NotAvailable("no time between the two readings")
    for name in _COUNTERS:
        first, second = before.number(name), now.number(name)
        if first is None or second is None:
            return NotAvailable(f"{name} is unknown")
        if second < first:
            return NotAvailable(f"{name} decreased")
        moved += second - first
    return moved / elapsed_s


def _too_loaded(load: float | NotAvailable, limits: SurveyLimits) -> Message | None:
    if limits.load_bytes_per_s is None:
        return None
    if isinstance(load, NotAvailable):
        return Message("load-unknown", f"its load is unknown: {load.reason}")
    if load > limits.load_bytes_per_s:
        return Message(
            "target-busy",
            f"it is in use: {format_bytes(load)}/s are moved,"
            f" the limit is {format_bytes(limits.load_bytes_per_s)}/s",
        )
    return None


def _partners(seen: TargetSnapshot, server: str | None) -> frozenset[str] | None:
    setting = seen.settings.get("failover/servers")
    if setting is None or isinstance(setting, NotAvailable):
        return None
    return frozenset(setting.value.split()) - {server or ""}
