"""fio: one process with threads or processes as tasks, on files or on whole devices.

`commands` makes what probes run; `results` reads what came out, of every version from 2.1 on,
`normal` what it prints for people.
"""

from __future__ import annotations

from typing import Final

from trimtab.measure.fio.commands import RESERVED_OPTIONS, command, version
from trimtab.measure.fio.results import FORMAT, parse, read
from trimtab.measure.phases import Phases

__all__ = [
    "FORMAT",
    "PHASES",
    "command",
    "parse",
    "read",
    "version",
]

PHASES: Final = Phases("fio", ("fio",), ("local",), command, parse, version, RESERVED_OPTIONS)
