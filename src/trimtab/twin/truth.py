"""Records the truth of a simulated site, which no instrument shows.

``NAME.truth.parquet`` has a row for each epoch and column, ``NAME.truth.jsonl`` a line for each
cause with its actual time, in the terms of `trimtab.explain`: both scripted causes and those that
emerged, by target and stretch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from trimtab.errors import UnreadableError
from trimtab.twin.scenario.model import Change, Fault, FaultKind

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


def cause_of(event: Change | Fault, names: Sequence[str] = ()) -> TrueCause:
    """Return the true cause of a scenario's change or fault; ``names`` are its OSTs'."""
    if isinstance(event, Change):
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
