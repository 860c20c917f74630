"""A year of random troubles: what must never happen does not, whatever does.

Visits come in bursts, minutes apart, with days or weeks between, and are the shell's own
(`trimtab.act.visit.visit`) on a real journal and store. A seed that fails replays: run
its test again, and see what `Year.told` prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.act.world import MemoryStore
from tests.act.year import Year
from tests.act.year_site import (
    CREATE,
    DEFAULTS,
    OSTS,
    POINTER,
    POLICIES,
    SITE,
    START,
    KilledError,
    Ost,
    with_facts,
)
from tests.support.counts import all_in_soak
from tests.support.small_twin import small_life, small_scenario

from trimtab.act import observing, session
from trimtab.act import visit as visiting
from trimtab.act.action_journal import journalled, opened
from trimtab.act.safeguard import DeadMan, put_back
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import TrimtabError
from trimtab.base.snapshot import Setting, Snapshot, TargetSnapshot
from trimtab.store.chain import ChainedFile
from trimtab.twin.scenario import Fault
from trimtab.twin.twin_driver import TwinDriver

BURSTS = 9
GATE = 25
SOAK = 1000
CONTROLLERS = ("tunables", "allocator", "trim", "balance")


class Applier:
    """Processes that act on the year, one after another, on one store and journal."""

    def __init__(
        self, seed: int, directory: Path, patch: pytest.MonkeyPatch, world: type[Year] = Year
    ) -> None:
        self.directory = directory / "actions"
        self.year = world(seed, self.directory / f"{SITE.name}.journal.jsonl")
        self.store = MemoryStore(directory / "year.db")
        self.acted = self.refused = self.killed = self.checked = 0
        self._patch(patch)
        self._processes = 0

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        year = self.year

        def name() -> str:
            self._processes += 1
            year.changes_since_rival = None  # it takes the right, from a rival that is gone too
            return f"process {self._processes}"

        opened_driver: Any = lambda site, **_: year  # noqa: E731 (the shell uses a part of a driver)
        replaced: dict[str, Any] = {
            "acting_site": lambda where: SITE,
            "clock_of": lambda site: year.clock,
            "know_site": lambda store, site: None,
            "open_store": lambda url, site, create: self.store,
            "open_driver": opened_driver,
            "ActingPlace": partial(
                session.ActingPlace, open_acting=opened_driver, sleep=year.sleep
            ),
        }
        for attribute, stand_in in replaced.items():
            patch.setattr(visiting, attribute, stand_in)
        patch.setattr(session, "dead_man", self._dead_man)
        patch.setattr(session, "this_process", name)
        patch.setattr(session, "is_gone", lambda holder: True)
        patch.setattr(observing, "with_verdicts", with_facts)
        patch.setattr(observing, "is_locked", lambda path: False)
        patch.setattr(os, "fsync", lambda file: None)
        self._dies_with(patch, ChainedFile, "append")
        self._dies_with(patch, MemoryStore, "put_action")
        released = MemoryStore.release_right
        patch.setattr(
            MemoryStore, "release_right", lambda *rest: None if year.dead else released(*rest)
        )

    def _dies_with(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        """Let the process be killed before and after it writes something of its own."""
        original: Callable[..., Any] = getattr(owner, name)

        def mortal(*arguments: Any) -> Any:
            if name == "append" and b'"do":"apply"' in arguments[1]:
                self.year.is_decided = True
            self.year.point(f"before {name}")
            answer = original(*arguments)
            self.year.point(f"after {name}")
            return answer

        patch.setattr(owner, name, mortal)

    @contextmanager
    def _dead_man(self, driver: Year) -> Iterator[DeadMan]:
        """Put back in this process what the child would, unless its host died too."""
        reading, writing = os.pipe()
        try:
            yield DeadMan(writing)
        finally:
            os.close(writing)
            if driver.dead and driver.draws.random() < 0.5:
                driver.dead = False
                with suppress(TrimtabError):
                    driver.tell(f"put back: {put_back(driver, reading)}")  # type: ignore[arg-type]
                driver.dead = True
            else:
                os.close(reading)

    def overtake(self) -> None:
        """Let another process take the right to act."""
        now = self.year.now + self.year.jump
        until = now + timedelta(minutes=10)
        self.store.take_right(SITE.name, "rival", now=now, until=until, gone=lambda holder: True)

    def visit(self, policy: str) -> visiting.PlanDocument | None:
        """Visit the site; ``None``: it was refused, or the process was killed."""
        year = self.year
        year.begin_visit(policy)
        year.tell(f"visit: {policy}")
        try:
            visited = visiting.visit(SITE.name, None, policy, applying=True)
        except TrimtabError as error:
            year.tell(f"refused: {error.code}")
            self.refused += 1
            return None
        except KilledError:
            self.killed += 1
            return None
        finally:
            year.kill_in = year.rival_in = None
        year.tell(
            f"{[i.kind.value + i.target for i in visited.plan.instructions]} {visited.plan.held}"
        )
        self.acted += len(visited.actions)
        self._check(visited)
        return visited

    def _check(self, visited: visiting.PlanDocument) -> None:
        """Check a plan, and what a visit of balance that could do all it planned left behind."""
        stages: set[tuple[int, str]] = set()
        for instruction in visited.plan.instructions:
            if instruction.kind is ActionKind.TRIM:
                server = instruction.server or ""
                turn = instruction.stage, "both" if server in {"oss0", "oss1"} else server
                self.year.require(turn not in stages, f"two trims on {server} in a stage")
                stages.add(turn)
        year = self.year
        able = year.is_honest and not year.failed_calls and not year.late and not visited.plan.held
        if visited.plan.policy == "balance" and able:
            self.checked += 1
            year.check_after_balance()

    def live(self) -> None:
        """Let a year pass."""
        year = self.year
        year.rival = self.overtake
        for _ in range(BURSTS):
            days = year.draws.uniform(*year.gap_days)
            year.sleep(86400.0 * days)
            year.users(days)
            for _ in range(year.draws.randint(2, 6)):
                year.happen()
                if year.draws.random() < 0.3:
                    self.watch()
                for policy in year.draws.sample(CONTROLLERS, year.draws.randint(1, 3)):
                    if year.draws.random() < 0.12:
                        year.kill_in = year.draws.randrange(60)
                    elif year.draws.random() < 0.06:
                        year.rival_in = year.draws.randrange(30)
                    visit = self.visit(policy)
                    outcomes = () if visit is None else {a.outcome for a in visit.actions}
                    if Outcome.UNKNOWN in outcomes:
                        self.visit(policy)  # whoever reads that tries again at once
                hours = year.draws.choice((0.1, 0.5, 1.1, 7.0))
                year.sleep(3600.0 * hours)
                year.users(hours / 24.0)

    def watch(self) -> None:
        """Keep a snapshot, as a watch does."""
        self.year.begin_visit()
        taken = self.year.snapshot(self.year.now + self.year.jump)
        self.store.add_snapshot(SITE.name, taken)
        self.year.known_at = max(self.year.known_at, taken.at)

    def take_back(self) -> None:
        """End all troubles, then take back everything."""
        year = self.year
        year.calm()
        last = max((action.at for action in self.store.actions(SITE.name)), default=START)
        latest = self.store.latest_snapshot(SITE.name)
        year.now = max(year.now, last, START if latest is None else latest.at)
        year.sleep(7 * 3600.0)
        visit = None
        for _ in range(12):  # a server may store another value several times running
            visit = self.visit("revert")
            year.sleep(3 * 3600.0)
            if visit is not None and not visit.plan.instructions:
                break
        assert visit is not None
        year.require(not visit.plan.held, f"reverting is held: {visit.plan.held}")
        year.require(not visit.plan.instructions, "there is no end of reverting")
        year.check_restored()

    def check_ledger(self) -> None:
        """Require that ledger and journal agree, and that no hour had too many changes."""
        actions = self.store.actions(SITE.name)
        with opened(self.directory, SITE.name) as journal:
            lines = journalled(journal.lines, SITE.name).actions
            self.year.require({a.id: a for a in actions} == {a.id: a for a in lines}, "ledger")
        limited = {ActionKind.SET, ActionKind.CLOSE, ActionKind.TRIM}
        times: list[datetime] = sorted(
            action.at
            for action in actions
            if action.instruction.kind in limited
            and action.policy != "revert"
            and (action.outcome is None or action.outcome.wrote)
        )
        for at in times:
            many = sum(at - timedelta(hours=1) < other <= at for other in times)
            self.year.require(many <= POLICIES.most_per_hour, f"{many} changes in an hour")


def lived(seed: int, directory: Path, world: type[Year] = Year) -> Applier:
    """Return a year that was lived, and all of it taken back."""
    with pytest.MonkeyPatch.context() as patch:
        applier = Applier(seed, directory, patch, world)
        applier.live()
        applier.take_back()
        applier.check_ledger()
    if applier.year.violations:
        print(*applier.year.told, sep="\n")
    return applier


# The same troubles on the twin: its fullness, settings, allocator and faults are simulated.

DAY = timedelta(days=1)


class TwinYear(Year):
    """A few weeks of eight small OSTs, with the faults of a scenario beside those of the year."""

    gap_days = (0.2, 3.0)

    def __init__(self, seed: int, journal: Path) -> None:
        plain = small_scenario()
        faults = (
            Fault(START + 2 * DAY, "failover", START + 4 * DAY, (1,)),
            Fault(START + 5 * DAY, "silent-ost", START + 6 * DAY, (6,)),
            Fault(START + 7 * DAY, "failed-drive", START + 8 * DAY, (2,)),
            Fault(START + 9 * DAY, "filling", START + 10 * DAY, (4,), 4e3),
        )
        life = small_life(
            start=START,
            seed=seed,
            length_s=90 * 86400.0,
            osts=replace(plain.osts, count=OSTS, per_server=2),
            users=replace(plain.users, fullness=0.7, fullness_spread=0.08),
            faults=faults,
        )
        self.twin = TwinDriver(life, "/twin")
        self._seen: Snapshot | None = None
        super().__init__(seed, journal)
        self._sync()

    def _pass(self, seconds: float) -> None:
        super()._pass(seconds)
        life = self.twin.life
        before = life.simulation.now
        life.pass_until(self.now)
        self.now = max(self.now, life.now)
        if life.simulation.now > before:
            self._sync()

    def _sync(self) -> None:
        """Take over what the simulation made of the targets."""
        seen = self.twin.snapshot(self.now)
        for ost in self.osts.values():
            row = seen.of(ost.name)
            assert row is not None
            full = row.fullness()
            if full is None:
                continue
            ost.full, ost.degraded = full, row.value("degraded") is True
            for name in DEFAULTS:
                shown = row.settings[name]
                assert isinstance(shown, Setting)
                if shown.value == ost.settings[name]:
                    continue
                if name == POINTER:
                    ost.settings[name] = shown.value
                else:
                    ost.put(name, shown.value, "default")
        self._watch()

    def put(self, ost: Ost, setting: str, value: str, who: str) -> None:
        """Set it in the simulation too; on a silent target nothing happens."""
        if who != "us" and setting not in self.twin.settings(ost.name):
            return
        self.twin.set(ost.name, setting, value)
        super().put(ost, setting, value, who)

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the twin's own, with the year's faults of telemetry."""
        self._seen = self.twin.snapshot(self.now)
        return super().snapshot(at)

    def _row(self, ost: Ost, unseen: bool) -> TargetSnapshot:
        made = super()._row(ost, unseen)
        assert self._seen is not None
        row = self._seen.of(ost.name)
        assert row is not None
        if unseen or self.telemetry or row.fullness() is None:
            return made if row.fullness() is not None else row
        return replace(row, target=made.target)

    def users(self, days: float) -> None:
        """Let users of the simulation do that."""

    def _trimmed(self, ost: Ost) -> None:
        self.twin.trim(ost.name)
        self.now = max(self.now, self.twin.life.now)
        ost.trimmed_at = self.clock()

    def _runaway(self) -> None:
        self._write(self.draws.sample(list(self.osts.values()), 3), 0.15)

    def _purge(self) -> None:
        self._write(list(self.osts.values()), -0.3)

    def _write(self, osts: list[Ost], part: float) -> None:
        simulation = self.twin.life.simulation
        for ost in osts:
            number = int(ost.name[3:], 16)
            capacity = float(simulation.state.capacity_bytes[number])
            room = min(part, 0.96 - ost.full)
            if room > 0.0:
                simulation.write([(room * capacity, str(number))])
            elif part < 0.0:
                simulation.remove([(-part * capacity, str(number))])
        self.tell(f"{len(osts)} OSTs are {part:+} full")
        self._sync()

    def _rebuild(self) -> None:
        """Rebuilds are those of the scenario."""

    def _fail_over(self) -> None:
        """Failovers to a partner too; others only lose what was set."""
        self._mounted([self._some()])

    def calm(self) -> None:
        """Live past the scenario's faults, too."""
        super().calm()
        self.sleep(max(0.0, (START + 11 * DAY - self.now).total_seconds()))
        assert all(ost.settings[CREATE] for ost in self.osts.values())


@pytest.mark.parametrize("seed", all_in_soak(range(SOAK), gate=range(GATE)))
def test_a_year_of_troubles(seed: int, tmp_path: Path) -> None:
    assert lived(seed, tmp_path).year.violations == []


@pytest.mark.calibration
@pytest.mark.parametrize("seed", all_in_soak(range(50), gate=range(2)))
def test_weeks_of_troubles_on_the_twin(seed: int, tmp_path: Path) -> None:
    applier = lived(seed, tmp_path, TwinYear)
    assert applier.year.violations == []
    assert seed >= 2 or applier.acted > 50
