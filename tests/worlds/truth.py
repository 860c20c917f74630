"""What of a fault the record shows: computed from the record with it and the one without it.

Both records have the same noise, so every difference is of the fault. ``noticed`` asks whether
probes and surveys differ by more than that noise; ``told`` whether a recorded instrument shows the
cause's own sign: a setting, a state, a counter, a line of the log book, or what runs say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tests.worlds.draft import Planned
from tests.worlds.instruments import Surveys, Table
from tests.worlds.site import Site, target
from tests.worlds.state import Array, Flags, Line, State
from tests.worlds.telemetry import STATES, Telemetry, settings_at
from tests.worlds.world import Cause

LEAST_EFFECT = 0.05
"""A loss that counts as noticed, where the noise lets it be."""
SURE = 4.0
"""Standard errors that a loss must have."""
LOST_RUNS = 2
LOG_WITHIN_H = (-24.0, 48.0)
"""A line tells of a fault's begin if it was written so long before or after it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Everything measured of one state."""

    state: State
    tables: dict[str, Table]
    surveys: Surveys
    telemetry: Telemetry
    log: list[Line]


READINGS: dict[Cause, tuple[tuple[str, float], ...]] = {
    "targets-over-limit": (("used_bytes", 0.05),),
    "target-filling": (("used_bytes", 0.10),),
    "few-targets-open": (("create_enabled", 0),),
    "target-silent": (("import_state", 0), ("read_only", 0), ("errors_total", 0),
                      ("client_bytes_written_total", -0.5)),
    "failover": (("failover_active", 0), ("server", 0)),
    "array-degraded": (("degraded", 0), ("drive_media_errors_total", 0)),
    "trim-overdue": (("last_trim_at", 0), ("bytes_discarded_total", -0.5)),
    "garbage-collection": (("drive_write_amplification", 0.1),),
    "writeback-throttling": (("wbt_latency_s", 0),),
    "allocator-loops": (("allocator_useless_loops_total", 5.0),),
    "competing-load": (("client_bytes_written_total", 0.5), ("client_bytes_read_total", 0.5)),
    "metadata-load": (("metadata_operations_total", 0.5),),
    "network": (("network_errors_total", 5.0),),
    "bad-checksums": (("checksum_errors_total", 0),),
}  # fmt: skip
"""The readings that are a cause's own sign, with the least relative difference from the record
without the fault; negative: it must be less; 0: any difference."""


def told_by(planned: Planned, having: Recorded, lacking: Recorded) -> tuple[str, ...]:
    """Return the recorded instruments that show the cause's own sign within the hours."""
    if planned.mechanism is None:
        return ()
    signs = set(_log(planned, having))
    signs |= set(_runs(planned, having, lacking))
    missing = having.state.site.missing
    if planned.mechanism in {"configuration-change", "allocator-loops", "writeback-throttling"}:
        signs |= set(_settings(planned, having, lacking))
    for name, least in READINGS.get(planned.mechanism, ()):
        if name not in missing and _reading(planned, having, lacking, name, least):
            signs.add(name)
    if planned.mechanism == "target-silent":
        signs |= set(_silent_survey(planned, having))
    return tuple(sorted(signs))


def _end(planned: Planned, site: Site) -> float:
    return float(site.hours) if planned.end is None else planned.end


def _log(planned: Planned, having: Recorded) -> Iterator[str]:
    end = _end(planned, having.state.site)
    before, after = LOG_WITHIN_H
    for line in having.log:
        late, lasts = line.hour - planned.begin, end - planned.begin
        if line.of == planned.name and before <= late <= max(after, lasts):
            yield "log"


def _snapshots(planned: Planned, having: Recorded) -> np.ndarray:
    """Return the recorded hours within a fault."""
    hours = having.telemetry.recorded
    end = _end(planned, having.state.site)
    return hours[(hours >= planned.begin) & (hours < max(end, planned.begin + 1))]


def _settings(planned: Planned, having: Recorded, lacking: Recorded) -> Iterator[str]:
    """Yield if the settings before and within the fault are recorded, and differ by it."""
    hours, site = _snapshots(planned, having), having.state.site
    earlier = having.telemetry.recorded < planned.begin
    if "settings" in site.missing or not hours.size or not earlier.any():
        return
    first = int(hours[0])
    if settings_at(having.state, first) != settings_at(lacking.state, first):
        yield "settings"


def _reading(
    planned: Planned, having: Recorded, lacking: Recorded, name: str, least: float
) -> bool:
    hours = _snapshots(planned, having)
    shown, usual = _values(having, name), _values(lacking, name)
    if not hours.size:
        return False
    if name == "used_bytes":
        return _fuller(planned, having, lacking, hours, least)
    if name.endswith("_total"):
        earlier = having.telemetry.recorded[having.telemetry.recorded < hours[0]][-1:]
        hours = np.concatenate([earlier, hours])
        if hours.size < 2:
            return False
        shown, usual = np.diff(shown[hours], axis=0), np.diff(usual[hours], axis=0)
    else:
        shown, usual = shown[hours], usual[hours]
    if name in STATES or least == 0:
        return bool((shown != usual).any())
    counted = (shown >= 0) & (usual >= 0)
    scale = np.maximum(np.abs(usual), 1e-3)
    change = np.where(counted, (shown - usual) / scale, 0.0)
    part = change[:, list(planned.targets)] if planned.targets and least < 0 else change
    return bool((part < least).any() if least < 0 else (part > least).any())


def _fuller(
    planned: Planned, having: Recorded, lacking: Recorded, hours: np.ndarray, least: float
) -> bool:
    """Return whether snapshots show targets over the limit, or one that fills, by the fault."""
    shown, usual = having.state.full[hours], lacking.state.full[hours]
    if planned.mechanism == "target-filling":
        return bool((shown - usual > least).any())
    limit = having.state.site.limit
    return bool(((shown > limit) & (usual <= limit) & (shown - usual > least)).any())


def _values(recorded: Recorded, name: str) -> Array:
    source = recorded.telemetry
    for readings in (source.targets, source.mdts, source.servers):
        if name in readings:
            return readings[name]
    raise KeyError(name)


def _silent_survey(planned: Planned, having: Recorded) -> Iterator[str]:
    surveys = having.surveys
    end = _end(planned, having.state.site)
    inside = surveys.made & (surveys.time >= planned.begin) & (surveys.time < end)
    if not inside.any():
        return
    for ost in planned.targets:
        values = surveys.values["write_bandwidth"][inside]
        if (np.nan_to_num(values[:, ost]) < 0.3 * np.nanmedian(values)).any():
            yield "survey"


def _runs(planned: Planned, having: Recorded, lacking: Recorded) -> Iterator[str]:
    """Yield what runs say of the cause themselves."""
    end = _end(planned, having.state.site)
    hosts_kept = "hosts" not in having.state.site.missing
    for name, table in having.tables.items():
        usual = lacking.tables[name]
        inside = table.made & (table.time >= planned.begin) & (table.time < end)
        runs = np.flatnonzero(inside).tolist()
        for sign in planned.runs_tell:
            if sign == "problem" and any(table.problem[run] != usual.problem[run] for run in runs):
                yield "problem"
            if sign == "status" and (table.status[inside] == "invalid_workload").any():
                yield "status"
            if sign == "bytes" and (table.moved[inside] != usual.moved[inside]).any():
                yield "bytes"
            if sign == "disbelieved" and table.disbelieved[inside].any():
                yield "disbelieved"
            if (
                sign == "hosts"
                and hosts_kept
                and any(table.nodes[run] != usual.nodes[run] for run in runs)
            ):
                yield "hosts"
            if sign == "one-node" and hosts_kept and _contrast(table, usual, inside):
                yield "hosts"
            if sign == "network" and table.probe.kind == "lnet_selftest" and runs:
                yield from _lower(table, usual, inside)


def _contrast(table: Table, usual: Table, inside: Flags) -> bool:
    """Return whether runs with and without the slow nodes stand beside each other."""
    values, without = table.values, usual.values
    if "write_bandwidth" not in values:
        return False
    differs = values["write_bandwidth"] < 0.97 * without["write_bandwidth"]
    ok = inside & (table.status == "ok")
    return bool((differs & ok).sum() >= 3 and (~differs & ok).sum() >= 3)


def _lower(table: Table, usual: Table, inside: Flags) -> Iterator[str]:
    ratio = table.values["write_bandwidth"][inside] / usual.values["write_bandwidth"][inside]
    if float(np.median(ratio)) < 1 - LEAST_EFFECT:
        yield "network probe"


def noticed_by(
    planned: Planned, having: Recorded, lacking: Recorded
) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return probes and surveys that differ by more than their noise, and the effects."""
    names: list[str] = []
    effect: dict[str, float] = {}
    site = having.state.site
    end = _end(planned, site)
    for name, table in having.tables.items():
        usual = lacking.tables[name]
        inside = table.made & (table.time >= planned.begin) & (table.time < end)
        lost = (inside & (table.status != "ok") & (usual.status == "ok")).sum()
        if lost >= LOST_RUNS:
            names.append(f"{name}:{table.status[inside & (table.status != 'ok')][-1]}")
        both = inside & (table.status == "ok") & (usual.status == "ok")
        for metric, values in table.values.items():
            if both.sum() < 1:
                continue
            ratio = np.log(values[both] / usual.values[metric][both])
            effect[f"{name}:{metric}"] = float(np.exp(np.median(ratio)))
            if _stands_out(ratio, usual, metric, site.phi):
                names.append(f"{name}:{metric}")
            if _scatters(values[both], usual.values[metric][both]):
                names.append(f"{name}:{metric}:scatter")
    names += _slow_in_surveys(planned, having, lacking)
    return tuple(names), effect


def _stands_out(ratio: Array, usual: Table, metric: str, phi: float) -> bool:
    """Return whether the mean loss is `LEAST_EFFECT`, and `SURE` of its standard errors."""
    good = usual.made & (usual.status == "ok")
    levels = np.log(usual.values[metric][good])
    if good.sum() < 10:
        return False
    scatter = 1.4826 * float(np.median(np.abs(np.diff(levels)))) / np.sqrt(2)
    scatter = max(scatter / np.sqrt(max(1 - phi, 0.2)), 0.005)
    slow = ratio < np.log(1 - LEAST_EFFECT)
    if slow.sum() < 2:
        return False
    count = max(slow.sum() * (1 - phi) / (1 + phi), 1.0)
    return bool(-ratio[slow].mean() * np.sqrt(count) > SURE * scatter)


def _scatters(values: Array, usual: Array) -> bool:
    """Return whether many runs scatter far more, around the level that they had."""
    if values.size < 40:
        return False
    spread = [np.std(np.log(series / np.median(series))) for series in (values, usual)]
    return bool(spread[0] > 1.8 * spread[1] and spread[0] > 0.08)


def _slow_in_surveys(planned: Planned, having: Recorded, lacking: Recorded) -> list[str]:
    surveys, names = having.surveys, []
    end = _end(planned, having.state.site)
    inside = surveys.made & (surveys.time >= planned.begin) & (surveys.time < end)
    for metric, values in surveys.values.items():
        shown = np.nan_to_num(values[inside], nan=1.0)
        ratio = np.log(shown / np.nan_to_num(lacking.surveys.values[metric][inside], nan=1.0))
        if not ratio.size:
            continue
        depth = ratio.mean(axis=0)
        sure = -depth * np.sqrt(inside.sum()) > SURE * having.state.site.survey_sigma
        single = sure & (depth < np.log(0.85)) & (inside.sum() >= 2)
        if single.any() and single.sum() <= len(single) / 2:
            names += [f"survey:{metric}:{target(ost)}" for ost in np.flatnonzero(single)[:3]]
    return names
