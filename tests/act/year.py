"""A site with its troubles over a year, as a driver, for what must never happen whatever happens.

Eight OSTs on four servers and the MDS that opens and closes them. Everything that goes wrong is
drawn from one seed, and each call of the driver lets a little time pass, so that a seed replays
exactly. The world knows what Trimtab does not: the true time, the true fullness, who set what.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.act.year_site import (
    C2,
    CAPACITY,
    CREATE,
    DEFAULTS,
    MINUTE,
    MOST_CLOSED,
    NEEDED,
    OF_ADMINS,
    OSTS,
    OURS,
    POINTER,
    POLICIES,
    SITE,
    SOURCE,
    START,
    WBT,
    KilledError,
    Ost,
)

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.snapshot import (
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    TrimPractice,
    not_available,
)
from trimtab.reach.driver_protocol import WriteTimes


class Year:
    """The world, and the driver through which it is seen and changed.

    Attributes
    ----------
    now
        True time; the host's clock is off by ``jump``.
    ill
        Server to what it does: ``dead``, ``hangs`` or ``refuses``.
    journal
        The file that has to have a line before anything is changed.
    gap_days
        Between two bursts of visits, the least and the most.
    is_decided
        Whether a plan is being applied: later snapshots decide nothing.
    decided_on, decided_by, seen
        True time of the snapshot that a plan rests on, what the clock said after it, and which
        targets it shows with their server.
    unsure
        Policy to the visit and time in which a change of it hung, and how far the clock was off.
    known_at
        The latest time that snapshots and actions of earlier visits are known to have.
    violations
        What must never happen and did.
    told
        What happened, for whoever looks at a seed that failed.
    """

    name = "memory"
    gap_days = (1.0, 55.0)
    capabilities = frozenset({"settings", "set", "trim", "creation", "allocator-reset"})
    dead_man_s = NotAvailable("no server puts anything back this year")
    changelogs = NotAvailable("nobody reads a changelog this year")

    def __init__(self, seed: int, journal: Path) -> None:
        self.draws = random.Random(seed)
        self.journal = journal
        self.now = START
        self.jump = timedelta(0)
        self.osts = {
            f"OST{number:04x}": Ost(f"OST{number:04x}", f"oss{number // 2}", self._full())
            for number in range(OSTS)
        }
        for ost in self.osts.values():
            ost.server = ost.home
        self.ill: dict[str, str] = {}
        self.telemetry: set[str] = set()
        self.violations: list[str] = []
        self.told: list[str] = []
        self.dead = False
        self.policy = ""
        self.visits = 0
        self.kill_in: int | None = None
        self.rival_in: int | None = None
        self.rival: Callable[[], None] | None = None
        self.changes_since_rival: int | None = None
        self.decided_on: datetime | None = None
        self.decided_by = self.known_at = self.acted_at = START
        self.seen: set[str] = set()
        self.is_decided = False
        self.failed_calls = 0
        self.planned_on: dict[str, dict[str, str]] = {}
        self.late: list[tuple[datetime, Callable[[], None]]] = []
        self.trimming: list[str] = []
        self.made = 0
        self.unsure: dict[str, tuple[int, datetime, timedelta]] = {}
        self._watch()

    def _full(self) -> float:
        return self.draws.uniform(0.4, 0.85)

    # Time

    def clock(self) -> datetime:
        """Return what the host's clock says."""
        self._pass(0.001)
        return self.now + self.jump

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        due = [deed for at, deed in self.late if at <= self.now]
        self.late = [(at, deed) for at, deed in self.late if at > self.now]
        for deed in due:
            with suppress(UsageError):  # its target is gone by now
                deed()

    def begin_visit(self, policy: str = "") -> None:
        """Begin a process of its own, which may be killed or overtaken."""
        self.policy = policy
        self.known_at = max(self.known_at, self.acted_at)
        self.visits += 1
        self.is_decided = False
        self.dead, self.made, self.failed_calls = False, 0, 0
        self.changes_since_rival = None

    def point(self, where: str) -> None:
        """Be killed or overtaken here, where that was drawn."""
        if self.dead:
            raise KilledError(where)
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in, self.dead = None, True
                self.tell(f"killed at {where}")
                raise KilledError(where)
        if self.rival_in is not None and self.rival is not None:
            self.rival_in -= 1
            if self.rival_in < 0:
                self.rival_in, self.changes_since_rival = None, 0
                self.tell(f"overtaken at {where}")
                self.rival()

    def tell(self, what: str) -> None:
        """Keep what happened."""
        self.told.append(f"{self.now:%m-%d %H:%M:%S} {what}")

    def _violated(self, what: str) -> None:
        self.violations.append(f"{self.now:%m-%d %H:%M:%S} {what}")
        self.tell(f"VIOLATED {what}")

    def require(self, holds: bool, what: str) -> None:
        """Note a violation where something does not hold."""
        if not holds:
            self._violated(what)

    def put(self, ost: Ost, setting: str, value: str, who: str) -> None:
        """Let somebody set something."""
        if who == "us" or ost.settings[setting] != value:  # the same again is seen by nobody
            ost.visits[setting, who] = self.visits
        if who == "admin" and ost.visits.get((setting, "us")) == self.visits:
            ost.taken_for_ours.add((setting, value))
        ost.put(setting, value, who)

    # Reading

    def targets(self) -> tuple[Target, ...]:
        """Return the targets."""
        return tuple(Target(ost.name, "ost", ost.server) for ost in self.osts.values())

    def snapshot(self, at: datetime) -> Snapshot:
        """Return all targets: late, half or wrong where telemetry is."""
        self.point("snapshot")
        taken = self.now
        rows: list[TargetSnapshot] = []
        complete = True
        for ost in self.osts.values():
            unseen = self.ill.get(ost.server) in {"dead", "hangs"}
            if "half" in self.telemetry and self.draws.random() < 0.4:
                complete = False
                continue
            complete &= not unseen
            rows.append(self._row(ost, unseen))
        self._pass(1.0)
        if "slow" in self.telemetry:
            self._pass(1800.0)
        if "jumps" in self.telemetry:
            self.telemetry.discard("jumps")
            self.jump += timedelta(hours=self.draws.choice((-26, -2, 3)))
        if not self.is_decided:
            self.decided_on = taken
            self.seen = {row.target.name for row in rows if row.target.server is not None}
            self.planned_on = {ost.name: dict(ost.settings) for ost in self.osts.values()}
            self.decided_by = self.now + self.jump
        return Snapshot(at, self.name, complete, tuple(rows))

    def _row(self, ost: Ost, unseen: bool) -> TargetSnapshot:
        target = Target(ost.name, "ost", None if unseen else ost.server)
        lies = "lies" in self.telemetry and self.draws.random() < 0.5
        full = self.draws.choice((0.0, 0.2, 0.99, 2.5)) if lies else ost.full
        values: dict[str, Any] = {
            "capacity_bytes": CAPACITY,
            "used_bytes": round(full * CAPACITY),
            "available_bytes": round((1.0 - full) * CAPACITY),
            "create_enabled": ost.takes_files and not (lies and self.draws.random() < 0.3),
            "degraded": ost.degraded,
            "read_only": False,
            "errors_total": 0,
            "import_state": "DISCONN" if unseen else "FULL",
            "server": None if unseen else ost.server,
            "bytes_written_total": round(ost.written),
            "last_trim_at": None if ost.trimmed_at is None else ost.trimmed_at.isoformat(),
            "discard_granularity_bytes": 65536,
        }
        if unseen:
            for name in ("degraded", "read_only", "bytes_written_total", "last_trim_at"):
                values[name] = None
        readings = tuple(
            Reading(name, value, SOURCE, "not known" if value is None else None)
            for name, value in values.items()
        )
        return TargetSnapshot(target, readings, self._settings(ost, unseen))

    def _settings(self, ost: Ost, unseen: bool) -> dict[str, Setting | NotAvailable]:
        silent = not_available("server-unreachable", f"{ost.server} does not answer")
        return {
            name: silent if unseen and name != CREATE else Setting(name, value, SOURCE)
            for name, value in ost.settings.items()
        }

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a target now."""
        self.point("settings")
        self._pass(0.1)
        ost = self._of(target)
        if "meddled" in self.telemetry and self.draws.random() < 0.3:
            self._admin_sets(ost)
        return self._settings(ost, self.ill.get(ost.server) in {"dead", "hangs"})

    def trim_practice(self, target: str) -> TrimPractice:
        """Return that nobody else trims."""
        return TrimPractice(timer_active=False, reasons={"mount_option": "none is set"})

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return that nobody counts."""
        return not_available("not-counted", "nobody counts writes")

    def _of(self, target: str) -> Ost:
        if target not in self.osts:
            raise UsageError(f"there is no target {target!r}", code="target-unknown")
        return self.osts[target]

    # Changing

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write a setting, or fail as the server does."""
        ost = self._of(target)
        self.tell(f"set {target} {name} {value}")
        since = ost.admin_at.get(name, START) < (self.decided_on or START)
        since |= self.planned_on.get(target, {}).get(name) == ost.settings[name]  # and back
        self.require(since, f"{target} {name} is set though an admin set it after the plan")
        theirs = ost.writes.get(name, [("default", "")])[-1][0] != "us"
        # Set within the visit in which we wrote, it is taken for a side effect of what we wrote.
        theirs &= ost.visits.get((name, "us")) != ost.visits.get((name, "admin"))
        theirs &= (name, ost.settings[name]) not in ost.taken_for_ours
        back = self.policy == "revert"
        self.require(not (back and theirs), f"{target} {name} is taken back though not ours")
        with self._changing(ost.server, "set", target, name):
            if self.draws.random() < 0.03:
                self.put(ost, name, "1000" if name == WBT else "20", "us")
                self.failed_calls += 1
                raise ToolError("another value is read back", code="setting-not-kept")
            self._make(ost.server, lambda: self.put(ost, name, value, "us"))
        return Setting(name, ost.settings[name], SOURCE)

    def set_permanent(self, target: str, name: str, value: str | None) -> NotAvailable:
        """Set nothing for the mounts to come."""
        return NotAvailable("nothing is permanent this year")

    def confirm(self) -> NotAvailable:
        """Confirm nothing."""
        return self.dead_man_s

    def pools(self) -> dict[str, tuple[int, ...]]:
        """Return that there are no pools."""
        return {}

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Open or close a target on its MDS."""
        ost = self._of(target)
        self.tell(f"{'open' if enabled else 'close'} {target} at {ost.full:.2f}")

        def done() -> None:
            self.made += 1
            ost.changed_at = self.now
            self.put(ost, CREATE, "20000" if enabled else "0", "us")
            if enabled:
                return
            ost.closed_by_us = self.now
            closed = [each for each in self.osts.values() if each.closed_by_us is not None]
            self.require(len(closed) <= MOST_CLOSED, f"{len(closed)} are closed")

        with self._changing("mds0", "open" if enabled else "close", target, None):
            self._make("mds0", done)
        return None

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Set the pointer back."""
        ost = self._of(target)
        with self._changing(ost.server, "reset-allocator", target, None):
            self._make(ost.server, lambda: self.put(ost, POINTER, "0", "us"))
        return None

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Trim a range of a target on the server that has it."""
        ost = self._of(target)
        self.tell(f"trim {target} from {start}")
        enclosure = "enclosure" if ost.server in {"oss0", "oss1"} else ost.server
        self.require(enclosure not in self.trimming, f"two trims at once on {enclosure}")
        self.require(not ost.degraded, f"{target} is trimmed while its array is rebuilt")
        self.trimming.append(enclosure)
        try:
            with self._changing(ost.server, "trim", target, None):
                self._pass(120.0)
                self._make(ost.server, lambda: self._trimmed(ost))
        finally:
            self.trimming.remove(enclosure)
        return length or CAPACITY

    def _trimmed(self, ost: Ost) -> None:
        ost.trimmed_at = self.clock()

    @contextmanager
    def _changing(self, server: str, kind: str, target: str, setting: str | None) -> Iterator[None]:
        """Check what has to hold before each change; be killed before or after it."""
        self.point(f"before {kind} {target}")
        self._check_journal(kind, target, setting)
        age_s = (self.now - (self.decided_on or START)).total_seconds()
        first = self.changes_since_rival is None or self.changes_since_rival == 0
        self.require(first, f"{kind} {target} by one that has lost the right")
        if self.changes_since_rival is not None:
            self.changes_since_rival += 1
        self.require(
            age_s <= POLICIES.stale_s + 60.0 or self.made > 0,
            f"{kind} {target} on telemetry of {age_s:.0f} s before",
        )
        gives_back = kind == "open" or self.policy == "revert"
        self.require(target in self.seen or gives_back, f"{kind} {target}, which was not seen")
        visit, since, jump = self.unsure.get(self.policy, (self.visits, START, self.jump))
        soon = visit != self.visits and jump == self.jump and self.now - since < 2 * MINUTE
        self.require(not soon or gives_back, f"{kind} {target} though another may still be written")
        self.require(
            self.decided_by >= self.known_at - 2 * MINUTE,
            f"{kind} {target} by a clock that has gone back",
        )
        self.acted_at = max(self.acted_at, self.now + self.jump)
        self.made += 1
        self._pass(0.5)
        illness = self.ill.get(server)
        if illness is not None:
            self.failed_calls += 1
        if illness == "dead":
            raise ToolError(f"{server} does not answer", code="server-unreachable")
        if illness == "refuses":
            raise RefusedError("permission denied", code="permission-denied")
        yield
        self.point(f"after {kind} {target}")

    def _make(self, server: str, deed: Callable[[], None]) -> None:
        """Do what a server was told; one that hangs, or lost its client, does it later or never."""
        if self.ill.get(server) != "hangs" and self.draws.random() >= 0.02:
            deed()
            return
        if self.draws.random() < 0.7:
            self.late.append((self.now + timedelta(seconds=self.draws.uniform(0, 90)), deed))
        self._pass(30.0)
        self.failed_calls += 1
        self.unsure[self.policy] = self.visits, self.now, self.jump
        raise ToolError(f"{server} does not answer any more", code="write-hangs")

    def _check_journal(self, kind: str, target: str, setting: str | None) -> None:
        text = self.journal.read_text().splitlines() if self.journal.exists() else []
        line = json.loads(text[-1]) if text else {}
        if line.get("do") == "range":
            return
        begun = line.get("do") == "begin" and (line["kind"], line["target"]) == (kind, target)
        same = begun and (setting is None or line["setting"] == setting)
        self.require(same, f"{kind} {target} was made before it was journalled")

    # What happens by itself

    def happen(self) -> None:
        """Let something happen, or nothing."""
        deeds: list[tuple[float, Callable[[], None]]] = [
            (0.12, self._server_ill),
            (0.50, self._server_back),
            (0.08, self._fail_over),
            (0.06, self._mds_fails_over),
            (0.15, self._drift),
            (0.12, self._admin_sets),
            (0.06, self._admin_closes),
            (0.10, self._runaway),
            (0.08, self._purge),
            (0.06, self._rebuild),
            (0.50 if self.jump else 0.05, self._clock_jumps),
        ]
        for chance, deed in deeds:
            if self.draws.random() < chance:
                deed()
        self.telemetry = {
            fault
            for fault in ("slow", "half", "lies", "jumps", "meddled")
            if self.draws.random() < 0.07
        }
        if self.telemetry:
            self.tell(f"telemetry is {sorted(self.telemetry)}")

    def users(self, days: float) -> None:
        """Let users write and delete."""
        scale = min(1.0, days)
        for ost in self.osts.values():
            grown = self.draws.uniform(-0.05, 0.06 if ost.is_open else 0.01) * scale
            ost.full = min(0.97, max(0.3, ost.full + grown))
            ost.written += self.draws.uniform(0.0, 0.2) * scale * CAPACITY
            ost.settings[POINTER] = str(self.draws.randrange(1, 1000))
        self._watch()

    def _watch(self) -> None:
        for ost in self.osts.values():
            if ost.full >= SITE.limits.reopen:
                ost.under_since = None
            elif ost.under_since is None:
                ost.under_since = self.now

    def _some(self) -> Ost:
        return self.draws.choice(list(self.osts.values()))

    def _server_ill(self) -> None:
        server = self.draws.choice(("oss0", "oss1", "oss2", "oss3", "mds0"))
        self.ill[server] = self.draws.choice(("dead", "hangs", "refuses"))
        self.tell(f"{server} {self.ill[server]}")

    def _server_back(self) -> None:
        for server in tuple(self.ill):
            was = self.ill.pop(server)
            self.tell(f"{server} is back")
            if was != "refuses":
                self._mounted([ost for ost in self.osts.values() if ost.server == server])
                if server == "mds0":
                    self._mds_fails_over()

    def _fail_over(self) -> None:
        ost = self._some()
        partner = f"oss{int(ost.home[3:]) ^ 1}"
        ost.server = partner if ost.server == ost.home else ost.home
        self.tell(f"{ost.name} moves to {ost.server}")
        self._mounted([ost])

    def _mounted(self, osts: list[Ost]) -> None:
        for ost in osts:
            for name in (WBT, C2):
                self.put(ost, name, DEFAULTS[name], "default")

    def _mds_fails_over(self) -> None:
        self.tell("the MDS fails over: all are open")
        for ost in self.osts.values():
            self.put(ost, CREATE, "20000", "default")

    def _drift(self) -> None:
        ost, name = self._some(), self.draws.choice((WBT, C2))
        self.put(ost, name, DEFAULTS[name], "default")
        self.tell(f"{ost.name} {name} drifts")

    def _admin_sets(self, ost: Ost | None = None) -> None:
        ost, name = ost or self._some(), self.draws.choice((WBT, C2))
        before = ost.settings[name]
        self.put(ost, name, self.draws.choice(OF_ADMINS[name]), "admin")
        if ost.settings[name] != before:  # the same value again is seen by nobody
            ost.admin_at[name] = self.now
        self.tell(f"an admin sets {ost.name} {name} to {ost.settings[name]}")

    def _admin_closes(self) -> None:
        ost = self._some()
        self.put(ost, CREATE, "0" if ost.is_open else "20000", "admin")
        self.tell(f"an admin makes {ost.name} open: {ost.is_open}")

    def _runaway(self) -> None:
        for ost in self.draws.sample(list(self.osts.values()), self.draws.randint(1, 6)):
            ost.full = min(0.97, ost.full + self.draws.uniform(0.1, 0.3))
        self.tell("a job fills OSTs")
        self._watch()

    def _purge(self) -> None:
        for ost in self.osts.values():
            ost.full = max(0.3, ost.full - self.draws.uniform(0.05, 0.3))
        self.tell("a purge")
        self._watch()

    def _rebuild(self) -> None:
        ost = self._some()
        ost.degraded = not ost.degraded
        self.tell(f"{ost.name} degraded: {ost.degraded}")

    def _clock_jumps(self) -> None:
        self.jump = (
            timedelta(0)
            if self.jump
            else self.draws.choice((-1, 1))
            * timedelta(minutes=self.draws.choice((5, 90, 3 * 1440)))
        )
        self.tell(f"the clock is off by {self.jump}")

    def calm(self) -> None:
        """End every trouble."""
        self._server_back()
        self.telemetry, self.jump, self.kill_in, self.rival_in = set(), timedelta(0), None, None
        for ost in self.osts.values():
            ost.degraded = False
        self._pass(600.0)

    # What has to hold

    @property
    def is_honest(self) -> bool:
        """Whether telemetry and servers are as they should be."""
        return not self.telemetry and not self.ill and not self.jump

    def usable(self) -> list[Ost]:
        """Return the OSTs that take new files."""
        return [
            ost
            for ost in self.osts.values()
            if ost.takes_files and not ost.degraded and not self.ill
        ]

    def check_after_balance(self) -> None:
        """Require that nothing stays closed that should be open, after a visit that could act."""
        dwell = timedelta(seconds=POLICIES.balance.dwell_s)
        for ost in self.osts.values():
            if ost.closed_by_us is None or ost.under_since is None:
                continue
            since = max(ost.under_since, ost.changed_at or START)
            self.require(
                self.now - since <= dwell + MINUTE, f"{ost.name} stays closed at {ost.full:.2f}"
            )
        if len(self.usable()) < NEEDED:
            room = [
                ost.name
                for ost in self.osts.values()
                if ost.closed_by_us is not None and not ost.degraded and ost.full < 0.94
            ]
            self.require(not room, f"{len(self.usable())} take files while {room} are closed")

    def check_restored(self) -> None:
        """Require that after the way back nothing of ours is left, and what is of others is."""
        for ost in self.osts.values():
            self.require(ost.closed_by_us is None, f"{ost.name} is left closed")
            for name in OURS.keys() & ost.writes.keys():
                writes = ost.writes[name]
                last, value = ost.settings[name], writes[-1]
                others = [text for who, text in writes if who != "us"]
                ours = [number for number, (who, _) in enumerate(writes) if who == "us"]
                if not ours or ours[-1] < len(writes) - 1:
                    self.require(last == value[1], f"{ost.name} {name} of others was changed")
                    continue
                self.require(last in others, f"{ost.name} {name} is left at {last}")
