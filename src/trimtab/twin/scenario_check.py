"""Checks whether a scenario is possible, also after settings are replaced.

Each problem has the key, the reason and a hint.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.toml_problem import Location, Problem, problem_of, raised
from trimtab.base.units import DAY_S, format_bytes, format_percent
from trimtab.twin.scenario import (
    GROUP_UNITS,
    Fault,
    ProbeLoad,
    Raid,
    Scenario,
    ScenarioChange,
    capacity_bytes,
    drives_capacity_bytes,
    ost_capacity_bytes,
)
from trimtab.twin.scenario_key import (
    apply_change,
    file_schema,
    find_key,
    known_keys,
    read_value,
    with_value,
)

_SHARES_OFF: Final = 1e-6
_OSTS_NEEDED: Final = frozenset({"silent-ost", "failover", "slow-drive", "failed-drive", "filling"})
_FRACTION_NEEDED: Final = frozenset({"slow-drive"})
_RATE_NEEDED: Final = frozenset({"filling", "burst"})
_LEAST_CHUNK_BYTES: Final = 4096
_MOST_CHUNK_BYTES: Final = 2**30
_MOST_DRIVES: Final = 1024
_LEAST_EPOCH_S: Final = 60.0


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield why a scenario cannot be simulated, the most basic problems first."""
    yield from _raid(scenario.osts.raid)
    yield from standing_problems(scenario)
    yield from _start(scenario)
    yield from _resolution(scenario)
    for probe in scenario.probes:
        yield from _probe(scenario, probe)
    yield from _changes(scenario)
    for number, fault in enumerate(scenario.faults):
        yield from _fault(scenario, fault, ("fault", str(number)))
    yield from _assumptions(scenario)


def _raid(raid: Raid) -> Iterator[Problem]:
    at = ("osts", "raid")
    stripe = raid.data + raid.parity
    if stripe > raid.drives - raid.spares:
        yield Problem(
            (*at, "drives"),
            f"{raid.data}+{raid.parity} with {raid.spares} spares needs "
            f"{stripe + raid.spares} drives but has {raid.drives}",
            "use more drives or a narrower stripe",
            "too-few-drives",
        )
    mirror = "data = 1, parity = 1"
    if raid.kind == "raid10" and raid.data != 1:
        yield Problem((*at, "data"), "raid10 mirrors one chunk", mirror, "mirror-data")
    if raid.kind == "raid10" and raid.parity < 1:
        yield Problem((*at, "parity"), "raid10 needs a copy", mirror, "mirror-copies")
    if raid.kind == "raid10" and raid.parity > 1:
        message = "only mirrors with one copy are simulated"
        yield Problem((*at, "parity"), message, "parity = 1", "mirror-copies")
    if raid.drives > _MOST_DRIVES:
        message = f"groups of up to {_MOST_DRIVES:,} drives are simulated"
        yield Problem((*at, "drives"), message, code="out-of-range")
    if not _LEAST_CHUNK_BYTES <= raid.chunk_bytes <= _MOST_CHUNK_BYTES:
        message = "must be 4 KiB to 1 GiB"
        yield Problem((*at, "chunk"), message, 'chunk = "128KiB"', "out-of-range")


def standing_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield problems that are invalid at any time, at the start and after changes."""
    osts = scenario.osts
    most = drives_capacity_bytes(osts)
    if most > 0 and ost_capacity_bytes(osts) > most * (1 + 1e-9):
        yield Problem(
            ("osts", "capacity"),
            f"{format_bytes(ost_capacity_bytes(osts))} is more than its drives provide, "
            f"{format_bytes(most)}",
            "omit it to use the drives' capacity",
            "capacity-too-large",
        )
    gating, purge = scenario.gating, scenario.purge
    if gating.reopen >= gating.limit:
        yield Problem(
            ("gating", "reopen"),
            f"{format_percent(gating.reopen)} is not below the limit, "
            f"{format_percent(gating.limit)}: an OST would close and open repeatedly",
            "leave a few percent between them",
            "reopen-above-limit",
        )
    if purge.max_age_s is not None and purge.max_age_s < purge.min_age_s:
        yield Problem(
            ("purge", "max_age"),
            "it is shorter than min_age: files that must be purged may not be",
            "also lower min_age",
            "ages-exclude",
        )
    for probe in scenario.probes:
        if probe.nodes > scenario.clients.nodes:
            yield Problem(
                ("probe", probe.name, "nodes"),
                f"{probe.nodes} are more than the {scenario.clients.nodes} nodes of [clients]",
                code="too-many-nodes",
            )


def _start(scenario: Scenario) -> Iterator[Problem]:
    users, whole = scenario.users, capacity_bytes(scenario)
    shares = sum(lifetime.share for lifetime in users.lifetimes)
    if abs(shares - 1) > _SHARES_OFF:
        yield Problem(
            ("users", "lifetimes"),
            f"the shares add up to {shares:.6g}, not to 1",
            'files that live until they are purged are a share too: mean = "until-purged"',
            "shares-not-whole",
        )
    if scenario.length_s < scenario.resolution.epoch_s:
        yield Problem(
            ("scenario", "length"), "it is shorter than one epoch", code="length-too-short"
        )
    epoch = users.daily_writes_bytes * scenario.resolution.epoch_s / 86400
    probe = max((probe.bytes_written for probe in scenario.probes), default=0.0)
    needed = users.fullness * whole + epoch + probe
    if needed > whole:
        yield Problem(
            ("users", "fullness"),
            f"{format_percent(users.fullness)} of {format_bytes(whole)}, with the writes of one "
            f"epoch ({format_bytes(epoch)}) and of a probe ({format_bytes(probe)}), exceeds the "
            "capacity",
            "start less full, or write less",
            "too-full",
        )


def _resolution(scenario: Scenario) -> Iterator[Problem]:
    resolution = scenario.resolution
    if resolution.classes is not None and resolution.classes > scenario.osts.count:
        yield Problem(
            ("resolution", "classes"),
            f"{resolution.classes} are more than the {scenario.osts.count} OSTs",
            'classes = "all" simulates each of them',
            "too-many-classes",
        )
    if not _LEAST_EPOCH_S <= resolution.epoch_s <= DAY_S:
        yield Problem(
            ("resolution", "epoch"), "must be 1 min to 24 h", 'epoch = "1h"', "out-of-range"
        )
    # The miniature drive has whole superblocks: some for data, and at least one spare.
    units, spare = resolution.groups * GROUP_UNITS, scenario.osts.drive.spare
    flash = math.floor(units / (1.0 - spare) / resolution.superblock_units + 0.5)
    if resolution.superblock_units > units or (flash - 1) * resolution.superblock_units < units:
        yield Problem(
            ("resolution", "superblock_units"),
            f"{resolution.superblock_units} units are too many for {resolution.groups} groups of "
            f"{GROUP_UNITS:,} with {format_percent(spare)} spare: not one superblock is spare",
            "use smaller superblocks or more groups",
            "superblock-too-large",
        )


def _probe(scenario: Scenario, probe: ProbeLoad) -> Iterator[Problem]:
    at = ("probe", probe.name)
    if probe.since is not None and probe.since >= scenario.end:
        message = "it is not before the scenario's end"
        yield Problem((*at, "since"), message, code="outside-scenario")
    if probe.kind == "ior":
        for key in ("nodes", "tasks_per_node", "bytes_written"):
            if not getattr(probe, key):
                message = "IOR measures nothing without it"
                yield Problem((*at, key), message, "more than 0", "probe-empty")
        least = probe.tasks * probe.transfer_size_bytes
        if 0 < probe.bytes_written < least:
            yield Problem(
                (*at, "bytes_written"),
                f"{format_bytes(probe.bytes_written)} are less than one transfer of each task, "
                f"{format_bytes(least)}",
                "use more bytes, fewer tasks or smaller transfers",
                "probe-too-small",
            )
        return
    for key in ("nodes", "tasks_per_node", "bytes_written"):
        if getattr(probe, key):
            message = f"{probe.kind} runs on the servers and does not use it"
            yield Problem((*at, key), message, "remove it", "key-not-applicable")


def _changes(scenario: Scenario) -> Iterator[Problem]:
    now = scenario
    for number, change in enumerate(scenario.changes):
        at = ("change", str(number))
        if not scenario.start <= change.at <= scenario.end:
            yield _outside((*at, "at"), scenario)
        if not change.set:
            example = 'set = {"trim.every" = "24h"}'
            yield Problem((*at, "set"), "it changes nothing", example, "change-empty")
        fixed = [problem for name in change.set for problem in _fixed(name, (*at, "set", name))]
        yield from fixed
        if fixed:
            return
        after = apply_change(now, change)
        if after.osts.count < now.osts.count:
            yield Problem(
                (*at, "set", "osts.count"),
                f"{after.osts.count} are fewer than the {now.osts.count} before: capacity can only "
                f"grow, as an OST's data would be lost",
                code="osts-removed",
            )
        for problem in new_problems(now, after):
            yield replace(problem, location=(*at, "set", _blamed(change, problem)))
        now = after


def new_problems(scenario: Scenario, changed: Scenario) -> Iterator[Problem]:
    """Yield the invalid conditions that a change introduces."""
    known = {problem.location for problem in standing_problems(scenario)}
    for problem in standing_problems(changed):
        if problem.location not in known:
            yield problem


def _fixed(name: str, at: Location) -> Iterator[Problem]:
    try:
        changes = find_key(name).changes
    except UsageError as error:
        yield problem_of(error, at)
        return
    if not changes:
        message = "it cannot change while the scenario runs"
        yield Problem(at, message, "set it from the start", "key-fixed")


def _blamed(change: ScenarioChange, problem: Problem) -> str:
    """Return the key of a change that causes a problem: of the same table, else its first."""
    table = problem.location[0]
    return next((key for key in change.set if key.startswith(f"{table}.")), next(iter(change.set)))


def _fault(scenario: Scenario, fault: Fault, at: Location) -> Iterator[Problem]:
    if not scenario.start <= fault.at <= scenario.end:
        yield _outside((*at, "at"), scenario)
    if fault.until is not None and fault.until <= fault.at:
        yield Problem((*at, "until"), "it is not after at", code="end-before-start")
    present = _count_at(scenario, fault)
    for ost in fault.osts:
        if ost >= present:
            yield Problem(
                (*at, "osts"),
                f"there is no OST {ost} at that time, only 0 to {present - 1}",
                code="ost-unknown",
            )
    if fault.kind in _OSTS_NEEDED and not fault.osts:
        message = f"{fault.kind} affects some OSTs: list them"
        yield Problem((*at, "osts"), message, "osts = [17]", "osts-missing")
    if fault.kind not in _OSTS_NEEDED and fault.osts:
        message = f"{fault.kind} affects the whole file system"
        yield Problem((*at, "osts"), message, "remove it", "key-not-applicable")
    yield from _fault_size(fault, (*at, "size"))


def _fault_size(fault: Fault, at: Location) -> Iterator[Problem]:
    size = fault.size
    if fault.kind in _FRACTION_NEEDED:
        if size is None or not 0 < size < 1:
            message = f"{fault.kind} needs the remaining fraction of its speed"
            yield Problem(at, message, "size = 0.5", "fraction-needed")
    elif fault.kind in _RATE_NEEDED:
        if size is None or size <= 1:
            yield Problem(at, f"{fault.kind} needs a rate", 'size = "2 GB/s"', "rate-needed")
    elif size is not None:
        yield Problem(at, f"{fault.kind} has no size", "leave it out", "key-not-applicable")


def _count_at(scenario: Scenario, fault: Fault) -> int:
    count = scenario.osts.count
    for change in scenario.changes:
        if change.at <= fault.at and isinstance(change.set.get("osts.count"), int):
            count = int(str(change.set["osts.count"]))
    return count


def _outside(at: Location, scenario: Scenario) -> Problem:
    return Problem(
        at,
        f"it is outside the scenario, which lasts from {scenario.start:%Y-%m-%d %H:%M} to "
        f"{scenario.end:%Y-%m-%d %H:%M} UTC",
        "see [scenario] length",
        "outside-scenario",
    )


def _assumptions(scenario: Scenario) -> Iterator[Problem]:
    whole = {f"probe.{probe.name}" for probe in scenario.probes} | {"users.lifetimes"}
    for name in scenario.assumptions:
        if name in file_schema().root.entries or name in whole:
            continue
        if any(key.startswith(f"{name}.") for key in known_keys()):
            continue
        try:
            find_key(name, scenario)
        except UsageError as error:
            yield problem_of(error, ("assumptions", name))


def replace_keys(
    scenario: Scenario, values: Mapping[str, object], *, for_good: bool = False
) -> Scenario:
    """Return the scenario with some settings changed.

    Parameters
    ----------
    scenario
        The original, which is not modified.
    values
        Dotted key to text, read by the key's own type (``"48h"``, ``"75%"``, ``"never"``,
        ``"true"``); any other value is used as is, in base SI, as in
        `trimtab.twin.scenario.ScenarioChange.set`.
    for_good
        Remove these keys from later changes of the scenario; otherwise those still take effect.

    Returns
    -------
    Scenario
        The changed scenario, without assumptions for the changed keys.

    Raises
    ------
    UsageError
        A key is unknown, a value is not valid, or the resulting scenario is impossible.
    """
    changed = _with_values(scenario, values)
    assumptions = {at: why for at, why in scenario.assumptions.items() if at not in values}
    changed = replace(changed, assumptions=assumptions)
    if for_good:
        changed = replace(changed, changes=tuple(_without(changed.changes, values)))
    for problem in problems(changed):
        place = ".".join(problem.location)
        raise raised(problem, place if place in values else f"with {', '.join(values)}: {place}")
    return changed


def replace_running(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    """Return the scenario with settings changed at runtime.

    Initial conditions and past changes are not checked again.

    Parameters
    ----------
    values
        As for `replace_keys`; all change at once.

    Raises
    ------
    UsageError
        A key cannot change, a value is invalid, OSTs would be removed, or the settings would newly
        contradict each other.
    """
    for name in values:
        if not find_key(name, scenario).changes:
            raise UsageError(
                f"{name} cannot change while the file system runs",
                code="key-fixed",
                hint="start another scenario with that value",
            )
    changed = _with_values(scenario, values)
    if changed.osts.count < scenario.osts.count:
        raise UsageError(
            f"osts.count: {changed.osts.count} are fewer than {scenario.osts.count}",
            code="osts-removed",
            hint="OSTs can only be added",
        )
    for problem in new_problems(scenario, changed):
        raise raised(problem, ".".join(problem.location))
    return changed


def _with_values(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    for name, value in values.items():
        key = find_key(name, scenario)
        try:
            inside = read_value(key, value) if isinstance(value, str) else value
        except UsageError as error:
            raise raised(problem_of(error, ()), name) from error
        scenario = with_value(scenario, key, inside)
    return scenario


def _without(changes: Iterable[ScenarioChange], names: Container[str]) -> Iterator[ScenarioChange]:
    """Yield changes without some keys; changes that become empty are omitted."""
    for change in changes:
        settings = {name: value for name, value in change.set.items() if name not in names}
        if len(settings) == len(change.set):
            yield change
        elif settings:
            yield replace(change, set=settings)
