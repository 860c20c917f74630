"""Trimtab's own load generator: ``trimtab-ioload``, kind ``builtin``.

It measures like IOR (bytes over last close minus first open, including the flush), with threads as
tasks, and reports more: latency of every operation and bytes per interval. Equal values of
``--deadline`` and ``--minimum-duration`` give a run of fixed time. Its report is one JSON object on
one line, so every number comes from line 1.

A read uses each file's actual size, so it needs none from the caller.
"""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from typing import Any, Final

from trimtab.base.error import DataError, Message
from trimtab.base.plain import as_dict, as_list, as_number, as_whole
from trimtab.base.run import Access, LatencyHistogram, RawOutput, Sample, Timeline
from trimtab.formats.measurement import (
    ACCESSES,
    LATENCY,
    Mark,
    MeasuredPhase,
    Measurement,
    MeasurementDraft,
    OutputFile,
    OutputFormat,
    agrees,
    beginning,
    tail,
)
from trimtab.formats.phase import FILE_NAME, PhaseRequest, Phases, Version

_RESERVED_OPTIONS: Final = frozenset(
    {"dir", "name", "write", "read", "tasks", "transfer-size", "block-size", "deadline", "out"}
    | {"minimum-duration", "keep", "overwrite", "alone", "run-id", "rendezvous", "shared-file"}
    | {"direct", "fsync", "verify", "progress", "version", "help"}
)
"""Options that the command sets itself, or that would make it something other than a probe."""
_STATISTICS: Final = ("p50", "p90", "p99", "p99.9", "mean", "max")


version: Final = Version("ioload", ("--version",), r"\Aioload ([0-9]\S*)\s*\Z")


def command(phase: PhaseRequest) -> tuple[str, ...]:
    """Return the generator's command.

    It starts ``spec.tasks`` threads, or is one of as many ranks if ``spec.processes``.
    """
    spec, directory = phase.spec, phase.directory
    seconds = f"{spec.duration_s:g}"
    argv = [phase.program, "--dir", directory, "--name", FILE_NAME, f"--{phase.access}"]
    if spec.processes:
        # A word shared by the ranks of this phase only: they find each other by it.
        word = f"{directory.rstrip('/').rpartition('/')[2]}-{phase.access}"
        argv += ["--tasks", "1", "--run-id", re.sub(r"[^A-Za-z0-9-]", "", word)]
    else:
        # In a batch job the launcher's variables are set even without a launcher.
        argv += ["--alone", "--tasks", str(spec.tasks)]
    argv += ["--transfer-size", str(spec.transfer_size_bytes)]
    argv += ["--block-size", str(phase.file_bytes)]
    argv += ["--deadline", seconds, "--minimum-duration", seconds, "--keep"]
    if not spec.file_per_process:
        argv.append("--shared-file")
    if phase.access == "write" and spec.flush:
        argv.append("--fsync")
    if phase.access == "read" and spec.tasks > 1:
        argv += ["--reorder", "1"]
    if spec.direct:
        argv.append("--direct")
    if spec.target_pinning and phase.access == "write":
        argv.append("--overwrite")  # the files are already placed on their targets
    return tuple(argv)


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Parse the generator's report. Never raises.

    Parameters
    ----------
    repetition
        Number of the repetition; a report has one.
    ordinal
        Ordinal of this raw output in the run, for the samples.
    """
    draft = MeasurementDraft("builtin", ordinal)
    text = output.stdout.decode("utf-8", "replace")
    stderr = output.stderr.decode("utf-8", "replace")
    located = _report(text)
    integrity_lost = False
    if located is not None:
        report, line = located
        draft.tool_version = str(report["ioload"])
        _note_status(draft, report)
        for phase in filter(None, map(as_dict, as_list(report.get("phases")))):
            integrity_lost = _read_phase(draft, report, phase, (repetition, line)) or integrity_lost
    elif not text.strip():
        draft.problems.add("nothing-printed", "ioload printed nothing")
    else:
        draft.problems.add("not-this-format", f"this is not a report of ioload: {beginning(text)}")
    if output.truncated:
        draft.problems.add("output-cut", "the output was cut at its limit")
    draft.note_exit("ioload", output, "" if draft.problems and located else tail(stderr))
    return draft.finished(integrity_lost=integrity_lost)


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the result in a report file; see `trimtab.formats.measurement`."""
    if _report(source.text) is None:
        problem = "this is not a complete report of trimtab-ioload"
        raise DataError(problem, code="not-this-format", line=1)
    return (parse(source.raw_output(), ordinal=0),)


def _recognises(source: OutputFile) -> bool:
    return source.head.lstrip().startswith('{"ioload"')


_BEGINNING: Final = re.compile(rb'^\{"ioload"', re.MULTILINE)
PHASES: Final = Phases(
    "builtin",
    ("trimtab-ioload",),
    ("local", "mpi", "slurm"),
    command,
    parse,
    version,
    _RESERVED_OPTIONS,
)
FORMAT: Final = OutputFormat(
    "builtin", _recognises, read, beginning=Mark((b'{"ioload"',), _BEGINNING)
)


def _report(text: str) -> tuple[dict[str, Any], int] | None:
    """Return the report and its line; other lines are skipped."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("ioload"), str):
            return value, number
    return None


def _note_status(draft: MeasurementDraft, report: dict[str, Any]) -> None:
    """Note the error; ``partial`` without one means that the requested deadline came."""
    direct = as_dict(report.get("direct"))
    if direct.get("asked") and not direct.get("used") and report.get("phases"):
        draft.warnings.add(
            "direct-not-used", f"buffered instead of O_DIRECT: {direct.get('reason')}"
        )
    error = as_dict(report.get("error"))
    status = report.get("status")
    if error:
        draft.problems.add("tool-error", f"ioload {status}: {error.get('message', 'no message')}")
    elif status not in ("ok", "partial"):
        draft.problems.add("status-unknown", f"ioload reports the unknown status {status!r}")


def _read_phase(
    draft: MeasurementDraft, report: dict[str, Any], phase: dict[str, Any], place: tuple[int, int]
) -> bool:
    """Add one phase; return whether data was corrupt."""
    access: Access | None = next((name for name in ACCESSES if name == phase.get("access")), None)
    if access is None:
        draft.problems.add("access-unknown", f"ioload reports an access {phase.get('access')!r}")
        return False
    repetition, line = place
    parameters = as_dict(report.get("parameters"))
    moved, elapsed_s = as_number(phase.get("bytes")), as_number(phase.get("elapsed_s"))
    bandwidth = as_number(phase.get("bandwidth_bytes_per_s"))
    verified = as_dict(phase.get("verify"))
    wrong = as_number(verified.get("mismatches")) or 0
    reason = _disagreement(moved, elapsed_s, bandwidth)
    if wrong:
        reason = Message("data-corrupt", "data read is not what was written")
        draft.problems.add("data-corrupt", f"{reason}: {wrong:.0f} mismatches")
    draft.phases.append(
        MeasuredPhase(
            access=access,
            repetition=repetition,
            moved_bytes=None if moved is None else int(moved),
            elapsed_s=elapsed_s,
            bandwidth_bytes_per_s=bandwidth,
            tasks=as_whole(report.get("tasks")),
            transfer_size_bytes=as_whole(parameters.get("transfer_size_bytes")),
            block_size_bytes=as_whole(parameters.get("block_size_bytes")),
            cpu_user_s=as_number(phase.get("cpu_user_s")),
            cpu_system_s=as_number(phase.get("cpu_system_s")),
            direct=as_dict(report.get("direct")).get("used") is True,
            caches_dropped=False,
            line=line,
            reason=reason,
        )
    )
    _read_latency(draft, access, as_dict(phase.get("latency")), place)
    _read_timeline(draft, access, as_dict(phase.get("timeline")), repetition)
    return bool(wrong)


def _disagreement(
    moved: float | None, elapsed_s: float | None, bandwidth: float | None
) -> str | None:
    if moved is None or elapsed_s is None or bandwidth is None:
        return Message("figures-incomplete", "ioload printed no bytes, time or bandwidth")
    if agrees(bandwidth, moved, elapsed_s, tolerance=1e-6):
        return None
    return Message(
        "figures-disagree",
        f"ioload: {bandwidth:.0f} B/s, but {moved:.0f} bytes in {elapsed_s:g} s do not match",
    )


def _read_latency(
    draft: MeasurementDraft, access: Access, latency: dict[str, Any], place: tuple[int, int]
) -> None:
    repetition, line = place
    for statistic in _STATISTICS:
        value = as_number(latency.get(f"{statistic.replace('.', '')}_s"))
        if value is not None:
            metric, output = LATENCY[access], draft.output
            draft.latencies.append(Sample(metric, value, repetition, None, statistic, output, line))
    rows = [
        (float(row[0]), int(row[1]))
        for row in as_list(latency.get("histogram"))
        if isinstance(row, list) and len(row) == 2 and None not in map(as_number, row)
    ]
    if rows:
        edges, counts = zip(*rows, strict=True)
        draft.histograms.append(LatencyHistogram(access, repetition, edges, counts))


def _read_timeline(
    draft: MeasurementDraft, access: Access, timeline: dict[str, Any], repetition: int
) -> None:
    """Add up the tasks' timelines; a task that ended earlier has a shorter one."""
    interval_s = as_number(timeline.get("interval_s"))
    rows = [row for row in as_list(timeline.get("tasks")) if isinstance(row, list)]
    if not interval_s or not any(rows):
        return
    if any(as_number(value) is None for row in rows for value in row):
        text = f"the timeline of the {access} phase contains values that are not numbers"
        draft.warnings.add("timeline-damaged", text)
        return
    moved = tuple(sum(map(int, interval)) for interval in zip_longest(*rows, fillvalue=0))
    draft.timelines.append(Timeline(access, repetition, interval_s, moved))
