"""A world as it is planned: its site, the faults that befall it, and the innocents beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.worlds.site import Interval, Probe, Site, stream
from tests.worlds.state import Line, State, happen
from tests.worlds.world import Cause

Apply = Callable[[State], None]


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault before it is simulated.

    Attributes
    ----------
    mechanism
        ``None``: no cause id describes it, or nothing that anybody could ever record.
    end
        ``None``: it lasts to the end of the record.
    because_of
        Name of the fault that brings this one about.
    runs_tell
        What of the runs' own records would be the cause's sign: ``problem``, ``hosts``,
        ``status``, ``disbelieved``, ``bytes``.
    """

    name: str
    mechanism: Cause | None
    begin: float
    end: float | None
    apply: Apply
    targets: tuple[int, ...] = ()
    because_of: str | None = None
    accepted: dict[str, str] = field(default_factory=dict)
    runs_tell: tuple[str, ...] = ()


class Draft:
    """Plans one world; everything random is drawn while planning, never while applying."""

    def __init__(self, site: Site, family: str, variant: str) -> None:
        self.site, self.family, self.variant = site, family, variant
        self.rng = stream("fault", family, variant, site.seed)
        self.faults: list[Planned] = []
        self.innocents: list[Apply] = []

    def onset(self, low: float = 0.4, high: float = 0.75) -> float:
        """Return an hour in this part of the record that is in no gap and no maintenance."""
        for _ in range(50):
            hour = float(self.rng.uniform(low, high)) * self.site.hours
            if not self.site.quiet(hour, 12):
                break
        return hour

    def length(self, low_h: float, high_h: float) -> float:
        """Return a length in hours, alike over orders of magnitude."""
        low_h = max(low_h, 2 * self.site.main.every_h)
        high_h = max(min(high_h, self.site.hours / 4), low_h + 1)
        return float(np.exp(self.rng.uniform(np.log(low_h), np.log(high_h))))

    def depth(self, low: float = 0.06, high: float = 0.4) -> float:
        """Return the part of the speed that is lost."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def maybe(self, share: float) -> bool:
        """Return whether something of this probability happens."""
        return bool(self.rng.random() < share)

    def end(self, begin: float, low_h: float = 48, high_h: float = 500) -> float | None:
        """Return the end of something that is undone one day, or is not."""
        return None if self.maybe(0.55) else begin + self.length(low_h, high_h)

    def ost(self) -> int:
        """Return one target."""
        return int(self.rng.integers(self.site.osts))

    def of_server(self, number: int) -> tuple[int, ...]:
        """Return the targets whose home a server is."""
        return tuple(np.flatnonzero(self.site.home == number).tolist())

    def add(
        self, mechanism: Cause | None, begin: float, end: float | None, apply: Apply, **more: object
    ) -> Planned:
        """Add a fault, and with a probability something innocent close to its onset."""
        name = f"{mechanism or 'nothing'}-{len(self.faults)}"
        planned = Planned(name, mechanism, begin, end, apply)
        planned = replace(planned, **more)  # pyrefly: ignore[bad-argument-type]
        self.faults.append(planned)
        if self.site.busy and self.maybe(0.6):
            hour = float(np.clip(begin + self.rng.normal(0, 10), 0, self.site.hours - 8))
            seed = int(self.rng.integers(2**40))
            self.innocents.append(lambda state: happen(state, stream("innocent", seed), hour))
        return planned

    def lag(self) -> float:
        """Return how many hours after the event a line is written, at times days."""
        return float(self.rng.choice([0, 0, 0.5, 5, 26, 60]))

    def write(
        self, state: State, kind: str, hour: float, detail: str, **more: object
    ) -> None:
        """Write a line of the fault that is planned last; ``of`` names another."""
        line = Line(kind, hour, detail)
        state.log.append(replace(line, **more))  # pyrefly: ignore[bad-argument-type]


def with_(site: Site, wish: str, rng: np.random.Generator) -> Site:
    """Return a site in which something can be seen, or cannot."""
    match wish:
        case "log":
            return replace(site, log_book="kept")
        case "snapshots":
            every = site.snapshot_every_h or 4
            gone = {"settings", "network_errors_total", "metadata_operations_total"}
            return replace(site, snapshot_every_h=min(every, 12), missing=site.missing - gone)
        case "blind":
            return replace(site, snapshot_every_h=0)
        case "no-log":
            return replace(site, log_book="none", journal=False)
        case "servers":
            return replace(site, share=float(rng.uniform(1.2, 2.0)))
        case "clients":
            return replace(site, share=float(rng.uniform(0.2, 0.6)))
        case "mostly-clients":
            return site if rng.random() < 0.2 else with_(site, "clients", rng)
        case "surveys":
            return replace(site, survey_every_h=24)
        case "hosts":
            return replace(site, missing=site.missing - {"hosts"})
        case "roams":
            return replace(site, roams=True)
        case "fuller":
            return replace(site, fullness=float(rng.uniform(0.66, 0.71)), fill_per_day=0.0,
                           margin=float(rng.uniform(1.02, 1.15)))  # fmt: skip
        case "over":
            return replace(site, fullness=float(rng.uniform(0.78, 0.83)), fill_per_day=0.0,
                           allocator="old")  # fmt: skip
        case "hourly":
            main = replace(site.main, every_h=float(rng.choice([1, 1, 2, 3])), burst=1)
            return replace(site, probes=(main, *site.probes[1:]))
        case "metadata":
            if any(probe.kind == "mdtest" for probe in site.probes):
                return site
            more = Probe("metadata", "mdtest", float(rng.choice([1, 3, 6])), 1.3, 1, 2, 64)
            return replace(site, probes=(*site.probes, more))
        case "maintenance":
            begin = float(rng.uniform(0.45, 0.65)) * site.hours
            return replace(site, maintenance=((begin, begin + float(rng.uniform(6, 14))),))
        case "gap":
            size = float(rng.uniform(0.15, 0.25)) * site.hours
            begin = float(rng.uniform(0.4, 0.5)) * site.hours
            gap: Interval = (begin, begin + min(size, 24 * 30))
            shut = (gap,) if rng.random() < 0.5 else ()
            return replace(site, gaps=(gap,), snapshot_gaps=shut)
        case "plain":
            return replace(site, busy=False)
    raise ValueError(wish)
