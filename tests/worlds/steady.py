"""A small steady site on which chosen faults come at chosen hours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from tests.worlds.draft import Draft
from tests.worlds.families import Variant
from tests.worlds.generate import Plan, world_of
from tests.worlds.site import Probe, Site, draw_site
from tests.worlds.world import World

START: Final = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday, so that weeks begin with the record."""
PROBES: Final = (
    Probe("hourly", "ior", 1.0, 0.1, 1, 8, 256),
    Probe("metadata", "mdtest", 6.0, 1.3, 1, 2, 64),
)


@dataclass(frozen=True, slots=True)
class Befalls:
    """A fault of `of_clients` or `of_storage` that begins on a day.

    Attributes
    ----------
    length_h
        ``None``: to the end of the record, where the fault may last as long.
    depth
        The part of the speed that is lost, where that is drawn at all.
    """

    plan: Callable[[Draft], object]
    day: float
    length_h: float | None = None
    depth: float = 0.2


class SteadyDraft(Draft):
    """Plans faults of a given begin, length and depth."""

    now: Befalls

    def onset(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return the hour at which the fault befalls the site."""
        return 24 * self.now.day

    def length(self, low_h: float, high_h: float) -> float:
        """Return how long the fault lasts."""
        return super().length(low_h, high_h) if self.now.length_h is None else self.now.length_h

    def end(self, begin: float, low_h: float = 0.0, high_h: float = 0.0) -> float | None:
        """Return when the fault is undone."""
        return None if self.now.length_h is None else begin + self.now.length_h

    def depth(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return the part of the speed that is lost."""
        return self.now.depth

    def lag(self) -> float:
        """Return that the log book is written at once."""
        return 0.0


def steady_world(seed: int, days: int, *faults: Befalls, osts: int = 8, **changes: Any) -> World:
    """Return the record of a site on which nothing happens but these faults; it is named world.

    ``changes`` are of the `Site`.
    """
    site = replace(steady_site(seed, days, osts), **changes)
    draft = SteadyDraft(site, "steady", "chosen")
    for fault in faults:
        draft.now = fault
        fault.plan(draft)
    return world_of(Plan(site, Variant("chosen", lambda _: None), draft))


def steady_site(seed: int, days: int, osts: int) -> Site:
    """Return a site whose servers bind its hourly probe, with everything recorded every hour."""
    drawn = draw_site("steady", seed, busy=False)
    return replace(
        drawn, name="world", start=START, hours=24 * days, osts=osts, per_server=2, mdts=1,
        share=1.5, probes=PROBES, survey_every_h=24, survey_sigma=0.03, snapshot_every_h=1,
        missing=frozenset(), log_book="kept", journal=True, sigma=0.02, phi=0.2, dof=30.0,
        dip_rate=0.0, fail_rate=0.0, unfinished_rate=0.0, roams=False, load=0.02, fullness=0.62,
        fill_per_day=0.0, purge_every_h=168, trim_every_h=24, allocator="old", holidays=(),
        maintenance=(), snapshot_gaps=(),
    )  # fmt: skip
