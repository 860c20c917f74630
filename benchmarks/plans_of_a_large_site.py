"""What the plans of a large site cost: 298 OSTs, a month of actions and daily surveys behind them.

Every policy is planned from one snapshot of the fake Lustre (``tests/fake_lustre``): what the store
is asked for, the verdicts of the changes of a month, and the decision. The snapshot itself has its
own figure (`snapshot_of_a_large_site`). Every setting was rolled out and has been lost since, every
trim is due, every fifth OST is over the limit: each plan is as long as it can be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import measured_at
from tests.fake_lustre.state import FakeLustre

from trimtab.act.decide import decision
from trimtab.act.decide.decision import CONTROLLERS, decided
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.act.observing import observe
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import Message
from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Servers, Site
from trimtab.base.site_policy import BalancePolicy, Policies, TrimPolicy, TunablesPolicy
from trimtab.base.snapshot import Setting, Snapshot
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.store.store import Store

RESULTS = Path(__file__).with_name("results")
GOAL_CPU_S = 1.0
DAYS = 30
SETTINGS = {
    "wbt_lat_usec": "0",
    "mb_c1_threshold": "50",
    "mb_c2_threshold": "25",
    "nr_requests": "256",
    "qos_prio_free": "100%",
}
POLICIES = Policies(
    tunables=TunablesPolicy(settings=SETTINGS, survey=True),
    trim=TrimPolicy(),
    balance=BalancePolicy(),
    most_per_hour=100_000,
)


class Frozen(LustreDriver):
    """A driver whose snapshot was taken before: planning is measured, not collecting."""

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the one that was taken."""
        if self._last is None:
            super().snapshot(at)
        assert self._last is not None
        self._last = replace(self._last, at=at)
        return self._last


def large_site() -> tuple[FakeLustre, Site]:
    """Return the fake, with every fifth OST over the limit, and its site."""
    fake = FakeLustre.perlmutter()
    for number, target in enumerate(fake.osts):
        used = 0.9 if number % 5 == 0 else 0.5
        target.used_bytes = int(used * (target.capacity_bytes - target.reserved_bytes))
    servers = Servers(oss=tuple(server.name for server in fake.servers), sudo=True)
    path, name = fake.mount, fake.file_system
    return fake, Site("large", "lustre", path, file_system=name, servers=servers, policies=POLICIES)


def fill(store: Store, site: Site, snapshot: Snapshot, now: datetime) -> int:
    """Write a month of trims and surveys, and a rollout of every setting; return the actions."""
    store.ensure_site(site.name)
    actions: list[Action] = []
    osts = [seen for seen in snapshot.targets if seen.target.kind == "ost"]
    for day in range(DAYS, 0, -1):
        at = now - timedelta(days=day, hours=1)
        store.add_run(surveyed(site, [seen.target.name for seen in osts], at))
        actions += [done(site, "trim", ActionKind.TRIM, seen.target.name, at) for seen in osts]
    at = now - timedelta(days=DAYS // 2)
    for name, value in SETTINGS.items():
        for seen in snapshot.targets:
            for setting, shown in seen.settings.items():
                if setting.endswith(f"/{name}") and isinstance(shown, Setting):
                    row = done(site, "tunables", ActionKind.SET, seen.target.name, at)
                    change = {"setting": setting, "before": shown.value, "value": value}
                    instruction = replace(row.instruction, stage=2, **change)
                    actions.append(replace(row, instruction=instruction, found=value))
    for action in actions:
        store.put_action(action)
    return len(actions)


def surveyed(site: Site, names: list[str], at: datetime) -> Run:
    """Return a survey of all targets."""
    samples = tuple(
        Sample(metric, 1e9 + 1e6 * (number % 7), target=name)
        for number, name in enumerate(names)
        for metric in ("write_bandwidth", "read_bandwidth")
    )
    run = Run(new_identifier(at), site.name, "survey", "survey", RunStatus.OK, at=at)
    return replace(run, samples=samples)


def done(site: Site, policy: str, kind: ActionKind, target: str, at: datetime) -> Action:
    """Return an action that was carried out."""
    instruction = Instruction(kind, target, Message("trim-due", "a month of a large site"))
    return Action(
        new_identifier(at), site.name, policy, "0" * 16, "root@adm", at, instruction,
        until=at + timedelta(minutes=5), outcome=Outcome.DONE, found="0",
    )  # fmt: skip


def cpu_s(work: Callable[[], object]) -> float:
    """Return the processor time of a piece of work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def planned(observed: SiteObserved, policy: str, now: datetime) -> Plan:
    """Return what a policy makes of the site; ``revert`` takes back everything."""
    if policy == "revert":
        return decision.decide_reverts(observed, None, now)
    return decided(observed, policy, now)


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    fake, site = large_site()
    now = datetime.now(UTC)
    driver = Frozen(
        fake.mount, fake.file_system, site.servers, execute=fake.execute, fan_out=fake.fan_out
    )
    snapshot = driver.snapshot(now)
    with (
        tempfile.TemporaryDirectory() as name,
        Store.open(Path(name) / "large.db") as store,
    ):
        count = fill(store, site, snapshot, now)
        observed = observe(site, driver, store, now)
        figures: dict[str, object] = {
            "observing_cpu_s": round(
                statistics.median(
                    cpu_s(lambda: observe(site, driver, store, now)) for _ in range(rounds)
                ),
                3,
            )
        }
        for policy in (*CONTROLLERS, "revert"):
            plan = planned(observed, policy, now)
            costs = [cpu_s(lambda p=policy: planned(observed, p, now)) for _ in range(rounds)]
            figures[policy] = {
                "cpu_s": round(statistics.median(costs), 3),
                "instructions": len(plan.instructions),
                "untouched": len(plan.untouched),
                "held": [str(reason) for reason in plan.held],
            }
    result = {
        "what": "plans of 298 OSTs and 16 MDTs, with a month of actions and daily surveys",
        **measured_at(),
        "goal_cpu_s": GOAL_CPU_S,
        "rounds": rounds,
        "targets": len(snapshot.targets),
        "actions": count,
        **figures,
    }
    path = RESULTS / "plans_of_a_large_site.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
