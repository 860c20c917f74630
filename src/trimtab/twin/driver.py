"""The twin as a driver: a simulated file system that looks like a real one.

A change of one target (setting, trim, closing, allocator reset) applies to the column that
represents it, so it requires a scenario with a column for each OST. Settings are lost when the
target moves to another server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.config.targets import mdt_name, ost_name
from trimtab.drivers.protocol import Clock, WriteTimes, check_range
from trimtab.errors import RefusedError, UsageError
from trimtab.launch.process import ProcessResult
from trimtab.model.telemetry import NotAvailable, Setting, Snapshot, Target
from trimtab.model.trim import TrimPractice
from trimtab.twin.guest import Guest
from trimtab.twin.instruments.layout import devices_of, layout_of
from trimtab.twin.instruments.snapshots import DRIVER, LAST_GROUP, SOURCE, snapshot_of
from trimtab.twin.launcher import TwinLauncher, find_twin_launcher
from trimtab.twin.life import Life
from trimtab.twin.programs import Programs
from trimtab.twin.scenario.model import Trim
from trimtab.twin.simulation.readings import readings
from trimtab.visible import visible

ABLE: Final = frozenset({"settings", "set", "trim", "creation", "allocator-reset", "placement"})
_KEYS: Final = {
    "ldiskfs/md0/mb_c1_threshold": "allocator.c1",
    "ldiskfs/md0/mb_c2_threshold": "allocator.c2",
    "ldiskfs/md0/mb_c3_threshold": "allocator.c3",
    "lod/qos_threshold_rr": "placement.qos_threshold_rr",
    "lod/qos_prio_free": "placement.qos_prio_free",
}
"""Settings in percent on a real system, fractions in a scenario."""
_THROTTLING: Final = "drives/queue/wbt_lat_usec"
_CREATION: Final = "osp/max_create_count"
_MOUNT: Final = "mount/options"
_CREATES: Final = {"0": False, "20000": True}
_DISCARDS: Final = {"rw": False, "rw,discard": True}
_MOST_LATENCY_S: Final = 60.0
_TRIM_S: Final = 60.0
"""For one OST, assumed: S4 shows minutes for 30 TiB that were never trimmed."""


class TwinDriver:
    """A simulated file system.

    Parameters
    ----------
    path
        Mount point on its client nodes.
    """

    name = DRIVER
    capabilities: frozenset[str] = ABLE

    def __init__(self, life: Life, path: str) -> None:
        self.life = life
        self.guest = Guest(life, path)
        self.programs = Programs(self.guest)

    @property
    def clock(self) -> Clock:
        """The simulated clock."""
        return lambda: self.life.now

    def sleep(self, seconds: float) -> None:
        """Advance simulated time and record it."""
        self.life.claim()
        self.life.pass_by(seconds)
        self.life.keep_time()

    def targets(self) -> tuple[Target, ...] | NotAvailable:
        """Return all OSTs and MDTs."""
        return tuple(target.target for target in self.snapshot(self.life.now).targets)

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the current telemetry of all targets."""
        simulation = self.life.simulation
        state = readings(simulation)
        seen = snapshot_of(
            state,
            layout_of(simulation.scenario, simulation.columns.osts),
            devices=devices_of(simulation.scenario),
            seed=simulation.scenario.seed,
        )
        return replace(seen, at=at)

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return every named setting of a target."""
        target_snapshot = self.snapshot(self.life.now).of(self._checked(target))
        return {} if target_snapshot is None else dict(target_snapshot.settings)

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write a setting of one target and read it back."""
        settings = self.settings(target)
        if name not in settings:
            raise UsageError(
                f"there is no setting {visible(name[:80])!r} on {target}", code="setting-unknown"
            )
        kind, number = self._part(target)
        if name == _CREATION:
            self.life.do("creation", column=number, enabled=_word(value, _CREATES))
        elif name == LAST_GROUP:
            _word(value, {"0": True})
            self.life.do("reset", column=number)
        else:
            self.life.do("set-alone", kind=kind, number=number, values=scenario_values(name, value))
        return self.settings(target)[name]

    def set_permanent(self, target: str, name: str, value: str | None) -> NotAvailable:
        """Answer that the twin has no MGS."""
        self._checked(target)
        return NotAvailable("the twin has no MGS for permanent settings")

    @property
    def dead_man_s(self) -> NotAvailable:
        """Why no server of the twin reverts anything."""
        return NotAvailable("the servers of the twin revert nothing")

    def confirm(self) -> NotAvailable:
        """Answer that settings stay without confirmation."""
        return self.dead_man_s

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Trim an OST's free space on its drives.

        A range takes effect only if it is the last of those that cover the OST.
        """
        part = self._part(target)
        check_range(start, length)
        kind, number = part
        simulation = self.life.simulation
        if kind == "ost":
            capacity = float(simulation.state.capacity_bytes[number])
        else:
            capacity = simulation.mdt_trims.capacity_bytes
        share = 1.0 if length is None else min(1.0, length / capacity)
        begin = min(1.0, start / capacity)
        self.life.claim()
        self.life.pass_by(_TRIM_S * share)
        if kind == "ost":
            trimmed_bytes = self.life.do("trim", column=number, start=begin, length=share)
        else:
            trimmed_bytes = self.life.do("trim-mdt", number=number, start=begin, length=share)
        return round(trimmed_bytes)

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return the scenario's trims; it never trims MDTs."""
        kind, number = self._part(target)
        simulation = self.life.simulation
        if kind == "ost":
            state = simulation.state
            trim = simulation.own_settings.of(simulation.scenario, number).trim
            last_s, discarded = state.last_trim_s[number], state.bytes_discarded_total[number]
        else:
            trim, trims = Trim(), simulation.mdt_trims
            last_s, discarded = trims.last_trim_s[number], trims.discarded_bytes[number]
        every = () if trim.every_s is None else (f"every {trim.every_s / 3600:g} h (scenario)",)
        return TrimPractice(
            mount_option="discard" if trim.discard else None,
            timer_active=False,
            scheduled=every,
            trimmed_since_mount=not math.isnan(last_s),
            discarded_bytes=round(float(discarded)),
            sources={"mount_option": SOURCE, "timer_active": SOURCE, "scheduled": SOURCE},
            reasons={} if trim.discard else {"mount_option": "the scenario mounts without discard"},
        )

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Answer that the twin does not time single writes."""
        self._checked(target)
        return NotAvailable("the twin does not time single writes")

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Open or close an OST to new files."""
        return self._act(target, lambda column: ("creation", {"enabled": enabled}))

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Reset the allocator's goal to the first group."""
        return self._act(target, lambda column: ("reset", {}))

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the OSTs of a probe's file."""
        try:
            return self.guest.targets(path)
        except UsageError as error:
            return NotAvailable(error.message)

    def pools(self) -> dict[str, tuple[int, ...]]:
        """Return no pools: a scenario defines none."""
        return {}

    @property
    def changelogs(self) -> NotAvailable:
        """Why the twin has no changelog."""
        return NotAvailable("the MDTs of the twin have no changelog")

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Answer that the twin's servers run no programs."""
        return NotAvailable("no programs run on the servers of the twin")

    def launcher(self, name: str) -> TwinLauncher | NotAvailable:
        """Return the launcher of a kind; its nodes are simulated."""
        return find_twin_launcher(name, self.programs)

    def _act(
        self, target: str, deed: Callable[[int], tuple[str, dict[str, bool]]]
    ) -> NotAvailable | None:
        kind, column = self._part(target)
        if kind == "mdt":
            return NotAvailable("MDTs of the twin cannot be closed or reset")
        name, arguments = deed(column)
        self.life.do(name, of=None, column=column, **arguments)
        return None

    def _part(self, target: str) -> tuple[str, int]:
        """Return ``ost`` and the OST's own column, or ``mdt`` and its number.

        Raises
        ------
        UsageError
            There is no such target.
        RefusedError
            Its column also represents others.
        """
        columns = self.life.simulation.columns
        number = int(self._checked(target)[3:], 16)
        if target.startswith("MDT"):
            return "mdt", number
        column = int(columns.member[number])
        if columns.weight[column] > 1:
            raise RefusedError(
                f"{target} shares its simulation with {int(columns.weight[column]) - 1} others",
                code="target-not-alone",
                hint='set classes = "all" under [resolution] in the scenario',
            )
        return "ost", column

    def _checked(self, target: str) -> str:
        simulation = self.life.simulation
        known = {ost_name(number) for number in range(simulation.columns.osts)}
        known |= {mdt_name(number) for number in range(simulation.scenario.mdts.count)}
        if target not in known:
            raise UsageError(f"there is no target {visible(target[:80])!r}", code="target-unknown")
        return target


def scenario_values(name: str, value: str) -> dict[str, object]:
    """Return the scenario's keys and values for a setting in snapshots.

    Raises
    ------
    UsageError
        The value is invalid for the setting.
    RefusedError
        A scenario has no such setting.

    Examples
    --------
    >>> scenario_values("ldiskfs/md0/mb_c2_threshold", "25")
    {'allocator.c2': 0.25}
    """
    if name == _THROTTLING:
        return _throttling(value)
    if name in _KEYS:
        return {_KEYS[name]: _percent(value) / 100.0}
    if name == _MOUNT:
        return {"trim.discard": _word(value, _DISCARDS)}
    raise RefusedError(f"{name} cannot be set on the twin", code="setting-read-only")


def _throttling(value: str) -> dict[str, object]:
    """Return the keys for a latency in microseconds; 0 disables throttling."""
    text = value.strip()
    latency_s = int(text) / 1e6 if text.isascii() and text.isdecimal() else -1.0
    if not 0.0 <= latency_s <= _MOST_LATENCY_S:
        raise _malformed(value, f"0 to {_MOST_LATENCY_S * 1e6:.0f}")
    if latency_s == 0.0:
        return {"queue.writeback_throttling": False}
    return {"queue.writeback_throttling": True, "queue.target_latency": latency_s}


def _word(value: str, words: Mapping[str, bool]) -> bool:
    if value.strip() not in words:
        raise _malformed(value, " or ".join(words))
    return words[value.strip()]


def _percent(value: str) -> float:
    text = value.strip().removesuffix("%")
    if not (text.isascii() and text.isdecimal()) or int(text) > 100:
        raise _malformed(value, "0 to 100")
    return float(text)


def _malformed(value: str, hint: str) -> UsageError:
    text = f"{visible(value[:40])!r} is not a valid value of the setting"
    return UsageError(text, code="malformed-value", hint=hint)
