"""elbencho: threads of one or many hosts that write and read files.

`trimtab.formats.elbencho_row` parses its output into phases; consecutive phases are one run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Final

from trimtab.base.error import DataError, Message, UsageError
from trimtab.base.plain import present, size_of, whole_of
from trimtab.base.run import BANDWIDTH, Access, RawOutput, Sample
from trimtab.base.units import MIB
from trimtab.formats.elbencho_row import (
    CSV_HEAD,
    JSON_HEAD,
    LIVE_HEAD,
    TITLE,
    Amount,
    ElbenchoPhase,
    rows_of,
)
from trimtab.formats.measurement import (
    IOPS,
    LATENCY,
    Mark,
    MeasuredPhase,
    Measurement,
    MeasurementDraft,
    OutputFile,
    OutputFormat,
    beginning,
    tail,
)
from trimtab.formats.phase import FILE_NAME, PhaseRequest, Phases, Version

KIND: Final = "elbencho"
_ENTRIES: Final[Mapping[str, str]] = {
    "WRITE": "file_creation_rate",
    "READ": "file_read_rate",
    "STAT": "file_stat_rate",
    "RMFILES": "file_removal_rate",
    "MKDIRS": "directory_creation_rate",
    "RMDIRS": "directory_removal_rate",
}
_BETWEEN: Final = frozenset({"SYNC", "DROPCACHE"})
"""Phases before and after others, which measure no file system by themselves."""
_MIXED: Final = re.compile(r"RWMIX\d{1,3}|MIX-T\d{1,6}")
_COARSE: Final = 20
"""A figure of fewer whole units may be more than 5 % too low."""
_OPTION: Final = re.compile(
    r'"(?:--([a-z][a-z0-9]{1,19})(?:=([^"]*))?|-([A-Za-z])([^"]*))"(?: "([^"-][^"]*)")?'
)
_LONG: Final = {"t": "threads", "b": "block", "s": "size", "n": "dirs", "N": "files"} | {
    "c": "configfile"
}
_FLAGS: Final = frozenset(
    {"backward", "cufile", "dirsharing", "dropcache", "gds", "infloop", "mmap", "nofdsharing"}
    | {"norandalign", "preallocfile", "readinline", "statinline", "strided", "sync", "trunctosize"}
)
_VALUES: Final = frozenset(
    {"blockvaralgo", "blockvarpct", "configfile", "fadv", "flock", "limitread", "limitwrite"}
    | {"madv", "randalgo", "randamount", "rwmixthrpct", "sharesize", "timelimit", "treefile"}
)
"""Options that change the workload, in addition to the printed parameters."""


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return each run in an output; see `trimtab.formats.measurement`.

    Raises
    ------
    DataError
        It has no phase, or it is the progress of a run.
    """
    rows = rows_of(source.text)
    measurements = tuple(_measurements(rows))
    if measurements:
        return measurements
    if LIVE_HEAD.match(source.text):
        raise DataError(
            "this is elbencho's progress (--livecsv), not its results",
            code="progress-only", line=1, hint="import what --csvfile or --jsonfile wrote",
        )  # fmt: skip
    complaint = "; ".join(row.problem for row in rows if row.problem) or beginning(source.text)
    raise DataError(f"no phase of elbencho: {complaint}", code="not-this-format", line=1)


def parse(output: RawOutput, *, repetition: int = 0, ordinal: int | None = None) -> Measurement:
    """Return the phase that a probe's command printed. Never raises."""
    rows = rows_of(output.stdout.decode("utf-8", "replace"))
    draft = _ElbenchoRun(rows).draft(repetition, ordinal)
    if not draft.phases and not draft.problems:
        draft.problems.add("nothing-printed", "elbencho printed no result")
    if any(phase.access == "write" for phase in draft.phases):
        text = "elbencho has no flush: the time of its writes ends with the last call"
        draft.warnings.add("flush-not-included", text)
    if output.truncated:
        draft.problems.add("output-cut", "the output was cut at its limit")
    draft.note_exit("elbencho", output, tail(output.stderr.decode("utf-8", "replace")))
    return draft.finished()


def _measurements(rows: Iterable[ElbenchoPhase]) -> Iterator[Measurement]:
    run = _ElbenchoRun()
    for row in rows:
        if run.rows and not run.goes_on(row):
            yield from run.measurements()
            run = _ElbenchoRun()
        run.rows.append(row)
    yield from run.measurements()


@dataclass(slots=True)
class _ElbenchoRun:
    """Phases of one pass over the requested operations."""

    rows: list[ElbenchoPhase] = field(default_factory=list)

    def goes_on(self, row: ElbenchoPhase) -> bool:
        """Return whether a phase belongs to this pass: same command, and a new operation."""
        if not row.operation:
            return True
        before = [other for other in self.rows if other.operation]
        if not before:
            return True
        of = before[-1]
        if (of.command, of.version, of.label, of.config, of.run) != (
            row.command, row.version, row.label, row.config, row.run,
        ):  # fmt: skip
            return False
        return row.operation in _BETWEEN or row.operation not in {o.operation for o in before}

    def measurements(self) -> Iterator[Measurement]:
        """Yield the result, unless no phase measured anything."""
        if all(row.operation in {"", *_BETWEEN} for row in self.rows):
            return
        yield replace(self.draft(0, 0).finished(rates_count=True), identity=self._identity())

    def draft(self, repetition: int, ordinal: int | None) -> MeasurementDraft:
        """Return the figures of all phases."""
        first = next((row for row in self.rows if row.operation), ElbenchoPhase("", 1))
        draft = MeasurementDraft(KIND, ordinal, first.version, layer="client", began=first.began)
        draft.requested, draft.reported = self._requested(first), present({"label": first.label})
        draft.ended = self._ended()
        others = []
        for row in self.rows:
            if row.problem is not None:
                draft.problems.append(row.problem)
            if row.operation in _BETWEEN or not row.operation:
                continue
            if row.operation.partition("+")[0] not in _ENTRIES and not _MIXED.match(row.operation):
                others.append(row.operation)
                continue
            _Taken(draft, row, repetition).take()
        if others:
            text = f"phases that are not read: {', '.join(dict.fromkeys(others))}"
            draft.warnings.add("phases-not-read", text)
        return draft

    def _ended(self) -> datetime | None:
        """Return the end of the last phase; the table has only the time of the first."""
        timed = [row for row in self.rows if row.began is not None and "elapsed" in row.figures]
        if not timed or timed[-1].began is None:
            return None
        lasted = timed if timed[-1].run is not None else timed[-1:]
        seconds = sum(row.figures["elapsed"].value for row in lasted)
        return timed[-1].began + timedelta(seconds=seconds)

    def _requested(self, first: ElbenchoPhase) -> dict[str, object]:
        options, config = options_of(first.command or ""), dict(first.config)
        if options and "configfile" not in options:
            config = _config_of(options) | config
        numbers = {name: whole_of(text) for name, text in config.items()}
        threads, hosts = numbers.get("threads"), numbers.get("hosts")
        requested = present(
            {
                "tasks": None if threads is None or hosts is None else threads * hosts,
                "nodes": hosts,
                "transfer_size_bytes": numbers.get("block size") or None,
                "file_size_bytes": numbers.get("file size") or None,
                "files_per_task": numbers.get("files"),
                "directories_per_task": numbers.get("dirs"),
                "paths": numbers.get("paths"),
                "path_type": config.get("path type"),
                "direct": _switch(config.get("direct IO")),
                "random": _switch(config.get("random")),
                "io_depth": numbers.get("IO depth"),
                "truncate": _switch(config.get("truncate")) or None,
            }
        )
        further: dict[str, object] = {
            name: True if name in _FLAGS else options[name]
            for name in sorted(options.keys() & (_FLAGS | _VALUES))
        }
        mixed = [row.operation for row in self.rows if _MIXED.match(row.operation)]
        return requested | present({"options": further or None, "mix": ", ".join(mixed) or None})

    def _identity(self) -> str | None:
        """Return an identity that is equal in a run's CSV, JSON and table.

        Uses the hour, because the table has the start of the run and the CSV that of a phase; and
        whole seconds and MiB, because all three have them.
        """
        first = next(row for row in self.rows if row.operation)
        if first.began is None or first.command is None:
            return None
        facts = [
            (row.operation, *(_floor(row.figures.get(name), step) for name, step in _ALIKE))
            for row in self.rows
            if row.operation not in {"", *_BETWEEN}
        ]
        return f"{first.began:%Y-%m-%dT%H%z} {first.command} {facts}"


_ALIKE: Final = (("elapsed", 1.0), ("moved", float(MIB)), ("entries", 1.0))


def _floor(amount: Amount | None, step: float) -> int | None:
    return None if amount is None else int((amount.value + step * 1e-9) // step)


def _switch(text: str | None) -> bool | None:
    return {"0": False, "1": True}.get(text or "")


@dataclass(frozen=True, slots=True)
class _Taken:
    """Adds one phase to a draft."""

    draft: MeasurementDraft
    row: ElbenchoPhase
    repetition: int

    def take(self) -> None:
        """Add its bytes, operations, latencies and entries."""
        row, operation = self.row, self.row.operation.partition("+")[0]
        access: Access = "read" if operation == "READ" else "write"
        if "bandwidth" in row.figures or "moved" in row.figures:
            self._moved(access, "")
        if "read bandwidth" in row.figures:
            self._moved("read", "read ")
        metric = _ENTRIES.get(operation)
        rate = row.figures.get("entries rate")
        if metric is None or rate is None:
            return
        # There are few large files per second: their bandwidth is more precise.
        if rate.value >= _COARSE or operation not in {"WRITE", "READ"}:
            elapsed = row.figures.get("elapsed")
            self._add(metric, rate, "total", "entries rate", _coarse(rate) or _short(elapsed))

    def _moved(self, access: Access, prefix: str) -> None:
        row, config = self.row, self.row.config
        figures = {
            name.removeprefix(prefix): amount
            for name, amount in row.figures.items()
            if name.startswith(prefix)
        }
        moved, elapsed = figures.get("moved"), row.figures.get("elapsed")
        bandwidth = _finer(figures.get("bandwidth"), moved, elapsed)
        numbers = {name: whole_of(text) for name, text in config.items()}
        threads, hosts, paths = (numbers.get(name) for name in ("threads", "hosts", "paths"))
        size = numbers.get("file size")
        if config.get("path type") == "file" and size and threads and paths == 1:
            size //= threads
        self.draft.phases.append(
            MeasuredPhase(
                access=access,
                repetition=self.repetition,
                moved_bytes=None if moved is None else int(moved.value),
                elapsed_s=None if elapsed is None else elapsed.value,
                bandwidth_bytes_per_s=None if bandwidth is None else bandwidth.value,
                tasks=None if threads is None or hosts is None else threads * hosts,
                transfer_size_bytes=numbers.get("block size"),
                block_size_bytes=size if config.get("path type") == "file" else None,
                direct=_switch(config.get("direct IO")),
                line=self._line(f"{prefix}bandwidth"),
                reason=_disbelief(bandwidth, moved, elapsed),
            )
        )
        for name, metric, statistic in (
            ("bandwidth first", BANDWIDTH[access], "first_done"),
            ("iops", IOPS[access], "total"),
            ("latency mean", LATENCY[access], "mean"),
            ("latency min", LATENCY[access], "min"),
            ("latency max", LATENCY[access], "max"),
        ):
            if (amount := figures.get(name)) is not None:
                coarse = None if "latency" in name else _coarse(amount)
                self._add(metric, amount, statistic, prefix + name, coarse)

    def _add(
        self, metric: str, amount: Amount, statistic: str, name: str, reason: str | None
    ) -> None:
        sample = Sample(
            metric, amount.value, self.repetition, None, statistic, self.draft.output,
            self._line(name), reason,
        )  # fmt: skip
        self.draft.latencies.append(sample)

    def _line(self, name: str) -> int:
        return self.row.lines.get(name, self.row.line)


def _finer(bandwidth: Amount | None, moved: Amount | None, elapsed: Amount | None) -> Amount | None:
    """Return a bandwidth; if it has few whole units, bytes over time if more exact."""
    if bandwidth is None or moved is None or elapsed is None or _coarse(bandwidth) is None:
        return bandwidth
    if _coarse(moved) is not None or _short(elapsed) is not None:
        return bandwidth
    rate = moved.value / elapsed.value
    return Amount(rate, moved.step / elapsed.value) if rate >= bandwidth.value else bandwidth


def _short(elapsed: Amount | None) -> Message | None:
    """Return a reason if a phase took too few milliseconds for a rate."""
    if elapsed is None or elapsed.value >= _COARSE * elapsed.step:
        return None
    return Message("too-short", f"the phase took {elapsed.value * 1000:.0f} ms")


def _coarse(amount: Amount) -> Message | None:
    """Return a reason if a figure has too few whole units."""
    units = amount.value / amount.step
    if units >= _COARSE:
        return None
    text = f"printed as {units:.0f}, in whole units: too coarse to be judged"
    return Message("too-few-digits", text)


def _disbelief(
    bandwidth: Amount | None, moved: Amount | None, elapsed: Amount | None
) -> Message | None:
    """Return why a bandwidth is not credible: too coarse, or not bytes over time."""
    if bandwidth is None:
        return None
    if (coarse := _coarse(bandwidth)) is not None:
        return coarse
    if moved is None or elapsed is None:
        return None
    least = moved.value / (elapsed.value + elapsed.step)
    most = (moved.value + moved.step) / elapsed.value if elapsed.value > 0 else inf
    # Printed values are truncated, while the program counts in microseconds.
    if least <= bandwidth.value + bandwidth.step and bandwidth.value <= most:
        return None
    text = (
        f"{bandwidth.value / MIB:.0f} MiB/s does not match {moved.value / MIB:.0f} MiB in "
        f"{elapsed.value:g} s"
    )
    return Message("figures-disagree", text)


def options_of(command: str) -> dict[str, str]:
    """Return the options of a printed command by long name, with the word after each.

    Examples
    --------
    >>> options_of('"elbencho" "-w" "-t" "16" "--block=1m" "/scratch/t"')
    {'w': '', 'threads': '16', 'block': '1m'}
    """
    options: dict[str, str] = {}
    for long, joined, short, attached, after in _OPTION.findall(command):
        name = long or _LONG.get(short) or short
        options[name] = joined or attached or after
    return options


def _config_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters in a command, with elbencho's defaults for the others."""
    sizes = {"block": "block size", "size": "file size"}
    config = {name: str(size_of(options.get(option, "1M" if option == "block" else "")) or "")
              for option, name in sizes.items()}  # fmt: skip
    hosts = options.get("hosts")
    if hosts is None and "hostsfile" not in options:
        config["hosts"] = "1"
    elif hosts is not None and "[" not in hosts:
        config["hosts"] = str(len(hosts.split()))
    config["threads"] = options.get("threads", "1")
    config["IO depth"] = options.get("iodepth", "1")
    config["direct IO"] = str(int("direct" in options or "gds" in options))
    config["random"] = str(int("rand" in options))
    config |= {name: options[name] for name in ("dirs", "files") if name in options}
    return {name: value for name, value in config.items() if value}


_RESERVED_OPTIONS: Final = frozenset(
    {"w", "write", "r", "read", "t", "threads", "b", "block", "s", "size", "direct", "infloop"}
    | {"timelimit", "nolive", "jsonfile", "csvfile", "resfile", "nopathexp", "lat", "i"}
    | {"iterations", "d", "mkdirs", "D", "deldirs", "F", "delfiles", "n", "dirs", "N", "files"}
    | {"hosts", "hostsfile", "clients", "clientsfile", "servers", "serversfile", "service"}
    | {"netbench", "quit", "interrupt", "dryrun", "rwmixpct", "rwmixthr", "rwmixthrpct", "stat"}
    | {"trunc", "trunctosize", "preallocfile", "treefile", "treescan", "c", "configfile", "start"}
    | {"livecsv", "livejson", "help", "help-all", "version"}
)
"""Options that the command sets itself, or that would make it something other than a probe."""

version: Final = Version(
    "elbencho", ("--version",), r"^ \* Version: ([0-9]\S*)\s*$", oldest="3.0-37"
)
"""The oldest version is the first whose JSON has the parameters of the run."""


def command(phase: PhaseRequest) -> tuple[str, ...]:
    """Return elbencho's command, which starts ``spec.tasks`` threads.

    Each phase runs for a fixed time, with one file per thread.

    Raises
    ------
    UsageError
        A buffered write whose time must include the flush.

    Notes
    -----
    Found by experiment with elbencho 3.1-10:

    - With ``--infloop --timelimit S`` a thread restarts its file until the time is up, and elbencho
      exits with 0. It checks the clock every 2 s, so a phase of 1 s takes 2 s.
    - With as many files as threads each thread has its own. A file grows as it is written, without
      preallocation, so that a write that stops early leaves no hole.
    - It has no flush: ``--sync`` is a separate phase, which a time limit skips. The time of a write
      therefore ends with its last call. A buffered write would measure memory, and is refused; with
      O_DIRECT only what the drives hold in their caches is not flushed.
    - Results go to standard output as JSON, where bytes are exact; by default elbencho writes files
      into ``/var/tmp`` as well.
    """
    spec = phase.spec
    if phase.access == "write" and spec.flush and not spec.direct:
        raise UsageError(
            "elbencho cannot flush within the time of a write: buffered, it would measure memory",
            code="flush-unsupported",
            hint="set direct = true, or use --probe fio or --probe builtin",
        )
    directory = phase.directory.rstrip("/")
    files = spec.tasks if spec.file_per_process else 1
    size = phase.file_bytes * (1 if spec.file_per_process else spec.tasks)
    argv = [phase.program, f"--{phase.access}", "--threads", str(spec.tasks)]
    argv += ["--block", str(spec.transfer_size_bytes), "--size", str(size)]
    if spec.direct:
        argv.append("--direct")
    argv += ["--infloop", "--timelimit", str(max(1, math.ceil(spec.duration_s)))]
    argv += ["--lat", "--nolive", "--nopathexp", "--jsonfile", "/dev/stdout"]
    argv += ["--csvfile", "/dev/null", "--resfile", "/dev/null"]
    return (*argv, *(f"{directory}/{FILE_NAME}.{number}" for number in range(files)))


_BEGINNING: Final = re.compile(
    rb'^(?:ISO DATE: \d{4}-|OPERATION +RESULT TYPE +FIRST DONE |\{"phase_type":)', re.MULTILINE
)


def _recognises(source: OutputFile) -> bool:
    head = source.head
    if not any(word in head for word in _WORDS):
        return False
    for line in head.split("\n")[:_LINES]:
        text = line.rstrip("\r")
        if TITLE.fullmatch(text) or text.startswith(JSON_HEAD):
            return True
        if CSV_HEAD.match(text) or LIVE_HEAD.match(text):
            return True
    return False


_WORDS: Final = ("RESULT TYPE", JSON_HEAD, "operation,time ms ", "Label,Phase,")
"""Every line that identifies elbencho contains one of these: a fast way to rule it out."""
_LINES: Final = 1000
"""Services print before the table; a job's output may be large and unrelated."""
PHASES: Final = Phases(KIND, ("elbencho",), ("local",), command, parse, version, _RESERVED_OPTIONS)
FORMAT: Final = OutputFormat(
    KIND,
    _recognises,
    read,
    beginning=Mark((b"RESULT TYPE", b'{"phase_type":', b"ISO DATE: "), _BEGINNING),
)
