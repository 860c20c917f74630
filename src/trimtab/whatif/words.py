"""Words for what is varied most: each stands for one or more dotted keys of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trimtab.errors import UsageError
from trimtab.units import parse_fraction

Settings = Mapping[str, str]
_TRIMS: Final = {"nightly": "24h", "daily": "24h", "weekly": "7d", "monthly": "30d"}
_SWITCHES: Final = {"on": "true", "yes": "true", "off": "false", "no": "false"}
_REOPEN_UNDER: Final = 0.05


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
    # A capacity that the scenario prints is of its own drives.
    return {"osts.drive": text, "osts.capacity": "from-drives"}


def _setting(key: str) -> Callable[[str], Settings]:
    return lambda text: {key: _SWITCHES.get(text, text)}


WORDS: Final[Mapping[str, tuple[Callable[[str], Settings], str]]] = {
    "trim": (_trim, "never, nightly, weekly, monthly, discard, or a time between two"),
    "discard": (_setting("trim.discard"), "on or off, whatever else is trimmed"),
    "fullness": (_fullness, "at the start, and a purge keeps it under it: what a limit does"),
    "start-fullness": (_setting("users.fullness"), "at the start only"),
    "thresholds": (_thresholds, "mb_c1/c2/c3_threshold in per cent: 25/15/5"),
    "reset": (_setting("allocator.reset"), "never, or a time between two resets of mb_last_group"),
    "family": (_setting("allocator.family"), "of the allocator"),
    "purge": (_purge, "off, on, or the fullness that it brings the whole under"),
    "gating": (_gating, "off, on, or the fullness that closes an OST; 5 % less reopens it"),
    "drive": (_drive, "a drive that the twin knows, and OSTs as large as it makes them"),
    "spare": (_setting("osts.drive.spare"), "usable spare of the flash"),
    "placement": (_setting("placement.kind"), "round-robin or weighted"),
    "wbt": (_setting("queue.writeback_throttling"), "writeback throttling, on or off"),
    "writes": (_setting("users.daily_writes"), "of users, a day"),
}
"""Word to what it sets, and what its values are."""


def settings_of(name: str, text: str) -> Settings:
    """Return keys and their texts; a name that is no word is a dotted key itself.

    Examples
    --------
    >>> settings_of("trim", "weekly")
    {'trim.every': '7d', 'trim.discard': 'false'}
    >>> settings_of("queue.target_latency", "2ms")
    {'queue.target_latency': '2ms'}
    """
    return WORDS[name][0](text) if name in WORDS else {name: _SWITCHES.get(text, text)}
