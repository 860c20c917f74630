"""The command of a probe: words in which ``{directory}``, ``{tasks}`` and ``{nodes}`` stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

PLACES: Final = ("directory", "tasks", "nodes")
"""What is filled in: the probe's own directory, and how many tasks and nodes it has."""

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
"""Other braces are left alone: many a program takes JSON."""


def places(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names that are to be filled in, each once, also those that nobody knows.

    Examples
    --------
    >>> places(["run", "--dir={directory}/data", "{tasks}", "{{left}}", '{"a": 1}'])
    ('directory', 'tasks')
    """
    names = (match.group(2) for word in command for match in _PLACE.finditer(word))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def filled(command: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with every place filled in; two braces on each side stand for one.

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
