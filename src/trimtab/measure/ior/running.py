"""IOR 4: the parallel file system benchmark of the field.

`command` runs a fixed time: ``-D S`` stops a task inside its file after S seconds, and
``minTimeDuration=S`` sends it back to the beginning when the file is full sooner. Both take whole
seconds (``atoi`` in parse_options.c), so a fraction is rounded up. Written files are left shorter
on a slow device, and of different lengths, while ``-b`` is one figure for all tasks: the read asks
for the shortest, since IOR aborts when it reads past an end.

Data: ``-l random`` is the only packet type whose bytes do not repeat. Measured with 4.1.0+dev over
128 MiB, zlib leaves 100 % of it, 19 % of the default and 0.7 % of the one called "incompressible".

The output is read line by line, JSON too: IOR prints one key a line, mixes its warnings into the
JSON (so it is not JSON), and when it is killed the results that were complete by then still stand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from trimtab.errors import ToolError, UsageError
from trimtab.measure.measurement import Draft, Measurement, Phase, agrees, beginning, tail
from trimtab.measure.plain import whole_lines
from trimtab.model.finding import Missing
from trimtab.model.run import Access, ProbeSpec, RawOutput
from trimtab.model.telemetry import NotAvailable

FILE_NAME: Final = "data"
_MIB: Final = 2**20
_VERSION_ARGUMENTS: Final = (
    *("-a", "DUMMY", "-w", "-t", "1k", "-b", "1k", "-l", "random"),
    *("-O", "summaryFormat=JSON", "-o", "trimtab"),
)
"""IOR has no ``--version``: this writes nothing anywhere and prints it."""


def version(run: Callable[[tuple[str, ...]], RawOutput], path: str) -> str | NotAvailable:
    """Return the version of the IOR at ``path``, or why it cannot be used."""
    try:
        output = run((path, *_VERSION_ARGUMENTS))
    except ToolError as error:
        return NotAvailable(error.message)
    text = output.stdout.decode("utf-8", "replace")
    found = re.search(r'(?:"Version": "|IOR-)([0-9][^"\s:]*)', text)
    if found is None:
        said = tail(text + " " + output.stderr.decode("utf-8", "replace"), 120)
        return NotAvailable(f"{path} does not say that it is IOR 4: {said or 'it says nothing'}")
    if int(found.group(1).split(".")[0]) < 4:
        return NotAvailable(f"{path} is IOR {found.group(1)}; its options are those before 4.0")
    return found.group(1)


def command(
    spec: ProbeSpec,
    access: Access,
    *,
    program: str,
    directory: str,
    size_bytes: int | None = None,
) -> tuple[str, ...]:
    """Return IOR's command, to be started as ``spec.tasks`` processes by an MPI launcher.

    Parameters
    ----------
    program
        Path of ``ior``.
    directory
        Where the files are; their names start with `FILE_NAME`.
    size_bytes
        For a read: what every task's file holds at least. For a write: the block size.

    Raises
    ------
    UsageError
        IOR cannot express it: a directory with ``@``, which separates several file names.
    """
    if "@" in directory:
        raise UsageError(
            f"IOR cannot use {directory}: it takes @ for the end of a file name",
            hint="--probe fio or --probe builtin can",
        )
    seconds = str(max(1, math.ceil(spec.duration_s)))
    argv = [program, "-a", "POSIX", "-w" if access == "write" else "-r", "-k"]
    argv += ["-t", str(spec.transfer_size_bytes), "-s", "1"]
    argv += ["-b", str(size_bytes or spec.block_size_bytes)]
    argv += ["-D", seconds, "-O", f"minTimeDuration={seconds}", "-l", "random"]
    if spec.file_per_process:
        argv.append("-F")
    if access == "write" and spec.flush:
        argv.append("-e")
    if access == "read":
        argv.append("-C")  # on several nodes: read what another node wrote
    if spec.direct:
        argv.append("--posix.odirect")
    return (*argv, "-O", "summaryFormat=JSON", "-o", f"{directory.rstrip('/')}/{FILE_NAME}")


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Return what an output of IOR 4 says, JSON or text. Never raises on any input.

    Parameters
    ----------
    repetition
        Number of its first repetition in the run; IOR's own count is added.
    ordinal
        Of this raw output in the run, for the samples.
    """
    draft = Draft("ior", ordinal)
    draft.missing.append(Missing("timeline", "IOR does not print bytes over time"))
    draft.missing.append(Missing("latency distribution", "IOR prints no percentiles"))
    text = output.stdout.decode("utf-8", "replace")
    reader = _Reader()
    for number, line in whole_lines(text):
        reader.take(number, line)
    draft.tool_version = reader.version
    draft.warnings += reader.warnings
    _judge(draft, reader, repetition)
    _note_problems(draft, reader, output, text)
    return draft.finished(integrity_lost=reader.integrity_lost)


_COLUMNS: Final = 11
_COARSE: Final = 0.01
"""A bandwidth is not believed when rounding in print can hide more than this fraction of it."""

_TEXT_RESULT: Final = re.compile(r"(write|read)\s+[0-9.]")
_OPTION: Final = re.compile(r"([A-Za-z][A-Za-z ]*?)\s*: (.*)\Z")
_JSON_PAIR: Final = re.compile(r'\s*"([^"]+)"\s*: *(?:"(.*)"|([^",]+?))\s*,?\s*\Z')
_MOVED: Final = re.compile(r"WARNING: Using actual aggregate bytes moved = ([0-9]+)\s*\Z")
_INTEGRITY: Final = re.compile(r"WARNING: Incorrect data on |WARNING: .*data check error", re.I)
_EXPLAINED: Final = ("WARNING: Expected aggregate", "WARNING: Stat() of", "WARNING: Maybe caused")


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number as printed, with half a unit of its last digit: all that rounding can hide."""

    value: float
    half_unit: float

    @property
    def error(self) -> float:
        return self.half_unit / self.value if self.value > 0 else math.inf


@dataclass(slots=True)
class _Test:
    """The parameters of one test: of an output without a script there is one."""

    tasks: int | None = None
    segments: int = 1
    block_size_bytes: int | None = None
    transfer_size_bytes: int | None = None
    direct: bool | None = None
    repetitions: int = 1


@dataclass(frozen=True, slots=True)
class _Result:
    """One line of the results table, or one object of the results list."""

    test: _Test
    access: Access
    line: int
    bandwidth: _Figure  # MiB/s
    elapsed: _Figure  # s
    block_kib: _Figure
    transfer_kib: _Figure
    iteration: int | None
    moved_bytes: int | None


@dataclass(slots=True)
class _Reader:
    """Takes the output line by line; keeps what was complete."""

    version: str | None = None
    complete: bool = False
    integrity_lost: bool = False
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    tests: list[_Test] = field(default_factory=list)
    results: list[_Result] = field(default_factory=list)
    summaries: list[list[str]] = field(default_factory=list)
    csv: bool = False
    _moved_bytes: int | None = None
    _object: dict[str, tuple[int, str]] | None = None
    _in_summary: bool = False
    _direct: bool | None = None

    def take(self, number: int, line: str) -> None:
        """Read one whole line."""
        if line.startswith(("WARNING:", "ERROR:")):
            self._complaint(line)
        elif line.startswith("access,bw(MiB/s)"):
            self.csv = True
        elif _TEXT_RESULT.match(line):
            self._table_row(number, line.split())
        elif line.startswith("Summary of all tests:") or '"summary": [' in line:
            self._in_summary = True
        elif pair := _JSON_PAIR.match(line):
            value = pair.group(2) if pair.group(2) is not None else pair.group(3)
            self._json_pair(number, pair.group(1), value)
        elif line.strip() == "{":
            self._object = {}
        elif line.strip().startswith("}"):
            self._json_object()
        elif line.startswith("IOR-"):
            self.version = line[4:].split(":", maxsplit=1)[0]
            self.complete = self._in_summary = False
        elif pair := _OPTION.match(line):
            self._option(pair.group(1), pair.group(2).strip())

    def _complaint(self, line: str) -> None:
        if moved := _MOVED.match(line):
            self._moved_bytes = int(moved.group(1))
        elif line.startswith("ERROR:"):
            self.errors.append(line.removeprefix("ERROR:").strip())
        elif not line.startswith(_EXPLAINED):
            self.warnings.append(line.removeprefix("WARNING:").strip())
            self.integrity_lost = self.integrity_lost or bool(_INTEGRITY.match(line))

    def _option(self, name: str, value: str) -> None:
        match name:
            case "Command line":
                self._direct = "--posix.odirect" in value.split()
            case "TestID":
                self.tests.append(_Test(direct=self._direct))
            case "Finished":
                self.complete = True
            case "tasks" | "segments" | "repetitions" if self.tests and value.isdecimal():
                setattr(self.tests[-1], name, int(value))
            case _:
                pass

    def _table_row(self, number: int, words: list[str]) -> None:
        if self._in_summary:
            self.summaries.append(words)
            return
        figures = [_figure(word) for word in words[1:_COLUMNS]]
        if len(words) != _COLUMNS or None in figures or not self.tests:
            self.warnings.append(f"line {number} is not a whole row of results")
            return
        known = cast("list[_Figure]", figures)
        self._add(number, words[0], (known[0], known[8], known[3], known[4]), words[10])

    def _json_pair(self, number: int, key: str, value: str) -> None:
        if self._object is not None:
            self._object[key] = (number, value)
        match key:
            case "Version":
                self.version = value
                self.complete = self._in_summary = False
            case "Command line":
                self._direct = "--posix.odirect" in value.split()
            case "Finished":
                self.complete = True
            case "TestID" if not self._in_summary:
                self.tests.append(_Test(direct=self._direct))
            case "tasks" | "segments" | "repetitions" if value.isdecimal() and self.tests:
                setattr(self.tests[-1], key, int(value))
            case "blockSize" if value.isdecimal() and self.tests and not self._in_summary:
                self.tests[-1].block_size_bytes = int(value)
            case "transferSize" if value.isdecimal() and self.tests and not self._in_summary:
                self.tests[-1].transfer_size_bytes = int(value)
            case _:
                pass

    def _json_object(self) -> None:
        found, self._object = self._object, None
        if not found or "access" not in found or "bwMiB" not in found or not self.tests:
            return
        names = ("bwMiB", "totalTime", "blockKiB", "xferKiB")
        figures = [_figure(found[name][1]) if name in found else None for name in names]
        access, number = found["access"][1], found["bwMiB"][0]
        if None in figures or access not in ("write", "read"):
            self.warnings.append(f"the result at line {number} is not whole")
            return
        bandwidth, elapsed, block, transfer = cast("list[_Figure]", figures)
        self._add(number, access, (bandwidth, elapsed, block, transfer), None)

    def _add(
        self,
        number: int,
        access: str,
        figures: tuple[_Figure, _Figure, _Figure, _Figure],
        iteration: str | None,
    ) -> None:
        self.results.append(
            _Result(
                test=self.tests[-1],
                access=cast("Access", access),
                line=number,
                bandwidth=figures[0],
                elapsed=figures[1],
                block_kib=figures[2],
                transfer_kib=figures[3],
                iteration=int(iteration) if iteration and iteration.isdecimal() else None,
                moved_bytes=self._moved_bytes,
            )
        )
        self._moved_bytes = None


def _figure(word: str) -> _Figure | None:
    """Return a printed number with its rounding; ``None`` for ``NA``, ``-``, ``nan``."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", word):
        return None
    decimals = len(word.partition(".")[2])
    return _Figure(float(word), 0.5 * 10.0**-decimals)


def _judge(draft: Draft, reader: _Reader, first: int) -> None:
    """Make a phase of every result, with the reason where its figures do not fit together."""
    counts: dict[Access, int] = {"write": 0, "read": 0}
    for result in reader.results:
        index = counts[result.access]
        counts[result.access] += 1
        block = result.test.block_size_bytes or _whole_bytes(result.block_kib)
        moved = result.moved_bytes
        if moved is None and block is not None and result.test.tasks is not None:
            moved = block * result.test.tasks * result.test.segments
        reason = None
        if len(reader.tests) > 1:
            reason = f"the output holds {len(reader.tests)} tests, perhaps of different parameters"
        draft.phases.append(
            Phase(
                access=result.access,
                repetition=first + index,
                moved_bytes=moved,
                elapsed_s=result.elapsed.value,
                bandwidth_bytes_per_s=result.bandwidth.value * _MIB,
                tasks=result.test.tasks,
                transfer_size_bytes=(
                    result.test.transfer_size_bytes or _whole_bytes(result.transfer_kib)
                ),
                block_size_bytes=block,
                direct=result.test.direct,
                caches_dropped=False,
                line=result.line,
                reason=reason or _disagreement(result, moved),
            )
        )


def _disagreement(result: _Result, moved_bytes: int | None) -> str | None:
    if moved_bytes is None:
        return "IOR's output does not tell how many bytes it moved"
    if result.bandwidth.error > _COARSE:
        return f"IOR printed it with too few digits: {result.bandwidth.value:g} MiB/s"
    # Beyond rounding, block(KiB) of a text table may itself be rounded.
    error = result.bandwidth.error + result.elapsed.error
    if result.moved_bytes is None and result.test.block_size_bytes is None:
        error += result.block_kib.error if _whole_bytes(result.block_kib) is None else 0.0
    bandwidth = result.bandwidth.value * _MIB
    if agrees(bandwidth, moved_bytes, result.elapsed.value, tolerance=1.02 * error + 1e-9):
        return None
    return (
        f"IOR printed {result.bandwidth.value:g} MiB/s, but {moved_bytes} bytes in "
        f"{result.elapsed.value:g} s are not that"
    )


def _whole_bytes(kib: _Figure) -> int | None:
    value = kib.value * 1024
    return int(value) if value > 0 and value == int(value) else None


def _note_problems(draft: Draft, reader: _Reader, output: RawOutput, text: str) -> None:
    """Collect why the run is not fine, in the order in which a reader wants to know."""
    stderr = output.stderr.decode("utf-8", "replace")
    if reader.integrity_lost:
        draft.problems.append("data read is not what was written: IOR found errors")
    draft.problems += list(dict.fromkeys(reader.errors))[:3]
    if output.truncated:
        draft.problems.append("the output was cut at its limit")
    if reader.csv and not reader.results:
        draft.problems.append("this is IOR's CSV, which lacks the parameters; JSON or text is read")
    elif not text.strip():
        said = _without_boilerplate(stderr)
        draft.problems.append("IOR printed nothing" + (f": {said}" if said else ""))
    elif reader.version is None and not reader.results and not reader.errors:
        draft.problems.append(f"this is not the output of IOR: {beginning(text)}")
    elif not reader.complete:
        failed = [warning for warning in draft.warnings if "failed" in warning]
        if not reader.errors:
            draft.problems.append("IOR did not finish" + (f": {failed[0]}" if failed else ""))
    else:
        draft.problems += _missing_repetitions(reader)
    if output.exit_code != 0:
        # What mpirun says about it is long and explains nothing, unless there is nothing else.
        said = "" if draft.problems else _without_boilerplate(stderr)
        code = "a signal" if output.exit_code is None else f"exit code {output.exit_code}"
        draft.problems.append(f"IOR ended with {code}" + (f": {said}" if said else ""))


def _missing_repetitions(reader: _Reader) -> list[str]:
    """Return which repetitions a finished output lacks, of the accesses that it has."""
    problems: list[str] = []
    for number, test in enumerate(reader.tests):
        for access in ("write", "read"):
            found = sum(
                result.test is test and result.access == access for result in reader.results
            )
            if found not in (0, test.repetitions):
                which = f" of test {number}" if len(reader.tests) > 1 else ""
                problems.append(f"{found} of {test.repetitions} {access}s{which} were printed")
    return problems


def _without_boilerplate(stderr: str) -> str:
    """Return what stderr says beside mpirun's framed explanations."""
    kept: list[str] = []
    framed = False
    for line in stderr.splitlines():
        if line.startswith("-----"):
            framed = not framed
        elif not framed and not re.match(r"\[[^\]]+:[0-9]+\]", line):
            kept.append(line)
    return tail("\n".join(kept)) or tail(stderr)
