"""The layout in miniature, tied to the file system by parts of an OST's capacity."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.layout import Layout, Window
from trimtab.twin.simulation.state import State

Array = NDArray[np.float64]

GROUP_UNITS = 2048
UNIT_BYTES = 64 * 1024
"""The allocator's block and the drive's mapped unit, at the allocator's scale."""
REQUEST_BYTES = 1024**2
GROUP_BYTES = GROUP_UNITS * UNIT_BYTES


class Miniature:
    """One small OST for each column.

    Parameters
    ----------
    make
        Makes the layout from the scenario, the number of columns and of threads.

    Attributes
    ----------
    layout
        The OSTs themselves.
    counts
        What they said last: one array a name.
    """

    def __init__(
        self,
        scenario: Scenario,
        columns: int,
        make: Callable[[Scenario, int, int | None], Layout] | None,
        threads: int | None,
    ) -> None:
        self.layout = (make or core_fleet)(scenario, columns, threads)
        self.groups = scenario.resolution.groups
        self.units = float(self.groups * GROUP_UNITS)
        self.counts: Mapping[str, Array] = {}
        self._columns = columns
        self._window = Window(columns, self.units)
        self._settings = _settings(scenario)

    def fill(self, fullness: Array) -> None:
        """Make it an aged system that is so full, and begin to count."""
        self.layout.fill(fullness.tolist())
        self._look()
        self._window.start(self.counts)

    def add(self, columns: int) -> None:
        """Append empty OSTs."""
        self.layout.add(columns)
        self._columns += columns
        self._window.add_columns(columns)
        self._look()

    def configure(self, scenario: Scenario) -> None:
        """Set the allocator and discard as the scenario has them now."""
        settings = _settings(scenario)
        if settings != self._settings:
            self._settings = settings
            self.layout.configure(range(self._columns), **settings)

    def advance(
        self,
        state: State,
        *,
        written: Array,
        deleted: Array,
        purged: Array,
        burst: Array,
        burst_files: NDArray[np.int64],
        resets: int,
    ) -> None:
        """Let an epoch pass: bytes on one OST of each column."""
        part = 1.0 / state.capacity_bytes
        before = self.counts
        self.layout.advance(
            written=(written * part).tolist(),
            deleted=(deleted * part).tolist(),
            purged=(purged * part).tolist(),
            burst=(burst * part).tolist(),
            burst_files=burst_files.tolist(),
            resets=[float(resets)] * self._columns,
        )
        self._look()
        self._window.step(self.counts)
        host = written + burst
        state.bytes_written_total += host
        copied = (self.counts["copied_units"] - before["copied_units"]) / self.units
        state.flash_written_total += host + copied * state.capacity_bytes
        state.allocator_requests_total += host / REQUEST_BYTES
        self.show(state)

    def show(self, state: State) -> None:
        """Put into the state what the miniature knows."""
        state.amplification = self._window.amplification
        state.free_extent_mean_bytes = self.counts["free_run_units"] * UNIT_BYTES

    def trim(self, columns: NDArray[np.int64]) -> Array:
        """Trim OSTs; return the part of each that its drives still held."""
        return np.array(self.layout.trim(columns.tolist()))

    @property
    def useless_per_request(self) -> Array:
        """Loops around all groups in vain, for each request."""
        return self._window.useless.sum(axis=0)

    @property
    def walks_per_request(self) -> Array:
        """Block groups that a request looks at, in parts of all groups.

        How often a search goes around does not depend on the number of groups, its cost does.
        """
        return self._window.considered.sum(axis=0) / self.groups

    def per_request(self) -> tuple[Array, Array]:
        """Return loops in vain and miniature groups looked at a request: criteria x columns."""
        return self._window.useless, self._window.considered

    def _look(self) -> None:
        self.counts = {name: np.asarray(values) for name, values in self.layout.state().items()}


def _settings(scenario: Scenario) -> dict:
    allocator = scenario.allocator
    return {
        "enter": (allocator.c1, allocator.c2, allocator.c3),
        "family": allocator.family,
        "discard": scenario.trim.discard,
    }


def core_fleet(scenario: Scenario, columns: int, threads: int | None) -> Layout:
    """Return the miniature OSTs of the Rust core."""
    from trimtab._core import OstFleet

    users, resolution = scenario.users, scenario.resolution
    return OstFleet(
        columns,
        groups=resolution.groups,
        superblock_units=resolution.superblock_units,
        spare=scenario.osts.drive.spare,
        size_median_units=users.size_median_bytes / UNIT_BYTES,
        size_sigma=users.size_sigma,
        seed=scenario.seed,
        threads=threads,
        **_settings(scenario),
    )
