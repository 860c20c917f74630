"""Snapshots of telemetry: readings of targets and machines, each with its source or its reason.

The telemetry names are a contract: probes, store, findings, causes and exporters use them
literally. Counters end in ``_total`` and only increase. How a file system is trimmed is a separate
value, `TrimPractice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from trimtab.base.error import Message
from trimtab.base.server_message import ServerMessage

TELEMETRY_UNITS: Final[dict[str, str | None]] = {
    "capacity_bytes": "B",
    "used_bytes": "B",
    "available_bytes": "B",
    "inodes_total": "inodes",
    "inodes_free": "inodes",
    "create_enabled": None,
    "degraded": None,
    "read_only": None,
    "errors_total": "errors",
    "server": None,
    "server_uptime_s": "s",
    "failover_active": None,
    "import_state": None,
    "wbt_latency_s": "s",
    "discard_granularity_bytes": "B",
    "bytes_written_total": "B",
    "session_bytes_written_total": "B",
    "bytes_read_total": "B",
    "bytes_discarded_total": "B",
    "last_trim_at": None,
    "allocator_family": None,
    "allocator_requests_total": "requests",
    "allocator_useless_loops_total": "loops",
    "allocator_groups_considered_total": "groups",
    "free_extent_mean_bytes": "B",
    "free_space_fragmented_fraction": "1",
    "server_cpu_fraction": "1",
    "network_bytes_total": "B",
    "network_errors_total": "errors",
    "client_bytes_written_total": "B",
    "client_bytes_read_total": "B",
    "metadata_operations_total": "operations",
    "concurrent_jobs": "jobs",
    "drive_percentage_used": "1",
    "drive_media_errors_total": "errors",
    "drive_write_amplification": "B/B",
    "drive_host_written_bytes_total": "B",
    "drive_media_written_bytes_total": "B",
    "checksum_errors_total": "errors",
    "evictions_total": "evictions",
    "reconnections_total": "reconnections",
    "lock_timeouts_total": "timeouts",
    "slow_requests_total": "requests",
    "pool_fragmentation_fraction": "1",
    "pool_capacity_fraction": "1",
    "pool_autotrim": None,
}
"""Every telemetry name with its unit; ``None`` marks states, names and times."""


ROUNDED: Final = "rounded"
"""Label of values printed for humans: displayed, but in no frame that is judged."""
CONNECTED: Final = frozenset({"FULL", "IDLE"})
"""Healthy values of ``import_state``. IDLE has no traffic and reconnects automatically."""
INACTIVE: Final = "INACTIVE"
"""Not a state of an import: the client is configured not to use the target."""
UNTOLD: Final = (None, "IDLE", INACTIVE)
"""Values of ``import_state`` that say nothing about the target: it was not contacted."""


@dataclass(frozen=True, slots=True)
class NotAvailable:
    """The reason why a driver cannot read or do something."""

    reason: str


def not_available(code: str, text: str) -> NotAvailable:
    """Return a `NotAvailable` with a reason and its code."""
    return NotAvailable(Message(code, text))


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one target with its source, or the reason why there is none.

    Attributes
    ----------
    name
        A key of `TELEMETRY_UNITS`.
    value
        In base SI, or ``None``. Zero is a measurement.
    source
        The file or command from which it was read.
    reason
        Why there is no value; set exactly when ``value`` is ``None``.
    label
        The part of the name in braces (``criterion``, a drive), if there are several values.

    Raises
    ------
    ValueError
        The name is unknown, or value and reason are both set or both missing.
    """

    name: str
    value: float | int | str | bool | None = None
    source: str | None = None
    reason: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.name not in TELEMETRY_UNITS:
            raise ValueError(f"{self.name!r} is not a telemetry name")
        if (self.value is None) != (self.reason is not None):
            raise ValueError(f"{self.name}: a reading has a value or a reason, never both")

    @classmethod
    def of(
        cls,
        name: str,
        value: float | str | NotAvailable,
        source: str | None,
        label: str | None = None,
    ) -> Reading:
        """Return a value as a reading, or the reason why it is missing."""
        if isinstance(value, NotAvailable):
            return cls(name, None, source, value.reason, label)
        return cls(name, value, source, None, label)

    @property
    def unit(self) -> str | None:
        """The unit of the value; ``None`` for states, names and times."""
        return TELEMETRY_UNITS[self.name]


@dataclass(frozen=True, slots=True)
class Setting:
    """A named setting of a target as read: its value, and the file or command."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Target:
    """One OST or MDT; on a local file system the file system itself.

    Attributes
    ----------
    name
        ``OST0003``, ``MDT0000``, or the mount point of a local file system.
    kind
        ``ost``, ``mdt`` or ``file-system``.
    server
        The host that serves it.
    """

    name: str
    kind: str
    server: str | None = None


@dataclass(frozen=True, slots=True)
class TargetSnapshot:
    """All readings of one target at one time.

    Attributes
    ----------
    settings
        Named settings of the target and of the devices below it, as the driver's ``settings``
        returns them; empty if the driver does not store them with a snapshot.
    """

    target: Target
    readings: tuple[Reading, ...]
    settings: Mapping[str, Setting | NotAvailable] = field(default_factory=dict)

    def reading(self, name: str, label: str | None = None) -> Reading | None:
        """Return the reading with that name and label; ``None`` if there is no such row."""
        for reading in self.readings:
            if reading.name == name and reading.label == label:
                return reading
        return None

    def value(self, name: str, label: str | None = None) -> float | int | str | bool | None:
        """Return the value of a reading in base SI; ``None`` if missing for any reason."""
        reading = self.reading(name, label)
        return None if reading is None else reading.value

    def source(self, name: str, label: str | None = None) -> str | None:
        """Return the file or command of a reading; ``None`` if there is no such row."""
        reading = self.reading(name, label)
        return None if reading is None else reading.source

    def number(self, name: str, label: str | None = None) -> float | None:
        """Return a numeric value in base SI; ``None`` if missing or not a number."""
        value = self.value(name, label)
        return None if value is None or isinstance(value, (str, bool)) else float(value)

    def shown(self, setting: str | None) -> str | None:
        """Return the value of a setting; ``None`` if missing or unreadable."""
        value = self.settings.get(setting or "")
        return value.value if isinstance(value, Setting) else None

    def moment(self, name: str) -> datetime | None:
        """Return an aware time; ``None`` if missing or not a time."""
        try:
            at = datetime.fromisoformat(str(self.value(name)))
        except ValueError:
            return None
        return None if at.tzinfo is None else at

    def labelled(self, name: str) -> dict[str, float]:
        """Return label to number for every available reading of that name with a label."""
        return {
            reading.label: float(reading.value)
            for reading in self.readings
            if reading.name == name
            and reading.label is not None
            and reading.value is not None
            and not isinstance(reading.value, (str, bool))
        }

    def fullness(self) -> float | None:
        """Return used / (used + available), 0 to 1, as ``df`` prints it; ``None`` if unknown."""
        used, available = self.number("used_bytes"), self.number("available_bytes")
        if used is None or available is None or used + available <= 0:
            return None
        return used / (used + available)


HostRole = Literal["server", "client"]


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """One machine of a site at one time: readings of the machine, not of single targets.

    Attributes
    ----------
    name
        As in the site file.
    problem
        Why it did not answer, or answered only in part; ``None`` if it answered completely.
    readings
        Those of `TELEMETRY_UNITS` that describe a machine: ``server_cpu_fraction``,
        ``network_bytes_total``, ``network_errors_total``, ``checksum_errors_total``.
    settings
        ``lustre_version``, ``kernel_release`` ...
    """

    name: str
    role: HostRole
    answered: bool = True
    problem: str | None = None
    readings: tuple[Reading, ...] = ()
    settings: Mapping[str, Setting | NotAvailable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Telemetry of all targets at one time.

    Attributes
    ----------
    at
        Aware UTC.
    driver
        ``local``, ``lustre``, ``twin`` or ``memory``.
    complete
        False when a target or server did not answer.
    hosts
        The machines that were queried; empty for drivers that know no others.
    messages
        What their kernel logs say; the store keeps them as events, not with the snapshot.
    """

    at: datetime
    driver: str
    complete: bool
    targets: tuple[TargetSnapshot, ...]
    hosts: tuple[HostSnapshot, ...] = ()
    messages: tuple[ServerMessage, ...] = ()

    def of(self, target: str) -> TargetSnapshot | None:
        """Return the snapshot of the target with that name."""
        return next((reading for reading in self.targets if reading.target.name == target), None)


@dataclass(frozen=True, slots=True)
class TrimPractice:
    """Trim mechanisms of one file system; each part is ``None`` if unknown.

    Attributes
    ----------
    mount_option
        The option that trims as files are deleted (``discard``, Lustre's ``fstrim``), or ``None``
        if there is none.
    timer_active
        Whether ``fstrim.timer`` will run and covers this mount.
    scheduled
        Other schedules that mention fstrim: ``/etc/cron.daily/fstrim`` ...
    trimmed_since_mount
        Whether the whole file system was trimmed since it was mounted (recorded by ext4).
    discarded_bytes
        Bytes discarded on the device since it was attached; mkfs counts too.
    sources
        Origin of each part: part to file or command.
    reasons
        Why a part is ``None``: part to reason.
    """

    mount_option: str | None = None
    timer_active: bool | None = None
    scheduled: tuple[str, ...] = ()
    trimmed_since_mount: bool | None = None
    discarded_bytes: int | None = None
    sources: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def has_mechanism(self) -> bool:
        """Whether some mechanism trims automatically."""
        return self.mount_option is not None or bool(self.timer_active) or bool(self.scheduled)
