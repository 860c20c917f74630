"""Data sheets of drives.

The figures and their sources are in `trimtab.model.drive_table`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from trimtab.model.drive_table import PARTS, ROWS, Row
from trimtab.model.telemetry import NotAvailable

_VENDORS: Final = re.compile(
    r"\b(?:SAMSUNG|KIOXIA|MICRON|INTEL|SOLIDIGM|WESTERN DIGITAL|WDC?|SANDISK|SK HYNIX|HYNIX"
    r"|ULTRASTAR|DC|SSD|NVME|SERIES)\b"
)
_CAPACITY: Final = re.compile(r"(?<![A-Z0-9.])([0-9]{1,4}(?:\.[0-9]{1,2})?) ?([TG])B\b")
_NAME_MAXIMUM: Final = 100


@dataclass(frozen=True, slots=True)
class DataSheet:
    """Figures of a drive as specified by its vendor; ``None`` if no source is known.

    Attributes
    ----------
    capacities_bytes
        Capacities for which the figures hold; empty: the highest figures of the series.
    read_bytes_per_s, write_bytes_per_s
        Sequential, large transfers, bytes per second.
    read_iops, write_iops
        4 KiB random operations per second; with a full drive in steady state, if the vendor says
        so.
    drive_writes_per_day
        Rated writes of the whole capacity per day, over the warranty of five years.
    sources
        Documents from which the figures were taken.
    note
        What the sources leave open.
    """

    model: str
    capacities_bytes: tuple[int, ...]
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    read_iops: float | None
    write_iops: float | None
    drive_writes_per_day: float | None
    sources: tuple[str, ...]
    note: str | None = None


def data_sheet(model: str, capacity_bytes: int | None = None) -> DataSheet | NotAvailable:
    """Return the data sheet of a drive, or the reason why none is known.

    Parameters
    ----------
    model
        As commonly written (``PM1733a``, ``Samsung 1743``, ``Micron 9550 MAX 12.8TB``) or as
        ``nvme list`` prints it (``SAMSUNG MZWLR3T8HBLS-00007``), if a document assigns the part
        number to a series.
    capacity_bytes
        Capacity of the drive; by default the one in the name. Without a capacity, figures that
        differ between capacities are omitted, unless the vendor gives figures for the series.

    Returns
    -------
    DataSheet or NotAvailable
        The figures, or the reason with the known models or capacities.

    Examples
    --------
    >>> data_sheet("SAMSUNG MZWLR3T8HBLS-00007").model
    'PM1733'
    >>> data_sheet("Samsung 1743").read_bytes_per_s
    14000000000.0
    """
    text = " ".join(model[:_NAME_MAXIMUM].upper().replace("_", " ").split())
    named, said_bytes = _identified(text)
    if named is None:
        return NotAvailable(f"no data sheet known for {model[:_NAME_MAXIMUM]!r}{_near(text)}")
    wanted = said_bytes if capacity_bytes is None else capacity_bytes
    sheets = [sheet for sheet in _sheets() if sheet.model == named]
    return _common(sheets) if wanted is None else _of_capacity(sheets, wanted)


def _identified(text: str) -> tuple[str | None, int | None]:
    """Return model and capacity in an upper-case name; ``None`` for missing parts."""
    for word in re.split(r"[ /,]", text):
        stem = word.split("-")[0]
        for part, (named, capacity_tb) in PARTS.items():
            if stem.startswith(part):
                return named, round(capacity_tb * 1e12)
    match = _CAPACITY.search(text)
    capacity_bytes = None
    if match is not None:
        scale = {"T": 1e12, "G": 1e9}[match.group(2)]
        capacity_bytes = round(float(match.group(1)) * scale)
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return _names().get(_key(text)), capacity_bytes


def _key(text: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", _VENDORS.sub(" ", text))


@cache
def _names() -> dict[str, str]:
    """Return accepted names to model: with and without ``PM`` or ``D7``."""
    names: dict[str, str] = {}
    for row in ROWS:
        key = _key(row.model.upper())
        names[key] = row.model
        for prefix in ("PM", "BM", "D7"):
            shorter = key.removeprefix(prefix)
            if shorter != key and len(shorter) > len(prefix) + 1:
                names.setdefault(shorter, row.model)
    return names


def _near(text: str) -> str:
    """Return the models whose name begins the same way, for a message."""
    key = _key(_CAPACITY.sub(" ", text))
    near = sorted(
        {name for key_name, name in _names().items() if len(key) > 2 and key_name.startswith(key)}
    )
    return f"; known: {' and '.join(near)}" if near else ""


@cache
def _sheets() -> tuple[DataSheet, ...]:
    return tuple(map(_sheet, ROWS))


def _sheet(row: Row) -> DataSheet:
    return DataSheet(
        model=row.model,
        capacities_bytes=tuple(round(capacity_tb * 1e12) for capacity_tb in row.capacities_tb),
        read_bytes_per_s=_scaled(row.read_mb_per_s, 1e6),
        write_bytes_per_s=_scaled(row.write_mb_per_s, 1e6),
        read_iops=_scaled(row.read_kiops, 1e3),
        write_iops=_scaled(row.write_kiops, 1e3),
        drive_writes_per_day=row.writes_per_day,
        sources=row.sources,
        note=row.note,
    )


def _scaled(value: int | None, unit: float) -> float | None:
    return None if value is None else value * unit


def _same(wanted_bytes: int, capacity_bytes: int) -> bool:
    """Return whether two capacities are the same: labels are rounded in the third digit."""
    return abs(wanted_bytes / capacity_bytes - 1) < 0.01


_FIGURES: Final = (
    *("read_bytes_per_s", "write_bytes_per_s", "read_iops", "write_iops", "drive_writes_per_day"),
)


def _of_capacity(sheets: list[DataSheet], wanted_bytes: int) -> DataSheet | NotAvailable:
    """Return the sheet of one capacity, else that of the series, with a note."""
    for sheet in sheets:
        if any(_same(wanted_bytes, capacity_bytes) for capacity_bytes in sheet.capacities_bytes):
            return sheet
    wanted = f"{wanted_bytes / 1e12:g} TB"
    for sheet in sheets:
        if not sheet.capacities_bytes:
            note = f"the highest of the series; the figures of {wanted} are unknown"
            return replace(sheet, note=f"{sheet.note}; {note}" if sheet.note else note)
    known = sorted(capacity_bytes for sheet in sheets for capacity_bytes in sheet.capacities_bytes)
    listed = ", ".join(f"{capacity_bytes / 1e12:g}" for capacity_bytes in known)
    return NotAvailable(f"no data sheet of {sheets[0].model} with {wanted}; known: {listed} TB")


def _common(sheets: list[DataSheet]) -> DataSheet:
    """Return the sheet of the series, else the figures common to all its capacities."""
    for sheet in sheets:
        if len(sheets) == 1 or not sheet.capacities_bytes:
            return sheet
    differing = [name for name in _FIGURES if len({getattr(sheet_, name) for sheet_ in sheets}) > 1]
    note = "depends on the capacity, which is not given: " + ", ".join(differing)
    unknown: dict[str, Any] = dict.fromkeys(differing)
    return replace(
        sheets[0],
        capacities_bytes=tuple(
            sorted({capacity_bytes for s in sheets for capacity_bytes in s.capacities_bytes})
        ),
        sources=tuple(dict.fromkeys(source for sheet in sheets for source in sheet.sources)),
        note=note if differing else sheets[0].note,
        **unknown,
    )
