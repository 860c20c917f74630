"""Miniature OSTs: the layout beneath each column, its current state, and its rates.

All sizes are fractions of an OST's capacity, so that a miniature represents a real OST. State has
the names of telemetry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from trimtab._core import OstFleet
from trimtab.twin.scenario import GROUP_UNITS, Scenario
from trimtab.twin.simulation.hardware import GROUP_BYTES
from trimtab.twin.simulation.ost_array import REQUEST_BYTES, Array, Flags, Integers

LOOPS = ("c0", "c1", "c2", "c3", "c4")
"""Criteria of the family with the most; others count nothing in the last."""
COUNTS = (
    *("written_units", "copied_units", "requests"),
    *(f"useless_{loop}" for loop in LOOPS),
    *(f"considered_{loop}" for loop in LOOPS),
)
_WINDOWS_S = (24 * 3600.0, 48 * 3600.0, 96 * 3600.0, 192 * 3600.0)
_LOOK_S = 3600.0
"""Interval at which counts are stored, or once per epoch if that is longer."""
_ENOUGH = 0.1
"""Fraction of the capacity: with fewer writes a miniature's amplification is too coarse."""


def table(layout: OstFleet, names: Sequence[str] = COUNTS) -> Array:
    """Return figures of a layout: names x columns. A missing loop is 0."""
    return np.frombuffer(layout.figures(names)).reshape(len(names), -1)


def walks_per_request(passed: Array, groups: int) -> Array:
    """Return the groups searched in useless loops per request, as a fraction of all groups.

    The number of useless loops per request does not depend on the number of groups, but their cost
    does. Groups searched before a hit are excluded: their number does not grow with the OST, and if
    the goal is reset they belong to the reset, not to each request. A loop over lists, which
    searches few groups or none, counts by the groups it searches.

    Parameters
    ----------
    passed
        `COUNTS` x columns.
    groups
        Number of groups of a miniature.
    """
    useless, considered = passed[3 : 3 + len(LOOPS)], passed[3 + len(LOOPS) :] / groups
    return np.minimum(useless, considered).sum(axis=0) / np.maximum(passed[2], 1.0)


class TrailingWindow:
    """Write amplification and allocator's work over the last day, or longer if writes were few.

    Parameters
    ----------
    counts
        `COUNTS` x columns at the start.
    units
        Units of one miniature OST.
    epoch_s
        Time from one `step` to the next.

    Attributes
    ----------
    passed
        `COUNTS` x columns, within the window.
    amplification
        Units that the drive wrote per host unit; 1 if nothing was ever written.
    """

    def __init__(self, counts: Array, units: float, epoch_s: float = 3600.0) -> None:
        self._units = units
        self._stride = max(1, round(_LOOK_S / epoch_s))
        look_s = self._stride * epoch_s
        self._sizes = [max(1, round(window / look_s)) for window in _WINDOWS_S]
        self._ring = np.zeros((self._sizes[-1] + 1, *counts.shape))
        self._ring[0] = counts
        self._epochs = 0
        self.passed = np.zeros_like(counts)
        self.amplification = np.ones(counts.shape[1])
        self._walks: tuple[Array, int, Array] | None = None

    def add_columns(self, more: int) -> None:
        """Start counting for additional columns, from zero."""
        self._ring = np.pad(self._ring, ((0, 0), (0, 0), (0, more)))
        self.passed = np.pad(self.passed, ((0, 0), (0, more)))
        self.amplification = np.pad(self.amplification, (0, more), constant_values=1.0)

    def step(self, counts: Array) -> None:
        """Add the counts after an epoch."""
        self._epochs += 1
        if self._epochs % self._stride == 0:
            self._ring[self._looks % len(self._ring)] = counts
        passed = self._since(self._sizes[0], counts)
        for size in self._sizes[1:]:
            few = passed[0] < _ENOUGH * self._units
            if size > self._looks or not np.count_nonzero(few):
                break
            passed = np.where(few, self._since(size, counts), passed)
        self.passed = passed
        wrote = passed[0] > 0.0
        measured = 1.0 + passed[1] / np.where(wrote, passed[0], 1.0)
        self.amplification = np.where(wrote, measured, self.amplification)

    def useless_per_request(self) -> Array:
        """Return useless loops (full scans over all groups) per request."""
        return self.passed[3 : 3 + len(LOOPS)].sum(axis=0) / np.maximum(self.passed[2], 1.0)

    def walks_per_request(self, groups: int) -> Array:
        """Return groups searched in useless loops per request, as a fraction of all groups."""
        if self._walks is None or self._walks[0] is not self.passed or self._walks[1] != groups:
            self._walks = (self.passed, groups, walks_per_request(self.passed, groups))
        return self._walks[2]

    @property
    def _looks(self) -> int:
        return self._epochs // self._stride

    def _since(self, looks: int, counts: Array) -> Array:
        back = min(looks, self._looks)
        return counts - self._ring[(self._looks - back) % len(self._ring)]


@dataclass(slots=True)
class ColumnState:
    """Arrays over columns, for one OST of each, and totals of the whole.

    Attributes
    ----------
    guest_bytes
        Part of the used bytes: files of probes outside the scenario.
    closed_by_gating, closed_by_hand
        Why a column accepts no new files.
    answers
        False for a silent OST.
    bytes_written_total, client_bytes_written_total
        Bytes to the OST from users and probes; the latter without surveys, which involve no client.
    bytes_read_total, client_bytes_read_total
        Likewise.
    write_bytes_per_s
        Mean of the last epoch.
    last_trim_s
        Seconds since 1970 UTC; NaN: never.
    amplification
        Units that drives wrote for each unit of the host, over the trailing window.
    flash_written_total
        Bytes written by drives, with copies, without parity.
    refused_quota_bytes, refused_space_bytes
        Of the whole, since the start.
    queued_bytes
        For the whole: pending bytes of users' jobs; below 0 if they wrote ahead.
    slowed_bytes
        For the whole, since the start: bytes never written because jobs waited too long.
    useless_loops_total, groups_considered_total
        Counters of the allocator: criteria x columns, at the scale of a real OST.
    """

    capacity_bytes: Array
    used_bytes: Array
    guest_bytes: Array
    closed_by_gating: Flags
    closed_by_hand: Flags
    answers: Flags
    failover_active: Flags
    degraded: Flags
    server: Integers
    bytes_written_total: Array
    client_bytes_written_total: Array
    write_bytes_per_s: Array
    bytes_read_total: Array
    client_bytes_read_total: Array
    bytes_discarded_total: Array
    flash_written_total: Array
    last_trim_s: Array
    amplification: Array
    allocator_requests_total: Array
    useless_loops_total: Array
    groups_considered_total: Array
    names_resolve: bool = True
    out_of_space: bool = False
    refused_quota_bytes: float = 0.0
    refused_space_bytes: float = 0.0
    queued_bytes: float = 0.0
    slowed_bytes: float = 0.0

    @classmethod
    def empty(cls, columns: int, capacity_bytes: float) -> ColumnState:
        """Return the state of empty OSTs."""
        arrays: dict[str, Any] = {
            name: np.full(
                (len(LOOPS), columns) if name in _BY_LOOP else columns, _FIRST.get(name, 0), dtype
            )
            for name, dtype in _COLUMNS.items()
        }
        return cls(**arrays | {"capacity_bytes": np.full(columns, capacity_bytes)})

    def add(self, columns: int, capacity_bytes: float) -> None:
        """Append empty columns."""
        more = ColumnState.empty(columns, capacity_bytes)
        for name in _COLUMNS:
            joined = np.concatenate([getattr(self, name), getattr(more, name)], axis=-1)
            setattr(self, name, joined)

    @property
    def available_bytes(self) -> Array:
        """Free bytes."""
        return self.capacity_bytes - self.used_bytes

    @property
    def fullness(self) -> Array:
        """Used part."""
        return self.used_bytes / self.capacity_bytes

    def fullness_after(self, expected: Array) -> Array:
        """Return an upper bound of columns' fullness after expected writes.

        An OST rarely gets more than four times the expected bytes, through large files.
        """
        return self.fullness + 4.0 * expected / self.capacity_bytes

    @property
    def create_enabled(self) -> Flags:
        """Whether new files may be created."""
        return ~(self.closed_by_gating | self.closed_by_hand)


_BY_LOOP = frozenset({"useless_loops_total", "groups_considered_total"})
_DTYPES: dict[Any, type] = {Array: float, Flags: bool, Integers: np.int64}
_COLUMNS = {
    name: _DTYPES[kind] for name, kind in get_type_hints(ColumnState).items() if kind in _DTYPES
}
"""Data type of each array; other fields are totals of the whole."""
_FIRST: dict[str, float | bool] = {"answers": True, "last_trim_s": np.nan, "amplification": 1.0}


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
        self._window = TrailingWindow(self._counts, self.units, epoch_s / drive_steps(epoch_s))
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
        state: ColumnState,
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

    def serve(self, state: ColumnState, *, written: Array, deleted: Array) -> None:
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

    def _count(self, state: ColumnState, host: Array, freed: Array, passed: Array) -> None:
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
