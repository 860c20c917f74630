"""Writes a scenario as a commented file that reads back to the same scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trimtab.config.kinds import key_text, quoted
from trimtab.config.schema import Entry, Table
from trimtab.config.writer import Writer
from trimtab.twin.scenario.keys import file_schema
from trimtab.twin.scenario.model import Scenario
from trimtab.visible import visible

_BESIDE: Final = {(), ("scenario", "extends"), ("scenario", "inherit")}
"""Keys that a complete scenario does not have; assumptions are a separate table."""


def to_toml(scenario: Scenario) -> str:
    """Return a scenario as the text of a file with every key, independent of later defaults.

    Returns
    -------
    str
        TOML.

    Raises
    ------
    UsageError
        A value has no text that reads back to it, such as a fraction of a byte.

    Notes
    -----
    ``parse_scenario(to_toml(scenario), scenario.source)`` is equal to ``scenario``.
    """
    return "\n".join(_blocks(scenario))


def _blocks(scenario: Scenario) -> Iterator[str]:
    schema = file_schema(scenario.timezone)
    writer = Writer(schema, every_key=True, examples=False, skip=_is_beside, write=_text)
    yield f"# {visible(scenario.title)}\n"
    yield from writer.tables(scenario)
    yield from writer.items(schema.group("probe"), scenario.probes)
    yield from writer.items(schema.group("change"), scenario.changes)
    yield from writer.items(schema.group("fault"), scenario.faults)
    if scenario.assumptions:
        lines = (f"{key_text(key)} = {quoted(why)}\n" for key, why in scenario.assumptions.items())
        yield "".join(("[assumptions]\n", *lines))


def _is_beside(entry: Table | Entry, _scenario: Scenario) -> bool:
    return entry.location in _BESIDE


def _text(entry: Entry, value: Any) -> str | None:
    # Text and lists in a file must not be empty: omit them.
    return None if value in ("", ()) else entry.kind.write(value)
