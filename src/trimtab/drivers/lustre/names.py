"""Parses Lustre's names of targets and devices. Pure.

================================  ============  =========  =================
name                              target        by         device
================================  ============  =========  =================
``scratch-OST0001_UUID``          ``OST0001``   ``None``   ``None``
``scratch-OST0001-osc-MDT0000``   ``OST0001``   MDT0000    ``osc``
``scratch-OST0001-osc-ffff8...``  ``OST0001``   ffff8...   ``osc``
``scratch-MDT0001-osp-MDT0000``   ``MDT0001``   MDT0000    ``osp``
``scratch-MDT0000-lwp-OST0001``   ``MDT0000``   OST0001    ``lwp``
``scratch-MDT0000-mdtlov_UUID``   ``MDT0000``   ``None``   ``mdtlov``
``scratch-OST0001-osd``           ``OST0001``   ``None``   ``osd``
================================  ============  =========  =================

The number in a target's name is hexadecimal (``OST000a`` is the eleventh); ``lfs df`` prints it in
brackets as decimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

TargetKind = Literal["ost", "mdt"]

_TARGET: Final = r"(?:OST|MDT)[0-9a-fA-F]{4}"
# A file system's name has at most eight letters, digits, "_" and "-" (LUSTRE_MAXFSNAME): too short
# for a target name and dash, so the split is unambiguous. Before a target has registered, the
# separator is ":" (new) or "=" (configuration to be rewritten).
_NAME: Final = re.compile(
    rf"(?P<file_system>[A-Za-z0-9_-]{{1,8}})[-:=](?P<target>{_TARGET})"
    rf"(?:-(?P<link>osc|osp|mdc|lwp)-(?P<by>{_TARGET}|[0-9a-f]{{8,16}})|-(?P<own>mdtlov|osd))?"
    r"(?:_UUID)?"
)
_SHORT: Final = re.compile(_TARGET)
_NAME_CHARACTERS_MAXIMUM: Final = 64


@dataclass(frozen=True, slots=True)
class TargetName:
    """The parts of one name.

    Attributes
    ----------
    file_system
        Lustre's own name of the file system.
    target
        ``OST000a`` or ``MDT0000``, as Lustre prints it.
    by
        The owner of this connection: ``MDT0000``, or the hexadecimal id of a client's mount;
        ``None`` for the target itself and its own devices.
    device
        ``osc``, ``osp``, ``mdc``, ``lwp`` (connections), ``mdtlov``, ``osd``; ``None`` for the
        target itself.
    """

    file_system: str
    target: str
    by: str | None = None
    device: str | None = None

    @property
    def kind(self) -> TargetKind:
        """The kind of the target: OST or MDT."""
        return "ost" if self.target.startswith("OST") else "mdt"

    @property
    def index(self) -> int:
        """The target's index, which ``lfs`` prints and accepts in decimal."""
        return int(self.target[3:], 16)


def parse_name(text: str) -> TargetName | None:
    """Parse the name of a target or of a connection to one; ``None`` for other names.

    Examples
    --------
    >>> parse_name("scratch-OST000a_UUID").index
    10
    >>> parse_name("scratch-OST0001-osc-MDT0000")
    TargetName(file_system='scratch', target='OST0001', by='MDT0000', device='osc')
    """
    return _parsed(text) if len(text) <= _NAME_CHARACTERS_MAXIMUM else None


@lru_cache(maxsize=8192)
def _parsed(text: str) -> TargetName | None:
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    by = match["by"]
    return TargetName(
        file_system=match["file_system"],
        target=spelt(match["target"]),
        by=spelt(by) if by is not None and _SHORT.fullmatch(by) else by,
        device=match["link"] or match["own"],
    )


def target_of(kind: TargetKind, index: int) -> str:
    """Return the name of the target with that index.

    Raises
    ------
    ValueError
        The index does not fit into 16 bits.

    Examples
    --------
    >>> target_of("ost", 10)
    'OST000a'
    """
    if not 0 <= index <= 0xFFFF:
        raise ValueError(f"{index} is not a target index (0 to 65535)")
    return f"{kind.upper()}{index:04x}"


def spelt(target: str) -> str:
    """Return the name of a target as Lustre prints it, with lower-case digits."""
    return target[:3] + target[3:].lower()
