"""The parameters of an IOR test, and its repetitions: inconsistent ones get a reason.

Where IOR prints the parameters differs by version and output format. JSON has sizes in bytes; text
rounds them to two decimals (``2.93 GiB``) except in its summary; 3.0 and 3.1 print no segments and
no collective I/O, 3.0 to 3.2 no nodes, and no text has O_DIRECT and fsync: those are only in the
command line, and not even there if the test came from a script.

IOR prints time and bandwidth of a repetition, and the bytes follow from its parameters or from a
warning before it. So a figure that was changed, cut, or mixed with another rank's line is detected.
Bandwidths are in MiB/s in every version (``bw(MiB/s)``).

``IOPS`` (3.3 and later) is transfers over the time of writing or reading only, including fsync but
not open and close. The operations per second of the summary are over the total time and are not
used.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trimtab.base.error import Message
from trimtab.base.plain import PrintedNumber, figure_of, options_of, present, size_of, whole_of
from trimtab.base.run import BANDWIDTH, Access, Sample
from trimtab.base.units import MIB
from trimtab.formats.ior_line import IorRepetition, IorRun, IorSummary, IorTest
from trimtab.formats.measurement import ACCESSES, IOPS, MeasuredPhase, Notes, agrees

_UNITS: Final = {"bytes": 1, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) (bytes|MiB|GiB|TiB)")
_CLIENTS: Final = re.compile(r"([0-9]+) \(([0-9]+) per node\)")
_TAKES_VALUE: Final = frozenset("aAbdDfGijJlMNoOQstTUX")
"""Letters of options with a value, in every version; -l had none before 3.1."""
_DIRECTIVE: Final = re.compile(r"([^=,]+)=?([^,]*)")
_USED: Final = re.compile(r'Used (?:FS|Capacity)"?: "?([0-9]{1,3}(?:\.[0-9]+)?)%')


def parameters_of(run: IorRun, test: IorTest) -> dict[str, Any]:
    """Return the parameters that make results comparable, as JSON values; unknown ones omitted.

    Returns
    -------
    dict
        Names as in `trimtab.base.run.ProbeSpec` for equivalent parameters. ``block_size_bytes`` is
        per task and segment, ``tasks_per_node`` that of the first task's node; ``task_offset`` is
        the number of tasks between writer and reader, ``random`` with ``-Z``; ``flush`` is ``-e``,
        within the time. ``stonewall_s`` is ``-D``, ``wear_out`` whether tasks continue until all
        have moved the same amount, ``minimum_duration_s`` is ``minTimeDuration``, and
        ``maximum_duration_s`` is ``-T``, after which no further repetition starts.
    """
    options = test.options
    summary = test.summaries[0].values if test.summaries else {}
    line = CommandLine(run.command_line, run.refused)
    clients = _CLIENTS.fullmatch(options.get("clients", ""))
    tasks, per_node = clients.groups() if clients else (None, None)
    tasks = _first_whole(options.get("tasks"), tasks, summary.get("#Tasks"), _csv_tasks(test))
    per_node = _first_whole(
        options.get("clients per node"), options.get("tasksPerNode"), per_node, summary.get("tPN")
    )
    block = _size(options, ("blockSize", "blocksize"), summary.get("blksiz"))
    # A cut output has no summary, and "11.64 GiB" among its options is rounded.
    block = line.size("b") if block is None else block
    stonewall_s = _stonewall_s(options)
    parameters = {
        "api": _first_word(options.get("api") or summary.get("API")),
        "tasks": tasks,
        "nodes": _nodes(_first_whole(options.get("nodes")), tasks, per_node),
        "tasks_per_node": per_node,
        "transfer_size_bytes": _size(options, ("transferSize", "xfersize"), summary.get("xsize")),
        "block_size_bytes": block,
        "segments": _segments(options, summary, tasks, block),
        "repetitions": _first_whole(options.get("repetitions"), summary.get("reps")),
        "file_per_process": _file_per_process(options, summary),
        "collective": _collective(options, line),
        "ordering": _first_word(options.get("ordering in a file")),
        "task_offset": _task_offset(options),
        "flush": _flush(run, options, line),
        "direct": _direct(options, line),
        "stonewall_s": stonewall_s,
        "wear_out": None if stonewall_s is None else options.get("stoneWallingWearOut") == "1",
        "minimum_duration_s": _first_whole(line.directives.get("minTimeDuration")) or None,
        "maximum_duration_s": _maximum_duration_s(options, line),
        "stripe_count": _first_whole(
            options.get("Lustre stripe count"), options.get("stripe count")
        ),
    }
    return present(parameters)


def used_of_size(test: IorTest) -> float | None:
    """Return the used fraction of the file system as IOR prints it, including reserved blocks."""
    usage = f"Used FS: {test.options.get('FS', '').partition('Used FS: ')[2]}"
    match = _USED.match(usage) or _USED.search(test.started or "")
    return round(float(match[1]) / 100, 6) if match else None


def moved_nothing(test: IorTest) -> str | None:
    """Return why a test with figures is not a measurement: it did no I/O."""
    if test.options.get("dryRun", "0") != "0":
        return Message("dry-run", "a dry run does no I/O")
    if _first_word(test.options.get("api")) == "DUMMY":
        return Message("dry-run", "the API DUMMY does no I/O")
    return None


class CommandLine:
    """The options in a command line; trusted only if it is complete.

    IOR 3.2 ignores unknown options and continues; a script overrides the line.
    """

    def __init__(self, line: str | None, refused: Sequence[str] = ()) -> None:
        words = (line or "").split()
        options = list(options_of(words[1:], _TAKES_VALUE))
        self.values = dict(options)
        directives = ",".join(text for name, text in options if name == "O")
        self.directives = dict(_DIRECTIVE.findall(directives))
        self.whole = bool(words) and "f" not in self.values and not refused

    def size(self, letter: str) -> int | None:
        """Return the bytes of an option such as ``-b 16m``; ``None`` if not exact."""
        return size_of(self.values.get(letter, "")) if self.whole else None


def _flag(printed: str | None, line: CommandLine, letter: str, directive: str) -> bool | None:
    if printed in ("0", "1"):
        return printed == "1"
    if letter in line.values or line.directives.get(directive, "0") != "0":
        return True
    return False if line.whole else None


def _flush(run: IorRun, options: dict[str, str], line: CommandLine) -> bool | None:
    if any(warning.startswith("fsync() ") for warning in run.early.warnings):
        return False  # "only available in POSIX": IOR ran without it
    return _flag(options.get("fsync"), line, "e", "fsync")


def _direct(options: dict[str, str], line: CommandLine) -> bool | None:
    if "posix.odirect" in line.values:
        return True
    return _flag(options.get("useO_DIRECT"), line, "B", "useO_DIRECT")


def _collective(options: dict[str, str], line: CommandLine) -> bool | None:
    kind = options.get("type")
    if kind in ("collective", "independent"):
        return kind == "collective"
    return _flag(options.get("collective"), line, "c", "collective")


def _file_per_process(options: dict[str, str], summary: dict[str, str]) -> bool | None:
    access = options.get("access", "").partition(",")[0]
    if access in ("file-per-process", "single-shared-file"):
        return access == "file-per-process"
    return {"0": False, "1": True}.get(options.get("filePerProc", summary.get("fPP", "")))


def _task_offset(options: dict[str, str]) -> int | str | None:
    ordering = options.get("ordering inter file", "")
    kind, _, older = ordering.partition(" = ")
    if kind == "no tasks offsets":
        return 0
    if kind.startswith("constant task offset"):
        return _first_whole(options.get("task offset"), older)
    return "random" if kind.startswith("random task offset") else None


def _stonewall_s(options: dict[str, str]) -> int | None:
    older = options.get("Using stonewalling", "").partition(" ")[0]
    return (
        _first_whole(options.get("stonewallingTime"), options.get("deadlineForStonewall"), older)
        or None
    )


def _maximum_duration_s(options: dict[str, str], line: CommandLine) -> int | None:
    directive = line.directives.get("maxTimeDuration")
    minutes = _first_whole(options.get("maxTimeDuration"), line.values.get("T"), directive)
    return minutes * 60 if minutes else None


def _segments(
    options: dict[str, str], summary: dict[str, str], tasks: int | None, block: int | None
) -> int | None:
    """Return the segments; for 3.0 and 3.1 the total size over the blocks of all tasks.

    That size is rounded by at most half a percent, which is enough for usual numbers.
    """
    known = _first_whole(
        options.get("segmentCount"), options.get("segments"), summary.get("segcnt")
    )
    whole = _SIZE.fullmatch(options.get("aggregate filesize", ""))
    if known is not None or whole is None or not tasks or not block:
        return known
    count = float(whole[1]) * _UNITS[whole[2]] / (tasks * block)
    return round(count) if 0.99 < count < 100 and abs(count / round(count) - 1) < 0.005 else None


def _nodes(printed: int | None, tasks: int | None, per_node: int | None) -> int | None:
    if printed:  # 3.0 to 3.2 print 0
        return printed
    return tasks // per_node if tasks and per_node and tasks % per_node == 0 else None


def _size(options: dict[str, str], names: tuple[str, str], summed: str | None) -> int | None:
    """Return a size in bytes, from an exact source."""
    exact, rounded = names
    known = _first_whole(options.get(exact), summed)
    if known is not None:
        return known
    match = _SIZE.fullmatch(options.get(rounded, ""))
    if match is None or "." in match[1]:
        return None
    count = whole_of(match[1])
    return None if count is None else count * _UNITS[match[2]]


def _csv_tasks(test: IorTest) -> str | None:
    tasks = {result.tasks for result in test.results}
    return str(tasks.pop()) if len(tasks) == 1 and None not in tasks else None


def _first_word(text: str | None) -> str | None:
    return text.split()[0] if text and not text.isspace() else None


def _first_whole(*words: str | None) -> int | None:
    """Return the first word that is an integer."""
    numbers = (whole_of(word or "") for word in words)
    return next((number for number in numbers if number is not None), None)


_COARSE: Final = 0.01
"""A figure is doubted if rounding may hide more than this fraction of it."""
_UNSEEN: Final = 1e-3
"""Tolerance of bytes: tasks that see a shared file grow report slightly different sizes."""
_COMMAS: Final = Message(
    "decimal-commas", "figures with decimal commas are not supported: run IOR with LC_ALL=C"
)
_SUMMED: Final = {"max": "Max(MiB)", "min": "Min(MiB)", "mean": "Mean(MiB)"}


def phases_of(test: IorTest, parameters: Mapping[str, Any], first: int = 0) -> list[MeasuredPhase]:
    """Return a phase for every result of a test, the first repetition numbered ``first``."""
    nothing = moved_nothing(test)
    results = _only_repetitions(test) if test.summary_alone else test.results
    numbers = _numbers(results)
    printed = Counter(zip((result.access for result in results), numbers, strict=True))
    incomplete = test.ended and bool(missing_repetitions(test, parameters))
    segments, expected = parameters.get("segments"), parameters.get("repetitions")
    phases: list[MeasuredPhase] = []
    for result, number in zip(results, numbers, strict=True):
        block = parameters.get("block_size_bytes") or _whole_bytes(result.figures.get("block"))
        tasks = parameters.get("tasks") if result.tasks is None else result.tasks
        moved = result.moved_bytes
        if moved is None and block and tasks and segments:
            moved = block * tasks * segments
        reason = nothing or result.doubt or _disagreement(result, moved, parameters)
        times = printed[result.access, number]
        if times > 1:
            text = f"repetition {number} was printed {times} times"
            reason = Message("repetition-twice", text)
        elif result.iteration is None and (incomplete or not result.countable):
            text = "another result is damaged: the repetition of this one is unknown"
            reason = Message("repetition-unknown", text)
        elif expected is not None and number >= expected:
            text = f"it has number {number}, but there are {expected} repetitions"
            reason = Message("repetition-unknown", text)
        bandwidth, elapsed = result.figures.get("bw"), result.figures.get("total")
        transfer = parameters.get("transfer_size_bytes") or _whole_bytes(result.figures.get("xfer"))
        phases.append(
            MeasuredPhase(
                access=result.access,
                repetition=first + number,
                moved_bytes=moved,
                elapsed_s=elapsed.value if elapsed else None,
                bandwidth_bytes_per_s=bandwidth.value * MIB if bandwidth else None,
                tasks=tasks,
                transfer_size_bytes=transfer,
                block_size_bytes=block,
                direct=parameters.get("direct"),
                caches_dropped=False,
                line=result.lines["bw"],
                reason=reason,
            )
        )
    return phases


def iops_of(test: IorTest, phases: list[MeasuredPhase]) -> list[Sample]:
    """Return the IOPS of each result that has them."""
    samples: list[Sample] = []
    for result, phase in zip(test.results, phases, strict=True):
        if (iops := result.figures.get("iops")) is None:
            continue
        metric, line = IOPS[result.access], result.lines["iops"]
        reason = phase.reason or _iops_disagreement(result, phase)
        place = phase.repetition, None, "total", 0, line
        samples.append(Sample(metric, iops.value, *place, reason))
    return samples


def summed_of(test: IorTest) -> list[Sample]:
    """Return the summary's figures for repetitions that were not printed."""
    samples: list[Sample] = []
    for summary in test.summaries:
        figures = {name: figure_of(summary.values.get(key)) for name, key in _SUMMED.items()}
        least, mean, most = (figures[name] for name in ("min", "mean", "max"))
        reason = moved_nothing(test) or _of_bytes_read(test, summary)
        if not (least and mean and most) or not least.value <= mean.value <= most.value:
            text = "minimum, mean and maximum of IOR's summary are inconsistent"
            reason = Message("figures-disagree", text)
        metric, line = BANDWIDTH[summary.access], summary.line
        samples += [
            Sample(metric, figure.value * MIB, None, None, name, 0, line, reason)
            for name, figure in figures.items()
            if figure is not None
        ]
    return samples


def missing_repetitions(test: IorTest, parameters: Mapping[str, Any]) -> list[Message]:
    """Return which repetitions of its accesses a test lacks, and why if known."""
    expected = parameters.get("repetitions")
    problems = [_COMMAS] if test.commas else []
    if expected is None or test.summary_alone:
        return problems
    summed = {summary.access for summary in test.summaries}
    for access in ACCESSES:
        count = sum(result.access == access for result in test.results)
        short_of_time = parameters.get("maximum_duration_s") is not None and 0 < count < expected
        if count != expected and (count or access in summed) and not short_of_time:
            text = f"{count} of {expected} {access}s were printed"
            problems.append(Message("repetitions-missing", text))
    return problems


def not_borne_out(test: IorTest) -> list[str]:
    """Return contradictions between a test's summary and its repetitions."""
    warnings = Notes()
    for summary in test.summaries:
        rows = [
            result.figures.get("bw") for result in test.results if result.access == summary.access
        ]
        figures = [row for row in rows if row is not None]
        if not figures or len(figures) != len(rows):
            continue
        values = [figure.value for figure in figures]
        rounding = max(figure.half_unit for figure in figures)
        computed = {"max": max(values), "min": min(values), "mean": sum(values) / len(values)}
        for name, value in computed.items():
            stated = figure_of(summary.values.get(_SUMMED[name]))
            if stated and abs(stated.value - value) > 1.02 * (rounding + stated.half_unit):
                warnings.add(
                    "summary-disagrees",
                    f"IOR's summary (line {summary.line}) has {name} {stated.value:g} MiB/s for "
                    f"{summary.access}s, but its repetitions give {value:.6g}",
                )
    return warnings


def _numbers(results: list[IorRepetition]) -> list[int]:
    """Return the repetition of each result: as printed, else its position."""
    counts: dict[Access, int] = {"write": 0, "read": 0}
    numbers: list[int] = []
    for result in results:
        numbers.append(counts[result.access] if result.iteration is None else result.iteration)
        counts[result.access] += 1
    return numbers


def _only_repetitions(test: IorTest) -> list[IorRepetition]:
    """Return the result in each summary of one repetition, whose mean is its figure."""
    return [
        _summed_result(summary, _of_bytes_read(test, summary))
        for summary in test.summaries
        if summary.values.get("reps") == "1"
    ]


def _of_bytes_read(test: IorTest, summary: IorSummary) -> str | None:
    """Return a reason if the summary of a write may use the bytes of the following read.

    Before 3.3 (https://github.com/hpc/ior/pull/90) IOR had one number of bytes for both. They
    differ if a deadline stopped one of them, which shows in a total that is not whole blocks.
    """
    words = [summary.values.get(key, "") for key in ("#Tasks", "blksiz", "segcnt")]
    if summary.access == "read" or "Stonewall(s)" in summary.values or len(test.summaries) < 2:
        return None
    expected = math.prod(int(word) if word.isdecimal() else 0 for word in words)
    exact = figure_of(summary.values.get("aggsize"))
    rounded = figure_of(summary.values.get("aggs(MiB)"))
    if exact is not None and exact.value == expected:
        return None
    if rounded is not None and abs(rounded.value * MIB - expected) <= rounded.half_unit * MIB:
        return None
    return Message(
        "write-summed-as-read",
        "IOR before 3.3 uses the bytes of the following read in a write's summary",
    )


def _summed_result(summary: IorSummary, doubt: str | None) -> IorRepetition:
    columns = {"bw": "Mean(MiB)", "total": "Mean(s)"}
    exact = figure_of(summary.values.get("aggsize"))  # in bytes before 3.2
    summed = None if exact is None or exact.half_unit != 0.5 else int(exact.value)
    figures = {name: figure_of(summary.values.get(key)) for name, key in columns.items()}
    return IorRepetition(
        access=summary.access,
        figures={name: figure for name, figure in figures.items() if figure is not None},
        lines={"bw": summary.line, "iops": summary.line},
        iteration=0,
        doubt=doubt,
        moved_bytes=summed,
        in_files_bytes=summed,
    )


def _disagreement(
    result: IorRepetition, moved: int | None, parameters: Mapping[str, Any]
) -> str | None:
    bandwidth, total = result.figures.get("bw"), result.figures.get("total")
    if bandwidth is None or total is None:
        return Message("figures-incomplete", "IOR printed no bandwidth and time")
    printed = f"IOR printed {bandwidth.value:g} MiB/s"
    if bandwidth.error > _COARSE:
        text = f"IOR printed the bandwidth with too few digits: {bandwidth.value:g} MiB/s"
        return Message("too-few-digits", text)
    if total.error > _COARSE:
        return _coarse_time(total)
    if moved is None:
        return _unlike_iops(result, bandwidth, total)
    if reason := _not_in_files(result, parameters):
        return reason
    error = bandwidth.error + total.error
    if result.moved_bytes is None and parameters.get("block_size_bytes") is None:
        block = result.figures.get("block")
        error += block.error if block and block.half_unit >= 0.5 else 0.0
    if agrees(bandwidth.value * MIB, moved, total.value, tolerance=1.02 * error + 1e-9):
        return None
    text = f"{printed}, but {moved} bytes in {total.value:g} s do not match"
    return Message("figures-disagree", text)


def _coarse_time(time: PrintedNumber) -> Message:
    text = f"IOR printed its time with too few digits to check it: {time.value:g} s"
    return Message("too-few-digits", text)


def _unlike_iops(
    result: IorRepetition, bandwidth: PrintedNumber, total: PrintedNumber
) -> str | None:
    """Return why bandwidth and transfers disagree on the bytes, if none are printed (CSV)."""
    iops, busy, size = (result.figures.get(name) for name in ("iops", "wr/rd", "xfer"))
    if iops is None or busy is None or size is None:
        return Message("bytes-unknown", "IOR's output has no number of bytes moved")
    if max(iops.error, busy.error) > _COARSE:
        return _coarse_time(busy)
    transferred = iops.value * busy.value * size.value * 1024
    error = bandwidth.error + total.error + iops.error + busy.error + size.error
    if agrees(bandwidth.value * MIB, transferred, total.value, tolerance=1.02 * error + 1e-9):
        return None
    return Message(
        "figures-disagree",
        f"IOR printed {bandwidth.value:g} MiB/s in {total.value:g} s, but {iops.value:g} transfers "
        f"a second in {busy.value:g} s do not match",
    )


def _not_in_files(result: IorRepetition, parameters: Mapping[str, Any]) -> str | None:
    """Return a reason if more bytes were moved than the files hold.

    With MPI-IO of Open MPI 4.1 on a full file system, IOR 3.1.0 prints no error, exits with 0, and
    reports the bandwidth of bytes that were dropped. With a deadline it can be correct: a task that
    restarts its file moves more than the file holds. Other interfaces fail on a short transfer, and
    so does a read of less than was written; so the size from ``stat`` for a read, or a missing one
    (0: object stores, directories of many servers), is no evidence.
    """
    moved, held = result.moved_bytes, result.in_files_bytes
    if (moved is None) != (held is None):
        text = "a line of the preceding warning about moved bytes and file sizes is missing"
        return Message("warning-damaged", text)
    if moved is None or held is None or moved - held <= _UNSEEN * moved:
        return None
    if (held == 0 or result.access == "read") and not (parameters.get("api") or "MPIIO").startswith(
        "MPI"
    ):
        return None
    if parameters.get("stonewall_s") or parameters.get("minimum_duration_s"):
        return None
    files = f"its files hold {held}: the file system may have been full"
    return Message("bytes-not-in-files", f"IOR reports {moved} bytes moved, but {files}")


def _iops_disagreement(result: IorRepetition, phase: MeasuredPhase) -> str | None:
    iops, busy = result.figures["iops"], result.figures.get("wr/rd")
    transfer = phase.transfer_size_bytes
    if busy is None or transfer is None:
        return Message("no-time", "IOR's output has no time")
    if max(iops.error, busy.error) > _COARSE:
        return _coarse_time(busy)
    if phase.moved_bytes is None:
        return None  # checked together with the bandwidth
    error = iops.error + busy.error
    if agrees(iops.value * transfer, phase.moved_bytes, busy.value, tolerance=1.02 * error + 1e-9):
        return None
    return Message(
        "figures-disagree",
        f"IOR printed {iops.value:g} operations a second, but {phase.moved_bytes} bytes "
        f"in {busy.value:g} s do not match",
    )


def _whole_bytes(kib: PrintedNumber | None) -> int | None:
    """Return the bytes in a column in KiB, if they are whole."""
    value = 0.0 if kib is None else kib.value * 1024
    return int(value) if value > 0 and value == int(value) else None
