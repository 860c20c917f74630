"""A stateful driver in memory, for tests of what stands above the drivers.

It behaves as a small flash file system does: writing uses space and counts bytes, deleting frees
space that stays unknown to the flash until a trim, a trim hands over what was freed since the
last one. It passes the contract suite in ``tests/reach/test_contract.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trimtab.base.error import RefusedError, ToolError, UsageError
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
from trimtab.reach.driver_protocol import (
    CAPABILITIES,
    ChangelogRegistrar,
    Clock,
    WriteTimes,
    check_range,
)
from trimtab.reach.process import ProcessResult

SOURCE = "memory"
READ_ONLY_SETTINGS = frozenset({"block/memory0/queue/rotational"})


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _default_settings() -> dict[str, str]:
    return {
        "block/memory0/queue/wbt_lat_usec": "2000",
        "block/memory0/queue/scheduler": "none",
        "block/memory0/queue/rotational": "0",
    }


@dataclass
class MemoryTarget:
    """One target: change its fields to make the world different.

    Attributes
    ----------
    untrimmed_bytes
        Freed and not yet handed to the flash.
    answers
        False makes it time out: the snapshot is then not complete.
    readings
        Values that replace the driver's own, by telemetry name.
    """

    name: str
    capacity_bytes: int = 1 << 40
    used_bytes: int = 0
    untrimmed_bytes: int = 1 << 40
    create_enabled: bool = True
    answers: bool = True
    written_bytes: int = 0
    discarded_bytes: int = 0
    last_trim_at: datetime | None = None
    allocator_goal: int = 0
    write_times: WriteTimes = field(default_factory=lambda: WriteTimes(0, 0.0))
    server: str = "oss1"
    settings: dict[str, str] = field(default_factory=_default_settings)
    permanent: dict[str, str] = field(default_factory=dict)
    readings: dict[str, float | int | str | bool | None] = field(default_factory=dict)


class MemoryDriver:
    """File system of any number of targets, one by default."""

    name = "memory"
    capabilities = CAPABILITIES

    def __init__(self, *targets: MemoryTarget, clock: Clock = _utc_now) -> None:
        self.clock: Clock = clock
        self.state = {one.name: one for one in targets or (MemoryTarget("OST0000"),)}
        self.placements: dict[str, tuple[str, ...]] = {}
        self.members: dict[str, tuple[int, ...]] = {}
        self.dead_man_s: float | NotAvailable = NotAvailable("nothing is put back in memory")
        self.changelogs: ChangelogRegistrar | NotAvailable = NotAvailable(
            "memory keeps no changelog"
        )
        self.programs: dict[str, Callable[[Sequence[str]], ProcessResult]] = {}
        self.calls: list[tuple[str, ...]] = []

    def write(self, target: str, size_bytes: int) -> None:
        """Write new data: takes space, and what it takes is no longer free to trim."""
        state = self._of(target)
        if not state.create_enabled:
            raise RefusedError(f"{target} is closed to new files")
        if state.used_bytes + size_bytes > state.capacity_bytes:
            raise ToolError(f"no space left on {target}")
        state.used_bytes += size_bytes
        state.written_bytes += size_bytes
        state.allocator_goal += size_bytes
        state.untrimmed_bytes = min(state.untrimmed_bytes, state.capacity_bytes - state.used_bytes)

    def delete(self, target: str, size_bytes: int) -> None:
        """Free space, without telling the flash."""
        state = self._of(target)
        freed = min(size_bytes, state.used_bytes)
        state.used_bytes -= freed
        state.untrimmed_bytes += freed

    def targets(self) -> tuple[Target, ...]:
        """Return all targets."""
        return tuple(self._target(state) for state in self.state.values())

    def snapshot(self, at: datetime) -> Snapshot:
        """Return every telemetry name of every target."""
        return Snapshot(
            at=at,
            driver=self.name,
            complete=all(state.answers for state in self.state.values()),
            targets=tuple(
                TargetSnapshot(
                    self._target(state), self._readings(state), self.settings(state.name)
                )
                for state in self.state.values()
            ),
        )

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a target."""
        state = self._of(target)
        if not state.answers:
            return {name: NotAvailable(f"{target} did not answer") for name in state.settings}
        return {name: Setting(name, value, SOURCE) for name, value in state.settings.items()}

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write a setting."""
        state = self._of(target)
        if name not in state.settings:
            raise UsageError(f"there is no setting {name!r} on {target}")
        if name in READ_ONLY_SETTINGS:
            raise RefusedError(f"{name} is read only")
        if name.endswith("wbt_lat_usec") and not value.lstrip("-").isdecimal():
            raise UsageError(f"{name} does not take {value!r}")
        self.calls.append(("set", target, name, value))
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        state.settings[name] = value
        return Setting(name, value, SOURCE)

    def set_permanent(self, target: str, name: str, value: str | None) -> str | NotAvailable:
        """Keep a value beside the setting, and return the one that was kept before."""
        state = self._of(target)
        self.calls.append(("set_permanent", target, name, str(value)))
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        before = state.permanent.pop(name, "")
        if value is not None:
            state.permanent[name] = value
        return before

    def confirm(self) -> NotAvailable | None:
        """Say that what was changed stays, or why nothing has to be confirmed."""
        if isinstance(self.dead_man_s, NotAvailable):
            return self.dead_man_s
        self.calls.append(("confirm",))
        return None

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Hand over what was freed since the last trim, as far as the range reaches."""
        state = self._of(target)
        check_range(start, length)
        self.calls.append(("trim", target, str(start), str(length)))
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        reach = state.capacity_bytes if length is None else length
        trimmed = min(state.untrimmed_bytes, max(0, min(reach, state.capacity_bytes - start)))
        state.untrimmed_bytes -= trimmed
        state.discarded_bytes += trimmed
        state.last_trim_at = self.clock()
        return trimmed

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return that nothing trims it but a person."""
        state = self._of(target)
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        return TrimPractice(
            timer_active=False,
            trimmed_since_mount=state.last_trim_at is not None,
            discarded_bytes=state.discarded_bytes,
            reasons={"mount_option": "none is set"},
        )

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return what a test set."""
        state = self._of(target)
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        return state.write_times

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Open or close a target to new files."""
        state = self._of(target)
        self.calls.append(("set_creation", target, str(enabled)))
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        state.create_enabled = enabled
        return None

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Set the goal back to the start."""
        state = self._of(target)
        self.calls.append(("reset_allocator", target))
        if not state.answers:
            return NotAvailable(f"{target} did not answer")
        state.allocator_goal = 0
        return None

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return where a file was put by the test."""
        return self.placements.get(path, NotAvailable(f"{path} was never placed"))

    def pools(self) -> Mapping[str, tuple[int, ...]] | NotAvailable:
        """Return the pools that a test made."""
        return self.members

    def inventory(self) -> NotAvailable:
        """Answer that there is one host."""
        return NotAvailable("one host has no equals")

    def holders(self) -> NotAvailable:
        """Answer that nobody holds anything."""
        return NotAvailable("memory has no quota accounts")

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Return what the test's stand-in for the program returns."""
        servers = {state.server for state in self.state.values()}
        if server is not None and server not in servers:
            return NotAvailable(f"{server} serves none of the targets")
        program = self.programs.get(argv[0])
        self.calls.append(("run", *argv))
        return NotAvailable(f"{argv[0]} is not installed") if program is None else program(argv)

    def _of(self, target: str) -> MemoryTarget:
        if target not in self.state:
            raise UsageError(f"there is no target {target!r}")
        return self.state[target]

    def _target(self, state: MemoryTarget) -> Target:
        return Target(state.name, "ost", state.server)

    def _readings(self, state: MemoryTarget) -> tuple[Reading, ...]:
        known: dict[str, float | int | str | bool | None] = {
            "capacity_bytes": state.capacity_bytes,
            "used_bytes": state.used_bytes,
            "available_bytes": state.capacity_bytes - state.used_bytes,
            "create_enabled": state.create_enabled,
            "read_only": False,
            "server": state.server,
            "bytes_written_total": state.written_bytes,
            "bytes_discarded_total": state.discarded_bytes,
            "last_trim_at": state.last_trim_at.isoformat() if state.last_trim_at else None,
            **state.readings,
        }
        if not state.answers:
            reason = f"{state.name} did not answer"
            return tuple(Reading(name, None, reason=reason) for name in TELEMETRY_UNITS)
        return tuple(
            Reading(name, value, source=SOURCE)
            if (value := known.get(name)) is not None
            else Reading(name, None, reason="not set in this test")
            for name in TELEMETRY_UNITS
        )
