"""Builds the program that is sent to a server, and parses its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

from trimtab.drivers.lustre.collector import FORMAT
from trimtab.launch.process import ProcessResult
from trimtab.visible import visible

_PARTS: Final = ("collector_tree.py", "collector.py")
_MARK: Final = b'{"format":'
"""Start of an answer; inside its strings every quotation mark is escaped."""

OWN_IMPORT: Final = re.compile(r"^from trimtab\.\S+ import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The result of one command of a request on a server.

    Attributes
    ----------
    key
        Key of the command in the request; the commands for all drives share it.
    argv
        As run, including sudo.
    stdout, stderr
        Only the lines that the request keeps; undecodable bytes are surrogates.
    exit_code, signal
        Both ``None`` if it could not be killed or not be started (see ``error``).
    error
        The system's error if it could not be started.
    """

    key: str
    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    truncated: bool
    elapsed_s: float
    first_line: str | None
    error: str | None

    @property
    def complete(self) -> bool:
        """Whether its output is complete, whatever its exit code."""
        over = self.exit_code is not None or self.signal is not None
        return over and not self.timed_out and not self.truncated and self.error is None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one server.

    Attributes
    ----------
    node
        The name under which it was queried.
    host
        Its own host name; ``None`` without an answer.
    files, links, directories
        Path to text, to link target (``None``: dangling), to sorted names.
    times
        Path to modification time, in seconds since 1970.
    commands
        In the request's order.
    skipped
        Path or command to the reason it is missing: a limit, the deadline, a permission. The empty
        name stands for all remaining files.
    problem
        Why there is no answer; if set, everything else is empty.
    whole
        Whether the answer is complete; a partial one is never used.
    euid
        Effective user id there; 0 is root.
    started_at_s
        Start time by that machine's clock, in seconds since 1970.
    """

    node: str
    host: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str | None] = field(default_factory=dict)
    directories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    commands: tuple[CommandAnswer, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    whole: bool = False
    euid: int | None = None
    started_at_s: float = 0.0
    elapsed_s: float | None = None

    def command(self, key: str) -> CommandAnswer | None:
        """Return the first command with that key, ``None`` if there is none."""
        return next((command for command in self.commands if command.key == key), None)


def program(request: Mapping[str, Any]) -> bytes:
    """Return the program for a server's Python: the collector with its request."""
    return program_of(_PARTS, "main", request)


def program_of(parts: tuple[str, ...], call: str, request: Mapping[str, Any]) -> bytes:
    """Join files of this package into one program that calls a function with a request."""
    text = json.dumps(request, ensure_ascii=True, separators=(",", ":"))
    return _joined(parts) + f"\n{call}({text!r})\n".encode("ascii")


@cache
def _joined(names: tuple[str, ...]) -> bytes:
    """Join the files, without their imports of one another."""
    package = files("trimtab.drivers.lustre")
    parts = [(package / name).read_text("ascii") for name in names]
    return "\n".join(OWN_IMPORT.sub("", part) for part in parts).encode("ascii")


def parse_answer(node: str, result: ProcessResult) -> Answer:
    """Return the answer of a server, or a problem that quotes its output; never an error.

    A login shell may print text around the answer. A partial answer is discarded: what it lacks
    would look as if it did not exist.
    """
    start = result.stdout.find(_MARK)
    if start < 0:
        return Answer(node, problem=_instead(result))
    end = result.stdout.find(b"\n", start)
    line = result.stdout[start : end if end >= 0 else None]
    if result.stdout.find(_MARK, start + len(line)) >= 0:
        return Answer(node, problem="the output has two answers")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        cut = end < 0
        problem = f"the answer was cut after {len(line)} bytes" if cut else "the answer is not JSON"
        return Answer(node, problem=f"{problem}{_because(result)}")
    try:
        return _answer(node, value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Answer(node, problem=f"the answer has the wrong format: {_short(str(error))}")


def _answer(node: str, value: dict[str, Any]) -> Answer:
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']!r}, not {FORMAT}")
    if value["end"] is not True:
        raise ValueError("it has no end marker")
    return Answer(
        node=node,
        host=_of(str, value["host"]),
        files=_mapping(value["files"], str),
        links=_mapping(value["links"], str, type(None)),
        directories={
            path: _texts(names) for path, names in _of(dict, value["directories"]).items()
        },
        times={path: float(at) for path, at in _mapping(value["times"], int, float).items()},
        commands=tuple(_command(command) for command in _of(list, value["commands"])),
        skipped={_of(str, name): _of(str, reason) for name, reason in _of(list, value["skipped"])},
        whole=True,
        euid=_number(value["euid"]),
        started_at_s=float(_number(value["started"], float)),
        elapsed_s=float(_number(value["elapsed_s"], float)),
    )


def _command(value: dict[str, Any]) -> CommandAnswer:
    return CommandAnswer(
        key=_of(str, value["key"]),
        argv=_texts(value["argv"]),
        stdout=_of(str, value["stdout"]),
        stderr=_of(str, value["stderr"]),
        exit_code=None if value["exit_code"] is None else _number(value["exit_code"]),
        signal=None if value["signal"] is None else _number(value["signal"]),
        timed_out=_of(bool, value["timed_out"]),
        truncated=_of(bool, value["truncated"]),
        elapsed_s=float(_number(value["elapsed_s"], float)),
        first_line=None if value["first_line"] is None else _of(str, value["first_line"]),
        error=None if value["error"] is None else _of(str, value["error"]),
    )


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} where {kind.__name__} belongs")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    _all_of(_of(list, value), str)
    return tuple(value)


def _number(value: Any, *more: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, *more)):
        raise TypeError(f"{value!r:.40} in place of a number")
    return value


def _mapping(value: Any, *kinds: type) -> dict[str, Any]:
    _all_of(_of(dict, value).values(), *kinds)
    return value


def _all_of(values: Collection[Any], *kinds: type) -> None:
    # There are few types, but a hundred thousand values.
    if not {*map(type, values)} <= {*kinds}:
        for value in values:
            if not isinstance(value, kinds):
                raise TypeError(f"{value!r:.40} where {kinds[0].__name__} belongs")


def _instead(result: ProcessResult) -> str:
    """Describe the output that came instead of an answer."""
    if result.problem is not None:
        return f"no answer{_because(result)}"
    printed = result.stdout.strip()
    if not printed:
        return f"nothing came{_because(result)}"
    return f"no answer, but the output {_short(printed.decode('utf-8', 'replace'))!r}"


def why_ended(result: ProcessResult) -> str:
    """Return why a program on a server failed; empty if nothing shows it."""
    # ssh and shells print the error last; warnings and banners come first.
    complaints = result.stderr.decode("utf-8", "replace").strip().splitlines()
    reasons = [result.problem, _short(complaints[-1]) if complaints else None]
    return ": ".join(reason for reason in reasons if reason)


def _because(result: ProcessResult) -> str:
    text = why_ended(result)
    return f": {text}" if text else ""


def _short(text: str) -> str:
    return visible(text.strip().splitlines()[0][:160]) if text.strip() else ""
