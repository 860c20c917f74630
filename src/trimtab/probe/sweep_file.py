"""Reads a sweep file: probe settings that are varied, and those changed by hand.

::

    [sweep]
    name = "bring-up"
    site = "scratch"            # a site, or its file
    probe = "hourly"            # other settings are those of this probe
    rounds = 3

    [factor]                    # keys of a probe, each with its values
    transfer_size = ["1MiB", "16MiB"]
    nodes = [1, 4, 16]

    [manual]                    # set by hand before: given with --now
    nps = [1, 2, 4]
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import UsageError
from trimtab.base.site import Site, SiteProbe
from trimtab.base.small_file import parse_toml, read_text
from trimtab.base.toml_kind import TEXT, ValueKind, shown, table_of, whole
from trimtab.base.toml_problem import (
    BadValue,
    Problem,
    config_error,
    key_lines,
    name_problems,
    raised,
)
from trimtab.base.toml_schema import Schema, key
from trimtab.base.visible import visible
from trimtab.judge.sweep_result import Level
from trimtab.site.site_check import problems
from trimtab.site.site_file import PROBE

POINTS_MAXIMUM: Final = 10_000
_NUMBERS: Final = "[1, 2, 4]"
_AS_NUMBERS: Final = f"as {_NUMBERS}"
_EXAMPLES: Final = {
    **dict.fromkeys(("transfer_size", "block_size"), '["1MiB", "4MiB"]'),
    **dict.fromkeys(("duration", "timeout", "pending", "jitter"), '["30s", "60s"]'),
    **dict.fromkeys(("direct", "drop_caches", "target_pinning"), "[true, false]"),
    "benchmark": '["ior", "fio"]',
    "launcher": '["local", "mpi"]',
    "directory": '["one", "other"]',
    "stripe_count": "[1, 4, -1]",
}
"""Lists of values for a probe's keys; other keys, and manual settings, take numbers."""


def _read_levels(value: object) -> tuple[Level, ...]:
    plain = isinstance(value, list) and all(isinstance(level, Level) for level in value)
    if not isinstance(value, list) or not plain:
        raise BadValue(
            f"{shown(value)} is not a list of values", code="wrong-type", hint=_AS_NUMBERS
        )
    if not value or len(set(map(repr, value))) != len(value):
        raise BadValue("must be a list of different values", hint=_AS_NUMBERS)
    return tuple(value)


_AXES: Final = table_of(
    ValueKind("list of values", _NUMBERS, _read_levels, repr), '[factor] transfer_size = ["1MiB"]'
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep file.

    Attributes
    ----------
    rounds
        Each round measures all points once, so that changes over time do not affect a single
        setting.
    """

    name: str = key(TEXT, "Name of the sweep: lower-case letters, digits, dashes.", at="sweep.name")
    site: str = key(TEXT, "A site, or its file relative to this file.", at="sweep.site")
    probe: str = key(TEXT, "The probe with all other settings.", at="sweep.probe")
    factors: Mapping[str, tuple[Level, ...]] = key(
        _AXES, "Keys of a probe, each with its values.", {}, at="factor"
    )
    manual: Mapping[str, tuple[Level, ...]] = key(
        _AXES, "Settings changed by hand, each with its values.", {}, at="manual"
    )
    rounds: int = key(whole(1, 1000), "Number of measurements of each point.", 3, at="sweep.rounds")

    @property
    def axes(self) -> dict[str, tuple[Level, ...]]:
        """All factors with their levels, manual ones first."""
        return {**self.manual, **self.factors}

    @property
    def points(self) -> tuple[dict[str, Level], ...]:
        """Every combination of levels, in the order of the file."""
        return tuple(
            dict(zip(self.axes, levels, strict=True)) for levels in product(*self.axes.values())
        )

    @property
    def varying(self) -> tuple[str, ...]:
        """The factors with more than one level."""
        return tuple(key for key, levels in self.axes.items() if len(levels) > 1)

    @property
    def fixed(self) -> dict[str, Level]:
        """The factors with a single level, which are constant."""
        return {key: levels[0] for key, levels in self.axes.items() if len(levels) == 1}

    def order(self, round_: int) -> tuple[dict[str, Level], ...]:
        """Return the points in the order of one round, shuffled reproducibly."""
        points = list(self.points)
        seed = hashlib.sha256(f"{self.name}:{round_}".encode()).digest()
        random.Random(seed).shuffle(points)
        return tuple(points)


SCHEMA: Final = Schema(Sweep)


def load_sweep(path: str) -> Sweep:
    """Read a sweep from a file.

    Raises
    ------
    UsageError
        It cannot be read or has invalid contents, with the key.
    """
    name = visible(path)
    text = read_text(Path(path), "the sweep file")
    values, troubles = SCHEMA.read(parse_toml(text, name))
    if not troubles:
        sweep: Sweep = SCHEMA.build(values)
        troubles = list(_problems(sweep))
        if not troubles:
            is_file = "/" in sweep.site or sweep.site.endswith(".toml")
            place = Path(path).parent / sweep.site
            return replace(sweep, site=str(place)) if is_file else sweep
    raise config_error(list(map(_with_example, troubles)), name, key_lines(text))


def varied(site: Site, probe: SiteProbe, sweep: Sweep, levels: Mapping[str, Level]) -> SiteProbe:
    """Return the probe with the levels of one point, checked as in a site file.

    Raises
    ------
    UsageError
        A factor is not a key of a probe, a value is invalid, or the result is contradictory.
    """
    of_probe = {key: value for key, value in levels.items() if key in sweep.factors}
    stated, mistakes = PROBE.read(of_probe)
    for problem in mistakes:
        name = problem.location[0]
        near = problem.hint is not None and problem.hint.startswith("did you mean")
        unknown = problem.code == "unknown-table"
        message = "it is not a key of a probe" if unknown else problem.message
        raise UsageError(
            f"[factor] {visible(name[:80])}: {message}",
            code="unknown-key" if unknown else problem.code,
            hint=_example(name) if name in _EXAMPLES and not near else problem.hint,
        )
    changed = replace(probe, name=f"sweep-{sweep.name}", schedule=None, **stated)
    for problem in problems(replace(site, probes=(changed,))):
        point = ", ".join(f"{name} = {value}" for name, value in levels.items())
        raise raised(problem, point)
    return changed


def _problems(sweep: Sweep) -> Iterator[Problem]:
    yield from name_problems(sweep.name, ("sweep", "name"))
    if not sweep.factors and not sweep.manual:
        hint = '[factor] transfer_size = ["1MiB", "16MiB"]'
        yield Problem(("factor",), "nothing is varied", hint, "missing-key")
    for name in sorted(sweep.factors.keys() & sweep.manual.keys()):
        yield Problem(("factor", name), f"{name} is in both [factor] and [manual]")
    for name in ("schedule", "name", "options", "command"):
        if name in sweep.factors:
            yield Problem(("factor", name), f"{name} cannot be varied", code="factor-fixed")
    runs = sweep.rounds
    for levels in sweep.axes.values():
        runs *= len(levels)
    if runs > POINTS_MAXIMUM:
        yield Problem(
            ("factor",),
            f"{runs:,} runs are more than {POINTS_MAXIMUM:,}",
            "vary less at a time",
            "out-of-range",
        )


def _with_example(problem: Problem) -> Problem:
    """Add an example of a valid list to a problem of a list of values."""
    match problem.location:
        case (("factor" | "manual"), str(name)) if problem.hint == _AS_NUMBERS:
            return replace(problem, hint=_example(name))
    return problem


def _example(name: str) -> str:
    return f"{visible(name[:80])} = {_EXAMPLES.get(name, _NUMBERS)}"


def levels_now(sweep: Sweep, words: tuple[str, ...]) -> dict[str, Level]:
    """Parse the current manual levels: ``nps=4``.

    Raises
    ------
    UsageError
        A word is not ``NAME=VALUE``, or is not in the sweep.
    """
    now: dict[str, Level] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in sweep.manual:
            known = ", ".join(sweep.manual) or "none"
            raise UsageError(
                f"{visible(name[:80])!r} is not set by hand",
                code="factor-unknown",
                hint=f"[manual]: {known}",
            )
        matching = [level for level in sweep.manual[name] if str(level) == value]
        if not matching:
            levels = ", ".join(map(str, sweep.manual[name]))
            raise UsageError(
                f"{name} has no level {visible(value[:80])!r}",
                code="level-unknown",
                hint=f"known: {levels}",
            )
        now[name] = matching[0]
    return now


def points_now(
    points: tuple[dict[str, Level], ...], now: Mapping[str, Level], manual: Mapping[str, Any]
) -> Iterator[dict[str, Level]]:
    """Yield the points that can be measured with the current manual levels."""
    for point in points:
        if all(key in now and now[key] == point[key] for key in manual):
            yield point
