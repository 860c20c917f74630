"""The dotted keys of a scenario's settings, and the drives that a scenario may name.

``allocator.c2``, ``trim.every``, ``osts.raid.chunk``, ``probe.hourly.nodes``: the same names are
used in files, in changes at runtime, and in variations.

The drives are those of [S3] and [S5]: data sheets and assumptions. Figures come from
`trimtab.base.data_sheet`, which has many more drives but no spare flash: no vendor publishes it, so
it is derived here. Rates are those that one server gets from a dual-port drive; random operations
are the data sheet's, limited by that rate in the layers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from trimtab.base.data_sheet import data_sheet
from trimtab.base.error import UsageError, visible
from trimtab.base.toml_kind import TEXT, ValueKind, inline_table, quoted, read_each, wrong_type
from trimtab.base.toml_problem import BadValue, did_you_mean
from trimtab.base.toml_schema import Entry, Schema, SchemaTable, key
from trimtab.twin.scenario import DriveModel, Scenario, ScenarioChange, choices, moment_in


@dataclass(frozen=True, slots=True)
class Preset:
    """Figures and assumptions for a drive model.

    Attributes
    ----------
    model
        Its figures; rates are those that one server gets.
    reason
        Origin of the spare, and how certain it is.
    sources
        Sources of the other figures.
    """

    model: DriveModel
    reason: str
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.model.name

    @property
    def spare(self) -> float:
        """Return the fraction of the raw flash that is not for data."""
        return self.model.spare


_SPARE_OF_ONE: Final = 0.127
_SPARE_OF_THREE: Final = 0.272
_HALF: Final = {"read_bytes_per_s": 3.5e9, "write_bytes_per_s": 3.2e9}
"""Rates of a PM1733 for one of two servers."""
_OF_SHEET: Final = (
    *("read_bytes_per_s", "write_bytes_per_s", "read_iops", "write_iops"),
    "drive_writes_per_day",
)
_ONE = (
    "15.36 TB of 16 TiB (17.59 TB) of flash, if all that is over is spare; bad blocks and the "
    "drive's own tables leave less, 7 to 12.7 %"
)
_THREE = "12.8 TB of the same 16 TiB (17.59 TB) of flash, sold for three drive writes a day"
_SLIDES = "source S3 (SC21): 3.5 and 3.2 GB/s, as one of two servers sees it through x2 of PCIe 4"
_TABLE = "source S5 (HPE, E2000), table 1"
_LAUNCH = "hardwareluxx.de, 2019: Samsung's announcement of PM1733 and PM1735, U.2"
_GUESS = "no data sheet: the same hardware as the drive for one write a day, with more spare"


def _drive(
    name: str, series: str, capacity_bytes: float, spare: float, **other: float
) -> DriveModel:
    """Return a drive with the figures of its series' data sheet, overridden by those given."""
    sheet = data_sheet(series)
    figures = {field: getattr(sheet, field) for field in _OF_SHEET} | other
    return DriveModel(name, capacity_bytes, spare=spare, **figures)


PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset(
            _drive("pm1733", "PM1733", 15.36e12, _SPARE_OF_ONE, **_HALF, write_iops=135e3),
            _ONE,
            (_SLIDES, _LAUNCH, f"random writes: none known of it, the PM1733a's: {_TABLE}"),
        ),
        Preset(
            _drive("pm1733a", "PM1733a", 15.36e12, _SPARE_OF_ONE, drive_writes_per_day=1.0),
            _ONE,
            (_TABLE, "one write a day: as the PM1733, assumed"),
        ),
        Preset(
            _drive("pm1735", "PM1735", 12.8e12, _SPARE_OF_THREE),
            _THREE,
            (_LAUNCH, "both ports together: one server's link may be slower"),
        ),
        Preset(
            _drive("pm1743", "PM1743", 15.36e12, _SPARE_OF_ONE),
            _ONE,
            (_TABLE, "hardwaretimes.com and gamersinfotech.com, 2021: one write a day"),
        ),
        Preset(
            _drive("pm1733-3dwpd", "PM1735", 12.8e12, _SPARE_OF_THREE, **_HALF),
            _THREE,
            (_GUESS, _SLIDES, f"random operations of the PM1735: {_LAUNCH}"),
        ),
        Preset(
            _drive(
                *("pm1743-3dwpd", "PM1743", 12.8e12, _SPARE_OF_THREE),
                write_iops=605e3,
                drive_writes_per_day=3.0,
            ),
            _THREE,
            (
                _GUESS,
                _TABLE,
                "random writes: 300 kIOPS times 4.12 / 2.04, the write amplifications of uniform "
                "random writes with either spare",
            ),
        ),
    )
}
"""All figures of these drives in the twin; data sheets are in `trimtab.base.data_sheet`."""


def preset(name: str) -> Preset:
    """Return the preset of a drive.

    Raises
    ------
    UsageError
        The drive is unknown.
    """
    known = PRESETS.get(name.lower())
    if known is None:
        raise UsageError(
            f"the spare of the drive {name[:40]!r} is unknown",
            code="drive-unknown",
            hint=did_you_mean(name, PRESETS) or f"{', '.join(PRESETS)}; or give --spare",
        )
    return known


LISTS: Final = ("probes", "changes", "faults")
_NO_SETTINGS: Final = frozenset(
    {
        *("scenario.name", "scenario.start", "scenario.extends", "scenario.inherit"),
        "assumptions",
    }
)
"""Keys of a file that identify the scenario and its base."""


@dataclass(frozen=True, slots=True)
class ScenarioFile(Scenario):
    """The contents of a file: a scenario and its base."""

    extends: str | None = key(
        TEXT,
        "A preset, or the path of a file, that this one extends.",
        None,
        at="scenario.extends",
    )
    inherit: tuple[str, ...] | None = key(
        choices(LISTS),
        "Which lists of the extended scenario are retained; default: all, with those here added.",
        None,
        at="scenario.inherit",
    )


def _read_drive(value: object) -> DriveModel:
    if not isinstance(value, str):
        raise wrong_type(value, "a drive's name", '"pm1733"')
    if value.lower() not in PRESETS:
        raise BadValue(
            f"unknown drive {visible(value[:40])!r}",
            code="drive-unknown",
            hint=f"known: {', '.join(PRESETS)}; describe others in a table",
        )
    return preset(value).model


def _write_drive(drive: DriveModel) -> str | None:
    known = PRESETS.get(drive.name)
    return quoted(drive.name) if known is not None and known.model == drive else None


def _read_settings(value: object) -> dict[str, Any]:
    example = 'set = { "trim.every" = "24h" }'
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a table", f"write {example}")
    return read_each(_flat(value), lambda name, item: read_value(find_key(name), item))


def _write_settings(settings: Mapping[str, object]) -> str:
    return inline_table(
        {name: str(find_key(name).kind.write(value)) for name, value in settings.items()}
    )


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys: TOML reads ``trim.every = 1`` without quotes as nested tables."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


DRIVE: Final = ValueKind("name of a drive", '"pm1733"', _read_drive, _write_drive)
SETTINGS: Final = ValueKind(
    "table of dotted keys", '{ "trim.every" = "24h" }', _read_settings, _write_settings
)
_ORDER: Final = (
    *("scenario", "resolution", "osts", "mdts", "server", "clients", "allocator", "queue"),
    *("trim", "placement", "users", "purge", "gating"),
)


@cache
def file_schema(timezone: str = "UTC") -> Schema:
    """Return the schema of a scenario file whose times are in a time zone."""
    times = ("scenario.start", "probe.since", "change.at", "fault.at", "fault.until")
    comments = {"scenario": "Name, start and length."}
    return Schema(
        ScenarioFile,
        tables={name: comments.get(name, "") for name in _ORDER},
        kinds={
            **dict.fromkeys(times, moment_in(timezone)),
            "osts.drive": DRIVE,
            "change.set": SETTINGS,
        },
    )


def dotted(entry: Entry) -> str:
    """Return the name of a setting: ``trim.every``."""
    return ".".join(entry.location)


@cache
def known_keys() -> Mapping[str, Entry]:
    """Return every setting except those of probes, which are named."""
    keys = {dotted(entry): entry for entry in _keys_of(file_schema().root)}
    return {name: entry for name, entry in keys.items() if name not in _NO_SETTINGS}


def _keys_of(table: SchemaTable) -> Iterator[Entry]:
    for entry in table.entries.values():
        if isinstance(entry, Entry):
            yield entry
        elif isinstance(entry, SchemaTable):
            if entry.like is not None:
                yield replace(entry.like, location=entry.location, path=entry.path or ())
            yield from _keys_of(entry)


def find_key(name: str, scenario: Scenario | None = None) -> Entry:
    """Return the setting of a dotted key.

    Parameters
    ----------
    scenario
        The scenario with the probes; without it no probe is known.

    Raises
    ------
    UsageError
        There is no such key; the hint has the closest one.
    """
    known = known_keys()
    if name in known:
        return known[name]
    probes = _probe_keys(scenario) if scenario is not None else {}
    if name in probes:
        return probes[name]
    table = [key for key in known if key.startswith(f"{name.partition('.')[0]}.")]
    raise BadValue(
        f"there is no key {visible(name[:80])!r}",
        code="unknown-key",
        hint=did_you_mean(name, [*known, *probes]) or f"known: {', '.join(table or known)}",
    )


def _probe_keys(scenario: Scenario) -> dict[str, Entry]:
    entries = [
        entry for entry in file_schema().group("probe").item.root.keys if entry.name != "since"
    ]
    return {
        f"probe.{probe.name}.{entry.name}": replace(
            entry,
            location=("probe", probe.name, entry.name),
            path=("probes", str(number), *entry.path),
        )
        for number, probe in enumerate(scenario.probes)
        for entry in entries
    }


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


def value_text(scenario: Scenario, name: str) -> str:
    """Return the value of a setting as text: ``2.25PB``, ``15m``, ``never``.

    Raises
    ------
    UsageError
        There is no such key.
    """
    return str(find_key(name, scenario).kind.write(value_of(scenario, name))).strip('"')


def read_value(key: Entry, value: object) -> Any:
    """Parse a setting's value: text as in a file or on the command line, else as in TOML.

    Raises
    ------
    UsageError
        The value is invalid for the key.
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
            raise (error if key.kind.example.startswith('"') else other) from None


def _unquoted(value: str) -> object:
    """Parse a number, boolean or list in text: on a command line they have no quotes."""
    try:
        plain = tomllib.loads(f"x = {value}")["x"]
    except (ValueError, RecursionError):
        return None
    return None if isinstance(plain, str) else plain


def with_value(scenario: Scenario, key: Entry, value: Any) -> Scenario:
    """Return the scenario with a key's value replaced, unchecked."""
    return _put(scenario, key.path, value)


def _put(holder: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    if isinstance(holder, tuple):
        number = int(first)
        put = _put(holder[number], tuple(rest), value)
        return (*holder[:number], put, *holder[number + 1 :])
    below = _put(getattr(holder, first), tuple(rest), value) if rest else value
    return replace(holder, **{first: below})


def apply_change(scenario: Scenario, change: ScenarioChange) -> Scenario:
    """Return the scenario after a change, which was checked when the scenario was read.

    Raises
    ------
    UsageError
        It has an unknown key.
    """
    for name, value in change.set.items():
        scenario = with_value(scenario, find_key(name), value)
    return scenario
