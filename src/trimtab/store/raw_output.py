"""Raw outputs as files: compressed, named by the hash of their content, never changed.

``<directory>/ab/abcdef....z`` holds the zlib stream of the content whose sha256 is ``abcdef...``.
A file appears under its name only when it is whole and on stable storage: it is written under
another name, synchronised, renamed, and the directory synchronised. Equal content is kept once,
and an empty one not at all: its hash says everything.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.base.error import UnreadableError, visible
from trimtab.base.trusted_file import opened, synchronise, synchronise_file_system

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
YOUNG_S: Final = 3600.0
"""Time for which new content is safe from removal, whether a row names it or not."""


@dataclass(frozen=True, slots=True)
class RawDirectory:
    """The directory that holds the raw outputs of a store."""

    path: Path

    def file(self, sha256: str) -> Path:
        """Return the path of the content with that hash.

        Raises
        ------
        UnreadableError
            It is no hash: as a path it could lead out of the directory.
        """
        if _SHA256.fullmatch(sha256) is None:
            raise UnreadableError(
                f"{visible(sha256[:80])!r} is not the name of a raw output",
                code="raw-output-unnamed",
                hint="the row that names it is damaged or forged: trimtab store check",
            )
        return self.path / sha256[:2] / f"{sha256}.z"

    @staticmethod
    def name_of(content: bytes) -> str:
        """Return the sha256 that is the name of a content."""
        return hashlib.sha256(content).hexdigest()

    def put(self, content: bytes) -> str:
        """Return the sha256 of the content, which is on stable storage when this returns.

        Raises
        ------
        UnreadableError
            It could not be written; nothing is left behind.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        if not content:
            return sha256
        file = self.file(sha256)
        try:
            _make_directory(file.parent)
            # One that was damaged since is written anew: we hold the content in our hands.
            if not (_touched(file) and self._is_intact(sha256, len(content))):
                _write(file, zlib.compress(content, 6))
            # Also for a file found here: its writer may not have come this far yet.
            synchronise(file.parent)
        except OSError as error:
            raise _cannot("write", file, error) from error
        return sha256

    def put_many(self, contents: Mapping[str, bytes]) -> None:
        """Put contents, given by their sha256; all are on stable storage when this returns.

        Two ``syncfs`` serve all of them, where `put` waits for the device twice for each: seconds
        instead of minutes for an archive. (Before Linux 5.8 it does not report failed writes; an
        import can be repeated, and `Store.check` finds missing content.)

        Raises
        ------
        UnreadableError
            A content could not be written; earlier ones may have been.
        """
        parts: list[tuple[Path, Path]] = []
        file = self.path
        try:
            for sha256, content in contents.items():
                file = self.file(sha256)
                if not content or (_touched(file) and self._is_intact(sha256, len(content))):
                    continue
                _make_directory(file.parent, durable=False)  # with the rest, below
                parts.append((_written(file, zlib.compress(content, 6)), file))
            if parts:
                _synchronise_file_system(self.path)
            for part, file in parts:
                part.rename(file)
            if parts:
                _synchronise_file_system(self.path)
        except OSError as error:
            raise _cannot("write", file, error) from error
        finally:
            for part, _ in parts:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)

    def get(self, sha256: str, size_bytes: int) -> bytes:
        """Return the content with that hash and size.

        Raises
        ------
        UnreadableError
            The file, which the error names, is missing, unreadable or not what was stored.
        """
        if sha256 == EMPTY_SHA256:
            return b""
        file = self.file(sha256)
        try:
            compressed = file.read_bytes()
        except FileNotFoundError as error:
            raise UnreadableError(
                f"the raw output {file} is missing",
                code="raw-output-missing",
                hint="restore it from a copy of the store",
            ) from error
        except OSError as error:
            raise _cannot("read", file, error) from error
        content = _decompressed(compressed, size_bytes)
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            raise UnreadableError(
                f"the raw output {file} is damaged: its content does not match its hash",
                code="raw-output-damaged",
                hint="restore it from a copy of the store; the samples taken from it are valid",
            )
        return content

    def remove(self, sha256: str) -> int | None:
        """Remove content and return the bytes of its file; ``None`` if nothing was removed.

        Content younger than `YOUNG_S` stays: the row that names it may be on its way.

        Raises
        ------
        UnreadableError
            It could not be removed.
        """
        if _SHA256.fullmatch(sha256) is None:
            return None
        file = self.file(sha256)
        try:
            status = file.stat()
            if time.time() - status.st_mtime < YOUNG_S:
                return None
            file.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _cannot("remove", file, error) from error
        return status.st_size

    def _is_intact(self, sha256: str, size_bytes: int) -> bool:
        try:
            self.get(sha256, size_bytes)
        except UnreadableError:
            return False
        return True


def make_directories(directory: Path) -> None:
    """Make the directory and its parents where missing, durably; ours alone to write in.

    The last one is open to root's group when root makes it (0750), else to the user alone (0700).
    """
    if directory.is_dir():
        return
    if not directory.parent.is_dir():
        make_directories(directory.parent)
    _make_directory(directory)


def _make_directory(directory: Path, *, durable: bool = True) -> None:
    try:
        directory.mkdir(0o750 if os.geteuid() == 0 else 0o700)
    except FileExistsError:
        return  # another process was first, or this one long ago
    except FileNotFoundError:
        make_directories(directory.parent)
        _make_directory(directory, durable=durable)
        return
    if durable:
        synchronise(directory.parent)


def _touched(file: Path) -> bool:
    """Return whether the file exists, and renew its age, which keeps it from being removed."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    except PermissionError:  # another user's, who alone may remove it
        return True
    return True


def _write(file: Path, data: bytes) -> None:
    part = _written(file, data)
    try:
        synchronise(part)
        part.rename(file)
    except BaseException:
        # The first error is the one to tell; that there may be nothing to remove is not.
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _written(file: Path, data: bytes) -> Path:
    """Return a file beside ``file`` that holds the data, not yet on stable storage."""
    part = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return part


def _synchronise_file_system(directory: Path) -> None:
    with opened(directory, flags=os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        synchronise_file_system(descriptor)


def _decompressed(compressed: bytes, size_bytes: int) -> bytes | None:
    """Return the content, ``None`` if it is not a whole stream of just that size."""
    stream = zlib.decompressobj()
    try:
        # A byte more than it should have, so that a file made to grow without end stays small.
        content = stream.decompress(compressed, size_bytes + 1)
    except zlib.error:
        return None
    return content if len(content) == size_bytes and stream.eof else None


def _cannot(verb: str, file: Path, error: OSError) -> UnreadableError:
    hint = f"see who may {verb} in {file.parent}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = f"free space for {file.parent}; earlier data is intact"
    return UnreadableError(
        f"cannot {verb} the raw output {file}: {error.strerror}",
        code="raw-output-inaccessible",
        hint=hint,
    )
