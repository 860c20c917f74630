"""Dotted keys: one setting of a scenario by its name, read by its own type and put in its place.

``allocator.c2``, ``trim.every``, ``osts.raid.chunk``, ``probe.hourly.nodes``: the same words in a
file, in what changes while it runs, and in what is varied.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.twin.scenario import schema
from trimtab.twin.scenario.drives import PRESETS, preset
from trimtab.twin.scenario.kinds import Kind, text
from trimtab.twin.scenario.model import Change, DriveModel, Scenario
from trimtab.visible import visible

_CHANGING: Final = ("clients", "allocator", "queue", "trim", "placement", "purge", "gating")
_CHANGING_USERS: Final = frozenset(
    f"users.{name}"
    for name in (
        *("daily_writes", "daily_reads", "rhythm", "burstiness", "reread_share", "skew"),
        *("quota_bytes", "quota_inodes"),
    )
)
_NOT_ONE_VALUE: Final = frozenset(
    {
        *("scenario.name", "scenario.extends", "scenario.inherit", "scenario.start"),
        "osts.drive.like",
    }
)
"""Keys of a file that say which scenario it is: not settings of one."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    Attributes
    ----------
    path
        Attributes that lead to it from the scenario.
    changes
        Whether it may change while the scenario runs.
    """

    name: str
    kind: Kind
    path: tuple[str, ...]
    description: str
    changes: bool = False


def _read_drive(value: object) -> DriveModel:
    if not isinstance(value, str):
        raise UsageError(f"{visible(repr(value)[:60])} is not a drive's name", hint='"pm1733"')
    if value.lower() not in PRESETS:
        raise UsageError(
            f"the drive {visible(value[:40])!r} is not known",
            hint=f"known: {', '.join(PRESETS)}; a table describes another",
        )
    return preset(value).model


DRIVE: Final = Kind("name of a drive", '"pm1733"', _read_drive, lambda drive: text(drive.name))


@cache
def known_keys() -> Mapping[str, Key]:
    """Return every dotted key but those of probes, which have names of their own."""
    return {key.name: key for key in _keys_of(schema.ScenarioFile, (), ())}


def _keys_of(
    table: type[schema.Table], names: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[Key]:
    for key, field in table.model_fields.items():
        inside = (*path, schema.attribute(key)) if names or key != "scenario" else ()
        name = ".".join((*names, key))
        if name == "osts.drive":
            yield Key(name, DRIVE, inside, field.description or "")
        if (below := schema.subtable(table, key)) is not None:
            yield from _keys_of(below, (*names, key), inside)
        elif (kind := schema.kind_of(table, key)) is not None and name not in _NOT_ONE_VALUE:
            yield Key(name, kind, inside, field.description or "", _changes(name))


def _changes(name: str) -> bool:
    return name == "osts.count" or name.partition(".")[0] in _CHANGING or name in _CHANGING_USERS


def find_key(name: str, scenario: Scenario | None = None) -> Key:
    """Return the setting of a dotted key.

    Parameters
    ----------
    scenario
        Whose probes are looked for; without it there are none.

    Raises
    ------
    UsageError
        There is no such key; with the nearest one.
    """
    known = known_keys()
    if name in known:
        return known[name]
    probes = _probe_keys(scenario) if scenario is not None else {}
    if name in probes:
        return probes[name]
    near = difflib.get_close_matches(name[:80], [*known, *probes], n=1)
    table = [key for key in known if key.startswith(f"{name.partition('.')[0]}.")]
    raise UsageError(
        f"there is no key {visible(name[:80])!r}",
        hint=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(table or known)}",
    )


def _probe_keys(scenario: Scenario) -> dict[str, Key]:
    keys = {}
    for number, probe in enumerate(scenario.probes):
        for key, field in schema.ProbeTable.model_fields.items():
            kind = schema.kind_of(schema.ProbeTable, key)
            if kind is not None and key != "since":
                name = f"probe.{probe.name}.{key}"
                path = ("probes", str(number), schema.attribute(key))
                keys[name] = Key(name, kind, path, field.description or "")
    return keys


def value_of(scenario: Scenario, name: str) -> Any:
    """Return the value of a setting, in base SI.

    Raises
    ------
    UsageError
        There is no such key.
    """
    value: Any = scenario
    for part in find_key(name, scenario).path:
        value = value[int(part)] if isinstance(value, tuple) else getattr(value, part)
    return value


def read_value(key: Key, value: object) -> Any:
    """Return a setting's value inside: text as in a file or as a person types it, else as in TOML.

    Raises
    ------
    UsageError
        It is no value of that key.
    """
    try:
        return key.kind.read(value)
    except UsageError as error:
        plain = _unquoted(value) if isinstance(value, str) else None
        if plain is None:
            raise
        try:
            return key.kind.read(plain)
        except UsageError as other:
            quoted = key.kind.example.startswith('"')
            raise (error if quoted else other) from None


def _unquoted(value: str) -> object:
    """Return the number, truth or list that text is: on a command line none of them has quotes."""
    try:
        plain = tomllib.loads(f"x = {value}")["x"]
    except (ValueError, RecursionError):
        return None
    return None if isinstance(plain, str) else plain


def replace_key(
    scenario: Scenario, name: str, value: object, *, for_good: bool = False
) -> Scenario:
    """Return the scenario with one setting at another value; see `replace_keys`."""
    return replace_keys(scenario, {name: value}, for_good=for_good)


def replace_keys(
    scenario: Scenario, values: Mapping[str, object], *, for_good: bool = False
) -> Scenario:
    """Return the scenario with some settings at other values.

    Parameters
    ----------
    values
        Dotted key to text, read by the key's own type (``"48h"``, ``"75%"``, ``"never"``,
        ``"true"``); anything else is the value inside, in base SI, as `Change.set` has it.
    for_good
        Drop what later changes of the scenario do to these keys; else they still happen.

    Raises
    ------
    UsageError
        There is no such key, it is no value of it, or no such scenario is possible.
    """
    from trimtab.twin.scenario.checks import problems

    changed = _with_values(scenario, values)
    kept = {at: why for at, why in scenario.assumptions.items() if at not in values}
    changed = replace(changed, assumptions=kept)
    if for_good:
        changed = replace(changed, changes=tuple(_without(changed.changes, values)))
    for problem in problems(changed):
        where = ".".join(problem.location)
        said = ", ".join(values)
        place = where if where in values else f"with {said}: {where}"
        raise UsageError(f"{place}: {problem.message}", hint=problem.hint)
    return changed


def replace_running(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    """Return the scenario with settings changed as a running file system's can be.

    What is only of the start is not looked at again, nor what was to change before now.

    Parameters
    ----------
    values
        As for `replace_keys`; all of them change at once.

    Raises
    ------
    UsageError
        One of them cannot change, is no value of its key, or OSTs would be taken away; or the
        settings would contradict one another as they did not before.
    """
    from trimtab.twin.scenario.checks import standing_problems

    for name in values:
        if not find_key(name, scenario).changes:
            raise UsageError(
                f"{name} cannot change while the file system runs",
                hint="another scenario may begin with that value",
            )
    changed = _with_values(scenario, values)
    if changed.osts.count < scenario.osts.count:
        raise UsageError(
            f"osts.count: {changed.osts.count} are fewer than {scenario.osts.count}",
            hint="OSTs can only be added",
        )
    before = {problem.location for problem in standing_problems(scenario)}
    for problem in standing_problems(changed):
        if problem.location not in before:
            raise UsageError(f"{'.'.join(problem.location)}: {problem.message}", hint=problem.hint)
    return changed


def _with_values(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    for name, value in values.items():
        key = find_key(name, scenario)
        try:
            inside = read_value(key, value) if isinstance(value, str) else value
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint) from error
        scenario = with_value(scenario, key, inside)
    return scenario


def _without(changes: Iterable[Change], names: Container[str]) -> Iterator[Change]:
    """Yield changes without some keys; one that changes nothing else is left out."""
    for change in changes:
        kept = {name: value for name, value in change.set.items() if name not in names}
        if len(kept) == len(change.set):
            yield change
        elif kept:
            yield replace(change, set=kept)


def with_value(scenario: Scenario, key: Key, value: Any) -> Scenario:
    """Return the scenario with a value in a key's place, unchecked."""
    return _put(scenario, key.path, value)


def _put(holder: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    if isinstance(holder, tuple):
        number = int(first)
        put = _put(holder[number], tuple(rest), value)
        return (*holder[:number], put, *holder[number + 1 :])
    below = _put(getattr(holder, first), tuple(rest), value) if rest else value
    return replace(holder, **{first: below})


def apply_change(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario as it is after a change; it was checked when the scenario was read.

    Raises
    ------
    UsageError
        It names a key that is not there.
    """
    for name, value in change.set.items():
        scenario = with_value(scenario, find_key(name), value)
    return scenario
