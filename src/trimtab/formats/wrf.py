"""WRF: output times of the weather model, from ``rsl.out.0000`` or ``rsl.error.0000``.

Only the first task prints timings, and to both files: ``rsl.error.0000`` is read only if
``rsl.out.0000`` is not next to it. The format is the same in every version (frame/module_timing.F:
``"Timing for ",A,": ",F10.5," elapsed seconds"``; up to 3.4 a full stop follows)::

    Timing for Writing auxhist2_d01_2019-11-26_12:00 for domain        1:    2.27105 elapsed seconds
    Timing for Writing restart for domain        1:   11.40210 elapsed seconds
    Timing for processing lateral boundary for domain        1:    0.05423 elapsed seconds
    Timing for main: time 2019-11-26_12:00:18 on domain   1:    3.60938 elapsed seconds

Timers nest (frame/module_integrate.F): ``main`` of the outermost domain includes the steps of its
nests and all I/O during the step. So the time of the run is the sum of ``main`` of domain 1, plus
the reads before the first step and the writes after the last.

A time is that of the first task, from open to close. With I/O servers (quilting) it is the time to
hand the data to them; no line has the writing itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import DataError, Message
from trimtab.base.plain import present, whole_lines
from trimtab.base.run import Sample
from trimtab.formats.measurement import (
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    missing,
)

KIND: Final = "wrf"

_LINE_MAXIMUM: Final = 600
_WORDS: Final = "Timing for "
# F10.5: ten characters, five decimals; larger values than 9999.99999 are printed as asterisks.
_TIMING: Final = re.compile(r"\s{0,3}Timing for (.{1,400}): (.{10}) elapsed seconds\.?\s*")
_SECONDS: Final = re.compile(r" *([0-9]{0,4}\.[0-9]{5})")
_MAIN: Final = re.compile(r"main(?: \(dt=.{6}\))?: time (\S{1,40}) on domain +([0-9]{1,3})")
_WRITE: Final = re.compile(r"Writing (\S.{0,300}?) *for domain +([0-9]{1,8})")
_READ: Final = re.compile(
    r"processing (wrfinput file \(stream 0\)|restart file|lateral boundary)"
    r" for domain +([0-9]{1,8})"
)
_STREAM: Final = re.compile(r"(?:.*/)?(\w+?)_d([0-9]{2})(?:_.*)?")
_READS: Final = {
    "wrfinput file (stream 0)": "input",
    "restart file": "restart-input",
    "lateral boundary": "boundary",
}
_TASK: Final = re.compile(r"\s*taskid: 0 hostname: (\S{1,255})\s*")
_TASKS: Final = re.compile(r"\s*Ntasks in X +([0-9]{1,7}) *, ntasks in Y +([0-9]{1,7})\s*")
_VERSION: Final = re.compile(r"\s*WRF V([0-9]\S{0,20}) MODEL\s*")
_SIZE: Final = re.compile(r"\s*ids,ide,jds,jde((?: +[0-9]{1,6}){4})\s*")
_SERVERS: Final = re.compile(
    r"\s*Quilting with +([0-9]{1,6}) groups of +([0-9]{1,6}) I/O tasks.*", re.I
)
_SUCCESS: Final = "SUCCESS COMPLETE WRF"
_FATAL: Final = "FATAL CALLED ---"


@dataclass(frozen=True, slots=True)
class _Timing:
    """One line, of a stream (``main``, ``history``, ``restart`` ...)."""

    stream: str
    domain: int
    seconds: float | None
    line: int
    reads: bool = False

    @property
    def target(self) -> str:
        return f"d{self.domain:02d}"


@dataclass(slots=True)
class _Log:
    """State while a file is read."""

    timings: list[_Timing] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    size_follows: bool = False
    damaged: list[int] = field(default_factory=list)
    warnings: Notes = field(default_factory=Notes)
    version: str | None = None
    host: str | None = None
    tasks: int | None = None
    servers: int | None = None
    ended: bool = False
    fatal: str | None = None


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the whole run, then each stream; see `trimtab.formats.measurement`.

    The whole run has ``elapsed`` and the ``output_time`` of all streams (statistic ``sum``). A
    stream (``history``, ``restart``, ``auxhist2`` ..., ``input``, ``boundary``) has a sample for
    each write or read, numbered per domain (``d01``), and the sums.

    Raises
    ------
    DataError
        It has no timing line.
    """
    log = _read_log(source.text)
    if not log.timings:
        line = log.damaged[0] if log.damaged else 1
        raise DataError("no complete timing line of WRF", code="no-result", line=line)
    streams: dict[str, list[_Timing]] = {}
    for timing in log.timings:
        if timing.stream != "main":
            streams.setdefault(timing.stream, []).append(timing)
    return (_whole(log, streams), *(_stream(log, name, streams[name]) for name in sorted(streams)))


def _recognises(source: OutputFile) -> bool:
    if (match := re.fullmatch(r"rsl\.(?:out|error)\.([0-9]{1,6})", source.file_name)) and int(
        match[1]
    ):
        return False  # another task, which prints no timings
    head = source.head
    return (_WORDS in head and " elapsed seconds" in head and " domain " in head) or (
        "taskid: 0 hostname: " in head and "Ntasks in X" in head
    )


def _instead(name: str) -> tuple[str, ...]:
    return ("rsl.out.0000",) if name == "rsl.error.0000" else ()


FORMAT: Final = OutputFormat(KIND, _recognises, read, instead=_instead)


def _read_log(text: str) -> _Log:
    log = _Log()
    seen: set[str] = set()
    lines = [(number, line) for number, line in whole_lines(text) if line]
    steps = [line for _, line in lines if line.lstrip().startswith("Timing for main")]
    twice = len(set(steps)) < len(steps)
    if twice:
        text = "lines appear twice, as if output and error went to one file: each is counted once"
        log.warnings.add("lines-doubled", text)
    for position, (number, line) in enumerate(lines):
        if _WORDS in line:
            if twice and line in seen:
                continue
            seen.add(line)
            timing = _timing(line, number, log)
            if timing is not None:
                log.timings.append(timing)
        elif _SUCCESS in line:
            log.ended = True
        elif _FATAL in line:
            log.fatal = log.fatal or " ".join(
                words for _, words in lines[position + 1 : position + 3]
            )
        else:
            _note(log, line)
    return log


def _timing(line: str, number: int, log: _Log) -> _Timing | None:
    """Parse a timing line; ``None`` for an irrelevant timer or a damaged line."""
    match = _TIMING.fullmatch(line) if len(line) <= _LINE_MAXIMUM else None
    seconds = None
    if match is not None:
        value = _SECONDS.fullmatch(match[2])
        seconds = None if value is None else float(value[1])
        if value is None and match[2] != "*" * 10:
            match = None
    if match is None or _WORDS in match[1]:
        log.damaged.append(number)
        return None
    if main := _MAIN.fullmatch(match[1]):
        if int(main[2]) == 1:
            log.times.append(main[1])
        return _Timing("main", int(main[2]), seconds, number)
    if taken := _READ.fullmatch(match[1]):
        return _Timing(_READS[taken[1]], int(taken[2]), seconds, number, reads=True)
    if written := _WRITE.fullmatch(match[1]):
        stream = _stream_of(written[1], int(written[2]))
        if stream is None:
            log.damaged.append(number)
            return None
        return _Timing(stream, int(written[2]), seconds, number)
    return None  # "table computation" and other timers


def _stream_of(name: str, domain: int) -> str | None:
    """Return the stream of a file, from its name; ``None`` for another domain's."""
    if name in ("restart", "filter output"):
        return name.partition(" ")[0]
    match = _STREAM.fullmatch(name)
    if match is None:
        # Up to 3.9 the name is cut after 30 characters: with a directory nothing of it is left.
        return "history" if "wrfout" in name else "output"
    if int(match[2]) != domain:
        return None
    return "history" if match[1] == "wrfout" else match[1]


def _note(log: _Log, line: str) -> None:
    """Read the head of the file: host, tasks, version, sizes, I/O servers."""
    if len(line) > _LINE_MAXIMUM:
        return
    if match := _TASK.fullmatch(line):
        log.host = log.host or match[1]
    elif match := _TASKS.fullmatch(line):
        log.tasks = int(match[1]) * int(match[2])
    elif match := _VERSION.fullmatch(line):
        log.version = log.version or match[1]
    elif match := _SERVERS.fullmatch(line):
        log.servers = int(match[1]) * int(match[2])
    elif line.strip() in ("Parent domain", "Nesting domain"):
        log.size_follows = True
    elif log.size_follows and (match := _SIZE.fullmatch(line)):
        # The same line follows for the part of the parent around a nest, which is not a domain.
        log.size_follows = False
        west, east, south, north = map(int, match[1].split())
        log.sizes.append(f"{east - west + 1}x{north - south + 1}")


def _elapsed(log: _Log) -> tuple[float | None, str | None]:
    """Return the time of the run, or why it is unknown."""
    steps = [
        place
        for place, timing in enumerate(log.timings)
        if timing.stream == "main" and timing.domain == 1
    ]
    if not steps:
        return None, Message("no-step", "no step of the outermost domain finished")
    first_main = next(place for place, timing in enumerate(log.timings) if timing.stream == "main")
    # Read before the first step (share/mediation_wrfmain.F).
    inputs = [
        timing
        for timing in log.timings[:first_main]
        if timing.domain == 1 and timing.stream in ("input", "restart-input")
    ]
    outputs = [timing for timing in log.timings[steps[-1] + 1 :] if timing.stream != "main"]
    return _sum(log, [log.timings[place] for place in steps] + inputs + outputs)


def _sum(log: _Log, parts: list[_Timing]) -> tuple[float | None, str | None]:
    """Return the sum of times, with a reason if it may be too small or is missing."""
    if any(part.seconds is None for part in parts):
        text = "a time is over 9999.99999 s, which WRF prints as asterisks"
        return None, Message("time-overflowed", text)
    reason = None
    if log.damaged:
        text = f"line {log.damaged[0]} is damaged: a time may be missing"
        reason = Message("line-damaged", text)
    return sum(part.seconds or 0.0 for part in parts), reason


def _whole(log: _Log, streams: dict[str, list[_Timing]]) -> Measurement:
    written = [timing for parts in streams.values() for timing in parts if not timing.reads]
    elapsed, reason = _elapsed(log)
    steps = [timing for timing in log.timings if timing.stream == "main" and timing.domain == 1]
    line = (steps or log.timings)[-1].line
    samples = [Sample("elapsed", elapsed, 0, output=0, line=line, reason=reason)]
    output, doubt = _sum(log, written)
    if written:
        last = max(timing.line for timing in written)
        samples.append(_total("output_time", output, None, (last, doubt)))
    reported: dict[str, object] = {"steps": len(steps)}
    if log.times:
        reported |= {"first_time": log.times[0], "last_time": log.times[-1]}
    if elapsed and output is not None and not (reason or doubt):
        reported["output_share"] = output / elapsed
    return _measurement(log, None, samples, reported)


def _stream(log: _Log, name: str, timings: list[_Timing]) -> Measurement:
    metric = "read_time" if timings[0].reads else "output_time"
    samples = list(_samples(log, metric, timings))
    total, reason = _sum(log, timings)
    samples.append(_total(metric, total, None, (timings[-1].line, reason)))
    reported: dict[str, object] = {"times": len(timings)}
    elapsed, doubt = _elapsed(log)
    if elapsed and total is not None and not (reason or doubt):
        reported["share"] = total / elapsed
    return _measurement(log, name, samples, reported)


def _samples(log: _Log, metric: str, timings: list[_Timing]) -> Iterator[Sample]:
    """Yield every time of a stream, then the sum of each domain."""
    domains: dict[str, list[_Timing]] = {}
    for timing in timings:
        domains.setdefault(timing.target, []).append(timing)
    for target, parts in sorted(domains.items()):
        for repetition, timing in enumerate(parts):
            overflowed = Message("time-overflowed", "it is over 9999.99999 s")
            reason = overflowed if timing.seconds is None else None
            place = repetition, target, "total", 0, timing.line
            yield Sample(metric, timing.seconds, *place, reason)
        total, reason = _sum(log, parts)
        yield _total(metric, total, target, (parts[-1].line, reason))


def _total(
    metric: str, value: float | None, target: str | None, place: tuple[int, str | None]
) -> Sample:
    line, reason = place
    return Sample(metric, value, None, target, "sum", output=0, line=line, reason=reason)


def _measurement(
    log: _Log, name: str | None, samples: list[Sample], reported: dict[str, object]
) -> Measurement:
    problems = Notes()
    if log.fatal is not None:
        problems.add("tool-error", f"WRF stopped: {' '.join(log.fatal.split())[:300]}")
    elif not log.ended:
        text = f'"{_SUCCESS}" is missing: the run was stopped or the file cut'
        problems.add("output-unfinished", text)
    if log.damaged:
        text = f"{len(log.damaged)} timing lines are damaged, first line {log.damaged[0]}"
        problems.add("line-damaged", text)
    warnings = Notes(log.warnings)
    if log.servers:
        text = f"{log.servers} I/O servers write: the times are for handing data to them"
        warnings.add("quilting", text)
    requested = {"tasks": log.tasks, "domains": log.sizes or None, "io_servers": log.servers}
    no_bytes = "WRF does not print the bytes it reads and writes"
    return concluded(
        KIND,
        samples,
        problems,
        None,
        tool_version=log.version,
        name=name,
        layer="application",
        host=log.host,
        requested=present(requested),
        reported=reported,
        warnings=warnings,
        missing=(missing("bytes", "bytes-not-printed", no_bytes),),
    )
