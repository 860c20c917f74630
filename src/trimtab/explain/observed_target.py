"""The input of findings: one target of one file system at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.run import Sample
from trimtab.base.site import LIMITS, SiteLimits
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot, TrimPractice


@dataclass(frozen=True, slots=True)
class ObservedTarget:
    """One target at one time, with the results of a probe if one ran.

    Attributes
    ----------
    before
        The target before the probe; ``None`` without one. The baseline for counters.
    now
        The target now.
    trim
        How it is trimmed; ``None`` if that cannot be seen.
    samples
        Samples of the probe, with the reasons why some are not credible.
    left_behind
        Directories of earlier, killed probes that still exist under the path.
    direct
        Whether the probe used direct I/O.
    """

    path: PathDescription
    now: TargetSnapshot
    before: TargetSnapshot | None = None
    settings: Mapping[str, Setting | NotAvailable] = field(default_factory=dict)
    trim: TrimPractice | None = None
    samples: tuple[Sample, ...] = ()
    limits: SiteLimits = LIMITS
    left_behind: tuple[str, ...] = ()
    direct: bool = True

    @property
    def target(self) -> str:
        """The target's name."""
        return self.now.target.name

    @property
    def is_flash(self) -> bool:
        """Whether the target is known to be flash; unknown counts as not."""
        return self.path.is_flash is True

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written: an image, or a read-only mount or file system."""
        return self.path.read_only or self.now.value("read_only") is True

    @property
    def can_be_trimmed(self) -> bool:
        """Whether fstrim would work: the device reports discard support."""
        top = self.path.devices[0] if self.path.devices else None
        if top is None or self.read_only:
            return False
        return bool(top.discard_max_bytes) and top.discard_granularity_bytes != 0

    @property
    def flash_devices(self) -> tuple[BlockDevice, ...]:
        """The underlying flash devices that have a queue of their own."""
        return tuple(
            device
            for device in self.path.own_devices
            if device.is_flash and device.kind != "partition"
        )

    def of_each_drive(self, name: str) -> Iterator[tuple[str, float, str | None]]:
        """Yield drive, value and source of every reading of that name that has a value."""
        for drive, value in self.now.labelled(name).items():
            yield drive, value, self.now.source(name, drive)

    def growth(self, name: str, label: str | None = None) -> float | None:
        """Return the growth of a counter during the probe, ``None`` if unknown.

        A counter that went down was reset in between; its growth is unknown.
        """
        if self.before is None:
            return None
        start, end = self.before.number(name, label), self.now.number(name, label)
        if start is None or end is None or end < start:
            return None
        return end - start
