"""Secrets of a site: read from their file or environment variable when they are needed."""

from __future__ import annotations

import os
import stat
from typing import Final

from trimtab.errors import Undelivered
from trimtab.visible import visible

SECRET_MAX: Final = 64 * 1024


def secret_of(reference: str) -> str:
    """Return the secret that ``file:PATH`` or ``env:NAME`` names, without the final line feed.

    Raises
    ------
    Undelivered
        It cannot be read or is empty, or others can read or exchange its file. The message names
        the place only.
    """
    source, _, place = reference.partition(":")
    try:
        secret = _of_file(place) if source == "file" else os.environ.get(place, "")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _unusable(f"the secret in {visible(place)} cannot be read: {reason}") from None
    if not secret:
        raise _unusable(f"the secret in {visible(place)} is empty")
    return secret


def _of_file(path: str) -> str:
    # Without O_NONBLOCK a pipe would wait for its writer before it can be looked at.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        why = _why_exposed(os.fstat(descriptor))
        if why is not None:
            place = visible(path)
            raise _unusable(
                f"the secret in {place} is not used: it {why}; chown it to the user who reads it, "
                "or root, and chmod 0400",
                "secret-exposed",
            )
        return stream.read(SECRET_MAX).decode().rstrip("\r\n")


def _why_exposed(state: os.stat_result) -> str | None:
    """Return why others can know or exchange a secret; ``None``: they cannot.

    A group may read what is root's: root chose it (``root:trimtab 0640``), and a credential of
    systemd shows the mask of its access list there.
    """
    if not stat.S_ISREG(state.st_mode):
        return "is not a regular file"
    if state.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {state.st_uid}"
    if state.st_mode & stat.S_IRWXO:
        return "is open to everyone"
    if state.st_mode & stat.S_IWGRP or (state.st_mode & stat.S_IRGRP and state.st_uid != 0):
        return f"is open to group {state.st_gid}"
    return None


def _unusable(reason: str, code: str = "secret-unreadable") -> Undelivered:
    return Undelivered(reason, code=code, unreachable=True)
