"""The same troubles on the twin: its fullness, settings, allocator and faults are simulated."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from tests.act.year import Year
from tests.act.year_site import CREATE, DEFAULTS, OSTS, POINTER, START, Ost
from tests.support.small_twin import small_life, small_scenario

from trimtab.base.snapshot import Setting, Snapshot, TargetSnapshot
from trimtab.twin.scenario import Fault
from trimtab.twin.twin_driver import TwinDriver

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
