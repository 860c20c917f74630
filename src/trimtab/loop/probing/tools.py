"""Which benchmark measures, and what starts it: IOR with MPI, else fio, else the built-in."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.errors import ToolError
from trimtab.launch.launchers import Launcher
from trimtab.launch.process import Execute
from trimtab.loop.probing.reach import Reach
from trimtab.measure.measurement import Measurement
from trimtab.measure.phases import Ask, PhaseRequest, Phases
from trimtab.measure.table import Tool, names, phases_of
from trimtab.model.run import Access, ProbeSpec, RawOutput
from trimtab.model.telemetry import NotAvailable

QUESTION_TIMEOUT_S = 20.0
"""A program that takes longer to say its version is not one to measure with."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """A benchmark that was found, with the launcher that starts its tasks."""

    benchmark: Phases
    tool: Tool
    launcher: Launcher

    def command(
        self, spec: ProbeSpec, access: Access, directory: str, size_bytes: int | None
    ) -> tuple[str, ...]:
        """Return the command of one write or read; an allocation puts the launcher's part first."""
        phase = PhaseRequest(spec, access, self.tool.path, directory, size_bytes)
        return self.benchmark.arguments(phase)

    def parse(self, output: RawOutput, repetition: int, ordinal: int) -> Measurement:
        """Return what a raw output says."""
        return self.benchmark.parse(output, repetition=repetition, ordinal=ordinal)


def choose(name: str, reach: Reach, *, kind: str | None = None) -> Instrument:
    """Return the instrument of that name; ``auto`` takes the first that can be used.

    Parameters
    ----------
    kind
        Of the launcher that is to start it; by default the usual one of each benchmark.

    Raises
    ------
    ToolError
        It cannot be used, or with ``auto`` none can; each with its reason.
    """
    reasons = []
    for candidate in names("phases") if name == "auto" else (name,):
        instrument = _instrument(candidate, reach, kind)
        if isinstance(instrument, Instrument):
            return instrument
        reasons.append(f"{candidate}: {instrument.reason}")
    raise ToolError(
        f"no benchmark can be used ({'; '.join(reasons)})",
        code="no-benchmark",
        hint="install fio, or use --probe builtin, which comes with Trimtab",
    )


def _instrument(name: str, reach: Reach, kind: str | None) -> Instrument | NotAvailable:
    benchmark = phases_of(name)
    if kind is not None and kind not in benchmark.launchers:
        return NotAvailable(f"{kind} does not start it; {' and '.join(benchmark.launchers)} do")
    tool = reach.find_tool(name, asking(reach.execute))
    if isinstance(tool, NotAvailable):
        return tool
    launcher = reach.find_launcher(kind or benchmark.launchers[0])
    if isinstance(launcher, NotAvailable):
        return launcher
    return Instrument(benchmark, tool, launcher)


def asking(execute: Execute) -> Ask:
    """Return what runs a program to ask it something, with a deadline."""

    def ask(argv: tuple[str, ...]) -> RawOutput:
        result = execute(argv, timeout_s=QUESTION_TIMEOUT_S, output_limit_bytes=2**20)
        return result.raw_output("version")

    return ask
