"""Parses ``import`` parameters: how one host is connected to one target. Pure.

The import's state is the reliable sign that a target is gone: ``lctl dl``, ``lfs check`` and
``health_check`` report it healthy until much later. Before 2.16 NIDs have no quotes.
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

    Returns
    -------
    Import or None
        ``None`` if the name, target and state are all missing.
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
    """Return the items of ``[ a, b ]``; none if the list is cut or has invalid items."""
    if not (value.startswith("[") and value.endswith("]")):
        return ()
    items = [_unquoted(item.strip()) for item in value[1:-1].split(",") if item.strip()]
    return tuple(items) if all(map(_NID.fullmatch, items)) else ()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
