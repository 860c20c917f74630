"""Writing on the servers of a site: what is sent to one, and what became of each instruction."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trimtab.drivers.lustre.asking import sudo_of
from trimtab.drivers.lustre.collecting import program_of, why_ended
from trimtab.drivers.lustre.writer import ACT_FORMAT
from trimtab.errors import ToolError
from trimtab.launch.fleet import FanOut, run_here
from trimtab.launch.fleet import fan_out as reach
from trimtab.launch.process import ProcessResult
from trimtab.message import Message
from trimtab.model.action import Outcome
from trimtab.model.site import Servers
from trimtab.visible import visible

_PARTS: Final = (
    "collector_tree.py",
    "collector.py",
    "writes.py",
    "writer_machine.py",
    "writer_looks.py",
    "writer_permanent.py",
    "writer_changelog.py",
    "writer_trim.py",
    "writer.py",
)
_OUTPUT_LIMIT_BYTES: Final = 16 * 2**20
_GRACE_S: Final = 20.0
"""What ssh may take beyond the deadline there; a command that hangs has its own few seconds."""
_NEVER_LOGGED_IN: Final = re.compile(
    r"^ssh: |Permission denied|Host key verification failed|Connection refused|No route to host"
    r"|Could not resolve|REMOTE HOST IDENTIFICATION|Too many authentication failures"
    r"|Connection timed out|Operation timed out|kex_exchange_identification",
    re.MULTILINE,
)
_NO_PYTHON: Final = frozenset({126, 127})


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one instruction on one server.

    Attributes
    ----------
    server
        Where it was to be done.
    outcome
        What became of it.
    detail
        The code of the reason, and the system's own words.
    found
        The value as read back, or the bytes of a trim; ``None`` where it is not known.
    wrote
        Whether anything may have been written.
    ranges
        Of a trim: start, length and trimmed bytes of each range.
    next_start
        Of a trim that was stopped: where to go on.
    id
        By which a change is confirmed.
    armed
        Whether the server puts it back unless it is confirmed.
    before
        Of a permanent setting: its permanent value before, empty where it had none.
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
        """Whether it reads back as wanted."""
        return self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True)
class Writer:
    """The right to write on the servers of a site, as one holder of its lease.

    Attributes
    ----------
    token
        The fencing token of the lease: servers refuse what comes with a lower one than they saw.
    who
        The user and host that act, for the servers' logs.
    dead_man_s
        After so many seconds a server puts a changed setting back unless it was confirmed;
        ``None``: it stays.
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
    ) -> tuple[Result, ...]:
        """Carry out instructions on a server, in their order: a result for each of them.

        Parameters
        ----------
        timeout_s
            For all of them; the site's deadline of a server where ``None``.
        go_on
            Whether those after one that did not end well are tried as well.
        here
            Whether ``server`` is this very host: a client, whose settings are written too.
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
                result = run_here(argv, stdin=stdin, timeout_s=timeout_s)
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
            return tuple(Result(server, Outcome.UNREACHABLE, reason) for _ in instructions)
        results = parse_answer(server, len(orders), result)
        pairs = zip(results, orders, strict=True)
        return tuple(replace(result, id=order["id"]) for result, order in pairs)


def program(request: Mapping[str, Any]) -> bytes:
    """Return the text that a server's Python reads: the writing program and the request."""
    return program_of(_PARTS, "act", request)


@dataclass(slots=True)
class _Lines:
    """The lines of an answer, by the instruction that they are of."""

    hello: bool = False
    over: Mapping[str, Any] | None = None
    begun: set[int] = field(default_factory=set)
    ended: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    ranges: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)


def parse_answer(server: str, count: int, result: ProcessResult) -> tuple[Result, ...]:
    """Return what became of each of ``count`` instructions, by what a server answered.

    What the answer does not say to have ended is unknown, unless the program came to its end, or
    never began. Lines that make no sense are passed over: they prove nothing.
    """
    lines = _read(result.stdout)
    return tuple(_result(server, n, lines, result) for n in range(count))


def _read(stdout: bytes) -> _Lines:
    lines = _Lines()
    # The last line may have been cut: without its end it is not one.
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


def _result(server: str, n: int, lines: _Lines, result: ProcessResult) -> Result:
    ranges = tuple(lines.ranges.get(n, ()))
    line = lines.ended.get(n)
    if line is not None:
        try:
            outcome = Outcome(line["outcome"])
            detail = Message(str(line["code"]), visible(str(line["detail"])))
        except (KeyError, ValueError):
            reason = Message("answer-invalid", f"{server} answered something else than an outcome")
            return Result(server, Outcome.UNKNOWN, reason, wrote=True, ranges=ranges)
        current = line.get("found")
        return Result(
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
        return Result(server, Outcome.REFUSED, Message(code, text))
    if lines.over is not None:
        reason = Message("stopped-before", "an instruction before it did not end well")
        return Result(server, Outcome.SKIPPED, reason)
    why = why_ended(result) or "it ended without a word"
    if not lines.hello and _never_began(result):
        return Result(server, Outcome.UNREACHABLE, Message("server-unreachable", why))
    following = ranges[-1][0] + ranges[-1][1] if ranges else None
    reason = Message("answer-cut", f"{server} did not answer to the end: {why}")
    return Result(server, Outcome.UNKNOWN, reason, wrote=True, ranges=ranges, next_start=following)


def _never_began(result: ProcessResult) -> bool:
    """Return whether it is certain that nothing ran there; a lost connection proves nothing."""
    if result.not_started is not None:
        return True
    if result.timed_out or result.truncated or result.signal is not None or result.stdout:
        return False
    complaint = result.stderr.decode("utf-8", "replace")
    if result.exit_code == 255:
        return _NEVER_LOGGED_IN.search(complaint) is not None
    return result.exit_code in _NO_PYTHON
