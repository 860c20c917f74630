"""mdtest: rates of creating, statting, reading and removing files and directories.

`trimtab.formats.mdtest_output` parses its text and the command line in it; this file decides which
rates belong to a repetition, and which are credible. Versions print alike, but their numbers differ
in meaning.

Every task times each phase by its own clock, from the barrier before it to the barrier after it. A
task's view of a phase is the items of all tasks over its own time. The printed values differ by
version (``summarize_results`` in mdtest.c, read at the tags):

=================  =======================  =============================  =================
version            one repetition is        max, min, mean, deviation are  ``-v`` prints
=================  =======================  =============================  =================
1.9.3 alone        the fastest task's view  over repetitions               task 0's view
1.9.3 of IOR 3.2   the fastest task's view  over repetitions; all but max  task 0's view
                                            mixed up in 3.2.0 and 3.2.1,
                                            which say the same version
                                            as 3.2.2
3.3, 1.9.3 of its  (only with ``-v``)       over tasks and repetitions     task 0's view
beginnings
3.4 in its         as 3.3, then as 4        as 3.3, then as 4              as 3.3, then as 4
beginnings
4                  the slowest task's view  over repetitions               rate of task 0's
                                                                           own items
=================  =======================  =============================  =================

Builds between two versions are recognised by their output: over tasks, maximum and minimum of one
repetition differ, and rows have a colon; rate times duration gives the items of all tasks, or of
one.

A phase ends when the slowest task is done, so the slowest task's view is correct. The others should
differ from it only by the time of a barrier, but not always do: in hpc/ior #183 task 0 saw 44,129
stats per second and the fastest of 32 tasks 126,073. Consequences:

- one repetition: in 4 the printed value; in 3.3 the minimum, which is the slowest task's view;
  before, task 0's view if ``-v`` prints it, else the printed value, which is doubted;
- several: task 0's view of each (``-v``), since 3.3 accepted if its mean is near the summary's.
  Without ``-v`` no repetition is known; maximum, minimum, mean and deviation are reported as such.

In 4 the deviation is that of a sample (n - 1), before of the population. A rate of 0.000 is a phase
that was not requested, not a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import DataError, Message, UsageError
from trimtab.base.finding import Missing
from trimtab.base.plain import present
from trimtab.base.run import Sample
from trimtab.formats.mdtest_output import (
    KIND,
    METRICS,
    Execution,
    MdtestRow,
    MdtestSummary,
    MdtestTest,
    Repetition,
    executions,
    no_barriers,
    options_of,
    parameters,
)
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    doubted,
    first_reason,
    missing,
)
from trimtab.formats.phase import Version

NEAR: Final = 0.05
"""Maximum deviation of the mean of task 0's views from the summary's."""

_HALF_UNIT: Final = 0.000_501
"""Rates and durations have three decimals; plus a margin for binary rounding."""
_COLUMNS: Final = {"Max": "max", "Min": "min", "Mean": "mean", "StdDev": "stddev"}
_TREE: Final = ("tree_creation_rate", "tree_removal_rate")
_NOT_REPETITIONS: Final = Message(
    "over-tasks", "mdtest 3.3 computes it over all tasks, not over repetitions"
)
_FASTEST: Final = Message(
    "fastest-task-view", "mdtest before 3.3 uses the time of the fastest task (hpc/ior #183)"
)
_ONE_TREE: Final = Message(
    "one-tree-counted", "with -u mdtest counts only the directories of one task's tree"
)
_STRAY: Final = Message(
    "unit-unknown", "the line with the unit of its table is missing: it may be a time"
)
_EITHER: Final = Message(
    "scope-unknown",
    "this version may print it for all tasks or for one; the duration does not show which",
)
_ALONE: Final = Message(
    "no-barriers", "without barriers (-B) the tasks' times do not cover the same interval"
)


def measured(executions: Sequence[Execution]) -> tuple[Measurement, ...]:
    """Return a result for each test of each execution with a launch line."""
    measurements: list[Measurement] = []
    for execution in executions:
        if execution.version is None or execution.tasks is None:
            continue
        for test in execution.tests or [None]:
            name = f"run {len(measurements) + 1}" if measurements else None
            measurements.append(_MdtestJudge(name, execution, test).measurement())
    return tuple(measurements)


@dataclass(slots=True)
class _MdtestJudge:
    """Builds one result."""

    name: str | None
    execution: Execution
    test: MdtestTest | None
    options: dict[str, str] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    warnings: Notes = field(default_factory=Notes)
    doubts: dict[str, str] = field(default_factory=dict)
    """Metric to the reason to doubt its row."""
    samples: list[Sample] = field(default_factory=list)

    def measurement(self) -> Measurement:
        """Return the result."""
        execution, test = self.execution, self.test
        requested, reported = self._requested(), self._reported()
        if test is not None and not execution.times_only:
            self._read(test)
        problems = self._problems()
        reason = self._all_wrong()
        if reason is not None:
            self.samples = [doubted(sample, reason) for sample in self.samples]
            problems.insert(0, reason)
        if not problems and not any(s.believed and s.metric not in _TREE for s in self.samples):
            problems.append(first_reason(self.samples, "no phase was measured"))
        return concluded(
            KIND,
            self.samples,
            problems,
            None,
            tool_version=execution.version,
            name=self.name,
            layer="client",
            began=execution.began,
            ended=execution.ended,
            requested=requested,
            reported=reported,
            warnings=[*execution.warnings, *self.warnings],
            missing=tuple(self.missing),
        )

    @property
    def _version(self) -> str:
        return self.execution.version or ""

    @property
    def _tasks(self) -> int:
        return self.test.tasks if self.test is not None else self.execution.tasks or 0

    def _requested(self) -> dict[str, object]:
        items = None if self.test is None else self.test.items_per_task
        requested = {"tasks": self._tasks, "nodes": self.execution.nodes, "items_per_task": items}
        options = options_of(self.execution.command_line or "", self._version)
        known = parameters(options) if options else None
        if options is None or known is None:
            reason = "mdtest's command line is missing or cut"
            self.missing.append(missing("parameters", "parameters-not-printed", reason))
            return present(requested)
        self.options = options
        return present(requested) | known

    def _reported(self) -> dict[str, object]:
        reported: dict[str, object] = {"path": self.execution.path}
        if self.test is not None:
            reported["items_done_per_task"] = list(self.test.done_per_task.values()) or None
            summary = self.test.summary
            reported["repetitions"] = None if summary is None else summary.iterations
        return present(reported)

    def _problems(self) -> list[str]:
        """Return the problems of the result, the most important first."""
        execution, test = self.execution, self.test
        problems = Notes(list(dict.fromkeys(execution.errors))[:3])
        last = test is None or test is execution.tests[-1]
        if execution.times_only and test is not None:
            problems.add("times-not-rates", "mdtest printed times instead of rates (-Z)")
        elif test is None or test.summary is None:
            problems.add("output-unfinished", "mdtest ended before its summary")
        elif last and not execution.complete:
            problems.add("output-unfinished", "the output ends before mdtest had finished")
        if test is not None and test.summary is not None and not execution.times_only:
            lacking = self._lacking(test.summary)
            if lacking:
                problems.add("phases-missing", f"the summary lacks {', '.join(lacking)}")
        return problems + list(dict.fromkeys(self.doubts.values()))[:3]

    def _all_wrong(self) -> str | None:
        """Return why no figure of the execution is credible."""
        execution = self.execution
        test, both = self.test, self.options.get("P", "0") != "0"
        ended = execution.complete or (test is not None and test is not execution.tests[-1])
        if ended and test is not None and test.summary and both and not test.times:
            text = "the table of times (-P) is missing: its rows may be among the rates"
            return Message("table-missing", text)
        if execution.integrity_lost:
            return Message("data-corrupt", "data read is not what was written: mdtest found errors")
        if execution.failure is not None:
            count = execution.failures
            noun = f"{count} operations" if count > 1 else "an operation"
            text = f"{noun} failed and are counted in the rates: {execution.failure[:120]}"
            return Message("operations-failed", text)
        return None

    def _lacking(self, summary: MdtestSummary) -> list[str]:
        """Return the rows that are missing in this summary, given the options."""
        expected = ["Tree creation", "Tree removal"]
        both = ("F" in self.options) == ("D" in self.options)
        if self.options and (both or "F" in self.options):
            expected += ["File creation", "File stat", "File read", "File removal"]
        if self.options and (both or "D" in self.options):
            expected += ["Directory creation", "Directory stat", "Directory removal"]
        metrics = {row.metric for row in summary.rows if row.figures is not None and not row.stray}
        return [name for name in expected if METRICS[name] not in metrics]

    def _read(self, test: MdtestTest) -> None:
        """Add the samples of a test."""
        rows = self._rows(test)
        repeated: dict[str, list[Repetition]] = {}
        for repetition in test.repetitions:
            if repetition.rate > 0:
                repeated.setdefault(repetition.metric, []).append(repetition)
        for metric in METRICS.values():
            row, of_metric = rows.get(metric), repeated.get(metric, [])
            if row is not None and row.figures is None:
                text = f"line {row.line} is not a complete row of the summary"
                self.warnings.add("line-damaged", text)
                row = None
            if row is not None and not any(row.figures.values() if row.figures else ()):
                row = None  # a phase that was not requested
            self._phase(metric, test, row, of_metric)
        if test.summary is not None and test.summary.iterations > 1 and not test.repetitions:
            reason = "mdtest prints each repetition only with -v"
            self.missing.append(missing("repetitions", "repetitions-not-printed", reason))

    def _rows(self, test: MdtestTest) -> dict[str, MdtestRow]:
        """Return the first row of each phase; note rows that cannot be rates."""
        rows: dict[str, MdtestRow] = {}
        for row in test.summary.rows if test.summary is not None else ():
            first = rows.setdefault(row.metric, row)
            if first is not row:
                self.warnings.add(
                    "row-twice", f"line {row.line} is the second row of the same name"
                )
            if first.figures != row.figures:
                text = f"lines {first.line} and {row.line} give different values for it"
                self.doubts.setdefault(row.metric, Message("row-twice", text))
            elif first.stray:
                self.doubts.setdefault(row.metric, _STRAY)
        return rows

    def _phase(
        self, metric: str, test: MdtestTest, row: MdtestRow | None, repeated: list[Repetition]
    ) -> None:
        """Add the samples of one phase, from its row and the output of ``-v``."""
        iterations = test.summary.iterations if test.summary is not None else None
        table = _MdtestTable(self._version, self._tasks, iterations or 1, row, metric in _TREE)
        figures = table.figures
        doubt = self._doubt(metric)
        of_task_0 = [
            self._of_task_0(repetition, test, table, doubt)
            for repetition in {repetition.iteration: repetition for repetition in repeated}.values()
        ]
        if figures is None or row is None:
            self.samples += of_task_0
            return
        doubt = doubt or table.unfit(figures)
        if iterations == 1 and not (of_task_0 and table.fastest):
            value = figures["min"] if table.over_tasks else figures["max"]
            reason = doubt or (_FASTEST if table.fastest else None)
            self.samples.append(Sample(metric, value, 0, None, "total", 0, row.line, reason))
            return
        self.samples += (
            of_task_0 if not of_task_0 or table.fastest else _near(of_task_0, figures["mean"])
        )
        for statistic, value in figures.items() if iterations != 1 else ():
            reason = doubt or table.wrong(statistic)
            self.samples.append(Sample(metric, value, None, None, statistic, 0, row.line, reason))

    def _doubt(self, metric: str) -> str | None:
        """Return why a phase is not credible, regardless of how it was printed."""
        if metric in self.doubts:
            return self.doubts[metric]
        if metric in _TREE and self.execution.tree_failure is not None:
            return self.execution.tree_failure[:200]
        if self._tasks == 1:
            return None
        if metric in _TREE and "u" in self.options and "c" not in self.options:
            return _ONE_TREE
        return _ALONE if no_barriers(self.options, self._version) else None

    def _of_task_0(
        self, repetition: Repetition, test: MdtestTest, table: _MdtestTable, doubt: str | None
    ) -> Sample:
        """Return the rate of one repetition: items of all tasks over the time of task 0."""
        items = test.done_per_task.get(repetition.iteration, test.items_per_task)
        if "x" in self.options and "C" not in self.options:
            items = None  # as many as the previous run created
        own_items, reason = table.own_items, doubt
        if items is not None and self._tasks > 1 and not table.tree:
            misfit = _fits(repetition, items)
            of_all = _fits(repetition, items * self._tasks)
            if own_items is None and misfit != of_all:
                own_items = misfit
            if not (misfit if own_items else of_all):
                expected = items if own_items else items * self._tasks
                rate, time_s = repetition.rate, repetition.duration_s
                text = f"{rate:g}/s for {time_s:g} s do not give {expected} items"
                reason = reason or Message("figures-disagree", text)
        elif items is not None and not table.tree and not _fits(repetition, items):
            text = f"{repetition.rate:g}/s do not give {items} items in its time"
            reason = reason or Message("figures-disagree", text)
        if own_items is None and self._tasks > 1 and not table.tree:
            reason = reason or _EITHER
        factor = self._tasks if own_items and not table.tree else 1
        place = repetition.iteration, None, "total", 0, repetition.line
        return Sample(repetition.metric, repetition.rate * factor, *place, reason)


@dataclass(frozen=True, slots=True)
class _MdtestTable:
    """How one version summarises one phase; see the top of the file."""

    version: str
    tasks: int
    iterations: int
    row: MdtestRow | None
    tree: bool

    @property
    def figures(self) -> dict[str, float] | None:
        """The columns by statistic, without those of single tasks."""
        if self.row is None or self.row.figures is None:
            return None
        printed = self.row.figures
        values = {name: printed[column] for column, name in _COLUMNS.items() if column in printed}
        return values if {"max", "min", "mean"} <= set(values) else None

    @property
    def over_tasks(self) -> bool:
        """Whether the columns are over both tasks and repetitions."""
        if self.tasks == 1 or self.tree or self.row is None or not self.row.colon:
            return False
        figures = self.figures
        if figures is None or any(name.startswith("rank") for name in self.row.figures or ()):
            return False
        apart = figures["max"] - figures["min"] > 2 * _HALF_UNIT
        return not self.version.startswith("1.") or (self.iterations == 1 and apart)

    @property
    def fastest(self) -> bool:
        """Whether a repetition is the fastest task's view."""
        several = self.tasks > 1 and not self.tree
        return several and self.version.startswith("1.") and not self.over_tasks

    @property
    def own_items(self) -> bool | None:
        """Whether ``-v`` prints the rate of task 0's own items; ``None`` if unknown."""
        if self.version.startswith("3.4"):
            return None
        return not self.version.startswith(("1.", "3."))

    def wrong(self, statistic: str) -> str | None:
        """Return why a column is not the statistic of its heading."""
        if self.fastest:
            return _FASTEST
        return _NOT_REPETITIONS if self.over_tasks and statistic != "min" else None

    def unfit(self, figures: dict[str, float]) -> str | None:
        """Return why the columns of a row contradict each other.

        The mean of n values is at least 1/n of the span from either end. The deviation is at least
        that with one value at each end and all others in the middle, and at most that with all
        values at the ends. For one and two values both are exact.
        """
        high, low, mean = figures["max"], figures["min"], figures["mean"]
        count = self.iterations * (self.tasks if self.over_tasks else 1)
        span, slack = high - low, 2 * _HALF_UNIT + 1e-9 * high
        if not low + span / count - slack <= mean <= high - span / count + slack:
            text = f"a mean of {mean} is not that of {count} values from {low} to {high}"
            return Message("figures-disagree", text)
        deviation = figures.get("stddev")
        if deviation is None:
            return None
        # Early 3.4 has the deviation of the population, later builds that of a sample.
        sample = (count / (count - 1)) ** 0.5 if self.own_items is not False and count > 1 else 1.0
        least = 0.0 if count == 1 else span / (2 * count) ** 0.5
        least *= sample if self.own_items else 1.0
        if not least - slack <= deviation <= sample * span / 2 + slack:
            text = f"a deviation of {deviation} is not that of {count} values from {low} to {high}"
            return Message("figures-disagree", text)
        return None


def _fits(repetition: Repetition, items: int) -> bool:
    """Return whether rate times duration equals the items, within rounding."""
    low = (repetition.rate - _HALF_UNIT) * (repetition.duration_s - _HALF_UNIT)
    high = (repetition.rate + _HALF_UNIT) * (repetition.duration_s + _HALF_UNIT)
    return low <= items <= high


def _near(samples: list[Sample], mean: float) -> list[Sample]:
    """Return task 0's views, with a reason if the summary has another mean."""
    values = [sample.value for sample in samples if sample.value is not None]
    seen = sum(values) / len(values)
    if mean > 0 and abs(seen / mean - 1) <= NEAR:
        return samples
    text = f"the mean is {seen:.6g} by the clock of task 0, but {mean:.6g} in the summary"
    return [doubted(sample, Message("clocks-disagree", text)) for sample in samples]


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return a result for each test in an output; see `trimtab.formats.measurement`.

    An output has several if mdtest ran several times, or if ``-f`` and ``-l`` stepped through
    numbers of tasks. All but the first have a name: ``run 2`` ...

    Raises
    ------
    DataError
        It has no launch line of mdtest.
    """
    measurements = measured(executions(source.text))
    if not measurements:
        raise DataError("no launch line of mdtest in this file", code="not-this-format", line=1)
    return measurements


_BEGINNING: Final = Mark(
    (b"mdtest-",),
    re.compile(
        rb"^(?:-- started at [0-9/]{8,10} [0-9:]{8} --\s{1,9})?mdtest-\S{1,40} was launched with ",
        re.MULTILINE,
    ),
)
FORMAT: Final = OutputFormat(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)


_VERSION_ARGUMENTS: Final = ("-a", "DUMMY", "-F", "-C", "-n", "1", "-d", "/dev/null/trimtab")
"""mdtest has no ``--version`` and prints it with each result. This run creates nothing: the dummy
backend accesses no file system, and 1.9, without backends, cannot create anything below a file. """


version: Final = Version("mdtest", _VERSION_ARGUMENTS, r"^mdtest-([0-9]\S*) was launched")
"""The mdtest of IOR 3.2 reports 1.9.3, like the stand-alone mdtest before it."""


def command(items: int, iterations: int, *, program: str, directory: str) -> tuple[str, ...]:
    """Return mdtest's command, to be started as processes by an MPI launcher.

    Each process creates the same number of files in its own directory. The command is the same for
    every version since 1.9.3 and requests the rate of each repetition (``-v``): before 3.3 no other
    is credible.

    Parameters
    ----------
    items
        Files per task.
    iterations
        Repetitions inside one run of mdtest.
    program
        Path of ``mdtest``.
    directory
        Working directory. If it is missing, mdtest creates it and later removes it.

    Raises
    ------
    UsageError
        mdtest cannot express it.
    """
    if "@" in directory:
        raise UsageError(
            f"mdtest cannot use {directory}: it reads @ as the end of a directory",
            code="directory-unusable",
        )
    return (program, "-v", "-n", str(items), "-i", str(iterations), "-F", "-u", "-d", directory)
