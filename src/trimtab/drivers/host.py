"""The ``/proc`` and ``/sys`` of a host, read through a root prefix.

With another root a recorded or hand-made tree stands for another machine, so that what reads a
24-drive server is tested on a laptop.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.errors import RefusedError
from trimtab.message import Message
from trimtab.model.telemetry import NotAvailable, not_available

LIMIT_BYTES: Final = 1 << 20
"""No file of /proc or /sys that Trimtab reads is near this; mountinfo of a busy node is 100 KiB."""

# Reading mb_groups loads the buddy bitmap of every group: minutes of disk time on a large target,
# and on some ldiskfs kernels a checksum error on the way turns the target read-only.
_NEVER_OPENED: Final = frozenset({"mb_groups"})


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, as its files under ``root`` show it.

    Paths are given and returned as on that machine: absolute, without the root.
    """

    root: str = "/"

    @property
    def is_this_one(self) -> bool:
        """Whether this is the machine that Trimtab runs on, where tools can be started too."""
        return self.root == "/"

    def path(self, path: str) -> Path:
        """Return where a path of that machine is found on this one."""
        return Path(self.root) / path.lstrip("/")

    def exists(self, path: str) -> bool:
        """Return whether there is something at the path, links followed."""
        try:
            return self.path(path).exists()
        except OSError:
            return False

    def read_text(self, path: str, *, limit_bytes: int = LIMIT_BYTES) -> str | NotAvailable:
        """Return the text of a file, stripped of the newline at its end, or why there is none.

        Raises
        ------
        RefusedError
            The file is one whose mere reading does harm.
        """
        if Path(path).name in _NEVER_OPENED:
            raise RefusedError(
                f"{path} is never opened: reading it loads every block group",
                code="file-never-read",
            )
        try:
            with self.path(path).open("rb") as file:
                content = file.read(limit_bytes + 1)
        except OSError as error:
            return NotAvailable(_reason(path, error))
        if len(content) > limit_bytes:
            return not_available("file-too-long", f"{path} is longer than {limit_bytes} bytes")
        return content.decode("utf-8", "surrogateescape").rstrip("\n")

    def read_number(self, path: str) -> int | NotAvailable:
        """Return the whole number that a file holds, or why there is none."""
        text = self.read_text(path)
        if isinstance(text, NotAvailable):
            return text
        try:
            return int(text.strip(), 10)
        except ValueError:
            return not_available("number-invalid", f"{path} holds {text[:40]!r}, not a number")

    def write_text(self, path: str, value: str) -> OSError | None:
        """Write one value as ``echo`` would; returns the error of the system, if there was one.

        Nothing is created: what does not exist cannot be a setting.
        """
        try:
            # One write call: sysfs takes each write as a whole value.
            descriptor = os.open(self.path(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, f"{value}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            return error
        return None

    def list_directory(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the names in a directory, sorted, or why there are none."""
        try:
            return tuple(sorted(entry.name for entry in self.path(path).iterdir()))
        except OSError as error:
            return NotAvailable(_reason(path, error))

    def resolve(self, path: str) -> str | NotAvailable:
        """Return a path with every link followed, as on that machine.

        A link that leads out of the root is not followed to this machine's own files.
        """
        try:
            real = os.path.realpath(self.path(path), strict=True)
        except OSError as error:
            return NotAvailable(_reason(path, error))
        root = os.path.realpath(self.root)
        if root == "/":
            return real
        if not real.startswith(root + "/"):
            return not_available("path-outside-root", f"{path} leads out of {self.root}")
        return real[len(root) :]

    def modified_at_s(self, path: str) -> float | NotAvailable:
        """Return when a file was last modified, in seconds since 1970, or why that is not known."""
        try:
            return self.path(path).stat().st_mtime
        except OSError as error:
            return NotAvailable(_reason(path, error))


def _reason(path: str, error: OSError) -> Message:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return Message("file-missing", f"{path} does not exist")
        case errno.EACCES | errno.EPERM:
            return Message("permission-denied", f"no permission to read {path}")
        case _:
            return Message("file-unreadable", f"{path}: {error.strerror}")
