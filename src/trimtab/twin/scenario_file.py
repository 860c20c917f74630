"""Read scenarios, as a preset by name, a file by path, or text; write them as commented files.

Every error has the file, line, table and key. A file that is written reads back to the same
scenario.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from trimtab.base.error import UsageError, visible
from trimtab.base.site import ZONE
from trimtab.base.toml_kind import key_text, quoted
from trimtab.base.toml_problem import (
    ELSEWHERE,
    BadValue,
    Problem,
    config_error,
    did_you_mean,
    key_lines,
    name_problems,
)
from trimtab.base.toml_schema import Entry, Said, Schema, SchemaTable
from trimtab.base.toml_writer import Writer
from trimtab.base.trusted_file import parse_toml, read_text
from trimtab.base.units import is_digits
from trimtab.twin.scenario import Fault, ProbeLoad, Resolution, Scenario, ScenarioChange
from trimtab.twin.scenario_check import problems
from trimtab.twin.scenario_key import LISTS, file_schema

_PACKAGE: Final = "trimtab.twin"
_EXTENDED_MAXIMUM = 8
_SCENARIO: Final = Schema(Scenario)

Timed = TypeVar("Timed", ScenarioChange, Fault)


def preset_names() -> tuple[str, ...]:
    """Return the names of the scenarios that come with Trimtab, in alphabetical order."""
    entries = (entry.name for entry in files(_PACKAGE).joinpath("presets").iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in entries if n.endswith(".toml")))


def preset_text(name: str) -> str:
    """Return the file of a preset.

    Raises
    ------
    UsageError
        There is no preset of that name.
    """
    if name not in preset_names():
        raise UsageError(
            f"there is no scenario {visible(name[:80])!r}",
            code="scenario-unknown",
            hint=did_you_mean(name, preset_names())
            or f"known: {', '.join(preset_names())}; a path has a / or ends with .toml",
        )
    return files(_PACKAGE).joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")


def is_path(name: str) -> bool:
    """Return whether the name of a scenario is a path and not a preset."""
    return "/" in name or name.endswith(".toml")


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """Return a preset, or the scenario in a file.

    Parameters
    ----------
    name_or_path
        Text that contains a ``/`` or ends with ``.toml`` is a path; other text names a preset.

    Returns
    -------
    Scenario
        The scenario with all defaults and inherited keys filled in.

    Raises
    ------
    UsageError
        The preset or file does not exist or cannot be read, is not TOML, contains unknown keys or
        invalid values, or describes an impossible scenario: with line, key and reason.
    """
    name = os.fspath(name_or_path)
    if is_path(name) or not isinstance(name_or_path, str):
        return parse_scenario(_read(name), name)
    return _preset(name)


def scenario_text(name_or_path: str) -> str:
    """Return the text of a preset or file, unchanged.

    Raises
    ------
    UsageError
        As `load_scenario`, if it cannot be found or read.
    """
    return _read(name_or_path) if is_path(name_or_path) else preset_text(name_or_path)


@cache
def _preset(name: str) -> Scenario:
    return parse_scenario(preset_text(name), name)


def parse_scenario(text: str, source: str, *, _depth: int = 0) -> Scenario:
    """Parse the text of a scenario file.

    Parameters
    ----------
    source
        Its name in errors and in `Scenario.source`; paths in the text are relative to it.

    Raises
    ------
    UsageError
        As `load_scenario`.
    """
    name = visible(source)
    values = parse_toml(text, name)
    try:
        base = _extended(values, source, _depth)
    except UsageError as error:
        at = ("scenario", "extends")
        wrong = Problem(at, error.message, error.hint, error.code)
        raise config_error([wrong], name, key_lines(text)) from error
    schema = file_schema(_timezone(values, base))
    stated, wrong = schema.read(values, partial="extends" in _head(values))
    base = _without_lists(base, stated.pop("inherit", LISTS))
    if wrong := [*wrong, *_probe_problems(schema, values, stated, base)]:
        raise config_error(wrong, name, key_lines(text))
    scenario, places = _build(stated, base, values, source)
    if wrong := [_in_file(problem, places) for problem in problems(scenario)]:
        raise config_error(wrong, name, key_lines(text))
    return scenario


def _extended(values: Mapping[str, Any], source: str, depth: int) -> Scenario | None:
    name = _head(values).get("extends")
    if not isinstance(name, str) or not name.strip():
        return None
    if depth >= _EXTENDED_MAXIMUM:
        raise BadValue(
            "scenarios extend each other in a cycle, or too deeply", code="extends-circle"
        )
    if is_path(name):
        path = os.path.join(os.path.dirname(source), name)  # noqa: PTH118, PTH120 (./ stays)
        return parse_scenario(_read(path), path, _depth=depth + 1)
    return parse_scenario(preset_text(name), name, _depth=depth + 1)


def _head(values: Mapping[str, Any]) -> Mapping[str, Any]:
    head = values.get("scenario")
    return head if isinstance(head, Mapping) else {}


def _timezone(values: Mapping[str, Any], base: Scenario | None) -> str:
    """Return the time zone of a file's times; an invalid one is reported on reading."""
    default = "UTC" if base is None else base.timezone
    try:
        return ZONE.read(_head(values).get("timezone", default))
    except UsageError:
        return default


def _without_lists(base: Scenario | None, inherit: Sequence[str]) -> Scenario | None:
    """Return the extended scenario without the lists that are not inherited."""
    dropped: dict[str, Any] = {name: () for name in LISTS if name not in inherit}
    return None if base is None else replace(base, **dropped)


def _probe_problems(
    schema: Schema, values: Mapping[str, Any], stated: Said, base: Scenario | None
) -> Iterator[Problem]:
    """Yield invalid names of probes, and missing keys of probes that are not inherited."""
    item = schema.group("probe").item
    for name, _ in stated.get("probes", []):
        at = ("probe", name)
        yield from name_problems(name, at)
        if base is not None and name not in {probe.name for probe in base.probes}:
            yield from item.missing(item.root, values["probe"][name], at)


def _build(
    stated: Said, base: Scenario | None, values: Mapping[str, Any], source: str
) -> tuple[Scenario, dict[str, list[str | None]]]:
    """Return the scenario, and the numbers of its changes and faults in the file's own lists."""
    probes = {probe.name: probe for probe in base.probes} if base else {}
    for name, item in stated.pop("probes", []):
        probe = probes.get(name)
        probes[name] = replace(probe, **item) if probe else ProbeLoad(name, **item)
    own_changes = [ScenarioChange(**item) for _, item in stated.pop("changes", [])]
    own_faults = [Fault(**item) for _, item in stated.pop("faults", [])]
    changes, change_places = _merged(base.changes if base else (), own_changes)
    faults, fault_places = _merged(base.faults if base else (), own_faults)
    new_keys = set(_stated_keys(values))
    assumed = base.assumptions if base else {}
    assumptions = {key: why for key, why in assumed.items() if key not in new_keys}
    scenario: Scenario = _SCENARIO.build(
        stated,
        base,
        source=source,
        probes=tuple(probes.values()),
        changes=changes,
        faults=faults,
    )
    scenario = replace(scenario, assumptions={**assumptions, **stated.get("assumptions", {})})
    if "classes" not in stated.get("resolution", {}):
        scenario = _with_columns(scenario, base)
    return scenario, {"change": change_places, "fault": fault_places}


def _merged(
    inherited: Sequence[Timed], added: Sequence[Timed]
) -> tuple[tuple[Timed, ...], list[str | None]]:
    """Merge both chronologically; also return each one's number in the file, or ``None``."""
    numbered: list[tuple[Timed, str | None]] = [(item, None) for item in inherited]
    numbered += [(item, str(number)) for number, item in enumerate(added)]
    numbered.sort(key=lambda pair: pair[0].at)
    return tuple(item for item, _ in numbered), [number for _, number in numbered]


def _stated_keys(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every dotted key in a file, and the enclosing tables."""
    for key, value in values.items():
        at = (*above, key)
        if isinstance(value, Mapping) and at not in (("probe",), ("assumptions",)):
            yield from _stated_keys(value, at)
        if above:
            yield ".".join(at)


def _with_columns(scenario: Scenario, base: Scenario | None) -> Scenario:
    """Return the scenario with at most one column per OST by default."""
    resolution = scenario.resolution
    if resolution.classes is None or resolution.classes <= scenario.osts.count:
        return scenario
    if base is not None and base.resolution.classes != Resolution().classes:
        return scenario
    return replace(scenario, resolution=replace(resolution, classes=None))


def _in_file(problem: Problem, places: Mapping[str, Sequence[str | None]]) -> Problem:
    """Return a problem with the number of the change or fault in the file."""
    noun, *rest = problem.location
    if noun not in places or not rest or not is_digits(rest[0]):
        return problem
    place = places[noun][int(rest[0])]
    if place is not None:
        return replace(problem, location=(noun, place, *rest[1:]))
    return replace(
        problem,
        location=(noun, ELSEWHERE),
        message=f"of the extended scenario: {problem.message}",
        hint="[scenario] inherit selects which of its lists are retained",
    )


def _read(name: str) -> str:
    if not Path(name).exists():
        raise UsageError(
            f"there is no file {visible(name)}",
            code="file-missing",
            hint=f"presets: {', '.join(preset_names())}",
        )
    return read_text(Path(name), "the scenario file", names_programs=False)


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


def _is_beside(entry: SchemaTable | Entry, _scenario: Scenario) -> bool:
    return entry.location in _BESIDE


def _text(entry: Entry, value: Any) -> str | None:
    # Text and lists in a file must not be empty: omit them.
    return None if value in ("", ()) else entry.kind.write(value)
