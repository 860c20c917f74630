"""Finds the parameters of a test, wherever IOR prints them.

That differs by version and output format. JSON has sizes in bytes; text rounds them to two decimals
(``2.93 GiB``) except in its summary; 3.0 and 3.1 print no segments and no collective I/O, 3.0 to
3.2 no nodes, and no text has O_DIRECT and fsync: those are only in the command line, and not even
there if the test came from a script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from trimtab.measure.command_line import options_of, size_of
from trimtab.measure.ior.printed import IorRun, Test
from trimtab.measure.plain import present, whole_of
from trimtab.message import Message

_UNITS: Final = {"bytes": 1, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) (bytes|MiB|GiB|TiB)")
_CLIENTS: Final = re.compile(r"([0-9]+) \(([0-9]+) per node\)")
_TAKES_VALUE: Final = frozenset("aAbdDfGijJlMNoOQstTUX")
"""Letters of options with a value, in every version; -l had none before 3.1."""
_DIRECTIVE: Final = re.compile(r"([^=,]+)=?([^,]*)")
_USED: Final = re.compile(r'Used (?:FS|Capacity)"?: "?([0-9]{1,3}(?:\.[0-9]+)?)%')


def parameters_of(run: IorRun, test: Test) -> dict[str, Any]:
    """Return the parameters that make results comparable, as JSON values; unknown ones omitted.

    Returns
    -------
    dict
        Names as in `trimtab.model.run.ProbeSpec` for equivalent parameters. ``block_size_bytes`` is
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


def used_of_size(test: Test) -> float | None:
    """Return the used fraction of the file system as IOR prints it, including reserved blocks."""
    usage = f"Used FS: {test.options.get('FS', '').partition('Used FS: ')[2]}"
    match = _USED.match(usage) or _USED.search(test.started or "")
    return round(float(match[1]) / 100, 6) if match else None


def moved_nothing(test: Test) -> str | None:
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


def _csv_tasks(test: Test) -> str | None:
    tasks = {result.tasks for result in test.results}
    return str(tasks.pop()) if len(tasks) == 1 and None not in tasks else None


def _first_word(text: str | None) -> str | None:
    return text.split()[0] if text and not text.isspace() else None


def _first_whole(*words: str | None) -> int | None:
    """Return the first word that is an integer."""
    numbers = (whole_of(word or "") for word in words)
    return next((number for number in numbers if number is not None), None)
