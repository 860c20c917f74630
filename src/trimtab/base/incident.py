"""Incidents: periods of degraded performance, with their causes if known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from trimtab.base.encode import shape
from trimtab.base.error import Message
from trimtab.base.series import ChangeStatus, LevelNow, SeriesKey
from trimtab.base.server_message import MessageHour
from trimtab.base.verdict import Interval

NAMED: Final = 0.9
"""Confidence from which a cause is named; below, it is a suspicion and the incident unexplained.

How much is true of what records of sites (`tests.worlds`) list at each confidence is in
``docs/explaining.md``.
"""
SAME_INCIDENT: Final = timedelta(days=1)
"""The most that the start of one incident may move between two analyses."""


class Shape(StrEnum):
    """Form of an incident in the series."""

    STEP = "step"
    """The level changed and stayed."""
    DIP = "dip"
    """Some runs, or a period of less than two days, far below the level, then recovery."""
    DRIFT = "drift"
    """The level decreased day by day."""
    UNSTEADY = "unsteady"
    """The level is constant; the spread of the runs exceeds the goal."""
    PERIODIC = "periodic"
    """Low at the same hours of every day, or on the same weekdays, repeatedly."""
    INTEGRITY = "integrity"
    """Data at risk: transfers with a bad checksum, regardless of performance."""
    STANDING = "standing"
    """No beginning within the record."""
    MOMENT = "moment"
    """An hour or two on request, whether anything was wrong or not."""


class IncidentState(StrEnum):
    """Whether the incident is ongoing."""

    OPEN = "open"
    LASTING = "lasting"
    """A step that has lasted so long that its level is now normal."""
    ENDED = "ended"


GOING_ON: Final = (IncidentState.OPEN.value, IncidentState.LASTING.value)
"""States of incidents that were not over when they were last looked for, as they are stored."""


class Route(StrEnum):
    """The comparison on which a piece of evidence is based."""

    TIME = "time"
    """Bad hours against good ones."""
    TARGETS = "targets"
    """Slow targets against fast ones in the same hour."""
    EXPECTED = "expected"
    """An absolute expectation: a limit, a data sheet, a dose."""
    LOG = "log"
    """The log book: a logged change or event."""
    RUNS = "runs"
    """The runs themselves: errors, workload, nodes."""


class Found(StrEnum):
    """Result of a piece of evidence."""

    FOR = "for"
    AGAINST = "against"
    NEUTRAL = "neutral"
    """Available, but neither for nor against."""
    NOT_AVAILABLE = "not_available"


class Against(StrEnum):
    """The way in which a piece of evidence contradicts a cause."""

    ABSENT = "absent"
    """What the cause would change is as ever: counts only if the look sees where the cause acts."""
    RIVAL = "rival"
    """Something that the cause cannot change did change, beyond chance and enough for the loss."""
    CONDITION = "condition"
    """A condition without which the cause cannot act does not hold."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence.

    Attributes
    ----------
    found
        Whether it supports or contradicts the cause.
    what
        Sentence with the figures: "OST0012 was 97 % full from 14:00; the limit is 75 %".
    route
        The comparison on which it is based.
    weight
        log10 of the likelihood ratio: how much likelier the observation is if the cause holds than
        if not. 0 for neutral or unavailable evidence.
    value, reference, unit
        Value in the bad period, its reference (good hours, fast targets, a limit), and their unit.
    targets
        Names of the targets concerned.
    at
        When it was observed, or began; aware UTC.
    source
        Telemetry name, event, run or file.
    reason
        Why it is not available; set only then.
    throughout
        The condition held in the good hours as well as in the bad ones. It neither supports nor
        excludes the cause of this incident, but may be a standing condition.
    sees
        Layers at which a cause would make this look different (`trimtab.explain.sight`); empty if
        not stated.
    against
        How it contradicts the cause; ``None``: not stated, and its weight counts as it is.
    quantity
        Name of the quantity that ``value`` states, shared by all pieces that state it.

    Raises
    ------
    ValueError
        The reason or the sign of the weight does not fit ``found``.
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
    sees: tuple[str, ...] = ()
    against: Against | None = None
    quantity: str = ""

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
        Id as in `trimtab.explain.causes`, and its display name.
    confidence
        Probability, 0 to 1, that it is a cause of this incident; calibrated on simulated sites.
    evidence
        In order of decreasing weight.
    because_of
        Id of the cause that led to this one, if the evidence shows the chain.
    standing
        The condition is older than the record, so data within it can neither confirm nor exclude
        it.
    measurement
        The measurement that would decide whether it is the cause.
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
    """A probe or survey, and its detection limit.

    Attributes
    ----------
    name, metric
        The instrument and what it measures.
    notices_below
        Bandwidth of a single target, B/s, below which the instrument detects it; ``None`` if
        unknown.
    saw
        Whether it has data within the incident.
    reason
        The limit as text, or why it is unknown.
    """

    name: str
    metric: str
    notices_below: float | None
    saw: bool
    reason: Message


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of an incident: what got worse when, after the stage before.

    Attributes
    ----------
    at
        When it began, aware UTC.
    what
        The series, or the targets, and how much: "hourly write_bandwidth 17 % lower".
    """

    at: datetime
    what: str


_WEEKDAYS: Final = (
    "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Hours of certain weekdays at which something recurs.

    Attributes
    ----------
    weekdays
        Monday is 0.
    from_hour, to_hour
        First hour, and the one after the last, local time; equal: the whole day.
    timezone
        IANA name.

    Examples
    --------
    >>> str(Recurrence(tuple(range(7)), 1, 4, "UTC"))
    'every day from 01 to 04 UTC'
    >>> str(Recurrence((4,), 0, 0, "Europe/Berlin"))
    'on Fridays'
    """

    weekdays: tuple[int, ...]
    from_hour: int
    to_hour: int
    timezone: str

    @property
    def hours(self) -> tuple[int, ...]:
        """Hours of the day; hours past midnight belong to the same evening."""
        count = (self.to_hour - self.from_hour) % 24 or 24
        return tuple((self.from_hour + number) % 24 for number in range(count))

    def meets(self, other: Recurrence) -> bool:
        """Return whether both share an hour of the day and a weekday."""
        return bool({*self.hours} & {*other.hours} and {*self.weekdays} & {*other.weekdays})

    def __str__(self) -> str:
        """Return it as text."""
        days = ", ".join(_WEEKDAYS[day] for day in self.weekdays)
        days = "every day" if len(self.weekdays) == 7 else f"on {days}"
        if self.from_hour == self.to_hour:
            return days
        return f"{days} from {self.from_hour:02d} to {self.to_hour:02d} {self.timezone}"


@dataclass(frozen=True, slots=True)
class Incident:
    """A period in which a series, or a site, performed below its level.

    Attributes
    ----------
    id
        Derived from site, series, shape and ``at``: the same incident always has the same id.
    key
        The series in which it is most visible; ``None`` if no series shows it.
    shape, state
        Its form, and whether it is ongoing.
    certainty
        Whether the change behind it is confirmed.
    at, until
        First and last bad run, aware UTC; ``until`` is ``None`` while it is ongoing.
    detected_at
        When it could first be detected.
    effect, effect_interval
        Ratio of bad to good level.
    runs, unfinished
        Number of bad runs, and of unfinished ones among them.
    summary
        One sentence: since when, what, how much.
    moved_with, unmoved
        Names of other series that changed with it, and of those that did not.
    better
        Series that improved at the same moment, each with its size.
    recurs
        When it recurs; ``None`` unless the shape is ``periodic``.
    stages
        What got worse when, earliest first; empty if all began together.
    targets
        Slow targets, if surveys show them; empty: the whole file system.
    level_now
        For the last incident of a series that is below its level: its current level. An ended
        incident has one if its series did not recover.
    onset
        The interval within which it began, aware UTC; ``None``: at ``at``, as far as known.
    margin
        First and last run of everything that belongs to it, aware UTC, if it reaches beyond the bad
        hours from ``at`` to ``until``; ``None``: it does not.
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
    better: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    recurs: Recurrence | None = None
    level_now: LevelNow | None = None
    onset: tuple[datetime, datetime] | None = None
    margin: tuple[datetime, datetime] | None = None


def series_of_incident(incident: Incident) -> str | None:
    """Return the id of the series in which it is most visible; ``None``: no series, or a file's."""
    key = incident.key
    return key.id if key is not None and key.comparability else None


@dataclass(frozen=True, slots=True)
class LoneRun:
    """A run that was lost or slow while those around it were as usual: a note, not an incident.

    Attributes
    ----------
    probe, kind
        The probe, and its benchmark.
    at
        Start of the run, aware UTC.
    apart
        Settings that distinguish its series from others of its probe, as text; empty if it has no
        other, or none is known.
    slow
        What was slow of a run that finished, "write_bandwidth 36 % lower"; empty: the run failed or
        did not finish.
    """

    probe: str
    kind: str
    at: datetime
    apart: str = ""
    slow: str = ""


NOTABLE: Final = 0.05
"""Difference from the usual level, as a fraction, from which a run is called slower or faster."""


@dataclass(frozen=True, slots=True)
class SpeedAt:
    """How fast the runs of one series were at a moment, compared with usual.

    Attributes
    ----------
    at
        Start of the run nearest to the moment, aware UTC.
    runs, unfinished
        Number of runs within the moment, and of unfinished ones among them; if there is none, the
        nearest run alone.
    value
        Median of the finished runs, in the unit of the series; ``None`` if none finished.
    usual, usual_until
        Median of the finished runs of the week before ``usual_until``, or of all earlier ones if a
        week has too few; ``None`` if there are too few at all.
    """

    key: SeriesKey
    at: datetime
    runs: int
    unfinished: int
    value: float | None
    usual: float | None
    usual_until: datetime

    @property
    def ratio(self) -> float | None:
        """Level over the usual one; an unfinished run counts as 0."""
        if not self.usual or (self.value is None and not self.unfinished):
            return None
        return (self.value or 0.0) / self.usual


@dataclass(frozen=True, slots=True)
class Explanation:
    """The likely causes of an incident.

    Attributes
    ----------
    incident
        The incident that is explained.
    causes
        Causes with supporting evidence, likeliest first.
    cleared
        Causes against which the evidence predominates.
    not_assessed
        Causes without available evidence; any of them may be the cause.
    standing
        Conditions that were wrong throughout, with the decisive measurement for each.
    unexplained
        No cause reaches the confidence at which one is named.
    deciding
        The measurement that would decide between the two likeliest causes, or the next thing to
        examine.
    instruments
        Probes and surveys with their detection limits.
    messages
        What kernel logs say from a day before it on, by hour.
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
    messages: tuple[MessageHour, ...] = ()

    @property
    def likeliest(self) -> Assessment | None:
        """The cause that is named; ``None`` if unexplained."""
        return self.causes[0] if self.causes and not self.unexplained else None

    @property
    def chain(self) -> tuple[Assessment, ...]:
        """The cause that is named, then what led to it, as far as that is listed."""
        listed = {cause.cause: cause for cause in self.causes}
        chain: list[Assessment] = []
        link = self.likeliest
        while link is not None and link not in chain:
            chain.append(link)
            link = listed.get(link.because_of or "")
        return tuple(chain)

    @property
    def chain_text(self) -> str:
        """The titles of the chain; empty if unexplained.

        "targets over the fullness limit, because of load of other jobs".
        """
        return ", because of ".join(cause.title for cause in self.chain)


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


shape(Assessment, omit=["cause", "measurement"], derive={"id": "cause"})
shape(
    Incident,
    inline={"key": ("probe", "metric", "unit", "apart")},
    derive={"series": (str | None, series_of_incident)},
)
shape(Explanation, inline={"incident": ()})
