"""Reads small files written by people, and files that only root can have written; replaces them.

A plan decides what root deletes, so a user who can change it, or replace it, deletes with root's
rights. Every component of a trusted path is opened separately, relative to the previous one,
without following links. It must belong to root and be closed to others' writing; then only root can
have exchanged it. What is written is either complete and on stable storage, or not there at all.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import RefusedError, UnreadableError, UsageError, visible

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
                # In root's sticky directory no other user can rename root's files.
                if state.st_uid != 0 or not state.st_mode & stat.S_ISVTX:
                    name = f"{noun} is below {visible(os.fspath(above))}, which"
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


_COMPONENT: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@contextlib.contextmanager
def trusted_directory(
    path: str | os.PathLike[str], noun: str, *, owner: int = 0, private: bool = False
) -> Iterator[int]:
    """Open a directory that only ``owner`` and root can have exchanged; yield its descriptor.

    Parameters
    ----------
    path
        The directory; no component may be a link.
    noun
        Its name in error messages: ``the plan``.
    owner
        Uid that must own it; root by default.
    private
        Whether it must be closed to all other users, including for reading.

    Raises
    ------
    RefusedError
        A component is a link, belongs to another user, or is writable by others.
    UnreadableError
        The directory does not exist or cannot be opened.
    """
    descriptor = _opened(Path(os.path.abspath(path)), noun, owner)  # noqa: PTH100 - follows nothing
    try:
        state = os.fstat(descriptor)
        if state.st_uid != owner:
            raise _refused(path, noun, f"belongs to user {state.st_uid}", f"chown {owner}")
        if _open_to_others(state):
            raise _refused(path, noun, "can be written by others", "chmod go-w")
        if private and state.st_mode & _OTHERS:
            raise _refused(path, noun, "is open to others", "chmod go-rwx")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def plain_directory(path: str | os.PathLike[str], noun: str) -> Iterator[int]:
    """Open a directory of any owner, through no link; yield its descriptor.

    For a file that root writes where another user can replace everything: with `write_durably` it
    goes into this very directory, and neither follows nor changes existing entries.

    Parameters
    ----------
    path
        The directory; no component may be a link.
    noun
        Its name in error messages.

    Raises
    ------
    RefusedError
        A component is a link.
    UnreadableError
        The directory does not exist or cannot be opened.
    """
    descriptor = _opened(Path(os.path.abspath(path)), noun, None)  # noqa: PTH100 - follows nothing
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def trusted_file(
    name: str, directory: int, noun: str, *, owner: int = 0, private: bool = True
) -> Iterator[int]:
    """Open a regular file of a trusted directory for reading; yield its descriptor.

    Parameters
    ----------
    name
        The file in the directory.
    directory
        Descriptor of the directory (`trusted_directory`).
    noun
        The file's name in error messages.
    owner
        Uid that must own it; root by default.
    private
        Whether others must not read it either.

    Raises
    ------
    RefusedError
        It is a link or not a regular file, belongs to another user, has a second name, or others
        can access it, or write it.
    UnreadableError
        It does not exist or cannot be opened.
    """
    # Without O_NONBLOCK a pipe would wait for its writer before it can be looked at.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        raise _cannot_open(name, directory, noun, error) from error
    shown = _shown(name, directory)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise _refused(shown, noun, "is not a regular file", None)
        if state.st_uid != owner:
            raise _refused(shown, noun, f"belongs to user {state.st_uid}", f"chown {owner}")
        if private and state.st_mode & _OTHERS:
            raise _refused(shown, noun, "is open to others", "chmod go-rwx")
        if _open_to_others(state):
            raise _refused(shown, noun, "can be written by others", "chmod go-w")
        if state.st_nlink != 1:
            raise _refused(shown, noun, f"has {state.st_nlink} names", None)
        yield descriptor
    finally:
        os.close(descriptor)


def read_trusted(
    name: str,
    directory: int,
    noun: str,
    *,
    maximum_bytes: int,
    owner: int = 0,
    private: bool = True,
) -> bytes:
    """Return the content of a regular file of a trusted directory.

    Parameters
    ----------
    name, directory, noun, owner, private
        As for `trusted_file`.
    maximum_bytes
        Refuse a larger file.

    Raises
    ------
    RefusedError
        As for `trusted_file`; or the file is too large.
    UnreadableError
        It cannot be read.
    """
    with trusted_file(name, directory, noun, owner=owner, private=private) as descriptor:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(maximum_bytes + 1)
        except OSError as error:
            raise _unreadable(_shown(name, directory), noun, "cannot be read", error) from error
    if len(data) > maximum_bytes:
        raise _refused(_shown(name, directory), noun, f"is larger than {maximum_bytes} bytes", None)
    return data


def write_durably(name: str, directory: int, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically and flush it to stable storage.

    Parameters
    ----------
    name
        The file in the directory.
    directory
        Descriptor of the directory.
    data
        The new content.
    mode
        Permission bits of the file, whatever the umask.

    Raises
    ------
    UnreadableError
        The file could not be written; the previous one is unchanged.
    """
    import secrets

    part = f".{secrets.token_hex(8)}.part"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, mode, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fchmod(stream.fileno(), mode)
                os.fsync(stream.fileno())
            os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            # The first error is the one to report; that there may be nothing to remove is not.
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=directory)
            raise
        os.fsync(directory)
    except OSError as error:
        raise _unreadable(
            _shown(name, directory), "the file", "could not be written", error
        ) from error


@contextlib.contextmanager
def opened(
    name: str | int | Path, directory: int | None = None, flags: int = _LAST
) -> Iterator[int]:
    """Open a directory, or a file of it with ``flags``; yield its descriptor.

    A number is a descriptor of the directory, which is opened once more.
    """
    if isinstance(name, int):
        name, directory = ".", name
    descriptor = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def synchronise(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on stable storage."""
    with opened(path, flags=os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def synchronise_file_system(directory: int) -> None:
    """Wait until everything written to a directory's file system is on stable storage.

    One call replaces thousands of fsyncs, which would be thousands of commits.

    Parameters
    ----------
    directory
        Descriptor of the directory.

    Raises
    ------
    OSError
        A write failed (reported since Linux 5.8).
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)  # Python has fsync and sync, and not this one
    if library.syncfs(directory) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _opened(path: Path, noun: str, owner: int | None) -> int:
    """Return the descriptor of a directory, each component above it looked at on the way.

    Parameters
    ----------
    owner
        The user who may own one, besides root; ``None``: any user.
    """
    descriptor = os.open("/", _COMPONENT)
    try:
        for place, name in enumerate(path.parts[1:], start=2):
            if owner is not None:
                _check_component(descriptor, Path(*path.parts[: place - 1]), noun, owner)
            flags = _LAST if place == len(path.parts) else _COMPONENT
            try:
                below = os.open(name, flags, dir_fd=descriptor)
            except OSError as error:
                raise _cannot_open(name, descriptor, noun, error, path) from error
            os.close(descriptor)
            descriptor = below
        if len(path.parts) == 1:
            raise RefusedError(f"{noun} cannot be the directory /", code="directory-root")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_component(descriptor: int, path: Path, noun: str, owner: int) -> None:
    state = os.fstat(descriptor)
    if state.st_uid not in (0, owner):
        raise RefusedError(
            f"{noun} is below {visible(path)}, which belongs to user {state.st_uid}, "
            f"who could replace it",
            code="directory-untrusted",
            hint="keep it where every directory above it is root's",
        )
    # In a sticky directory no other user can rename or remove what is root's.
    if _open_to_others(state) and not state.st_mode & stat.S_ISVTX:
        raise RefusedError(
            f"{noun} is below {visible(path)}, which others can write to",
            code="directory-untrusted",
            hint=f"chmod go-w {visible(path)}, or keep it somewhere else",
        )


def _open_to_others(state: os.stat_result) -> bool:
    group = state.st_mode & stat.S_IWGRP and state.st_gid != 0
    return bool(state.st_mode & stat.S_IWOTH or group)


def _cannot_open(
    name: str, directory: int, noun: str, error: OSError, path: Path | None = None
) -> RefusedError | UnreadableError:
    shown = _shown(path or name, directory)
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:
        mode = 0
    if stat.S_ISLNK(mode):
        return RefusedError(
            f"{noun} {shown} leads through the symbolic link {visible(name)}",
            code="path-is-link",
            hint="give the path that the link leads to; links can be replaced",
        )
    return UnreadableError(
        f"{noun} {shown} cannot be opened: {error.strerror}", code="path-unreadable"
    )


def _shown(path: str | os.PathLike[str], directory: int) -> str:
    """Return the path of a file by which people find it: of a name in an open directory as well."""
    try:
        place = os.readlink(f"/proc/self/fd/{directory}")  # noqa: PTH115 (text is all it takes)
    except OSError:
        place = ""
    return visible(os.path.join(place, path))  # noqa: PTH118 (an absolute path stays as it is)


def _refused(
    path: str | os.PathLike[str], noun: str, reason: str, command: str | None
) -> RefusedError:
    shown = visible(path)
    hint = f"{command} {shown}, once you know how it came to be so" if command else None
    return RefusedError(f"{noun} {shown} {reason}", code="file-untrusted", hint=hint)


def _unreadable(name: str, noun: str, failure: str, error: OSError) -> UnreadableError:
    return UnreadableError(
        f"{noun} {visible(name)} {failure}: {error.strerror or error}", code="file-unreadable"
    )
