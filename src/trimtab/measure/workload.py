"""Whether a run did what was asked of it. Only then is it judged.

Two outcomes: a run that did something else (other tasks, other transfers, no bytes) is
``invalid_workload`` as a whole; a phase that did the right thing in a way that proves nothing
(too short, out of a cache) keeps its number with the reason beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from trimtab.errors import ToolError
from trimtab.measure.measurement import BANDWIDTH, LATENCY, Measurement, Phase, with_reason
from trimtab.model.run import ProbeSpec, RunStatus, Sample
from trimtab.units import format_bytes, format_duration

MINIMUM_S: Final = 5.0
"""The shortest phase that is believed: shorter ones measure caches and start-up."""

TOLERANCE: Final = 0.02
"""Of a duration: tools stop at the first transfer after the time, or count in milliseconds."""


def readable_size_bytes(sizes: Mapping[str, int], spec: ProbeSpec) -> int:
    """Return how many bytes a read may ask of every task's file.

    The shortest file in whole transfers, at most the block size; of a shared file a task's share.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files that the write left.

    Raises
    ------
    ToolError
        There are not as many files as asked for, or one holds less than a transfer.
    """
    wanted = spec.tasks if spec.file_per_process else 1
    if len(sizes) != wanted:
        raise ToolError(f"the write left {len(sizes)} files instead of {wanted}: nothing to read")
    shortest = min(sizes.values()) // (1 if spec.file_per_process else spec.tasks)
    size = min(shortest, spec.block_size_bytes)
    size -= size % spec.transfer_size_bytes
    if size <= 0:
        raise ToolError(
            f"the write left a file of {format_bytes(shortest)}, less than one transfer of "
            f"{format_bytes(spec.transfer_size_bytes)}: nothing to read",
            hint="the file system is very slow: take a longer --budget or a smaller transfer size",
        )
    return size


def confirm(
    measurement: Measurement, spec: ProbeSpec, *, sizes: Mapping[str, int] | None = None
) -> Measurement:
    """Return the measurement with what its workload was not, if anything.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files after the phase, where the caller has looked.

    Notes
    -----
    A failed measurement is returned as it is: there is nothing to confirm.
    """
    if measurement.status is RunStatus.FAILED:
        return measurement
    wrong = [problem for phase in measurement.phases for problem in _wrong(phase, spec)]
    if sizes is not None:
        wrong += _wrong_files(sizes, spec, measurement)
    confirmed = measurement
    for phase in measurement.phases:
        reason = doubt(phase, spec, sizes)
        if reason is not None:
            confirmed = _doubted(confirmed, phase, reason)
    if wrong:
        problem = "; ".join(dict.fromkeys([*wrong, *filter(None, [measurement.problem])]))
        confirmed = replace(confirmed, status=RunStatus.INVALID_WORKLOAD, problem=problem)
    return confirmed


def doubt(phase: Phase, spec: ProbeSpec, sizes: Mapping[str, int] | None = None) -> str | None:
    """Return why a phase that did what was asked still proves nothing; ``None`` if it does."""
    if phase.elapsed_s is None:
        return "how long it took is not known: cannot tell"
    shortest_s = max(spec.duration_s, MINIMUM_S)
    if phase.elapsed_s < shortest_s * (1 - TOLERANCE):
        return (
            f"it ran {format_duration(phase.elapsed_s)}, shorter than "
            f"{format_duration(shortest_s)}: cannot tell"
        )
    if spec.direct and phase.direct is False:
        return "the file system took no O_DIRECT: it ran through the page cache"
    if phase.access == "read" and not spec.direct:
        return _cached(phase, sizes)
    return None


def _cached(phase: Phase, sizes: Mapping[str, int] | None) -> str | None:
    """Return why a buffered read may have come from this host's memory."""
    if not phase.caches_dropped:
        return "it read what this host has just written, without O_DIRECT: it may come from memory"
    held = sum(sizes.values()) if sizes is not None else None
    if held is None and phase.block_size_bytes is not None and phase.tasks is not None:
        held = phase.block_size_bytes * phase.tasks
    if held is None or phase.moved_bytes is None or phase.moved_bytes > held:
        return "it read its files more than once without O_DIRECT: the later times from memory"
    return None


def _wrong(phase: Phase, spec: ProbeSpec) -> list[str]:
    """Return what a phase did otherwise than asked."""
    problems: list[str] = []
    name = f"{phase.access} {phase.repetition}"
    for noun, did, asked in (
        ("tasks", phase.tasks, spec.tasks),
        ("bytes a transfer", phase.transfer_size_bytes, spec.transfer_size_bytes),
    ):
        if did is None:
            problems.append(f"{name}: the number of {noun} is not known")
        elif did != asked:
            problems.append(f"{name}: {did} {noun} instead of {asked}")
    if phase.access not in spec.accesses:
        problems.append(f"{name} was not asked for")
    if not phase.moved_bytes:
        problems.append(f"{name}: no bytes were moved")
    elif phase.moved_bytes < spec.tasks * spec.transfer_size_bytes:
        problems.append(
            f"{name}: {phase.moved_bytes} bytes are less than one transfer of every task"
        )
    elif phase.moved_bytes % spec.transfer_size_bytes:
        problems.append(f"{name}: {phase.moved_bytes} bytes are not whole transfers")
    if phase.access == "write" and _over(phase.block_size_bytes, spec.block_size_bytes):
        problems.append(
            f"{name}: a block of {phase.block_size_bytes} bytes instead of {spec.block_size_bytes}"
        )
    return problems


def _over(did: int | None, limit: int) -> bool:
    return did is not None and did > limit


def _wrong_files(sizes: Mapping[str, int], spec: ProbeSpec, measurement: Measurement) -> list[str]:
    """Return what the files on the file system contradict."""
    problems: list[str] = []
    wanted = spec.tasks if spec.file_per_process else 1
    limit = spec.block_size_bytes * (1 if spec.file_per_process else spec.tasks)
    if len(sizes) != wanted:
        problems.append(f"{len(sizes)} files instead of {wanted}")
    if any(size > limit for size in sizes.values()):
        problems.append(f"a file of {max(sizes.values())} bytes instead of at most {limit}")
    written = [phase.moved_bytes or 0 for phase in measurement.phases if phase.access == "write"]
    if written and spec.file_per_process and sum(sizes.values()) > max(written):
        problems.append(f"files of {sum(sizes.values())} bytes, but {max(written)} were written")
    return problems


def _doubted(measurement: Measurement, phase: Phase, reason: str) -> Measurement:
    """Return the measurement with a reason on one phase and on its samples."""
    metrics = (BANDWIDTH[phase.access], LATENCY[phase.access])

    def mark(sample: Sample) -> Sample:
        if sample.metric in metrics and sample.repetition == phase.repetition:
            return with_reason(sample, reason)
        return sample

    joined = f"{phase.reason}; {reason}" if phase.reason else reason
    return replace(
        measurement,
        phases=tuple(
            replace(other, reason=joined) if other is phase else other
            for other in measurement.phases
        ),
        samples=tuple(mark(sample) for sample in measurement.samples),
    )
