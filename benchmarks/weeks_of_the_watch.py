"""Weeks under the watch on the twin: `make bench-watch`.

A site of 24 OSTs lives through faults of every kind, with an hourly probe, hourly snapshots and
alerts to a receiver on loopback. The same weeks and seed are watched twice: with nothing armed,
and with every policy armed, by a watch that is killed again and again at random calls of the store.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from benchmarks.score_of_faults import KINDS, OSTS, Length, site  # noqa: E402

from trimtab.loop.probing import twin_site  # noqa: E402
from trimtab.loop.probing.site_probe import runner_of  # noqa: E402
from trimtab.loop.watching.companions import observers_of  # noqa: E402
from trimtab.loop.watching.watch import Watch  # noqa: E402
from trimtab.model.notifying import Webhook  # noqa: E402
from trimtab.model.policies import (  # noqa: E402
    AllocatorPolicy,
    BalancePolicy,
    Policies,
    TrimPolicy,
    TunablesPolicy,
)
from trimtab.model.site import Site, SiteStore  # noqa: E402
from trimtab.record.store import Store  # noqa: E402
from trimtab.twin.driver import TwinDriver  # noqa: E402
from trimtab.twin.life import Life  # noqa: E402
from trimtab.twin.scenario.model import Change, Fault, Scenario  # noqa: E402
from trimtab.twin.site_file import site_of  # noqa: E402

RESULT: Final = ROOT / "benchmarks" / "results" / "weeks_of_the_watch.json"
MOUNT = "/twin"
QUIET_DAYS, APART_DAYS = 4.0, 2.0
"""Before the first fault, and between two."""
ARMED: Final = Policies(
    tunables=TunablesPolicy(
        armed=True, settings={"wbt_lat_usec": "0", "mb_c2_threshold": "25"}, settle_s=7200.0
    ),
    allocator=AllocatorPolicy(armed=True),
    trim=TrimPolicy(armed=True, slower=None),
    balance=BalancePolicy(armed=True),
    schedule="every 1h",
)


class Killed(BaseException):
    """The process is no more: no handler of errors stops it."""


@dataclass(frozen=True)
class Figures:
    """What became of the months.

    Attributes
    ----------
    doubled, open_slots
        Slots that two runs stand for, and that nobody ended.
    cov
        Of the probe's write bandwidth, median of days.
    """

    days: float
    kills: int
    slots: dict[str, int]
    doubled: int
    lost: int
    open_slots: int
    actions: dict[str, int]
    actions_open: int
    alerts: dict[str, int]
    alerts_twice: int
    incidents: int
    write_mean: float
    write_cov: float
    hours_over_limit: float
    store_bytes: int
    resident_mib: tuple[float, ...]
    processor_s: float
    faults: tuple[str, ...] = ()


def scenario(days: float, seed: int) -> tuple[Scenario, tuple[str, ...]]:
    """Return the months: every kind of fault in turn, each at an OST of its own."""
    base = replace(site(Length(days, QUIET_DAYS)), seed=seed, probes=())
    draws = np.random.default_rng(seed)
    changes: list[Change] = []
    faults: list[Fault] = []
    names = []
    for number, (name, kind) in enumerate(KINDS.items()):
        at = base.start + timedelta(days=QUIET_DAYS + APART_DAYS * number)
        if at + timedelta(days=APART_DAYS) > base.start + timedelta(days=days):
            break
        put = kind.put(at, int(draws.integers(0, OSTS)), seed)
        changes += put.changes
        faults += put.faults
        names.append(name)
    return replace(base, changes=tuple(changes), faults=tuple(faults)), tuple(names)


class Receiver:
    """A webhook that keeps the key and the phase of every alert."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.phases: Counter[str] = Counter()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                document = json.loads(body)
                outer.keys.append(str(self.headers.get("Idempotency-Key") or hash(body)))
                for alert in document.get("alerts", [document]):
                    labels = alert.get("labels", alert)
                    outer.phases[str(labels.get("phase") or alert.get("status"))] += 1
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/alerts"


class Kills:
    """Ends the watch at random calls of its store: after a transaction, before the next step."""

    def __init__(self, store: Store, every: int, seed: int) -> None:
        self._store, self._draws, self._every = store, np.random.default_rng(seed), every
        self._left = self._next()
        self.count = 0

    def _next(self) -> int:
        return int(self._draws.integers(1, 2 * self._every)) if self._every else -1

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name not in {"finish_slot", "claim_slot", "put_action", "renew_right", "renew_lease"}:
            return value

        def call(*arguments: Any, **more: Any) -> Any:
            before = self._left == 0 and bool(self._draws.integers(0, 2))
            if before:
                self._kill()
            answer = value(*arguments, **more)
            if self._left == 0:
                self._kill()
            self._left -= 1
            return answer

        return call

    def _kill(self) -> None:
        self._left = self._next()
        self.count += 1
        raise Killed


@contextmanager
def _life(of: Scenario) -> Any:
    life = Life(of)
    driver = TwinDriver(life, MOUNT)
    twin_site._opened[(MOUNT, "template")] = driver
    try:
        yield driver
    finally:
        del twin_site._opened[(MOUNT, "template")]
        life.close()


def watched(days: float, seed: int, policies: Policies, kills_every: int, place: Path) -> Figures:
    """Watch the months and return what became of them."""
    of, names = scenario(days, seed)
    receiver = Receiver()
    url = f"sqlite:///{place / 'months.db'}"
    described = site_of(site(Length(days, QUIET_DAYS)), "template", MOUNT, url)
    watched_site = replace(
        described,
        store=SiteStore(url=url, retention_s=30 * 86400.0),
        snapshot_schedule="every 1h",
        probes=tuple(replace(probe, schedule="every 1h at :20") for probe in described.probes),
        policies=policies,
        webhooks=(Webhook("loopback", url=receiver.url),),
    )
    log = logging.Logger("months", level=logging.CRITICAL)
    resident: list[float] = []
    begun_s = time.process_time()
    with _life(of) as driver, Store.open(watched_site.store.url) as store:
        reach = twin_site.twin_reach(driver)
        until = of.start + timedelta(days=days) - timedelta(minutes=10)
        kills = Kills(store, kills_every, seed)
        noted = of.start

        def sleep(seconds: float) -> None:
            nonlocal noted
            now = reach.clock()
            if now >= until:
                raise KeyboardInterrupt
            if now >= noted:
                noted = now + timedelta(days=max(1.0, days / 12))
                resident.append(_resident_mib())
                print(f"  {now:%Y-%m-%d}, {resident[-1]:.0f} MiB", file=sys.stderr, flush=True)
            reach.sleep(min(seconds, (until - now).total_seconds() + 1))

        while True:
            watch = Watch(
                watched_site, kills, driver, runner_of(watched_site, store, reach),  # type: ignore[arg-type]
                clock=reach.clock, sleep=sleep, elapsed_s=reach.elapsed_s, log=log,
                gone=lambda holder: True, open_acting=lambda *_, **__: driver,
            )  # fmt: skip
            watch.observe(observers_of(watched_site, store, log=log, clock=reach.clock))
            try:
                watch.run()
            except Killed:
                continue
            except BaseException as error:
                if reach.clock() >= until:
                    break
                raise SystemExit(f"the watch ended: {error!r}") from error
        so_far = {
            "kills": kills.count,
            "alerts": dict(receiver.phases),
            "alerts_twice": sum(count > 1 for count in Counter(receiver.keys).values()),
            "resident_mib": tuple(resident),
            "processor_s": time.process_time() - begun_s,
            "store_bytes": sum(path.stat().st_size for path in place.rglob("*") if path.is_file()),
            "faults": names,
        }
        return _figures(store, watched_site, days, so_far)


def _figures(store: Store, of: Site, days: float, so_far: Mapping[str, Any]) -> Figures:
    slots = store.slots(of.name)
    due = Counter((slot.item, slot.due_at) for slot in slots)
    runs = [run for run in store.runs(site=of.name, limit=1_000_000) if run.at is not None]
    per_slot = Counter(slot.run for slot in slots if slot.run is not None)
    actions = store.actions(of.name)
    writes: dict[Any, list[float]] = {}
    for run in runs:
        for sample in run.samples:
            if sample.metric == "write_bandwidth" and sample.value is not None:
                writes.setdefault(run.at.date(), []).append(sample.value)  # type: ignore[union-attr]
    values = [value for day in writes.values() for value in day]
    covs = [float(np.std(day, ddof=1) / np.mean(day)) for day in writes.values() if len(day) > 12]
    first = min(slot.due_at for slot in slots if slot.item == "snapshot")
    expected = {first + timedelta(hours=hour) for hour in range(int((days - 0.1) * 24))}
    present = {slot.due_at for slot in slots if slot.item == "snapshot"}
    return Figures(
        days=days,
        slots=dict(Counter(f"{slot.item} {slot.state.value}" for slot in slots)),
        doubled=sum(n > 1 for n in due.values()) + sum(n > 1 for n in per_slot.values()),
        lost=len(expected - present),
        open_slots=len(store.open_slots(of.name)),
        actions=dict(Counter(f"{a.instruction.kind.value} {a.outcome}" for a in actions)),
        actions_open=sum(action.outcome is None for action in actions),
        incidents=len(store.incidents(of.name)),
        write_mean=float(np.mean(values)),
        write_cov=float(np.median(covs)),
        hours_over_limit=_hours_over(store, of),
        **so_far,
    )


def _hours_over(store: Store, of: Site) -> float:
    """Return the hours of OSTs over the limit, of the last month that is kept."""
    hours = 0.0
    since: datetime | None = None
    for at in store.snapshot_times(of.name):
        if since is not None and (at - since).total_seconds() < 3000:
            continue
        since = at
        snapshot = store.latest_snapshot(of.name, at)
        for target in () if snapshot is None else snapshot.targets:
            used, capacity = target.number("used_bytes"), target.number("capacity_bytes")
            hours += bool(used and capacity and used / capacity > of.limits.fullness)
    return hours


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Watch the months, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=42.0)
    parser.add_argument("--kills-every", type=int, default=40, help="Calls of the store.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="Do not write the result.")
    options = parser.parse_args()
    result: dict[str, Mapping[str, Any] | str] = {**measured_on()}
    for name, policies, every in (
        ("measures", Policies(), 0),
        ("acts", ARMED, options.kills_every),
    ):
        print(name, file=sys.stderr)
        with tempfile.TemporaryDirectory() as place:
            figures = watched(options.days, options.seed, policies, every, Path(place))
        result[name] = asdict(figures)
        print(json.dumps(result[name], indent=1))
    if not options.dry:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
