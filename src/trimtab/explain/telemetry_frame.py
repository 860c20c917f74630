"""The telemetry of a context as tidy frames: values, rates, settings, or why there are none.

`observe` gives every cause the same `Observations` of its context, so a name is filtered, folded
and differenced once, however many causes use it.

Frames have one row per target and time: ``at`` (UTC), ``target``, ``server``,
``value`` (Float64, never null; text as String for `Observations.texts`), and ``bad`` (true within
the bad stretch, false within its reference). Times in neither are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import polars as pl

from trimtab.base.error import Message
from trimtab.explain.context import (
    LONGEST_STEP,
    READINGS,
    SETTINGS,
    Context,
    Period,
    Telemetry,
    once,
)

Fold = Literal["sum", "max", "mean", "min"]
OSTS: Final = ("ost", "file-system")
"""Kinds of targets that hold data; the file system itself on a local driver."""
MDTS: Final = ("mdt",)
SERVERS: Final = ("server",)
CLIENTS: Final = ("client",)
TARGETS: Final = (*OSTS, *MDTS)

_NO_NAME: Final = ""
_WRITTEN_MINIMUM_BYTES: Final = 1e9
"""Drives count host writes in units of 512,000 bytes."""

_FOLDS: Final[dict[str, Fold]] = {
    "wbt_latency_s": "max",
    "degraded": "max",
    "failover_active": "max",
    "read_only": "max",
    "create_enabled": "min",
    "drive_write_amplification": "mean",
    "drive_percentage_used": "max",
    "server_cpu_fraction": "max",
    "last_trim_at": "min",
    "discard_granularity_bytes": "min",
}
"""How the labels (drives, criteria, MDTs) of a target become one number; counters are summed.

A target is as throttled as its most throttled queue, degraded if any array is, and open for
creation only if every MDT may create on it.
"""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting whose value in the bad hours differs from before.

    Attributes
    ----------
    at
        First snapshot with the new value; ``before_at`` is the last with the old one.
    targets
        Targets with this same change: equal old and new value.
    of
        Number of targets with the setting.
    """

    name: str
    kind: str
    before: str
    after: str
    before_at: datetime
    at: datetime
    targets: tuple[str, ...]
    of: int


@once
def observe(context: Context) -> Observations:
    """Return the observations of a context, cached."""
    return Observations(context.telemetry, bad=context.bad, good=context.good)


class Observations:
    """Readings and settings of one context, each name computed at its first use."""

    def __init__(
        self, telemetry: Telemetry, *, bad: Sequence[Period], good: Sequence[Period]
    ) -> None:
        self._readings = telemetry.readings
        self._settings = telemetry.settings
        self._bad = tuple(bad)
        self._good = tuple(good)
        self._frames: dict[tuple[str, ...], pl.DataFrame] = {}
        self._parts: dict[str, pl.DataFrame] | None = None
        self._times: dict[bool, tuple[datetime, ...]] = {}

    def values(
        self, name: str, *, kinds: Sequence[str] = TARGETS, fold: Fold | None = None
    ) -> pl.DataFrame:
        """Return a telemetry name of each target over time, labels folded into one.

        Parameters
        ----------
        kinds
            `OSTS`, `MDTS`, `SERVERS`, `CLIENTS`; for machines ``target`` is their name.
        fold
            How labels become one number; by default the name's own rule, else the sum.
        """
        fold = fold or _FOLDS.get(name, "sum")
        key = ("values", name, fold, *kinds)
        return self._once(key, lambda: _folded(self._numbers(name, kinds), fold))

    def labelled(self, name: str, *, kinds: Sequence[str] = TARGETS) -> pl.DataFrame:
        """Return a telemetry name with the column ``label``: one row per drive or criterion."""
        return self._once(("labelled", name, *kinds), lambda: self._numbers(name, kinds))

    def texts(self, name: str, *, kinds: Sequence[str] = TARGETS) -> pl.DataFrame:
        """Return a telemetry name that is text (``import_state``, ``server``), with ``label``."""
        of_kinds = _of_kinds(kinds) & pl.col("bad").is_not_null()
        text = pl.col("text").cast(pl.String)
        return self._once(
            ("texts", name, *kinds),
            lambda: (
                self._of(name)
                .filter(of_kinds & pl.col("text").is_not_null())
                .select("at", *_names(), text.alias("value"), "bad")
            ),
        )

    def rates(
        self, name: str, *, kinds: Sequence[str] = TARGETS, by_label: bool = False
    ) -> pl.DataFrame:
        """Return the growth of a counter per second, from one snapshot to the next.

        Column ``seconds`` is the length of the interval; ``at`` is its end. A counter that went
        down was reset: that interval is unknown and left out. An interval is bad if more than half
        of it was; if none is, one in which any part was.

        Parameters
        ----------
        by_label
            Keep the labels separate, in a column ``label``; otherwise sum them.
        """
        key = ("rates", name, str(by_label), *kinds)
        return self._once(key, lambda: self._rates(name, kinds, by_label))

    def write_amplification(self) -> pl.DataFrame:
        """Return the write amplification of each OST's drives between snapshots.

        Bytes written to flash over bytes written by the host, over all drives of an OST; intervals
        with less than 1 GB from the host are left out. Without the drives' counters, the lifetime
        ratio, which an hour hardly changes.
        """
        return self._once(("write_amplification",), self._write_amplification)

    def _write_amplification(self) -> pl.DataFrame:
        keys = ["at", "target", "label"]
        media, host = (
            self.rates(f"drive_{side}_written_bytes_total", kinds=OSTS, by_label=True)
            for side in ("media", "host")
        )
        both = media.join(host.select(*keys, host=pl.col("value")), on=keys)
        summed = both.group_by("at", "target", maintain_order=True).agg(
            pl.first("server"),
            pl.sum("value") / pl.sum("host"),
            pl.first("bad"),
            moved=pl.sum("host") * pl.first("seconds"),
        )
        written = summed.filter(pl.col("moved") >= _WRITTEN_MINIMUM_BYTES).drop("moved")
        if written.is_empty():
            return self.values("drive_write_amplification", kinds=OSTS)
        return written.sort("at", "target")

    def fullness(self, *, kinds: Sequence[str] = OSTS) -> pl.DataFrame:
        """Return used / (used + available) of each target, as ``df`` counts."""
        available = self.values("available_bytes", kinds=kinds).select(
            "at", "target", available=pl.col("value")
        )
        total = pl.col("value") + pl.col("available")
        return self._once(
            ("fullness", *kinds),
            lambda: (
                self.values("used_bytes", kinds=kinds)
                .join(available, on=["at", "target"])
                .filter(total > 0)
                .with_columns(value=pl.col("value") / total)
                .drop("available")
            ),
        )

    def setting(self, name: str, *, kinds: Sequence[str] = (*TARGETS, *SERVERS)) -> pl.DataFrame:
        """Return a setting, as text, of each target over time; ``server`` is null."""
        of_name = (pl.col("name") == name) & _of_kinds(kinds)
        return self._once(
            ("setting", name, *kinds),
            lambda: (
                self._marked(_shaped(self._settings, SETTINGS))
                .filter(of_name, pl.col("bad").is_not_null())
                .select("at", "target", pl.lit(None, pl.String).alias("server"), "value", "bad")
            ),
        )

    def setting_changes(self) -> tuple[SettingChange, ...]:
        """Return the settings that changed among the snapshots, earliest first."""
        return _setting_changes(_shaped(self._settings, SETTINGS))

    def times(self, *, bad: bool) -> tuple[datetime, ...]:
        """Return the times of the snapshots in the bad or in the good stretch."""
        if not self._times:
            readings = _shaped(self._readings, READINGS)
            snapshots = self._marked(readings.select("at").unique()).sort("at")
            for side in (True, False):
                within = snapshots.filter(bad=side)
                self._times[side] = tuple(within["at"].to_list())
        return self._times[bad]

    def why_not(self, name: str, *others: str, kinds: Sequence[str] = TARGETS) -> Message:
        """Return why none of these telemetry names has a usable value here.

        The reason is that of the first name present in snapshots, else that of ``name``.
        """
        why = self._why_not(name, kinds)
        if why.code != "name-missing":
            return why
        reasons = (self._why_not(other, kinds) for other in others)
        return next((reason for reason in reasons if reason.code != why.code), why)

    def _why_not(self, name: str, kinds: Sequence[str]) -> Message:
        if _shaped(self._readings, READINGS).is_empty():
            return Message("no-snapshots", "no snapshot in these hours")
        if not self.times(bad=True):
            return Message("no-bad-snapshots", "no snapshot in the bad hours")
        rows = self._of(name).filter(_of_kinds(kinds))
        reasons = rows["reason"].drop_nulls().cast(pl.String)
        present = rows.filter(pl.col("number").is_not_null() | pl.col("text").is_not_null())
        if present.is_empty() and reasons.is_empty():
            return Message("name-missing", f"no snapshot contains {name}")
        if present.is_empty():
            return Message("name-not-available", f"{name}: {reasons.mode().sort()[0]}")
        return Message("name-not-compared", f"{name} was not read in the hours to compare")

    def _once(self, key: tuple[str, ...], make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        if key not in self._frames:
            self._frames[key] = make()
        return self._frames[key]

    def _numbers(
        self, name: str, kinds: Sequence[str], *, in_stretches: bool = True
    ) -> pl.DataFrame:
        """Return the numbers of one name, with their labels."""
        number = pl.col("number").cast(pl.Float64)
        rows_of_name = _of_kinds(kinds) & number.is_not_null() & number.is_finite()
        if in_stretches:
            rows_of_name &= pl.col("bad").is_not_null()
        columns = ("at", *_names(), number.alias("value"), "bad")
        return self._of(name).filter(rows_of_name).select(columns)

    def _of(self, name: str) -> pl.DataFrame:
        """Return the readings of one name, with ``bad``: null outside the stretches.

        All names are partitioned at once, since every one is used.
        """
        if self._parts is None:
            marked = self._marked(_shaped(self._readings, READINGS))
            parts = marked.partition_by("name", as_dict=True, maintain_order=True)
            self._parts = {str(name): part for (name,), part in parts.items()}
            self._parts[_NO_NAME] = marked.clear()
        return self._parts.get(name, self._parts[_NO_NAME])

    def _rates(self, name: str, kinds: Sequence[str], by_label: bool) -> pl.DataFrame:
        numbers = self._numbers(name, kinds, in_stretches=False)
        apart = _counters_of_each_time(numbers)
        steps = self._mostly(_growth(numbers, apart)).with_columns(
            value=pl.col("grown") / pl.col("seconds")
        )
        columns = ["at", "target", "server", "value", "seconds", "bad"]
        if by_label:
            return steps.select(*columns, "label").sort("at", "target", "label")
        if apart and steps["label"].null_count() == steps.height:
            return steps.select(columns).sort("at", "target")
        grouped = steps.group_by("at", "target", maintain_order=True).agg(
            pl.first("server"),
            pl.sum("value"),
            pl.first("seconds"),
            pl.first("bad"),
        )
        return grouped.select(columns).sort("at", "target")

    def _marked(self, frame: pl.DataFrame) -> pl.DataFrame:
        return marked(frame, self._bad, self._good)

    def _mostly(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Return the steps that are mostly in one of the stretches, with ``bad``.

        Where every spell is shorter than half a step, a step is bad that has any part of one.
        """
        bad, good = (_overlap_s(windows) for windows in (self._bad, self._good))
        half = pl.col("seconds") / 2
        overlaps = steps.with_columns(bad_s=bad, good_s=good)
        marks = overlaps.with_columns(bad=pl.col("bad_s") > half)
        overlaps = marks if marks["bad"].any() else overlaps.with_columns(bad=pl.col("bad_s") > 0)
        return overlaps.filter(pl.col("bad") | (pl.col("good_s") > half)).drop("bad_s", "good_s")


def _shaped(frame: pl.DataFrame, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return the frame with missing columns as nulls, without rows that have no time."""
    lacking = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in columns.items()
        if name not in frame.columns
    ]
    shaped = frame.with_columns(lacking) if lacking else frame
    if shaped.schema["at"].base_type() != pl.Datetime or shaped["at"].null_count():
        return pl.DataFrame(schema=columns)
    return shaped


def _names() -> tuple[pl.Expr, ...]:
    """Return the identity columns of a reading as text, from text or categories."""
    return tuple(pl.col(name).cast(pl.String) for name in ("target", "server", "label"))


def _of_kinds(kinds: Sequence[str]) -> pl.Expr:
    return pl.any_horizontal(*(pl.col("kind") == kind for kind in kinds))


def _folded(numbers: pl.DataFrame, fold: Fold) -> pl.DataFrame:
    if numbers["label"].null_count() == numbers.height:
        plain = numbers.drop("label")
        return plain.unique(["at", "target"], keep="first", maintain_order=True)
    folded = getattr(pl.col("value"), fold)()
    return numbers.group_by("at", "target", maintain_order=True).agg(
        pl.first("server"), folded, pl.first("bad")
    )


def holds(windows: Sequence[Period]) -> pl.Expr:
    """Return an expression: whether ``at`` is in one of the windows."""
    inside = [pl.col("at").is_between(window.from_, window.to) for window in windows]
    return pl.any_horizontal(inside) if inside else pl.lit(False)


def marked(frame: pl.DataFrame, bad: Sequence[Period], good: Sequence[Period]) -> pl.DataFrame:
    """Return the rows with ``bad``: true within the bad stretch, false within the good one.

    Null outside both; true inside both.
    """
    return frame.with_columns(bad=pl.when(holds(bad)).then(True).when(holds(good)).then(False))


def _overlap_s(windows: Sequence[Period]) -> pl.Expr:
    """Return the part of (``before``, ``at``] inside the windows, seconds."""
    parts = []
    for window in windows:
        end = pl.min_horizontal(pl.col("at"), pl.lit(window.to, pl.Datetime("us", "UTC")))
        start = pl.max_horizontal(pl.col("before"), pl.lit(window.from_, pl.Datetime("us", "UTC")))
        parts.append(((end - start).dt.total_microseconds() / 1e6).clip(lower_bound=0))
    return pl.sum_horizontal(parts) if parts else pl.lit(0.0)


def _growth(numbers: pl.DataFrame, apart: int | None) -> pl.DataFrame:
    """Return each counter's growth (``grown``) in how many ``seconds`` since ``before``.

    Parameters
    ----------
    apart
        Row distance to the same counter; ``None``: sort the rows first.
    """
    if apart is None:
        numbers = numbers.sort("target", "label", "at")
        above = pl.col("target").shift(), pl.col("label").shift()
        same = (pl.col("target") == above[0]) & pl.col("label").eq_missing(above[1])
    else:
        same = pl.lit(True)
    n = apart or 1
    seconds = pl.col("at").diff(n).dt.total_microseconds() / 1e6
    grown = pl.col("value").diff(n)
    return numbers.with_columns(before=pl.col("at").shift(n), seconds=seconds, grown=grown).filter(
        same & (seconds > 0) & (seconds <= LONGEST_STEP.total_seconds()) & (grown >= 0)
    )


def _counters_of_each_time(numbers: pl.DataFrame) -> int | None:
    """Return the number of counters per time, if they are the same ones in the same order."""
    if numbers.is_empty():
        return None
    begin = numbers.item(0, "at")
    first = numbers.filter(at=begin)
    n = first.height
    if numbers.height % n or first.select("target", "label").is_duplicated().any():
        return None
    first_of_time = pl.int_range(pl.len()) // n * n
    alike = numbers.select(
        pl.col("at").is_sorted()
        & (pl.col("at") == pl.col("at").gather(first_of_time)).all()
        & (pl.col("target") == pl.col("target").shift(n)).slice(n).all()
        & pl.col("label").eq_missing(pl.col("label").shift(n)).slice(n).all()
    )
    return n if alike.item() else None


def _setting_changes(settings: pl.DataFrame) -> tuple[SettingChange, ...]:
    """Return the settings that changed among snapshots, earliest first."""
    key = ["kind", "name", "target"]
    rows = settings.filter(pl.col("value").is_not_null())
    value = pl.col("value")
    # Hardly any setting changes: sort only those that did.
    several = rows.group_by(key).agg(several=value.min() != value.max()).filter("several")
    if several.is_empty():
        return ()
    changed = (
        rows.join(several, on=key, how="semi", nulls_equal=True)
        .sort(*key, "at")
        .with_columns(
            before=pl.col("value").shift().over(key), before_at=pl.col("at").shift().over(key)
        )
        .filter(pl.col("before").is_not_null() & (pl.col("before") != pl.col("value")))
    )
    if changed.is_empty():
        return ()
    having = {
        (kind, name): of
        for kind, name, of in rows.group_by("kind", "name").agg(pl.n_unique("target")).iter_rows()
    }
    alike = (
        changed.group_by("kind", "name", "before", "value", "before_at", "at")
        .agg(pl.col("target").unique().sort())
        .sort("at", "name", "kind", "before", "value")
    )
    return tuple(
        SettingChange(
            name=row["name"],
            kind=row["kind"],
            before=row["before"],
            after=row["value"],
            before_at=row["before_at"],
            at=row["at"],
            targets=tuple(row["target"]),
            of=having[row["kind"], row["name"]],
        )
        for row in alike.iter_rows(named=True)
    )
