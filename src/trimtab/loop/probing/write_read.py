"""Repetitions of write and read, interleaved, each confirmed before it is believed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from trimtab.drivers.local.counters import DeviceBytes
from trimtab.errors import Interrupted, NeverStarted
from trimtab.judge.credibility import RepetitionFacts, reason_not_to_believe
from trimtab.launch.launchers import Launcher
from trimtab.launch.moving import MovingRate
from trimtab.launch.process import ProcessResult
from trimtab.loop.probing.probe import PATIENCE_S, RunningProbe
from trimtab.loop.probing.tools import Instrument
from trimtab.measure import workload
from trimtab.measure.measurement import BANDWIDTH, Measurement, Phase, status_of, with_reason
from trimtab.message import Message, code_of
from trimtab.model.run import Access, ProbeSpec, Run, RunStatus, Sample
from trimtab.units import RATE_NOW, format_bytes, format_bytes_per_s, plural

_DIRECT_IS_IGNORED = {"tmpfs", "ramfs", "zfs"}
"""These take O_DIRECT and go through memory all the same (ZFS before 2.3, and as it is set)."""


@dataclass(slots=True)
class WriteRead:
    """The writes and reads of one probe.

    Parameters
    ----------
    spec
        With ``benchmark`` naming the tool that was chosen.
    written_most_bytes
        No repetition begins whose write would bring the sum of all beyond it; the first always
        does.
    """

    spec: ProbeSpec
    instrument: Instrument
    written_most_bytes: float = math.inf
    name: str = field(init=False)
    launcher: Launcher = field(init=False)
    program: str = field(init=False)
    removes_tree: bool = field(default=False, init=False)
    _samples: list[Sample] = field(default_factory=list, init=False)
    _invalid: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Take over what the life cycle records of the instrument."""
        self.name, self.launcher = self.spec.name, self.instrument.launcher
        self.program = self.instrument.tool.path

    def measure(self, probe: RunningProbe) -> None:
        """Write and read as often as the probe repeats; the first problem ends it."""
        steps = self.spec.repetitions * len(self.spec.accesses)
        repetitions = range(self.spec.repetitions)
        for step, (repetition, access) in enumerate(product(repetitions, self.spec.accesses)):
            if access == "write" and repetition and self._is_enough(probe, repetition):
                break
            text = f"{access} {repetition + 1} of {self.spec.repetitions}"
            probe.progress(text, step / steps)
            self._one_access(probe, repetition, access, text, (step, steps))
            if probe.problems:
                return
        probe.progress("done", 1.0)

    def _is_enough(self, probe: RunningProbe, repetitions: int) -> bool:
        """Return whether one more write, as large as those so far, would be too much."""
        written = _moved_bytes(probe, "write")
        if written * (repetitions + 1) / repetitions <= self.written_most_bytes:
            return False
        probe.warnings.append(
            f"{repetitions} of {plural(self.spec.repetitions, 'repetition')}: one more would have "
            f"written more than {format_bytes(self.written_most_bytes)}"
        )
        return True

    def read(self, probe: RunningProbe) -> None:
        """Do nothing: each output was read at once."""

    def _one_access(
        self,
        probe: RunningProbe,
        repetition: int,
        access: Access,
        text: str,
        position: tuple[int, int],
    ) -> None:
        size_bytes = None
        if access == "write" and repetition:
            # Every write is of new files, as IOR does it, so that the allocator takes part.
            probe.remove_directory()
            probe.make_directory()
        if access == "read":
            size_bytes = workload.readable_size_bytes(_sizes(probe), self.spec)
        argv = self.instrument.command(self.spec, access, probe.directory, size_bytes)
        step, steps = position
        planned_s = self.spec.duration_s + 0.5
        moving = MovingRate(access)

        def advance(elapsed_s: float) -> None:
            rate = moving(elapsed_s)
            now = "" if rate is None else f"{RATE_NOW}{format_bytes_per_s(rate)}"
            probe.progress(text + now, (step + min(0.99, elapsed_s / planned_s)) / steps)

        counters_before = probe.around.counters()
        result = probe.execute(
            argv,
            label=f"{access} {repetition}",
            tasks=self.spec.tasks,
            timeout_s=probe.around.timeout_s or self.spec.duration_s + PATIENCE_S,
            advance=advance,
        )
        moved = _moved(access, counters_before, probe.around.counters())
        self._take(probe, result, repetition, access, moved)

    def _take(
        self,
        probe: RunningProbe,
        result: ProcessResult,
        repetition: int,
        access: Access,
        moved: dict[str, int] | None,
    ) -> None:
        output = result.raw_output(f"{access} {repetition}")
        ordinal = len(probe.outputs)
        probe.outputs.append(output)
        sizes = _sizes(probe)
        measurement = self.instrument.parse(output, repetition, ordinal)
        confirmed = workload.confirm(measurement, self.spec, sizes=sizes)
        probe.measurements.append(confirmed)
        facts = [self._facts(probe, phase, sizes, moved) for phase in confirmed.phases]
        samples = _checked(confirmed, facts)
        if confirmed.status is RunStatus.INVALID_WORKLOAD:
            text = f"another workload than requested: {confirmed.problem}"
            reason = Message("workload-differs", text)
            samples = [with_reason(sample, reason) for sample in samples]
            self._invalid = True
        self._samples += samples
        probe.unfinished = probe.unfinished or result.timed_out
        complaints = [text for text in (result.problem, confirmed.problem) if text]
        if complaints:
            code = code_of(complaints[0]) or "command-failed"
            probe.problems.append(Message(code, f"{output.label}: {'; '.join(complaints)}"))

    def _facts(
        self,
        probe: RunningProbe,
        phase: Phase,
        sizes: dict[str, int],
        moved: dict[str, int] | None,
    ) -> RepetitionFacts:
        spec, path = self.spec, probe.around.path
        links = [drive.link_bytes_per_s for drive in path.drives]
        return RepetitionFacts(
            access=phase.access,
            direct=path.fs_type not in _DIRECT_IS_IGNORED
            and (spec.direct if phase.direct is None else phase.direct),
            elapsed_s=phase.elapsed_s,
            bytes_moved=phase.moved_bytes,
            file_bytes=sum(sizes.values()),
            asked_duration_s=spec.duration_s,
            asked_tasks=spec.tasks,
            tasks=phase.tasks,
            flushed=spec.flush,
            caches_dropped=bool(phase.caches_dropped) or probe.prepared,
            memory_bytes=probe.around.memory_bytes,
            device=", ".join(moved) if moved else None,
            device_bytes=sum(moved.values()) if moved else None,
            link_bytes_per_s=sum(filter(None, links)) if links and all(links) else None,
            shrinks_data=path.fs_type in {"btrfs", "zfs", "bcachefs"},
            # Counted at the drives: a loop device is one only where nothing is seen behind it.
            loop_through_page_cache=any(drive.direct_to_backing is False for drive in path.drives),
        )

    def runs(self, probe: RunningProbe, started_at: datetime) -> tuple[Run, ...]:
        """Return the one run of all repetitions."""
        run = probe.run(
            started_at,
            kind=self.instrument.benchmark.name,
            status=self._status(probe),
            tool_version=self.instrument.tool.version,
            parameters=self._parameters(probe),
            problem=probe.problem(),
            samples=tuple(self._samples),
            moved=(_moved_bytes(probe, "write"), _moved_bytes(probe, "read")),
        )
        return (run,)

    def charted(self, probe: RunningProbe) -> tuple[Measurement, ...]:
        """Return the measurements of all repetitions."""
        return tuple(probe.measurements)

    def _status(self, probe: RunningProbe) -> RunStatus:
        if isinstance(probe.error, NeverStarted):
            return RunStatus.NOT_STARTED
        if self._invalid:
            return RunStatus.INVALID_WORKLOAD
        if probe.unfinished:
            return RunStatus.UNFINISHED
        if isinstance(probe.error, Interrupted):
            return RunStatus.PARTIAL if self._samples else RunStatus.FAILED
        problems = probe.problems if probe.error is None else ["not whole"]
        return status_of(self._samples, problems)

    def _parameters(self, probe: RunningProbe) -> dict[str, object]:
        measurements = probe.measurements
        warnings = [*probe.warnings, *(text for m in measurements for text in m.warnings)]
        return {
            "spec": self.spec.compared_settings(self.launcher.kind),
            "repetitions": self.spec.repetitions,
            "layer": "client",
            "phases": [dataclasses.asdict(phase) for m in measurements for phase in m.phases],
            "warnings": list(dict.fromkeys(warnings)),
        }


def _sizes(probe: RunningProbe) -> dict[str, int]:
    return probe.around.directories.sizes(probe.directory)


def _moved_bytes(probe: RunningProbe, access: Access) -> int:
    return sum(measurement.moved_bytes(access) for measurement in probe.measurements)


def _checked(measurement: Measurement, facts: list[RepetitionFacts]) -> list[Sample]:
    """Return the samples, each with the reason not to believe its repetition, if there is one."""
    reasons = {
        (phase.access, phase.repetition): reason_not_to_believe(fact)
        for phase, fact in zip(measurement.phases, facts, strict=True)
    }
    metrics: dict[str, Access] = {metric: access for access, metric in BANDWIDTH.items()}
    checked = []
    for sample in measurement.samples:
        access = metrics.get(sample.metric) or ("write" if "write" in sample.metric else "read")
        reason = reasons.get((access, sample.repetition or 0))
        checked.append(sample if reason is None else with_reason(sample, reason))
    return checked


def _moved(
    access: Access,
    counters_before: Mapping[str, DeviceBytes],
    counters_after: Mapping[str, DeviceBytes],
) -> dict[str, int] | None:
    """Return the bytes that each drive moved, ``None`` unless all of them were seen twice."""
    if not counters_before or set(counters_before) != set(counters_after):
        return None
    attribute = "written_bytes" if access == "write" else "read_bytes"
    moved = {
        name: getattr(counters, attribute) - getattr(counters_before[name], attribute)
        for name, counters in counters_after.items()
    }
    return moved if min(moved.values()) >= 0 else None
