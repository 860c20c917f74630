"""A probe that is one command: a site's own benchmark, or mdtest.

The output shows what was measured; the exit code only shows that something went wrong. Nothing is
known about what the command does, so its whole directory tree is removed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from trimtab.base.error import Message, NeverStarted, RefusedError, ToolError, TrimtabError
from trimtab.base.plain import present
from trimtab.base.run import ASKED, Access, Run, RunStatus
from trimtab.base.site import COMMAND_TIMEOUT_S, SiteProbe
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import mdtest
from trimtab.formats.format_table import Tool
from trimtab.formats.measurement import Measurement, status_of, tail, with_reason
from trimtab.probe.probe import RunningProbe, further_run_id
from trimtab.probe.result_file import Files, OutputReading, read_files, read_printed
from trimtab.probe.write_read import asking
from trimtab.reach.launcher import Launcher
from trimtab.reach.touch import StatvfsSpace
from trimtab.site.path_access import Reach
from trimtab.site.site_check import filled

DIRECTORY_WORD = "{directory}"


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """Specification of one run of such a probe.

    Attributes
    ----------
    benchmark
        Required format of the output; ``auto``: any.
    command
        Words, with the placeholders of `trimtab.site.site_check`.
    output
        Pattern of the files that hold the result; ``None``: it is printed.
    tool
        The program, if it was looked up and reported its version.
    expected
        Parameters that the output must confirm, for a benchmark whose command Trimtab makes.
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
        """Return the command with its placeholders filled in."""
        values = {"directory": directory, "tasks": str(self.tasks), "nodes": str(self.nodes)}
        return filled(self.command, values)

    def compared_settings(self, launcher: str) -> dict[str, object]:
        """Return the settings that make two runs comparable, without their output."""
        # For Trimtab's own command, the expected parameters say everything; the program's path and
        # the number of repetitions make no other series.
        words = list(self.command) if self.tool is None else [self.tool.name]
        values: dict[str, object] = {"words": words, "output": self.output, "tasks": self.tasks}
        values |= {"nodes": self.nodes, "launcher": launcher}
        values |= present({"stripe_count": self.stripe_count})
        return {"command": {**values, **self.expected}}


@dataclass(slots=True)
class CommandStep:
    """The one command of a probe, and what it measured."""

    spec: CommandSpec
    launcher: Launcher
    name: str = field(init=False)
    program: str = field(init=False)
    removes_tree: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Set the name and program that the life cycle records."""
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
        """Read the results; problems with them are not reported if the command was killed."""
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
        """Return the measurement; invalid if its workload is not the requested one."""
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
        name = measurement.name or f"result {number + 1}"
        return replace(
            run,
            id=further_run_id(run, number),
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
    """Return the status that the output proves; partial if anything else failed."""
    is_whole = probe.error is None and not probe.problems
    if is_whole or measurement.status is not RunStatus.OK:
        return measurement.status
    return status_of(measurement.samples, ["not whole"])


def _moved(measurements: Iterable[Measurement], access: Access) -> int | None:
    """Return the bytes that all results moved; ``None`` if none of them says."""
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
    """Return parameters with the directory, which differs in each run, as a placeholder."""

    def plain(value: object) -> object:
        if isinstance(value, str):
            return value.replace(directory, DIRECTORY_WORD)
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return value

    return {name: plain(value) for name, value in parameters.items()}


FREE_SHARE_SCHEDULED: Final = 0.2
"""A scheduled probe writes unattended: it takes at most a fifth of the free space.

A user who asks `trimtab check` for a certain space may have nine tenths
(`trimtab.probe.check_plan`). A probe must write the same amount each time, so it
is refused when that is too much, never shrunk."""


def command_of(
    probe: SiteProbe, kind: str, directory: str, reach: Reach
) -> tuple[CommandSpec, Launcher]:
    """Return the command of a probe and its launcher.

    Parameters
    ----------
    kind
        Kind of the probe's launcher.
    directory
        Directory below which it makes its own.
    reach
        The host: mdtest has two tasks per processor if the site file names no number.

    Raises
    ------
    ToolError
        The launcher or mdtest cannot be used here.
    UsageError
        mdtest cannot work in that directory.
    """
    spec = CommandSpec(
        name=probe.name,
        benchmark=probe.benchmark,
        command=probe.command or (),
        tasks=probe.nodes * (probe.tasks_per_node or 1),
        nodes=probe.nodes,
        output=probe.output,
        timeout_s=probe.timeout_s or COMMAND_TIMEOUT_S,
        stripe_count=probe.stripe_count,
    )
    if probe.command is not None:
        return spec, _launcher(kind, reach)
    # mdtest is started by MPI: without it every task would take itself for the only one.
    launcher = _launcher("mpi" if kind == "local" else kind, reach)
    tool = _find_mdtest(reach)
    ask = partial(mdtest.command, probe.items, probe.repetitions, program=tool.path)
    ask(directory=directory)  # it may refuse the directory
    tasks = tasks_of(probe, reach.processors)
    expected = {"tasks": tasks, "items_per_task": probe.items}
    words = ask(directory=DIRECTORY_WORD)
    return replace(spec, command=words, tasks=tasks, tool=tool, expected=expected), launcher


def tasks_of(probe: SiteProbe, processors: int) -> int:
    """Return the number of tasks of a probe: by default two per processor of a node."""
    return probe.nodes * (probe.tasks_per_node or min(16, 2 * processors))


def refuse_too_many(spec: CommandSpec, space: StatvfsSpace) -> None:
    """Refuse mdtest if it would take more than its share of the free inodes.

    Raises
    ------
    RefusedError
        It would. A file system that does not count inodes (Btrfs) has room for any number.
    """
    items = spec.expected.get("items_per_task")
    if not isinstance(items, int) or space.inodes == 0:
        return
    if items * spec.tasks > space.inodes_free * FREE_SHARE_SCHEDULED:
        raise RefusedError(
            f"probe {spec.name} would create {items * spec.tasks} files; {space.inodes_free} "
            "inodes are free, and a scheduled probe takes at most "
            f"{FREE_SHARE_SCHEDULED:.0%} of them",
            code="inodes-too-few",
            hint="lower items or tasks_per_node: runs before and after that cannot be compared",
        )


def _find_mdtest(reach: Reach) -> Tool:
    path = reach.which(mdtest.KIND)
    if path is None:
        raise ToolError(
            "mdtest is not on PATH",
            code="program-missing",
            hint="it comes with IOR: github.com/hpc/ior",
        )
    version = mdtest.version(asking(reach.execute), path)
    if isinstance(version, NotAvailable):
        raise ToolError(f"mdtest cannot be used: {version.reason}", code="program-unusable")
    return Tool(mdtest.KIND, path, version)


def _launcher(kind: str, reach: Reach) -> Launcher:
    launcher = reach.find_launcher(kind)
    if isinstance(launcher, NotAvailable):
        raise ToolError(
            f"launcher {kind} cannot be used: {launcher.reason}", code="launcher-unusable"
        )
    return launcher
