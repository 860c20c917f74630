"""A whole world from a spec: simulated, written down as telemetry, with the truth beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from tests.incidents import of_storage, of_surroundings, physics
from tests.incidents.engine import Record, simulate
from tests.incidents.mechanism import Mechanism
from tests.incidents.sites import site_for
from tests.incidents.system import Book, System, make_system, make_weather, stream
from tests.incidents.telemetry import write_snapshots
from tests.incidents.world import Cause, Incident, Run, Site, SiteFacts, Spec, Truth, World

if TYPE_CHECKING:
    from tests.incidents.system import Weather

MECHANISMS: Final[dict[Cause, type[Mechanism]]] = {
    "targets-over-limit": of_storage.OverLimit,
    "target-filling": of_storage.Filling,
    "few-targets-open": of_storage.FewOpen,
    "target-silent": of_storage.Silent,
    "failover": of_storage.Failover,
    "array-degraded": of_storage.Degraded,
    "trim-overdue": of_storage.TrimOverdue,
    "garbage-collection": of_storage.Collecting,
    "writeback-throttling": of_storage.Throttling,
    "allocator-loops": of_storage.Loops,
    "configuration-change": of_surroundings.Change,
    "competing-load": of_surroundings.Competing,
    "metadata-load": of_surroundings.Metadata,
    "network": of_surroundings.Network,
    "client-node": of_surroundings.ClientNode,
    "launch-failure": of_surroundings.Launch,
    "workload-mismatch": of_surroundings.Mismatch,
    "cached-read": of_surroundings.Cached,
    "bad-checksums": of_surroundings.BadChecksums,
}
ADDED_OSTS: Final = 4
INNOCENT: Final = (
    ("note", "home directory server was restarted"),
    ("note", "new image on the login nodes"),
    ("note", "quota of one project raised"),
    ("note", "GPU driver updated on the login nodes"),
    ("config-change", "default compiler module changed"),
    ("config-change", "monitoring agent updated on the servers"),
    ("note", "batch queue limits changed"),
)


def make_world(spec: Spec) -> World:
    """Return the world of a spec; the same spec gives the same world.

    Notes
    -----
    Each incident is simulated away once more, with the same weather, and what the instruments
    would have shown without it stands in ``seen_by`` of its truth.
    """
    spec = replace(
        spec, incidents=tuple(_with_variant(spec, at) for at in enumerate(spec.incidents))
    )
    site = spec.site if spec.site is not None else site_for(spec)
    added = ADDED_OSTS if any(one.variant == "capacity-added" for one in spec.incidents) else 0
    system = make_system(spec, site, added)
    weather = make_weather(system)
    book = Book(system)
    mechanisms = _mechanisms(system, book)
    record = simulate(system, weather, mechanisms, book)
    _innocent(system, book)
    world = World(spec, _facts(system))
    world.runs = sorted(record.runs, key=lambda run: run["at"])
    world.surveys, world.profiles = record.surveys, record.profiles
    world.snapshots = write_snapshots(record, weather)
    if "events" not in spec.missing:
        world.events = sorted(book.entries, key=lambda entry: entry["at"])
    for number, mechanism in enumerate(mechanisms):
        without = _without(system, weather, record, number, mechanism)
        world.truth += _truth(system, mechanism, record, without)
    world.truth += _of_site(system)
    return world


def _with_variant(spec: Spec, numbered: tuple[int, Incident]) -> Incident:
    number, incident = numbered
    variants = MECHANISMS[incident.cause].VARIANTS
    if incident.variant is not None:
        if incident.variant not in variants:
            raise ValueError(f"{incident.cause} has no variant {incident.variant!r}: {variants}")
        return incident
    rng = stream(spec.seed, "variant", number, incident.cause)
    return replace(incident, variant=str(rng.choice(variants)))


def _mechanisms(system: System, book: Book, leave_out: int | None = None) -> list[Mechanism]:
    """Return the faults of a world; each draws from a generator of its own."""
    found: list[Mechanism] = []
    for number, incident in enumerate(system.spec.incidents):
        if number == leave_out:
            continue
        start = round(incident.start_day * 24) if incident.start_day >= 0 else -1
        length = incident.length_h
        found.append(
            MECHANISMS[incident.cause](
                system=system,
                incident=incident,
                rng=stream(system.spec.seed, "incident", number, incident.cause),
                book=book,
                variant=incident.variant or "plain",
                start=start,
                end=np.inf if length is None else max(start, 0) + round(length),
                where=np.zeros(system.osts, dtype=bool),
            )
        )
    return found


def _without(
    system: System, weather: Weather, record: Record, number: int, mechanism: Mechanism
) -> Record:
    """Return the same world without one of its incidents, as far as that goes."""
    book = Book(system)
    calmer = system
    incident = system.spec.incidents[number]
    if incident.start_day < 0 or incident.cause == "few-targets-open":
        # What is wrong all along, or comes of a policy, lies in the site itself.
        calmer = replace(system, site=_healthy(system, incident.cause))
    end = int(min(mechanism.end, system.hours))
    others = _mechanisms(calmer, book, number)
    if others or calmer is not system:
        return simulate(calmer, weather, others, book, end=end)
    # Up to its beginning nothing differs.
    begin = mechanism.start, record.hours[mechanism.start].state.copy()
    return simulate(system, weather, [], book, begin=begin, end=end)


def _healthy(system: System, cause: str) -> Site:
    site = system.site
    if cause == "few-targets-open":
        return replace(site, gate=False)
    if cause == "trim-overdue":
        return replace(site, trim_every_h=site.trim_every_h or 24.0)
    if cause == "writeback-throttling":
        return replace(site, writeback_throttling=False)
    if cause == "allocator-loops":
        return replace(site, thresholds=(25, 25, 5))
    return replace(site, fullness=0.62)


def _innocent(system: System, book: Book) -> None:
    """Write down what has nothing to do with anything, also near the incidents."""
    if not system.spec.confounders:
        return
    rng = stream(system.spec.seed, "innocent")
    hours = list(rng.uniform(0, system.hours, rng.poisson(system.spec.days / 7)))
    for incident in system.spec.incidents:
        if rng.random() < 0.6 and incident.start_day > 1:
            hours.append(incident.start_day * 24 - rng.uniform(2, 20))
    for hour in hours:
        kind, detail = INNOCENT[int(rng.integers(len(INNOCENT)))]
        book.write(kind, float(hour), detail)
    for hour in range(148, system.hours, 168):
        book.write("purge", hour, "weekly purge", until=hour + 6, source="journal")


def _facts(system: System) -> SiteFacts:
    spec = system.spec
    return SiteFacts(
        name=spec.name,
        limits={"fullness": 0.75, "reopen": 0.70, "cov": 0.08, "window_s": 172_800.0},
        home={system.name(ost): system.server(int(system.home[ost])) for ost in range(system.osts)},
        clients=list(system.clients),
        hardware={
            "drive_write_bytes_per_s": physics.DRIVE_WRITE_BYTES_PER_S,
            "drive_read_bytes_per_s": physics.DRIVE_READ_BYTES_PER_S,
            "drives_per_ost": float(physics.DRIVES),
            "osts": float(system.base_osts),
            "servers": float((system.base_osts + 1) // 2),
            "parity_data": 8.0,
            "parity_parity": 2.0,
            "network_bytes_per_s": 50e9,
            "client_network_bytes_per_s": physics.CLIENT_NETWORK_BYTES_PER_S,
        },
    )


# The truth


def _truth(system: System, mechanism: Mechanism, record: Record, without: Record) -> list[Truth]:
    """Return what a mechanism was, with what it brought about and what brought it about."""
    start = max(mechanism.start, 0)
    end = min(mechanism.end, system.hours)
    cause = mechanism.incident.cause
    whole = bool(mechanism.where[: system.base_osts].all())

    def entry(name: str, because_of: str | None, *, standing: bool, mitigation: bool) -> Truth:
        return Truth(
            cause=name,
            at=system.at(start),
            until=None if end >= system.hours else system.at(float(end)),
            targets=[] if whole else system.names(mechanism.where),
            because_of=because_of,
            standing=standing,
            mitigation=mitigation,
            variant=mechanism.variant,
            seen_by=seen if name == cause else {},
        )

    seen = _seen_by(record, without, start, int(end))
    found = [
        entry(
            cause,
            mechanism.because_of,
            standing=mechanism.standing,
            mitigation=mechanism.mitigation,
        )
    ]
    root_stands = mechanism.standing or mechanism.variant == "thresholds"
    found += [
        entry(name, because, standing=root_stands, mitigation=False)
        for name, because in mechanism.chain
    ]
    filled = next((name for name, because in mechanism.chain if because is None), None)
    if cause != "garbage-collection" and _collects(mechanism, record, without, start, int(end)):
        found.append(
            entry(
                "garbage-collection", filled or cause, standing=mechanism.standing, mitigation=False
            )
        )
    return found


def _of_site(system: System) -> list[Truth]:
    """Return what was wrong at the site all along without being one of its incidents."""
    told = {incident.cause for incident in system.spec.incidents}
    if system.site.trim_every_h is not None or "trim-overdue" in told:
        return []
    return [
        Truth(
            cause=cause,
            at=system.at(0),
            until=None,
            targets=[],
            because_of=because_of,
            standing=True,
            mitigation=False,
            variant="site",
            seen_by={},
        )
        for cause, because_of in (
            ("trim-overdue", None),
            ("garbage-collection", "trim-overdue"),
        )
    ]


def _collects(mechanism: Mechanism, record: Record, without: Record, start: int, end: int) -> bool:
    """Return whether drives collect garbage for 1.5 % more of the time because of an incident."""
    osts = mechanism.where if mechanism.where.any() else np.ones_like(mechanism.where)
    more = []
    for hour in range(start, min(end, len(record.hours))):
        with_it = record.hours[hour].rates.collecting
        without_it = without.hours[hour - without.first].rates.collecting
        more.append(float((with_it - without_it)[osts].mean()))
    return bool(more) and float(np.mean(more)) > 0.015


def _seen_by(record: Record, without: Record, start: int, end: int) -> dict[str, float]:
    system = record.system
    seen = _seen_by_runs(record, without, start, end)
    first, last = system.at(start), system.at(end)
    alike = {(one["at"], one["target"], one["metric"]): one["value"] for one in without.surveys}
    ratios: dict[str, list[float]] = {}
    for one in record.surveys:
        before = alike.get((one["at"], one["target"], one["metric"]))
        if first <= one["at"] < last and before:
            ratio = (one["value"] or 0.0) / before
            ratios.setdefault(f"survey:{one['metric']}:{one['target']}", []).append(ratio)
            ratios.setdefault(f"survey:{one['metric']}", []).append(ratio)
    for name, values in ratios.items():
        middle = float(np.mean(values) if name.count(":") == 1 else np.median(values))
        if middle <= 0.95:
            seen[name] = round(middle, 3)
    return seen


def _seen_by_runs(record: Record, without: Record, start: int, end: int) -> dict[str, float]:
    """Return medians of the ratio with over without, and the worst where single runs are hit."""
    system = record.system
    first, last = system.at(start), system.at(end)
    alike: dict[str, Run] = {run["id"]: run for run in without.runs}
    ratios: dict[str, list[float]] = {}
    ended: dict[str, list[float]] = {}
    for run in record.runs:
        before = alike.get(run["id"])
        if not first <= run["at"] < last or before is None or before["status"] != "ok":
            continue
        ended.setdefault(f"{run['probe']}:ended", []).append(float(run["status"] == "ok"))
        for group in ("values", "tails"):
            for metric, value in run[group].items():
                if metric in before[group]:
                    ratio = value / before[group][metric]
                    ratios.setdefault(f"{run['probe']}:{metric}", []).append(ratio)
    seen = {name: round(float(np.mean(of)), 3) for name, of in ended.items() if np.mean(of) < 0.95}
    for name, values in ratios.items():
        middle, worst = float(np.median(values)), float(np.min(values))
        if not 0.95 < middle < 1.2:
            seen[name] = round(middle, 3)
        elif worst <= 0.85:
            seen[f"{name}:worst"] = round(worst, 3)
    return seen
