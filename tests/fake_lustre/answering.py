"""The collector's request answered in this process, from the state instead of a machine.

What is asked of files and how output is filtered is the collector's own code, given a tree of
values. What does not change is kept: which files there are, as long as the same targets are on
the same server; and the whole answer, as long as nothing that it tells of has changed. Times
stand in kept text as marks and are filled in at the end.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from trimtab.reach.lustre.collector import EACH_LIMIT, FORMAT, STDERR_LIMIT_BYTES, KeptLines
from trimtab.reach.lustre.collector_tree import (
    LISTED,
    READ,
    PathRefused,
    ServerTree,
    allowed,
    read_one,
    tasks,
)

from .commands import COMMANDS, answer, run
from .state import FakeLustre, Output
from .tree import files, links
from .values import marked, marks, time_text

Node = dict[str, Any]


class ValueTree(ServerTree):
    """The collector's tree, of values."""

    def __init__(self, texts: Mapping[str, str], leading: Mapping[str, str]) -> None:
        super().__init__()
        self.texts = texts
        self.leading = leading
        self.top: Node = {}
        for path in (*texts, *leading):
            directory, name = path.rsplit("/", 1)
            node = self.top
            for part in directory.split("/")[1:]:
                node = node.setdefault(part, {})
            node.setdefault(name, None)

    def real(self, path: str) -> str:
        """Return where a path leads when every link is followed."""
        kept = self._reals.get(path)
        if kept is None:
            kept = self._reals[path] = self._real(path, 0)
        return kept

    def _real(self, path: str, depth: int) -> str:
        if depth > 40:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if path in ("", "/"):
            return "/"
        directory, name = path.rsplit("/", 1)
        above = "" if not directory else self.real(directory).rstrip("/")
        place = f"{above}/{name}"
        leads = self.leading.get(place)
        if leads is not None:
            return self._real(os.path.normpath(f"{above}/{leads}"), depth + 1)
        if place not in self.texts:
            self._node(place)
        return place

    def _node(self, place: str) -> Node:
        node: Any = self.top
        for part in place.split("/")[1:] if place != "/" else ():
            if node is None:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if part not in node:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            node = node[part]
        if node is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return node

    def leads_to(self, path: str) -> str:
        """Return as `real`."""
        return self.real(path)

    def listing(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        allowed(path, LISTED)
        return sorted(self._node(self.real(path)))

    def place(self, path: str) -> str:
        """Return where the text of a path really stands."""
        allowed(path, READ)
        place = self.real(path)
        allowed(place, READ)
        if place not in self.texts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return place

    def text(self, path: str) -> str:
        """Return the text of a file."""
        return self.texts[self.place(path)]

    def changed_at_s(self, path: str) -> float:
        """Return when a file was last changed: none of these ever was."""
        self.place(path)
        return 0.0


@dataclass(slots=True)
class _Shape:
    """What a request asks of one set of files: the same as long as there are the same."""

    tree: ValueTree
    places: list[tuple[str, str]] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    skipped: list[list[str]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)


@lru_cache(maxsize=8)
def request_of(stdin: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the request at the end of what is sent to a server, and its text."""
    lines = stdin.rstrip().rsplit(b"\n", 1)
    match = re.fullmatch(rb"(?:main|act)\((.*)\)", lines[-1], re.DOTALL)
    if match is None:
        return None
    text = ast.literal_eval(match.group(1).decode("ascii"))
    return text, json.loads(text)


def answer_request(state: FakeLustre, host: str, text: str, request: dict[str, Any]) -> bytes:
    """Return the line that the collector would print on a server."""
    if _spoilt(state, host, request):
        return _filled(state, _dumped(_answer(state, host, text, request, run)))
    stamp = _stamp(state, host)
    key = ("answer", host, text)
    kept = state.caches.get(key)
    if kept is None or kept[0] != stamp:
        with marked(state):
            found = _dumped(_answer(state, host, text, request, answer))
        # What was asked may have changed the state: whether an OST counts as full.
        kept = state.caches[key] = (_stamp(state, host), found)
    return _filled(state, kept[1])


def _dumped(found: dict[str, Any]) -> str:
    return json.dumps(found, separators=(",", ":"))


def _filled(state: FakeLustre, text: str) -> bytes:
    for mark, value in marks(state).items():
        text = text.replace(mark, value)
    # The one time that is a number of JSON, not text.
    text = text.replace('"started":"', '"started":', 1).replace('","elapsed_s"', ',"elapsed_s"', 1)
    return text.encode("ascii") + b"\n"


def _spoilt(state: FakeLustre, host: str, request: Mapping[str, Any]) -> bool:
    names = {None, *(command["argv"][0] for command in request["commands"])}
    return any(one.command in names and one.host in (None, host) for one in state.faults)


_GENERAL = (
    *("file_system", "lustre_version", "kernel", "client", "boot", "allocator"),
    *("allocator_counts", "parameters"),
)


def _stamp(state: FakeLustre, host: str) -> tuple[object, ...]:
    """Return what an answer depends on, to be compared."""
    own = state.served_by(host)
    general = [repr(getattr(state, name)) for name in _GENERAL]
    general.append(repr([(one.name, one.server, one.up) for one in own]))
    if any(one.kind == "MDT" for one in own) or state.is_client(host):
        own = state.targets
        general.append(repr(state.dead))
        if state.is_client(host):
            general.append(repr(state.client_written_bytes))
    return (*general, repr(state.server(host)), *map(repr, own))


def _answer(
    state: FakeLustre, host: str, text: str, request: dict[str, Any], runs: Any
) -> dict[str, Any]:
    texts, leading = files(state, host), links(state, host)
    shape = _shape(state, text, request, texts, leading)
    return {
        "format": FORMAT,
        "host": host,
        "euid": state.server(host).euid,
        "started": time_text(state, "@NOW@"),
        "elapsed_s": 0.01,
        "files": {path: texts[place] for path, place in shape.places},
        "links": shape.links,
        "directories": shape.directories,
        "times": shape.times,
        "commands": [_command(state, host, one, runs) for one in shape.commands],
        "skipped": shape.skipped,
        "end": True,
    }


def _shape(
    state: FakeLustre,
    text: str,
    request: dict[str, Any],
    texts: dict[str, str],
    leading: dict[str, str],
) -> _Shape:
    # Servers of one make have the same files: what is asked of one is asked of all.
    key = ("shape", text, frozenset(texts), frozenset(leading.items()))
    kept = state.caches.get(key)
    if kept is not None:
        return kept
    tree = ValueTree(texts, leading)
    shape = _Shape(tree)
    for kind, path in tasks(request, tree):
        try:
            if kind == "files":
                shape.places.append((path, tree.place(path)))
            else:
                value = read_one(tree, kind, path)
                getattr(shape, kind)[path] = value
        except PathRefused as refusal:
            shape.skipped.append([path, str(refusal)])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                shape.skipped.append([path, f"{path}: {os.strerror(error.errno or 0)}"])
    shape.commands = list(_unfolded(request, tree))
    state.caches[key] = shape
    return shape


def _unfolded(request: dict[str, Any], tree: ValueTree) -> list[dict[str, Any]]:
    found = []
    for command in request["commands"]:
        if not command.get("each"):
            found.append(command)
            continue
        wanted = re.compile(command.get("match") or ".*", re.DOTALL)
        matches = [
            path for path in tree.expand(command["each"]) if wanted.fullmatch(path.rsplit("/")[-1])
        ]
        for path in matches[:EACH_LIMIT]:
            words = {"{}": path, "{name}": path.rsplit("/")[-1]}
            argv = [words.get(word, word) for word in command["argv"]]
            found.append({**command, "argv": argv})
    return found


def _command(state: FakeLustre, host: str, command: dict[str, Any], runs: Any) -> dict[str, Any]:
    argv: Sequence[str] = command["argv"]
    known = argv[0] in (*COMMANDS, "sudo")
    output: Output = runs(state, host, tuple(argv)) if known else Output()
    timeout_s = command.get("timeout_s") or 1e9
    timed_out = output.hang_s >= timeout_s
    lines = KeptLines(command, command.get("limit_bytes") or 64 << 20)
    stdout, truncated = _kept(lines, output.stdout, whole=not timed_out)
    return {
        "key": command.get("key"),
        "argv": list(argv),
        "stdout": stdout,
        "stderr": output.stderr[:STDERR_LIMIT_BYTES],
        "exit_code": None if timed_out or not known else output.exit_code,
        "signal": 9 if timed_out else None,
        "timed_out": timed_out,
        "truncated": truncated,
        "elapsed_s": round(min(output.hang_s + 0.001, timeout_s), 6),
        "first_line": lines.first_line,
        "error": None if known else "No such file or directory",
    }


def _kept(lines: KeptLines, stdout: str, *, whole: bool) -> tuple[str, bool]:
    """Return what the collector keeps of an output: as its ``Lines`` do, faster where they can."""
    if len(stdout) > lines.limit_bytes // 4 or not (whole and stdout.isascii()):
        lines.feed(stdout.encode("utf-8", "surrogateescape"))
        lines.finish(whole=whole)
        return "".join(lines.text), lines.truncated
    if lines.wants_first and stdout:
        lines.first_line = stdout.split("\n", 1)[0]
    if lines.keep is None:
        return stdout, False
    search = lines.keep.search
    ended = [f"{line}\n" for line in stdout.split("\n")]
    last = ended.pop()[:-1]
    return "".join([line for line in (*ended, last) if line and search(line)]), False
