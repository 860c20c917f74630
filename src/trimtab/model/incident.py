"""An incident: a stretch in which performance was not what it had been, and why, if known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from trimtab.message import Message
from trimtab.model.series import ChangeStatus, SeriesKey
from trimtab.model.verdict import Interval


class Shape(StrEnum):
    """How an incident looks in the series."""

    STEP = "step"
    """The level changed and stayed."""
    DIP = "dip"
    """Some runs, or a stretch of less than two days, far under the level; then it was back."""
    DRIFT = "drift"
    """The level went down day by day."""
    UNSTEADY = "unsteady"
    """The level held; the runs spread wider than the goal allows."""
    INTEGRITY = "integrity"
    """Data were at risk: transfers with a bad checksum. Speed does not matter then."""
    STANDING = "standing"
    """No beginning within the record."""
    MOMENT = "moment"
    """An hour or two on request, whether anything was wrong or not."""


class IncidentState(StrEnum):
    """Whether it goes on."""

    OPEN = "open"
    LASTING = "lasting"
    """A step that has stayed for so long that its level is the usual one now."""
    ENDED = "ended"


class Route(StrEnum):
    """What a piece of evidence is compared with."""

    TIME = "time"
    """Bad hours against good ones."""
    TARGETS = "targets"
    """Slow targets against fast ones in the same hour."""
    EXPECTED = "expected"
    """An absolute expectation: a limit, a data sheet, a dose."""
    LOG = "log"
    """The log book: something was changed or happened."""
    RUNS = "runs"
    """What the runs themselves say: errors, workload, where they ran."""


class Found(StrEnum):
    """Result of a piece of evidence."""

    FOR = "for"
    AGAINST = "against"
    NEUTRAL = "neutral"
    """Available, but neutral."""
    NOT_AVAILABLE = "not_available"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence.

    Attributes
    ----------
    what
        In words, with the figures: "OST0012 was 97 % full from 14:00; the limit is 75 %".
    weight
        log10 of the likelihood ratio: how much likelier this is if the cause holds than if not.
        0 for what is neutral or not available.
    value, reference, unit
        In the bad stretch, and its reference: good hours, fast targets, a limit.
    targets
        Those that it is about.
    at
        When it was seen, or began.
    source
        Telemetry name, event, run or file that it rests on.
    reason
        Why it is not available; set exactly then.
    throughout
        The condition was there in the good hours as in the bad ones: it can neither convict nor
        clear in this incident, but it may be a standing condition.
    """

    found: Found
    what: Message
    route: Route
    weight: float = 0.0
    value: float | str | None = None
    reference: float | str | None = None
    unit: str | None = None
    targets: tuple[str, ...] = ()
    at: datetime | None = None
    source: str | None = None
    reason: Message | None = None
    throughout: bool = False

    def __post_init__(self) -> None:
        if (self.found is Found.NOT_AVAILABLE) != (self.reason is not None):
            raise ValueError(f"{self.what}: what is not available has a reason, nothing else has")
        if (self.weight > 0) != (self.found is Found.FOR) or (self.weight < 0) != (
            self.found is Found.AGAINST
        ):
            raise ValueError(f"{self.what}: weight {self.weight} does not fit {self.found}")


@dataclass(frozen=True, slots=True)
class Assessment:
    """One cause assessed for one incident.

    Attributes
    ----------
    cause, title
        Id as in `trimtab.explain.causes`, and its name for people.
    confidence
        Probability that it is a cause of this incident; calibrated on simulated incidents.
    because_of
        Id of the cause that brought this one about, where the evidence shows the chain.
    standing
        The condition is older than the record: nothing within it can clear or convict it.
    evidence
        The weightiest first.
    measurement
        What would decide whether it is the cause.
    """

    cause: str
    title: str
    confidence: float
    evidence: tuple[Evidence, ...]
    because_of: str | None = None
    standing: bool = False
    measurement: str = ""


@dataclass(frozen=True, slots=True)
class Instrument:
    """A probe or survey, and what it could have seen.

    Attributes
    ----------
    notices_below
        The bandwidth of one target under which the instrument would notice it, B/s; ``None``
        where it is unknown.
    saw
        Whether it has data within the incident.
    """

    name: str
    metric: str
    notices_below: float | None
    saw: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A stretch in which a series, or a site, was not well.

    Attributes
    ----------
    id
        The same whenever the same incident is found again: from site, series, shape and ``at``.
    key
        The series in which it shows most; ``None`` where no series shows it.
    also
        Names of other series that moved with it, and of those that did not.
    at, until
        First and last bad run; ``until`` is ``None`` while it goes on.
    detected_at
        When it could first be detected.
    certainty
        Whether the change behind it is confirmed.
    effect, effect_interval
        Ratio of bad to good level.
    runs, unfinished
        Bad runs, and those of them that did not finish.
    targets
        Slow targets, where surveys show them; empty is the whole.
    summary
        One sentence: since when, what, how much.
    """

    id: str
    site: str
    key: SeriesKey | None
    shape: Shape
    state: IncidentState
    certainty: ChangeStatus
    at: datetime
    until: datetime | None
    detected_at: datetime
    effect: float | None
    effect_interval: Interval | None
    runs: int
    unfinished: int
    summary: str
    moved_with: tuple[str, ...] = ()
    unmoved: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The likely causes of an incident.

    Attributes
    ----------
    causes
        With evidence for them, the likeliest first.
    cleared
        Evidence against outweighs.
    not_assessed
        Whose evidence is not available; any of them may be the cause.
    standing
        Conditions that were wrong all along, with what would decide about them.
    unexplained
        No cause reaches the confidence at which one is named.
    deciding
        The measurement that would decide between the two likeliest, or the next thing to look at.
    """

    incident: Incident
    causes: tuple[Assessment, ...]
    cleared: tuple[Assessment, ...]
    not_assessed: tuple[Assessment, ...]
    standing: tuple[Assessment, ...]
    unexplained: bool
    deciding: Message
    instruments: tuple[Instrument, ...] = ()
    notes: tuple[Message, ...] = ()
