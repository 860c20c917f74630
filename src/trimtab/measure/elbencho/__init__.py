"""elbencho: threads of one or many hosts that write and read files.

`running` makes its command, `rows` takes apart what it prints, `results` makes runs of it.
"""

from __future__ import annotations

import re
from typing import Final

from trimtab.measure.elbencho.results import KIND, parse, read
from trimtab.measure.elbencho.rows import CSV_HEAD, JSON_HEAD, LIVE_HEAD, TITLE
from trimtab.measure.elbencho.running import RESERVED_OPTIONS, command, version
from trimtab.measure.phases import Phases
from trimtab.measure.source import Format, Mark, Source

__all__ = ["FORMAT", "KIND", "PHASES", "command", "parse", "read", "version"]

_BEGINNING: Final = re.compile(
    rb'^(?:ISO DATE: \d{4}-|OPERATION +RESULT TYPE +FIRST DONE |\{"phase_type":)', re.MULTILINE
)


def _recognises(source: Source) -> bool:
    for line in source.head.split("\n")[:_LINES]:
        text = line.rstrip("\r")
        if TITLE.fullmatch(text) or text.startswith(JSON_HEAD):
            return True
        if CSV_HEAD.match(text) or LIVE_HEAD.match(text):
            return True
    return False


_LINES: Final = 1000
"""Services print before the table; a job's output may be a large file of something else."""
PHASES: Final = Phases(KIND, ("elbencho",), ("local",), command, parse, version, RESERVED_OPTIONS)
FORMAT: Final = Format(
    KIND,
    _recognises,
    read,
    beginning=Mark((b"RESULT TYPE", b'{"phase_type":', b"ISO DATE: "), _BEGINNING),
)
