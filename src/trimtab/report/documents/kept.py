"""Documents from the store: runs, show, event, watch --once."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.alert import Alert
from trimtab.model.event import Event
from trimtab.model.run import Run
from trimtab.record.integrity import DamagedRun
from trimtab.record.kept import KeptOutput
from trimtab.record.slots import Slot
from trimtab.report.documents import values  # noqa: F401 (declares runs and verdicts)
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One raw output as stored, with its file."""

    output: KeptOutput
    stdout_file: str


@dataclass(frozen=True, slots=True)
class StoreTable:
    """Rows of one table.

    Attributes
    ----------
    damaged
        Name of each damaged row: its id, if it has one.
    """

    table: str
    rows: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreCheckDocument:
    """``trimtab store check --json``: what is intact in a store, and what is damaged.

    Attributes
    ----------
    whole
        Whether nothing is damaged.
    problems
        Problems of the database itself and of the raw outputs.
    runs
        Damaged runs, with their series.
    by_server
        Whether the database is PostgreSQL, whose server checks its own pages.
    """

    store: str
    whole: bool
    problems: tuple[str, ...]
    tables: tuple[StoreTable, ...]
    runs: tuple[DamagedRun, ...]
    by_server: bool


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
        Rows copied, per table.
    outputs
        Raw outputs copied; 0 if both stores share their directory.
    missing
        Raw outputs missing or damaged beside the source, by their SHA-256.
    damaged
        Damaged rows that were left out, per table, by name.
    """

    source: str
    target: str
    rows: dict[str, int]
    outputs: int
    missing: tuple[str, ...]
    damaged: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RebuiltSite:
    """A site that was judged from scratch.

    Attributes
    ----------
    dropped
        Values stored before.
    reason
        Why none of its runs can be judged; ``None``: some can.
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
    """Events of a site, oldest first."""

    store: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class WatchDocument:
    """``trimtab watch --once --json``: the slots that ran."""

    site: str
    store: str
    slots: tuple[Slot, ...]


shape(OutputRow, inline={"output": ()})


@dataclass(frozen=True, slots=True)
class AlertsDocument:
    """``trimtab alerts SITE --json``: the ledger, oldest first, and what waits."""

    store: str
    site: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """One receiver that was tested.

    Attributes
    ----------
    delivered
        Whether it accepted the test message.
    """

    receiver: str
    delivered: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AlertsTestDocument:
    """``trimtab alerts test SITE --json``: each receiver, and whether it accepted the message."""

    site: str
    receivers: tuple[ReceiverRow, ...]


shape(Alert, omit=["site", "facts"])
