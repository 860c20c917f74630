"""Which files are to be read: those that were named, and those below the directories that were.

A directory is walked in the order of names. Links in it are not followed, so that nothing is read
twice or from elsewhere; what a person names is followed. Nothing but regular files is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimtab.launch import bounded

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
    """

    path: str
    named: bool
    problem: str | None = None


def candidates(paths: Sequence[str]) -> Iterator[Candidate]:
    """Yield every file once: in the order of the arguments, and of names within a directory.

    Raises
    ------
    NoAnswer
        The file system of an argument does not answer.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for found in _of_argument(path):
            if found.problem is None:
                try:
                    status = os.stat(found.path)  # noqa: PTH116 (a name of any bytes)
                except OSError as error:
                    yield Candidate(found.path, found.named, error.strerror)
                    continue
                identity = (status.st_dev, status.st_ino)
                if identity in seen:
                    continue
                seen.add(identity)
            yield found


def _of_argument(path: str) -> Iterator[Candidate]:
    # Asked by a child that may hang in our place: the file system may be the one under test.
    state = bounded.describe(path)
    if not state.exists:
        why = "it is a link to nothing" if state.dangling else "there is no such file"
        if state.failure is not None and state.failure.name not in ("ENOENT", "ENOTDIR"):
            why = state.failure.message
        yield Candidate(path, True, why)
    elif state.kind == "directory":
        yield from _walk(path.rstrip("/") or "/", 0)
    elif state.kind != "file":
        yield Candidate(path, True, f"it is a {state.kind}, not a regular file")
    else:
        yield Candidate(path, True)


def _walk(directory: str, depth: int) -> Iterator[Candidate]:
    if depth > DEPTH_LIMIT:
        yield Candidate(directory, False, f"more than {DEPTH_LIMIT} directories deep")
        return
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield Candidate(directory, False, error.strerror)
        return
    for entry in found:
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            yield Candidate(entry.path, False, error.strerror)
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(entry.path, depth + 1)
        elif stat.S_ISREG(mode):
            yield Candidate(entry.path, False)
