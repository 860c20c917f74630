"""Documents of what is kept: status, runs, show, event, watch --once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.model.alert import Alert
from trimtab.model.event import Event
from trimtab.model.finding import Finding
from trimtab.model.run import Run
from trimtab.model.status import SeriesStatus, Status
from trimtab.record.integrity import DamagedRun
from trimtab.record.kept import KeptOutput
from trimtab.record.slots import Slot
from trimtab.report.documents import measured  # noqa: F401 (declares runs and verdicts)
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One raw output as it is kept, with the file that holds it."""

    output: KeptOutput
    stdout_file: str


@dataclass(frozen=True, slots=True)
class StoreTable:
    """Rows of one table.

    Attributes
    ----------
    damaged
        What names each damaged row: its id, if it has one.
    """

    table: str
    rows: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreCheckDocument:
    """``trimtab store check --json``: what is whole of a store, and what is damaged.

    Attributes
    ----------
    whole
        Whether nothing is damaged.
    problems
        Of the database itself and of the raw outputs.
    runs
        The damaged ones, with their series.
    by_server
        Whether the database is PostgreSQL's, whose server checks its own pages.
    """

    store: str
    whole: bool
    problems: tuple[str, ...]
    tables: tuple[StoreTable, ...]
    runs: tuple[DamagedRun, ...]
    by_server: bool


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """``trimtab status --json``.

    Attributes
    ----------
    troubles
        Of each site what is wrong now, the worst first, each with its repair.
    """

    status: Status
    troubles: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MonthDocument:
    """``trimtab report SITE --json``: where the report of a month is, and how it begins.

    Attributes
    ----------
    month
        As ``2026-10``.
    report
        The file that was written.
    answer, details
        The sentences that the report begins with.
    """

    store: str
    site: str
    month: str
    report: str
    answer: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsDocument:
    """``trimtab runs --json``; without raw outputs, which ``show`` has."""

    store: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ShowDocument:
    """``trimtab show RUN --json``: a run with the commands and raw outputs behind its numbers."""

    store: str
    run: Run
    outputs: tuple[OutputRow, ...]


@dataclass(frozen=True, slots=True)
class StoreCopyDocument:
    """``trimtab store copy SOURCE TARGET --json``.

    Attributes
    ----------
    rows
        Copied, of each table.
    outputs
        Raw outputs copied; 0 where both stores share their directory.
    missing
        Raw outputs that were missing or damaged beside the source, by their SHA-256.
    damaged
        Damaged rows that were left out, of each table, by what names them.
    """

    source: str
    target: str
    rows: dict[str, int]
    outputs: int
    missing: tuple[str, ...]
    damaged: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RebuiltSite:
    """A site of which everything was judged from nothing.

    Attributes
    ----------
    dropped
        Values that were kept before.
    reason
        Why no run of it can be judged; ``None``: some can.
    """

    site: str
    dropped: int
    series: int
    incidents: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class StoreRebuildDocument:
    """``trimtab store rebuild [SITE] --json``."""

    store: str
    sites: tuple[RebuiltSite, ...]


@dataclass(frozen=True, slots=True)
class EventsDocument:
    """Events of a site, the oldest first."""

    store: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class WatchDocument:
    """``trimtab watch --once --json``: what was done."""

    site: str
    store: str
    slots: tuple[Slot, ...]


shape(SeriesStatus, derive={"metric": "verdict.metric", "unit": "verdict.unit"})
shape(
    Status,
    omit=["last_runs"],
    derive={"runs": "last_runs"},
)
shape(OutputRow, inline={"output": ()})
shape(StatusDocument, inline={"status": ()})


@dataclass(frozen=True, slots=True)
class AlertsDocument:
    """``trimtab alerts SITE --json``: the ledger, the oldest first, and what waits."""

    store: str
    site: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """One receiver that was tried.

    Attributes
    ----------
    delivered
        Whether it took the test message.
    """

    receiver: str
    delivered: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AlertsTestDocument:
    """``trimtab alerts test SITE --json``: each receiver, and whether it took a test message."""

    site: str
    receivers: tuple[ReceiverRow, ...]


shape(Alert, omit=["site", "facts"])
