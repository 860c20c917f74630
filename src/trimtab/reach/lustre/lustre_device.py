"""Parses the names of Lustre targets and devices, ``lctl dl``, and ``import`` parameters. Pure.

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

``lctl dl`` lists the Lustre devices of a machine::

      9 UP osp scratch-OST0000-osc-MDT0000 scratch-MDT0000-mdtlov_UUID 5
     45 UP osc scratch-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo

The last column, the NID, is printed only with ``-t`` and for a client's devices. ``UP`` does not
mean healthy: a lost or read-only target is ``UP`` too.

An ``import`` parameter shows how one host is connected to one target. Its state is the reliable
sign that a target is gone: ``lctl dl``, ``lfs check`` and ``health_check`` report the target
healthy until much later.
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


_ROW: Final = re.compile(
    r"\s*[0-9]{1,9} [A-Z-]{2} ([!-~]+) ([!-~]+) [!-~]+ -?[0-9]{1,9}(?: [!-~]+@[a-z0-9]+)?\s*"
)
_DEVICE_LINE_MAXIMUM: Final = 1024


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
    lines = (line for line in text.split("\n")[:-1] if len(line) <= _DEVICE_LINE_MAXIMUM)
    return tuple(LustreDevice(*row.groups()) for row in map(_ROW.fullmatch, lines) if row)


_FIELDS: Final = frozenset({"name", "target", "state", "failover_nids"})
_NID: Final = re.compile(r"[!-~]{1,100}@[a-z0-9]{1,16}")
_STATE: Final = re.compile(r"[A-Z][A-Z_]{1,30}|<UNKNOWN>")
_IMPORT_NAME: Final = re.compile(r"[!-~]{1,100}")
_IMPORT_LINE_MAXIMUM: Final = 65536


@dataclass(frozen=True, slots=True)
class Import:
    """One connection; fields missing in the text are ``None`` or an empty tuple.

    Attributes
    ----------
    name
        Device name: ``scratch-OST0001-osc-MDT0000``.
    target
        ``scratch-OST0001_UUID``.
    state
        ``FULL``; ``IDLE`` (a client's connection that is not in use); ``DISCONN``,
        ``CONNECTING``, ``REPLAY``, ``RECOVER``, ``EVICTED`` ... otherwise.
    failover_nids
        NIDs of the servers that may serve the target, its home first.
    """

    name: str | None = None
    target: str | None = None
    state: str | None = None
    failover_nids: tuple[str, ...] = ()


def parse_import(text: str) -> Import | None:
    """Parse the value, or part of the value, of an ``import`` parameter.

    Before 2.16 NIDs have no quotes.

    Returns
    -------
    Import or None
        ``None`` if the name, target and state are all missing.
    """
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        name = name.lstrip()
        if colon and name in _FIELDS and len(line) <= _IMPORT_LINE_MAXIMUM:
            fields.setdefault(name, value.strip())
    link = Import(
        name=_value(fields, "name", _IMPORT_NAME),
        target=_value(fields, "target", _IMPORT_NAME),
        state=_value(fields, "state", _STATE),
        failover_nids=_nids(fields.get("failover_nids", "")),
    )
    return None if (link.name, link.target, link.state) == (None, None, None) else link


def _value(fields: dict[str, str], key: str, form: re.Pattern[str]) -> str | None:
    value = _unquoted(fields.get(key, ""))
    return value if form.fullmatch(value) else None


def _nids(value: str) -> tuple[str, ...]:
    """Return the items of ``[ a, b ]``; none if the list is cut or has invalid items."""
    if not (value.startswith("[") and value.endswith("]")):
        return ()
    items = [_unquoted(item.strip()) for item in value[1:-1].split(",") if item.strip()]
    return tuple(items) if all(map(_NID.fullmatch, items)) else ()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
