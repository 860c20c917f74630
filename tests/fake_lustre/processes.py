"""Drop-ins for the functions that start processes, answering in this one, in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from trimtab.reach.process import ProcessResult

from . import faults
from .acting import act
from .answering import answer_request, request_of
from .commands import COMMANDS, run
from .state import FakeLustre, Output


def execute(
    state: FakeLustre, argv: Sequence[str], *, timeout_s: float, **options: Any
) -> ProcessResult:
    """Return how a command ran on the client; one that would hang has timed out at once."""
    from trimtab.base.error import ToolError

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


def fan_out(
    state: FakeLustre,
    nodes: Sequence[str],
    argv: Sequence[str],
    *,
    ssh: object = None,
    timeout_s: float,
    stdin: bytes = b"",
    output_limit_bytes: int = 64 * 2**20,
) -> dict[str, ProcessResult]:
    """Return for every server how the command ended there: the collector, or one of the fake's."""
    if state.faults:  # what moves and who dies may change from one node to the next
        return {one: _one(state, one, argv, timeout_s, stdin, output_limit_bytes) for one in nodes}
    with state.frozen():
        return {one: _one(state, one, argv, timeout_s, stdin, output_limit_bytes) for one in nodes}


def _one(
    state: FakeLustre,
    node: str,
    argv: Sequence[str],
    timeout_s: float,
    stdin: bytes,
    limit_bytes: int,
) -> ProcessResult:
    server = state.machine(node)
    if server is None:
        unknown = f"ssh: Could not resolve hostname {node}: Name or service not known\r\n"
        return result(state, argv, Output("", unknown, 255), timeout_s)
    if server.dead:
        gone = f"ssh: connect to host {node} port 22: No route to host\r\n"
        return result(state, argv, Output("", gone, 255), timeout_s)
    host = server.name
    happening = faults.due(state, host, "ssh")
    if any(fault.kind == "hang" and fault.seconds >= timeout_s for fault in happening):
        return result(state, argv, Output(hang_s=timeout_s), timeout_s)
    found = request_of(stdin) if stdin else None
    if found is not None and "instructions" in found[1]:
        output = act(state, host, found[1])
        for fault in happening:
            faults.spoil(state, host, fault, output)
        return result(state, argv, output, timeout_s)
    if found is not None and not happening:
        content = answer_request(state, host, *found)
        return _of_bytes(state, argv, content, timeout_s, limit_bytes)
    if found is not None:
        output = Output(answer_request(state, host, *found).decode("ascii"))
    else:
        output = run(state, host, argv)
    for fault in happening:
        faults.spoil(state, host, fault, output)
        if fault.kind == "die":
            output.stderr += f"client_loop: send disconnect: Connection to {node} closed.\r\n"
    return result(state, argv, output, timeout_s)


def _of_bytes(
    state: FakeLustre, argv: Sequence[str], content: bytes, timeout_s: float, limit_bytes: int
) -> ProcessResult:
    truncated = len(content) > limit_bytes
    return ProcessResult(
        argv=tuple(argv),
        stdout=content[:limit_bytes],
        stderr=b"",
        exit_code=None if truncated else 0,
        signal=9 if truncated else None,
        started_at=datetime.fromtimestamp(state.now_s, UTC),
        elapsed_s=0.01,
        timeout_s=timeout_s,
        truncated=truncated,
    )
