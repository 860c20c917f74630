"""A year under the watch on the twin: `make bench-watch`.

A site of 24 OSTs lives through faults of every kind, each repaired after some days, with hourly
probes and snapshots and alerts to a receiver on loopback. The same months and seed pass three
times: without a watch, with one that only measures, and with one that has every policy armed and is
killed again and again at random calls of its store. ``--until-day`` ends all of them early: what is
written is of the days that passed. ``--most-s`` ends one after so much time.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from trimtab.reach.worker_process import frames_for_months, worker_pool  # noqa: E402 (on the path now)

frames_for_months()  # before anything else loads what works on them, as the command does

from benchmarks.killed_watch import Killed, Kills, Process, Receiver  # noqa: E402
from benchmarks.measured import measured_on  # noqa: E402
from benchmarks.score_of_faults import KINDS, OSTS, Length, site  # noqa: E402

from trimtab.base.action import Outcome  # noqa: E402
from trimtab.base.event import new_identifier  # noqa: E402
from trimtab.base.finding import Alert, Phase  # noqa: E402
from trimtab.base.run import Run  # noqa: E402
from trimtab.base.site import Site, SiteStore  # noqa: E402
from trimtab.base.site_policy import (  # noqa: E402
    AllocatorPolicy,
    BalancePolicy,
    Policies,
    TrimPolicy,
    TunablesPolicy,
    Webhook,
)
from trimtab.probe.probe import RunContext  # noqa: E402
from trimtab.probe.site_probe import runner_of  # noqa: E402
from trimtab.store.slot import SlotState  # noqa: E402
from trimtab.store.store import Store  # noqa: E402
from trimtab.twin import twin_site  # noqa: E402
from trimtab.twin.life import Life  # noqa: E402
from trimtab.twin.scenario import Fault, Scenario, ScenarioChange  # noqa: E402
from trimtab.twin.scenario_key import value_of  # noqa: E402
from trimtab.twin.simulated_site import site_of  # noqa: E402
from trimtab.twin.twin_driver import TwinDriver  # noqa: E402
from trimtab.watch.incident_watch import look_elsewhere  # noqa: E402
from trimtab.watch.upkeep import observers_of  # noqa: E402
from trimtab.watch.watch import Watch  # noqa: E402

RESULT: Final = ROOT / "benchmarks" / "results" / "year_of_the_watch.json"
MOUNT = "/twin"
FAULTY: Final = 2 / 3
REPAIRED: Final = timedelta(days=7)
"""A fault is repaired after this part of the time to the next one, or so long if that is less."""
RETENTION_DAYS: Final = 14.0
REPORTED_EVERY: Final = timedelta(days=28)
"""So often the figures so far are written, for a run of hours may be lost, and alerts noted."""
AFTERWARDS: Final = timedelta(days=2)
"""An alert that comes so long after a repair may still be of it."""
HOUR: Final = timedelta(hours=1)
SELDOM: Final = 3
"""Hours between two slots of policies, and of snapshots that belong to no probe."""
GOAL_COV: Final = 0.08
ARMED: Final = Policies(
    tunables=TunablesPolicy(
        armed=True, settings={"wbt_lat_usec": "0", "mb_c2_threshold": "25"}, settle_s=7200.0
    ),
    allocator=AllocatorPolicy(armed=True),
    trim=TrimPolicy(armed=True, slower=None, range_bytes=64 * 2**40),
    balance=BalancePolicy(armed=True),
    schedule=f"every {SELDOM}h",
)


@dataclass(frozen=True)
class Stretch:
    """A fault, from its beginning to its repair."""

    name: str
    at: datetime
    until: datetime


@dataclass(frozen=True)
class Months:
    """What happens: a scenario, and its faults."""

    scenario: Scenario
    faults: tuple[Stretch, ...]
    days: float

    @property
    def end(self) -> datetime:
        """When the last probe has long ended."""
        return self.scenario.start + timedelta(days=self.days) - HOUR / 6

    def until(self, now: datetime) -> Months:
        """Return the whole days that have passed."""
        days = min(self.days, float((now - self.scenario.start + HOUR) // timedelta(days=1)))
        begun = self.scenario.start + timedelta(days=days)
        return replace(self, days=days, faults=tuple(f for f in self.faults if f.at < begun))


def months(
    days: float, seed: int, *, quiet_days: float, rounds: int, until_day: float | None = None
) -> Months:
    """Return months in which each kind of fault comes in turn, is repaired, and leaves time.

    Parameters
    ----------
    quiet_days
        Before the first fault: what is found there, is false.
    until_day
        Only so many of the days pass.
    """
    calm = site(Length(days))
    weekly = replace(calm.trim, every_s=7 * 86400.0)  # as fstrim.timer does
    base = replace(
        calm, seed=seed, probes=(), trim=weekly, gating=replace(calm.gating, enabled=False)
    )
    draws = np.random.default_rng(seed)
    apart = timedelta(days=(days - quiet_days) / (rounds * len(KINDS)))
    changes: list[ScenarioChange] = []
    faults: list[Fault] = []
    stretches = []
    for number, (name, kind) in enumerate([*KINDS.items()] * rounds):
        at = base.start + timedelta(days=quiet_days) + number * apart
        repaired = at + min(apart * FAULTY, REPAIRED)
        put = kind.put(at, int(draws.integers(0, OSTS)), seed)
        for change in put.changes:
            before = {key: value_of(base, key) for key in change.set}
            changes += [change, ScenarioChange(repaired, before, "repaired")]
        for fault in put.faults:
            until = repaired if fault.until is None else min(fault.until, repaired)
            faults.append(replace(fault, until=until))
        ends = [fault.until for fault in faults[len(faults) - len(put.faults) :] if fault.until]
        stretches.append(Stretch(name, at, max(ends, default=repaired)))
    scenario = replace(base, changes=tuple(changes), faults=tuple(faults))
    whole = Months(scenario, tuple(stretches), days)
    return whole.until(base.start + timedelta(days=min(days, until_day or days)))


@dataclass
class SiteLife:
    """The simulated site, and what is noted of it each hour.

    Attributes
    ----------
    simulation_s
        Processor time of the simulation: what a real site would do by itself.
    over
        OST-hours over the limit.
    """

    months: Months
    driver: TwinDriver
    limit: float
    simulation_s: float = 0.0
    over: float = 0.0
    noted: list[dict[str, float]] = field(default_factory=list)
    _noted_until: datetime | None = None

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call whose processor time is the simulation's."""

        def timing(*arguments: Any, **more: Any) -> Any:
            begun_s = spent_s()
            try:
                return call(*arguments, **more)
            finally:
                self.simulation_s += spent_s() - begun_s

        return timing

    def hour(self) -> None:
        """Note what is over the limit in the hour that begins."""
        now = self.driver.clock()
        if self._noted_until is not None and now < self._noted_until:
            return
        self._noted_until = now.replace(minute=0, second=0, microsecond=0) + HOUR
        self.over += float((self.driver.life.simulation.state.fullness > self.limit).sum())


@contextmanager
def living(of: Months, limit: float) -> Iterator[SiteLife]:
    """Give the site at the beginning of the months."""
    life = Life(of.scenario)
    driver = TwinDriver(life, MOUNT)
    site_life = SiteLife(of, driver, limit)
    simulation: Any = life.simulation
    simulation.step = site_life.timed(simulation.step)
    watched: Any = driver
    watched.snapshot = site_life.timed(driver.snapshot)
    programs: Any = driver.programs
    programs.execute = site_life.timed(programs.execute)
    twin_site._opened[MOUNT, "template"] = driver
    try:
        yield site_life
    finally:
        del twin_site._opened[MOUNT, "template"]
        life.close()


def watched_site(of: Months, place: Path, policies: Policies, receiver: Receiver) -> Site:
    """Return the site file of the months."""
    url = f"sqlite:///{place / 'months.db'}"
    described = site_of(site(Length(of.days)), "template", MOUNT, url)
    return replace(
        described,
        store=SiteStore(url=url, retention_s=RETENTION_DAYS * 86400.0),
        snapshot_schedule=f"every {SELDOM}h",
        probes=tuple(replace(probe, schedule="every 1h at :20") for probe in described.probes),
        policies=policies,
        webhooks=(Webhook("loopback", url=receiver.url),),
    )


def unwatched(of: Months, place: Path) -> dict[str, Any]:
    """Let the months pass with the probe alone, as cron would run it, and return its figures."""
    of_site = watched_site(of, place, Policies(), Receiver())
    writes: list[tuple[datetime, float]] = []
    with living(of, of_site.limits.fullness) as life, Store.open(of_site.store.url) as store:
        reach = twin_site.twin_reach(life.driver)
        runner = runner_of(of_site, store, reach)
        due_at = of.scenario.start + HOUR / 3
        while due_at < of.end:
            reach.sleep((due_at - reach.clock()).total_seconds())
            life.hour()
            identifier = new_identifier(due_at)
            outcome = runner(
                of_site.probes[0], RunContext(identifier, due_at, lambda text, fraction: None)
            )
            writes += writes_of([outcome.run])
            due_at += HOUR
    return performance(writes, life.over)


def watched(
    of: Months,
    policies: Policies,
    kills_every: int,
    seed: int,
    place: Path,
    *,
    most_s: float = float("inf"),
    report: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Watch the months and return what became of them, or of those that passed in ``most_s``.

    Parameters
    ----------
    report
        Given the figures so far now and then.
    """
    receiver = Receiver()
    of_site = watched_site(of, place, policies, receiver)
    log = logging.Logger("months", level=logging.CRITICAL)
    begun_s, ends_s = spent_s(), time.monotonic() + most_s
    with living(of, of_site.limits.fullness) as life, Store.open(of_site.store.url) as store:
        reach = twin_site.twin_reach(life.driver)
        kills = Kills(kills_every, seed)
        note_at, report_at = of.scenario.start, of.scenario.start + REPORTED_EVERY
        alerts: dict[str, Alert] = {}

        def figures(until: Months) -> dict[str, Any]:
            nonlocal alerts
            counts, alerts = elsewhere(of_site, until, life.over, receiver.keys, alerts)
            return {
                **counts,
                "days": until.days,
                "kills": kills.count,
                "memory_after_a_week": {
                    name: memory_change(life.noted, name)
                    for name in ("resident_mib", "anonymous_mib")
                },
                "watch_s_per_hour": life.noted[-1]["watch_s"] / (until.days * 24),
                "core_share": life.noted[-1]["watch_s"] / (until.days * 86400.0),
                "noted": life.noted,
            }

        def sleep(seconds: float) -> None:
            nonlocal note_at, report_at
            now = reach.clock()
            life.hour()
            too_long = now.minute >= 50 and time.monotonic() > ends_s
            if now >= of.end or too_long:
                raise KeyboardInterrupt
            if now >= note_at:
                note_at = now + timedelta(days=max(1.0, of.days / 48))
                life.noted.append(noted(of, now, place, begun_s, life))
            if now >= report_at:
                report_at = now + REPORTED_EVERY
                so_far = life.timed(figures)  # not of the watch
                report(so_far(of.until(now)))
            reach.sleep(min(seconds, (of.end - now).total_seconds() + 1))

        while True:
            process: Any = Process(store, kills)
            watch = Watch(
                of_site, process, life.driver, runner_of(of_site, process, reach),
                clock=reach.clock, sleep=sleep, elapsed_s=reach.elapsed_s, log=log,
                holder=process.name, gone=lambda holder: True,
                open_acting=lambda *_, **__: life.driver,
            )  # fmt: skip
            observers = observers_of(of_site, process, log=log, clock=reach.clock)
            watch.observe(observers, looks=look_elsewhere)
            try:
                watch.run()
            except Killed:
                continue
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    break
                raise SystemExit(f"the watch ended: {error!r}") from error
        of = of.until(reach.clock())
        life.noted.append(noted(of, reach.clock(), place, begun_s, life))
        return figures(of)


def elsewhere(*what: Any) -> tuple[dict[str, Any], dict[str, Alert]]:
    """Count in a process of its own.

    Reading every run takes memory that the watch never needs, and that would be counted as its own.
    """
    with worker_pool(1, hint="begin again") as pool:
        return pool.submit(counted, *what).result()


def counted(
    of_site: Site, of: Months, over: float, keys: Sequence[str], alerts: Mapping[str, Alert]
) -> tuple[dict[str, Any], dict[str, Alert]]:
    """Return what the store says of the months, and all alerts so far.

    Parameters
    ----------
    over
        OST-hours over the limit.
    keys
        Of the messages that were received.
    alerts
        Those of before, by id: the store lets alerts go after thirty days at the earliest.
    """
    with Store.open(of_site.store.url) as store:
        known = {**alerts, **{alert.id: alert for alert in store.alerts(of_site.name)}}
        runs = [run for run in store.runs(site=of_site.name) if run.at is not None]
        counts = {
            **performance(writes_of(runs), over),
            **bookkeeping(store, of_site, of),
            **alerting(tuple(known.values()), of, keys),
        }
    return counts, known


def noted(
    of: Months, now: datetime, place: Path, begun_s: float, life: SiteLife
) -> dict[str, float]:
    """Return memory, store and processor time at a time, and say that it was reached."""
    resident, mapped = map(int, Path("/proc/self/statm").read_text().split()[1:3])
    mib_a_page = resource.getpagesize() / 2**20
    watch_s = spent_s() - begun_s - life.simulation_s
    row = {
        "day": round((now - of.scenario.start).total_seconds() / 86400.0, 1),
        "resident_mib": round(resident * mib_a_page, 1),
        # Without the pages of libraries, which come with their first use.
        "anonymous_mib": round((resident - mapped) * mib_a_page, 1),
        "highest_mib": round(highest_since(), 1),
        "store_bytes": sum(path.stat().st_size for path in place.rglob("*") if path.is_file()),
        "watch_s": round(watch_s, 2),
        "simulation_s": round(life.simulation_s, 2),
    }
    print(f"  {row}", file=sys.stderr, flush=True)
    return row


def spent_s() -> float:
    """Return the processor time of this process and of those of its own that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def highest_since() -> float:
    """Return the most memory that was resident since the last call, in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")  # proc_pid_clear_refs(5): begins anew
    return kib / 1024.0


def memory_change(rows: list[dict[str, float]], name: str) -> float | None:
    """Return by how much memory grew from the second and third week to the last quarter."""
    second = [row[name] for row in rows if 7.0 <= row["day"] <= 21.0]
    last = [row[name] for row in rows if row["day"] >= rows[-1]["day"] * 0.75]
    return float(np.median(last) / np.median(second)) if second and last else None


def writes_of(runs: list[Run]) -> list[tuple[datetime, float]]:
    """Return time and write bandwidth of runs."""
    return [
        (run.at, sample.value)
        for run in runs
        for sample in run.samples
        if sample.metric == "write_bandwidth" and sample.value is not None and run.at is not None
    ]


def performance(writes: list[tuple[datetime, float]], over: float) -> dict[str, Any]:
    """Return what the site was like: level, spread and tail of the probe, full targets."""
    ordered = np.array([value for _, value in sorted(writes)])
    windows = np.lib.stride_tricks.sliding_window_view(ordered, min(48, len(ordered)))[::24]
    covs = windows.std(axis=1, ddof=1) / windows.mean(axis=1)
    return {
        "runs": len(ordered),
        "write_mean": float(ordered.mean()),
        "write_lowest_5_percent": float(np.quantile(ordered, 0.05)),
        "write_least": float(ordered.min()),
        "cov_48h_median": float(np.median(covs)),
        "cov_48h_over_goal": float((covs > GOAL_COV).mean()),
        "ost_hours_over_limit": over,
    }


def bookkeeping(store: Store, of_site: Site, of: Months) -> dict[str, Any]:
    """Return what became of slots and actions."""
    slots = store.slots(of_site.name)
    due = Counter((slot.item, slot.due_at) for slot in slots)
    per_slot = Counter(slot.run for slot in slots if slot.run is not None)
    actions = store.actions(of_site.name)
    lost = 0
    for item in {slot.item for slot in slots}:
        apart = HOUR if item.startswith("probe:") else SELDOM * HOUR
        present = sorted(slot.due_at for slot in slots if slot.item == item)
        expected = round((present[-1] - present[0]) / apart) + 1
        lost += expected - len(present) + ((of.end - present[-1]) > apart + HOUR / 2)
    return {
        "slots": dict(Counter(f"{slot.item} {slot.state.value}" for slot in slots)),
        "failed": [
            f"{slot.due_at:%Y-%m-%d %H:%M} {slot.item}: {slot.detail}"
            for slot in slots
            if slot.state is SlotState.FAILED
        ],
        "slots_doubled": sum(n > 1 for n in due.values()) + sum(n > 1 for n in per_slot.values()),
        "slots_lost": lost,
        "slots_open": len(store.open_slots(of_site.name)),
        "actions": dict(Counter(f"{a.instruction.kind.value} {a.outcome}" for a in actions)),
        "actions_open": sum(action.outcome is None for action in actions),
        "actions_not_done": [
            f"{action.at:%Y-%m-%d %H:%M} {action.instruction.kind.value} "
            f"{action.instruction.target}: {action.outcome} {action.detail} {dict(action.facts)}"
            for action in actions
            if action.outcome is not Outcome.DONE
        ],
        "incidents": len(store.incidents(of_site.name)),
    }


def alerting(alerts: tuple[Alert, ...], of: Months, keys: Sequence[str]) -> dict[str, Any]:
    """Return what people heard, and whether it was once, and of something."""
    sent = [alert for alert in alerts if alert.phase is not Phase.NOTED]
    opened = [alert for alert in sent if alert.phase is Phase.OPENED]
    once = Counter(
        (alert.subject, alert.phase)
        for alert in sent
        if alert.subject.startswith("incident:") and alert.phase is not Phase.WORSENED
    )
    apart = [alert for alert in opened if not _is_of_a_fault(alert, of)]
    quiet_until = of.faults[0].at if of.faults else of.end
    heard = {stretch.name: sum(_is_of(alert, stretch) for alert in opened) for stretch in of.faults}
    return {
        "alerts": dict(Counter(f"{alert.name} {alert.phase.value}" for alert in sent)),
        "alerts_a_month": len(sent) / (of.days / 30.0),
        "problems_a_month": len(opened) / (of.days / 30.0),
        "alerts_each_month": each_month([alert.at for alert in sent], of),
        "faults_each_month": each_month([fault.at for fault in of.faults], of),
        "alerts_in_quiet_days": sum(alert.at < quiet_until for alert in opened),
        "alerts_of_no_fault": [f"{alert.at:%Y-%m-%d} {alert.title}" for alert in apart],
        "phases_twice": sum(count > 1 for count in once.values()),
        "messages_twice": sum(count > 1 for count in Counter(keys).values()),
        "faults_alerted": heard,
    }


def each_month(times: list[datetime], of: Months) -> list[int]:
    """Return how many times lie in each thirty days."""
    counts = Counter(int((at - of.scenario.start) / timedelta(days=30)) for at in times)
    return [counts[month] for month in range(max(1, round(of.days / 30)))]


def _is_of_a_fault(alert: Alert, of: Months) -> bool:
    return any(_is_of(alert, stretch) for stretch in of.faults)


def _is_of(alert: Alert, stretch: Stretch) -> bool:
    began = alert.since or alert.at
    return stretch.at - timedelta(days=1) <= began <= stretch.until + AFTERWARDS


VARIANTS: Final = ("no watch", "measures", "acts")


def main() -> None:
    """Let the months pass, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=364.0)
    parser.add_argument("--quiet-days", type=float, default=28.0, help="Before the first fault.")
    parser.add_argument("--rounds", type=int, default=1, help="Of all kinds of faults.")
    parser.add_argument("--kills", type=int, default=500, help="About so many, where it acts.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=VARIANTS, nargs="*", default=VARIANTS)
    parser.add_argument("--until-day", type=float, help="Only so many of the days pass.")
    parser.add_argument(
        "--most-s", type=float, default=float("inf"), help="Each takes; then it ends."
    )
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    of = months(
        options.days, options.seed, quiet_days=options.quiet_days, rounds=options.rounds,
        until_day=options.until_day,
    )  # fmt: skip
    result: dict[str, Any] = (
        json.loads(options.result.read_text()) if options.result.exists() else {}
    )
    result |= measured_on()
    result |= {
        "days": of.days,
        "seed": options.seed,
        "faults": [f"{fault.at:%Y-%m-%d} {fault.name}" for fault in of.faults],
    }
    every = round(options.days * 24 * CALLS_AN_HOUR / max(1, options.kills))

    def keep(name: str, figures: Mapping[str, Any]) -> None:
        result[name] = figures
        options.result.write_text(json.dumps(result, indent=1) + "\n")

    for name in options.only:
        print(name, file=sys.stderr)
        ways: dict[str, Any] = {"most_s": options.most_s, "report": partial(keep, name)}
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            figures: Mapping[str, Any] = (
                unwatched(of, place)
                if name == "no watch"
                else watched(of, Policies(), 0, options.seed, place, **ways)
                if name == "measures"
                else watched(of, ARMED, every, options.seed, place, **ways)
            )
        keep(name, figures)


CALLS_AN_HOUR: Final = 8
"""Of `STORE_CALLS`, where every policy is armed: measured."""

if __name__ == "__main__":
    main()
