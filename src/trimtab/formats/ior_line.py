"""Parses an output of IOR line by line into runs, their tests, and the tests' results.

IOR prints one of three formats, with warnings between the lines of each::

    text   options as ``name : value`` (3.2 and later) or ``name = value`` (3.0, 3.1), a row of a
           table for each repetition, a row of a summary for each test and access
    JSON   the same, one key a line; with the warnings in it, it is not JSON
    CSV    rows of results alone (4.0 and later; 3.2 and 3.3 print no result in theirs)

In every format, results use the names of the text's columns without units (`COLUMNS`), summaries
the headings of the text. The columns of both tables are identified by their headings, which differ
between versions.

Nothing is parsed as a whole: IOR mixes warnings into its JSON, and ranks write into each other's
lines. A line counts if it is complete, and a result if all of its lines are, so results that were
complete when IOR was killed are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, cast

from trimtab.base.error import DataError, Message
from trimtab.base.plain import PrintedNumber, figure_of, whole_of
from trimtab.base.run import Access

COLUMNS: Final[dict[int, tuple[str, ...]]] = {
    9: ("access", "bw", "block", "xfer", "open", "wr/rd", "close", "total", "iter"),
    11: (
        *("access", "bw", "iops", "latency", "block", "xfer"),
        *("open", "wr/rd", "close", "total", "iter"),
    ),
}
"""Columns of the results by their number, in IOR 3.0 to 3.2 and since 3.3; for a table without
headings."""


@dataclass(frozen=True, slots=True)
class IorRepetition:
    """One row of the results, or one object in their list.

    Attributes
    ----------
    figures
        By column: ``bw`` in MiB/s, ``iops``, ``block`` and ``xfer`` in KiB, ``wr/rd`` and
        ``total`` in s.
    iteration
        As printed; ``None`` in JSON, where the position among its access counts.
    countable
        Whether every earlier result was complete, so that it can be counted.
    tasks
        From CSV, which has it for each result.
    lines
        Lines of ``bw`` and ``iops``.
    doubt
        Reason to doubt it whatever its figures are.
    in_files_bytes, moved_bytes
        From the warning before it, which IOR prints if they differ from the request; 0 bytes in
        files if ``stat`` returned nothing.
    """

    access: Access
    figures: dict[str, PrintedNumber]
    lines: dict[str, int]
    iteration: int | None = None
    countable: bool = True
    tasks: int | None = None
    doubt: str | None = None
    in_files_bytes: int | None = None
    moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class IorSummary:
    """One row of the summary, by the headings of the text, in any format."""

    access: Access
    values: dict[str, str]
    line: int


@dataclass(slots=True)
class IorTest:
    """One test; an output without a script has one.

    Attributes
    ----------
    summary_alone
        Whether only the summary was printed, as with ``verbose=-1``.
    result_lost
        Whether a result was incomplete.
    commas
        Whether a figure has a decimal comma.
    """

    number: int = 0
    started: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    results: list[IorRepetition] = field(default_factory=list)
    summaries: list[IorSummary] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    summary_alone: bool = False
    integrity_lost: bool = False
    result_lost: bool = False
    commas: bool = False
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
    has_table: bool = False
    """Whether repetitions were printed, readable or not."""
    refused: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    early: IorTest = field(default_factory=IorTest)
    """Errors and warnings before the first test."""
    tests: list[IorTest] = field(default_factory=list)


_OF_INTEREST: Final = re.compile(
    r"""^(?=[\t\ "0-9A-Z\[a-z{}])(?:
      (?P<row>       (?:write|read)[ ,][^\n]*)
    | (?P<heading>   (?:access(?:,|[ ]++(?!:))|Operation[ ]{2})[^\n]*)
    | (?P<header>    IOR-[^\n]*)
    | (?P<complaint> [ \[]*+(?:ior[ ])?(?:WARNING|ERROR):[^\n]*)
    | (?P<mismatch>  \[[0-9]+\][ ]FAILED[ ]comparison[ ][^\n]*)
    | (?P<refused>   Error[ ]invalid[ ]argument:[^\n]*
                   | ParseCommandLine:[ ]unknown[ ]option[^\n]*)
    | (?P<broken>    (?:slurmstepd|srun):[ ]error:[^\n]*
                   | (?:mpirun|mpiexec|prterun)[ ]noticed[ ]that[ ][^\n]*
                   | ior:[^\n]{0,200}?[ ]Assertion[ ][^\n]*
                   | [0-9/]{8,10}[ ][0-9:]{8}:[ ]Process[ ][0-9]+:[ ]FAILED[ ][^\n]*)
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
_COMMA: Final = re.compile(r"[ :][0-9]{1,15},[0-9]{1,9}(?: |,?$)")
_PAIR: Final = re.compile(r'[ \[]*"([^"\n]+)" ?: (?:"(.*)"|([^",\s]+))[\s,]*\Z')
_TEXT_IN_PAIR: Final = re.compile(r'[ \[]*"([^"\n]+)" ?: "([^"]*)"')
_NAME: Final = re.compile(r"[\t ]*([A-Za-z0-9 /]+?) *[:=] *(.*)", re.DOTALL)
_OLD_TEST: Final = re.compile(r"Test ([0-9]+) started")
_MOVED: Final = re.compile(
    r"WARNING: (Expected aggregate|Stat\(\) of aggregate|Using actual aggregate) "
    r"(?:file size|bytes moved) +(?:=|:) *(-?[0-9]{1,20})[.,\s]"
)
_EXPLAINED: Final = re.compile(
    r"WARNING: (?:Expected|Stat\(\) of|maybe caused by) ?", re.IGNORECASE
)
_INTEGRITY: Final = re.compile(r"WARNING: incorrect data on |WARNING: .*data check error", re.I)

PARTS_MAX: Final = 100_000
"""Runs, tests, results and summaries in one text: IOR every minute for a month. More is refused, so
that no file takes minutes and gigabytes to read."""
_COMPLAINTS_MAX: Final = 100
"""Limit of one test: every rank may print the same."""
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


def runs_of(text: str) -> list[IorRun]:
    r"""Return every start of IOR in a text, if any.

    Examples
    --------
    >>> [run.version for run in runs_of("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n")]
    ['4.0.0']
    """
    reader = _IorReader(text)
    in_environ = False
    for match in _OF_INTEREST.finditer(text):
        kind = match.lastgroup
        if in_environ or kind == "environ":
            in_environ = kind != "environ" or match.group().startswith("STARTING")
            continue
        reader.take(cast("str", kind), match.group().rstrip("\r\n"), match.start())
    return reader.done()


class _IorReader:
    """Tracks the current run, test and object, and the next result."""

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
        self._parts = 0

    def take(self, kind: str, line: str, position: int) -> None:
        """Read one complete line, starting at ``position``, with the method for its kind."""
        getattr(self, f"_{kind}")(line, position)

    def done(self) -> list[IorRun]:
        """Return the runs, with errors printed too late for a test."""
        late, self._late = self._late, []
        for line in late:
            self._note(line, self._test_or_early())
        return self.runs

    def _line_of(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def _count_part(self, position: int) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise DataError(
                f"more than {PARTS_MAX} runs and results of IOR",
                code="too-many-results",
                line=self._line_of(position),
            )

    @property
    def _run(self) -> IorRun:
        if not self.runs:
            self.runs.append(IorRun())
        return self.runs[-1]

    def _test_or_early(self) -> IorTest:
        run = self._run
        return run.tests[-1] if run.tests else run.early

    def _next_run(self, version: str | None, position: int) -> None:
        """Start a run, unless the current one has only errors so far.

        A rank may print an error before rank 0 prints the header.
        """
        self._count_part(position)
        run = self._run
        if run.version is not None or run.began is not None or run.is_csv or run.tests:
            self.runs.append(IorRun())
        self.runs[-1].version = version
        self._in_summary, self._object, self._columns, self._moved = False, None, (), {}
        late, self._late = self._late, []
        for line in late:
            self._note(line, self.runs[-1].early)

    def _next_test(self, number: str, position: int) -> None:
        self._count_part(position)
        run = self._run
        if run.tests:
            run.tests[-1].ended = True
        reported = whole_of(number)
        run.tests.append(IorTest(len(run.tests) if reported is None else reported))
        self._columns, self._moved = (), {}

    def _header(self, line: str, position: int) -> None:
        version = line[4:].split(":", maxsplit=1)[0]
        if version[:1].isdecimal():
            self._next_run(version, position)

    def _summary(self, line: str, position: int) -> None:
        self._in_summary, self._columns = True, ()

    def _heading(self, line: str, position: int) -> None:
        if line.startswith("access,"):
            self._next_run(None, position)
            self._run.is_csv = self._run.has_table = True
            self._next_test("0", position)
            self._columns = tuple(name.partition("(")[0].lower() for name in line.split(","))
        elif line.startswith("access"):
            self._run.has_table = True
            self._columns = tuple(name.partition("(")[0].lower() for name in line.split())
        else:
            self._in_summary, self._columns = True, _distinct(line.split())

    def _row(self, line: str, position: int) -> None:
        if self._in_summary:
            self._summary_row(line.split(), position)
            return
        run = self._run
        if run.finished is not None:
            return
        run.has_table = True  # also for a test with a damaged start: its summary is not alone
        if not run.tests:
            return
        self._count_part(position)
        words = line.split(",") if run.is_csv else line.split()
        columns = self._columns or COLUMNS.get(len(words), ())
        whole = (_CSV_ROW if run.is_csv else _TEXT_ROW).fullmatch(line)
        named = {name: word for name, word in zip(columns, words, strict=False) if word != "-"}
        if not whole or len(words) != len(columns) or not {"bw", "total", "iter"} <= set(named):
            test = run.tests[-1]
            text = f"line {self._line_of(position)} is not a complete row of results"
            self._warn(Message("line-damaged", text), test)
            more = run.is_csv and len(words) > len(columns)
            test.commas = test.commas or more or _COMMA.search(line) is not None
            return
        self._add(cast("Access", words[0]), named, self._line_of(position))

    def _add(
        self, access: Access, named: dict[str, str], line: int, iops_line: int | None = None
    ) -> None:
        moved, self._moved = self._moved, {}
        test = self._run.tests[-1]
        figures = {name: figure for name in _NEEDED if (figure := figure_of(named.get(name)))}
        result = IorRepetition(
            access=access,
            figures=figures,
            lines={"bw": line, "iops": line if iops_line is None else iops_line},
            iteration=whole_of(named.get("iter", "")),
            countable=not test.result_lost,
            tasks=whole_of(named.get("numtasks", "")),
            in_files_bytes=moved.get("Stat() of aggregate"),
            moved_bytes=moved.get("Using actual aggregate"),
        )
        test.results.append(result)

    def _summary_row(self, words: list[str], position: int) -> None:
        if len(words) != len(self._columns) or words[0] not in ("write", "read"):
            return
        self._count_part(position)
        values = dict(zip(self._columns, words, strict=True))
        self._add_summary(cast("Access", words[0]), values, self._line_of(position))

    def _add_summary(self, access: Access, values: dict[str, str], line: int) -> None:
        run = self._run
        number = values.get("Test#", "0")
        test = next((test for test in run.tests if str(test.number) == number), None)
        if test is None:  # with verbose=-1 IOR prints only the summary
            reported = whole_of(number)
            test = IorTest(len(run.tests) if reported is None else reported)
            run.tests.append(test)
        test.summary_alone = not (run.has_table or test.results or test.result_lost)
        test.summaries.append(IorSummary(access, values, line))

    def _complaint(self, line: str, position: int) -> None:
        if self.runs and self.runs[-1].finished is not None:
            if len(self._late) < _COMPLAINTS_MAX:
                self._late.append(line)  # may belong to the next run, whose header follows
        else:
            self._note(line, self._test_or_early())

    def _note(self, line: str, test: IorTest) -> None:
        complaint = line.lstrip(" [").removeprefix("ior ")
        if moved := _MOVED.match(complaint + "\n"):
            # A total beyond 64 bits becomes negative: ignore it.
            self._moved[moved[1]] = max(int(moved[2]), 0)
        elif complaint.startswith("ERROR:"):
            if len(test.errors) < _COMPLAINTS_MAX:
                test.errors.append(_without_stale_errno(complaint.removeprefix("ERROR:").strip()))
        elif not _EXPLAINED.match(complaint):
            self._warn(complaint.removeprefix("WARNING:").strip(), test)
            test.integrity_lost = test.integrity_lost or bool(_INTEGRITY.match(complaint))

    @staticmethod
    def _warn(message: str, test: IorTest) -> None:
        if len(test.warnings) < _COMPLAINTS_MAX:
            test.warnings.append(message)

    def _mismatch(self, line: str, position: int) -> None:
        self._test_or_early().integrity_lost = True

    def _refused(self, line: str, position: int) -> None:
        option = line.rpartition(": ")[2].removeprefix("unknown option ")
        if len(self._run.refused) < _COMPLAINTS_MAX:
            self._run.refused.append(option.strip(" `'"))

    def _broken(self, line: str, position: int) -> None:
        if len(self._run.broken) < _COMPLAINTS_MAX:
            self._run.broken.append(line)

    def _option(self, line: str, position: int) -> None:
        match = _NAME.match(line)
        if match is None:
            return
        name, value = match.groups()
        if started := _OLD_TEST.fullmatch(name):
            self._next_test(started[1], position)
            self._run.tests[-1].started = value
        elif not self._key(name, value, position):
            test = self._test_or_early()
            if self._run.finished is None and test is not self._run.early:
                test.options.setdefault(name, value)

    def _key(self, name: str, value: str, position: int) -> bool:
        """Store a key that has its own field, in any output format."""
        match name:
            case "Began":
                if self._run.began is not None:
                    self._next_run(None, position)
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
        match = _PAIR.match(line) or _TEXT_IN_PAIR.match(line)
        if match is None:
            test = self._test_or_early()
            test.commas = test.commas or _COMMA.search(line) is not None
            return
        name, text = match[1], match[2]
        value = text if text is not None else match[3]
        if name == "Version":
            self._next_run(value, position)
        elif value in ("{", "["):
            self._object = None
            self._in_summary = self._in_summary or name == "summary"
            self._run.has_table = self._run.has_table or name == "Results"
        elif not self._key(name, value, position):
            if self._object is None and name in _JSON_COLUMNS and self._run.tests:
                self._run.tests[-1].result_lost = True  # its first line was damaged
            elif self._object is not None:
                number = self._line_of(position) if name in ("bwMiB", "iops", "operation") else 0
                self._object[name] = (value, number)
            elif self._run.tests and not self._in_summary:
                self._run.tests[-1].options.setdefault(name, value)

    def _brace(self, line: str, position: int) -> None:
        opens = line.lstrip(" [") == "{"
        if not opens and not line.lstrip().startswith("}"):
            return
        members, self._object = self._object, {} if opens else None
        if not members or not self._run.tests:
            return
        self._count_part(position)
        if "operation" in members and not opens:
            self._json_summary(members)
        elif "totalTime" in members or "bwMiB" in members or "wrRdTime" in members:
            self._json_result(members, position, ended=not opens)

    def _json_result(
        self, members: dict[str, tuple[str, int]], position: int, *, ended: bool
    ) -> None:
        test, access = self._run.tests[-1], members.get("access", ("", 0))[0]
        named = {_JSON_COLUMNS[key]: members[key][0] for key in _JSON_COLUMNS if key in members}
        figures = [figure_of(named.get(name)) for name in ("bw", "total", "block", "xfer")]
        if ended and access == "remove":
            return
        if not ended or access not in ("write", "read") or None in figures:
            text = f"the result that ends at line {self._line_of(position)} is incomplete"
            self._warn(Message("result-damaged", text), test)
            test.result_lost = True
            return
        lines = [members[key][1] if key in members else None for key in ("bwMiB", "iops")]
        self._add(cast("Access", access), named, lines[0] or 0, lines[1])

    def _json_summary(self, members: dict[str, tuple[str, int]]) -> None:
        access, line = members["operation"]
        if access in ("write", "read"):
            values = {_JSON_SUMMARY.get(key, key): value for key, (value, _) in members.items()}
            self._add_summary(access, values, line)


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Number repeated headings: ``StdDev`` occurs twice."""
    return tuple(
        name if name not in names[:place] else f"{name}#{place}" for place, name in enumerate(names)
    )


def _without_stale_errno(message: str) -> str:
    """Return an error without the errno that IOR 3 adds even if no call failed."""
    complaint, _, errno = message.partition(", errno ")
    of_call = any(word in complaint for word in (" failed", "unable to", "cannot "))
    return message if not errno or of_call else complaint
