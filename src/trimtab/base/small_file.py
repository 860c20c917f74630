"""Reads small files written by people, and writes files atomically."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import UsageError
from trimtab.base.visible import visible

SIZE_MAXIMUM_BYTES: Final = 2**20
_AT: Final = re.compile(r"(.*) \(at line (\d+), column (\d+)\)\Z", re.DOTALL)


def read_text(path: Path, noun: str, *, names_programs: bool = True) -> str:
    """Return the text of a small file written by a person.

    Parameters
    ----------
    noun
        Its description in errors: ``the site file``.
    names_programs
        Whether it names programs that run as the caller; root reads such a file only if no other
        user can change it.

    Raises
    ------
    UsageError
        It cannot be read, is not a regular file, is too large, not UTF-8, or others can change it.
    """
    name = f"{noun} {visible(os.fspath(path))}"
    try:
        # Without O_NONBLOCK opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}", code="file-unreadable") from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise UsageError(f"{name} is not a regular file", code="file-not-regular")
        if names_programs:
            _refuse_state(name, path, state, PROGRAMS, ROOT_ALONE)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(SIZE_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}", code="file-unreadable"
        ) from error
    finally:
        os.close(descriptor)
    if len(data) > SIZE_MAXIMUM_BYTES:
        raise UsageError(
            f"{name} is larger than 1 MiB and cannot be such a file", code="file-too-large"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{visible(os.fspath(path))}:{line}: byte {data[error.start]:#04x} is not UTF-8",
            code="file-not-utf8",
        ) from error


PROGRAMS: Final = "what it names (ssh, launchers) runs as root"
"""Why root refuses a site file that others can change."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """Users and groups, by id, that may own files used by root."""

    users: frozenset[int] = frozenset({0})
    groups: frozenset[int] = frozenset({0})


ROOT_ALONE: Final = Trusted()


def refuse_foreign(
    path: Path, noun: str, risk: str = PROGRAMS, trusted: Trusted = ROOT_ALONE
) -> None:
    """As root, refuse a file or directory that others can change.

    Parameters
    ----------
    risk
        The consequence, for the message.
    trusted
        Users and groups that are trusted.

    Raises
    ------
    UsageError
        It belongs to another user, others can write to it, or it cannot be checked.
    """
    name = f"{noun} {visible(os.fspath(path))}"
    try:
        state = path.stat()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}", code="file-unreadable"
        ) from error
    _refuse_state(name, path, state, risk, trusted)


def refuse_below_others(
    path: Path, noun: str, risk: str = PROGRAMS, trusted: Trusted = ROOT_ALONE
) -> None:
    """As root, refuse an absolute path that others can replace, including links in it.

    For missing components the nearest existing directory counts.

    Raises
    ------
    UsageError
        As `refuse_foreign`.
    """
    pending, seen = [path], set[Path]()
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for above in path.parents:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                state = above.stat()
                # In root's sticky directory nobody else can rename root's files.
                if state.st_uid != 0 or not state.st_mode & stat.S_ISVTX:
                    name = f"{noun} lies below {visible(os.fspath(above))}, which"
                    _refuse_state(name, above, state, risk, trusted)
        for link in (path, *path.parents):
            if link.is_symlink():
                # In a sticky directory anyone can have created it.
                name = f"{noun} {visible(os.fspath(link))}"
                _refuse_state(name, link, link.lstat(), risk, trusted)
                pending.append(Path(os.path.abspath(link.parent / link.readlink())))  # noqa: PTH100 - follows nothing


def _refuse_state(
    name: str, path: Path, state: os.stat_result, risk: str, trusted: Trusted
) -> None:
    if os.geteuid() != 0:
        return
    mode = 0 if stat.S_ISLNK(state.st_mode) else state.st_mode  # meaningless for a link
    if state.st_uid not in trusted.users:
        why = f"belongs to user {state.st_uid}"
    elif mode & stat.S_IWOTH:
        why = "can be written by everyone"
    elif mode & stat.S_IWGRP and state.st_gid not in trusted.groups:
        why = f"can be written by group {state.st_gid}"
    else:
        return
    file = visible(os.fspath(path))
    raise UsageError(
        f"{name} {why}, and {risk}",
        code="file-writable-by-others",
        hint=f"chown root {file}; chmod go-w {file}; or run it as that user",
    )


@contextlib.contextmanager
def written_beside(target: Path, data: bytes, mode: int | None = None) -> Iterator[Path]:
    """Yield a synced temporary file next to ``target`` to replace it; remove it if unused.

    Parameters
    ----------
    mode
        Mode regardless of the umask; ``None``: the default mode.
    """
    import secrets

    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse a TOML file; errors have the file and line.

    Raises
    ------
    UsageError
        It is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _AT.match(str(error))
        if match is None:  # "(at end of document)"
            message, line, column = str(error).partition(" (at")[0], text.count("\n") + 1, None
        else:
            message, line, column = match.groups()
        place = f"{name}:{line}" + (f":{column}" if column else "")
        raise UsageError(
            f"{place}: not TOML: {visible(message[:200])}",
            code="not-toml",
            hint='text must be quoted: schedule = "every 1h"',
        ) from error
    except (ValueError, RecursionError) as error:
        # Numbers with thousands of digits, deeply nested brackets: not written by a person.
        message = visible(str(error)[:200])
        raise UsageError(f"{name}: not TOML: {message}", code="not-toml") from error
