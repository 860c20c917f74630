"""The command of a probe, with placeholders ``{directory}``, ``{tasks}`` and ``{nodes}``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

PLACES: Final = ("directory", "tasks", "nodes")
"""Placeholders: the probe's directory, and its numbers of tasks and nodes."""

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
"""Other braces are left unchanged: many programs accept JSON."""


def places(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all placeholders, each once, including unknown ones.

    Examples
    --------
    >>> places(["run", "--dir={directory}/data", "{tasks}", "{{left}}", '{"a": 1}'])
    ('directory', 'tasks')
    """
    names = (match.group(2) for word in command for match in _PLACE.finditer(word))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def filled(command: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Fill in all placeholders; doubled braces become single ones.

    Raises
    ------
    KeyError
        There is no value for a name.

    Examples
    --------
    >>> filled(["run", "--dir={directory}/data", "{{left}}", '{"a": 1}'], {"directory": "/x"})
    ('run', '--dir=/x/data', '{left}', '{"a": 1}')
    """

    def value(match: re.Match[str]) -> str:
        left, name = match.groups()
        return f"{{{left}}}" if name is None else values[name]

    return tuple(_PLACE.sub(value, word) for word in command)
