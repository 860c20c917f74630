"""A world as it is planned: its site, the faults that befall it, and the innocents beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

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

    def write(self, state: State, kind: str, hour: float, detail: str, **more: object) -> None:
        """Write a line of the fault that is planned last; ``of`` names another."""
        line = Line(kind, hour, detail)
        state.log.append(replace(line, **more))  # pyrefly: ignore[bad-argument-type]


def with_(site: Site, wish: str, rng: np.random.Generator) -> Site:
    """Return a site in which something can be seen, or cannot."""
    return replace(site, **WISHES[wish](site, rng))  # pyrefly: ignore[bad-argument-type]


Wish = Callable[[Site, np.random.Generator], dict[str, object]]
_SHOWN = frozenset({"settings", "network_errors_total", "metadata_operations_total"})


def _mostly_clients(site: Site, rng: np.random.Generator) -> dict[str, object]:
    return {"share": float(rng.uniform(0.2, 0.6)) if rng.random() < 0.8 else site.share}


def _often(site: Site, rng: np.random.Generator) -> dict[str, object]:
    main = replace(site.main, every_h=float(rng.choice([1, 1, 2, 3])), burst=1)
    return {"probes": (main, *site.probes[1:])}


def _metadata(site: Site, rng: np.random.Generator) -> dict[str, object]:
    if any(probe.kind == "mdtest" for probe in site.probes):
        return {}
    every = float(rng.choice([1, 3, 6]))
    return {"probes": (*site.probes, Probe("metadata", "mdtest", every, 1.3, 1, 2, 64))}


def _maintenance(site: Site, rng: np.random.Generator) -> dict[str, object]:
    begin = float(rng.uniform(0.45, 0.65)) * site.hours
    return {"maintenance": ((begin, begin + float(rng.uniform(6, 14))),)}


def _gap(site: Site, rng: np.random.Generator) -> dict[str, object]:
    size = min(float(rng.uniform(0.15, 0.25)) * site.hours, 24 * 30)
    begin = float(rng.uniform(0.4, 0.5)) * site.hours
    gap: Interval = (begin, begin + size)
    return {"gaps": (gap,), "snapshot_gaps": (gap,) if rng.random() < 0.5 else ()}


WISHES: Final[dict[str, Wish]] = {
    "plain": lambda _site, _rng: {"busy": False},
    "log": lambda _site, _rng: {"log_book": "kept"},
    "snapshots": lambda site, _rng: {
        "snapshot_every_h": min(site.snapshot_every_h or 4, 12), "missing": site.missing - _SHOWN},
    "surveys": lambda _site, _rng: {"survey_every_h": 24},
    "hosts": lambda site, _rng: {"missing": site.missing - {"hosts"}},
    "roams": lambda _site, _rng: {"roams": True},
    "servers": lambda _site, rng: {"share": float(rng.uniform(1.2, 2.0))},
    "clients": lambda _site, rng: {"share": float(rng.uniform(0.2, 0.6))},
    "balanced": lambda _site, rng: {"share": float(rng.uniform(0.75, 0.95))},
    "mostly clients": _mostly_clients,
    "fuller": lambda _site, rng: {
        "fullness": float(rng.uniform(0.66, 0.71)), "fill_per_day": 0.0,
        "margin": float(rng.uniform(1.02, 1.15))},
    "over": lambda _site, rng: {
        "fullness": float(rng.uniform(0.78, 0.83)), "fill_per_day": 0.0, "allocator": "old"},
    "old allocator": lambda _site, _rng: {"allocator": "old"},
    "often": _often,
    "metadata": _metadata,
    "maintenance": _maintenance,
    "gap": _gap,
}  # fmt: skip
