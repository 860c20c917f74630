"""Builds the program that collects from a server, and makes its answer readable like a `Host`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import RefusedError, ToolError, visible
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.reach.host import LIMIT_BYTES, Host
from trimtab.reach.lustre.collector import FORMAT
from trimtab.reach.lustre.collector_tree import BLOCK_NAMES, NAMED_DIRECTORIES, NEVER_OPENED
from trimtab.reach.process import ProcessResult

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
class ServerAnswer:
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
        name means all remaining files.
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
    package = Path(__file__).parent
    parts = [(package / name).read_text("ascii") for name in names]
    return "\n".join(OWN_IMPORT.sub("", part) for part in parts).encode("ascii")


def parse_answer(node: str, result: ProcessResult) -> ServerAnswer:
    """Return the answer of a server, or a problem that quotes its output; never an error.

    A login shell may print text around the answer. A partial answer is discarded: what it lacks
    would look as if it did not exist.
    """
    start = result.stdout.find(_MARK)
    if start < 0:
        return ServerAnswer(node, problem=_instead(result))
    end = result.stdout.find(b"\n", start)
    line = result.stdout[start : end if end >= 0 else None]
    if result.stdout.find(_MARK, start + len(line)) >= 0:
        return ServerAnswer(node, problem="the output has two answers")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        cut = end < 0
        problem = f"the answer was cut after {len(line)} bytes" if cut else "the answer is not JSON"
        return ServerAnswer(node, problem=f"{problem}{_because(result)}")
    try:
        return _answer(node, value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return ServerAnswer(node, problem=f"the answer has the wrong format: {_short(str(error))}")


def _answer(node: str, value: dict[str, Any]) -> ServerAnswer:
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']!r}, not {FORMAT}")
    if value["end"] is not True:
        raise ValueError("it has no end marker")
    return ServerAnswer(
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


_NOT_NAMES: Final = frozenset({"", ".", ".."})
_REST: Final = ""
"""The name under which an answer gives the reason why all further files are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedHost(Host):
    """A machine as seen through one answer of its collector.

    Distinguishes three cases: what exists, what was looked for and does not exist, and what was not
    looked for, or not completely. Only the second proves absence.

    Attributes
    ----------
    answer
        The answer.
    request
        The request: what was requested and is missing does not exist.
    """

    answer: ServerAnswer
    request: Mapping[str, Any]
    _requested: _Requested = field(init=False, compare=False, repr=False)
    _targets: frozenset[str | None] = field(init=False, compare=False, repr=False)
    _places: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _above_files: set[str] = field(default_factory=set, compare=False, repr=False)
    _commands: dict[tuple[str, ...], CommandAnswer] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        kinds = ("files", "links", "directories")
        patterns = tuple(pattern for kind in kinds for pattern in self.request.get(kind) or ())
        object.__setattr__(self, "_requested", _sorted_out(patterns))
        object.__setattr__(self, "_targets", frozenset(self.answer.links.values()))

    @property
    def is_this_one(self) -> bool:
        """True: `execute` answers for the tools that ran there."""
        return bool(self.request.get("commands"))

    def path(self, path: str) -> Path:
        """Refuse: files of another machine have no local path."""
        raise RefusedError(f"{path} is on {self.answer.node}", code="file-on-another-host")

    def exists(self, path: str) -> bool:
        """Return whether the path exists, following links."""
        place = self._place(path)
        answer = self.answer
        if answer.links.get(place, "") is None:
            return False
        above, _, name = place.rpartition("/")
        names = answer.directories.get(above)
        if names is not None:
            return name in names
        if place in answer.files or place in answer.directories or place in self._targets:
            return True
        # What could not be read exists.
        if path in answer.files or path in answer.skipped or place in answer.skipped:
            return bool(path)
        return place.rstrip("/") in self._above_files

    def read_text(self, path: str, *, limit_bytes: int = LIMIT_BYTES) -> str | NotAvailable:
        """Return the text of a file, stripped of the newline at its end, or why there is none.

        Raises
        ------
        RefusedError
            Reading the file does harm by itself.
        """
        files = self.answer.files
        # Mostly called with real paths, a hundred thousand times for a large site.
        text = files.get(path)
        if text is None:
            if path.rpartition("/")[2] in NEVER_OPENED:
                raise RefusedError(
                    f"{path} is never opened: reading it loads every block group",
                    code="file-never-read",
                )
            text = files.get(self._place(path))
            if text is None:
                return self._missing(path)
        # Encode only if it could matter: a character has at most four bytes.
        if len(text) * 4 > limit_bytes and len(_encoded(text)) > limit_bytes:
            return not_available("file-too-long", f"{path} is longer than {limit_bytes} bytes")
        return text.rstrip("\n")

    def write_text(self, path: str, value: str) -> OSError | None:
        """Refuse: collected files cannot be written."""
        raise RefusedError(f"{path} on {self.answer.node} is read-only here", code="file-read-only")

    def list_directory(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the names in a directory, sorted, or why there are none."""
        names = self.answer.directories.get(self._place(path), self.answer.directories.get(path))
        return self._missing(path) if names is None else names

    def resolve(self, path: str) -> str | NotAvailable:
        """Resolve every link of a path, as on that machine."""
        place = self._place(path)
        return place if self.exists(place) else self._missing(path)

    def modified_at_s(self, path: str) -> float | NotAvailable:
        """Return a file's modification time in seconds since 1970, or why it is unknown."""
        at_s = self.answer.times.get(path)
        return self._missing(path) if at_s is None else at_s

    def execute(self, argv: Sequence[str], *, timeout_s: float, **_options: Any) -> ProcessResult:
        """Return the result of a command that ran there, as `trimtab.reach.process.execute` does.

        Raises
        ------
        ToolError
            It did not run: not requested, not installed, or no time left.
        """
        if not self._commands:
            sudo = tuple(self.request.get("sudo") or ())
            for command in self.answer.commands:
                with_sudo = command.argv[: len(sudo)] == sudo
                self._commands[command.argv[len(sudo) if with_sudo else 0 :]] = command
        words = " ".join(argv)
        command = self._commands.get(tuple(argv))
        if command is None:
            late = next((why for name, why in self.answer.skipped.items() if words in name), None)
            raise ToolError(
                late or f"{words} was not collected from {self.answer.node}",
                code="command-not-collected",
            )
        if command.error is not None:
            raise ToolError(
                f"{words} could not be started: {command.error}", code="program-not-started"
            )
        return _result_of(command, self.answer, timeout_s)

    def _place(self, path: str) -> str:
        """Resolve the collected links of a path."""
        above, _, name = path.rpartition("/")
        if name in _NOT_NAMES:
            return self._directory(path)
        if not self._above_files:
            self._above_files.update(_all_above(self.answer.files))
        # Files are collected from real directories.
        place = path if above in self._above_files else f"{self._directory(above)}/{name}"
        return self.answer.links.get(place) or place

    def _directory(self, path: str) -> str:
        """As `_place`, but cached; the root is the empty string."""
        place = self._places.get(path)
        if place is None:
            above, _, name = path.rstrip("/").rpartition("/")
            if name == "..":
                place = self._directory(above).rpartition("/")[0]
            elif name in _NOT_NAMES:
                place = self._directory(above) if above else ""
            else:
                place = f"{self._directory(above)}/{name}"
                place = self.answer.links.get(place) or place
            self._places[path] = place
        return place

    def _missing(self, path: str) -> NotAvailable:
        skipped = self.answer.skipped
        # Everything of a block device was looked for: the most frequent case, so keep it short.
        if (
            self.answer.whole
            and not skipped
            and path.startswith("/sys/")
            and path.rpartition("/")[2] in BLOCK_NAMES
            and self.request.get("block_devices")
        ):
            return not_available("file-missing", f"{path} does not exist")
        place = self._place(path)
        reason = skipped.get(path) or skipped.get(place)
        if reason is not None:
            return NotAvailable(reason)
        if not self.answer.whole:
            return not_available(
                "file-not-collected", f"{path} was not collected: {self.answer.problem}"
            )
        # What the reader did not get to may exist.
        if _REST in skipped:
            return not_available(
                "file-not-collected", f"{path} was not collected: {skipped[_REST]}"
            )
        if self._absent(path, place):
            return not_available("file-missing", f"{path} does not exist")
        return not_available("file-not-collected", f"{path} was not collected")

    def _absent(self, path: str, place: str) -> bool:
        """Return whether it was looked for: only then absence means that it does not exist."""
        above, _, name = place.rpartition("/")
        names = self.answer.directories.get(above)
        if names is not None and name not in names:
            return True
        if self.answer.links.get(place, "") is None:
            return True
        if self.request.get("block_devices") and (
            path in NAMED_DIRECTORIES or (place.startswith("/sys/") and name in BLOCK_NAMES)
        ):
            return True
        if self._requested.holds(path):
            return True
        return above != "" and not self.exists(above) and self._absent(above, above)


@dataclass(frozen=True, slots=True)
class _Requested:
    """The paths that a request names, and its patterns combined."""

    exact: frozenset[str]
    pattern: re.Pattern[str]

    def holds(self, path: str) -> bool:
        """Return whether the path was requested; a star matches within one path component."""
        return path in self.exact or self.pattern.fullmatch(path) is not None


def _all_above(paths: Iterable[str]) -> set[str]:
    """Return every directory above any of the paths; the root is the empty string."""
    directories = {""}
    waiting = {path.rpartition("/")[0] for path in paths}
    while waiting:
        directories |= waiting
        waiting = {above.rpartition("/")[0] for above in waiting} - directories
    return directories


@lru_cache(maxsize=16)
def _sorted_out(paths: tuple[str, ...]) -> _Requested:
    wild = [path for path in paths if re.search(r"[*?\[]", path)]
    # Without any pattern: an expression that never matches.
    either = "|".join(map(_expression, wild)) or "(?!)"
    return _Requested(frozenset(paths).difference(wild), re.compile(either, re.DOTALL))


def _expression(glob: str) -> str:
    """Return a path glob as a regular expression; wildcards never match a slash."""
    signs = re.findall(r"\[!?[^\]/]+\]|.", glob, re.DOTALL)
    special = {"*": "[^/]*", "?": "[^/]"}
    return "".join(
        special.get(sign) or (sign.replace("[!", "[^", 1) if len(sign) > 1 else re.escape(sign))
        for sign in signs
    )


def _result_of(command: CommandAnswer, answer: ServerAnswer, timeout_s: float) -> ProcessResult:
    return ProcessResult(
        argv=command.argv,
        stdout=_encoded(command.stdout),
        stderr=_encoded(command.stderr),
        exit_code=command.exit_code,
        signal=command.signal,
        started_at=datetime.fromtimestamp(answer.started_at_s, UTC),
        elapsed_s=command.elapsed_s,
        timeout_s=timeout_s,
        timed_out=command.timed_out,
        truncated=command.truncated,
        abandoned=command.exit_code is None and command.signal is None,
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
