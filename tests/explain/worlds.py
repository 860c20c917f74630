"""Simulated worlds brought to what explaining is given: known facts, and a source of snapshots.

The worlds of `tests.worlds` are plain values that know nothing of the program; this is the
only place where both meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import polars as pl
from tests.support.kept_world import event_of
from tests.worlds.world import World

from trimtab.base.failure import failure_of
from trimtab.base.incident import Evidence, Incident
from trimtab.base.run import METRIC_UNITS, RunStatus
from trimtab.base.series import SeriesKey
from trimtab.base.site import SiteLimits
from trimtab.base.site_hardware import Figure, Hardware, Parity
from trimtab.explain.context import READINGS, SETTINGS, SURVEYS, CpuProfile, RunFact, Telemetry
from trimtab.explain.explanation import gather
from trimtab.explain.failed_run import BadChecksums
from trimtab.explain.incident_detection import find_troubles
from trimtab.explain.site_explanation import Known, context_of, stages_of
from trimtab.judge.series_analysis import judge_series

_SERIES_COLUMNS: dict[str, Any] = {
    "at": pl.Datetime("us", "UTC"), "value": pl.Float64, "unfinished": pl.Boolean,
    "run": pl.String,
}  # fmt: skip
_NOT_JUDGED = {RunStatus.FAILED, RunStatus.NOT_STARTED, RunStatus.INVALID_WORKLOAD}


@dataclass
class WorldSource:
    """The snapshots of a world, turned to frames when they are asked for."""

    world: World
    loaded: int = 0
    _by_time: dict[datetime, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_time = {snapshot["at"]: snapshot for snapshot in self.world.snapshots}

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots within."""
        return [at for at in self._by_time if since <= at <= until]

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return the snapshots of these times as frames."""
        self.loaded += len(times)
        snapshots = [self._by_time[at] for at in times]
        readings = [row for snapshot in snapshots for row in _readings(snapshot)]
        settings = [row for snapshot in snapshots for row in _settings(snapshot)]
        return Telemetry(
            pl.DataFrame(readings, schema=READINGS, orient="row"),
            pl.DataFrame(settings, schema=SETTINGS, orient="row"),
        )


def known_of(world: World) -> Known:
    """Return all that is known of a world, beside its snapshots."""
    runs = tuple(map(_run_fact, _once(world.runs)))
    times = [run.at for run in runs]
    ends = [run.until or run.at for run in runs]
    limits = world.site["limits"]
    return Known(
        site=world.site["name"],
        record_from=min(times),
        now=max(ends),
        series=series_of(world, runs),
        surveys=pl.DataFrame(
            [tuple(row[name] for name in SURVEYS) for row in world.surveys],  # pyrefly: ignore[bad-typed-dict-key]
            schema=SURVEYS,
            orient="row",
        ),
        runs=runs,
        events=tuple(
            replace(event_of(world.site["name"], entry), id=f"event-{number}")
            for number, entry in enumerate(world.events)
        ),
        limits=SiteLimits(
            fullness=limits["fullness"],
            cov=limits["cov"],
            window_s=limits.get("window_s", 48 * 3600.0),
        ),
        hardware=_hardware(world.site["hardware"]),
        home=world.site["home"],
        profiles=tuple(CpuProfile(profile["at"], profile["shares"]) for profile in world.profiles),
    )


def _hardware(facts: Mapping[str, float]) -> Hardware:
    def figure(name: str) -> Figure | None:
        return Figure(facts[name], "B/s") if name in facts else None

    return Hardware(
        drive_write=figure("drive_write_bytes_per_s"),
        drive_read=figure("drive_read_bytes_per_s"),
        drives=int(facts["drives_per_ost"] * facts["osts"]),
        osts=int(facts["osts"]),
        oss=int(facts["servers"]),
        drives_per_ost=int(facts["drives_per_ost"]),
        parity=Parity(int(facts["parity_data"]), int(facts["parity_parity"])),
        network=figure("network_bytes_per_s"),
        client_network=figure("client_network_bytes_per_s"),
    )


def series_of(world: World, runs: Sequence[RunFact]) -> Mapping[SeriesKey, pl.DataFrame]:
    """Return each probe's metrics as series; runs that tell nothing of the file system left out."""
    metrics: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
    probes = {run.probe: set[str]() for run in runs}
    kinds = {run.probe: run.kind for run in runs}
    for run in runs:
        probes[run.probe] |= set(run.values)
    for run in runs:
        if run.status in _NOT_JUDGED:
            continue
        for metric in probes[run.probe]:
            doubted = any(metric in reason or metric.split("_")[0] in reason
                          for reason in run.disbelieved)  # fmt: skip
            unfinished = run.status is RunStatus.UNFINISHED
            value = None if unfinished else run.values.get(metric)
            if doubted or (value is None and not unfinished):
                continue
            row = (run.at, value, unfinished, run.id)
            metrics.setdefault((run.probe, kinds[run.probe], metric), []).append(row)
    return {
        SeriesKey(world.site["name"], probe, kind, metric, METRIC_UNITS[metric]): pl.DataFrame(
            sorted(rows, key=lambda row: row[0]), schema=_SERIES_COLUMNS, orient="row"
        )
        for (probe, kind, metric), rows in sorted(metrics.items())
    }


def incidents_of(world: World, known: Known) -> tuple[Incident, ...]:
    """Return the incidents that are found in a world, the latest first."""
    return find_troubles(
        [judge_series(frame, key) for key, frame in known.series.items()],
        known.series,
        known.surveys,
        tuple(BadChecksums(*row) for row in world.bad_checksums),
        site=known.site,
        now=known.now,
        runs=known.runs,
        limits=known.limits,
    ).incidents


Gathered = tuple[tuple[Incident, tuple[tuple[str, tuple[Evidence, ...]], ...]], ...]
"""Incidents, each with the evidence of every cause."""


def gathered_of(incidents: Sequence[Incident], known: Known, source: WorldSource) -> Gathered:
    """Return each incident with the evidence of every cause."""
    return tuple(
        (
            incident,
            tuple(
                (cause.id, evidence)
                for cause, evidence in gather(
                    context_of(incident, known, source, others=incidents),
                    stages=stages_of(incident, known, source, others=incidents),
                )
            ),
        )
        for incident in incidents
    )


def _once(runs: Iterable[Any]) -> list[Any]:
    """Return runs without those that repeat one under another id, as the store has them."""
    once: dict[tuple[Any, ...], Any] = {}
    for run in runs:
        values = tuple(sorted(run["values"].items()))
        once.setdefault((run["probe"], run["at"], run["until"], run["status"], values), run)
    return list(once.values())


def _run_fact(run: Mapping[str, Any]) -> RunFact:
    return RunFact(
        id=run["id"], at=run["at"], until=run["until"], probe=run["probe"],
        kind=run["kind"].replace("_", "-"),
        series=run["probe"], status=RunStatus(run["status"]), values=run["values"],
        tails=run["tails"], disbelieved=tuple(run["disbelieved"]), problem=run["problem"],
        hosts=tuple(run["hosts"]), bytes_written=run["bytes_written"],
        bytes_read=run["bytes_read"], nodes=run["nodes"], tasks=run["tasks"],
        failure=None if run["status"] == "ok" else failure_of(run["problem"]),
    )  # fmt: skip


def _readings(snapshot: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    at = snapshot["at"]
    for name, target in snapshot["targets"].items():
        about = (at, name, target["kind"], target["server"])
        yield from _values(about, target["readings"], target["reasons"])
    for name, host in snapshot["hosts"].items():
        yield from _values((at, name, host["role"], name), host["readings"], host["reasons"])


def _values(
    about: tuple[Any, ...], readings: Mapping[str, Any], reasons: Mapping[str, str]
) -> Iterator[tuple[Any, ...]]:
    for full, value in readings.items():
        name, _, rest = full.partition("{")
        label = rest.removesuffix("}") or None
        number = float(value) if isinstance(value, (bool, int, float)) else None
        text = value if isinstance(value, str) else None
        yield (*about, name, label, number, text, reasons.get(full) if value is None else None)


def _settings(snapshot: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    at = snapshot["at"]
    for name, target in snapshot["targets"].items():
        for setting, value in target["settings"].items():
            yield (at, name, target["kind"], setting, value)
    for name, host in snapshot["hosts"].items():
        for setting, value in host["settings"].items():
            yield (at, name, host["role"], setting, value)
