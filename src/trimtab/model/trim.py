"""Trim of a file system: its mechanism, and what the system reports about it."""

from __future__ import annotations

from dataclasses import dataclass, field


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
