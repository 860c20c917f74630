"""Reads the TOML files of ladders (rungs, hardware, claims) and of sweeps (varied settings)."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from trimtab.base.error import UsageError, visible
from trimtab.base.run import Layer
from trimtab.base.site import Site, SiteProbe
from trimtab.base.site_hardware import FIGURE, Figure, Hardware, Parity, parse_figure
from trimtab.base.toml_kind import (
    FRACTION,
    SWITCH,
    TEXT,
    TEXTS,
    ValueKind,
    choice,
    shown,
    table_of,
    whole,
)
from trimtab.base.toml_problem import (
    BadValue,
    Problem,
    config_error,
    key_lines,
    name_problems,
    raised,
)
from trimtab.base.toml_schema import Schema, key, table, tables
from trimtab.base.trusted_file import parse_toml, read_text
from trimtab.judge.efficiency_ladder import Claim, Coverage
from trimtab.judge.sweep_result import Level
from trimtab.site.site_check import hardware_problems, problems
from trimtab.site.site_file import PROBE

METRIC_OF: Final = {
    "write": "write_bandwidth",
    "read": "read_bandwidth",
    "write_iops": "write_iops",
    "read_iops": "read_iops",
}
_EXACT: Final = frozenset({"network", "client_network"})
"""Line rates are nominal: 400 Gb/s is a name, not a rounded measurement."""


def _measured(unit: str) -> ValueKind:
    """Return the kind for one figure, or a list with one per repetition."""

    def read(value: object) -> tuple[Figure, ...]:
        texts = value if isinstance(value, list) else [value]
        figures = []
        for text in texts:
            if not isinstance(text, str):
                raise BadValue(
                    f"{visible(repr(text)[:40])} is not text",
                    code="wrong-type",
                    hint=f"write it as {FIGURE.example}",
                )
            figures.append(parse_figure(text, unit))
        if not figures or any(figure.possible()[0] <= 0 for figure in figures):
            raise BadValue(
                "a rate must be greater than 0",
                code="out-of-range",
                hint="omit rates that were not measured",
            )
        return tuple(figures)

    either = [FIGURE.schema, {"type": "array", "items": FIGURE.schema}]
    return replace(FIGURE, read=read, schema={"anyOf": either})


_RATES: Final = _measured("B/s")
_OPERATIONS: Final = _measured("1/s")
_LAYERS: Final = ("drive", "raid", "ost", "network", "client", "application")


@dataclass(frozen=True, slots=True)
class StatedRung:
    """One ``[[rung]]``: the rates of one layer; several figures are repetitions."""

    layer: Layer = key(choice(_LAYERS), "Which layer.")
    write: tuple[Figure, ...] | None = key(_RATES, "Write rate.", None)
    read: tuple[Figure, ...] | None = key(_RATES, "Read rate.", None)
    write_iops: tuple[Figure, ...] | None = key(_OPERATIONS, "Writes per second.", None)
    read_iops: tuple[Figure, ...] | None = key(_OPERATIONS, "Reads per second.", None)
    drives: int | None = key(whole(1, 10_000_000), "Number of drives it covers.", None)
    osts: int | None = key(whole(1, 1_000_000), "Number of OSTs it covers.", None)
    servers: int | None = key(whole(1, 1_000_000), "Number of servers it covers.", None)
    nodes: int | None = key(whole(1, 1_000_000), "Client nodes.", None)
    tool: str | None = key(TEXT, "Tool that measured it.", None)
    source: str | None = key(TEXT, "Source of the figure.", None)
    epoch: str | None = key(TEXT, "Rungs of different epochs belong to different systems.", None)
    fullness: float | None = key(FRACTION, "Fullness of the file system at that time.", None)
    conditions: Mapping[str, str] = key(
        table_of(TEXT, '{ NPS = "1" }'), "Other conditions that must be equal for a comparison.", {}
    )
    notes: tuple[str, ...] = key(TEXTS, "Notes on the rung.", ())

    @property
    def figures(self) -> dict[str, tuple[Figure, ...]]:
        """Metric to its figures."""
        stated = {METRIC_OF[name]: getattr(self, name) for name in METRIC_OF}
        return {metric: figures for metric, figures in stated.items() if figures is not None}

    @property
    def coverage(self) -> Coverage:
        """Numbers of drives, OSTs and servers it covers."""
        return Coverage(self.drives, self.osts, self.servers)


@dataclass(frozen=True, slots=True)
class LadderFile:
    """A whole file; ``figures`` has every printed value by its name in formulas."""

    name: str = key(TEXT, "Name of the system.", at="ladder.name")
    hardware: Hardware = table(Hardware, "Its hardware.")
    rungs: tuple[StatedRung, ...] = tables(StatedRung, "rung", "Rates of one layer.")
    source: str | None = key(TEXT, "Source of the figures.", None, at="ladder.source")
    networked: bool = key(
        SWITCH, "Whether clients access it over a network.", True, at="ladder.networked"
    )
    figures: Mapping[str, Figure] = key(
        table_of(FIGURE, '{ walltime = "2900 s" }'),
        "Other printed values by name.",
        {},
        at="figures",
    )
    claims: tuple[Claim, ...] = tables(
        Claim, "printed", "A printed value, and the formula it should follow from."
    )
    notes: tuple[str, ...] = key(TEXTS, "Notes.", (), at="ladder.notes")


LADDER_SCHEMA: Final = Schema(LadderFile)


def is_ladder(path: str | os.PathLike[str]) -> bool:
    """Return whether a TOML file has a ``[ladder]`` table; False for any other file."""
    try:
        return "ladder" in parse_toml(_text(path), visible(os.fspath(path)))
    except UsageError:
        return False  # the actual reader reports its errors


def load_ladder(path: str | os.PathLike[str]) -> LadderFile:
    """Read a file of published figures.

    ::

        [ladder]
        name = "one OSS"
        [hardware]
        drive_write = "3.2 GB/s"
        drives = 12
        parity = "8+2"
        [[rung]]
        layer = "ost"
        write = "31 GB/s"
        [[printed]]
        what = "writes kept from drive to client"
        value = "88.4 %"
        from = "client.write * hardware.parity / drive.write"

    A rung without counts covers the whole system in ``[hardware]``.

    Raises
    ------
    UsageError
        It cannot be read, is not TOML, or has invalid contents.
    """
    return parse_ladder(_text(path), visible(os.fspath(path)))


def _text(path: str | os.PathLike[str]) -> str:
    return read_text(Path(path), "the ladder file", names_programs=False)


def parse_ladder(text: str, name: str) -> LadderFile:
    """Parse the text of such a file; ``name`` is its name in errors.

    Raises
    ------
    UsageError
        As `load_ladder`; with the line.
    """
    stated, mistakes = LADDER_SCHEMA.read(parse_toml(text, name))
    if mistakes:
        raise config_error(mistakes, name, key_lines(text))
    file: LadderFile = LADDER_SCHEMA.build(stated)
    if mistakes := [*hardware_problems(file.hardware), *_twice(file)]:
        raise config_error(mistakes, name, key_lines(text))
    return replace(file, figures=dict(_figures(file)))


def _figures(file: LadderFile) -> Iterator[tuple[str, Figure]]:
    for item in fields(file.hardware):
        value = getattr(file.hardware, item.name)
        if isinstance(value, Figure):
            exact = item.name in _EXACT
            yield f"hardware.{item.name}", Figure(value.value, value.unit) if exact else value
        elif isinstance(value, Parity):
            yield f"hardware.{item.name}", Figure(value.written_per_byte, "1")
        elif isinstance(value, int):
            yield f"hardware.{item.name}", Figure(float(value), "1")
    for rung in file.rungs:
        for name in METRIC_OF:
            figures = getattr(rung, name)
            if figures is not None and len(figures) == 1:
                yield f"{rung.layer}.{name}", figures[0]
    yield from file.figures.items()


def _twice(file: LadderFile) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for number, rung in enumerate(file.rungs):
        for name in METRIC_OF:
            if getattr(rung, name) is None:
                continue
            if (rung.layer, name) in seen:
                yield Problem(
                    ("rung", str(number), name),
                    f"a second {name} of the layer {rung.layer}",
                    'put repetitions into one list: write = ["38 GB/s", "37 GB/s"]',
                    "figure-twice",
                )
            seen.add((rung.layer, name))


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


SWEEP_SCHEMA: Final = Schema(Sweep)


def load_sweep(path: str) -> Sweep:
    """Read a sweep from a file.

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

    Raises
    ------
    UsageError
        It cannot be read or has invalid contents, with the key.
    """
    name = visible(path)
    text = read_text(Path(path), "the sweep file")
    values, troubles = SWEEP_SCHEMA.read(parse_toml(text, name))
    if not troubles:
        sweep: Sweep = SWEEP_SCHEMA.build(values)
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
