"""Record the truth of a simulated site, which no instrument shows: its state and the real causes.

``NAME.truth.parquet`` has a row for each epoch and column, ``NAME.truth.jsonl`` a line for each
cause with its actual time, in the terms of `trimtab.explain`: both scripted causes and those that
emerged, by target and stretch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.base.error import UnreadableError
from trimtab.base.name_set import ost_name
from trimtab.twin.scenario import Fault, FaultKind, Scenario, ScenarioChange, ost_capacity_bytes
from trimtab.twin.simulation import ost_array
from trimtab.twin.simulation.hardware import GROUP_BYTES, hardware
from trimtab.twin.simulation.ost_array import Array, Flags, Integers
from trimtab.twin.simulation.ost_rate import throttling

CAUSES: Final = frozenset({
    "targets-over-limit", "target-filling", "few-targets-open", "target-silent", "failover",
    "array-degraded", "trim-overdue", "garbage-collection", "writeback-throttling",
    "allocator-loops", "configuration-change", "competing-load", "metadata-load", "network",
    "client-node", "launch-failure",
})  # fmt: skip
"""Causes that a simulation can inject."""
CAUSE_OF: Final[Mapping[FaultKind, str]] = {
    "silent-ost": "target-silent",
    "failover": "failover",
    "failed-drive": "array-degraded",
    "slow-drive": "array-degraded",
    "name-service": "launch-failure",
    "filling": "target-filling",
    "burst": "competing-load",
}
"""A drive that is merely slow has no cause of its own in `trimtab.explain`."""


@dataclass(frozen=True, slots=True)
class TrueCause:
    """A cause that was actually present.

    Attributes
    ----------
    cause
        One of `CAUSES`.
    targets
        Affected targets; empty: the whole file system.
    emerged
        Whether it emerged without being scripted.
    """

    cause: str
    at: datetime
    until: datetime | None = None
    targets: tuple[str, ...] = ()
    detail: str = ""
    emerged: bool = False

    def __post_init__(self) -> None:
        """Refuse an id that `trimtab.explain` does not have."""
        if self.cause not in CAUSES:
            raise ValueError(f"{self.cause!r} is not the id of a cause")


def cause_of(event: ScenarioChange | Fault, names: Sequence[str] = ()) -> TrueCause:
    """Return the true cause of a scenario's change or fault; ``names`` are its OSTs'."""
    if isinstance(event, ScenarioChange):
        detail = event.detail or ", ".join(f"{name} = {value}" for name, value in event.set.items())
        return TrueCause("configuration-change", event.at, detail=detail)
    return TrueCause(CAUSE_OF[event.kind], event.at, event.until, tuple(names), event.detail)


class Truth:
    """Collects the truth and writes it at the end.

    Parameters
    ----------
    beside
        The store's file: ``perlmutter.db`` gives ``perlmutter.truth.parquet``.
    """

    def __init__(self, beside: Path) -> None:
        self.table = beside.with_suffix(".truth.parquet")
        self.lines = beside.with_suffix(".truth.jsonl")
        self._at: list[datetime] = []
        self._values: dict[str, list[np.ndarray]] = {}
        self._causes: list[TrueCause] = []

    def epoch(self, at: datetime, values: Mapping[str, np.ndarray]) -> None:
        """Add one epoch: name to one value per column, with the same names each time."""
        if self._at and set(values) != set(self._values):
            raise ValueError("an epoch has other names than the previous one")
        self._at.append(at)
        for name, column in values.items():
            self._values.setdefault(name, []).append(np.array(column, dtype=np.float32))

    def cause(self, cause: TrueCause) -> None:
        """Add a cause."""
        self._causes.append(cause)

    def write(self) -> None:
        """Write both files.

        Raises
        ------
        UnreadableError
            They could not be written.
        """
        counts = [len(part) for part in next(iter(self._values.values()), [])]
        naive = [at.astimezone(UTC).replace(tzinfo=None) for at in self._at]
        times = np.array(naive, dtype="datetime64[us]")
        columns = {
            "at": pl.Series(np.repeat(times, counts)).dt.replace_time_zone("UTC"),
            "column": np.concatenate([np.arange(count) for count in counts] or [np.arange(0)]),
            **{name: np.concatenate(parts) for name, parts in self._values.items()},
        }
        try:
            pl.DataFrame(columns).write_parquet(self.table)
            text = "".join(
                f"{json.dumps(asdict(cause), default=_utc_text)}\n" for cause in self._causes
            )
            self.lines.write_text(text, encoding="utf-8")
        except OSError as error:
            where = os.fspath(self.table.parent)
            raise UnreadableError(
                f"cannot write the truth in {where}: {error.strerror}", code="file-unwritable"
            ) from error


def _utc_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


SLOW: Final = (0.75, 0.80)
"""Fractions of fresh drives' rate: an OST is slow through collection from below the first until
above the second."""
LOOPS_COST: Final = (0.05, 0.02)
"""Fraction of the drives' writes lost to useless loops."""
FILLING: Final = (0.02, 0.01)
"""Fraction of its capacity by which an OST fills per day beyond the median."""
FEW_OPEN: Final = (0.5, 0.55)
"""Fraction of OSTs that accept new files."""
_DAY: Final = timedelta(days=1)


@dataclass(slots=True)
class _Stretches:
    """Current stretches of one cause, by real OST."""

    cause: str
    word: str
    since: dict[int, datetime] = field(default_factory=dict)
    worst: dict[int, float] = field(default_factory=dict)

    def step(self, at: datetime, begins: Flags, lasts: Flags, value: Array) -> Iterator[TrueCause]:
        """Yield the stretches that ended before ``at``; flags and values are of real OSTs.

        Parameters
        ----------
        value
            The reported value, of which the maximum counts.
        """
        goes_on, values = lasts.tolist(), value.tolist()
        for number in [number for number in self.since if not goes_on[number]]:
            yield self._ended(number, at)
        for number in np.flatnonzero(begins).tolist():
            self.since.setdefault(number, at)
        for number in self.since:
            self.worst[number] = max(self.worst.get(number, -np.inf), values[number])

    def left(self) -> Iterator[TrueCause]:
        """Yield the stretches that have not ended."""
        for number in sorted(self.since):
            yield self._ended(number, None)

    def _ended(self, number: int, until: datetime | None) -> TrueCause:
        since, detail = self.since.pop(number), self.word.format(self.worst.pop(number))
        return TrueCause(self.cause, since, until, (ost_name(number),), detail, emerged=True)


class Emerging:
    """Detects causes that emerge in a simulation without being scripted, by target and time.

    Checks the true state of each OST in each epoch. A stretch starts above one limit and ends below
    a lower one, so that an OST at the limit gives one stretch and not fifty.
    """

    def __init__(self) -> None:
        self._collecting = _Stretches("garbage-collection", "{:.0%} slower than fresh drives")
        self._looping = _Stretches("allocator-loops", "{:.0%} of the drives' writes are lost")
        self._over = _Stretches("targets-over-limit", "{:.1%} full")
        self._filling = _Stretches(
            "target-filling", "{:.1%} of its capacity more than others a day"
        )
        self._closed: tuple[datetime, float] | None = None
        self._fullness: list[tuple[datetime, Array]] = []

    def step(
        self,
        at: datetime,
        scenario: Scenario,
        member: Integers,
        values: Mapping[str, NDArray[np.float32]],
    ) -> Iterator[TrueCause]:
        """Yield the stretches that ended with an epoch.

        Parameters
        ----------
        scenario
            Its current state.
        member
            Column of each real OST.
        values
            By column, with the names of `trimtab.twin.simulation.probe_run.NAMES`.
        """
        real = {name: column.astype(np.float64)[member] for name, column in values.items()}
        slower, lost = _losses(scenario, values, member)
        fullness = real["fullness"]
        yield from self._collecting.step(at, slower > 1 - SLOW[0], slower > 1 - SLOW[1], slower)
        yield from self._looping.step(at, lost > LOOPS_COST[0], lost > LOOPS_COST[1], lost)
        limit = scenario.gating
        yield from self._over.step(at, fullness > limit.limit, fullness > limit.reopen, fullness)
        rise = self._rise(at, fullness)
        yield from self._filling.step(at, rise > FILLING[0], rise > FILLING[1], rise)
        yield from self._few_open(at, real["open"])

    def left(self) -> Iterator[TrueCause]:
        """Yield the stretches that last to the end."""
        for stretches in (self._collecting, self._looping, self._over, self._filling):
            yield from stretches.left()
        if self._closed is not None:
            yield _few(self._closed, None)

    def _rise(self, at: datetime, fullness: Array) -> Array:
        """Return how much more each OST filled over the last day than the median."""
        self._fullness.append((at, fullness))
        while len(self._fullness) > 1 and self._fullness[1][0] <= at - _DAY:
            self._fullness.pop(0)
        before = self._fullness[0][1]
        risen = np.zeros_like(fullness)
        # OSTs added within the day fill because they are empty.
        risen[: len(before)] = fullness[: len(before)] - before
        risen[: len(before)] -= np.median(risen[: len(before)])
        return risen

    def _few_open(self, at: datetime, open_: Array) -> Iterator[TrueCause]:
        share = float(open_.mean())
        if self._closed is not None and share >= FEW_OPEN[1]:
            yield _few(self._closed, at)
            self._closed = None
        elif self._closed is not None:
            self._closed = (self._closed[0], min(self._closed[1], share))
        elif share < FEW_OPEN[0]:
            self._closed = (at, share)


def _few(closed: tuple[datetime, float], until: datetime | None) -> TrueCause:
    detail = f"{closed[1]:.0%} of all take new files"
    return TrueCause("few-targets-open", closed[0], until, detail=detail, emerged=True)


def _losses(
    scenario: Scenario, values: Mapping[str, NDArray[np.float32]], member: Integers
) -> tuple[Array, Array]:
    """Return each real OST's losses through collection, and through loops in the rest."""
    machine = hardware(scenario.osts, scenario.server)
    amplification = values["amplification"].astype(np.float64)
    walks = values["walks_per_request"].astype(np.float64)
    window = throttling(scenario, amplification)
    groups = walks * ost_capacity_bytes(scenario.osts) / GROUP_BYTES
    ceilings = ost_array.ceilings_of(machine)
    now = ceilings.rates(amplification, window=window, groups_considered=groups)
    drives = ceilings.drives(amplification, window)
    slower = 1 - drives / float(ceilings.drives())
    return slower[member], (1 - now.write / drives)[member]
