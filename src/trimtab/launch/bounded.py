"""Ask about a path on the file system under test without ever hanging on it.

A system call on a dead mount may not return, and the process in it may not even be killable. So
each question is asked by a throw-away child (`touch`), and a child that is late is killed and
abandoned: "did not answer in 5 s" is a result. Nothing else in Trimtab touches such a path.

An abandoned request may still take effect when the file system comes back: a caller that makes a
directory chooses its name first and removes that name later, whatever came of the making.
"""

from __future__ import annotations

import binascii
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trimtab.errors import NoAnswer, RefusedError, ToolError, TrimtabError, UsageError
from trimtab.launch.orphans import abandon, reap
from trimtab.message import Message
from trimtab.units import format_bytes
from trimtab.visible import visible

PROBE_PREFIX: Final = ".trimtab-"
"""What the name of every directory that Trimtab makes starts with; the child insists on it."""

DEADLINE_S: Final = 10.0
"""A healthy file system answers in milliseconds, a busy one in a few seconds."""

_PART_S: Final = 20.0
"""For removing a part of a tree; a signal waits as long."""

_SCRIPT: Final = str(Path(__file__).with_name("touch.py"))
_READ_ONLY_FLAG: Final = 1  # ST_RDONLY of statvfs(3)


@dataclass(frozen=True, slots=True)
class Failure:
    """What the system said: the call that failed, the errno, its name and its text."""

    operation: str
    errno: int
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Space:
    """``statvfs`` of a file system, in its own blocks and inodes.

    Attributes
    ----------
    fragment_size_bytes
        The unit of the three block counts (``f_frsize``).
    blocks_free, blocks_available
        Free at all, and free to people who are not root.
    flags
        ``f_flag``: bit 0 is read-only.
    """

    block_size_bytes: int
    fragment_size_bytes: int
    blocks: int
    blocks_free: int
    blocks_available: int
    inodes: int
    inodes_free: int
    flags: int

    @property
    def capacity_bytes(self) -> int:
        """The size of the file system, reserved blocks included."""
        return self.blocks * self.fragment_size_bytes

    @property
    def used_bytes(self) -> int:
        """What ``df`` prints as used."""
        return (self.blocks - self.blocks_free) * self.fragment_size_bytes

    @property
    def available_bytes(self) -> int:
        """What ``df`` prints as available: reserved blocks left out."""
        return self.blocks_available * self.fragment_size_bytes

    @property
    def read_only(self) -> bool:
        """Whether it is mounted read-only."""
        return bool(self.flags & _READ_ONLY_FLAG)


@dataclass(frozen=True, slots=True)
class PathState:
    """What a path is. What is not known is ``None``, and ``failure`` says which call ended it.

    Attributes
    ----------
    path
        Absolute, as asked.
    exists
        Whether there is something behind it, links followed.
    kind
        ``directory``, ``file``, ``block-device`` ..., ``symlink`` only for a dangling one.
    symlink
        The last component is a link.
    device
        ``major:minor`` of the file system it is on.
    mode
        Permission bits.
    readable, writable, executable
        For this process, with its effective ids; not writable on a read-only file system.
    fs_uuid
        UUID of the file system of a directory, as the kernel has it.
    """

    path: str
    exists: bool
    kind: str | None = None
    symlink: bool | None = None
    real_path: str | None = None
    device: str | None = None
    inode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mode: int | None = None
    readable: bool | None = None
    writable: bool | None = None
    executable: bool | None = None
    space: Space | None = None
    failure: Failure | None = None
    fs_uuid: str | None = None

    @property
    def dangling(self) -> bool:
        """Whether it is a link to nothing."""
        return bool(self.symlink) and not self.exists


@dataclass(frozen=True, slots=True)
class MadeDirectory:
    """A directory that was made, with what identifies it."""

    path: str
    device: str
    inode: int


@dataclass(frozen=True, slots=True)
class Removal:
    """What `remove_probe_directory` or `remove_probe_tree` did.

    Attributes
    ----------
    existed
        False when there was nothing to remove.
    removed
        Whether the directory itself is gone by this call.
    files, removed_bytes
        How many regular files were removed, and the sum of their sizes.
    kept
        Name and reason of what was left; the directory's own name if it could not be removed.
    """

    existed: bool
    removed: bool
    files: int
    removed_bytes: int
    kept: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NameList:
    """Names found in a directory; not complete when there were more than the limit."""

    names: tuple[str, ...]
    complete: bool


def describe(path: str, *, deadline_s: float = DEADLINE_S) -> PathState:
    """Return what a path is; what does not exist is an answer, not an error.

    Parameters
    ----------
    path
        Relative paths start at the current directory. Undecodable bytes as surrogates.

    Raises
    ------
    NoAnswer
        The file system did not answer in ``deadline_s``.
    UsageError
        The path is empty or holds a NUL.
    """
    path = absolute(path)
    value = ask("describe", path, deadline_s=deadline_s)
    value["space"] = _space(value["space"]) if "space" in value else None
    value["failure"] = Failure(**value["failure"]) if "failure" in value else None
    value["real_path"] = _text(value["real_path"]) if "real_path" in value else None
    return PathState(path=path, **value)


def free_space(path: str, *, deadline_s: float = DEADLINE_S) -> Space:
    """Return the space of the file system that ``path`` is on."""
    return _space(ask("free_space", path, deadline_s=deadline_s))


def make_directory(
    parent: str, name: str, *, mode: int = 0o700, deadline_s: float = DEADLINE_S
) -> MadeDirectory:
    """Return a directory that did not exist before.

    Remember ``name`` before calling: after `NoAnswer` or an interruption it may exist, or come
    into existence later.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`, or exists.
    NoAnswer, TrimtabError
        No answer in time; what the system said (see `error_of`).
    """
    _check_name(name)
    value = ask("make_directory", parent, deadline_s=deadline_s, name=_raw(name), mode=mode)
    return MadeDirectory(_text(value["path"]), value["device"], value["inode"])


def remove_probe_directory(
    parent: str, name: str, *, deadline_s: float = 60.0, kept_limit: int = 100
) -> Removal:
    """Remove a directory that Trimtab made, and the regular files directly inside it.

    Links are not followed, directories inside are not descended into: what is not a regular
    file stays and is named. A directory that is gone already is no error. Removing large files
    takes time on the disk, hence the longer deadline.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`.
    NoAnswer, TrimtabError
        No answer in time; what the system said.
    """
    _check_name(name)
    value = ask(
        "remove_probe_directory",
        parent,
        deadline_s=deadline_s,
        name=_raw(name),
        limit=kept_limit,
    )
    retained = tuple((_text(inner), reason) for inner, reason in value["kept"])
    return Removal(value["existed"], value["removed"], value["files"], value["bytes"], retained)


def remove_probe_tree(
    parent: str, name: str, *, limit_s: float = 1800.0, kept_limit: int = 100
) -> Removal:
    """Remove a directory that Trimtab made, with everything in it.

    For what a benchmark of its own leaves there. Links in it are removed, not followed; what is
    mounted in it stays. It is removed in parts of `_PART_S`, each with its own deadline: millions
    of files take long, a file system that is dead is noticed soon.

    Parameters
    ----------
    limit_s
        After which the rest stays, and is named.

    Raises
    ------
    RefusedError
        The name does not start with `PROBE_PREFIX`.
    NoAnswer, TrimtabError
        No answer in time; what the system said.
    """
    _check_name(name)
    end_s, files, removed_bytes = time.monotonic() + limit_s, 0, 0
    while True:
        value = ask(
            "remove_probe_tree",
            parent,
            deadline_s=_PART_S + DEADLINE_S,
            name=_raw(name),
            limit=kept_limit,
            work_s=min(_PART_S, max(0.0, end_s - time.monotonic())),
        )
        files, removed_bytes = files + value["files"], removed_bytes + value["bytes"]
        retained = [(_text(inner), reason) for inner, reason in value["kept"]]
        if value["complete"] or time.monotonic() >= end_s:
            break
    if not value["complete"]:
        retained.append(
            (
                name,
                Message(
                    "removal-unfinished",
                    f"there was more in it than could be removed in {limit_s:g} s",
                ),
            )
        )
    return Removal(value["existed"], value["removed"], files, removed_bytes, tuple(retained))


def find_files(
    parent: str, name: str, pattern: str, *, deadline_s: float = 60.0, limit: int = 100
) -> tuple[tuple[str, str], ...]:
    """Return path below a probe directory and kind of what matches a pattern, sorted.

    Parameters
    ----------
    pattern
        Names with ``*``, ``?`` and ``[]``, and ``**`` for any number of directories.

    Raises
    ------
    ToolError
        More than ``limit``, or far too much to look through.
    """
    _check_name(name)
    value = ask(
        "find_files",
        parent,
        deadline_s=deadline_s,
        name=_raw(name),
        pattern=[_raw(part) for part in pattern.split("/")],
        limit=limit,
    )
    if not value["complete"]:
        raise ToolError(
            f"{visible(pattern)} matches more than {limit} files, or there is too much to look at",
            code="too-many-files",
            hint="name the file more exactly",
        )
    return tuple(sorted((_text(path), kind) for path, kind in value["found"]))


def read_files(
    parent: str,
    name: str,
    paths: Iterable[str],
    *,
    limit_bytes: int,
    deadline_s: float = 60.0,
) -> dict[str, bytes]:
    """Return the content of those files of a probe directory that are there and regular, by path.

    Raises
    ------
    ToolError
        They are larger than ``limit_bytes`` together.
    """
    _check_name(name)
    value = ask(
        "read_files",
        parent,
        deadline_s=deadline_s,
        name=_raw(name),
        names=[_raw(path) for path in paths],
        limit_bytes=limit_bytes,
    )
    if value["over"] is not None:
        raise ToolError(
            f"{visible(_text(value['over']))} and what is read with it are larger than "
            f"{format_bytes(limit_bytes)}",
            code="files-too-large",
        )
    contents: dict[str, str | None] = value["contents"]
    return {
        _text(path): binascii.a2b_base64(content)
        for path, content in contents.items()
        if content is not None
    }


def file_sizes(
    directory: str, *, deadline_s: float = DEADLINE_S, limit: int = 100_000
) -> dict[str, int]:
    """Return the size in bytes of each regular file directly inside a directory, by name.

    Raises
    ------
    ToolError
        More than ``limit`` files.
    """
    value = ask("file_sizes", directory, deadline_s=deadline_s, limit=limit)
    if not value["complete"]:
        raise ToolError(f"{directory} holds more than {limit} files", code="too-many-files")
    return {_text(name): size for name, size in sorted(value["sizes"])}


def list_names(
    directory: str, prefix: str = "", *, deadline_s: float = DEADLINE_S, limit: int = 10_000
) -> NameList:
    """Return the names in a directory that start with ``prefix``, sorted, at most ``limit``."""
    value = ask("list_names", directory, deadline_s=deadline_s, prefix=_raw(prefix), limit=limit)
    return NameList(tuple(sorted(_text(name) for name in value["names"])), value["complete"])


def ask(operation: str, path: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
    """Return the child's answer to one operation of `touch`, as plain values.

    The functions above are what others call; this is the one place that starts the child.

    Raises
    ------
    NoAnswer
        Not in ``deadline_s``; the child was killed and is not waited for.
    TrimtabError
        What the system said, through `error_of`.
    """
    path = absolute(path)
    request = {"operation": operation, "path": _raw(path), "deadline_s": deadline_s, **arguments}
    output = _exchange(json.dumps(request).encode("ascii"), path, deadline_s)
    answer = json.loads(output)
    if "failure" in answer:
        raise error_of(Failure(**answer["failure"]), path)
    return answer["value"]


def absolute(path: str) -> str:
    """Return the path from the root on; neither links nor ``..`` are resolved.

    ``getcwd`` is answered by the kernel's own memory: it does not hang.

    Raises
    ------
    UsageError
        The path is empty or holds a NUL, or the current directory is gone.
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


_ERRORS: Final[dict[str, tuple[type[TrimtabError], str, str, str | None]]] = {
    "ENOENT": (UsageError, "path-missing", "{path} does not exist", None),
    "ENOTDIR": (UsageError, "not-a-directory", "{path} is not a directory", None),
    "EACCES": (
        UsageError,
        "no-permission",
        "no permission for {path}",
        "run it as a user who may, or name another",
    ),
    "EPERM": (
        UsageError,
        "not-permitted",
        "not permitted on {path}",
        "run it as a user who may, or name another",
    ),
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
        "{path} already holds that name",
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
        "{path} answers with an I/O error",
        "see the kernel log (dmesg)",
    ),
    "ESTALE": (
        ToolError,
        "stale-handle",
        "{path} is a stale handle of a network file system",
        "mount it again",
    ),
    "ENOTCONN": (ToolError, "server-gone", "what serves {path} is gone", "mount it again"),
}


def error_of(failure: Failure, path: str) -> TrimtabError:
    """Return the error to raise for what the system said about a path, with a hint."""
    unknown = (ToolError, "path-failed", "{path} failed", None)
    kind, code, text, hint = _ERRORS.get(failure.name, unknown)
    message = text.replace("{path}", visible(path))
    details = f"{failure.operation}: {failure.message}, {failure.name}"
    return kind(f"{message} ({details})", code=code, hint=hint)


def _exchange(request: bytes, path: str, deadline_s: float) -> bytes:
    reap()
    try:
        # Not in the caller's directory, which may itself be on the file system that hangs.
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(
            f"cannot start {sys.executable}: {error.strerror}", code="program-not-started"
        ) from error
    try:
        output, complaint = child.communicate(request, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        abandon(child)
        raise NoAnswer(
            f"{visible(path)} did not answer in {deadline_s:g} s",
            code="no-answer",
            hint="the file system may be down or overloaded: try ls on it from another shell",
        ) from None
    except BaseException:
        abandon(child)
        raise
    if child.returncode != 0:
        tail = complaint.decode("utf-8", "replace").strip()[-300:]
        raise ToolError(
            f"asking about {visible(path)} failed ({child.returncode}): {tail}", code="child-failed"
        )
    return output


def _check_name(name: str) -> None:
    if not name.startswith(PROBE_PREFIX) or "/" in name or "\0" in name:
        raise RefusedError(
            f"{visible(name)!r} is not the name of a probe directory",
            code="probe-directory-name",
            hint=f"Trimtab makes and removes only directories named {PROBE_PREFIX}...",
        )


def _raw(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def _text(raw: str) -> str:
    return os.fsdecode(raw.encode("latin-1"))


def _space(value: dict[str, int]) -> Space:
    return Space(
        block_size_bytes=value["f_bsize"],
        fragment_size_bytes=value["f_frsize"],
        blocks=value["f_blocks"],
        blocks_free=value["f_bfree"],
        blocks_available=value["f_bavail"],
        inodes=value["f_files"],
        inodes_free=value["f_ffree"],
        flags=value["f_flag"],
    )
