"""How faults that a simulation puts in are detected and explained: `make score-faults`.

A site of 24 OSTs is simulated for five weeks by `trimtab twin run`'s own code, with hourly probes
and snapshots and a survey a day. After three weeks something goes wrong. `trimtab incidents`' own
code then reads the store, as an operator would: with an event of each fault (*open book*), and with
none (*closed book*). The truth is what the scenario scripts, and what emerged beside it.
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

from trimtab.cli.opened import opened  # noqa: E402
from trimtab.loop.explaining.incidents import incidents_of  # noqa: E402
from trimtab.loop.twin_run import Wanted, run_twin  # noqa: E402
from trimtab.model.event import Event, EventKind  # noqa: E402
from trimtab.model.incident import Explanation  # noqa: E402
from trimtab.twin.instruments.layout import ost_name  # noqa: E402
from trimtab.twin.scenario.geometry import capacity_bytes  # noqa: E402
from trimtab.twin.scenario.load import load_scenario  # noqa: E402
from trimtab.twin.scenario.model import (  # noqa: E402
    Change,
    Fault,
    Lifetime,
    ProbeLoad,
    Scenario,
)
from trimtab.twin.simulation.events import EventLog  # noqa: E402
from trimtab.twin.simulation.faults import KINDS as FAULT_EVENTS  # noqa: E402

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

    changes: tuple[Change, ...] = ()
    faults: tuple[Fault, ...] = ()
    until: datetime | None = None


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
    return lambda at, _ost, _seed: Put(changes=(Change(at, {key: value}, "changed"),))


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
    return Put(changes=(Change(at, {"users.daily_writes": more}, "more users"),))


def lost_client(at: datetime, _ost: int, _seed: int) -> Put:
    """Return one node fewer: probes run on the others, and no instrument has less."""
    return Put(changes=(Change(at, {"clients.nodes": 255}, "node lost"),))


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


def simulated(name: str, seed: int, directory: Path, length: Length = WHOLE) -> tuple[Put, Path]:
    """Return what was put in, and the site file of the site simulated with it, in closed book."""
    draws = np.random.default_rng([seed, *name.encode()])
    base = replace(site(length), seed=seed)
    at = base.start + length.quiet_days * DAY + int(draws.integers(0, 72)) * HOUR
    put = KINDS[name].put(at, int(draws.integers(0, OSTS)), seed)
    scenario = replace(base, changes=put.changes, faults=put.faults)
    wanted = Wanted(scenario, directory, closed_book=True)
    return put, run_twin(wanted, progress=lambda _text, _part: None).site_file


def noted(put: Put, seed: int) -> list[Event]:
    """Return the events that an open book has of what was put in: none of a silent OST."""
    log = EventLog("scored", seed)
    for change in put.changes:
        for key, value in change.set.items():
            log.add(EventKind.CONFIG_CHANGE, change.at, f"{key}: {value!r} ({change.detail})")
    for fault in put.faults:
        if fault.kind != "silent-ost":
            log.add(
                FAULT_EVENTS[fault.kind], fault.at, fault.detail, until=fault.until, osts=fault.osts
            )
    return log.events


def play(
    name: str, seed: int, length: Length = WHOLE, books: Sequence[str] = BOOKS
) -> list[dict[str, Any]]:
    """Return how one fault of one seed was detected and explained, by book."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "site"
        put, site_file = simulated(name, seed, directory, length)
        truth = true_stretches(directory)
        with opened(str(site_file), None) as record:
            for book in books:
                if book == "open":
                    record.store.add_events(noted(put, seed))
                explained = incidents_of(record.store, record.place, now=record.now)
                row = scored(explained.explanations, put, truth, KINDS[name], length)
                rows.append({"fault": name, "seed": seed, "book": book, **row})
    return rows


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
    (at,) = {event.at for event in (*put.changes, *put.faults)}
    over = site(length).end
    end = min(put.until or over, over)
    last = end if kind.gradual else min(end, at + AT_ONCE)
    near = [each for each in explanations if at - SLACK <= each.incident.at <= last + SLACK]
    quiet = [each for each in explanations if not at - SLACK <= each.incident.at <= end + SLACK]
    emerged = [stretch for stretch in truth if stretch.emerged]
    false = [each for each in quiet if not any(part.covers(each.incident.at) for part in emerged)]
    row: dict[str, Any] = {
        "incidents": len(near),
        "delay_h": None,
        "target": None,
        "place": None,
        "first": None,
        "confidence": None,
        "named": False,
        "quiet_days": round(length.days - (min(end + SLACK, over) - at + SLACK) / DAY, 1),
        "others": len(quiet),
        "false": len(false),
        "false_named": sum(not each.unexplained for each in false),
    }
    if near:
        main = min(near, key=lambda each: abs(each.incident.at - at))
        names = [cause.cause for cause in main.causes]
        places = [place for place, name in enumerate(names, 1) if name in kind.causes]
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


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the incidents of quiet stretches a month, by book."""
    months = {}
    for book in BOOKS:
        mine = [row for row in rows if row["book"] == book]
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
    cases = list(product(kinds, range(1, options.seeds + 1)))
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for played in pool.map(play, *zip(*cases, strict=True)):
            rows += played
            print(*map(json.dumps, played), sep="\n", flush=True)
    result = {
        "what": "faults put into a simulated site of 24 OSTs: detected when, explained how",
        **measured_on(),
        "seeds": options.seeds,
        "days": WHOLE.days,
        "summary": summary(rows),
        "rows": rows,
    }
    print(json.dumps(result["summary"], indent=1))
    if options.only is None and not options.no_write:
        text = json.dumps(result).replace('{"fault"', '\n{"fault"')
        RESULT.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
