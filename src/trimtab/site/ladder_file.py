"""Published figures entered as data: a TOML file of rungs, hardware and printed claims.

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

A rung without counts is of the whole that ``[hardware]`` tells of.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import UsageError
from trimtab.model.hardware import Figure, Hardware, Parity
from trimtab.model.ladder import Claim, Coverage
from trimtab.model.run import Layer
from trimtab.visible import visible

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from trimtab.site.ladder_schema import LadderToml, PrintedTable, RungTable

SIZE_MAXIMUM_BYTES: Final = 2**20
METRIC_OF: Final = {
    "write": "write_bandwidth",
    "read": "read_bandwidth",
    "write_iops": "write_iops",
    "read_iops": "read_iops",
}
_EXACT: Final = frozenset({"network", "client_network"})
"""Line rates are nominal: 400 Gb/s is a name and no measurement that was rounded."""
_AT = re.compile(r" \(at line (\d+), column (\d+)\)\Z")


@dataclass(frozen=True, slots=True)
class StatedRung:
    """One ``[[rung]]``: metric to its figures, one a repetition."""

    layer: Layer
    figures: Mapping[str, tuple[Figure, ...]]
    coverage: Coverage = field(default_factory=Coverage)
    nodes: int | None = None
    tool: str | None = None
    source: str | None = None
    epoch: str | None = None
    fullness: float | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LadderFile:
    """A whole file; ``figures`` has every printed value by the name that formulas use."""

    name: str
    hardware: Hardware
    rungs: tuple[StatedRung, ...]
    source: str | None = None
    networked: bool = True
    figures: Mapping[str, Figure] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()


def is_ladder(path: str | os.PathLike[str]) -> bool:
    """Return whether a TOML file has a ``[ladder]`` table; False for what is no such file."""
    try:
        return "ladder" in tomllib.loads(_read(Path(path), visible(os.fspath(path))))
    except (UsageError, ValueError, RecursionError):
        return False  # whoever reads it for what it should be tells what is wrong with it


def load_ladder(path: str | os.PathLike[str]) -> LadderFile:
    """Return what a file of published figures says.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, or holds what does not belong there.
    """
    name = visible(os.fspath(path))
    return parse_ladder(_read(Path(path), name), name)


def parse_ladder(text: str, name: str) -> LadderFile:
    """Return what the text of such a file says; ``name`` is what errors call it.

    Raises
    ------
    UsageError
        As `load_ladder`; with the line.
    """
    from pydantic import ValidationError

    from trimtab.site.checks import hardware_problems
    from trimtab.site.ladder_schema import LadderToml
    from trimtab.site.schema import hardware_of

    values = _parsed(text, name)
    try:
        file = LadderToml.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _told(first, text, name) from error
    hardware = hardware_of(file.hardware)
    for problem in hardware_problems(hardware):
        raise UsageError(f"{name}: [hardware]: {problem.message}", hint=problem.hint)
    _refuse_twice(file, text, name)
    return LadderFile(
        name=file.ladder.name,
        hardware=hardware,
        rungs=tuple(_rung(table) for table in file.rung),
        source=file.ladder.source,
        networked=file.ladder.networked is not False,
        figures=dict(_figures(file, hardware)),
        claims=tuple(_claim(table) for table in file.printed),
        notes=tuple(file.ladder.notes or ()),
    )


def _rung(table: RungTable) -> StatedRung:
    given = {key: getattr(table, key) for key in METRIC_OF}
    return StatedRung(
        layer=table.layer,
        figures={METRIC_OF[key]: figures for key, figures in given.items() if figures is not None},
        coverage=Coverage(table.drives, table.osts, table.servers),
        nodes=table.nodes,
        tool=table.tool,
        source=table.source,
        epoch=table.epoch,
        fullness=table.fullness,
        conditions=table.conditions or {},
        notes=tuple(table.notes or ()),
    )


def _claim(table: PrintedTable) -> Claim:
    return Claim(
        what=table.what,
        printed=table.value,
        formula=table.formula,
        at_least=table.at_least is True,
        assumes=table.assumes,
        where=table.where,
        note=table.note,
    )


def _figures(file: LadderToml, hardware: Hardware) -> Iterator[tuple[str, Figure]]:
    for item in fields(hardware):
        value = getattr(hardware, item.name)
        if isinstance(value, Figure):
            exact = item.name in _EXACT
            yield f"hardware.{item.name}", Figure(value.value, value.unit) if exact else value
        elif isinstance(value, Parity):
            yield f"hardware.{item.name}", Figure(value.written_per_byte, "1")
        elif isinstance(value, int):
            yield f"hardware.{item.name}", Figure(float(value), "1")
    for table in file.rung:
        for key in METRIC_OF:
            figures = getattr(table, key)
            if figures is not None and len(figures) == 1:
                yield f"{table.layer}.{key}", figures[0]
    yield from file.figures.items()


def _refuse_twice(file: LadderToml, text: str, name: str) -> None:
    seen: set[tuple[str, str]] = set()
    for place, table in enumerate(file.rung):
        for key in METRIC_OF:
            if getattr(table, key) is None:
                continue
            if (table.layer, key) in seen:
                line = _line_of(text, ("rung", place, key))
                raise UsageError(
                    f"{name}:{line}: [[rung]] {key}: a second {key} of the layer {table.layer}",
                    hint='repetitions stand in one list: write = ["38 GB/s", "37 GB/s"]',
                )
            seen.add((table.layer, key))


def _read(path: Path, name: str) -> str:
    try:
        # Without O_NONBLOCK a pipe would wait for its writer before it can be looked at.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{name} is not a regular file")
            data = stream.read(SIZE_MAXIMUM_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}") from error
    if len(data) > SIZE_MAXIMUM_BYTES:
        raise UsageError(f"{name} is larger than 1 MiB: it is something else")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: byte {data[error.start]:#04x} is not UTF-8") from error


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = _AT.search(str(error))
        place = name if found is None else f"{name}:{found.group(1)}:{found.group(2)}"
        reason = visible(_AT.sub("", str(error))[:200])
        raise UsageError(
            f"{place}: not TOML: {reason}", hint='text stands in quotes: write = "38 GB/s"'
        ) from error


def _told(error: ErrorDetails, text: str, name: str) -> UsageError:
    """Return the first problem of a file, with its line."""
    location = tuple(part for part in error["loc"] if part not in ("list", "str"))
    context: Mapping[str, Any] = error.get("ctx", {})
    message, hint = error["msg"][:200], None
    match error["type"]:
        case "site":
            message, hint = context["message"], context["hint"] or None
        case "extra_forbidden":
            message = "there is no such key"
        case "missing":
            message = "is missing"
        case "literal_error":
            message = f"{visible(repr(error['input'])[:80])} is not {context['expected']}"
    place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in location)
    line = _line_of(text, location)
    where = name if line is None else f"{name}:{line}"
    return UsageError(f"{where}: {visible(place[:100])}: {visible(message)}", hint=hint)


def _line_of(text: str, location: tuple[str | int, ...]) -> int | None:
    """Return the line of a key of a table or of the n-th table of a list; of the table else."""
    if not location:
        return None
    table = str(location[0])
    index = location[1] if len(location) > 1 and isinstance(location[1], int) else None
    head = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*\]")
    keys = [part for part in location[1:] if isinstance(part, str)]
    key = keys[-1] if keys else None
    seen, within, found = -1, False, None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.lstrip().startswith("["):
            if within:
                return found
            seen += bool(head.match(line))
            within = bool(head.match(line)) and (index is None or seen == index)
            found = number if within else found
        elif within and key is not None and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return number
    return found
