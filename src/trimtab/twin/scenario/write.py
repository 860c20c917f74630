"""A scenario as a commented file, that reads back to the same scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from trimtab.config.schedule import find_zone
from trimtab.twin.scenario import schema
from trimtab.twin.scenario.build import moment
from trimtab.twin.scenario.drives import PRESETS
from trimtab.twin.scenario.keys import find_key
from trimtab.twin.scenario.kinds import text
from trimtab.twin.scenario.model import Change, DriveModel, Fault, Lifetime, ProbeLoad, Scenario

_HEAD: Final = ("name", "title", "start", "length", "timezone", "seed")
_COMMENT_COLUMN: Final = 36


def to_toml(scenario: Scenario) -> str:
    """Return a scenario as a file; every key is written, whatever the defaults become.

    Raises
    ------
    UsageError
        A value has no text that reads back to it: part of a byte.

    Notes
    -----
    ``parse_scenario(to_toml(scenario), scenario.source)`` is equal to ``scenario``.
    """
    blocks = [_head(scenario)]
    for name in schema.ScenarioFile.model_fields:
        table = schema.subtable(schema.ScenarioFile, name)
        if table is not None and name != "scenario":
            blocks += _table((name,), table, getattr(scenario, name))
    blocks += [_probe(probe, scenario.timezone) for probe in scenario.probes]
    blocks += [_change(change, scenario.timezone) for change in scenario.changes]
    blocks += [_fault(fault, scenario.timezone) for fault in scenario.faults]
    if scenario.assumptions:
        lines = [f"{text(key)} = {text(why)}" for key, why in scenario.assumptions.items()]
        blocks.append(["[assumptions]", *lines])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(scenario: Scenario) -> list[str]:
    lines = [f"# {scenario.title}", "", "[scenario]"]
    table = schema.ScenarioTable
    for key in _HEAD:
        value = getattr(scenario, schema.attribute(key))
        lines.append(_line(table, key, value, scenario.timezone))
    return lines


def _table(names: Sequence[str], table: type[schema.Table], value: Any) -> Iterator[list[str]]:
    """Yield a table, and after it those that it holds."""
    lines = [f"[{'.'.join(names)}]"]
    below = []
    for key in table.model_fields:
        inside = getattr(value, schema.attribute(key), None)
        if key == "drive" and isinstance(inside, DriveModel) and _is_known(inside):
            lines.append(_commented(f"drive = {text(inside.name)}", table, key))
        elif (subtable := schema.subtable(table, key)) is not None:
            below += _table((*names, key), subtable, inside)
        elif key == "lifetimes":
            shares = value.lifetimes
            lines += ["lifetimes = [", *(f"  {_lifetime(one)}," for one in shares), "]"]
        elif key != "like":
            lines.append(_line(table, key, inside))
    yield lines
    yield from below


def _is_known(drive: DriveModel) -> bool:
    known = PRESETS.get(drive.name)
    return known is not None and known.model == drive


def _lifetime(value: Lifetime) -> str:
    said = {"share": value.share, "mean": value.mean_s}
    table = schema.LifetimeTable
    return f"{{ {', '.join(f'{key} = {_written(table, key, said[key])}' for key in said)} }}"


def _probe(probe: ProbeLoad, timezone: str) -> list[str]:
    lines = [f"[probe.{probe.name}]"]
    for key in schema.ProbeTable.model_fields:
        value = getattr(probe, schema.attribute(key))
        if value is not None:
            lines.append(_line(schema.ProbeTable, key, value, timezone))
    return lines


def _change(change: Change, timezone: str) -> list[str]:
    settings = [
        f"{text(name)} = {find_key(name).kind.write(value)}" for name, value in change.set.items()
    ]
    return [
        "[[change]]",
        f"at = {_moment(change.at, timezone)}",
        f"set = {{ {', '.join(settings)} }}",
        *_detail(change.detail),
    ]


def _fault(fault: Fault, timezone: str) -> list[str]:
    table = schema.FaultTable
    lines = ["[[fault]]"]
    said: Mapping[str, Any] = {
        "at": fault.at,
        "until": fault.until,
        "kind": fault.kind,
        "osts": fault.osts or None,
        "size": fault.size,
    }
    for key, value in said.items():
        if value is not None:
            lines.append(f"{key} = {_written(table, key, value, timezone)}")
    return [*lines, *_detail(fault.detail)]


def _detail(detail: str) -> list[str]:
    return [f"detail = {text(detail)}"] if detail else []


def _line(table: type[schema.Table], key: str, value: Any, timezone: str = "UTC") -> str:
    return _commented(f"{key} = {_written(table, key, value, timezone)}", table, key)


def _commented(assignment: str, table: type[schema.Table], key: str) -> str:
    return f"{assignment:<{_COMMENT_COLUMN - 2}}  # {table.model_fields[key].description}"


def _written(table: type[schema.Table], key: str, value: Any, timezone: str = "UTC") -> str:
    if isinstance(value, datetime):
        return _moment(value, timezone)
    kind = schema.kind_of(table, key)
    if kind is None:
        raise TypeError(f"{key} is no single value")  # a key of the schema that nothing here writes
    return kind.write(value)


def _moment(at: datetime, timezone: str) -> str:
    """Return a time as the site's clock shows it, with an offset where it shows that twice."""
    local = at.astimezone(find_zone(timezone)).replace(tzinfo=None)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    for plain in (local.date() if local == midnight else local, local):
        if moment(plain, timezone) == at:
            return plain.isoformat()
    return at.isoformat()
