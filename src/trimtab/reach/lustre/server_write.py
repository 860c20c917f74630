"""Sends instructions to the servers of a site, and parses the result of each."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trimtab.base.action import Outcome
from trimtab.base.error import Message, ToolError, visible
from trimtab.base.site import Servers
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.reach.lustre.server_answer import program_of, why_ended
from trimtab.reach.lustre.server_query import sudo_of
from trimtab.reach.lustre.writer import ACT_FORMAT
from trimtab.reach.process import ProcessResult, execute

_PARTS: Final = (
    "collector_tree.py",
    "collector.py",
    "write_table.py",
    "writer_machine.py",
    "writer_order.py",
    "writer.py",
)
_OUTPUT_LIMIT_BYTES: Final = 16 * 2**20
_GRACE_S: Final = 20.0
"""Time for ssh on top of the server's deadline; a hanging command has its own seconds."""
_NEVER_LOGGED_IN: Final = re.compile(
    r"^ssh: |Permission denied|Host key verification failed|Connection refused|No route to host"
    r"|Could not resolve|REMOTE HOST IDENTIFICATION|Too many authentication failures"
    r"|Connection timed out|Operation timed out|kex_exchange_identification",
    re.MULTILINE,
)
_NO_PYTHON: Final = frozenset({126, 127})


@dataclass(frozen=True, slots=True)
class InstructionResult:
    """The result of one instruction on one server.

    Attributes
    ----------
    server
        The server it was for.
    outcome
        Its outcome.
    detail
        The reason: its code and the system's message.
    found
        The value read back, or the bytes of a trim; ``None`` if unknown.
    wrote
        Whether anything may have been written.
    ranges
        For a trim: start, length and trimmed bytes of each range.
    next_start
        For a stopped trim: where to continue.
    id
        Id by which the change is confirmed.
    armed
        Whether the server reverts it unless it is confirmed.
    before
        For a permanent setting: its previous permanent value, empty if it had none.
    """

    server: str
    outcome: Outcome
    detail: Message
    found: str | None = None
    wrote: bool = False
    ranges: tuple[tuple[int, int, int], ...] = ()
    next_start: int | None = None
    id: str | None = None
    armed: bool = False
    before: str | None = None

    @property
    def done(self) -> bool:
        """Whether the value read back is the wanted one."""
        return self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True)
class ServerWriter:
    """The right to write on the servers of a site, as one holder of its lease.

    Attributes
    ----------
    token
        The fencing token of the lease: servers refuse a lower token than they have seen.
    who
        The acting user and host, for the servers' logs.
    dead_man_s
        Seconds after which a server reverts an unconfirmed setting; ``None``: never.
    """

    servers: Servers
    file_system: str
    token: int
    who: str
    dead_man_s: float | None = None
    fan_out: FanOut = reach

    def act(
        self,
        server: str,
        instructions: Sequence[Mapping[str, Any]],
        *,
        timeout_s: float | None = None,
        go_on: bool = False,
        here: bool = False,
    ) -> tuple[InstructionResult, ...]:
        """Carry out instructions on a server, in order; return a result for each.

        Parameters
        ----------
        timeout_s
            Deadline of all together; ``None``: the site's deadline for a server.
        go_on
            Whether to try the rest after an instruction that failed.
        here
            Whether ``server`` is this host, a client whose settings are written.
        """
        deadline_s = timeout_s or self.servers.timeout_s
        orders = [{"id": secrets.token_hex(16), **instruction} for instruction in instructions]
        request = {
            "format": ACT_FORMAT,
            "file_system": self.file_system,
            "token": self.token,
            "who": re.sub(r"[^A-Za-z0-9@._-]", "_", self.who)[:80] or "unknown",
            "sudo": sudo_of(self.servers),
            "deadline_s": deadline_s,
            "dead_man_s": self.dead_man_s,
            "go_on": go_on,
            "instructions": orders,
        }
        argv = (self.servers.python, "-I", "-S", "-")
        stdin, timeout_s = program(request), deadline_s + _GRACE_S
        try:
            if here or self.servers.reach == "local":
                result = execute(argv, stdin=stdin, timeout_s=timeout_s)
            else:
                result = self.fan_out(
                    (server,),
                    argv,
                    ssh=self.servers.ssh,
                    timeout_s=timeout_s,
                    stdin=stdin,
                    output_limit_bytes=_OUTPUT_LIMIT_BYTES,
                )[server]
        except ToolError as error:
            reason = Message(error.code, error.message)
            return tuple(
                InstructionResult(server, Outcome.UNREACHABLE, reason) for _ in instructions
            )
        results = parse_answer(server, len(orders), result)
        pairs = zip(results, orders, strict=True)
        return tuple(replace(result, id=order["id"]) for result, order in pairs)


def program(request: Mapping[str, Any]) -> bytes:
    """Return the program for a server's Python: the writing program with its request."""
    return program_of(_PARTS, "act", request)


@dataclass(slots=True)
class _AnswerLines:
    """The lines of an answer, by instruction."""

    hello: bool = False
    over: Mapping[str, Any] | None = None
    begun: set[int] = field(default_factory=set)
    ended: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    ranges: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)


def parse_answer(server: str, count: int, result: ProcessResult) -> tuple[InstructionResult, ...]:
    """Return the result of each of ``count`` instructions, from a server's answer.

    Without an "ended" line the result is unknown, unless the program finished or never started.
    Invalid lines are skipped: they prove nothing.
    """
    lines = _read(result.stdout)
    return tuple(_result(server, n, lines, result) for n in range(count))


def _read(stdout: bytes) -> _AnswerLines:
    lines = _AnswerLines()
    # The last line may have been cut: without a line feed it does not count.
    for content in stdout.split(b"\n")[:-1]:
        try:
            line = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if not isinstance(line, dict):
            continue
        n = line.get("n")
        if line.get("act") == ACT_FORMAT:
            lines.hello = True
        elif line.get("over") is True:
            lines.over = line
        elif not isinstance(n, int):
            continue
        elif line.get("ended") is True:
            lines.ended[n] = line
        elif line.get("begun") is True:
            lines.begun.add(n)
        elif isinstance(line.get("range"), list):
            start, length, trimmed = (int(number) for number in line["range"])
            lines.ranges.setdefault(n, []).append((start, length, trimmed))
    return lines


def _result(server: str, n: int, lines: _AnswerLines, result: ProcessResult) -> InstructionResult:
    ranges = tuple(lines.ranges.get(n, ()))
    line = lines.ended.get(n)
    if line is not None:
        try:
            outcome = Outcome(line["outcome"])
            detail = Message(str(line["code"]), visible(str(line["detail"])))
        except (KeyError, ValueError):
            reason = Message("answer-invalid", f"{server} returned an invalid outcome")
            return InstructionResult(server, Outcome.UNKNOWN, reason, wrote=True, ranges=ranges)
        current = line.get("found")
        return InstructionResult(
            server,
            outcome,
            detail,
            found=None if current is None else str(current),
            wrote=n in lines.begun and outcome.wrote and line.get("wrote") is not False,
            ranges=ranges,
            next_start=line.get("next_start"),
            armed=line.get("armed") is True,
            before=None if line.get("before") is None else str(line["before"]),
        )
    if lines.over is not None and lines.over.get("refused"):
        code, text = str(lines.over["refused"]), visible(str(lines.over.get("detail")))
        return InstructionResult(server, Outcome.REFUSED, Message(code, text))
    if lines.over is not None:
        reason = Message("stopped-before", "an earlier instruction failed")
        return InstructionResult(server, Outcome.SKIPPED, reason)
    why = why_ended(result) or "it ended without a message"
    if not lines.hello and _never_began(result):
        return InstructionResult(server, Outcome.UNREACHABLE, Message("server-unreachable", why))
    following = ranges[-1][0] + ranges[-1][1] if ranges else None
    reason = Message("answer-cut", f"the answer of {server} is incomplete: {why}")
    return InstructionResult(
        server, Outcome.UNKNOWN, reason, wrote=True, ranges=ranges, next_start=following
    )


def _never_began(result: ProcessResult) -> bool:
    """Return whether certainly nothing ran there; a lost connection proves nothing."""
    if result.not_started is not None:
        return True
    if result.timed_out or result.truncated or result.signal is not None or result.stdout:
        return False
    complaint = result.stderr.decode("utf-8", "replace")
    if result.exit_code == 255:
        return _NEVER_LOGGED_IN.search(complaint) is not None
    return result.exit_code in _NO_PYTHON
