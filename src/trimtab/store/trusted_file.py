"""Files that only root can have written: opened without following links, and written durably.

A plan decides what root deletes, so a user who can change it, or replace it, deletes with root's
rights. Every component of its path is opened separately, relative to the previous one, and must
belong to root and be closed to others' writing; then only root can have exchanged it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trimtab.base.error import RefusedError, UnreadableError
from trimtab.base.visible import visible

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
    """Open a directory that may be anybody's, through no link; yield its descriptor.

    For a file that root puts where another user can exchange everything: with `write_durably` it
    goes into this very directory, and neither follows nor changes what is there.

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
        Of the file in the directory.
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
        Of the file in the directory.
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
            # The first error is the one to tell; that there may be nothing to remove is not.
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
        Who may own one, besides root; ``None``: everybody.
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
            f"{noun} lies below {visible(path)}, which belongs to user {state.st_uid}, "
            f"who could exchange it",
            code="directory-untrusted",
            hint="keep it where every directory above it is root's",
        )
    # In a sticky directory nobody can rename or remove what is root's.
    if _open_to_others(state) and not state.st_mode & stat.S_ISVTX:
        raise RefusedError(
            f"{noun} lies below {visible(path)}, which others can write to",
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
            f"{noun} {shown} is, or lies behind, the symbolic link {visible(name)}",
            code="path-is-link",
            hint="give the path that the link leads to; links can be exchanged",
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
