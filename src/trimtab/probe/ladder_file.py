"""Reads published figures from a TOML file of rungs, hardware and printed claims.

::

    [ladder]
    name = "one OSS"
    [hardware]
    drive_write = "3.2 GB/s"
    drives = 12
    parity = "8+2"
    [[rung]]
    layer = "ost"
    write = "31 GB/s"
    [[printed]]
    what = "writes kept from drive to client"
    value = "88.4 %"
    from = "client.write * hardware.parity / drive.write"

A rung without counts covers the whole system in ``[hardware]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.run import Layer
from trimtab.base.site_hardware import FIGURE, Figure, Hardware, Parity, parse_figure
from trimtab.base.small_file import parse_toml, read_text
from trimtab.base.toml_kind import FRACTION, SWITCH, TEXT, TEXTS, ValueKind, choice, table_of, whole
from trimtab.base.toml_problem import BadValue, Problem, config_error, key_lines
from trimtab.base.toml_schema import Schema, key, table, tables
from trimtab.base.visible import visible
from trimtab.judge.efficiency_ladder import Claim, Coverage
from trimtab.site.site_check import hardware_problems

METRIC_OF: Final = {
    "write": "write_bandwidth",
    "read": "read_bandwidth",
    "write_iops": "write_iops",
    "read_iops": "read_iops",
}
_EXACT: Final = frozenset({"network", "client_network"})
"""Line rates are nominal: 400 Gb/s is a name, not a rounded measurement."""


def _measured(unit: str) -> ValueKind:
    """Return the kind for one figure, or a list with one per repetition."""

    def read(value: object) -> tuple[Figure, ...]:
        texts = value if isinstance(value, list) else [value]
        figures = []
        for text in texts:
            if not isinstance(text, str):
                raise BadValue(
                    f"{visible(repr(text)[:40])} is not text",
                    code="wrong-type",
                    hint=f"write it as {FIGURE.example}",
                )
            figures.append(parse_figure(text, unit))
        if not figures or any(figure.possible()[0] <= 0 for figure in figures):
            raise BadValue(
                "a rate must be greater than 0",
                code="out-of-range",
                hint="omit rates that were not measured",
            )
        return tuple(figures)

    either = [FIGURE.schema, {"type": "array", "items": FIGURE.schema}]
    return replace(FIGURE, read=read, schema={"anyOf": either})


_RATES: Final = _measured("B/s")
_OPERATIONS: Final = _measured("1/s")
_LAYERS: Final = ("drive", "raid", "ost", "network", "client", "application")


@dataclass(frozen=True, slots=True)
class StatedRung:
    """One ``[[rung]]``: the rates of one layer; several figures are repetitions."""

    layer: Layer = key(choice(_LAYERS), "Which layer.")
    write: tuple[Figure, ...] | None = key(_RATES, "Write rate.", None)
    read: tuple[Figure, ...] | None = key(_RATES, "Read rate.", None)
    write_iops: tuple[Figure, ...] | None = key(_OPERATIONS, "Writes per second.", None)
    read_iops: tuple[Figure, ...] | None = key(_OPERATIONS, "Reads per second.", None)
    drives: int | None = key(whole(1, 10_000_000), "Number of drives it covers.", None)
    osts: int | None = key(whole(1, 1_000_000), "Number of OSTs it covers.", None)
    servers: int | None = key(whole(1, 1_000_000), "Number of servers it covers.", None)
    nodes: int | None = key(whole(1, 1_000_000), "Client nodes.", None)
    tool: str | None = key(TEXT, "What measured.", None)
    source: str | None = key(TEXT, "Source of the figure.", None)
    epoch: str | None = key(TEXT, "Rungs of different epochs belong to different systems.", None)
    fullness: float | None = key(FRACTION, "Fullness of the file system at that time.", None)
    conditions: Mapping[str, str] = key(
        table_of(TEXT, '{ NPS = "1" }'), "Other conditions that must be equal for a comparison.", {}
    )
    notes: tuple[str, ...] = key(TEXTS, "Notes on the rung.", ())

    @property
    def figures(self) -> dict[str, tuple[Figure, ...]]:
        """Metric to its figures."""
        stated = {METRIC_OF[name]: getattr(self, name) for name in METRIC_OF}
        return {metric: figures for metric, figures in stated.items() if figures is not None}

    @property
    def coverage(self) -> Coverage:
        """Numbers of drives, OSTs and servers it covers."""
        return Coverage(self.drives, self.osts, self.servers)


@dataclass(frozen=True, slots=True)
class LadderFile:
    """A whole file; ``figures`` has every printed value by its name in formulas."""

    name: str = key(TEXT, "Name of the system.", at="ladder.name")
    hardware: Hardware = table(Hardware, "Its hardware.")
    rungs: tuple[StatedRung, ...] = tables(StatedRung, "rung", "Rates of one layer.")
    source: str | None = key(TEXT, "Source of the figures.", None, at="ladder.source")
    networked: bool = key(
        SWITCH, "Whether clients access it over a network.", True, at="ladder.networked"
    )
    figures: Mapping[str, Figure] = key(
        table_of(FIGURE, '{ walltime = "2900 s" }'),
        "Other printed values by name.",
        {},
        at="figures",
    )
    claims: tuple[Claim, ...] = tables(
        Claim, "printed", "A printed value, and the formula it should follow from."
    )
    notes: tuple[str, ...] = key(TEXTS, "Notes.", (), at="ladder.notes")


SCHEMA: Final = Schema(LadderFile)


def is_ladder(path: str | os.PathLike[str]) -> bool:
    """Return whether a TOML file has a ``[ladder]`` table; False for any other file."""
    try:
        return "ladder" in parse_toml(_text(path), visible(os.fspath(path)))
    except UsageError:
        return False  # the actual reader reports its errors


def load_ladder(path: str | os.PathLike[str]) -> LadderFile:
    """Read a file of published figures.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, or has invalid contents.
    """
    return parse_ladder(_text(path), visible(os.fspath(path)))


def _text(path: str | os.PathLike[str]) -> str:
    return read_text(Path(path), "the ladder file", names_programs=False)


def parse_ladder(text: str, name: str) -> LadderFile:
    """Parse the text of such a file; ``name`` is its name in errors.

    Raises
    ------
    UsageError
        As `load_ladder`; with the line.
    """
    stated, mistakes = SCHEMA.read(parse_toml(text, name))
    if mistakes:
        raise config_error(mistakes, name, key_lines(text))
    file: LadderFile = SCHEMA.build(stated)
    if mistakes := [*hardware_problems(file.hardware), *_twice(file)]:
        raise config_error(mistakes, name, key_lines(text))
    return replace(file, figures=dict(_figures(file)))


def _figures(file: LadderFile) -> Iterator[tuple[str, Figure]]:
    for item in fields(file.hardware):
        value = getattr(file.hardware, item.name)
        if isinstance(value, Figure):
            exact = item.name in _EXACT
            yield f"hardware.{item.name}", Figure(value.value, value.unit) if exact else value
        elif isinstance(value, Parity):
            yield f"hardware.{item.name}", Figure(value.written_per_byte, "1")
        elif isinstance(value, int):
            yield f"hardware.{item.name}", Figure(float(value), "1")
    for rung in file.rungs:
        for name in METRIC_OF:
            figures = getattr(rung, name)
            if figures is not None and len(figures) == 1:
                yield f"{rung.layer}.{name}", figures[0]
    yield from file.figures.items()


def _twice(file: LadderFile) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for number, rung in enumerate(file.rungs):
        for name in METRIC_OF:
            if getattr(rung, name) is None:
                continue
            if (rung.layer, name) in seen:
                yield Problem(
                    ("rung", str(number), name),
                    f"a second {name} of the layer {rung.layer}",
                    'put repetitions into one list: write = ["38 GB/s", "37 GB/s"]',
                    "figure-twice",
                )
            seen.add((rung.layer, name))
