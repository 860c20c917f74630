"""How faults that a simulation puts in are detected and explained: `make score-faults`.

A site of 24 OSTs is simulated for five weeks by `trimtab twin run`'s own code, with hourly probes
and snapshots and a survey a day. After three weeks something goes wrong. `trimtab incidents`' own
code then reads the store, as an operator would: with an event of each fault (*open book*), and with
none (*closed book*). The truth is what the scenario scripts, and what emerged beside it. The same
site is simulated without any fault: what a fault leaves of the rates is held against that.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

from trimtab.base.event import Event, EventKind  # noqa: E402
from trimtab.base.incident import Explanation  # noqa: E402
from trimtab.base.name_set import ost_name  # noqa: E402
from trimtab.probe.incident_search import incidents_of  # noqa: E402
from trimtab.site.place import opened  # noqa: E402
from trimtab.store.store import Store  # noqa: E402
from trimtab.twin.scenario import (  # noqa: E402
    Fault,
    Lifetime,
    ProbeLoad,
    Scenario,
    ScenarioChange,
    capacity_bytes,
)
from trimtab.twin.scenario_file import load_scenario  # noqa: E402
from trimtab.twin.simulation.fault import KINDS as FAULT_EVENTS  # noqa: E402
from trimtab.twin.simulation.fault import EventLog  # noqa: E402
from trimtab.twin.twin_run import TwinRequest, run_twin  # noqa: E402

RESULT: Final = ROOT / "benchmarks" / "results" / "score_of_faults.json"
OSTS = 24
DAY, HOUR, DAY_S = timedelta(days=1), timedelta(hours=1), 86400.0
SLACK: Final = DAY
"""An incident that begins this long before a fault, or after its end, is of it."""
AT_ONCE: Final = 3 * DAY
"""Within which the incident of a fault that lasts begins, where it takes effect at once."""
DAILY, FULLNESS = 0.05, 0.5
"""Of the capacity: what users write a day, and what they hold."""


@dataclass(frozen=True)
class Length:
    """How long a site is simulated, and how long of that before anything goes wrong, at least."""

    days: float = 35.0
    quiet_days: float = 21.0


WHOLE: Final = Length()
Rates = Mapping[tuple[str, datetime], float]
"""By the metric of the probe, or the name of an OST, and the time of the run."""
BOOKS: Final = ("closed", "open")
"""In this order: an open book has more events, which are added to the store."""


def site(length: Length = WHOLE) -> Scenario:
    """Return a calm site: half full, trimmed every night, users that write what they delete."""
    template = load_scenario("template")
    osts = replace(template.osts, count=OSTS)
    capacity = capacity_bytes(replace(template, osts=osts))
    short, share = 2.0, 0.7
    long = (FULLNESS / DAILY - share * short) / (1 - share)
    users = replace(
        template.users,
        fullness=FULLNESS,
        daily_writes_bytes=round(DAILY * capacity),
        daily_reads_bytes=3 * round(DAILY * capacity),
        lifetimes=(Lifetime(share, short * DAY_S), Lifetime(1 - share, round(long * DAY_S))),
    )
    return replace(
        template,
        name="scored",
        title="A site in which faults are put",
        osts=osts,
        users=users,
        clients=replace(template.clients, nodes=256),
        queue=replace(template.queue, writeback_throttling=False),
        resolution=replace(template.resolution, groups=16, superblock_units=64),
        length_s=length.days * DAY_S,
        probes=(
            ProbeLoad("hourly", "ior", "every 1h", 16, 16, bytes_written=6e12),
            ProbeLoad("survey", "obdfilter-survey", "daily at 20:00", timeout_s=3600.0),
        ),
        changes=(),
        faults=(),
    )


@dataclass(frozen=True)
class Put:
    """What is put into a site.

    Attributes
    ----------
    until
        When it is over; ``None``: it stays.
    """

    changes: tuple[ScenarioChange, ...] = ()
    faults: tuple[Fault, ...] = ()
    until: datetime | None = None

    @property
    def at(self) -> datetime:
        """When it begins."""
        (at,) = {event.at for event in (*self.changes, *self.faults)}
        return at


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes
    ----------
    causes
        That are right for it; none: no cause that is looked for is its own.
    gradual
        It takes effect over days.
    """

    causes: frozenset[str]
    put: Callable[[datetime, int, int], Put]
    gradual: bool = False


def changed(key: str, value: object) -> Callable[[datetime, int, int], Put]:
    """Return a setting that changes and stays."""
    return lambda at, _ost, _seed: Put(changes=(ScenarioChange(at, {key: value}, "changed"),))


def faulty(
    kind: Any, lasts: timedelta | None, *, size: float | None = None, neighbours: int = 1
) -> Callable[[datetime, int, int], Put]:
    """Return a fault of one OST, or of those of its server."""

    def put(at: datetime, ost: int, _seed: int) -> Put:
        first = ost - ost % neighbours
        osts = tuple(range(first, first + neighbours))
        until = None if lasts is None else at + lasts
        return Put(faults=(Fault(at, kind, until, osts, size, kind),), until=until)

    return put


def slow_drive(at: datetime, ost: int, seed: int) -> Put:
    """Return a drive at 25 to 75 % of its speed, one step a seed."""
    left = 0.25 + 0.125 * (seed % 5)
    return Put(faults=(Fault(at, "slow-drive", None, (ost,), left, "slow drive"),))


def competing_job(at: datetime, _ost: int, _seed: int) -> Put:
    """Return a job that writes for three hours."""
    until = at + 3 * HOUR
    return Put(faults=(Fault(at, "burst", until, (), 60e9, "large job"),), until=until)


def growth(at: datetime, _ost: int, _seed: int) -> Put:
    """Return users who write two and a half times as much from then on."""
    more = round(2.5 * site().users.daily_writes_bytes)
    return Put(changes=(ScenarioChange(at, {"users.daily_writes": more}, "more users"),))


def lost_client(at: datetime, _ost: int, _seed: int) -> Put:
    """Return one node fewer: probes run on the others, and no instrument has less."""
    return Put(changes=(ScenarioChange(at, {"clients.nodes": 255}, "node lost"),))


FULL: Final = frozenset({"targets-over-limit", "few-targets-open", "allocator-loops"})
CHANGED: Final = frozenset({"configuration-change"})
KINDS: Final[Mapping[str, Kind]] = {
    "slow drive": Kind(frozenset(), slow_drive),
    "trims stopped": Kind(
        frozenset({"trim-overdue", "garbage-collection"}) | CHANGED,
        changed("trim.every", None),
        gradual=True,
    ),
    "throttling on": Kind(
        frozenset({"writeback-throttling"}) | CHANGED,
        changed("queue.writeback_throttling", True),
    ),
    "checksums on": Kind(CHANGED, changed("clients.checksums", True)),
    "client network halved": Kind(
        frozenset({"network"}) | CHANGED, changed("clients.network", 12.5e9)
    ),
    "failover": Kind(frozenset({"failover"}), faulty("failover", 2 * DAY, neighbours=2)),
    "filling OST": Kind(
        frozenset({"target-filling"}) | FULL, faulty("filling", 12 * HOUR, size=1e9)
    ),
    "growth past the knee": Kind(FULL, growth, gradual=True),
    "silent OST": Kind(frozenset({"target-silent"}), faulty("silent-ost", DAY)),
    "lost client": Kind(frozenset({"client-node"}), lost_client),
    "competing job": Kind(frozenset({"competing-load"}), competing_job),
    "rebuild": Kind(frozenset({"array-degraded"}), faulty("failed-drive", 4 * DAY)),
}


@dataclass(frozen=True)
class Truth:
    """A stretch in which something was really wrong."""

    cause: str
    at: datetime
    until: datetime | None
    emerged: bool

    def covers(self, at: datetime) -> bool:
        """Return whether an incident that begins at that time may be of it."""
        return self.at - SLACK <= at and (self.until is None or at <= self.until + SLACK)


def put_in(name: str, seed: int, length: Length = WHOLE) -> Put:
    """Return what of a kind is put into the site of a seed."""
    draws = np.random.default_rng([seed, *name.encode()])
    at = site(length).start + length.quiet_days * DAY + int(draws.integers(0, 72)) * HOUR
    return KINDS[name].put(at, int(draws.integers(0, OSTS)), seed)


def simulated(put: Put, seed: int, directory: Path, length: Length = WHOLE) -> Path:
    """Return the site file of the site of a seed, simulated in closed book."""
    scenario = replace(site(length), seed=seed, changes=put.changes, faults=put.faults)
    wanted = TwinRequest(scenario, directory, closed_book=True)
    return run_twin(wanted, progress=lambda _text, _part: None).site_file


def noted(put: Put) -> list[Event]:
    """Return the events that an open book has of what was put in: none of a silent OST."""
    log = EventLog("scored")
    for change in put.changes:
        for key, value in change.set.items():
            log.add(EventKind.CONFIG_CHANGE, change.at, f"{key}: {value!r} ({change.detail})")
    for fault in put.faults:
        if fault.kind != "silent-ost":
            log.add(
                FAULT_EVENTS[fault.kind], fault.at, fault.detail, until=fault.until, osts=fault.osts
            )
    return log.events


def play_calm(seed: int, length: Length = WHOLE) -> tuple[dict[str, Any], Rates]:
    """Return the incidents of a site into which nothing was put, and its rates."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "site"
        site_file = simulated(Put(), seed, directory, length)
        return judged_calm(seed, site_file, length)


def judged_calm(seed: int, site_file: Path, length: Length) -> tuple[dict[str, Any], Rates]:
    """Return the incidents of a simulated site into which nothing was put, and its rates."""
    truth = true_stretches(site_file.parent)
    with opened(str(site_file), None) as record:
        explained = incidents_of(record.store, record.place, now=record.now).explanations
        rates = rates_of(record.store)
    return {"seed": seed, **_without_fault(explained, truth, length.days)}, rates


def play(
    name: str,
    seed: int,
    length: Length = WHOLE,
    books: Sequence[str] = BOOKS,
    calm: Rates | None = None,
) -> list[dict[str, Any]]:
    """Return how one fault of one seed was detected and explained, by book.

    Parameters
    ----------
    calm
        Rates of the same site without it; ``None``: what it left of them is not known.
    """
    with tempfile.TemporaryDirectory() as place:
        put = put_in(name, seed, length)
        site_file = simulated(put, seed, Path(place) / "site", length)
        return judged(name, seed, put, site_file, length=length, books=books, calm=calm)


def judged(
    name: str,
    seed: int,
    put: Put,
    site_file: Path,
    *,
    length: Length = WHOLE,
    books: Sequence[str] = BOOKS,
    calm: Rates | None = None,
) -> list[dict[str, Any]]:
    """Return how the fault of a simulated site was detected and explained, by book."""
    rows = []
    truth = true_stretches(site_file.parent)
    with opened(str(site_file), None) as record:
        left = {} if calm is None else left_of(rates_of(record.store), calm, put, length)
        for book in books:
            if book == "open":
                record.store.add_events(noted(put))
            explained = incidents_of(record.store, record.place, now=record.now)
            row = scored(explained.explanations, put, truth, KINDS[name], length)
            rows.append({"fault": name, "seed": seed, "book": book, **row, **left})
    return rows


def rates_of(store: Store) -> dict[tuple[str, datetime], float]:
    """Return what the probe measured, and the surveys of writes of each OST, by name and time."""
    osts = [ost_name(number) for number in range(OSTS)]
    rates = {}
    for series in store.series():
        for target in [None] if series.kind == "ior" else osts:
            for point in store.history(series.site, series.comparability, target=target):
                if target is None or point.metric == "write_bandwidth":
                    rates[target or point.metric, point.at] = point.value
    return rates


def left_of(faulty: Rates, calm: Rates, put: Put, length: Length) -> dict[str, float]:
    """Return what is left of the probe's rates, and of the slowest OST's, while a fault acts.

    The median over the runs that both sites have; what a fault does to the targets while it takes
    effect over days is more at its end.
    """
    begun, over = put.at, put.until or site(length).end
    ratios: dict[str, list[float]] = {}
    for (name, at), value in faulty.items():
        if begun <= at <= over and calm.get((name, at)):
            ratios.setdefault(name, []).append(value / calm[name, at])
    medians = {name: float(np.median(values)) for name, values in ratios.items()}
    osts = [value for name, value in medians.items() if name.startswith("OST")]
    parts = {access: medians.get(f"{access}_bandwidth") for access in ("write", "read")}
    parts["slowest_ost"] = min(osts, default=None)
    return {f"{name}_left": round(part, 3) for name, part in parts.items() if part is not None}


def true_stretches(directory: Path) -> list[Truth]:
    """Return what the truth beside a store says."""
    lines = (directory / "scored.truth.jsonl").read_text().splitlines()
    return [
        Truth(
            line["cause"],
            datetime.fromisoformat(line["at"]),
            None if line["until"] is None else datetime.fromisoformat(line["until"]),
            line["emerged"],
        )
        for line in map(json.loads, lines)
    ]


def scored(
    explanations: Sequence[Explanation],
    put: Put,
    truth: list[Truth],
    kind: Kind,
    length: Length,
) -> dict[str, Any]:
    """Return whether and when a fault was detected, where its cause is, and what is not of it."""
    at, over = put.at, site(length).end
    end = min(put.until or over, over)
    last = end if kind.gradual else min(end, at + AT_ONCE)
    near = [each for each in explanations if at - SLACK <= each.incident.at <= last + SLACK]
    quiet = [each for each in explanations if not at - SLACK <= each.incident.at <= end + SLACK]
    quiet_days = length.days - (min(end + SLACK, over) - at + SLACK) / DAY
    row: dict[str, Any] = {
        "incidents": len(near),
        "delay_h": None,
        "target": None,
        "place": None,
        "first": None,
        "confidence": None,
        "named": False,
        **_without_fault(quiet, truth, quiet_days),
    }
    if near:
        # What it does to the targets, as the truth has it, is a right cause of what they do then.
        brought = [part for part in truth if part.emerged and at <= part.at <= end + SLACK]
        onset = min((part.at for part in brought), default=at) if kind.gradual else at
        main = min(near, key=lambda each: abs(each.incident.at - onset))
        names = [cause.cause for cause in main.causes]
        right = kind.causes | {part.cause for part in brought}
        places = [place for place, name in enumerate(names, 1) if name in right]
        targets = {target for each in near for target in each.incident.targets}
        osts = {ost_name(ost) for fault in put.faults for ost in fault.osts}
        detected = min(each.incident.detected_at for each in near)
        row |= {
            "delay_h": round(max(0.0, (detected - at) / HOUR), 1),
            "target": bool(osts & targets) if osts else None,
            "place": min(places, default=None),
            "first": names[0] if names else None,
            "confidence": round(main.causes[0].confidence, 3) if names else None,
            "named": not main.unexplained,
        }
    return row


def _without_fault(
    explanations: Sequence[Explanation], truth: list[Truth], days: float
) -> dict[str, Any]:
    """Return how many incidents so many days without a fault had, and how many were of nothing."""
    emerged = [stretch for stretch in truth if stretch.emerged]
    false = [
        each
        for each in explanations
        if not any(stretch.covers(each.incident.at) for stretch in emerged)
    ]
    return {
        "quiet_days": round(days, 1),
        "others": len(explanations),
        "false": len(false),
        "false_named": sum(not each.unexplained for each in false),
    }


def summary(rows: list[dict[str, Any]], calm: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the incidents a month of quiet stretches, by book, and of sites without a fault."""
    months = {}
    for book in (*BOOKS, "no fault"):
        mine = [row for row in rows if row["book"] == book] if book in BOOKS else calm
        quiet = sum(row["quiet_days"] for row in mine) / 30
        months[book] = {
            "quiet_months": round(quiet, 1),
            **{
                f"{name}_a_month": round(sum(row[name] for row in mine) / max(quiet, 1e-9), 3)
                for name in ("others", "false", "false_named")
            },
        }
    return months


def main() -> None:
    """Play, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=KINDS, help="One kind of fault; nothing is written.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    options = parser.parse_args()
    kinds = list(KINDS) if options.only is None else [options.only]
    seeds = range(1, options.seeds + 1)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        calm = dict(zip(seeds, pool.map(play_calm, seeds), strict=True))
        cases = [(name, seed, WHOLE, BOOKS, calm[seed][1]) for name, seed in product(kinds, seeds)]
        for played in pool.map(play, *zip(*cases, strict=True)):
            rows += played
            print(*map(json.dumps, played), sep="\n", flush=True)
    result = result_of(rows, [row for row, _ in calm.values()])
    print(json.dumps(result["summary"], indent=1))
    if options.only is None and not options.no_write:
        write(result)


def result_of(rows: list[dict[str, Any]], calm: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is committed."""
    return {
        "what": "faults put into a simulated site of 24 OSTs: detected when, explained how",
        **measured_on(),
        "seeds": len(calm),
        "days": WHOLE.days,
        "summary": summary(rows, calm),
        "calm": calm,
        "rows": rows,
    }


def write(result: dict[str, Any]) -> None:
    """Write the committed result, a line for each case."""
    text = json.dumps(result).replace('{"fault"', '\n{"fault"')
    RESULT.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
