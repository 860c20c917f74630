"""Reads a host's ``/proc`` and ``/sys`` through a root prefix, and runs its small system tools.

Under another root, a recorded or hand-made tree stands in for another machine, so code that reads a
24-drive server can be tested on a laptop. Tools such as fstrim, blkid, nvme and systemctl run with
a deadline and without a shell.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.base.error import Message, RefusedError, ToolError
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.reach.process import Execute, ProcessResult

LIMIT_BYTES: Final = 1 << 20
"""Far above any file of /proc or /sys that Trimtab reads; mountinfo of a busy node is 100 KiB."""

# Reading mb_groups loads the buddy bitmap of every group: minutes of disk time on a large target;
# on some ldiskfs kernels a checksum error found on the way turns the target read-only.
_NEVER_OPENED: Final = frozenset({"mb_groups"})


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as seen through its files under ``root``.

    Paths go in and come out as on that machine: absolute, without the root.
    """

    root: str = "/"

    @property
    def is_this_one(self) -> bool:
        """Whether this is the machine Trimtab runs on, where tools can be started too."""
        return self.root == "/"

    def path(self, path: str) -> Path:
        """Return the local path of a file of that machine."""
        return Path(self.root) / path.lstrip("/")

    def exists(self, path: str) -> bool:
        """Return whether the path exists, following links."""
        try:
            return self.path(path).exists()
        except OSError:
            return False

    def read_text(self, path: str, *, limit_bytes: int = LIMIT_BYTES) -> str | NotAvailable:
        """Return the text of a file, stripped of the newline at its end, or why there is none.

        Raises
        ------
        RefusedError
            Reading the file does harm by itself.
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
        """Return the integer in a file, or why there is none."""
        text = self.read_text(path)
        if isinstance(text, NotAvailable):
            return text
        try:
            return int(text.strip(), 10)
        except ValueError:
            return not_available("number-invalid", f"{path} holds {text[:40]!r}, not a number")

    def write_text(self, path: str, value: str) -> OSError | None:
        """Write one value as ``echo`` would and return the system's error, if any.

        Never creates a file: what does not exist cannot be a setting.
        """
        try:
            # One write call: sysfs takes each write as a complete value.
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
        """Resolve every link of a path, as on that machine.

        A link that leads out of the root is never followed into this machine's own files.
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
        """Return a file's modification time in seconds since 1970, or why it is unknown."""
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


OUTPUT_LIMIT_BYTES: Final = 1 << 22
"""These tools print a page; the longest is a drive's JSON log of about 10 KiB."""


def run_tool(
    execute: Execute,
    argv: Sequence[str],
    *,
    timeout_s: float,
    environment: dict[str, str] | None = None,
) -> ProcessResult | NotAvailable:
    """Return the result of a tool that succeeded, or why there is none.

    Never raises: a missing, late or failed tool is a reason.
    """
    try:
        result = execute(
            argv,
            timeout_s=timeout_s,
            output_limit_bytes=OUTPUT_LIMIT_BYTES,
            environment=environment,
        )
    except ToolError as error:
        return not_available(error.code, error.message)
    if result.problem is not None:
        text = f"{' '.join(argv[:2])}: {result.problem}{complaint(result)}"
        return not_available("tool-failed", text)
    return result


def complaint(result: ProcessResult) -> str:
    """Return the first line of a tool's standard error as ``: text``, shortened."""
    text = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
    return f": {text.splitlines()[0][:200]}" if text else ""
