"""How errors, runs, readings and targets are written wherever a document has one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from operator import attrgetter

from trimtab.errors import Interrupted, TrimtabError
from trimtab.model.filesystem import PathDescription
from trimtab.model.run import RawOutput, Sample
from trimtab.model.telemetry import Reading, TargetSnapshot
from trimtab.report.documents.encode import mapped, shape

Problem = TrimtabError | Interrupted
"""Why a command could not do what was requested."""


@dataclass(frozen=True, slots=True)
class FailureDocument:
    """Printed by any command with ``--json`` that has no other document."""

    error: Problem


_ERROR_KEYS = {
    "message": (str, attrgetter("message")),
    "code": (str, attrgetter("code")),
    "hint": (str | None, attrgetter("hint")),
    "exit_code": (int, attrgetter("exit_code")),
}
shape(TrimtabError, derive=_ERROR_KEYS)
shape(Interrupted, derive=_ERROR_KEYS)

shape(Sample, derive={"unit": "unit"})
shape(
    RawOutput,
    omit=["stdout", "stderr"],
    derive={
        "stdout_bytes": mapped("stdout", len, int),
        "sha256": (str, lambda output: hashlib.sha256(output.stdout).hexdigest()),
    },
)
shape(Reading, derive={"unit": "unit"})
shape(PathDescription, derive={"is_flash": "is_flash"})
shape(
    TargetSnapshot,
    inline={"target": ()},
    derive={"fullness": (float | None, lambda seen: seen.fullness())},
)
