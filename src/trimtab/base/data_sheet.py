"""Data sheets of NVMe drives: a table of figures, each row with its sources.

A row applies to the capacities that it lists, or to the whole series if it lists none; the figures
are then the highest of any capacity. Sequential rates are decimal MB/s and random ones thousands of
4 KiB operations per second, as printed; `DataSheet` has them in base SI. ``None`` is a figure
without a source, never a guess; if documents contradict each other, the row says so. Most figures
come from documents that quote the vendor's, which were not available: the source says which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from trimtab.base.site_hardware import Figure, Hardware
from trimtab.base.snapshot import NotAvailable
from trimtab.base.units import format_value


@dataclass(frozen=True, slots=True)
class DriveRow:
    """One row of the table, in the units of data sheets.

    Attributes
    ----------
    capacities_tb
        Decimal terabytes; empty: the whole series.
    generation
        PCIe generation; each drive has four lanes.
    read_mb_per_s, write_mb_per_s
        Sequential rates, 10^6 bytes per second.
    read_kiops, write_kiops
        Thousands of random 4 KiB operations per second.
    writes_per_day
        Rated drive writes per day.
    sources
        Documents from which the figures were taken.
    """

    model: str
    capacities_tb: tuple[float, ...]
    generation: int
    read_mb_per_s: int | None
    write_mb_per_s: int | None
    read_kiops: int | None
    write_kiops: int | None
    writes_per_day: float | None
    sources: tuple[str, ...]
    note: str | None = None


E2000: Final = "source S5 (HPE, E2000), table 1"
LUXX: Final = "hardwareluxx.de, 2019: Samsung's announcement of PM1733 and PM1735, U.2"
GAMERS: Final = "hardwaretimes.com and gamersinfotech.com, 2021: 1 DWPD, single x4 or dual x2"
STUDY: Final = "the vendor's product page or brief, as transcribed in a public equipment study"
CATALOGUE: Final = "the vendor's data sheet, as transcribed in a dealer's public catalogue"
HEISE_CM6: Final = "heise.de, 2020: Kioxia's announcement of CM6 and CD6"
STORAGEREVIEW_9550: Final = "storagereview.com: Micron 9550 MAX review, table of specifications"
STORAGEREVIEW_PS1030: Final = "storagereview.com: Solidigm D7-PS1030 review"
AWOF: Final = "AnandTech, 13 August 2024 (FMS 2024), archived copy"
DATED_SAMSUNG: Final = "semiconductor.samsung.com/ssd/datacenter-ssd, as quoted in a survey of 2026"

SAMSUNG: Final = (
    DriveRow(
        *("PM1733", (), 4, 6400, 3800, 1450, None, 1.0, (LUXX,)),
        note="the announcement gives 260,000 random writes for PM1733 and PM1735 alike, which only "
        "the latter's spare flash makes likely: left out; through x2 of PCIe 4 to each of two "
        "servers source S3 reckons with 3.5 and 3.2 GB/s",
    ),
    DriveRow("PM1733a", (), 4, 7500, 4100, 1550, 135, None, (E2000,)),
    DriveRow("PM1735", (), 4, 6400, 3800, 1450, 260, 3.0, (LUXX,)),
    DriveRow(
        *("PM1743", (), 5, 14000, 6000, 2500, 300, 1.0, (E2000, GAMERS)),
        note="announced in 2021 with 13,000 and 6,600 MB/s, 2,500,000 and 250,000 IOPS",
    ),
    DriveRow(
        *("PM1743", (1.92,), 5, 14000, 3000, 2000, 150, 1.0),
        ("a dealer's listing (shi.com, 2026), as quoted in a survey of 2026",),
    ),
    DriveRow(
        *("PM1743", (3.84,), 5, 14000, 6000, 2500, None, 1.0),
        (
            "semiconductor.samsung.com/ssd/enterprise-ssd/pm1743, as cited by a published test",
            GAMERS,
        ),
    ),
    DriveRow(
        *("PM1743", (15.36,), 5, 14000, 7100, 2500, 360, 1.0),
        (f"semiconductor.samsung.com/ssd/enterprise-ssd; {STUDY}",),
    ),
    DriveRow("PM1753", (), 5, 14800, 11000, None, None, None, (AWOF,)),
    DriveRow("PM9A3", (), 4, 6900, 4100, 1100, 200, 1.0, (DATED_SAMSUNG,)),
    DriveRow(
        *("PM9A3", (1.92,), 4, 6800, 2700, None, 130, 1.0, (CATALOGUE,)),
        note="random reads: 850,000 in one document, 740,000 (self-encrypting) in another",
    ),
    DriveRow("PM9A3", (3.84,), 4, 6900, 4100, 1000, 180, 1.0, (CATALOGUE,)),
    DriveRow("PM9A3", (7.68,), 4, 6700, 4000, 1100, 200, 1.0, (CATALOGUE,)),
    DriveRow("PM9D3a", (), 5, 12000, 6800, 2000, 400, 1.0, (AWOF, DATED_SAMSUNG)),
    DriveRow(
        *("BM1743", (61.44,), 4, 7200, 2000, 1600, 110, 0.26),
        ("Blocks & Files, July 2024, as quoted by itc.ua",),
        note="QLC: random writes of 4 KiB are smaller than its unit of mapping",
    ),
)

KIOXIA: Final = (
    DriveRow(
        *("CM6-R", (), 4, 6900, 4200, 1400, None, 1.0, (HEISE_CM6,)),
        note="random writes: 170,000 with 30.72 TB; unknown for the other capacities",
    ),
    DriveRow("CM6-R", (30.72,), 4, 6900, 4200, 1400, 170, 1.0, (HEISE_CM6,)),
    DriveRow("CM6-V", (), 4, 6900, 4200, 1400, 350, 3.0, (HEISE_CM6,)),
    DriveRow("CD6-R", (), 4, 6200, 4000, 1000, 85, 1.0, (HEISE_CM6,)),
    DriveRow(
        *("CD7-R", (), 5, 6450, 5600, None, None, None),
        ("computerbase.de, November 2021: Kioxia's announcement of CD7",),
        note="made for two lanes of PCIe 5",
    ),
    DriveRow(
        *("CM7-R", (7.68,), 5, 14000, 6750, 2700, 310, 1.0),
        ("a dealer's listing (directdial.com, KCMYXRUG7T68), as quoted in a survey of 2026",),
    ),
    DriveRow(
        *("CM7-V", (3.2,), 5, 14000, 3500, 2700, 600, 3.0),
        (f"Kioxia's product brief eSSD-CM7-V-E3.S; {STUDY}",),
    ),
    DriveRow(
        *("CM7-V", (6.4,), 5, 14000, 6750, 2450, 550, 3.0),
        ("a dealer's listing (scan.co.uk), as quoted in a survey of 2026",),
    ),
    DriveRow("CD8-R", (1.92,), 4, 7200, 1550, 1000, None, 1.0, (CATALOGUE,)),
    DriveRow("CD8-R", (3.84,), 4, 7200, 3100, 1100, None, 1.0, (CATALOGUE,)),
    DriveRow("CD8-R", (7.68, 15.36), 4, 7200, 6000, 1250, None, 1.0, (CATALOGUE,)),
    DriveRow(
        *("CD8P-R", (7.68,), 5, 12000, 5500, 2000, 200, 1.0),
        ("a dealer's listing (digitec.ch), as quoted in a survey of 2026",),
    ),
)

_TECH_7450: Final = "Micron's 7450 technical product specification, as quoted in a survey of 2026"
MICRON: Final = (
    DriveRow(
        *("7450 PRO", (), 4, 6800, 5600, 1000, None, 1.0, (_TECH_7450,)),
        note="random writes: up to 400,000 in the series PRO and MAX together",
    ),
    DriveRow(
        *("7450 PRO", (7.68,), 4, 6800, 5600, 1000, 180, 1.0),
        ("a dealer's listing (bigw.com.au), as quoted in a survey of 2026",),
    ),
    DriveRow(
        *("9400", (), 4, 7000, 7000, 1600, None, None),
        ("computerbase.de, January 2023: Micron's announcement, all capacities, PRO and MAX",),
        note="random writes: up to 940,000 in the series PRO and MAX together",
    ),
    DriveRow(
        *("9550 PRO", (15.36,), 5, 14000, 10000, 3000, 400, 1.0),
        (f"Micron's product brief 9550, page 3; {STUDY}",),
    ),
    DriveRow("9550 MAX", (3.2,), 5, 14000, 10000, 3000, 540, 3.0, (STORAGEREVIEW_9550,)),
    DriveRow("9550 MAX", (6.4,), 5, 14000, 10000, 3300, 640, 3.0, (STORAGEREVIEW_9550,)),
    DriveRow("9550 MAX", (12.8,), 5, 14000, 10000, 3300, 820, 3.0, (STORAGEREVIEW_9550,)),
    DriveRow("9550 MAX", (25.6,), 5, 14000, 10000, 3300, 1200, 3.0, (STORAGEREVIEW_9550,)),
    DriveRow(
        *("7600 MAX", (6.4,), 5, 12000, 7000, 2100, 675, 3.0),
        ("storagereview.com: Micron 7600 MAX review",),
    ),
)

_INTEL_2020: Final = "ilsoftware.it and cnBeta (after AnandTech), June 2020: Intel's announcement"
OTHERS: Final = (
    DriveRow("D7-P5500", (), 4, 7000, 4300, 1000, 130, 1.0, (_INTEL_2020,)),
    DriveRow("D7-P5600", (), 4, 7000, 4300, 1000, 260, 3.0, (_INTEL_2020,)),
    DriveRow(
        *("D7-PS1010", (), 5, 14500, None, 3100, 400, 1.0),
        (
            STORAGEREVIEW_PS1030,
            "storagereview.com and techatlantix.com, quoted in a survey of 2026",
        ),
        note="sequential writes: 10,000 MB/s for the family in one document, 9,300 in another",
    ),
    DriveRow(
        *("D7-PS1030", (12.8,), 5, 14500, 10000, 2750, 800, 3.0),
        (STORAGEREVIEW_PS1030,),
    ),
    DriveRow(
        *("SN861", (1.6,), 5, 13700, 3600, 2100, 330, 3.0),
        (f"SanDisk's data sheet SN861 U.2; {STUDY}",),
    ),
    DriveRow(
        *("SN861", (7.68,), 5, 13700, 7500, 3300, None, 1.0),
        ("a dealer's listing (singular.com.cy), as quoted in a survey of 2026",),
    ),
    DriveRow(
        *("PE8110", (7.68,), 4, 6500, 3700, 1100, 145, 1.0),
        (f"product.skhynix.com, PE8000 series, U.2; {STUDY}",),
    ),
)

ROWS: Final = (*SAMSUNG, *KIOXIA, *MICRON, *OTHERS)

_DELL: Final = {
    "PM1733": {"MZWLR1T9HBJR": 1.92, "MZWLR3T8HBLS": 3.84, "MZWLR7T6HALA": 7.68},
    "PM1735": {"MZWLR3T2HBLS": 3.2, "MZWLR6T4HALA": 6.4},
    "PM1733a": {
        **{"MZWLR1T9HCJR": 1.92, "MZWLR3T8HCLS": 3.84},
        **{"MZWLR7T6HBLA": 7.68, "MZWLR15THBLA": 15.36},
    },
    "PM9A3": {"MZQL2960HCJR": 0.96, "MZQL21T9H": 1.92, "MZQL23T8HCLS": 3.84},
    "CM6-R": {
        **{"KCM6XRUL1T92": 1.92, "KCM6XRUL3T84": 3.84},
        **{"KCM6XRUL7T68": 7.68, "KCM6XRUL15T3": 15.36},
    },
    "CM6-V": {"KCM6XVUL3T20": 3.2, "KCM6XVUL6T40": 6.4},
    "CM7-R": {
        **{"KCM7XRUG1T92": 1.92, "KCM7XRUG3T84": 3.84},
        **{"KCM7XRUG7T68": 7.68, "KCM7XRUG15T3": 15.36},
    },
    "CM7-V": {"KCM7XVUG1T60": 1.6, "KCM7XVUG3T20": 3.2, "KCM7XVUG6T40": 6.4},
    "CD7-R": {"KCD7XRUG3T84": 3.84, "KCD7XRUG7T68": 7.68},
    "CD8-R": {"KCD8XRUG960G": 0.96, "KCD8XRUG3T84": 3.84},
    "PE8110": {"HFS1T9GEETX099N": 1.92, "HFS7T6GEETX099N": 7.68},
}
"""Dell's support matrix for Azure Stack HCI, which lists series, model and capacity. The letter of
the Kioxia series gives its class: R for one drive write per day, V for three."""
_ELSEWHERE: Final = {
    # semiconductor.samsung.com/ssd/enterprise-ssd: pages of single drives.
    "PM1743": {"MZWLO3T8HCLS": 3.84},
    "PM1733": {"MZWLJ7T6HALA": 7.68},
    # directdial.com; Kioxia's product brief; a dealer's catalogue: see the rows.
    "CM7-R": {"KCMYXRUG7T68": 7.68},
    "CM7-V": {"KCM71VJE3T20": 3.2},
    "PM9A3": {"MZQL27T6HBLA": 7.68},
}
PARTS: Final = {
    part: (model, capacity_tb)
    for listed in (_DELL, _ELSEWHERE)
    for model, parts in listed.items()
    for part, capacity_tb in parts.items()
}
"""Stem of a part number, as printed by ``nvme list`` after the vendor, to model and capacity in TB.
Only part numbers that a document lists together with the series."""


_VENDORS: Final = re.compile(
    r"\b(?:SAMSUNG|KIOXIA|MICRON|INTEL|SOLIDIGM|WESTERN DIGITAL|WDC?|SANDISK|SK HYNIX|HYNIX"
    r"|ULTRASTAR|DC|SSD|NVME|SERIES)\b"
)
_CAPACITY: Final = re.compile(r"(?<![A-Z0-9.])([0-9]{1,4}(?:\.[0-9]{1,2})?) ?([TG])B\b")
_NAME_MAXIMUM: Final = 100


_RATES: Final = {
    "drive_write": ("write_bytes_per_s", "B/s"),
    "drive_read": ("read_bytes_per_s", "B/s"),
    "drive_write_iops": ("write_iops", "1/s"),
    "drive_read_iops": ("read_iops", "1/s"),
}
"""Key of a site's hardware to attribute of `DataSheet`, and its unit."""


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


def with_data_sheet(hardware: Hardware) -> tuple[Hardware, tuple[str, ...]]:
    """Return hardware with the rates of its drives' data sheet, unless it states any itself.

    Stated rates replace the data sheet as a whole: a table of two sources would be of none. The
    second value says where the rates are from, or why there are none.
    """
    if hardware.drive is None or any(getattr(hardware, name) for name in _RATES):
        return hardware, ()
    sheet = data_sheet(hardware.drive)
    if isinstance(sheet, NotAvailable):
        return hardware, (f"[hardware] drive: {sheet.reason}",)
    rates: dict[str, Any] = {}
    for name, (attribute, unit) in _RATES.items():
        value = getattr(sheet, attribute)
        if value is not None:
            rates[name] = Figure(value, unit, text=format_value(value, unit))
    note = f"data sheet of {sheet.model}: {'; '.join(sheet.sources)}"
    return replace(hardware, **rates), (note, *([sheet.note] if sheet.note else []))


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


def _sheet(row: DriveRow) -> DataSheet:
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
