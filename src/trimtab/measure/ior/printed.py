"""What IOR prints, taken apart line by line: tests, options, results, summaries, complaints.

IOR prints one of three things, and puts its warnings between the lines of each::

    text   options as ``name : value`` (3.2 and later) or ``name = value`` (3.0, 3.1), a row of a
           table for each repetition, a row of a summary for each test and access
    JSON   the same, one key a line; with the warnings in it, it is not JSON
    CSV    rows of results alone (4.0 and later; 3.2 and 3.3 print no result in theirs)

So nothing here is parsed as a whole. A line counts when its end is there, and a result when all of
its lines are: what was complete when IOR was killed still stands. The columns of both tables go by
their headings, which differ between versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, cast

from trimtab.model.run import Access

_OF_INTEREST: Final = re.compile(
    r"""^(?:
      (?P<row>       (?:write|read)[ ,][^\n]*)
    | (?P<columns>   (?:access[ ,]|Operation[ ]{2})[^\n]*)
    | (?P<header>    IOR-[^\n]*)
    | (?P<complaint> [ \[]*+(?:ior[ ])?(?:WARNING|ERROR):[^\n]*)
    | (?P<mismatch>  \[[0-9]+\][ ]FAILED[ ]comparison[ ][^\n]*)
    | (?P<refused>   Error[ ]invalid[ ]argument:[^\n]*
                   | ParseCommandLine:[ ]unknown[ ]option[^\n]*)
    | (?P<broken>    (?:slurmstepd|srun):[ ]error:[^\n]*
                   | (?:mpirun|mpiexec|prterun)[ ]noticed[ ]that[ ][^\n]*
                   | ior:[^\n]{0,200}?[ ]Assertion[ ][^\n]*)
    | (?P<summary>   Summary[ ]of[ ]all[ ]tests:[^\n]*)
    | (?P<environ>   (?:STARTING|ENDING)[ ]ENVIRON[ ]LOOP[^\n]*)
    | (?P<pair>      [ \[]*+"[^\n]*)
    | (?P<brace>     [ \[]*+[{}][^\n]*)
    | (?P<option>    \t?[ ]*+[A-Za-z][A-Za-z0-9 /]{0,60}[:=][^\n]*)
    )\n""",
    re.MULTILINE | re.VERBOSE,
)
_TEXT_ROW: Final = re.compile(r"(?:write|read)(?: +(?:[0-9]+(?:\.[0-9]+)?|-))+ *")
_CSV_ROW: Final = re.compile(r"(?:write|read)(?:,[0-9]+(?:\.[0-9]+)?)+")
_PAIR: Final = re.compile(r'[ \[]*"([^"\n]+)" ?: (?:"(.*)"|([^",\s]+))[\s,]*\Z')
_TEXT_IN_PAIR: Final = re.compile(r'[ \[]*"([^"\n]+)" ?: "([^"]*)"')
_NAME: Final = re.compile(r"[\t ]*([A-Za-z0-9 /]+?) *[:=] *(.*)", re.DOTALL)
_OLD_TEST: Final = re.compile(r"Test ([0-9]+) started")
_MOVED: Final = re.compile(
    r"WARNING: (Expected aggregate|Stat\(\) of aggregate|Using actual aggregate) "
    r"(?:file size|bytes moved) +(?:=|:) *([0-9]+)[.,\s]"
)
_EXPLAINED: Final = re.compile(
    r"WARNING: (?:Expected|Stat\(\) of|maybe caused by) ?", re.IGNORECASE
)
_INTEGRITY: Final = re.compile(r"WARNING: incorrect data on |WARNING: .*data check error", re.I)

COLUMNS: Final[dict[int, tuple[str, ...]]] = {
    9: ("access", "bw", "block", "xfer", "open", "wr/rd", "close", "total", "iter"),
    11: (
        *("access", "bw", "iops", "latency", "block", "xfer"),
        *("open", "wr/rd", "close", "total", "iter"),
    ),
}
"""Of the results, by their number, as IOR 3.0 to 3.2 and those since 3.3 have them; for a table
whose headings were lost."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as printed, with half a unit of its last digit: all that rounding can hide."""

    value: float
    half_unit: float

    @property
    def error(self) -> float:
        """What rounding can hide, as a fraction."""
        return self.half_unit / self.value if self.value > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the results, or one object of the list of results.

    Attributes
    ----------
    figures
        By column: ``bw`` in MiB/s, ``iops``, ``block`` and ``xfer`` in KiB, ``wr/rd`` and
        ``total`` in s.
    iteration
        As printed; ``None`` in JSON.
    tasks
        As a CSV says it beside each result.
    lines
        Where ``bw`` and ``iops`` are.
    expected_bytes, in_files_bytes, moved_bytes
        Of the warning before it, which IOR prints where the three are not the same.
    """

    access: Access
    figures: dict[str, Figure]
    lines: dict[str, int]
    iteration: int | None = None
    tasks: int | None = None
    expected_bytes: int | None = None
    in_files_bytes: int | None = None
    moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the summary, by the headings of the text, whatever it was printed as."""

    access: Access
    values: dict[str, str]
    line: int


@dataclass(slots=True)
class Test:
    """One test: an output without a script has one."""

    number: int = 0
    started: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    integrity_lost: bool = False
    ended: bool = False


@dataclass(slots=True)
class IorRun:
    """One start of IOR."""

    version: str | None = None
    began: str | None = None
    finished: str | None = None
    command_line: str | None = None
    machine: str | None = None
    is_csv: bool = False
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    early: Test = field(default_factory=Test)
    """What was said before the first test; its errors and warnings only."""
    tests: list[Test] = field(default_factory=list)


def runs_of(text: str) -> list[IorRun]:
    r"""Return every start of IOR in a text, none where nothing in it is from IOR.

    Examples
    --------
    >>> [run.version for run in runs_of("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n")]
    ['4.0.0']
    """
    reader = _Reader(text)
    in_environ = False
    for match in _OF_INTEREST.finditer(text):
        kind = match.lastgroup
        if in_environ or kind == "environ":
            in_environ = kind != "environ" or match.group().startswith("STARTING")
            continue
        reader.take(cast("str", kind), match.group().rstrip("\r\n"), match.start())
    return reader.done()


class _Reader:
    """Keeps where it is: in which run, which test, which object, before which result."""

    def __init__(self, text: str) -> None:
        self.runs: list[IorRun] = []
        self._text = text
        self._line = 1
        self._counted = 0
        self._columns: tuple[str, ...] = ()
        self._in_summary = False
        self._object: dict[str, tuple[str, int]] | None = None
        self._moved: dict[str, int] = {}
        self._late: list[str] = []
        self._takers = {
            "row": self._row,
            "columns": self._headings,
            "header": self._header,
            "complaint": self._complaint,
            "mismatch": self._mismatch,
            "refused": self._refusal,
            "broken": self._breakage,
            "summary": self._summary,
            "pair": self._pair,
            "brace": self._brace,
            "option": self._option,
        }

    def take(self, kind: str, line: str, position: int) -> None:
        """Read one whole line, which begins at ``position``."""
        self._takers[kind](line, position)

    def done(self) -> list[IorRun]:
        """Return what was read, with what was said too late for a test of its own."""
        late, self._late = self._late, []
        for line in late:
            self._note(line, self._test_or_early())
        return self.runs

    def _line_of(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    @property
    def _run(self) -> IorRun:
        if not self.runs:
            self.runs.append(IorRun())
        return self.runs[-1]

    def _test_or_early(self) -> Test:
        run = self._run
        return run.tests[-1] if run.tests else run.early

    def _next_run(self, version: str | None) -> None:
        """Begin a run, unless nothing of the present one has been seen but complaints.

        A rank may complain before rank 0 has printed the header.
        """
        run = self._run
        if run.version is not None or run.began is not None or run.is_csv or run.tests:
            self.runs.append(IorRun())
        self.runs[-1].version = version
        self._in_summary, self._object, self._columns, self._moved = False, None, (), {}
        late, self._late = self._late, []
        for line in late:
            self._note(line, self.runs[-1].early)

    def _next_test(self, number: str, position: int) -> None:
        run = self._run
        if run.tests:
            run.tests[-1].ended = True
        run.tests.append(Test(int(number) if number.isdecimal() else len(run.tests)))
        self._columns, self._moved = (), {}

    def _header(self, line: str, position: int) -> None:
        version = line[4:].split(":", maxsplit=1)[0]
        if version[:1].isdecimal():
            self._next_run(version)

    def _summary(self, line: str, position: int) -> None:
        self._in_summary, self._columns = True, ()

    def _headings(self, line: str, position: int) -> None:
        if line.startswith("access,"):
            self._next_run(None)
            self._run.is_csv = True
            self._next_test("0", position)
            self._columns = tuple(name.partition("(")[0].lower() for name in line.split(","))
        elif line.startswith("access"):
            self._columns = tuple(name.partition("(")[0].lower() for name in line.split())
        else:
            self._in_summary, self._columns = True, _distinct(line.split())

    def _row(self, line: str, position: int) -> None:
        if self._in_summary:
            self._summary_row(line.split(), position)
            return
        run = self._run
        if not run.tests or run.finished is not None:
            return
        words = line.split(",") if run.is_csv else line.split()
        columns = self._columns or COLUMNS.get(len(words), ())
        whole = (_CSV_ROW if run.is_csv else _TEXT_ROW).fullmatch(line)
        named = {name: word for name, word in zip(columns, words, strict=False) if word != "-"}
        if not whole or len(words) != len(columns) or not {"bw", "total", "iter"} <= set(named):
            number = self._line_of(position)
            run.tests[-1].warnings.append(f"line {number} is not a whole row of results")
            return
        self._add(cast("Access", words[0]), named, self._line_of(position))

    def _add(
        self, access: Access, named: dict[str, str], line: int, iops_line: int | None = None
    ) -> None:
        moved, self._moved = self._moved, {}
        iteration, tasks = named.get("iter", ""), named.get("numtasks", "")
        self._run.tests[-1].results.append(
            Result(
                access=access,
                figures={
                    name: figure for name in _NEEDED if (figure := figure_of(named.get(name)))
                },
                lines={"bw": line, "iops": line if iops_line is None else iops_line},
                iteration=int(iteration) if iteration.isdecimal() else None,
                tasks=int(tasks) if tasks.isdecimal() else None,
                expected_bytes=moved.get("Expected aggregate"),
                in_files_bytes=moved.get("Stat() of aggregate"),
                moved_bytes=moved.get("Using actual aggregate"),
            )
        )

    def _summary_row(self, words: list[str], position: int) -> None:
        if len(words) != len(self._columns) or words[0] not in ("write", "read"):
            return
        values = dict(zip(self._columns, words, strict=True))
        self._add_summary(cast("Access", words[0]), values, self._line_of(position))

    def _add_summary(self, access: Access, values: dict[str, str], line: int) -> None:
        run = self._run
        number = values.get("Test#", "0")
        test = next((one for one in run.tests if str(one.number) == number), None)
        if test is None:  # IOR with verbose=-1 prints nothing but the summary
            test = Test(int(number) if number.isdecimal() else len(run.tests))
            run.tests.append(test)
        test.summaries.append(Summary(access, values, line))

    def _complaint(self, line: str, position: int) -> None:
        if self.runs and self.runs[-1].finished is not None:
            self._late.append(line)  # perhaps of the next run, whose header comes after it
        else:
            self._note(line, self._test_or_early())

    def _note(self, line: str, test: Test) -> None:
        said = line.lstrip(" [").removeprefix("ior ")
        if moved := _MOVED.match(said + "\n"):
            self._moved[moved.group(1)] = int(moved.group(2))
        elif said.startswith("ERROR:"):
            test.errors.append(_without_stale_errno(said.removeprefix("ERROR:").strip()))
        elif not _EXPLAINED.match(said):
            test.warnings.append(said.removeprefix("WARNING:").strip())
            test.integrity_lost = test.integrity_lost or bool(_INTEGRITY.match(said))

    def _mismatch(self, line: str, position: int) -> None:
        self._test_or_early().integrity_lost = True

    def _refusal(self, line: str, position: int) -> None:
        said = line.rpartition(": ")[2].removeprefix("unknown option ")
        self._run.refused.append(said.strip(" `'"))

    def _breakage(self, line: str, position: int) -> None:
        self._run.broken.append(line)

    def _option(self, line: str, position: int) -> None:
        found = _NAME.match(line)
        if found is None:
            return
        name, value = found.groups()
        if started := _OLD_TEST.fullmatch(name):
            self._next_test(started.group(1), position)
            self._run.tests[-1].started = value
        elif not self._key(name, value, position):
            test = self._test_or_early()
            if self._run.finished is None and test is not self._run.early:
                test.options.setdefault(name, value)

    def _key(self, name: str, value: str, position: int) -> bool:
        """Take what has a place of its own, whatever it was printed as."""
        match name:
            case "Began":
                if self._run.began is not None:
                    self._next_run(None)
                self._run.began = value
            case "Command line" | "Command line used":
                self._run.command_line = value
            case "Machine":
                self._run.machine = value
            case "Finished":
                self._run.finished = value
                for test in self._run.tests:
                    test.ended = True
            case "TestID" if not self._in_summary:
                self._next_test(value, position)
            case "StartTime" if self._run.tests:
                self._run.tests[-1].started = value
            case _:
                return False
        return True

    def _pair(self, line: str, position: int) -> None:
        found = _PAIR.match(line) or _TEXT_IN_PAIR.match(line)
        if found is None:
            return
        name, text = found.group(1), found.group(2)
        value = text if text is not None else found.group(3)
        if name == "Version":
            self._next_run(value)
        elif value in ("{", "["):
            self._object = None
            self._in_summary = self._in_summary or name == "summary"
        elif not self._key(name, value, position):
            if self._object is not None:
                number = self._line_of(position) if name in ("bwMiB", "iops", "operation") else 0
                self._object[name] = (value, number)
            elif self._run.tests and not self._in_summary:
                self._run.tests[-1].options.setdefault(name, value)

    def _brace(self, line: str, position: int) -> None:
        if line.lstrip(" [") == "{":
            self._object = {}
        elif self._object is not None and line.lstrip().startswith("}"):
            found, self._object = self._object, None
            if "operation" in found:
                self._json_summary(found)
            elif found.get("access", ("", 0))[0] in ("write", "read") and self._run.tests:
                self._json_result(found, position)

    def _json_result(self, found: dict[str, tuple[str, int]], position: int) -> None:
        named = {_JSON_COLUMNS[key]: found[key][0] for key in _JSON_COLUMNS if key in found}
        if not all(figure_of(named.get(name)) for name in ("bw", "total", "block", "xfer")):
            number = self._line_of(position)
            self._run.tests[-1].warnings.append(
                f"the result that ends at line {number} is not whole"
            )
            return
        lines = [found[key][1] if key in found else None for key in ("bwMiB", "iops")]
        self._add(cast("Access", found["access"][0]), named, lines[0] or 0, lines[1])

    def _json_summary(self, found: dict[str, tuple[str, int]]) -> None:
        access, line = found["operation"]
        if access in ("write", "read"):
            values = {_JSON_SUMMARY.get(key, key): value for key, (value, _) in found.items()}
            self._add_summary(access, values, line)


_NEEDED: Final = ("bw", "iops", "block", "xfer", "wr/rd", "total")
_JSON_COLUMNS: Final = {
    "bwMiB": "bw",
    "iops": "iops",
    "blockKiB": "block",
    "xferKiB": "xfer",
    "wrRdTime": "wr/rd",
    "totalTime": "total",
}
_JSON_SUMMARY: Final = {
    "API": "API",
    "TestID": "Test#",
    "segmentCount": "segcnt",
    "blockSize": "blksiz",
    "transferSize": "xsize",
    "numTasks": "#Tasks",
    "tasksPerNode": "tPN",
    "repetitions": "reps",
    "filePerProc": "fPP",
    "bwMaxMIB": "Max(MiB)",
    "bwMinMIB": "Min(MiB)",
    "bwMeanMIB": "Mean(MiB)",
    "MeanTime": "Mean(s)",
    "xsizeMiB": "aggs(MiB)",
}
_HALF_UNITS: Final = tuple(0.5 * 10.0**-decimals for decimals in range(20))


def figure_of(word: str | None) -> Figure | None:
    """Return a printed number with its rounding; ``None`` for ``NA``, ``-``, ``nan``, ``1,5``."""
    if word is None:
        return None
    whole, _, decimals = word.partition(".")
    digits = whole + decimals
    if not (whole and digits.isdecimal() and digits.isascii() and len(decimals) < len(_HALF_UNITS)):
        return None
    return Figure(float(word), _HALF_UNITS[len(decimals)])


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return headings with a number behind those that were there before: ``StdDev`` is twice."""
    return tuple(
        name if name not in names[:place] else f"{name}#{place}" for place, name in enumerate(names)
    )


def _without_stale_errno(message: str) -> str:
    """Return an error without the reason that IOR 3 adds whether or not a call had failed."""
    said, _, errno = message.partition(", errno ")
    return message if not errno or " failed" in said else said
