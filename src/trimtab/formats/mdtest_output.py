"""Parses mdtest's text line by line, and the command line that it prints.

`trimtab.formats.mdtest` decides which rates are credible.

::

    -- started at 11/21/2026 00:24:08 --        an execution begins
    mdtest-4.1.0+dev was launched with 3 total task(s) on 1 node(s)
    Command line used: mdtest '-n' '100' ...
    3 tasks, 300 files                          a test begins; with -f and -l there are several
    V-1: ... main: * iteration 1 *              with -v: the rates of each repetition,
    V-1: ...   File creation     :   0.098 sec,   1016.424 ops/sec     by the clock of task 0
    SUMMARY rate (in ops/sec): (of 3 iterations)
       Operation           Max       Min       Mean       Std Dev
       File creation   3211.713  2781.977   2993.814      214.932
    -- finished at 11/21/2026 00:24:09 --

Every task may print a warning, which MPI delivers anywhere, even before the first and after the
last line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.base import plain
from trimtab.base.plain import size_of, time_of, whole_lines

_VALUED: Final = frozenset(
    {
        *"abdefGiIlnNpsVwWxz",
        "random-seed",
        "dataPacketType",
        "run-cmd-before-phase",
        "run-cmd-after-phase",
    }
    | {"saveRankPerformanceDetails", "savePerOpDataCSV", "allocateBufferOnGPU", "GPUid"}
)
_NUMBERS: Final[Mapping[str, str]] = {
    "I": "items_per_directory",
    "N": "stride",
    "W": "stonewall_s",
    "z": "depth",
    "b": "branching_factor",
    "w": "write_bytes",
    "e": "read_bytes",
}
_FLAGS: Final[Mapping[str, str]] = {
    "F": "files_only",
    "D": "directories_only",
    "u": "unique_directories",
    "S": "shared_file",
    "c": "collective",
    "L": "leaf_only",
    "k": "mknod",
    "t": "time_unique_directories",
    "y": "sync_file",
    "Y": "sync_phase",
    "R": "random",
    "X": "verify_read",
    "verify-read": "verify_read",
    "verify-write": "verify_write",
}
_PHASES: Final[Mapping[str, str]] = {
    "C": "create",
    "T": "stat",
    "E": "read",
    "U": "rename",
    "r": "remove",
}


def options_of(line: str, version: str) -> dict[str, str] | None:
    """Return the options of a printed command line: name to value, "" for one without.

    ``None`` if the line cannot be parsed: mdtest prints at most 1,023 characters of it.

    One reader covers two grammars: ``getopt`` up to IOR 3.2, IOR's own since 3.3. Both accept
    ``-n 5``, ``-n5`` and ``-Fun 5``; the latter ``-n=5`` and ``--name=value`` as well. An option
    with a value takes the next word, whatever it looks like: IO500 passes ``-G -1836``.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if version.startswith("1."):  # getopt: -R takes a seed only from the same word
        return dict(plain.options_of(words[1:], _VALUED, {"R"}))
    return dict(plain.options_of(words[1:], _VALUED | {"B"}))


def parameters(options: Mapping[str, str]) -> dict[str, object] | None:
    """Return the parameters by familiar names; ``None`` if a value is not a number.

    Omits what does not affect the rates: directory, verbosity, seeds, and the number of iterations.
    """
    requested: dict[str, object] = {
        "files_only": False,
        "directories_only": False,
        "unique_directories": False,
        "depth": 0,
        "write_bytes": 0,
        "read_bytes": 0,
    }
    for letter, name in _NUMBERS.items():
        if letter in options:
            number = size_of(options[letter])
            if number is None:
                return None
            requested[name] = number
    if requested["depth"] == 0:
        requested.pop("branching_factor", None)
    requested.update({name: True for flag, name in _FLAGS.items() if options.get(flag, "0") != "0"})
    chosen = [name for flag, name in _PHASES.items() if options.get(flag, "0") != "0"]
    if chosen:
        requested["phases"] = chosen
    if "a" in options:
        requested["api"] = options["a"]
    modules = {name: value for name, value in options.items() if "." in name}
    if modules:
        requested["options"] = modules
    return requested


def no_barriers(options: Mapping[str, str], version: str) -> bool:
    """Return whether tasks did not wait for one another between phases.

    Since IOR 3.2 mdtest refuses to run like this, despite its help.
    """
    return version.startswith("1.") and "B" in options


KIND: Final = "mdtest"
METRICS: Final = {
    "Directory creation": "directory_creation_rate",
    "Directory stat": "directory_stat_rate",
    "Directory rename": "directory_rename_rate",
    "Directory removal": "directory_removal_rate",
    "File creation": "file_creation_rate",
    "File stat": "file_stat_rate",
    "File read": "file_read_rate",
    "File removal": "file_removal_rate",
    "Tree creation": "tree_creation_rate",
    "Tree removal": "tree_removal_rate",
}

_ORDER: Final = {metric: place for place, metric in enumerate(METRICS.values())}
_OPERATION: Final = "((?:Directory|File|Tree) (?:creation|stat|read|rename|removal))"
_TIME: Final = "%m/%d/%Y %H:%M:%S"
_STARTED: Final = re.compile(r"-- started at ([0-9/]{8,10} [0-9:]{8}) --")
_FINISHED: Final = re.compile(r"-- finished at ([0-9/]{8,10} [0-9:]{8}) --")
_LAUNCHED: Final = re.compile(
    r"mdtest-(\S{1,40}) was launched with ([0-9]{1,9}) total task\(s\) on ([0-9]{1,9}) node\(s\)"
)
_TASKS: Final = re.compile(
    r"([0-9]{1,9}) tasks, ([0-9]{1,18}) (files/directories|files|directories|file)\s*\Z"
)
_SUMMARY: Final = re.compile(
    r"SUMMARY(?: (rate|time))?(?: \(in ([^)]{1,20})\))?: \(of ([0-9]{1,9}) iterations\)\s*\Z"
)
_ROW: Final = re.compile(rf"   {_OPERATION}\s*(:?)\s+(.*)\Z")
_ROW_BEGINS: Final = re.compile(rf" {{0,8}}{_OPERATION}\b")
_FIGURE: Final = re.compile(r"[0-9]{1,15}\.[0-9]{3}")
_ITERATION: Final = re.compile(r"V-1: .*main: \* iteration ([0-9]{1,9}) \*\s*\Z")
_REPEATED: Final = re.compile(
    rf"V-1: .*?\b{_OPERATION}\s*: +([0-9]{{1,9}}\.[0-9]{{3}}) sec,"
    r" +([0-9]{1,15}\.[0-9]{3}) ops/sec\s*\Z"
)
_STONEWALL: Final = re.compile(r"Continue stonewall hit min: [0-9]+ max: ([0-9]{1,18}) avg: ")
_VERIFY: Final = re.compile(r"ERROR: verifying the data on read")
_FAILED: Final = re.compile(r"\S+ \S+: Process [0-9]+.*?: (FAILED (?:in|at) .*)")
_ITEM_FAILED: Final = re.compile(
    r"unable to (?:mknode|open|create|write|verify write \(read/back\)|read|stat|rename) file "
    r"|unable to (?:create|stat|remove|rename) directory .*dir\.mdtest"
    r"|(?:write|read|fsync)\(.*\) (?:failed|returned EOF)"
    r"|(?:unlink|rename)\(\) of file .* failed|too many retries"
)
"""Errors about a file or directory that a phase counts, from mdtest.c and aiori-POSIX.c."""
_TREE_FAILED: Final = re.compile(r"[Uu]nable to (?:create|remove) (?:tree |test )?directory")
_KEPT: Final = 100
"""Limit of errors of one kind: there may be one per file."""
_LINE_LIMIT: Final = 4096
"""Maximum length in characters: relevant lines of mdtest are shorter."""


@dataclass(frozen=True, slots=True)
class MdtestRow:
    """One line of a summary.

    Attributes
    ----------
    figures
        By name of the column, ``None`` if unreadable.
    colon
        Whether its name is followed by a colon.
    stray
        Whether it belongs to another table whose unit line is missing.
    """

    metric: str
    line: int
    figures: dict[str, float] | None
    colon: bool = False
    stray: bool = False


@dataclass(frozen=True, slots=True)
class Repetition:
    """The rate of one phase of one iteration, by the clock of task 0."""

    metric: str
    iteration: int
    line: int
    duration_s: float
    rate: float


@dataclass(slots=True)
class MdtestSummary:
    """One table; ``statistic`` is ``rate``, ``time``, or "" for stand-alone mdtest 1.9.3.

    ``another``: whether the following rows belong to a further table without a unit line.
    ``place``: position of the last row in the order of rows.
    """

    statistic: str
    iterations: int
    columns: tuple[str, ...] = ()
    rows: list[MdtestRow] = field(default_factory=list)
    another: bool = False
    place: int = 0

    def head(self, columns: tuple[str, ...]) -> None:
        """Read the line with the column names; a table has one."""
        self.another = self.another or bool(self.columns)
        self.columns = columns

    def take(self, row: MdtestRow) -> None:
        """Add a row; rows of one table have a fixed order (``METRICS``)."""
        place = _ORDER.get(row.metric, self.place)
        self.another = self.another or place < self.place
        self.place = place
        self.rows.append(replace(row, stray=self.another))


@dataclass(slots=True)
class MdtestTest:
    """One number of tasks: all its iterations, and their summary.

    Attributes
    ----------
    items_per_task
        As requested; ``None`` if all tasks share one file, or if it does not divide.
    times
        Whether it has a table of times.
    done_per_task
        Iteration (from 0) to items per task, if the stonewall was hit.
    """

    tasks: int
    items_per_task: int | None = None
    summary: MdtestSummary | None = None
    times: bool = False
    iteration: int = 0
    repetitions: list[Repetition] = field(default_factory=list)
    done_per_task: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Execution:
    """One start of mdtest.

    Attributes
    ----------
    failures, failure
        Number of operations that failed without ending their phase, and the first error.
    tree_failure
        The first error about directories around the items.
    """

    version: str | None = None
    tasks: int | None = None
    nodes: int | None = None
    command_line: str | None = None
    path: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    complete: bool = False
    times_only: bool = False
    integrity_lost: bool = False
    tests: list[MdtestTest] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    failures: int = 0
    failure: str | None = None
    tree_failure: str | None = None
    warnings: list[str] = field(default_factory=list)


def executions(text: str) -> list[Execution]:
    """Return every start of mdtest in an output, in order."""
    reader = _MdtestReader()
    for number, line in whole_lines(text):
        if len(line) <= _LINE_LIMIT:
            reader.take(number, line)
    return reader.executions


@dataclass(slots=True)
class _MdtestReader:
    executions: list[Execution] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    """Errors since the last execution ended, which may belong to it or the next."""
    _table: MdtestSummary | None = None

    def take(self, number: int, line: str) -> None:
        """Read one complete line."""
        match line[:2]:
            case "--":
                self._mark(line)
            case "md":
                self._launched(line)
            case "WA" | "ER":
                self._complaint(line)
            case "V-" | "  " | "SU" | "Co" | "Pa":
                self._inside(number, line)
            case _ if line[:1].isdecimal():
                self._numbered(line)
            case _:
                pass

    def _mark(self, line: str) -> None:
        if started := _STARTED.match(line):
            self._begin().began = time_of(started[1], _TIME)
        elif self.executions and (finished := _FINISHED.match(line)):
            self.executions[-1].ended = time_of(finished[1], _TIME)
            self.executions[-1].complete = True

    def _begin(self) -> Execution:
        execution = Execution()
        for line in self.early:
            _complain(execution, line)
        self.early.clear()
        self._table = None
        self.executions.append(execution)
        return execution

    def _launched(self, line: str) -> None:
        match = _LAUNCHED.match(line)
        if match is None:
            return
        last = self.executions[-1] if self.executions else None
        execution = last if last is not None and last.version is None else self._begin()
        execution.version = match[1]
        execution.tasks, execution.nodes = int(match[2]), int(match[3])

    def _complaint(self, line: str) -> None:
        if not line.startswith(("WARNING:", "ERROR:")) and not _FAILED.match(line):
            return
        if self.executions:
            _complain(self.executions[-1], line)
        if not self.executions or self.executions[-1].complete:
            self.early.append(line)

    def _numbered(self, line: str) -> None:
        if self.executions and (match := _TASKS.match(line)):
            self.executions[-1].tests.append(_test(match))
            self._table = None
        else:
            self._complaint(line)

    def _inside(self, number: int, line: str) -> None:
        execution = self.executions[-1] if self.executions else None
        if execution is None:
            return
        if line.startswith("Command line used: "):
            execution.command_line = line.partition(": ")[2]
        elif line.startswith("Path") and execution.path is None:
            execution.path = line.partition(":")[2].strip() or None
        elif execution.tests:
            self._result(number, line, execution.tests[-1], execution)

    def _result(self, number: int, line: str, test: MdtestTest, execution: Execution) -> None:
        if match := _SUMMARY.match(line):
            self._table = MdtestSummary(_statistic_of(match, execution), int(match[3]))
            if self._table.statistic == "time":
                test.times = True
                execution.times_only = execution.times_only or test.summary is None
            elif test.summary is None and self._table.statistic in ("", "rate"):
                test.summary = self._table
        elif self._table is not None and line.startswith("   Operation"):
            self._table.head(_columns(line))
        elif self._table is not None and _ROW_BEGINS.match(line):
            self._table.take(_row(number, line, self._table.columns))
        elif repeated := _REPEATED.match(line):
            rate, duration = float(repeated[3]), float(repeated[2])
            metric = METRICS.get(repeated[1])
            if metric is not None:
                test.repetitions.append(Repetition(metric, test.iteration, number, duration, rate))
        elif iteration := _ITERATION.match(line):
            test.iteration = int(iteration[1]) - 1
        elif stonewall := _STONEWALL.match(line):
            test.done_per_task[test.iteration] = int(stonewall[1])


def _complain(execution: Execution, line: str) -> None:
    kind, _, complaint = line.partition(":")
    complaint = complaint.strip()
    complaints = execution.warnings
    if failed := _FAILED.match(line):
        complaint, complaints = failed[1], execution.errors
    elif kind == "ERROR":
        complaints = execution.errors
        execution.integrity_lost = execution.integrity_lost or bool(_VERIFY.match(line))
    elif _ITEM_FAILED.search(complaint):
        execution.failures += 1
        execution.failure = execution.failure or complaint
        return
    elif _TREE_FAILED.search(complaint):
        execution.tree_failure = execution.tree_failure or complaint
    if len(complaints) < _KEPT:
        complaints.append(complaint)


def _statistic_of(match: re.Match[str], execution: Execution) -> str:
    """Return the statistic of a table: ``unknown`` if its line is not as expected."""
    statistic, unit = match[1] or "", match[2]
    if statistic == "" and not (execution.version or "").startswith("1."):
        return "unknown"
    return "unknown" if statistic == "rate" and unit not in (None, "ops/sec") else statistic


def _test(match: re.Match[str]) -> MdtestTest:
    tasks, items = int(match[1]), int(match[2])
    shared = match[3] == "file"
    per_task = None if shared or tasks < 1 or items % tasks or not items else items // tasks
    return MdtestTest(tasks, per_task)


def _columns(line: str) -> tuple[str, ...]:
    """Return the columns of a table.

    Between IOR 3.3 and 4.0, and with ``--showRankStatistics``, a table has two groups: per rank and
    per iteration. Columns of the first get the prefix ``rank``.
    """
    words = line.replace("Std Dev", "StdDev").replace("per Rank:", "").split("per Iteration:")
    names = [word for word in words[0].split() if word != "Operation"]
    if len(words) == 1:
        return tuple(names)
    return (*(f"rank {name}" for name in names), *words[1].split())


def _row(number: int, line: str, columns: tuple[str, ...]) -> MdtestRow:
    begins, match = _ROW_BEGINS.match(line), _ROW.match(line)
    metric = METRICS.get(begins[1], "") if begins else ""
    words = match[3].split() if match else []
    if not match or len(words) != len(columns) or not all(map(_FIGURE.fullmatch, words)):
        return MdtestRow(metric, number, None)
    figures = dict(zip(columns, map(float, words), strict=True))
    return MdtestRow(metric, number, figures, colon=bool(match[2]))
