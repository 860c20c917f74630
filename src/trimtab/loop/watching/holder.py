"""Who watches: a process by host, id and start, so that one that is gone is known to be."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

_START_FIELD: Final = 22
"""``starttime`` in /proc/PID/stat, in clock ticks since boot (proc(5)); counted from 1."""


def own(proc: Path = Path("/proc")) -> str:
    """Return this process as ``host:process id:start``."""
    return f"{platform.node()}:{os.getpid()}:{_start(os.getpid(), proc)}"


def gone(holder: str, proc: Path = Path("/proc")) -> bool:
    """Return whether a process is known to be no more: of this host, and not there.

    The start tells a process from a later one with the same number, also after a reboot. Of
    another host nothing is known here, nor of a process that was named in another way.
    """
    parts = holder.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != platform.node() or not parts[1].isdecimal():
        return False
    return _start(int(parts[1]), proc) != parts[2]


def _start(number: int, proc: Path) -> str:
    """Return boot and tick at which a process started; ``gone`` when there is none."""
    try:
        text = (proc / str(number) / "stat").read_text(errors="replace")
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "gone"
    # The name, in brackets, may hold anything, brackets and spaces included.
    fields = text.rpartition(")")[2].split()
    state, start = fields[0], fields[_START_FIELD - 3]
    return "gone" if state in {"Z", "X"} else f"{boot}-{start}"
