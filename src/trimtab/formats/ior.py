"""IOR, the parallel file system benchmark: its command, and the measurements in its output.

The output of a probe is one measurement; a file has one for each test. `trimtab.formats.ior_line`
parses an output into runs and tests, `trimtab.formats.ior_result` finds what was requested and
checks each repetition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trimtab.base.error import DataError, Message, UsageError, code_of
from trimtab.base.plain import present, time_of
from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats.ior_line import IorRun, IorTest, runs_of
from trimtab.formats.ior_result import (
    iops_of,
    missing_repetitions,
    not_borne_out,
    parameters_of,
    phases_of,
    summed_of,
    used_of_size,
)
from trimtab.formats.measurement import (
    ACCESSES,
    Mark,
    MeasuredPhase,
    Measurement,
    MeasurementDraft,
    Notes,
    OutputFile,
    OutputFormat,
    beginning,
    concluded,
    missing,
    tail,
)
from trimtab.formats.phase import FILE_NAME, PhaseRequest, Phases, Version

_NOT_PRINTED: Final = (
    missing("timeline", "no-timeline", "IOR does not print bytes over time"),
    missing("latency distribution", "no-percentiles", "IOR prints no percentiles"),
)
_INTEGRITY_LOST: Final = Message(
    "data-corrupt", "data read is not what was written: IOR found errors"
)
_CSV: Final = Message("end-unknown", "IOR's CSV has no end marker, times or parameters of the run")
_EMPTY_CSV: Final = Message(
    "output-format-unsupported", "IOR 3.2 and 3.3 print no result as CSV; run it with text or JSON"
)
_ONLY_SUMMED: Final = Message(
    "repetitions-not-printed", "IOR printed no repetitions, only their minimum, mean and maximum"
)


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Parse an output of one test, JSON, text or CSV. Never raises.

    Parameters
    ----------
    repetition
        Number of its first repetition in the run; IOR's own count is added.
    ordinal
        Ordinal of this raw output in the run, for the samples.
    """
    text = output.stdout.decode("utf-8", "replace")
    try:
        runs = runs_of(text)
    except DataError as error:
        return MeasurementDraft(
            "ior", ordinal, problems=Notes([Message(error.code, error.message)])
        ).finished()
    tests = [(run, test) for run in runs for test in run.tests]
    draft = MeasurementDraft("ior", ordinal, missing=list(_NOT_PRINTED))
    draft.tool_version = next((run.version for run in reversed(runs) if run.version), None)
    for run, test in tests:
        draft.phases += phases_of(test, parameters_of(run, test), repetition)
    if len(tests) > 1:
        text = f"the output has {len(tests)} tests, perhaps with different parameters"
        draft.phases = _counted_on(draft.phases, repetition, Message("several-tests", text))
    everything = [part for run in runs for part in (run.early, *run.tests)]
    draft.warnings += [warning for part in everything for warning in part.warnings]
    integrity_lost = any(part.integrity_lost for part in everything)
    if integrity_lost:
        draft.problems.append(_INTEGRITY_LOST)
    draft.problems += _distinct(error for part in everything for error in part.errors)
    if output.truncated:
        draft.problems.add("output-cut", "the output was cut at its limit")
    _note_end(draft, runs, output, text)
    return draft.finished(integrity_lost=integrity_lost)


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each test in a file: of a script, or of consecutive runs."""
    text = source.text
    measurements: list[Measurement] = []
    for place, run in enumerate(runs_of(text)):
        measurements += [_measured(run, test, place) for test in run.tests]
        if not run.tests and (problem := _why_no_test(run, text)):
            measurements.append(_failed(run, place, problem))
    if not measurements:
        content = _EMPTY_CSV if "summaryFormat=CSV" in source.head else beginning(source.head)
        code = code_of(content) or "no-result"
        raise DataError(f"no result of IOR in this file: {content}", code=code, line=1)
    return tuple(measurements)


_RECOGNISED: Final = re.compile(
    r"""^(?:
      IOR-[0-9][^\n:]{0,60}:[ ]MPI[ ]Coordinated[ ]Test
    | access,bw\(MiB/s\),
    | access[ ]{1,20}bw\(MiB/s\)[ ]
    | Operation[ ]{1,20}Max\(MiB\)[ ]{1,20}Min\(MiB\)[ ]
    | Synopsis[ ](?:[^\n ]{0,400}/)?ior\s
    | (?:ior[ ])?ERROR:[^\n]{0,400}\(ior\.c:[0-9]+\)
    | 3\.[0-9][^\s,]{0,20}[A-Z][a-z]{2}[ ][A-Z][a-z]{2}[ ][ 0-9]{2}[ ][0-9:]{8}[ ][0-9]{4}\S*ior[ ]
    )""",
    re.MULTILINE | re.VERBOSE,
)
_JSON_KEYS: Final = ('"Began": "', '"Command line": "', '"tests": [')
_MDTEST: Final = re.compile(r"^mdtest-[0-9]\S* was launched", re.MULTILINE)


def _recognises(source: OutputFile) -> bool:
    head = source.head
    match = _RECOGNISED.search(head)
    if match is None:
        return all(key in head for key in _JSON_KEYS)
    other = _MDTEST.search(head)
    return other is None or match.start() < other.start()


_BEGINNING: Final = re.compile(
    rb"^(?:IOR-[0-9][^\n:]{0,60}: MPI Coordinated Test"
    rb'|\{\s{0,20}"Version" ?: "[^"\n]{1,60}",\s{0,20}"Began" ?: ")',
    re.MULTILINE,
)
FORMAT: Final = OutputFormat(
    "ior", _recognises, read, beginning=Mark((b"MPI Coordinated Test", b'"Began"'), _BEGINNING)
)


def _measured(run: IorRun, test: IorTest, place: int) -> Measurement:
    """Return the result of one test of a file, which is output 0."""
    parameters = parameters_of(run, test)
    test.ended = test.ended or _is_whole_for_io500(run, test, parameters)
    draft = MeasurementDraft("ior", 0, run.version, _name(place, test.number), "client")
    draft.missing += _NOT_PRINTED
    draft.began = moment(test.started if test is not run.tests[0] else run.began or test.started)
    draft.ended = moment(run.finished) if test is run.tests[-1] else None
    draft.host = _host(run)
    draft.requested, draft.reported = parameters, _reported(run, test)
    draft.phases = phases_of(test, parameters)
    if not test.summary_alone:
        draft.latencies += iops_of(test, draft.phases)
    elif parameters.get("repetitions") != 1:
        draft.latencies += summed_of(test)
    draft.warnings += [*run.early.warnings, *test.warnings, *not_borne_out(test)]
    for word in run.refused[:1]:
        draft.warnings.add("option-ignored", f"IOR did not understand {word} and ran without it")
    integrity_lost = test.integrity_lost or run.early.integrity_lost
    if integrity_lost:
        draft.problems.append(_INTEGRITY_LOST)
    draft.problems += _problems(run, test, parameters)
    reasons = [phase.reason for phase in draft.phases if phase.reason is not None]
    if reasons and len(reasons) == len(draft.phases):
        draft.problems.append(reasons[0])
    measured = draft.finished(integrity_lost=integrity_lost)
    summed = any(sample.believed and sample.repetition is None for sample in measured.samples)
    if summed and measured.status is RunStatus.FAILED and not integrity_lost:
        return replace(measured, status=RunStatus.PARTIAL)
    return measured


def _problems(run: IorRun, test: IorTest, parameters: Mapping[str, Any]) -> list[str]:
    """Return the problems of a test, the most important first."""
    problems = _distinct([*run.early.errors, *test.errors])
    if not (run.is_csv or test.ended or problems):
        problems.append(Message("output-unfinished", "IOR did not finish" + _why_broken(run, test)))
    problems += missing_repetitions(test, parameters)
    if run.is_csv:
        problems.append(_CSV)
    elif test.ended and test.summary_alone and parameters.get("repetitions") != 1:
        problems.append(_ONLY_SUMMED)
    return problems


_IO500_FILE: Final = re.compile(r" -o[ =]\S*/ior[-_](?:easy|hard|rnd)[^ /]*/\S+")
_ACCESS_OPTION: Final = {"write": "-w", "read": "-r"}


def _is_whole_for_io500(run: IorRun, test: IorTest, parameters: Mapping[str, Any]) -> bool:
    """Return whether a test is complete for IOR as a part of IO500.

    IO500 calls IOR as a library (with ``./ior`` as the program), which since 2020 prints neither
    ``Max`` nor ``Finished``: the row of the last repetition is its end.
    """
    line = run.command_line or ""
    if not line.startswith("./ior ") or not _IO500_FILE.search(line):
        return False
    words = line.split()
    requested = [access for access in ACCESSES if _ACCESS_OPTION[access] in words]
    counts = [sum(result.access == access for result in test.results) for access in requested]
    return bool(counts) and set(counts) == {parameters.get("repetitions")}


def _why_broken(run: IorRun, test: IorTest) -> str:
    failed = [warning for warning in test.warnings if "failed" in warning]
    complaints = [*failed, *(tail(line, 200) for line in run.broken)]
    return f": {complaints[0]}" if complaints else ""


def _why_no_test(run: IorRun, text: str) -> str | None:
    """Return why a run has no test; ``None`` if IOR may not have printed it at all."""
    # After the first unknown option it also misreads the others.
    refused = [
        Message("option-unknown", f"IOR did not understand {word}, and measured nothing")
        for word in run.refused[:1]
    ]
    if complaints := refused + _distinct(run.early.errors):
        return "; ".join(complaints)
    if run.version is None and run.began is None:
        return None
    if "summaryFormat=CSV" in text and (run.version or "").startswith(("3.2", "3.3")):
        return _EMPTY_CSV
    return Message("output-unfinished", "IOR did not finish" + _why_broken(run, run.early))


def _failed(run: IorRun, place: int, problem: str) -> Measurement:
    return concluded(
        "ior",
        (),
        [problem],
        None,
        tool_version=run.version,
        name=_name(place, 0),
        layer="client",
        began=moment(run.began),
        ended=moment(run.finished),
        host=_host(run),
        warnings=run.early.warnings,
        missing=_NOT_PRINTED,
    )


def _name(place: int, number: int) -> str | None:
    """Return a name that distinguishes a test from a file's first; stable if the file is cut."""
    parts = [f"run {place + 1}"] if place else []
    parts += [f"test {number}"] if number else []
    return " ".join(parts) or None


def _reported(run: IorRun, test: IorTest) -> dict[str, object]:
    path = test.options.get("test filename") or test.options.get("testFileName")
    used = used_of_size(test)
    return present({"path": path, "command": run.command_line, "file_system_used_of_size": used})


def _host(run: IorRun) -> str | None:
    """Return the node of the first task: ``Linux nid001``, with -v followed by more."""
    words = (run.machine or "").split()
    return words[1] if len(words) > 1 else None


_MOMENT: Final = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9:]{8} [0-9]{4}")


def moment(text: str | None) -> datetime | None:
    """Parse a time without zone as C's ``ctime`` prints it.

    Examples
    --------
    >>> moment("Fri Nov 20 16:20:09 2026")
    datetime.datetime(2026, 11, 20, 16, 20, 9)
    """
    match = _MOMENT.match(text or "")
    return time_of(match[0], "%a %b %d %H:%M:%S %Y") if match else None


def _distinct(messages: Iterable[str]) -> list[str]:
    """Return the first few distinct messages."""
    return list(dict.fromkeys(messages))[:3]


def _counted_on(phases: list[MeasuredPhase], first: int, reason: str) -> list[MeasuredPhase]:
    """Return the phases of several tests, numbered consecutively, all with a reason."""
    counts = {"write": first, "read": first}
    counted: list[MeasuredPhase] = []
    for phase in phases:
        counted.append(replace(phase, repetition=counts[phase.access], reason=reason))
        counts[phase.access] += 1
    return counted


def _note_end(draft: MeasurementDraft, runs: list[IorRun], output: RawOutput, text: str) -> None:
    """Note how the output ends, with stderr and exit code."""
    stderr = output.stderr.decode("utf-8", "replace")
    tests = [(run, test) for run in runs for test in run.tests]
    said_why = any(code_of(problem) != "output-cut" for problem in draft.problems)
    if not text.strip():
        complaint = _without_boilerplate(stderr)
        printed = "IOR printed nothing" + (f": {complaint}" if complaint else "")
        draft.problems.add("nothing-printed", printed)
    elif not runs:
        draft.problems.add("not-this-format", f"this is not the output of IOR: {beginning(text)}")
    elif runs[-1].is_csv:
        draft.problems.append(_CSV)
    elif runs[-1].finished is None:
        failed = [warning for warning in draft.warnings if "failed" in warning]
        if not said_why:
            ended = "IOR did not finish" + (f": {failed[0]}" if failed else "")
            draft.problems.add("output-unfinished", ended)
    else:
        for run, test in tests:
            problems = missing_repetitions(test, parameters_of(run, test))
            suffix = f" of test {test.number}" if len(tests) > 1 else ""
            draft.problems += [Message(problem.code, problem + suffix) for problem in problems]
    # mpirun's own text is long and explains nothing: use it only if there is nothing else.
    draft.note_exit("IOR", output, "" if draft.problems else _without_boilerplate(stderr))


def _without_boilerplate(stderr: str) -> str:
    """Return stderr without mpirun's framed explanations."""
    lines: list[str] = []
    framed = False
    for line in stderr.splitlines():
        if line.startswith("-----"):
            framed = not framed
        elif not framed and not re.match(r"\[[^\]]+:[0-9]+\]", line):
            lines.append(line)
    return tail("\n".join(lines)) or tail(stderr)


_VERSION_ARGUMENTS: Final = (
    *("-a", "DUMMY", "-w", "-t", "1k", "-b", "1k", "-l", "random"),
    *("-O", "summaryFormat=JSON", "-o", "trimtab"),
)
"""IOR has no ``--version``: this prints it and writes nothing."""
_RESERVED_OPTIONS: Final = frozenset(
    {"a", "b", "C", "D", "e", "F", "k", "l", "o", "O", "r", "s", "t", "w", "posix.odirect"}
    | {"E", "f", "h", "i", "K", "m", "N", "R", "T", "u", "W", "y", "help", "dryRun"}
)
"""Options that the command sets itself, or that would make it something other than a probe."""


version: Final = Version(
    "IOR", _VERSION_ARGUMENTS, r'(?:"Version": "|IOR-)([0-9][^"\s:]*)', oldest="4.0"
)


def command(phase: PhaseRequest) -> tuple[str, ...]:
    """Return IOR's command, to be started as ``spec.tasks`` processes by an MPI launcher.

    Raises
    ------
    UsageError
        IOR cannot express it: a directory with ``@``, which separates several file names.

    Notes
    -----
    It runs for a fixed time: ``-D S`` stops a task within its file after S seconds, and
    ``minTimeDuration=S`` restarts the file if it is full earlier. Both take whole seconds (``atoi``
    in parse_options.c), so a fraction is rounded up. A slow device leaves shorter files of
    different lengths, but ``-b`` is the same for all tasks: the read uses the shortest, since IOR
    aborts when it reads past the end.

    ``-l random`` is the only packet type whose bytes do not repeat. Measured with 4.1.0+dev over
    128 MiB, zlib leaves 100 % of it, 19 % of the default and 0.7 % of the one called
    "incompressible".
    """
    spec, directory = phase.spec, phase.directory
    if "@" in directory:
        raise UsageError(
            f"IOR cannot use {directory}: it reads @ as the end of a file name",
            code="directory-unusable",
            hint="use --probe fio or --probe builtin",
        )
    seconds = str(max(1, math.ceil(spec.duration_s)))
    argv = [phase.program, "-a", "POSIX", "-w" if phase.access == "write" else "-r", "-k"]
    argv += ["-t", str(spec.transfer_size_bytes), "-s", "1"]
    argv += ["-b", str(phase.file_bytes)]
    argv += ["-D", seconds, "-O", f"minTimeDuration={seconds}", "-l", "random"]
    if spec.file_per_process:
        argv.append("-F")
    if phase.access == "write" and spec.flush:
        argv.append("-e")
    if phase.access == "read":
        argv.append("-C")  # on several nodes: read what another node wrote
    if spec.direct:
        argv.append("--posix.odirect")
    return (*argv, "-O", "summaryFormat=JSON", "-o", f"{directory.rstrip('/')}/{FILE_NAME}")


PHASES: Final = Phases(
    "ior", ("ior",), ("mpi", "slurm"), command, parse, version, _RESERVED_OPTIONS
)
