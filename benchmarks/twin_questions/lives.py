"""Whole file systems at a fullness: what trims, thresholds and gating do to the hourly probe."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

from trimtab.twin.scenario import Lifetime, Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.whatif_figure import SimulatedRun, seeded
from trimtab.twin.whatif.whatif_request import settings_of
from trimtab.twin.whatif.whatif_sweep import summed

DAYS: Final = 30
CLASSES: Final = 16
"""Columns for 274 OSTs: a job waits for the slowest, and few columns have no extremes."""
FULLNESS: Final = ("60%", "70%", "75%", "80%")
KEPT: Final = (
    {"trim": "never", "thresholds": "25/15/5"},
    {"trim": "never", "thresholds": "25/25/5"},
    {"trim": "nightly", "thresholds": "25/15/5"},
    {"trim": "nightly", "thresholds": "25/25/5"},
)
GATED: Final = (
    {"trim": "nightly", "thresholds": "25/15/5", "gating": "75%"},
    {"trim": "nightly", "thresholds": "25/25/5", "gating": "75%"},
)
TOLD: Final = (
    "ior_write",
    "ior_cov",
    "ior_cov_missed",
    "ior_unfinished",
    "ost_write",
    "ost_write_least",
    "write_amplification",
    "fullness",
    "fullest",
    "closed",
    "useless_loops",
)
_DAY_S: Final = 86400.0


def plain() -> Scenario:
    """Return Perlmutter's hardware and probes, with users that are the same all the time.

    What the preset assumes of its months is left out, so that these figures are of the settings.
    """
    scenario = load_scenario("perlmutter")
    users = replace(
        scenario.users,
        daily_writes_bytes=2.5e15,
        fullness_spread=0.02,
        lifetimes=(
            Lifetime(0.60, 1 * _DAY_S),
            Lifetime(0.30, 4 * _DAY_S),
            Lifetime(0.08, 37 * _DAY_S),
            Lifetime(0.02, None),
        ),
    )
    probes = tuple(replace(one, since=None) for one in scenario.probes)
    return replace(scenario, name="plain", users=users, probes=probes, changes=(), faults=())


def plan() -> list[dict[str, str]]:
    """Return what is set in each combination."""
    each = [*product(FULLNESS, KEPT), *product(("70%", "75%"), GATED)]
    return [{"fullness": full} | kept for full, kept in each]


def scenario_of(settings: dict[str, str]) -> Scenario:
    """Return the file system that is kept so."""
    keys: dict[str, object] = {"resolution.classes": CLASSES, "gating.most_closed": 0.5}
    for name, text in settings.items():
        keys.update(settings_of(name, text))
    return replace_keys(plain(), keys, for_good=True)


def measure(settings: dict[str, str], seeds: int) -> dict[str, Any]:
    """Return the figures of one combination over the seeds."""
    scenario = scenario_of(settings)
    runs = [SimulatedRun(one, DAYS * _DAY_S).answer() for one in seeded(scenario, seeds)]
    found: dict[str, Any] = {"settings": settings}
    for told in summed(runs, None):
        if told.name in TOLD:
            ends = (told.interval.low, told.interval.high) if told.interval else (None, None)
            found[told.name] = [
                None if value is None else float(f"{value:.5g}") for value in (told.mean, *ends)
            ]
    return found
