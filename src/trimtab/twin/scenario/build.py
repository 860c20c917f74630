"""From the tables of a file to a `Scenario`, alone or on top of the one that it extends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from datetime import UTC, date, datetime
from typing import Any, Final

from trimtab.config.problems import Problem
from trimtab.errors import UsageError
from trimtab.twin.scenario import schema
from trimtab.twin.scenario.keys import DRIVE, find_key, read_value
from trimtab.twin.scenario.kinds import NAME
from trimtab.twin.scenario.model import (
    Change,
    DriveModel,
    Fault,
    ProbeLoad,
    Resolution,
    Scenario,
)
from trimtab.units import parse_moment

_LISTS: Final = {"probes": "probe", "changes": "change", "faults": "fault"}
_PLAIN: Final = (
    *("resolution", "osts", "mdts", "server", "clients", "allocator"),
    *("queue", "trim", "placement", "users", "purge", "gating"),
)

Location = tuple[str, ...]


class Builder:
    """Builds one scenario, and keeps what is wrong with it.

    Attributes
    ----------
    problems
        With the location of the key, in the order of the file.
    """

    def __init__(self, file: schema.ScenarioFile, base: Scenario | None) -> None:
        self._file = file
        self._base = base
        self._zone = "UTC" if base is None else base.timezone
        self.problems: list[Problem] = []

    def scenario(self, source: str | None) -> Scenario | None:
        """Return the scenario, or ``None`` where `problems` say why there is none."""
        file, base = self._file, self._base
        head = schema.given(file.scenario) if "scenario" in file.model_fields_set else {}
        inherit = set(head.pop("inherit", _LISTS))
        head.pop("extends", None)
        self._zone = head.get("timezone", self._zone)
        values: dict[str, Any] = {"source": source, **head}
        if "start" in head:
            values["start"] = self._moment(head["start"], ("scenario", "start"))
        for name in _PLAIN:
            if name in file.model_fields_set:
                below = None if base is None else getattr(base, name)
                values[name] = self._table(getattr(file, name), below, (name,))
        values["probes"] = self._probes("probes" in inherit)
        values["changes"] = self._changes("changes" in inherit)
        values["faults"] = self._faults("faults" in inherit)
        values["assumptions"] = self._assumptions()
        self._require(schema.ScenarioFile, values, base)
        self._require(schema.ScenarioTable, values, base, ("scenario",))
        if self.problems:
            return None
        built = Scenario(**values) if base is None else replace(base, **values)
        return self._columns(built)

    def _columns(self, scenario: Scenario) -> Scenario:
        """Return the scenario with no more columns by default than there are OSTs."""
        classes = scenario.resolution.classes
        table = self._file.resolution
        said = table is not None and "classes" in table.model_fields_set
        if classes is None or said or classes <= scenario.osts.count:
            return scenario
        if self._base is not None and self._base.resolution.classes != Resolution().classes:
            return scenario
        return replace(scenario, resolution=replace(scenario.resolution, classes=None))

    def _table(self, table: schema.Table, base: Any, at: Location) -> Any:
        """Return the value of a table; of the parts that it leaves out, those of ``base``."""
        values = schema.given(table)
        for key in table.model_fields_set:
            below = None if base is None else getattr(base, schema.attribute(key), None)
            found = getattr(table, key)
            if isinstance(found, schema.DriveTable):
                values[key] = self._drive(found, below, (*at, key))
            elif isinstance(found, schema.Table):
                values[key] = self._table(found, below, (*at, key))
            elif key == "lifetimes":
                values[key] = tuple(
                    self._table(one, None, (*at, key, str(number)))
                    for number, one in enumerate(found)
                )
        if base is not None:
            return replace(base, **values)
        if not self._require(type(table), values, None, at):
            return None
        return type(table).MODEL(**values)

    def _drive(self, table: schema.DriveTable, base: DriveModel | None, at: Location) -> Any:
        values = schema.given(table)
        if like := values.pop("like", None):
            try:
                base = DRIVE.read(like)
            except UsageError as error:
                self.problems.append(Problem(at, error.message, error.hint))
                return None
        if base is not None:
            return replace(base, **values)
        if not self._require(schema.DriveTable, values, None, at):
            return None
        return DriveModel(**values)

    def _require(
        self, table: type[schema.Table], values: Mapping[str, Any], base: Any, at: Location = ()
    ) -> bool:
        """Note every key that has neither a value nor a default; return whether all have."""
        if base is not None:
            return True
        needed = {
            one.name
            for one in fields(table.MODEL)
            if one.default is MISSING and one.default_factory is MISSING
        }
        names = {schema.attribute(key): key for key in table.model_fields}
        missing = [names[name] for name in names if name in needed and name not in values]
        for key in missing:
            kind = schema.kind_of(table, key)
            hint = None if kind is None else f"{key} = {kind.example}"
            self.problems.append(Problem((*at, key), "is missing", hint))
        return not missing

    def _moment(self, value: object, at: Location) -> datetime | None:
        try:
            return moment(value, self._zone)
        except UsageError as error:
            self.problems.append(Problem(at, error.message, error.hint))
            return None

    def _probes(self, kept: bool) -> tuple[ProbeLoad, ...]:
        base = {} if self._base is None or not kept else {p.name: p for p in self._base.probes}
        probes = dict(base)
        for name, table in (self._file.probe or {}).items():
            at = ("probe", name)
            try:
                NAME.read(name)
            except UsageError as error:
                self.problems.append(Problem(at, error.message, error.hint))
            values = schema.given(table)
            if "since" in values:
                values["since"] = self._moment(values["since"], (*at, "since"))
            if (probe := base.get(name)) is not None:
                probes[name] = replace(probe, **values)
            elif self._require(schema.ProbeTable, {"name": name, **values}, None, at):
                probes[name] = ProbeLoad(name, **values)
        return tuple(probes.values())

    def _changes(self, kept: bool) -> tuple[Change, ...]:
        changes = list(self._base.changes) if self._base is not None and kept else []
        for number, table in enumerate(self._file.change or ()):
            at = ("change", str(number))
            values = schema.given(table)
            if not self._require(schema.ChangeTable, values, None, at):
                continue
            when = self._moment(table.at, (*at, "at"))
            settings = dict(self._settings(table.set, (*at, "set")))
            if when is not None:
                changes.append(Change(when, settings, values.get("detail", "")))
        return tuple(sorted(changes, key=lambda change: change.at))

    def _settings(self, said: Mapping[str, Any], at: Location) -> Iterator[tuple[str, Any]]:
        for name, value in _flat(said):
            try:
                yield name, read_value(find_key(name), value)
            except UsageError as error:
                self.problems.append(Problem((*at, name), error.message, error.hint))

    def _faults(self, kept: bool) -> tuple[Fault, ...]:
        faults = list(self._base.faults) if self._base is not None and kept else []
        for number, table in enumerate(self._file.fault or ()):
            at = ("fault", str(number))
            values = schema.given(table)
            if not self._require(schema.FaultTable, values, None, at):
                continue
            for key in ("at", "until"):
                if key in values:
                    values[key] = self._moment(values[key], (*at, key))
            if values["at"] is not None:
                faults.append(Fault(**values))
        return tuple(sorted(faults, key=lambda fault: fault.at))

    def _assumptions(self) -> dict[str, str]:
        base = {} if self._base is None else self._base.assumptions
        said = set(_said(self._file, ()))
        kept = {key: why for key, why in base.items() if key not in said}
        return {**kept, **(self._file.assumptions or {})}


def moment(value: object, timezone: str) -> datetime:
    """Return a time in UTC: TOML's date, time with or without offset, or text.

    Raises
    ------
    UsageError
        It is no time.
    """
    if isinstance(value, datetime):
        return parse_moment(value.isoformat(), timezone)
    if isinstance(value, date):
        return parse_moment(f"{value.isoformat()}T00:00:00", timezone)
    return parse_moment(str(value), timezone).astimezone(UTC)


def _flat(said: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys: TOML reads ``trim.every = 1`` without quotes as a table in a table."""
    for name, value in said.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _said(table: schema.Table, above: Location) -> Iterator[str]:
    """Yield every dotted key that a file says, and the tables around it."""
    for key in table.model_fields_set:
        value = getattr(table, key)
        name = ".".join((*above, key))
        if isinstance(value, schema.Table):
            yield from _said(value, (*above, key))
        if key != "assumptions" and above:
            yield name
