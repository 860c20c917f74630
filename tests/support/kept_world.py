"""A simulated world put into a store as a site would have kept it: runs, snapshots, events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from tests.worlds.world import World

from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.snapshot import HostSnapshot, Reading, Setting, Snapshot, Target, TargetSnapshot
from trimtab.store import schema
from trimtab.store.connection import insert_samples, run_row
from trimtab.store.store import Store

SURVEY = "survey"


def keep_world(world: World, path: Path) -> Path:
    """Put a world into a new store and return its path."""
    site = world.site["name"]
    with Store.open(path) as store:
        store.ensure_site(site, driver="lustre", identity=f"lustre:{site}", path=f"/{site}")
        runs = [*map(run_of(site), world.runs), *surveys_of(site, world)]
        runs.sort(key=lambda run: run.at or datetime.min)
        with store._writing() as connection:
            connection.execute(
                insert(schema.run),
                [
                    {"number": number, **run_row(run, 1, None)}
                    for number, run in enumerate(runs, start=1)
                ],
            )
            samples = ((number, run.samples) for number, run in enumerate(runs, start=1))
            insert_samples(connection, samples)
        kept = {new_identifier(one["at"]): snapshot_of(one) for one in world.snapshots}
        store.add_changes(site, store.changes_of(site, kept))
        for one in world.events:
            store.add_event(event_of(site, one))
    return path


def run_of(site: str):
    def made(one: Mapping[str, Any]) -> Run:
        doubts = {
            metric: reason
            for reason in one["disbelieved"]
            for metric in one["values"]
            if metric in reason or metric.split("_")[0] in reason
        }
        samples = [
            Sample(metric, value, 0, reason=doubts.get(metric))
            for metric, value in one["values"].items()
        ]
        samples += [Sample(*_tail(name, value)) for name, value in one["tails"].items()]
        return Run(
            id=new_identifier(one["at"]),
            site=site,
            probe=one["probe"],
            kind=one["kind"],
            status=RunStatus(one["status"]),
            at=one["at"],
            until=one["until"],
            parameters={
                "spec": {"name": one["probe"], "nodes": one["nodes"], "tasks": one["tasks"]},
                "job": {"nodes": list(one["hosts"])},
                "cost": {
                    "bytes_written": one["bytes_written"],
                    "bytes_read": one["bytes_read"],
                },
            },
            problem=one["problem"],
            samples=tuple(samples),
        )

    return made


def _tail(name: str, value: float) -> tuple[Any, ...]:
    metric, _, statistic = name.partition(":")
    return (metric, value, 0, None, statistic)


def surveys_of(site: str, world: World) -> list[Run]:
    by_run: dict[str, list[Any]] = {}
    for row in world.surveys:
        by_run.setdefault(row["run"], []).append(row)
    return [
        Run(
            id=new_identifier(own[0]["at"]),
            site=site,
            probe=SURVEY,
            kind="obdfilter-survey",
            status=RunStatus.OK,
            at=own[0]["at"],
            parameters={"spec": {"name": SURVEY}},
            samples=tuple(
                Sample(
                    row["metric"],
                    row["value"],
                    0,
                    target=row["target"],
                    reason=None if row["value"] is not None else "nothing came back",
                )
                for row in own
            ),
        )
        for own in by_run.values()
    ]


def snapshot_of(one: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        at=one["at"],
        driver="lustre",
        complete=True,
        targets=tuple(
            TargetSnapshot(
                Target(name, target["kind"], target["server"]),
                _readings(target),
                _settings(target),
            )
            for name, target in one["targets"].items()
        ),
        hosts=tuple(
            HostSnapshot(name, host["role"], readings=_readings(host), settings=_settings(host))
            for name, host in one["hosts"].items()
        ),
    )


def _readings(of: Mapping[str, Any]) -> tuple[Reading, ...]:
    found = []
    for full, value in of["readings"].items():
        name, _, rest = full.partition("{")
        reason = None if value is not None else of["reasons"].get(full, "withheld")
        found.append(Reading(name, value, "simulated", reason, rest.removesuffix("}") or None))
    return tuple(found)


def _settings(of: Mapping[str, Any]) -> dict[str, Setting]:
    return {name: Setting(name, value, "simulated") for name, value in of["settings"].items()}


def event_of(site: str, one: Mapping[str, Any]) -> Event:
    return Event(
        id=new_identifier(one["at"]),
        site=site,
        kind=EventKind(one["kind"]),
        at=one["at"],
        until=one["until"],
        detail=one["detail"],
        source=one["source"],
        targets=tuple(one["targets"]),
    )
