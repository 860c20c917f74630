"""A sweep's file: which settings of a probe are varied, and which a person changes by hand.

::

    [sweep]
    name = "bring-up"
    site = "scratch"            # a site, or its file
    probe = "hourly"            # what is not varied is as in this probe
    rounds = 3

    [factor]                    # keys of a probe, each with its values
    transfer_size = ["1MiB", "16MiB"]
    nodes = [1, 4, 16]

    [manual]                    # what a person sets before: named with --now
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

from trimtab.errors import UsageError
from trimtab.model.site import Site, SiteProbe
from trimtab.model.sweep import Level
from trimtab.site.checks import NAME, problems
from trimtab.site.load import parse_toml, probe_problem, read_text
from trimtab.visible import visible

POINTS_MAXIMUM: Final = 10_000
_TABLES: Final = frozenset({"sweep", "factor", "manual"})
_KEYS: Final = frozenset({"name", "site", "probe", "rounds"})
_EXAMPLES: Final = {
    **dict.fromkeys(("transfer_size", "block_size"), '["1MiB", "4MiB"]'),
    **dict.fromkeys(("duration", "timeout", "pending", "jitter"), '["30s", "60s"]'),
    **dict.fromkeys(("direct", "drop_caches", "target_pinning"), "[true, false]"),
    "benchmark": '["ior", "fio"]',
    "launcher": '["local", "mpi"]',
    "directory": '["one", "other"]',
    "stripe_count": "[1, 4, -1]",
}
"""Lists that a probe's keys take; the other keys, and what a person sets, take numbers."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep's file says.

    Attributes
    ----------
    factors
        Key of a probe to its values, as a site file has them.
    manual
        Name to values of what a person sets by hand.
    rounds
        How often every point is measured: all once, then all once more, so that what changes
        meanwhile does not fall on one setting.
    """

    name: str
    site: str
    probe: str
    factors: Mapping[str, tuple[Level, ...]]
    manual: Mapping[str, tuple[Level, ...]]
    rounds: int = 3

    @property
    def points(self) -> tuple[dict[str, Level], ...]:
        """Every combination of levels, in the order of the file."""
        axes = {**self.manual, **self.factors}
        return tuple(dict(zip(axes, levels, strict=True)) for levels in product(*axes.values()))

    @property
    def varying(self) -> tuple[str, ...]:
        """The factors with more than one level."""
        axes = {**self.manual, **self.factors}
        return tuple(key for key, levels in axes.items() if len(levels) > 1)

    @property
    def fixed(self) -> dict[str, Level]:
        """What has one level, and so is the same at every point."""
        axes = {**self.manual, **self.factors}
        return {key: levels[0] for key, levels in axes.items() if len(levels) == 1}

    def order(self, round_: int) -> tuple[dict[str, Level], ...]:
        """Return the points in the order of one round: shuffled, the same at every call."""
        points = list(self.points)
        seed = hashlib.sha256(f"{self.name}:{round_}".encode()).digest()
        random.Random(seed).shuffle(points)
        return tuple(points)


def load_sweep(path: str) -> Sweep:
    """Return the sweep that a file describes.

    Raises
    ------
    UsageError
        It cannot be read, or holds what does not belong there; it names the key.
    """
    name = visible(path)
    tables = parse_toml(read_text(Path(path), "the sweep file"), name)
    for key in tables:
        if key not in _TABLES:
            raise UsageError(
                f"{name}: there is no table {visible(key[:80])!r} in a sweep's file",
                hint="tables: sweep, factor, manual",
            )
    head = _table(tables, "sweep", name)
    for key in head:
        if key not in _KEYS:
            raise UsageError(
                f"{name}: [sweep] has no key {visible(key[:80])!r}",
                hint="name, site, probe, rounds",
            )
    sweep = Sweep(
        name=_text(head, "name", name),
        site=_text(head, "site", name),
        probe=_text(head, "probe", name),
        factors=_axes(_table(tables, "factor", name), "factor", name),
        manual=_axes(_table(tables, "manual", name), "manual", name),
        rounds=_rounds(head.get("rounds", 3), name),
    )
    _check(sweep, name)
    return sweep


def varied(site: Site, probe: SiteProbe, sweep: Sweep, levels: Mapping[str, Level]) -> SiteProbe:
    """Return the probe with the levels of one point: read and checked as in a site file.

    Raises
    ------
    UsageError
        A factor is no key of a probe, a value none of that key, or the result contradicts itself.
    """
    from pydantic import ValidationError

    from trimtab.site.schema import ProbeTable, probe_values

    of_probe = {key: value for key, value in levels.items() if key in sweep.factors}
    try:
        table = ProbeTable.model_validate(of_probe)
    except ValidationError as error:
        problem = probe_problem(error.errors(include_url=False)[0])
        key = problem.location[0]
        near = problem.hint is not None and problem.hint.startswith("did you mean")
        raise UsageError(
            f"[factor] {visible(key[:80])}: {problem.message}",
            hint=_example(key) if key in _EXAMPLES and not near else problem.hint,
        ) from error
    changes = probe_values(table)
    changed = replace(probe, name=f"sweep-{sweep.name}", schedule=None, **changes)
    for problem in problems(replace(site, probes=(changed,))):
        shown = ", ".join(f"{key} = {value}" for key, value in levels.items())
        raise UsageError(f"{shown}: {problem.message}", hint=problem.hint)
    return changed


def _check(sweep: Sweep, name: str) -> None:
    if not NAME.fullmatch(sweep.name):
        raise UsageError(
            f"{name}: {visible(sweep.name[:80])!r} is not a name",
            hint="small letters, digits and, between them, dashes",
        )
    if not sweep.factors and not sweep.manual:
        raise UsageError(
            f"{name}: nothing is varied", hint='[factor] transfer_size = ["1MiB", "16MiB"]'
        )
    if both := sorted(sweep.factors.keys() & sweep.manual.keys()):
        raise UsageError(f"{name}: {both[0]} is in [factor] and in [manual]")
    for key in ("schedule", "name", "options", "command"):
        if key in sweep.factors:
            raise UsageError(f"{name}: {key} cannot be varied")
    count = sweep.rounds
    for levels in (*sweep.factors.values(), *sweep.manual.values()):
        count *= len(levels)
    if count > POINTS_MAXIMUM:
        raise UsageError(
            f"{name}: {count:,} runs are more than {POINTS_MAXIMUM:,}", hint="vary less at a time"
        )


def _table(tables: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    table = tables.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{name}: {key} is to be a table: [{key}]")
    return table


def _text(table: Mapping[str, Any], key: str, name: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name}: [sweep] {key} is missing", hint=f'{key} = "..."')
    return value


def _example(key: str) -> str:
    shown = visible(key[:80])
    return f"{shown} = {_EXAMPLES.get(key, '[1, 2, 4]')}"


def _rounds(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1000:
        raise UsageError(f"{name}: [sweep] rounds is to be a whole number from 1 to 1000")
    return value


def _axes(table: Mapping[str, Any], noun: str, name: str) -> dict[str, tuple[Level, ...]]:
    axes: dict[str, tuple[Level, ...]] = {}
    for key, values in table.items():
        plain = isinstance(values, list) and all(isinstance(one, Level) for one in values)
        if not plain or not values or len(set(map(repr, values))) != len(values):
            raise UsageError(
                f"{name}: [{noun}] {visible(key[:80])} is to be a list of different values",
                hint=_example(key),
            )
        axes[key] = tuple(values)
    return axes


def levels_now(sweep: Sweep, said: tuple[str, ...]) -> dict[str, Level]:
    """Return the manual levels that a person says are set: ``nps=4``.

    Raises
    ------
    UsageError
        One is not ``NAME=VALUE``, or none of the sweep's.
    """
    now: dict[str, Level] = {}
    for word in said:
        key, _, value = word.partition("=")
        if key not in sweep.manual:
            known = ", ".join(sweep.manual) or "none"
            raise UsageError(f"{visible(key[:80])!r} is not set by hand", hint=f"[manual]: {known}")
        matching = [level for level in sweep.manual[key] if str(level) == value]
        if not matching:
            levels = ", ".join(map(str, sweep.manual[key]))
            raise UsageError(
                f"{key} has no level {visible(value[:80])!r}", hint=f"there are {levels}"
            )
        now[key] = matching[0]
    return now


def points_now(
    points: tuple[dict[str, Level], ...], now: Mapping[str, Level], manual: Mapping[str, Any]
) -> Iterator[dict[str, Level]]:
    """Yield the points that can be measured with the manual levels that are set."""
    for point in points:
        if all(key in now and now[key] == point[key] for key in manual):
            yield point
