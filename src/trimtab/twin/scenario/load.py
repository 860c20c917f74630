"""Reading a scenario: a preset by its name, a file by its path, or text.

Every complaint names the file, the line, the table and the key.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trimtab.config.files import parse_toml
from trimtab.config.lines import ELSEWHERE, key_lines
from trimtab.config.problems import Problem, config_error, unknown_key
from trimtab.errors import UsageError
from trimtab.twin.scenario import schema
from trimtab.twin.scenario.build import Builder, moment
from trimtab.twin.scenario.checks import problems
from trimtab.twin.scenario.model import Scenario
from trimtab.units import is_digits
from trimtab.visible import visible

SIZE_MAXIMUM_BYTES: Final = 2**20
_PACKAGE: Final = "trimtab.twin.scenario"
_EXTENDED_MAXIMUM = 8


def preset_names() -> tuple[str, ...]:
    """Return the names of the scenarios that come with Trimtab, in alphabetical order."""
    entries = (entry.name for entry in files(_PACKAGE).joinpath("presets").iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in entries if n.endswith(".toml")))


def preset_text(name: str) -> str:
    """Return the file of a preset.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    if name not in preset_names():
        near = difflib.get_close_matches(name[:80], preset_names(), n=1)
        raise UsageError(
            f"there is no scenario {visible(name[:80])!r}",
            hint=f"did you mean {near[0]!r}?"
            if near
            else f"known: {', '.join(preset_names())}; a path holds a / or ends with .toml",
        )
    return files(_PACKAGE).joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")


def is_path(name: str) -> bool:
    """Return whether what names a scenario is a path and no preset."""
    return "/" in name or name.endswith(".toml")


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """Return a preset, or the scenario that a file describes.

    Parameters
    ----------
    name_or_path
        What holds a ``/`` or ends with ``.toml`` is a path.

    Raises
    ------
    UsageError
        There is none, it cannot be read, is not TOML, holds what does not belong there, or cannot
        be: with the line, the key and the reason.
    """
    name = os.fspath(name_or_path)
    if is_path(name) or not isinstance(name_or_path, str):
        return parse_scenario(_read(name), name)
    return _preset(name)


def scenario_text(name_or_path: str) -> str:
    """Return the text of a preset or file, as it stands.

    Raises
    ------
    UsageError
        As `load_scenario`, of what cannot be found or read.
    """
    return _read(name_or_path) if is_path(name_or_path) else preset_text(name_or_path)


@cache
def _preset(name: str) -> Scenario:
    return parse_scenario(preset_text(name), name)


def parse_scenario(text: str, source: str, *, _depth: int = 0) -> Scenario:
    """Return the scenario that the text of a file describes.

    Parameters
    ----------
    source
        What errors call it, and what `Scenario.source` will be; paths in it are relative to it.

    Raises
    ------
    UsageError
        As `load_scenario`.
    """
    name = visible(source)
    values = parse_toml(text, name)
    try:
        file = schema.ScenarioFile.model_validate(values)
    except ValidationError as error:
        found = [_problem(one) for one in error.errors(include_url=False)]
        raise _error(found, name, text) from error
    base = _extended(file, source, text, _depth)
    builder = Builder(file, base)
    scenario = builder.scenario(source)
    if scenario is None:
        raise _error(builder.problems, name, text)
    places = _places(scenario, base, file)
    if found := [_own(problem, places) for problem in problems(scenario)]:
        raise _error(found, name, text)
    return scenario


def _extended(file: schema.ScenarioFile, source: str, text: str, depth: int) -> Scenario | None:
    table = file.scenario
    if table is None or not table.extends:
        return None
    at = ("scenario", "extends")
    if depth >= _EXTENDED_MAXIMUM:
        problem = Problem(at, "scenarios extend one another in a circle, or too deeply")
        raise _error([problem], visible(source), text)
    try:
        if is_path(table.extends):
            path = os.path.join(os.path.dirname(source), table.extends)  # noqa: PTH118, PTH120 (./ stays)
            return parse_scenario(_read(path), path, _depth=depth + 1)
        return parse_scenario(preset_text(table.extends), table.extends, _depth=depth + 1)
    except UsageError as error:
        problem = Problem(at, error.message, error.hint)
        raise _error([problem], visible(source), text) from error


def _places(
    scenario: Scenario, base: Scenario | None, file: schema.ScenarioFile
) -> dict[tuple[str, int], int]:
    """Return where each change and fault of the scenario stands in the file's own list."""
    if base is None:
        kept: set[int] = set()
    else:
        kept = {id(item) for item in (*base.changes, *base.faults)}
    places = {}
    for noun, items, tables in (
        ("change", scenario.changes, file.change or ()),
        ("fault", scenario.faults, file.fault or ()),
    ):
        own = [number for number, item in enumerate(items) if id(item) not in kept]
        # Both are in the order of time; a stable sort left equal times in the order of the file.
        order = sorted(range(len(tables)), key=lambda n: moment(tables[n].at, scenario.timezone))
        places |= {(noun, number): place for number, place in zip(own, order, strict=True)}
    return places


def _own(problem: Problem, places: dict[tuple[str, int], int]) -> Problem:
    """Return a problem with the number that a change or fault has in the file."""
    noun, *rest = problem.location
    if noun not in ("change", "fault") or not rest or not is_digits(rest[0]):
        return problem
    place = places.get((noun, int(rest[0])))
    if place is None:
        message = f"of the extended scenario: {problem.message}"
        return Problem(
            (noun, ELSEWHERE), message, "[scenario] inherit says which of its lists are kept"
        )
    return Problem((noun, str(place), *rest[1:]), problem.message, problem.hint)


def _read(name: str) -> str:
    """Return the text of a file; errors call it as it was called."""
    shown, path = visible(name), Path(name)
    try:
        if not path.is_file():
            raise UsageError(
                f"{shown} is not a file" if path.exists() else f"there is no file {shown}",
                hint=f"those that come with Trimtab: {', '.join(preset_names())}",
            )
        with path.open("rb") as stream:
            data = stream.read(SIZE_MAXIMUM_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{shown} cannot be read: {reason}") from error
    if len(data) > SIZE_MAXIMUM_BYTES:
        raise UsageError(f"{shown} is larger than 1 MiB: it is something else")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"{data[error.start]:#04x}"
        raise UsageError(f"{shown}:{line}: byte {byte} is not UTF-8") from error


def _problem(error: Any) -> Problem:
    location = tuple(str(part) for part in error["loc"])
    context = error.get("ctx", {})
    match error["type"]:
        case "scenario":
            return Problem(location, context["message"], context["hint"] or None)
        case "extra_forbidden":
            return _unknown_key(location)
        case "model_type" | "dict_type" | "model_attributes_type":
            return Problem(location, "is to be a table")
        case "list_type":
            noun = location[-1]
            hint = f"write [[{noun}]]" if noun in ("change", "fault") else 'write ["one", "two"]'
            return Problem(location, "is to be a list", hint)
        case _:
            shown = visible(repr(error["input"])[:80])
            return Problem(location, f"{shown}: {visible(error['msg'][:200])}")


def _unknown_key(location: tuple[str, ...]) -> Problem:
    *above, key = location
    table = _table_of(above)
    elsewhere = [
        name
        for name in schema.ScenarioFile.model_fields
        if above and name != above[0] and key in _fields(schema.ScenarioFile, name)
    ]
    return unknown_key(location, () if table is None else table.model_fields, elsewhere)


def _table_of(above: Sequence[str]) -> type[schema.Table] | None:
    """Return the table at a location; names of probes and numbers of lists are passed over."""
    table: type[schema.Table] | None = schema.ScenarioFile
    for part in above:
        if table is None:
            return None
        if part in table.model_fields:
            table = _LISTED.get(part) or schema.subtable(table, part)
    return table


_LISTED: Final[dict[str, type[schema.Table]]] = {
    "probe": schema.ProbeTable,
    "change": schema.ChangeTable,
    "fault": schema.FaultTable,
    "lifetimes": schema.LifetimeTable,
}


def _fields(table: type[schema.Table], name: str) -> Iterable[str]:
    below = _LISTED.get(name) or schema.subtable(table, name)
    return () if below is None else below.model_fields


def _error(found: Sequence[Problem], name: str, text: str) -> UsageError:
    """Return one error for all problems; entries of lists go by their number."""
    return config_error(found, name, key_lines(text))
