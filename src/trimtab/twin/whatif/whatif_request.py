"""Requests to the twin: the axes of a sweep as scenarios, and the checked input of a sizing."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from trimtab.base.error import UsageError, visible
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import LIMITS, Site
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.units import parse_fraction
from trimtab.site.lookup import open_site
from trimtab.twin.scenario import (
    Allocator,
    AllocatorFamily,
    DriveModel,
    Osts,
    Raid,
    Scenario,
    Server,
    ServerGeneration,
)
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import is_path, load_scenario, preset_names
from trimtab.twin.scenario_key import find_key, preset

Settings = Mapping[str, str]
_TRIMS: Final = {"nightly": "24h", "daily": "24h", "weekly": "7d", "monthly": "30d"}
_SWITCHES: Final = {"on": "true", "yes": "true", "off": "false", "no": "false"}
_REOPEN_UNDER: Final = 0.05
MOST: Final = 200
"""Combinations that run without ``--most``."""
_VALUES_MOST: Final = 1000
_TEXT_MOST: Final = 1000
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([A-Za-z%/]{0,8})\Z")


def _trim(text: str) -> Settings:
    if text == "discard":
        return {"trim.every": "never", "trim.discard": "true"}
    return {"trim.every": _TRIMS.get(text, text), "trim.discard": "false"}


def _fullness(text: str) -> Settings:
    return {"users.fullness": text, "purge.enabled": "true", "purge.target": text}


def _thresholds(text: str) -> Settings:
    parts = text.split("/")
    if len(parts) != 3:
        raise UsageError(
            f"thresholds: {text[:40]!r} is not C1/C2/C3",
            code="malformed-value",
            hint="thresholds=25/15/5,25/25/5",
        )
    return {
        f"allocator.c{number}": part if part.endswith("%") else f"{part}%"
        for number, part in enumerate(parts, start=1)
    }


def _purge(text: str) -> Settings:
    if text in _SWITCHES:
        return {"purge.enabled": _SWITCHES[text]}
    return {"purge.enabled": "true", "purge.target": text}


def _gating(text: str) -> Settings:
    if text in _SWITCHES:
        return {"gating.enabled": _SWITCHES[text]}
    reopen = max(0.0, parse_fraction(text) - _REOPEN_UNDER)
    return {"gating.enabled": "true", "gating.limit": text, "gating.reopen": f"{reopen:.6g}"}


def _drive(text: str) -> Settings:
    # A capacity in the scenario applies to its own drives.
    return {"osts.drive": text, "osts.capacity": "from-drives"}


def _setting(key: str) -> Callable[[str], Settings]:
    return lambda text: {key: _SWITCHES.get(text, text)}


WORDS: Final[Mapping[str, tuple[Callable[[str], Settings], str]]] = {
    "trim": (_trim, "never, nightly, weekly, monthly, discard, or the time between two"),
    "discard": (_setting("trim.discard"), "on or off, independent of other trims"),
    "fullness": (_fullness, "at the start, and kept below it by a purge: the effect of a limit"),
    "start-fullness": (_setting("users.fullness"), "at the start only"),
    "thresholds": (_thresholds, "mb_c1/c2/c3_threshold in per cent: 25/15/5"),
    "reset": (_setting("allocator.reset"), "never, or a time between two resets of mb_last_group"),
    "family": (_setting("allocator.family"), "of the allocator"),
    "purge": (_purge, "off, on, or the target fullness of the whole"),
    "gating": (_gating, "off, on, or the fullness that closes an OST; 5 % less reopens it"),
    "drive": (_drive, "a drive known to the twin, with OSTs of its capacity"),
    "spare": (_setting("osts.drive.spare"), "usable spare of the flash"),
    "placement": (_setting("placement.kind"), "round-robin or weighted"),
    "wbt": (_setting("queue.writeback_throttling"), "writeback throttling, on or off"),
    "writes": (_setting("users.daily_writes"), "of users, per day"),
}
"""Word to its settings and a description of its values."""


def settings_of(name: str, text: str) -> Settings:
    """Return keys and their texts; any other name is a dotted key.

    Examples
    --------
    >>> settings_of("trim", "weekly")
    {'trim.every': '7d', 'trim.discard': 'false'}
    >>> settings_of("queue.target_latency", "2ms")
    {'queue.target_latency': '2ms'}
    """
    return WORDS[name][0](text) if name in WORDS else {name: _SWITCHES.get(text, text)}


@dataclass(frozen=True, slots=True)
class Axis:
    """One setting, and the texts of its values."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Varied:
    """The settings of one scenario of a sweep."""

    settings: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """Its settings as text."""
        return ", ".join(f"{name} {text}" for name, text in self.settings) or "as it is"


@dataclass(frozen=True, slots=True)
class Combination(Varied):
    """One scenario of a sweep, with its settings."""

    scenario: Scenario


def parse_axis(text: str) -> Axis:
    """Parse ``NAME=VALUE,VALUE`` or ``NAME=FROM:TO:STEP``, including both ends.

    Raises
    ------
    UsageError
        It is neither, a value is repeated, or there are too many.

    Examples
    --------
    >>> parse_axis("fullness=60%:70%:5%,90%").values
    ('60%', '65%', '70%', '90%')
    """
    name, equals, listed = text.partition("=")
    name = name.strip()
    if not equals or not name or not listed.strip() or len(text) > _TEXT_MOST:
        raise UsageError(
            f"--vary: {visible(text[:60])!r} is not NAME=VALUES",
            code="malformed-value",
            hint="trim=never,weekly,nightly",
        )
    values = [value for part in listed.split(",") for value in _values(name, part.strip())]
    if len(values) > _VALUES_MOST:
        raise UsageError(
            f"--vary: {visible(name[:60])} has over {_VALUES_MOST} values", code="too-many-values"
        )
    for value in values:
        if values.count(value) > 1:
            raise UsageError(
                f"--vary: {visible(name[:60])} has {visible(value[:40])!r} twice",
                code="duplicate-value",
            )
    return Axis(name, tuple(values))


def _values(name: str, part: str) -> Sequence[str]:
    if not part:
        raise UsageError(f"--vary: a value of {visible(name[:60])} is empty", code="value-empty")
    matches = [_NUMBER.match(bound.strip()) for bound in part.split(":")]
    if len(matches) != 3 or None in matches:
        return (part,)
    numbers = [Decimal(match[1]) for match in matches if match is not None]
    units = {match[2] for match in matches if match is not None and match[2]}
    if len(units) > 1:
        raise UsageError(
            f"--vary: {visible(part)!r} has several units", code="malformed-value", hint="1d:7d:2d"
        )
    first, last, step = numbers
    if step <= 0 or last < first:
        raise UsageError(
            f"--vary: {visible(part)!r} is not a range",
            code="malformed-value",
            hint="FROM:TO:STEP, as 0.6:0.9:0.1",
        )
    count = int((last - first) / step) + 1
    if count > _VALUES_MOST:
        raise UsageError(
            f"--vary: {visible(part)!r} has {count:,} values, over {_VALUES_MOST}",
            code="too-many-values",
        )
    unit = units.pop() if units else ""
    return [f"{(first + place * step).normalize():f}{unit}" for place in range(count)]


def combinations(
    scenario: Scenario, axes: Sequence[Axis], *, most: int = MOST
) -> tuple[Combination, ...]:
    """Return every combination of values, each as a scenario.

    A varied setting keeps its value: later changes of it in the scenario are ignored.

    Raises
    ------
    UsageError
        There is no such setting or value, no such scenario is possible, two axes set the same
        key, or there are more than ``most`` combinations.
    """
    _check_names(scenario, axes)
    count = math.prod(len(axis.values) for axis in axes)
    if count > most:
        raise UsageError(
            f"{count:,} combinations exceed the limit of {most:,}",
            code="too-many-combinations",
            hint=f"use fewer, or --most {count}",
        )
    return tuple(
        _combined(scenario, tuple(zip((axis.name for axis in axes), values, strict=True)))
        for values in product(*(axis.values for axis in axes))
    )


def _combined(scenario: Scenario, settings: tuple[tuple[str, str], ...]) -> Combination:
    keys: dict[str, object] = {}
    for name, text in settings:
        keys.update(settings_of(name, text))
    try:
        changed = replace_keys(scenario, keys, for_good=True) if keys else scenario
    except UsageError as error:
        label = " ".join(f"{name}={text}" for name, text in settings)
        raise UsageError(
            f"--vary {visible(label)}: {error.message}", code=error.code, hint=error.hint
        ) from error
    return Combination(settings, changed)


def _check_names(scenario: Scenario, axes: Sequence[Axis]) -> None:
    set_by: dict[str, str] = {}
    for axis in axes:
        if axis.name not in WORDS:
            _check_key(scenario, axis.name)
        for key in {key for text in axis.values for key in settings_of(axis.name, text)}:
            if key in set_by:
                raise UsageError(
                    f"--vary: {set_by[key]} and {axis.name} both set {key}",
                    code="axes-overlap",
                    hint="vary one of them",
                )
        for text in axis.values:
            set_by.update(dict.fromkeys(settings_of(axis.name, text), axis.name))


def _check_key(scenario: Scenario, name: str) -> None:
    try:
        find_key(name, scenario)
    except UsageError as error:
        near = difflib.get_close_matches(name[:60], WORDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else error.hint
        raise UsageError(f"--vary: {error.message}", code=error.code, hint=hint) from error


def scenario_of(where: str) -> tuple[Scenario, Site | None]:
    """Return a preset, the scenario of a file, or that of a twin's site with it, in this order.

    Raises
    ------
    UsageError
        No scenario is found, or the site is a real one.
    """
    if where in preset_names() or (is_path(where) and not _is_site_file(Path(where))):
        return load_scenario(where), None
    try:
        site = open_site(where).site
    except UsageError as error:
        # A name that is near one of a scenario was meant as one.
        if not is_path(where) and (near := did_you_mean(where, preset_names())):
            raise UsageError(
                f"there is no scenario or site {visible(where[:80])!r}",
                code="scenario-unknown",
                hint=near,
            ) from error
        raise
    scenario = scenario_of_site(site)
    if scenario is None:
        raise UsageError(
            f"{visible(where[:80])} is a real site: its users' behaviour is unknown",
            code="not-a-twin",
            hint="describe it as a scenario: trimtab twin show template --toml > mine.toml",
        )
    return scenario, site


def scenario_of_site(site: Site) -> Scenario | None:
    """Return the scenario of a simulated site; ``None`` of a real one."""
    named = site.scenario
    if not DRIVERS[site.driver].simulated or named is None:
        return None
    if site.source is not None and is_path(named) and not Path(named).is_absolute():
        named = str(Path(site.source).parent / named)
    return load_scenario(named)


def _is_site_file(path: Path) -> bool:
    from trimtab.base.trusted_file import parse_toml, read_text

    if not path.is_file():
        return False
    return "site" in parse_toml(read_text(path, "scenario"), visible(str(path)))


TrimWord = Literal["never", "weekly", "nightly", "discard"]
YEAR_DAYS: Final = 365.25
_MOST_BYTES: Final = 1e21
MOST_OSTS: Final = 100_000
_MOST_DAILY: Final = 20.0
"""Capacities per day: more is a stream, not a file system."""


@dataclass(frozen=True, slots=True)
class SizingRequest:
    """Needs and choices.

    Attributes
    ----------
    daily_writes_bytes, daily_probe_writes_bytes
        Written by users, and by benchmarks, which delete their files immediately.
    osts, capacity_bytes
        Number of OSTs, or capacity as `df` shows it; both ``None``: from ``retention_s`` or
        ``growth_bytes_per_year``.
    kept_share
        Fraction of the daily writes that owners do not delete themselves.
    retention_s
        How long the remaining data must stay.
    growth_bytes_per_year
        Growth of the stored data; replaces ``kept_share``.
    limit
        Fullness limit.
    write_bytes_per_s
        Requested for the whole; ``None``: no requirement.
    mean_file_bytes, files
        Either one gives the number of inodes.
    stripe_count
        Objects per file.
    years
        Required years of life and growth.
    generation
        Generation of the servers.
    family, thresholds
        Block allocator: mb_c1, c2 and c3_threshold as free fractions, only for ``classic``.
    """

    daily_writes_bytes: float
    drive: DriveModel
    raid: Raid = field(default_factory=Raid)
    daily_probe_writes_bytes: float = 0.0
    osts: int | None = None
    capacity_bytes: float | None = None
    kept_share: float = 1.0
    retention_s: float | None = None
    growth_bytes_per_year: float | None = None
    limit: float = LIMITS.fullness
    trim: TrimWord = "nightly"
    write_bytes_per_s: float | None = None
    mean_file_bytes: float | None = None
    files: float | None = None
    stripe_count: int = 1
    years: float = 5.0
    seed: int = 1
    generation: ServerGeneration = "e1000"
    family: AllocatorFamily = "classic"
    thresholds: tuple[float, float, float] = (0.25, 0.15, 0.05)

    @property
    def scenario(self) -> Scenario:
        """One of its OSTs on its own server, as a scenario of the twin."""
        template = load_scenario("template")
        c1, c2, c3 = self.thresholds
        return replace(
            template,
            osts=Osts(1, self.drive, self.raid),
            server=Server(generation=self.generation),
            allocator=Allocator(self.family, c1, c2, c3),
        )

    @property
    def net_daily_bytes(self) -> float:
        """Bytes that a day adds to the stored data, before any purge."""
        if self.growth_bytes_per_year is not None:
            return self.growth_bytes_per_year / YEAR_DAYS
        return self.daily_writes_bytes * self.kept_share

    @property
    def gross_daily_bytes(self) -> float:
        """Bytes written per day, including benchmarks."""
        return self.daily_writes_bytes + self.daily_probe_writes_bytes


def sizing_request(
    *,
    drive: str | None,
    drive_capacity: float | None,
    drive_write: float | None,
    spare: float | None,
    dwpd: float | None,
    raid: str,
    drives_per_ost: int,
    thresholds: str,
    **needs: Any,
) -> SizingRequest:
    """Return the request of the options of ``trimtab size``.

    Parameters
    ----------
    drive
        A known drive; the figures that are given replace its own.
    raid, thresholds
        As in ``8+2+1``, and free percentages as in ``25/15/5``.
    needs
        Other fields of `SizingRequest`.

    Raises
    ------
    UsageError
        A text has another form, or there is no such drive.
    """
    base = preset(drive or "pm1733").model
    figures = {
        "capacity_bytes": drive_capacity,
        "write_bytes_per_s": drive_write,
        "spare": spare,
        "drive_writes_per_day": dwpd,
    }
    changed: Any = {key: value for key, value in figures.items() if value is not None}
    if changed:
        base = replace(base, name=f"{base.name}, changed", **changed)
    c1, c2, c3 = (parse_fraction(part) for part in settings_of("thresholds", thresholds).values())
    layout = _parse_raid(raid, drives_per_ost)
    return SizingRequest(drive=base, raid=layout, thresholds=(c1, c2, c3), **needs)


def _parse_raid(text: str, drives: int) -> Raid:
    parts = text.split("+")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise UsageError(
            f"--raid: {text[:40]!r} is not DATA+PARITY+SPARES",
            code="raid-malformed",
            hint="8+2+1; without spares 8+2",
        )
    data, parity, spares = (*map(int, parts), *([0] * (3 - len(parts))))
    return Raid(drives=drives, data=data, parity=parity, spares=spares)


def check(request: SizingRequest) -> None:
    """Refuse impossible requests.

    Raises
    ------
    UsageError
        With the option and the reason.
    """
    _check_amounts(request)
    _check_raid(request.raid)
    _check_drive(request.drive)
    if request.osts is not None and request.capacity_bytes is not None:
        raise _excluding("--osts", "--capacity")
    if request.osts is not None and not 1 <= request.osts <= MOST_OSTS:
        raise UsageError(f"--osts: {request.osts} must be 1 to {MOST_OSTS}", code="out-of-range")
    sized = (
        request.osts,
        request.capacity_bytes,
        request.retention_s,
        request.growth_bytes_per_year,
    )
    if all(amount is None for amount in sized):
        raise UsageError(
            "the size is not specified",
            code="size-missing",
            hint="give --capacity, --osts, --retention or --growth",
        )
    if request.files is not None and request.mean_file_bytes is not None:
        raise _excluding("--files", "--mean-file")
    if request.growth_bytes_per_year is not None and request.kept_share != 1.0:
        raise _excluding("--growth", "--kept")
    if request.net_daily_bytes > request.daily_writes_bytes * (1 + 1e-9):
        raise UsageError("--growth exceeds the --daily-writes of a year", code="options-contradict")


def _excluding(option: str, other: str) -> UsageError:
    return UsageError(
        f"{option} and {other} exclude each other",
        code="options-contradict",
        hint="use one of them",
    )


def _check_amounts(request: SizingRequest) -> None:
    amounts = {
        "--daily-writes": request.daily_writes_bytes,
        "--capacity": request.capacity_bytes,
        "--retention": request.retention_s,
        "--growth": request.growth_bytes_per_year,
        "--write-bandwidth": request.write_bytes_per_s,
        "--mean-file": request.mean_file_bytes,
        "--files": request.files,
        "--years": request.years,
        "--kept": request.kept_share,
    }
    for option, value in amounts.items():
        if value is not None and not (math.isfinite(value) and 0 < value <= _MOST_BYTES):
            raise UsageError(
                f"{option}: {value:g} must be greater than 0 and plausible", code="out-of-range"
            )
    if not 0 <= request.daily_probe_writes_bytes <= _MOST_BYTES:
        raise UsageError("--daily-probe-writes: must be 0 or more", code="out-of-range")
    if not 0.1 <= request.limit <= 0.98:
        raise UsageError(
            f"--fullness: {request.limit:g} must be 10 to 98 %",
            code="out-of-range",
            hint="without free blocks nothing can be written",
        )
    if request.years > 30:
        raise UsageError(f"--years: no drive lasts {request.years:g} years", code="out-of-range")
    if request.stripe_count < 1:
        raise UsageError("--stripe-count: must be 1 or more", code="out-of-range")


def _check_raid(raid: Raid) -> None:
    if raid.data < 1 or raid.parity < 0 or raid.spares < 0:
        raise UsageError(
            "--raid: must be DATA+PARITY+SPARES, with data 1 or more",
            code="malformed-value",
            hint="8+2+1",
        )
    if raid.drives - raid.spares < raid.data + raid.parity:
        raise UsageError(
            f"--drives-per-ost: {raid.drives} drives with {raid.spares} spares do not hold a "
            f"stripe "
            f"of {raid.data}+{raid.parity}",
            code="too-few-drives",
            hint=f"{raid.data + raid.parity + raid.spares} or more",
        )


def _check_drive(drive: DriveModel) -> None:
    if not 0 < drive.spare < 1:
        raise UsageError(
            f"--spare: {drive.spare:g} must be above 0 and below 1",
            code="out-of-range",
        )
    if drive.spare > 0.6 or drive.spare < 0.01:
        raise UsageError(f"--spare: {drive.spare:g}: drives have 1 to 60 %", code="out-of-range")
    if not 1e9 <= drive.capacity_bytes <= 1e16:
        raise UsageError(
            f"--drive-capacity: no drive has {drive.capacity_bytes:g} bytes", code="out-of-range"
        )
    for option, value, most in (
        ("--dwpd", drive.drive_writes_per_day, 1000.0),
        ("--drive-write", drive.write_bytes_per_s, 1e12),
    ):
        # NaN fails every comparison.
        if not 0 < value <= most:
            raise UsageError(
                f"{option}: {value:g} must be greater than 0, up to {most:g}", code="out-of-range"
            )


def check_load(request: SizingRequest, capacity_bytes: float) -> None:
    """Refuse too many writes for the capacity.

    Raises
    ------
    UsageError
        A day would overwrite it more often than can be simulated.
    """
    daily = request.gross_daily_bytes / capacity_bytes
    if daily > _MOST_DAILY:
        raise UsageError(
            f"--daily-writes: a day would write the whole capacity {daily:.0f} times",
            code="out-of-range",
            hint=f"at most {_MOST_DAILY:g} times; is a unit wrong?",
        )
