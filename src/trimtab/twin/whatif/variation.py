"""Axes of a sweep: ``trim=never,nightly`` and ``fullness=0.6:0.95:0.05`` as scenarios."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import Site
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.units import parse_fraction
from trimtab.base.visible import visible
from trimtab.site.lookup import open_site
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import is_path, load_scenario, preset_names
from trimtab.twin.scenario_key import find_key

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
        There is none, or the site is a real one.
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
    from trimtab.base.small_file import parse_toml, read_text

    if not path.is_file():
        return False
    return "site" in parse_toml(read_text(path, "scenario"), visible(str(path)))
