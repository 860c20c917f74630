"""Phases, rates and latencies of fio jobs that ran together, in total and by device."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace

from trimtab.measure.command_line import size_of
from trimtab.measure.fio.documents import Document
from trimtab.measure.fio.figures import Entry, iops_reason, together
from trimtab.measure.fio.latency import latencies, upper_edges
from trimtab.measure.fio.options import file_names, options_of, tasks_of
from trimtab.measure.measurement import ACCESSES, IOPS, LATENCY, Draft, Phase
from trimtab.measure.plain import as_number
from trimtab.message import Message
from trimtab.model.finding import Missing
from trimtab.model.run import Access, LatencyHistogram, Sample


def moving(document: Document, run: Sequence[int], access: Access) -> list[Entry]:
    """Return the entries of a run that moved bytes in one direction."""
    entries = [Entry(document, index, access) for index in run]
    return [
        entry
        for entry in entries
        if as_number(entry.figures.get("total_ios", entry.figures.get("io_bytes")))
    ]


def read_jobs(draft: Draft, document: Document, run: Sequence[int], repetition: int) -> bool:
    """Add errors, phases and latencies of jobs that ran together.

    Returns whether data was corrupt.
    """
    integrity_lost = False
    draft.tool_version = str(document.value.get("fio version", "")).removeprefix("fio-") or None
    for index in run:
        error = as_number(document.jobs[index].get("error"))
        if error == errno.EILSEQ:  # from its verify.c
            integrity_lost = True
            draft.problems.add("data-corrupt", "fio: data read is not what was written (error 84)")
        elif error:
            code = min(
                int(error), 10**9
            )  # larger values are no errno, and os.strerror refuses them
            draft.problems.add("tool-error", f"fio: {os.strerror(code)} (error {code})")
    if document.mixed:
        text = f"fio's output has {document.mixed[0]} twice: two outputs are mixed"
        draft.problems.add("outputs-mixed", text)
    for access in ACCESSES:
        entries = moving(document, run, access)
        if entries:
            draft.phases.append(_phase(entries, repetition))
            _read_latencies(draft, entries, repetition, None)
    return integrity_lost


def _phase(entries: Sequence[Entry], repetition: int) -> Phase:
    figures = together(entries)
    first = entries[0]
    options = options_of(first.document, first.job)
    is_told = bool(options) and first.document.echoes_options
    mixed = Message("outputs-mixed", "two outputs are mixed") if first.document.mixed else None
    return Phase(
        access=first.access,
        repetition=repetition,
        moved_bytes=None if figures.moved_bytes is None else int(figures.moved_bytes),
        elapsed_s=figures.elapsed_s,
        bandwidth_bytes_per_s=figures.bandwidth_bytes_per_s,
        tasks=_tasks(entries),
        transfer_size_bytes=size_of(str(options.get("bs"))),
        block_size_bytes=size_of(str(options.get("size"))),
        cpu_user_s=_processor_time(entries, "usr_cpu"),
        cpu_system_s=_processor_time(entries, "sys_cpu"),
        direct=options.get("direct", "0") == "1" if is_told else None,
        caches_dropped=options.get("invalidate", "1") == "1" if is_told else None,
        line=first.bandwidth_line,
        reason=mixed or figures.reason,
    )


def _tasks(entries: Sequence[Entry]) -> int | None:
    """Return the threads of entries: one each, or all of a section that reports as a group.

    Detects groups by their number, as fio does not always echo ``group_reporting``. The
    human-readable form has it for each.
    """
    if not entries[0].document.echoes_options:
        each_of = [tasks_of(entry.document, entry.job) for entry in entries]
        return None if None in each_of else sum(filter(None, each_of))
    sections: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        key = tuple(str(entry.job.get(key)) for key in ("hostname", "port", "groupid", "jobname"))
        sections.setdefault(key, []).append(entry)
    tasks = 0
    for section in sections.values():
        each = tasks_of(section[0].document, section[0].job)
        if each is None or len(section) not in (1, each):
            return None
        tasks += each
    return tasks


def _processor_time(entries: Sequence[Entry], key: str) -> float | None:
    """Return CPU seconds: fio prints percent of ``job_runtime``, which is summed over threads."""
    total_s = 0.0
    for entry in entries:
        share, time_ms = as_number(entry.job.get(key)), as_number(entry.job.get("job_runtime"))
        if share is None or time_ms is None:
            return None
        total_s += share / 100 * time_ms / 1000
    return total_s


def _read_latencies(
    draft: Draft, entries: Sequence[Entry], repetition: int, target: str | None
) -> None:
    access, read = entries[0].access, latencies(entries)
    metric, output = LATENCY[access], draft.output
    doubt = entries[0].document.doubt(entries[0].index, access)
    draft.latencies += [
        Sample(
            metric,
            value_s,
            repetition,
            target,
            name,
            output,
            line,
            read.reason or read.coarse.get(name) or doubt,
        )
        for name, (value_s, line) in read.values_s.items()
    ]
    if target is not None:
        return
    if read.missing is not None:
        draft.missing.append(Missing("latency distribution", read.missing))
    edges = upper_edges(read.counts)
    if edges:
        order = sorted(edges)
        upper_s = tuple(edge / 1e9 for edge in order)
        counts = tuple(edges[edge] for edge in order)
        draft.histograms.append(LatencyHistogram(access, repetition, upper_s, counts))


def read_operations(draft: Draft, entries: Sequence[Entry], target: str | None) -> None:
    """Add the IOPS of entries that ran together, in total or of one device."""
    figures = together(entries)
    if figures.iops is None:
        return
    reason = figures.reason or next(filter(None, map(iops_reason, entries)), None)
    first = entries[0]
    metric, output = IOPS[first.access], draft.output
    line = first.document.line_of(first.index, first.access, "iops")
    sample = Sample(metric, figures.iops, 0, target, output=output, line=line, reason=reason)
    draft.latencies.append(sample)


def read_targets(draft: Draft, entries: Sequence[Entry], *, hidden: bool) -> None:
    """Add the figures of each file or device, if every job has its own."""
    targets: dict[str, list[Entry]] = {}
    for entry in entries:
        names = file_names(options_of(entry.document, entry.job))
        if len(names) != 1:
            return
        host = entry.job.get("hostname")
        targets.setdefault(names[0] if host is None else f"{host}:{names[0]}", []).append(entry)
    if len(targets) < 2 or hidden:
        return
    for target, of_it in targets.items():
        phase = _phase(of_it, 0)
        draft.latencies.append(replace(phase.sample(draft.output), target=target))
        read_operations(draft, of_it, target)
        _read_latencies(draft, of_it, 0, target)
