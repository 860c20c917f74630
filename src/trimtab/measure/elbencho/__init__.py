"""elbencho: threads of one or many hosts that write and read files.

`rows` parses its output, `results` builds runs from it. A probe runs each phase for a fixed time,
with one file per thread.

Notes
-----
Found by experiment with elbencho 3.1-10:
- With ``--infloop --timelimit S`` a thread restarts its file until the time is up, and elbencho
exits with 0. It checks the clock every 2 s, so a phase of 1 s takes 2 s.
- With as many files as threads each thread has its own. A file grows as it is written, without
  preallocation, so that a write that stops early leaves no hole.
- It has no flush: ``--sync`` is a separate phase, which a time limit skips. The time
  of a write therefore ends with its last call. A buffered write would measure memory, and is
  refused; with O_DIRECT only what the drives hold in their caches is not flushed.
- Results go to standard output as JSON, where bytes are exact; by default elbencho writes files
  into ``/var/tmp`` as well.
"""

from __future__ import annotations

import math
import re
from typing import Final

from trimtab.errors import UsageError
from trimtab.measure.elbencho.results import KIND, parse, read
from trimtab.measure.elbencho.rows import CSV_HEAD, JSON_HEAD, LIVE_HEAD, TITLE
from trimtab.measure.phases import FILE_NAME, PhaseRequest, Phases, Version
from trimtab.measure.source import Format, Mark, Source

__all__ = ["FORMAT", "KIND", "PHASES", "command", "parse", "read", "version"]

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

    Raises
    ------
    UsageError
        A buffered write whose time must include the flush.
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


def _recognises(source: Source) -> bool:
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
FORMAT: Final = Format(
    KIND,
    _recognises,
    read,
    beginning=Mark((b"RESULT TYPE", b'{"phase_type":', b"ISO DATE: "), _BEGINNING),
)
