"""What ``import`` parameters tell: how one machine is connected to one target. Pure.

The import's state is the reliable sign that a target is away: ``lctl dl``, ``lfs check`` and
``health_check`` call it well until much later. Versions before 2.16 print NIDs without quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FIELDS: Final = frozenset({"name", "target", "state", "failover_nids"})
_NID: Final = re.compile(r"[!-~]{1,100}@[a-z0-9]{1,16}")
_STATE: Final = re.compile(r"[A-Z][A-Z_]{1,30}|<UNKNOWN>")
_NAME: Final = re.compile(r"[!-~]{1,100}")
_LINE_CHARACTERS_MAXIMUM: Final = 65536


@dataclass(frozen=True, slots=True)
class Import:
    """One connection; ``None``, or an empty tuple, where the text does not tell.

    Attributes
    ----------
    name
        The device: ``scratch-OST0001-osc-MDT0000``.
    target
        ``scratch-OST0001_UUID``.
    state
        ``FULL``; ``IDLE`` (a client's connection that nobody needs now); ``DISCONN``,
        ``CONNECTING``, ``REPLAY``, ``RECOVER``, ``EVICTED`` ... otherwise.
    failover_nids
        Where the target can be found, at home first.
    """

    name: str | None = None
    target: str | None = None
    state: str | None = None
    failover_nids: tuple[str, ...] = ()


def parse_import(text: str) -> Import | None:
    """Return the connection that the value of an ``import`` parameter, or a part, describes.

    Returns
    -------
    Import or None
        ``None`` where neither name nor target nor state is told.
    """
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        name = name.lstrip()
        if colon and name in _FIELDS and len(line) <= _LINE_CHARACTERS_MAXIMUM:
            fields.setdefault(name, value.strip())
    link = Import(
        name=_value(fields, "name", _NAME),
        target=_value(fields, "target", _NAME),
        state=_value(fields, "state", _STATE),
        failover_nids=_nids(fields.get("failover_nids", "")),
    )
    return None if (link.name, link.target, link.state) == (None, None, None) else link


def _value(fields: dict[str, str], key: str, form: re.Pattern[str]) -> str | None:
    value = _unquoted(fields.get(key, ""))
    return value if form.fullmatch(value) else None


def _nids(value: str) -> tuple[str, ...]:
    """Return the items of ``[ a, b ]``; none of them where the list has no end or odd items."""
    if not (value.startswith("[") and value.endswith("]")):
        return ()
    items = [_unquoted(item.strip()) for item in value[1:-1].split(",") if item.strip()]
    return tuple(items) if all(map(_NID.fullmatch, items)) else ()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
