"""Which files are to be read: those that were named, and those below the directories that were.

A directory is walked in the order of names. Links in it are not followed, so that nothing is read
twice or from elsewhere; what a person names is followed. Nothing but regular files is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.launch import bounded
from trimtab.model.mounts import parse_mountinfo

DEPTH_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to look into.

    Attributes
    ----------
    path
        As it was named; of a file in a directory, the directory's name and the rest.
    problem
        Why it cannot be looked into, where that is known already.
    size_bytes
        0 where it cannot.
    """

    path: str
    named: bool
    problem: str | None = None
    size_bytes: int = 0


def candidates(paths: Sequence[str]) -> Iterator[Candidate]:
    """Yield every file once: in the order of the arguments, and of names within a directory.

    Raises
    ------
    NoAnswer
        The file system of an argument does not answer.
    """
    seen: set[tuple[int, int]] = set()
    answering: set[str] = set()
    for path in paths:
        for candidate in _of_argument(path, answering):
            if candidate.problem is None:
                try:
                    status = os.stat(candidate.path)  # noqa: PTH116 (a name of any bytes)
                except OSError as error:
                    yield Candidate(candidate.path, candidate.named, error.strerror)
                    continue
                identity = (status.st_dev, status.st_ino)
                if identity in seen:
                    continue
                seen.add(identity)
                yield replace(candidate, size_bytes=status.st_size)
            else:
                yield candidate


def _of_argument(path: str, answering: set[str]) -> Iterator[Candidate]:
    """Yield the files of one argument; ``answering`` are directories whose file system answers."""
    directory = os.path.dirname(path.rstrip("/")) or "."  # noqa: PTH120 (a name of any bytes)
    # Asked by a child that may hang in our place: the file system may be the one under test.
    # Once for a directory: a shell unfolds a pattern into thousands of arguments.
    if directory not in answering:
        bounded.describe(directory)
        answering.add(directory)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            bounded.describe(path)
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError as error:
        yield Candidate(path, True, _why(path, error))
        return
    if stat.S_ISDIR(mode):
        real = os.path.realpath(path)
        yield from _walk(path.rstrip("/") or "/", real, _mount_points(), 0)
    elif stat.S_ISREG(mode):
        yield Candidate(path, True)
    else:
        yield Candidate(path, True, "it is not a regular file")


def _why(path: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        is_link = os.path.islink(path)  # noqa: PTH114
        return "it is a link to nothing" if is_link else "there is no such file"
    return error.strerror or str(error)


def _mount_points() -> frozenset[str]:
    """Return where file systems are mounted: what hangs there is not touched."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return frozenset(mount.mount_point for mount in parse_mountinfo(text))


def _walk(
    directory: str, real: str, mount_points: frozenset[str], depth: int
) -> Iterator[Candidate]:
    """Yield the files below a directory, without leaving its file system.

    Parameters
    ----------
    real
        The same directory without links, as the mount table names it.
    """
    if depth > DEPTH_LIMIT:
        yield Candidate(directory, False, f"more than {DEPTH_LIMIT} directories deep")
        return
    try:
        with os.scandir(directory) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield Candidate(directory, False, error.strerror)
        return
    for entry in ordered:
        inner = f"{real.rstrip('/')}/{entry.name}"
        if inner in mount_points:
            why = "another file system is mounted there; name it to have it read"
            yield Candidate(entry.path, False, why)
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            yield Candidate(entry.path, False, error.strerror)
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(entry.path, inner, mount_points, depth + 1)
        elif stat.S_ISREG(mode):
            yield Candidate(entry.path, False)
