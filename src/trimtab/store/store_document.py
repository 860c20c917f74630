"""Documents of the store for ``--json``: runs, one run with its outputs, events, copies, checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.base.error import UsageError
from trimtab.base.event import Event
from trimtab.base.run import Run
from trimtab.show.encode import shape
from trimtab.store.kept import KeptOutput
from trimtab.store.maintenance import Copied, StoreCheck

if TYPE_CHECKING:
    from trimtab.store.store import Store


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


def show_run(store: Store, prefix: str) -> ShowDocument:
    """Return the run whose id begins with ``prefix``, and its raw outputs as they are kept.

    Raises
    ------
    UsageError
        No run or several begin with it.
    """
    run = store.run(prefix)
    outputs = (
        OutputRow(output, str(store.raw.file(output.stdout_sha256)))
        for output in store.outputs(run.id)
    )
    return ShowDocument(str(store.location), run, tuple(outputs))


def raw_output(store: Store, prefix: str, ordinal: int) -> bytes:
    """Return what the tool printed, byte for byte, checked against its hash.

    Raises
    ------
    UsageError
        There is no such run, or no such output of it.
    UnreadableError
        The file is damaged or gone.
    """
    outputs = store.outputs(prefix)
    for output in outputs:
        if output.ordinal == ordinal:
            return store.raw_output(output).stdout
    raise UsageError(
        f"the run has no output {ordinal}",
        code="output-unknown",
        hint=f"it has {len(outputs)}, counted from 0",
    )
