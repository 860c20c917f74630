"""Pages and documents of the store: runs, a run's raw output, events, copies and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from trimtab.base.encode import shape
from trimtab.base.error import UsageError, shell_text
from trimtab.base.event import Event
from trimtab.base.run import Run, Sample
from trimtab.base.text import local_moment, metric_text, minute_text, site_labels
from trimtab.base.units import format_bytes, format_duration, format_value, plural, value_or_dash
from trimtab.show.document import Cell, Document, Section, Table, facts, row, table
from trimtab.store.kept import KeptOutput
from trimtab.store.maintenance import Copied, StoreCheck

if TYPE_CHECKING:
    from trimtab.store.store import Store


def runs_table(runs: Sequence[Run], labels: Mapping[str, str]) -> Table | None:
    """Return a row per run; ``labels`` as in `series_table`."""
    length = telling_length([run.id for run in runs])
    columns = ("run", "at", "probe", "status", "write>", "read>")
    return table(
        columns,
        (
            row(
                run.id[:length],
                "-" if run.at is None else minute_text(run.at),
                Cell(f"{labels.get(run.site, '')} {run.probe}".strip(),
                     f"{run.kind} {run.tool_version or ''}".strip()),
                run.status.value,
                _median(run, "write_bandwidth"),
                _median(run, "read_bandwidth"),
            )
            for run in runs
        ),
    )  # fmt: skip


def samples_table(samples: Iterable[Sample]) -> Table | None:
    """Return a row per figure of a run, with the line of output it was read from."""
    return table(
        ("metric", "value>", "target", "statistic", "read from"),
        (
            row(
                metric_text(sample.metric),
                Cell(value_or_dash(sample.value, sample.unit),
                     sample.reason or ""),
                sample.target or "-",
                Cell(sample.statistic, "" if sample.repetition is None
                     else f"repetition {sample.repetition}"),
                "-" if sample.line is None else f"output {sample.output}, line {sample.line}",
            )
            for sample in samples
        ),
    )  # fmt: skip


def _median(run: Run, metric: str) -> str:
    values = run.believed(metric)
    return format_value(median(values), "B/s") if values else "-"


def telling_length(identifiers: Sequence[str]) -> int:
    """Return the number of characters that distinguish these ids, including their time."""
    for length in (13, 18, 23, 28):
        if len({identifier[:length] for identifier in identifiers}) == len(identifiers):
            return length
    return 36


def runs_document(runs: Sequence[Run], *, requested: int) -> Document:
    """Return runs, newest first; ``requested`` is the number asked for."""
    if not runs:
        return Document("No run is stored.")
    statuses = Counter(run.status.value for run in runs)
    each = ", ".join(f"{count} {status}" for status, count in statuses.items())
    last = "last " if len(runs) == requested else ""
    labels = site_labels(run.site for run in runs)
    return Document(
        f"{plural(len(runs), f'{last}run', ',')}: {each}.",
        (Section(tables=(runs_table(runs, labels if len(labels) > 1 else {}),)),),
        more=("trimtab show RUN traces every number of one; --top N lists more",),
    )


def run_document(shown: ShowDocument) -> Document:
    """Return a run with its samples, and the command and raw output behind each."""
    return Document(
        f"run {shown.run.id}",
        (
            Section(tables=(facts(_facts(shown.run, shown.store)),)),
            Section(tables=(samples_table(shown.run.samples),)),
            *(_output(each.output, each.stdout_file) for each in shown.outputs),
        ),
        more=("trimtab show RUN --output N prints one raw output",) if shown.outputs else (),
    )


def _output(output: KeptOutput, file: str) -> Section:
    took = "-" if output.elapsed_s is None else format_duration(output.elapsed_s)
    size, digest = format_bytes(output.stdout_bytes), output.stdout_sha256[:16]
    return Section(
        f"raw output {output.ordinal}, {output.label}",
        lines=(f"exit code {output.exit_code}, {took}, {size}, sha256 {digest}",),
        commands=tuple(filter(None, (shell_text(output.argv), file))),
    )


def _facts(run: Run, store: str) -> list[tuple[str, str]]:
    status = run.status.value if run.problem is None else f"{run.status.value}: {run.problem}"
    at = local_moment(run.at) if run.at is not None else f"not known: {run.at_reason}"
    facts = [
        ("site", run.site),
        ("path", run.path or "-"),
        ("host", run.host or "-"),
        ("probe", run.probe),
        ("benchmark", f"{run.kind} {run.tool_version or '(version not known)'}"),
        ("at", f"{at} to {local_moment(run.until)}"),
        ("status", status),
        ("trimtab", run.trimtab_version or "-"),
        ("store", store),
    ]
    spec = run.parameters.get("spec")
    if isinstance(spec, dict):
        facts.insert(5, ("asked", ", ".join(f"{key} {value}" for key, value in spec.items())))
    reported = run.parameters.get("told")
    if isinstance(reported, dict) and not run.samples:  # an explanatory run has it all there
        facts.insert(
            -2,
            ("reported", ", ".join(f"{key} {_in_short(value)}" for key, value in reported.items())),
        )
    return facts


def _in_short(value: object) -> str:
    """Return a value as it is, and a series of numbers in short."""
    if not isinstance(value, list) or not value or not isinstance(value[0], (int, float)):
        return str(value)
    return f"{plural(len(value), 'value')} (mean {fmean(value):.3g}, most {max(value):.3g})"


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
