"""Snapshots of one simulated file system, encoded for the store without making each from nothing.

From one snapshot to the next mostly numbers change. The first is made as `snapshot_of` makes it;
as long as the same targets have the same readings, those that follow put their numbers into its
rows. What comes out decodes to the very snapshot (``tests/twin/instruments/test_panel.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.telemetry import Snapshot, TargetSnapshot
from trimtab.record.batch import frame_of, packed
from trimtab.twin.instruments.layout import Layout
from trimtab.twin.instruments.snapshots import (
    DRIVER,
    machine_values,
    mdt_targets,
    ost_columns,
    ost_settings,
    snapshot_of,
)
from trimtab.twin.instruments.state import TargetState, expanded

if TYPE_CHECKING:
    import polars as pl

_LEVEL: Final = 1
"""Of zlib: a third of the time of 6 for a sixth more space, in stores that can be made again."""


@dataclass(slots=True)
class _Template:
    """The rows of a snapshot, and where in them the numbers of OSTs stand.

    Attributes
    ----------
    rows
        Of one OST; they come first, all OSTs with as many, settings behind readings.
    places
        Name and label of a reading to its place among an OST's rows.
    numbers, integers, texts
        One a row; what is missing is 0 here, and ``is_number`` and ``is_integer`` tell.
    cpu_rows, network_rows
        Where the two readings of each server stand.
    flags
        Create, degraded and read-only of each OST, by which the texts of settings were made.
    """

    frame: pl.DataFrame
    rows: int
    places: dict[tuple[str, str | None], int]
    numbers: np.ndarray
    integers: np.ndarray
    is_number: pl.Series
    is_integer: pl.Series
    texts: list[str | None]
    cpu_rows: np.ndarray
    network_rows: np.ndarray
    flags: list[tuple[bool, bool, bool]]


class Panel:
    """Makes the snapshots of one file system; see `snapshot_of` for the parameters."""

    def __init__(self, layout: Layout, *, devices: str, seed: int = 0) -> None:
        self.layout = layout
        self._devices = devices
        self._seed = seed
        self._key: tuple[object, ...] = ()
        self._template: _Template | None = None

    def snapshot(self, state: TargetState) -> Snapshot:
        """Return the snapshot of a state."""
        return snapshot_of(state, self.layout, devices=self._devices, seed=self._seed)

    def batch(self, state: TargetState) -> tuple[bool, bytes]:
        """Return whether the snapshot of a state is complete, and the batch that holds it."""
        if not state.osts.answers[state.column].all():
            return False, packed(frame_of(self.snapshot(state)), level=_LEVEL)
        whole = expanded(state, self._seed)
        key = self._shape(whole)
        if self._template is None or key != self._key:
            self._key, self._template = key, self._made(state, whole)
            return True, packed(self._template.frame, level=_LEVEL)
        return True, packed(self._filled(self._template, whole), level=_LEVEL)

    def _shape(self, whole: TargetState) -> tuple[object, ...]:
        """Return what has to be the same for two snapshots to have the same rows."""
        osts = whole.osts
        return (
            len(osts),
            len(whole.mdts),
            whole.settings,
            whole.concurrent_jobs is None,
            osts.failed_over.tobytes(),
            np.isnan(osts.last_trim_s).tobytes(),
            np.isnan(osts.free_space_fragmented_fraction).tobytes(),
        )

    def _made(self, state: TargetState, whole: TargetState) -> _Template:
        frame = frame_of(self.snapshot(state))
        keys = [*ost_columns(whole, self.layout)]
        count = len(keys) + len(self._settings(whole, 0))
        osts = len(whole.osts)
        return _Template(
            frame=frame,
            rows=count,
            places={key: place for place, key in enumerate(keys)},
            numbers=frame["number"].fill_null(0.0).to_numpy().copy(),
            integers=frame["integer"].fill_null(0).to_numpy().copy(),
            is_number=frame["number"].is_not_null(),
            is_integer=frame["integer"].is_not_null(),
            texts=frame["text"].to_list(),
            cpu_rows=_of_machines(frame, "server_cpu_fraction"),
            network_rows=_of_machines(frame, "network_bytes_total"),
            flags=[self._flags(whole, number) for number in range(osts)],
        )

    @staticmethod
    def _flags(whole: TargetState, number: int) -> tuple[bool, bool, bool]:
        osts = whole.osts
        return (
            bool(osts.create_enabled[number]),
            bool(osts.degraded[number]),
            bool(osts.read_only[number]),
        )

    def _settings(self, whole: TargetState, number: int) -> list[str]:
        flags = self._flags(whole, number)
        return [*ost_settings(whole.settings, self._devices, *flags).values()]

    def _filled(self, template: _Template, whole: TargetState) -> pl.DataFrame:
        """Return the rows of a template with the values of a state."""
        import polars as pl

        rows, osts = template.rows, len(whole.osts)
        end = osts * rows
        numbers = template.numbers[:end].reshape(osts, rows)
        integers = template.integers[:end].reshape(osts, rows)
        for key, values in ost_columns(whole, self.layout).items():
            place, kind = template.places[key], type(next(filter(_is_there, values), None))
            if kind is float:
                numbers[:, place] = [value or 0.0 for value in values]
            elif kind is int or kind is bool:
                integers[:, place] = [value or 0 for value in values]
            elif key[0] == "last_trim_at":
                texts = [None if value is None else str(value) for value in values]
                template.texts[place:end:rows] = texts
        for number in range(osts):
            if (flags := self._flags(whole, number)) != template.flags[number]:
                template.flags[number] = flags
                settings = self._settings(whole, number)
                template.texts[(number + 1) * rows - len(settings) : (number + 1) * rows] = settings
        # Few rows are of MDTs: they are made anew, and stand behind those of OSTs.
        mdts = frame_of(_alone(mdt_targets(whole, self.layout), whole))
        place = slice(end, end + mdts.height)
        template.numbers[place] = mdts["number"].fill_null(0.0).to_numpy()
        template.integers[place] = mdts["integer"].fill_null(0).to_numpy()
        template.texts[place] = mdts["text"].to_list()
        busy, moved = machine_values(whole, self.layout)
        template.numbers[template.cpu_rows] = busy
        template.integers[template.network_rows] = moved
        return template.frame.with_columns(
            number=pl.when(template.is_number).then(pl.Series(template.numbers)),
            integer=pl.when(template.is_integer).then(pl.Series(template.integers)),
            text=pl.Series(template.texts, dtype=pl.String),
        )


def _of_machines(frame: pl.DataFrame, name: str) -> np.ndarray:
    """Return the rows of a reading of machines, in their order."""
    parts, names = frame["part"].cast(str), frame["name"].cast(str)
    return (
        ((parts == "host reading") & (names == name)).fill_null(value=False).arg_true().to_numpy()
    )


def _alone(targets: list[TargetSnapshot], whole: TargetState) -> Snapshot:
    return Snapshot(whole.at, DRIVER, complete=True, targets=tuple(targets))


def _is_there(value: object) -> bool:
    return value is not None
