"""A report on disk: whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from trimtab.errors import UnreadableError, UsageError


def check_report_path(path: Path) -> None:
    """Return if a report can be written to ``path``; worth asking before a minute of measuring.

    Raises
    ------
    UsageError
        The folder is missing, or ``path`` is a folder, a device or a pipe.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            kind = "a directory" if target.is_dir() else "not a regular file"
            raise UsageError(f"{path} is {kind}", hint="give a file name that ends in .html")
        if not target.parent.is_dir():
            raise UsageError(f"the directory {target.parent} does not exist", hint="create it")
    except PermissionError as error:
        raise UsageError(f"no permission to look at {path}: {error.strerror}") from error


def write_report(path: Path, html: str) -> None:
    """Write a page to ``path``: the old file or the new one is there at any moment, never a part.

    A symbolic link stays one: the file that it names is replaced.

    Raises
    ------
    UsageError
        ``path`` cannot hold a report (see `check_report_path`).
    UnreadableError
        It could not be written: no space, no permission, a read-only file system.
    """
    check_report_path(path)
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}")
    try:
        try:
            _write_through(temporary, html.encode("utf-8"))
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnreadableError(
            f"the report could not be written to {path}: {error.strerror or error}",
            hint="give another place with --report FILE",
        ) from error


def _write_through(path: Path, data: bytes) -> None:
    # Mode 0o666 less the umask, as any other file that a person makes; mkstemp would hide it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
