"""Drop-ins for the functions that start processes, answering in this one, in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trimtab.launch.process import ProcessResult

from .commands import COMMANDS, run
from .state import FakeLustre, Output


def execute(
    state: FakeLustre, argv: Sequence[str], *, timeout_s: float, **options: Any
) -> ProcessResult:
    """Return how a command ran on the client; one that would hang has timed out at once."""
    from trimtab.errors import ToolError

    name = argv[0].rsplit("/", 1)[-1]
    if name not in (*COMMANDS, "sudo"):
        raise ToolError(f"{argv[0]} was not found", hint="the fake has no such program")
    return result(state, argv, run(state, None, argv), timeout_s)


def result(
    state: FakeLustre, argv: Sequence[str], output: Output, timeout_s: float
) -> ProcessResult:
    """Return an answer as the process that printed it."""
    timed_out = output.hang_s >= timeout_s
    elapsed_s = min(output.hang_s + 0.001, timeout_s)
    started_at = datetime.fromtimestamp(state.now_s, UTC)
    return ProcessResult(
        argv=tuple(argv),
        stdout=output.stdout.encode("utf-8", "surrogateescape"),
        stderr=output.stderr.encode("utf-8", "surrogateescape"),
        exit_code=None if timed_out else output.exit_code,
        signal=9 if timed_out else None,
        started_at=started_at,
        elapsed_s=elapsed_s,
        timeout_s=timeout_s,
        timed_out=timed_out,
    )
