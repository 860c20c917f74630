"""The layout in miniature, scaled to the file system by fractions of an OST's capacity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trimtab._core import OstFleet
from trimtab.twin.arrays import Array, Integers
from trimtab.twin.scenario.geometry import GROUP_UNITS
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.layout import LOOPS, Window, table
from trimtab.twin.simulation.state import State
from trimtab.twin.stack.hardware import GROUP_BYTES
from trimtab.twin.stack.ost import REQUEST_BYTES

UNIT_BYTES = 64 * 1024
"""The allocator's block and the drive's mapped unit, at the allocator's scale."""
_LONGEST_STEP_S = 3600.0
"""With steps of an hour write amplification equals that with steps of 15 minutes; with a step of a
day, which would write all jobs at once and trim once, it is a tenth too low."""
_NOW = ("free_run_units", "last_group")
"""Figures of each OST's state, apart from counts."""
_WARM = 0.1
"""Fraction of the capacity that is rewritten before the start."""


class Miniature:
    """One small OST for each column.

    Parameters
    ----------
    fullness
        Used fraction of each at the start, in an aged system.
    make
        Creates the layout from the scenario and the numbers of columns and threads.

    Attributes
    ----------
    layout
        The miniature OSTs.
    """

    def __init__(
        self,
        scenario: Scenario,
        fullness: Array,
        make: Callable[[Scenario, int, int | None], OstFleet] | None,
        threads: int | None,
    ) -> None:
        self._columns = len(fullness)
        self.layout = (make or core_fleet)(scenario, self._columns, threads)
        self.groups = scenario.resolution.groups
        self.units = float(self.groups * GROUP_UNITS)
        self._settings = self._made_with = _settings(scenario)
        self._discards = np.full(self._columns, scenario.trim.discard)
        self._has_own = False
        self.layout.fill(fullness.tolist())
        self._look()
        epoch_s = scenario.resolution.epoch_s
        self._window = Window(self._counts, self.units, epoch_s / drive_steps(epoch_s))
        # An epoch writes few units: without earlier writes the first would depend on chance.
        mixed = np.minimum(_WARM, fullness / 2.0)
        self._pass(mixed, mixed)

    def _pass(
        self,
        written: Array,
        deleted: Array,
        purged: Array | None = None,
        burst: Array | None = None,
        *,
        burst_files: Sequence[int] = (),
        resets: int = 0,
    ) -> Array:
        """Advance the layout, with amounts as fractions of an OST; return the counts."""
        before, nothing = self._counts, np.zeros(self._columns)
        self.layout.advance(
            written=written.tolist(),
            deleted=deleted.tolist(),
            purged=(nothing if purged is None else purged).tolist(),
            burst=(nothing if burst is None else burst).tolist(),
            burst_files=burst_files or [0] * self._columns,
            resets=[float(resets)] * self._columns,
        )
        self._look()
        return self._counts - before

    def add(self, columns: int) -> None:
        """Append empty OSTs with the current settings."""
        self.layout.add(columns)
        self._columns += columns
        self._discards = np.append(self._discards, [self._settings["discard"]] * columns)
        if self._settings != self._made_with:
            self.layout.configure(range(self._columns - columns, self._columns), **self._settings)
        self._window.add_columns(columns)
        self._look()

    def configure(self, scenario: Scenario, scenarios: Mapping[int, Scenario]) -> None:
        """Apply the scenario's allocator and discard settings, and those of single columns."""
        settings = _settings(scenario)
        if settings != self._settings or self._has_own:
            self._now()
            self._settings = settings
            self.layout.configure(range(self._columns), **settings)
            self._discards[:] = settings["discard"]
            self._has_own = False
            self.configure_own(scenarios)

    def configure_own(self, scenarios: Mapping[int, Scenario]) -> None:
        """Set the allocator and discard of single columns."""
        for column, scenario in scenarios.items():
            self._now()
            settings = _settings(scenario)
            self.layout.configure([column], **settings)
            self._discards[column] = settings["discard"]
            self._has_own = True

    def advance(
        self,
        state: State,
        *,
        written: Array,
        deleted: Array,
        purged: Array,
        burst: Array,
        burst_files: Integers,
        resets: int,
    ) -> None:
        """Advance by an epoch or a part of it, with bytes on one OST of each column."""
        part = 1.0 / state.capacity_bytes
        passed = self._pass(
            written * part,
            deleted * part,
            purged * part,
            burst * part,
            burst_files=burst_files.tolist(),
            resets=resets,
        )
        self._window.step(self._counts)
        self._count(state, written + burst, deleted + purged + burst, passed)
        state.amplification = self._window.amplification

    def serve(self, state: State, *, written: Array, deleted: Array) -> None:
        """Write and delete between two epochs, with bytes on one OST of each column."""
        part = 1.0 / state.capacity_bytes
        self._count(state, written, deleted, self._pass(written * part, deleted * part))

    def reset(self, columns: Sequence[int]) -> None:
        """Reset the allocators of columns to the first group."""
        self.layout.reset(columns)
        self._look()

    def trim(self, columns: Integers) -> Array:
        """Trim OSTs; return the fraction of each that its drives released."""
        self._now()
        return np.array(self.layout.trim(columns.tolist()))

    @property
    def useless_per_request(self) -> Array:
        """Useless loops (full scans over all groups) per request."""
        return self._window.useless_per_request()

    @property
    def walks_per_request(self) -> Array:
        """Block groups searched in useless loops per request, as a fraction of its OST's groups."""
        return self._window.walks_per_request(self.groups)

    @property
    def free_extent_mean_bytes(self) -> Array:
        """Mean free extent of each column, in bytes."""
        return self._now()[_NOW.index("free_run_units")] * UNIT_BYTES

    @property
    def last_group(self) -> Array:
        """Start of the next large search, as a fraction of all block groups."""
        return self._now()[_NOW.index("last_group")]

    def _count(self, state: State, host: Array, freed: Array, passed: Array) -> None:
        """Update counts: the miniature's rates times the real writes of an OST of each column."""
        state.bytes_written_total += host
        if np.count_nonzero(self._discards):
            state.bytes_discarded_total += np.where(self._discards, freed, 0.0)
        state.flash_written_total += host + passed[1] * (state.capacity_bytes / self.units)
        requests = host / REQUEST_BYTES
        state.allocator_requests_total += requests
        rate = requests / np.maximum(passed[2], 1.0)
        loops = len(LOOPS)
        state.useless_loops_total += passed[3 : 3 + loops] * rate
        real = state.capacity_bytes / GROUP_BYTES / self.groups
        state.groups_considered_total += passed[3 + loops :] * rate * real

    def _look(self) -> None:
        self._counts = table(self.layout)
        self._at_look: Array | None = None

    def _now(self) -> Array:
        """Return `_NOW` x columns as of the last counts.

        It is rarely needed and takes as long as an epoch, so it is computed on first use, or before
        a change.
        """
        if self._at_look is None:
            self._at_look = table(self.layout, _NOW)
        return self._at_look


def drive_steps(epoch_s: float) -> int:
    """Return the number of layout steps of an epoch.

    >>> drive_steps(900.0), drive_steps(3600.0), drive_steps(5400.0), drive_steps(86400.0)
    (1, 1, 2, 24)
    """
    return max(1, math.ceil(epoch_s / _LONGEST_STEP_S - 1e-9))


def _settings(scenario: Scenario) -> dict[str, Any]:
    allocator = scenario.allocator
    return {
        "enter": (allocator.c1, allocator.c2, allocator.c3),
        "family": allocator.family,
        "discard": scenario.trim.discard,
    }


def core_fleet(scenario: Scenario, columns: int, threads: int | None) -> OstFleet:
    """Return the miniature OSTs of the Rust core."""
    users, resolution = scenario.users, scenario.resolution
    return OstFleet(
        columns,
        groups=resolution.groups,
        superblock_units=resolution.superblock_units,
        spare=scenario.osts.drive.spare,
        separate=True,  # assumed: no vendor publishes whether copies are separated from new data
        size_median_units=users.size_median_bytes / UNIT_BYTES,
        size_sigma=users.size_sigma,
        seed=scenario.seed,
        threads=threads,
        **_settings(scenario),
    )
