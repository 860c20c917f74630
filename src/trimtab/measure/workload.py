"""Confirms that a run did what was requested; only then is it judged.

A run that did something else (other tasks, transfers or files, no bytes) is entirely
``invalid_workload``. A phase that did the right thing without proving anything, because it was too
short or came from a cache, is another matter: that takes facts from beneath the file system, which
``judge.credibility`` weighs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.errors import ToolError, UsageError
from trimtab.measure.measurement import Measurement, Notes, Phase
from trimtab.message import Message
from trimtab.model.run import ProbeSpec, RunStatus
from trimtab.units import format_bytes


def readable_size_bytes(sizes: Mapping[str, int], spec: ProbeSpec) -> int:
    """Return how many bytes a read may request from every task's file.

    The shortest file, in whole transfers, at most the block size.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files after the write.

    Raises
    ------
    UsageError
        A shared file: a stopped task left a hole in its share, and reading a hole needs no device
        access.
    ToolError
        The number of files is wrong, or one is smaller than a transfer.
    """
    if not spec.file_per_process:
        raise UsageError(
            "a shared file written for a fixed time has holes and cannot be read back",
            code="shared-file-holes",
            hint="probe with a file per task, or write only",
        )
    if len(sizes) != spec.tasks:
        raise ToolError(
            f"the write left {len(sizes)} files instead of {spec.tasks}", code="file-count-mismatch"
        )
    shortest = min(sizes.values())
    size = min(shortest, spec.block_size_bytes)
    size -= size % spec.transfer_size_bytes
    if size <= 0:
        raise ToolError(
            f"the write left a file of {format_bytes(shortest)}, less than one transfer of "
            f"{format_bytes(spec.transfer_size_bytes)}: nothing to read",
            code="file-too-short",
            hint="the file system is very slow: use a longer --budget or a smaller transfer size",
        )
    return size


def confirm(
    measurement: Measurement, spec: ProbeSpec, *, sizes: Mapping[str, int] | None = None
) -> Measurement:
    """Return the measurement, as ``invalid_workload`` with the reason if it does not match.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files after the phase, if the caller has checked.

    Notes
    -----
    A failed measurement is returned unchanged.
    """
    if measurement.status is RunStatus.FAILED:
        return measurement
    wrong = [problem for phase in measurement.phases for problem in _wrong(phase, spec)]
    if measurement.status is RunStatus.OK:  # an early end may be anywhere
        wrong += [problem for phase in measurement.phases for problem in _odd_bytes(phase, spec)]
    if sizes is not None:
        wrong += _wrong_files(sizes, spec, measurement)
    if not wrong:
        return measurement
    problems = tuple(dict.fromkeys([*wrong, *measurement.problems]))
    return replace(measurement, status=RunStatus.INVALID_WORKLOAD, problems=problems)


def _wrong(phase: Phase, spec: ProbeSpec) -> list[str]:
    """Return how a phase differs from the request."""
    problems = Notes()
    name = f"{phase.access} {phase.repetition}"
    for noun, actual, expected in (
        ("tasks", phase.tasks, spec.tasks),
        ("bytes per transfer", phase.transfer_size_bytes, spec.transfer_size_bytes),
    ):
        if actual is None:
            problems.add("parameters-not-printed", f"{name}: the number of {noun} is unknown")
        elif actual != expected:
            problems.add("workload-mismatch", f"{name}: {actual} {noun} instead of {expected}")
    if phase.access not in spec.accesses:
        problems.add("access-not-requested", f"{name} was not requested")
    if not phase.moved_bytes:
        problems.add("no-bytes", f"{name}: no bytes were moved")
    block, limit = phase.block_size_bytes, spec.block_size_bytes
    if phase.access == "write" and block is not None and block > limit:
        problems.add("workload-mismatch", f"{name}: a block of {block} bytes instead of {limit}")
    return problems


def _odd_bytes(phase: Phase, spec: ProbeSpec) -> list[str]:
    """Return how the bytes of a complete phase contradict the request."""
    moved, problem = phase.moved_bytes, None
    if moved and moved < spec.tasks * spec.transfer_size_bytes:
        problem = "less than one transfer of every task"
    elif moved and moved % spec.transfer_size_bytes:
        problem = "not whole transfers"
    text = f"{phase.access} {phase.repetition}: {moved} bytes are {problem}"
    return [Message("bytes-mismatch", text)] if problem else []


def _wrong_files(sizes: Mapping[str, int], spec: ProbeSpec, measurement: Measurement) -> list[str]:
    """Return how the files contradict the request."""
    problems = Notes()
    expected = spec.tasks if spec.file_per_process else 1
    limit = spec.block_size_bytes * (1 if spec.file_per_process else spec.tasks)
    if len(sizes) != expected:
        problems.add("file-count-mismatch", f"{len(sizes)} files instead of {expected}")
    largest, total = max(sizes.values(), default=0), sum(sizes.values())
    if largest > limit:
        text = f"a file of {largest} bytes instead of at most {limit}"
        problems.add("file-size-mismatch", text)
    written = [phase.moved_bytes or 0 for phase in measurement.phases if phase.access == "write"]
    if written and spec.file_per_process and total > max(written):
        text = f"the files have {total} bytes, but {max(written)} were written"
        problems.add("file-size-mismatch", text)
    return problems
