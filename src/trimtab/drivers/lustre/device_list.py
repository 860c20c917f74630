"""What ``lctl dl`` prints: the devices that Lustre has set up on a machine. Pure.

::

      9 UP osp scratch-OST0000-osc-MDT0000 scratch-MDT0000-mdtlov_UUID 5
     45 UP osc scratch-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo

The last column, the NID, is printed with ``-t`` and for a client's devices only. ``UP`` is no
sign of health: a target that is lost or read-only is ``UP`` as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trimtab.visible import visible

_ROW: Final = re.compile(
    r"\s*([0-9]{1,9}) ([A-Z-]{2}) ([!-~]+) ([!-~]+) ([!-~]+) (-?[0-9]{1,9})"
    r"(?: ([!-~]+@[a-z0-9]+))?\s*"
)
_LINE_CHARACTERS_MAXIMUM: Final = 1024
_PROBLEMS_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class LustreDevice:
    """One row.

    Attributes
    ----------
    status
        ``UP``; ``IN`` when an administrator has switched it off; ``ST``, ``AT`` while it starts.
    type
        ``obdfilter`` (an OST served here), ``mdt``, ``osp``, ``osc``, ``mdc`` ...
    nid
        Where a client's device is connected to; ``None`` where that is not printed.
    """

    index: int
    status: str
    type: str
    name: str
    uuid: str
    references: int
    nid: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceList:
    """The rows that were whole, and what is odd about the others."""

    devices: tuple[LustreDevice, ...]
    problems: tuple[str, ...] = ()


def parse_device_list(text: str) -> DeviceList:
    """Return the devices in what ``lctl dl`` or ``lctl dl -t`` printed.

    A last line without a line feed was cut and is not used.
    """
    devices: list[LustreDevice] = []
    problems: list[str] = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        row = _ROW.fullmatch(line) if len(line) <= _LINE_CHARACTERS_MAXIMUM else None
        if row is not None:
            index, status, kind, name, uuid, references, nid = row.groups()
            devices.append(LustreDevice(int(index), status, kind, name, uuid, int(references), nid))
        elif line.strip():
            problems.append(f"line {number} is no device: {visible(line.strip()[:120])}")
    if lines[-1].strip():
        problems.append("the last line has no end")
    return DeviceList(tuple(devices), tuple(problems[:_PROBLEMS_MAXIMUM]))
