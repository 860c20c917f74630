"""Runs calls that may hang in disposable children, and writes reports, complete or not at all.

::

    question ──> child calls it ──> answer or error ──> ends ──────────────> collected
                     │                                    └─ cannot end ──> left behind
                     └─ deadline, interruption ──> killed, not waited for ──> left behind

A call to a lost server blocks until the server is back, and no signal ends it. So only the child
hangs, "did not answer in 5 s" is a result, and a killed child disappears when the server is back
(`trimtab.reach.process`).

Paths of the file system under test are accessed only from here: for each request, a child calls a
function of `trimtab.reach.touch`. An abandoned request may still take effect when the file system
recovers, so a caller that creates a directory chooses its name first and later removes that name,
whatever the result was.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from trimtab.base.error import (
    Message,
    NoAnswer,
    RefusedError,
    ToolError,
    TrimtabError,
    UnreadableError,
    UsageError,
    system_errors,
    visible,
)
from trimtab.base.trusted_file import written_beside
from trimtab.base.units import format_bytes
from trimtab.reach import touch
from trimtab.reach.process import Child, input_file, reap
from trimtab.reach.touch import PROBE_PREFIX, PathFailure, PathState, Removal, StatvfsSpace

if TYPE_CHECKING:
    from trimtab.base.run import Run


_Answer = TypeVar("_Answer")

_ROOT: Final = str(Path(__file__).parents[2])
_MAIN: Final = (
    "import sys; sys.path += sys.argv[1:]; from trimtab.reach.child_main import main; main()"
)
_LIMIT_BYTES: Final = 2**30
"""Limit of an answer, which is held in memory."""
_END_S: Final = 2.0
"""Time to exit after the answer."""


def ask_child(
    question: Callable[[], _Answer], path: str, *, deadline_s: float = math.inf
) -> _Answer:
    """Run a call in a child; return its result or raise its exception.

    Parameters
    ----------
    question
        Uses only modules that need nothing but the standard library and Trimtab's core.
    path
        The path it is about, for messages.

    Raises
    ------
    NoAnswer
        No answer in ``deadline_s``.
    ToolError
        The child could not be started, or was killed.
    """
    reap()
    # The child must decode paths like this process. It does not start in the caller's directory,
    # which may be on the hanging file system.
    mode, locale = f"utf8={sys.flags.utf8_mode}", {"LC_ALL": os.environ.get("LC_ALL")}
    argv = (sys.executable, "-I", "-S", "-X", mode, "-c", _MAIN, _ROOT)
    try:
        with input_file(pickle.dumps((question, deadline_s))) as stdin:
            child = Child(
                argv, stdin, timeout_s=deadline_s, limit_bytes=_LIMIT_BYTES, environment=locale
            )
    except OSError as error:
        raise ToolError(
            f"cannot start {sys.executable}: {error.strerror}", code="program-not-started"
        ) from error
    try:
        answered = child.wait(deadline_s, until=lambda: "stdout" not in child.pipes)
        if child.truncated:
            raise ToolError(
                f"the answer about {visible(path)} is larger than {format_bytes(_LIMIT_BYTES)}",
                code="output-limit",
            )
        if not answered:
            raise NoAnswer(
                f"{visible(path)} did not answer in {deadline_s:g} s",
                code="no-answer",
                hint="the file system may be down or overloaded: try ls on it in another shell",
            )
        child.wait(_END_S)
    finally:
        child.collect()
    if not child.stdout or child.code:
        tail = child.stderr.decode("utf-8", "replace").strip()[-300:]
        raise ToolError(
            f"access to {visible(path)} failed ({child.code}): {tail}", code="child-failed"
        )
    answer, error = pickle.loads(child.stdout)
    if error is not None:
        raise error
    return answer


def reason_of(error: OSError | ToolError) -> str:
    """Return why a child did not answer; for a system error only its text."""
    words = error.strerror if isinstance(error, OSError) else None
    return visible(words or str(error))


DEADLINE_S: Final = 10.0
"""A healthy file system answers in milliseconds, a busy one within a few seconds."""

FILES_S: Final = 60.0
"""For a probe's files: removing large ones takes disk time."""
_PART_S: Final = 20.0
"""For removing a part of a tree; a signal may have to wait that long."""

_Arguments = ParamSpec("_Arguments")


def describe(path: str, *, deadline_s: float = DEADLINE_S) -> PathState:
    """Describe a path; a missing one is an answer, not an error.

    Parameters
    ----------
    path
        Relative to the current directory. Undecodable bytes are surrogates.

    Raises
    ------
    NoAnswer
        The file system did not answer in ``deadline_s``.
    UsageError
        The path is empty or contains a NUL.
    """
    return ask(touch.describe, deadline_s, path)


def free_space(path: str) -> StatvfsSpace:
    """Return the space of the file system that ``path`` is on."""
    return ask(touch.free_space, DEADLINE_S, path)


def make_directory(parent: str, name: str) -> str:
    """Create a new directory and return its path.

    Record ``name`` before calling: after `NoAnswer` or an interruption it may exist, or appear
    later.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`, or already exists.
    NoAnswer, TrimtabError
        No answer in time; the system's error (see `error_of`).
    """
    _check_name(name)
    return ask(touch.make_directory, DEADLINE_S, parent, name)


def remove_probe_directory(parent: str, name: str, *, deadline_s: float = FILES_S) -> Removal:
    """Remove a directory that Trimtab created, and the regular files directly in it.

    Never follows links or descends into directories: everything but regular files stays and is
    reported. A missing directory is not an error.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`.
    NoAnswer, TrimtabError
        No answer in time; the system's error.
    """
    _check_name(name)
    return ask(touch.remove_probe_directory, deadline_s, parent, name)


def remove_probe_tree(parent: str, name: str, *, limit_s: float = 1800.0) -> Removal:
    """Remove a directory that Trimtab created, with everything in it.

    For the files of a custom benchmark. Links in it are removed, not followed; mounts in it stay.
    Works in parts of `_PART_S`, each with its own deadline: millions of files take long, but a dead
    file system is detected early.

    Parameters
    ----------
    limit_s
        Time after which the rest stays and is reported.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`.
    NoAnswer, TrimtabError
        No answer in time; the system's error.
    """
    _check_name(name)
    end_s = time.monotonic() + limit_s
    while True:
        work_s = min(_PART_S, max(0.0, end_s - time.monotonic()))
        removal = ask(touch.remove_probe_tree, _PART_S + DEADLINE_S, parent, name, work_s)
        if removal.complete:
            return removal
        if time.monotonic() >= end_s:
            break
    more = f"not everything in it could be removed in {limit_s:g} s"
    return removal._replace(kept=(*removal.kept, (name, Message("removal-unfinished", more))))


def find_files(
    parent: str, name: str, pattern: str, *, limit: int = 100
) -> tuple[tuple[str, str], ...]:
    """Return relative path and kind of a probe directory's files that match, sorted.

    Parameters
    ----------
    pattern
        Names with ``*``, ``?`` and ``[]``, and ``**`` for any number of directories.

    Raises
    ------
    ToolError
        More than ``limit`` matches, or too many entries to search.
    """
    _check_name(name)
    matches = ask(touch.find_files, FILES_S, parent, name, pattern, limit)
    if matches is None:
        raise ToolError(
            f"{visible(pattern)} matches more than {limit} files, or there is too much to search",
            code="too-many-files",
            hint="give a more specific name",
        )
    return tuple(sorted(matches))


def read_files(
    parent: str, name: str, paths: Iterable[str], *, limit_bytes: int
) -> dict[str, bytes]:
    """Return the content of a probe directory's regular files by path, without missing ones.

    Raises
    ------
    ToolError
        Together they are larger than ``limit_bytes``.
    """
    _check_name(name)
    contents, over = ask(touch.read_files, FILES_S, parent, name, tuple(paths), limit_bytes)
    if over is not None:
        raise ToolError(
            f"{visible(over)} and the files read with it exceed {format_bytes(limit_bytes)}",
            code="files-too-large",
        )
    return contents


def file_sizes(directory: str, *, limit: int = 100_000) -> dict[str, int]:
    """Return the size in bytes of each regular file directly in a directory, by name.

    Raises
    ------
    ToolError
        More than ``limit`` files.
    """
    sizes = ask(touch.file_sizes, DEADLINE_S, directory, limit)
    if len(sizes) > limit:
        raise ToolError(f"{directory} has more than {limit} files", code="too-many-files")
    return dict(sorted(sizes.items()))


def list_names(
    directory: str, prefix: str = "", *, deadline_s: float = DEADLINE_S, limit: int = 10_000
) -> tuple[str, ...]:
    """Return the names in a directory that start with ``prefix``, sorted, at most ``limit``."""
    return ask(touch.list_names, deadline_s, directory, prefix, limit)


def ask(
    function: Callable[Concatenate[str, _Arguments], _Answer],
    deadline_s: float,
    path: str,
    *arguments: _Arguments.args,
    **named: _Arguments.kwargs,
) -> _Answer:
    """Call a function of `touch` for a path in a child, and return its answer.

    Raises
    ------
    NoAnswer
        No answer in ``deadline_s``.
    TrimtabError
        The system's error, from `error_of`.
    """
    path = absolute(path)
    question = partial(function, path, *arguments, **named)
    try:
        return ask_child(question, path, deadline_s=deadline_s)
    except OSError as error:
        raise error_of(touch.failure(error, function.__name__), path) from error


def absolute(path: str) -> str:
    """Return the absolute path, without resolving links or ``..``.

    ``getcwd`` is answered from the kernel's memory and cannot hang.

    Raises
    ------
    UsageError
        The path is empty or contains a NUL, or the current directory is gone.
    """
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is not a path", code="path-invalid")
    if path.startswith("/"):
        return path
    try:
        return f"{os.getcwd()}/{path}"  # noqa: PTH109 (a plain string, not resolved)
    except OSError as error:
        raise UsageError(
            f"the current directory is gone ({error.strerror})", code="current-directory-gone"
        ) from error


_AS_ANOTHER: Final = "run as a user with permission, or choose another path"
_ERRORS: Final[dict[str, tuple[type[TrimtabError], str, str, str | None]]] = {
    "ENOENT": (UsageError, "path-missing", "{path} does not exist", None),
    "ENOTDIR": (UsageError, "not-a-directory", "{path} is not a directory", None),
    "EACCES": (UsageError, "no-permission", "no permission for {path}", _AS_ANOTHER),
    "EPERM": (UsageError, "not-permitted", "not permitted on {path}", _AS_ANOTHER),
    "EROFS": (
        UsageError,
        "read-only-file-system",
        "{path} is on a read-only file system",
        "mount it read-write",
    ),
    "ELOOP": (UsageError, "link-loop", "{path} is a loop of links", None),
    "ENAMETOOLONG": (UsageError, "name-too-long", "the name {path} is too long", None),
    "EEXIST": (
        RefusedError,
        "name-taken",
        "that name already exists in {path}",
        "remove it or choose another",
    ),
    "ENOSPC": (ToolError, "no-space", "no space left at {path}", "free some space or inodes"),
    "EDQUOT": (
        ToolError,
        "quota-exceeded",
        "the quota at {path} is used up",
        "free some space or raise the quota",
    ),
    "EIO": (
        ToolError,
        "io-error",
        "I/O error on {path}",
        "see the kernel log (dmesg)",
    ),
    "ESTALE": (
        ToolError,
        "stale-handle",
        "{path} is a stale handle of a network file system",
        "mount it again",
    ),
    "ENOTCONN": (ToolError, "server-gone", "the server of {path} is gone", "mount it again"),
}


def error_of(failure: PathFailure, path: str) -> TrimtabError:
    """Return the exception for a system error about a path, with a hint."""
    unknown = (ToolError, "path-failed", "{path} failed", None)
    kind, code, text, hint = _ERRORS.get(failure.name, unknown)
    message = text.replace("{path}", visible(path))
    details = f"{failure.operation}: {failure.message}, {failure.name}"
    return kind(f"{message} ({details})", code=code, hint=hint)


def _check_name(name: str) -> None:
    if not touch.is_probe_name(name):
        raise RefusedError(
            f"{visible(name)!r} is not the name of a probe directory",
            code="probe-directory-name",
            hint=f"Trimtab creates and removes only directories named {PROBE_PREFIX}...",
        )


def check_report_path(path: Path, *, deadline_s: float = DEADLINE_S) -> None:
    """Return if a report can be written to ``path``; check before a minute of measuring.

    ``path`` may be on a file system that hangs: a throw-away child looks at it, and nothing else
    does before that child has answered.

    Raises
    ------
    UsageError
        The directory is missing, or ``path`` is a directory, a device or a pipe.
    NoAnswer
        The file system did not answer in ``deadline_s``.
    """
    state = describe(os.fspath(path), deadline_s=deadline_s)
    if state.exists:
        if state.kind != "file":
            kind = "a directory" if state.kind == "directory" else "not a regular file"
            raise UsageError(
                f"{visible(os.fspath(path))} is {kind}",
                code="not-a-file",
                hint="give a file name that ends in .html",
            )
    elif state.failure is not None and state.failure.name not in {"ENOENT", "ENOTDIR"}:
        raise error_of(state.failure, state.path)
    # A link's target file is replaced, so its directory counts. Every path component answered
    # above.
    directory = os.path.dirname(os.path.realpath(state.path))  # noqa: PTH120 (a plain string)
    _check_directory(directory, deadline_s)


def _check_directory(directory: str, deadline_s: float) -> None:
    state = describe(directory, deadline_s=deadline_s)
    if state.kind == "directory":
        return
    if state.kind is not None:
        raise UsageError(
            f"{visible(directory)} is not a directory",
            code="not-a-directory",
            hint="give another path",
        )
    if state.failure is not None and state.failure.name not in {"ENOENT", "ENOTDIR"}:
        raise error_of(state.failure, directory)
    raise UsageError(
        f"the directory {visible(directory)} does not exist",
        code="directory-missing",
        hint="create it",
    )


def report_path(named: str | None, directory: Path, *, site: str | None, path: str) -> Path:
    """Return where the report of a check goes, and refuse at once what cannot be written there.

    Parameters
    ----------
    named
        The file that a person named; ``None``: one in ``directory``, after the site or the path.

    Raises
    ------
    UsageError, NoAnswer
        As `check_report_path`.
    UnreadableError
        The directory cannot be created.
    """
    import hashlib

    if named is not None:
        check_report_path(Path(named))
        return Path(named)
    problem = f"{directory} cannot be created"
    with system_errors(problem, code="cannot-write", hint="name a file with --out"):
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    # Two paths may read alike once their signs are gone: the hash keeps them apart.
    identity = hashlib.sha256(os.fsencode(f"{site}:{path}")).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9]+", "-", site or path).strip("-") or "root"
    return directory / f"{words[:100]}-{identity}.html"


def report_of(report: Path, run: Run | None, *, named: bool = False) -> Path:
    """Return where the report of a check goes that may have measured nothing.

    The report of the last check that did is worth more: it is not written over. A file that a
    person named is written as named unless there is one already.
    """
    if named and not report.exists():
        return report
    measured = run is not None and any(sample.believed for sample in run.samples)
    return report if measured else report.with_stem(f"{report.stem}-inspection")


def write_report(path: Path, page: str | bytes) -> None:
    """Write a page to ``path`` atomically: either the old or the new file exists at any moment.

    A symbolic link stays; its target file is replaced.

    Raises
    ------
    UsageError
        ``path`` cannot hold a report (see `check_report_path`).
    NoAnswer
        Its file system does not answer.
    UnreadableError
        It could not be written: no space, no permission, a read-only file system.
    """
    check_report_path(path)
    target = path.resolve()
    data = page.encode("utf-8") if isinstance(page, str) else page
    try:
        with written_beside(target, data) as temporary:
            temporary.replace(target)
    except OSError as error:
        raise UnreadableError(
            f"the report could not be written to {visible(os.fspath(path))}: "
            f"{error.strerror or error}",
            code="report-not-written",
            hint="give another file",
        ) from error
