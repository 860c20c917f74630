"""Documents from the store: runs, show, event, copies and checks of it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.event import Event
from trimtab.model.run import Run
from trimtab.record.copying import Copied
from trimtab.record.integrity import StoreCheck
from trimtab.record.kept import KeptOutput
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One raw output as stored, with its file."""

    output: KeptOutput
    stdout_file: str


@dataclass(frozen=True, slots=True)
class StoreCheckDocument:
    """``trimtab store check --json``: what is intact in a store, and what is damaged."""

    store: str
    check: StoreCheck


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
    """``trimtab store copy SOURCE TARGET --json``."""

    source: str
    target: str
    copied: Copied


@dataclass(frozen=True, slots=True)
class EventsDocument:
    """Events of a site, oldest first."""

    store: str
    events: tuple[Event, ...]


shape(OutputRow, inline={"output": ()})
shape(StoreCheckDocument, inline={"check": ()})
shape(StoreCopyDocument, inline={"copied": ()})
