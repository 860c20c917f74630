"""Current I/O rate of the programs this process started, from the kernel's accounting.

Shown as progress while a probe runs, never stored. Programs on other nodes are invisible here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.model.run import Access

INTERVAL_S: Final = 1.0
"""Minimum interval of a rate: shorter ones would show single requests."""
RATE_LEAST: Final = 1e6
"""In bytes/s: less comes from programs that print or that start others on other nodes."""
_PROC: Final = Path("/proc")
_FIELDS: Final[dict[Access, tuple[str, str]]] = {
    # By system calls, and at the block layer, which alone accounts for io_uring.
    "read": ("rchar", "read_bytes"),
    "write": ("wchar", "write_bytes"),
}


@dataclass(slots=True)
class MovingRate:
    """The current rate of one access; may be called at any frequency.

    Attributes
    ----------
    proc
        The directory with the processes.
    """

    access: Access
    proc: Path = _PROC
    _at_s: float | None = None
    _moved_bytes: int = 0
    _rate: float | None = None

    def __call__(self, elapsed_s: float) -> float | None:
        """Return bytes per second over the last second or more; ``None`` if not yet known."""
        if self._at_s is None or elapsed_s - self._at_s >= INTERVAL_S:
            moved_bytes = moved_by_children(self.access, self.proc)
            if self._at_s is not None:
                rate = (moved_bytes - self._moved_bytes) / (elapsed_s - self._at_s)
                # The kernel forgets a program's bytes when it ends: that second has no rate.
                self._rate = rate if rate >= RATE_LEAST else None
            self._at_s, self._moved_bytes = elapsed_s, moved_bytes
        return self._rate


def moved_by_children(access: Access, proc: Path = _PROC, pid: int | None = None) -> int:
    """Return the bytes moved by all descendants of a process, by default this one."""
    return sum(_moved(proc / child / "io", _FIELDS[access]) for child in _descendants(proc, pid))


def _descendants(proc: Path, pid: int | None) -> Iterator[str]:
    waiting = [str(os.getpid() if pid is None else pid)]
    seen = set(waiting)
    while waiting:
        for file in (proc / waiting.pop() / "task").glob("*/children"):
            for child in _text(file).split():
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    yield child


def _moved(file: Path, names: tuple[str, str]) -> int:
    pairs = (line.partition(":") for line in _text(file).splitlines())
    values = {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}
    return max(values.get(name, 0) for name in names)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # it ended, or belongs to another user
