"""The lease of a watch: which process holds a site, until when, and whether it still runs.

A process is named by host, process id and start time. A store may be shared by machines of the
same host name (clones, containers, ``localhost``), on which the others' processes cannot be seen.
So the name also holds the machine and the namespace that the process id belongs to.
"""

from __future__ import annotations

import hashlib
import os
import platform
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

LEASE_S: Final = 1800.0
"""A watch on another host that says nothing for so long is taken to be gone."""


def lease_end(now: datetime) -> datetime:
    """Return when a lease ends that is taken or renewed now."""
    return now + timedelta(seconds=LEASE_S)


_START_FIELD: Final = 22
"""``starttime`` in /proc/PID/stat, in clock ticks since boot (proc(5)); counted from 1."""
_FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""That of the machine itself: ``PROC_PID_INIT_INO`` in Linux's include/linux/proc_ns.h."""
_MACHINE_CHARACTERS: Final = 16


def this_process(root: Path = Path("/")) -> str:
    """Return this process as ``host:process id:start:place``.

    Parameters
    ----------
    root
        Of the tree that holds ``proc``, ``etc`` and ``sys``.
    """
    return f"{platform.node()}:{os.getpid()}:{_start(os.getpid(), root)}:{_place(root)}"


def is_gone(holder: str, root: Path = Path("/")) -> bool:
    """Return whether a process is known to be no more: of this place, and not there.

    The start tells a process from a later one with the same number, also after a reboot. Of
    another place nothing is known here, nor of a process that was named in another way.
    """
    parts = holder.rsplit(":", 3)
    if len(parts) != 4 or not parts[1].isdecimal():
        return False
    place = _place(root)
    if place is None or (parts[0], parts[3]) != (platform.node(), place):
        return False
    return _start(int(parts[1]), root) != parts[2]


def _place(root: Path) -> str | None:
    """Return what tells this machine and namespace from all others; ``None`` if nothing does."""
    try:
        namespace = str((root / "proc/self/ns/pid").readlink())
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # In a container /etc is the image's, and namespaces are numbered anew at every boot: there
    # the boot is the machine, and after the next one only the lease's end decides.
    named = _machine(root) if namespace == _FIRST_NAMESPACE else None
    number = "".join(sign for sign in namespace if sign.isdecimal())
    machine = hashlib.sha256(f"trimtab {named or boot}".encode()).hexdigest()
    return f"{machine[:_MACHINE_CHARACTERS]}-{number}"


def _machine(root: Path) -> str | None:
    """Return the name of an installation on its hardware; ``None`` if it has none.

    machine-id(5) is to be unique, and a copied disk has its original's all the same: the
    hardware's own, where it may be read, tells those two apart. The page asks that machine-id is
    shown to nobody as it is.
    """
    names: list[str] = []
    for name in ("etc/machine-id", "sys/class/dmi/id/product_uuid"):
        try:
            names.append((root / name).read_text().strip())
        except OSError:
            names.append("")
    return "/".join(names) if names[0] not in {"", "uninitialized"} else None


def _start(number: int, root: Path) -> str:
    """Return boot and tick at which a process started; ``gone`` when there is none."""
    try:
        text = (root / "proc" / str(number) / "stat").read_text(errors="replace")
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "gone"
    # The name, in brackets, may hold anything, brackets and spaces included.
    fields = text.rpartition(")")[2].split()
    state, start = fields[0], fields[_START_FIELD - 3]
    return "gone" if state in {"Z", "X"} else f"{boot}-{start}"
