"""The twin as a driver: a simulated file system that looks like a real one to commands.

A change of one target (setting, trim, closing, allocator reset) applies to the column that
represents it, so it requires a scenario with a column for each OST. Settings are lost when the
target moves to another server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.base.error import RefusedError, UsageError, visible
from trimtab.base.filesystem import PathDescription
from trimtab.base.name_set import mdt_name, ost_name
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    TrimPractice,
)
from trimtab.reach.driver_protocol import Clock, WriteTimes, check_range
from trimtab.reach.host import DeviceBytes
from trimtab.reach.process import ProcessResult
from trimtab.twin.guest import Guest
from trimtab.twin.life import Life
from trimtab.twin.program import Programs, TwinLauncher, find_twin_launcher
from trimtab.twin.scenario import Trim
from trimtab.twin.simulated_reading import readings
from trimtab.twin.simulated_site import (
    DRIVER,
    LAST_GROUP,
    SOURCE,
    devices_of,
    identity_of,
    site_layout_of,
    snapshot_of,
)

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
            site_layout_of(simulation.scenario, simulation.columns.osts),
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

    def inventory(self) -> NotAvailable:
        """Answer that the twin's servers are all alike."""
        return NotAvailable("the servers of the twin are not simulated one by one")

    def holders(self) -> NotAvailable:
        """Answer that users of the twin have no accounts."""
        return NotAvailable("the twin has no quota accounts")

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


_SERVERS: Final = "visible only on the servers, not on a client"
_SETS_NOTHING: Final = "clients of the twin have no settings to write"


class TwinPath(TwinDriver):
    """The twin through a path on its mount, without what only servers see or do.

    Raises
    ------
    UsageError
        There is no such path.
    """

    capabilities = frozenset({"settings", "placement"})

    def __init__(self, driver: TwinDriver, path: str) -> None:
        state = driver.guest.describe(path)
        if not state.exists:
            raise UsageError(f"{visible(path)} does not exist on the twin", code="path-missing")
        self.life, self.guest, self.programs = driver.life, driver.guest, driver.programs
        scenario = driver.life.scenario
        self.description = PathDescription(
            path=path,
            real_path=path.rstrip("/") or "/",
            mount_point=driver.guest.path,
            kind="lustre",
            fs_type="lustre",
            source=f"twin:/{scenario.name}",
            options=("rw",),
            fs_uuid=identity_of(scenario),
            notes=("it is simulated",),
        )

    def targets(self) -> tuple[Target, ...]:
        """Return the file system as one target."""
        return (Target(self.description.mount_point, "file-system"),)

    def snapshot(self, at: datetime) -> Snapshot:
        """Return what ``df`` sees."""
        space = self.guest.space()
        known: Mapping[str, float | bool] = {
            "capacity_bytes": space.capacity_bytes,
            "used_bytes": space.used_bytes,
            "available_bytes": space.available_bytes,
            "inodes_total": space.inodes,
            "inodes_free": space.inodes_free,
            "read_only": False,
        }
        readings = tuple(
            Reading(name, known[name], SOURCE) if name in known else Reading(name, reason=_SERVERS)
            for name in TELEMETRY_UNITS
        )
        return Snapshot(at, self.name, True, (TargetSnapshot(self.targets()[0], readings),))

    def drive_bytes(self) -> Mapping[str, DeviceBytes]:
        """Return nothing: a client sees no drives."""
        return {}

    @contextmanager
    def allocator_counting(self, target: str, *, allowed: bool) -> Iterator[NotAvailable | None]:
        """Answer that a client has no allocator."""
        yield NotAvailable(_SERVERS)

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a client."""
        simulation = self.life.simulation
        clients = simulation.scenario.clients
        return {
            "osc/checksums": Setting("osc/checksums", str(int(clients.checksums)), SOURCE),
        }

    def set(self, target: str, name: str, value: str) -> NotAvailable:
        """Answer that a client has no settings to write."""
        return NotAvailable(_SETS_NOTHING)

    def set_permanent(self, target: str, name: str, value: str | None) -> NotAvailable:
        """Answer that a client has no settings to write."""
        return NotAvailable(_SETS_NOTHING)

    @property
    def dead_man_s(self) -> NotAvailable:
        """Why nothing is reverted."""
        return NotAvailable(_SETS_NOTHING)

    def trim(self, target: str, start: int = 0, length: int | None = None) -> NotAvailable:
        """Answer that a client cannot trim."""
        return NotAvailable("a client cannot trim; OSTs are trimmed on their servers")

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Answer that a client does not see it."""
        return NotAvailable(_SERVERS)

    def write_times(self, target: str) -> NotAvailable:
        """Answer that a client does not see them."""
        return NotAvailable(_SERVERS)

    def set_creation(self, target: str, enabled: bool) -> NotAvailable:
        """Answer that a client cannot do it."""
        return NotAvailable("a client cannot open or close targets")

    def reset_allocator(self, target: str) -> NotAvailable:
        """Answer that a client cannot do it."""
        return NotAvailable(_SERVERS)
