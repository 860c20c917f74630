"""Parses ``lctl dl``: the Lustre devices of a machine. Pure.

::

      9 UP osp scratch-OST0000-osc-MDT0000 scratch-MDT0000-mdtlov_UUID 5
     45 UP osc scratch-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo

The last column, the NID, is printed only with ``-t`` and for a client's devices. ``UP`` does not
mean healthy: a lost or read-only target is ``UP`` too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ROW: Final = re.compile(
    r"\s*[0-9]{1,9} [A-Z-]{2} ([!-~]+) ([!-~]+) [!-~]+ -?[0-9]{1,9}(?: [!-~]+@[a-z0-9]+)?\s*"
)
_LINE_CHARACTERS_MAXIMUM: Final = 1024


@dataclass(frozen=True, slots=True)
class LustreDevice:
    """One row.

    Attributes
    ----------
    type
        ``obdfilter`` (an OST served here), ``mdt``, ``osp``, ``osc``, ``mdc`` ...
    """

    type: str
    name: str


def parse_device_list(text: str) -> tuple[LustreDevice, ...]:
    """Return the devices in the output of ``lctl dl`` or ``lctl dl -t``; skip other lines.

    A last line without a line feed was cut and is ignored.
    """
    lines = (line for line in text.split("\n")[:-1] if len(line) <= _LINE_CHARACTERS_MAXIMUM)
    return tuple(LustreDevice(*row.groups()) for row in map(_ROW.fullmatch, lines) if row)
