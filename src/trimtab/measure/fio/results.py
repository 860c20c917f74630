"""fio 3: one process with a thread per task, synchronous calls, JSON.

What was found out by experiment with fio 3.33, and what the options below follow from:

- ``end_fsync=1`` is inside fio's own runtime: with an ``fsync`` made 3 s slower, a run of 2 s
  reports a runtime of 5.1 s, buffered and O_DIRECT alike. Its bandwidth therefore is bytes over
  the time with the flush, and needs no correction.
- By default fio preallocates the whole file with ``fallocate``. A write that stops early then
  leaves a file of full length whose rest is unwritten, and reading that costs the device nothing.
  With ``fallocate=none`` a file ends where writing ended.
- A read beyond the end of a file would extend it first; ``readonly`` refuses, so sizes come from
  the caller, who has looked at the files.
- Buffers that are only "scrambled" (fio's default) hold no 4 KiB block twice; zlib leaves 92 to
  97 % of them. ``refill_buffers`` leaves 99.5 % and costs 4 times the CPU, which would measure the
  processor: it is left off.
- ``directory`` is split at colons, unless escaped.
- There is no figure of bytes over time without log files, so there is no timeline.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from trimtab.errors import ToolError, UsageError
from trimtab.measure.measurement import LATENCY, Draft, Measurement, Phase, agrees, beginning, tail
from trimtab.measure.plain import as_dict, as_list, as_number
from trimtab.model.finding import Missing
from trimtab.model.run import Access, LatencyHistogram, ProbeSpec, RawOutput, Sample
from trimtab.model.telemetry import NotAvailable

FILE_NAME: Final = "data"
_ACCESSES: Final[tuple[Access, ...]] = ("write", "read")
_QUANTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


def version(run: Callable[[tuple[str, ...]], RawOutput], path: str) -> str | NotAvailable:
    """Return the version of the fio at ``path``, or why it cannot be used."""
    try:
        output = run((path, "--version"))
    except ToolError as error:
        return NotAvailable(error.message)
    text = output.stdout.decode("utf-8", "replace")
    found = re.match(r"fio-(([0-9]+)\S*)\s*\Z", text)
    if found is None:
        return NotAvailable(f"{path} does not say that it is fio: {beginning(text, 80)!r}")
    if int(found.group(2)) < 3:
        return NotAvailable(f"{path} is fio {found.group(1)}; its JSON is that before 3.0")
    return found.group(1)


def command(
    spec: ProbeSpec,
    access: Access,
    *,
    program: str,
    directory: str,
    size_bytes: int | None = None,
) -> tuple[str, ...]:
    """Return fio's command; it makes its own ``spec.tasks`` threads, a file each.

    Parameters
    ----------
    program
        Path of ``fio``.
    directory
        Where the files are; their names start with `FILE_NAME`.
    size_bytes
        For a read: what every task's file holds at least. For a write: the block size.

    Raises
    ------
    UsageError
        A shared file (its holes would be read as data), or a name that fio cannot take.
    """
    if not spec.file_per_process:
        raise UsageError(
            "fio is run with a file per task", hint="--probe ior or --probe builtin share one"
        )
    if "\\:" in directory:
        raise UsageError(f"fio cannot use {directory}: it takes \\: for a colon")
    argv = [program, "--name=trimtab", f"--directory={directory.replace(':', chr(92) + ':')}"]
    argv += [f"--filename_format={FILE_NAME}.$jobnum", f"--rw={access}"]
    argv += [f"--bs={spec.transfer_size_bytes}", f"--size={size_bytes or spec.block_size_bytes}"]
    argv += [f"--numjobs={spec.tasks}", "--thread", "--ioengine=psync"]
    argv += [f"--direct={int(spec.direct)}", "--invalidate=1", "--fallocate=none", "--unlink=0"]
    argv += ["--time_based", f"--runtime={math.ceil(spec.duration_s * 1000)}ms"]
    if access == "write":
        argv.append(f"--end_fsync={int(spec.flush)}")
    else:
        argv += ["--readonly", "--allow_file_create=0"]
    argv += ["--group_reporting", "--percentile_list=50:90:99:99.9", "--eta=never"]
    return (*argv, "--output-format=json+")


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Return what an output of fio says, JSON or JSON+. Never raises on any input.

    Several jobs count as one run: their bytes over the longest of their times.

    Parameters
    ----------
    repetition
        Which one it was; an output of fio is of one repetition.
    ordinal
        Of this raw output in the run, for the samples.
    """
    draft = Draft("fio", ordinal)
    draft.missing.append(Missing("timeline", "fio writes bytes over time only to log files"))
    text = output.stdout.decode("utf-8", "replace")
    stderr = output.stderr.decode("utf-8", "replace")
    documents = list(_documents(text))
    said = [*_outside(text, documents), *stderr.splitlines()]
    draft.warnings += [tail(line) for line in said if line.strip()]
    if documents:
        _read_document(draft, documents[-1], repetition)
        if len(re.findall(r"^\{$", text, re.MULTILINE)) > len(documents):
            draft.problems.append("fio did not finish its output: an earlier part of it is read")
    _note_problems(draft, output, text, bool(documents))
    return draft.finished()


class _Document:
    """One JSON object of the output, and where it stands in it."""

    def __init__(self, value: dict[str, Any], text: str, first_line: int) -> None:
        self.value = value
        self.lines = text.split("\n")
        self.first_line = first_line

    def line_of(self, job: int, access: Access) -> int | None:
        """Return the line of ``bw_bytes`` of one access of one job."""
        seen = -1
        for index, line in enumerate(self.lines):
            if re.match(rf'\s*"{access}"\s*:\s*\{{', line):
                seen += 1
            if seen == job and '"bw_bytes"' in line:
                return self.first_line + index
        return None


def _documents(text: str) -> Iterator[_Document]:
    """Yield every whole JSON object that begins a line; ``status-interval`` prints several."""
    decoder = json.JSONDecoder()
    position = 0
    while found := re.compile(r"^\{", re.MULTILINE).search(text, position):
        try:
            value, position = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position = found.end()
            continue
        if isinstance(value, dict) and "fio version" in value:
            first_line = text.count("\n", 0, found.start()) + 1
            yield _Document(value, text[found.start() : position], first_line)


def _outside(text: str, documents: list[_Document]) -> Iterator[str]:
    """Yield what fio said on stdout beside the JSON: errors come before it."""
    end = documents[0].first_line - 1 if documents else 0
    for line in text.split("\n")[:end]:
        if line.startswith("fio:"):
            yield line


def _read_document(draft: Draft, document: _Document, repetition: int) -> None:
    draft.tool_version = str(document.value.get("fio version", "")).removeprefix("fio-") or None
    jobs = [job for job in as_list(document.value.get("jobs")) if isinstance(job, dict)]
    options = as_dict(document.value.get("global options"))
    for job in jobs:
        error = as_number(job.get("error"))
        if error:
            draft.problems.append(f"fio: {os.strerror(int(error))} (error {int(error)})")
    for access in _ACCESSES:
        moving = [
            (index, job)
            for index, job in enumerate(jobs)
            if as_number(as_dict(job.get(access)).get("total_ios"))
        ]
        if moving:
            draft.phases.append(_phase(document, moving, access, repetition, options))
            _read_latency(draft, document, moving, access, repetition)


def _phase(
    document: _Document,
    jobs: list[tuple[int, dict[str, Any]]],
    access: Access,
    repetition: int,
    global_options: dict[str, Any],
) -> Phase:
    figures = [as_dict(job[access]) for _, job in jobs]
    options = {**global_options, **as_dict(jobs[0][1].get("job options"))}
    moved = _sum(figure.get("io_bytes") for figure in figures)
    times = [as_number(figure.get("runtime")) for figure in figures]
    elapsed_s = None if None in times else max(filter(None, times), default=0.0) / 1000
    if len(jobs) == 1:
        bandwidth = as_number(figures[0].get("bw_bytes"))
    else:
        bandwidth = moved / elapsed_s if moved and elapsed_s else None
    return Phase(
        access=access,
        repetition=repetition,
        moved_bytes=None if moved is None else int(moved),
        elapsed_s=elapsed_s,
        bandwidth_bytes_per_s=bandwidth,
        tasks=_tasks(options) if len(jobs) == 1 else len(jobs),
        transfer_size_bytes=_size(options.get("bs")),
        block_size_bytes=_size(options.get("size")),
        cpu_user_s=_processor_time(jobs, "usr_cpu"),
        cpu_system_s=_processor_time(jobs, "sys_cpu"),
        direct=options.get("direct", "0") == "1",
        caches_dropped=options.get("invalidate", "1") == "1",
        line=document.line_of(jobs[0][0], access),
        reason=_disagreement(moved, elapsed_s, bandwidth),
    )


def _disagreement(
    moved: float | None, elapsed_s: float | None, bandwidth: float | None
) -> str | None:
    if moved is None or elapsed_s is None or bandwidth is None:
        return "fio's output lacks bytes, runtime or bandwidth"
    if elapsed_s <= 0:
        return "fio's runtime is less than its millisecond"
    # fio divides by whole milliseconds and drops what is left: half a unit of each.
    tolerance = 0.0005 / elapsed_s + 1.0 / max(bandwidth, 1.0)
    if agrees(bandwidth, moved, elapsed_s, tolerance=tolerance):
        return None
    return f"fio printed {bandwidth:.0f} B/s, but {moved:.0f} bytes in {elapsed_s:g} s are not that"


def _processor_time(jobs: list[tuple[int, dict[str, Any]]], key: str) -> float | None:
    """Return CPU seconds: fio gives per cent of ``job_runtime``, which is summed over threads."""
    total_s = 0.0
    for _, job in jobs:
        share, time_ms = as_number(job.get(key)), as_number(job.get("job_runtime"))
        if share is None or time_ms is None:
            return None
        total_s += share / 100 * time_ms / 1000
    return total_s


def _read_latency(
    draft: Draft,
    document: _Document,
    jobs: list[tuple[int, dict[str, Any]]],
    access: Access,
    repetition: int,
) -> None:
    """Take percentiles and histogram; they cannot be merged over jobs, so only of a single one."""
    if len(jobs) != 1:
        draft.missing.append(
            Missing(
                "latency distribution", "fio gave one for each job; run it with group_reporting"
            )
        )
        return
    latency = as_dict(as_dict(jobs[0][1][access]).get("clat_ns"))
    percentiles = {
        float(key): value
        for key, value in as_dict(latency.get("percentile")).items()
        if _is_decimal(key)
    }
    figures = {name: as_number(percentiles.get(share)) for name, share in _QUANTILES.items()}
    figures |= {"mean": as_number(latency.get("mean")), "max": as_number(latency.get("max"))}
    line = document.line_of(jobs[0][0], access)
    for name, value in figures.items():
        if value is not None and as_number(latency.get("N")):
            draft.latencies.append(
                Sample(
                    metric=LATENCY[access],
                    value=value / 1e9,
                    repetition=repetition,
                    statistic=name,
                    output=draft.output,
                    line=line,
                )
            )
    counts = _merged_bins(as_dict(latency.get("bins")))
    if counts:
        edges = sorted(counts)
        draft.histograms.append(
            LatencyHistogram(
                access=access,
                repetition=repetition,
                upper_s=tuple(edge / 1e9 for edge in edges),
                count=tuple(counts[edge] for edge in edges),
            )
        )


def _merged_bins(bins: dict[str, Any]) -> dict[int, int]:
    """Return upper edge in ns to count, eight buckets to the power of two.

    fio names a bucket by its middle and cuts every power of two into 64 (FIO_IO_U_PLAT_BITS = 6
    in stat.h); eight are enough to draw and to find stalls, and keep a run to about 100 rows.
    """
    counts: dict[int, int] = {}
    for key, value in bins.items():
        count = as_number(value)
        if not key.isdecimal() or not count:
            continue
        middle = int(key)
        shift = max(middle.bit_length() - 4, 0)
        edge = ((middle >> shift) + 1) << shift
        counts[edge] = counts.get(edge, 0) + int(count)
    return counts


def _note_problems(draft: Draft, output: RawOutput, text: str, whole: bool) -> None:
    stopped = [warning for warning in draft.warnings if "terminating on signal" in warning]
    draft.problems += stopped
    if output.truncated:
        draft.problems.append("the output was cut at its limit")
    # On stderr it says what is wrong, on stdout where in its source it noticed.
    said = [
        tail(line)
        for line in output.stderr.decode("utf-8", "replace").splitlines()
        if line.startswith("fio:")
    ]
    if not whole:
        if not text.strip():
            draft.problems.append("fio printed nothing")
        elif '"fio version"' in text:
            draft.problems.append("fio did not finish its output")
        elif not said:
            draft.problems.append(f"this is not the JSON output of fio: {beginning(text)}")
        draft.problems += said[:1]
    elif not draft.phases and not draft.problems:
        draft.problems += ["fio moved no bytes", *said[:1]]
    if output.exit_code != 0:
        code = "a signal" if output.exit_code is None else f"exit code {output.exit_code}"
        draft.problems.append(f"fio ended with {code}")


def _tasks(options: dict[str, Any]) -> int | None:
    value = str(options.get("numjobs", "1"))
    return int(value) if value.isdecimal() else None


def _size(value: object) -> int | None:
    """Return bytes of an option as fio echoes it: ``4096``, ``64k``, ``1m``; fio's k is 1024."""
    found = re.fullmatch(r"([0-9]+)([kmgt]?)(?:i?b)?", str(value or "").lower())
    if found is None:
        return None
    return int(found.group(1)) * 1024 ** ("kmgt".find(found.group(2)) + 1 if found.group(2) else 0)


def _sum(values: Iterator[Any]) -> float | None:
    numbers = [as_number(value) for value in values]
    return None if None in numbers else sum(filter(None, numbers))


def _is_decimal(text: str) -> bool:
    return re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is not None
