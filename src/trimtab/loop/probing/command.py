"""One command, run once: a benchmark of the site's own, or mdtest.

What was measured is what the output shows; the exit code only says that something went wrong.
Nothing is known of what the command does, so a whole tree is removed after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from trimtab.errors import NeverStarted, TrimtabError
from trimtab.launch.launchers import Launcher
from trimtab.loop.probing.command_output import Files, OutputReading, read_files, read_printed
from trimtab.loop.probing.probe import RunningProbe
from trimtab.measure.measurement import Measurement, status_of, tail, with_reason
from trimtab.measure.plain import present
from trimtab.measure.table import Tool
from trimtab.message import Message
from trimtab.model.identifier import identifier_of
from trimtab.model.run import Access, Run, RunStatus
from trimtab.model.site import COMMAND_TIMEOUT_S
from trimtab.record.comparability import ASKED
from trimtab.site.command import filled

DIRECTORY_WORD = "{directory}"


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """What one run of such a probe is asked to do.

    Attributes
    ----------
    benchmark
        The format that the output is to be of; ``auto``: whatever it is.
    command
        Words, with the places of `trimtab.site.command`.
    output
        Pattern of the files that hold the result; ``None``: it is printed.
    tool
        The program, where it was looked up and told its version.
    expected
        Parameters that the output must say were used: of a benchmark that Trimtab asks itself.
    """

    name: str
    benchmark: str
    command: tuple[str, ...]
    tasks: int = 1
    nodes: int = 1
    output: str | None = None
    timeout_s: float = COMMAND_TIMEOUT_S
    stripe_count: int | None = None
    tool: Tool | None = None
    expected: Mapping[str, object] = field(default_factory=dict)

    def argv(self, directory: str) -> tuple[str, ...]:
        """Return the command with its places filled in."""
        values = {"directory": directory, "tasks": str(self.tasks), "nodes": str(self.nodes)}
        return filled(self.command, values)

    def compared_settings(self, launcher: str) -> dict[str, object]:
        """Return what makes two runs comparable, before anything is known of their output."""
        # Of Trimtab's own command all is said by what is expected of it; where the program lies,
        # and how often it repeats, makes no other series.
        words = list(self.command) if self.tool is None else [self.tool.name]
        values: dict[str, object] = {"words": words, "output": self.output, "tasks": self.tasks}
        values |= {"nodes": self.nodes, "launcher": launcher}
        values |= present({"stripe_count": self.stripe_count})
        return {"command": {**values, **self.expected}}


@dataclass(slots=True)
class Command:
    """The one command of a probe, and what it measured."""

    spec: CommandSpec
    launcher: Launcher
    name: str = field(init=False)
    program: str = field(init=False)
    removes_tree: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Take over what the life cycle records of the command."""
        tool = self.spec.tool
        self.name = self.spec.name
        self.program = self.spec.command[0] if tool is None else tool.path

    def measure(self, probe: RunningProbe) -> None:
        """Run the command once."""
        spec = self.spec

        def advance(elapsed_s: float) -> None:
            probe.progress(spec.name, min(0.99, elapsed_s / spec.timeout_s))

        result = probe.execute(
            spec.argv(probe.directory),
            label="command",
            tasks=spec.tasks,
            timeout_s=spec.timeout_s,
            advance=advance,
        )
        probe.outputs.append(result.raw_output("command"))
        probe.unfinished = result.timed_out
        if result.problem is not None:
            printed = tail(result.stderr.decode("utf-8", "replace"), 200)
            probe.problems.append(result.problem + (f" ({printed})" if printed else ""))

    def read(self, probe: RunningProbe) -> None:
        """Read the results; no problem with them is reported of a command that was killed."""
        spec, directories = self.spec, probe.around.directories
        if spec.output is None:
            reading = read_printed(probe.outputs[0].stdout, spec.benchmark)
        else:
            files = Files(probe.parent, probe.name, directories.find, directories.read)
            first = len(probe.outputs)
            try:
                reading = read_files(spec.output, files, spec.benchmark, first_output=first)
            except TrimtabError as error:  # the run is kept with what the command printed
                reading = OutputReading(problem=Message(error.code, error.message))
        probe.outputs += reading.outputs
        probe.measurements = [
            self._confirmed(measurement, probe.directory) for measurement in reading.measurements
        ]
        if reading.problem is not None and not probe.unfinished:
            probe.problems.append(reading.problem)
        probe.progress("done", 1.0)

    def _confirmed(self, measurement: Measurement, directory: str) -> Measurement:
        """Return the measurement, as invalid where its workload is not the requested one."""
        differences = [
            f"{name} is {measurement.requested.get(name)} instead of {value}"
            for name, value in self.spec.expected.items()
            if measurement.requested.get(name) != value
        ]
        measurement = replace(measurement, requested=_without(directory, measurement.requested))
        if not differences:
            return measurement
        text = f"another workload than requested: {'; '.join(differences)}"
        problem = Message("workload-differs", text)
        samples = tuple(with_reason(sample, problem) for sample in measurement.samples)
        status = RunStatus.INVALID_WORKLOAD
        return replace(measurement, status=status, problems=(problem,), samples=samples)

    def runs(self, probe: RunningProbe, started_at: datetime) -> tuple[Run, ...]:
        """Return the run of the first result without a name of its own, then those of others."""
        main, number = self._main(probe)
        tool = self.spec.tool
        run = probe.run(
            started_at,
            kind=main.kind if main is not None else self.spec.benchmark,
            status=self._status(probe, main),
            tool_version=(main.tool_version if main else None) or (tool.version if tool else None),
            parameters=self._parameters(probe, main),
            problem=probe.problem(None if main is None else main.problem),
            samples=main.samples if main is not None else (),
            moved=(_moved(probe.measurements, "write"), _moved(probe.measurements, "read")),
        )
        others = (
            self._other(probe, measurement, place, run)
            for place, measurement in enumerate(probe.measurements)
            if place != number
        )
        return (run, *others)

    def charted(self, probe: RunningProbe) -> tuple[Measurement, ...]:
        """Return the measurement of the main run."""
        main, _ = self._main(probe)
        return () if main is None else (main,)

    def _main(self, probe: RunningProbe) -> tuple[Measurement | None, int]:
        """Return the result of the probe itself, and its position among all."""
        results = probe.measurements
        unnamed = (number for number, result in enumerate(results) if result.name is None)
        number = next(unnamed, 0)
        return (results[number] if results else None), number

    def _other(self, probe: RunningProbe, measurement: Measurement, number: int, run: Run) -> Run:
        assert run.at is not None
        name = measurement.name or f"result {number + 1}"
        return replace(
            run,
            # The same id at every try, so that it is kept once.
            id=identifier_of(run.at, run.id, str(number)),
            probe=f"{self.spec.name}: {name}",
            kind=measurement.kind,
            status=_status_of(probe, measurement),
            tool_version=measurement.tool_version or run.tool_version,
            parameters={**self._parameters(probe, measurement), "of": run.id},
            problem=probe.problem(measurement.problem),
            samples=measurement.samples,
            outputs=(),
        )

    def _status(self, probe: RunningProbe, main: Measurement | None) -> RunStatus:
        if isinstance(probe.error, NeverStarted):
            return RunStatus.NOT_STARTED
        if probe.unfinished:
            return RunStatus.UNFINISHED
        return RunStatus.FAILED if main is None else _status_of(probe, main)

    def _parameters(
        self, probe: RunningProbe, measurement: Measurement | None
    ) -> dict[str, object]:
        """Return the parameters of a result; requested values override those of its output."""
        result = measurement or Measurement(self.spec.benchmark, RunStatus.FAILED)
        requested = {**result.requested, **present({"result": result.name})}
        return {
            ASKED: requested | self.spec.compared_settings(self.launcher.kind),
            "layer": result.layer,
            "told": dict(result.reported),
            "phases": [asdict(phase) for phase in result.phases],
            "warnings": list(dict.fromkeys([*probe.warnings, *result.warnings])),
        }


def _status_of(probe: RunningProbe, measurement: Measurement) -> RunStatus:
    """Return the status that the output proves; partial where something else went wrong."""
    is_whole = probe.error is None and not probe.problems
    if is_whole or measurement.status is not RunStatus.OK:
        return measurement.status
    return status_of(measurement.samples, ["not whole"])


def _moved(measurements: Iterable[Measurement], access: Access) -> int | None:
    """Return the bytes that all results moved; ``None`` where none of them says."""
    metric = "bytes_written" if access == "write" else "bytes_read"
    moved: list[float] = []
    for measurement in measurements:
        if measurement.phases:
            values = [phase.moved_bytes for phase in measurement.phases if phase.access == access]
        else:
            values = [
                sample.value
                for sample in measurement.samples
                if sample.metric == metric and sample.is_total
            ]
        moved += [value for value in values if value is not None]
    return int(sum(moved)) if moved else None


def _without(directory: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters in which the directory, another in each run, is a place again."""

    def plain(value: object) -> object:
        if isinstance(value, str):
            return value.replace(directory, DIRECTORY_WORD)
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return value

    return {name: plain(value) for name, value in parameters.items()}
