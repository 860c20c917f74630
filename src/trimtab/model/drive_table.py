"""Data sheet figures of NVMe drives, each row with its sources.

A row applies to the capacities that it lists, or to the whole series if it lists none; the figures
are then the highest of any capacity. Sequential rates are decimal MB/s and random ones thousands of
4 KiB operations per second, as printed. ``None`` is a figure without a source, never a guess; if
documents contradict each other, the row says so. Most figures come from documents that quote the
vendor's, which were not available: the source says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
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
    Row(
        *("PM1733", (), 4, 6400, 3800, 1450, None, 1.0, (LUXX,)),
        note="the announcement gives 260,000 random writes for PM1733 and PM1735 alike, which only "
        "the latter's spare flash makes likely: left out; through x2 of PCIe 4 to each of two "
        "servers source S3 reckons with 3.5 and 3.2 GB/s",
    ),
    Row("PM1733a", (), 4, 7500, 4100, 1550, 135, None, (E2000,)),
    Row("PM1735", (), 4, 6400, 3800, 1450, 260, 3.0, (LUXX,)),
    Row(
        *("PM1743", (), 5, 14000, 6000, 2500, 300, 1.0, (E2000, GAMERS)),
        note="announced in 2021 with 13,000 and 6,600 MB/s, 2,500,000 and 250,000 IOPS",
    ),
    Row(
        *("PM1743", (1.92,), 5, 14000, 3000, 2000, 150, 1.0),
        ("a dealer's listing (shi.com, 2026), as quoted in a survey of 2026",),
    ),
    Row(
        *("PM1743", (3.84,), 5, 14000, 6000, 2500, None, 1.0),
        (
            "semiconductor.samsung.com/ssd/enterprise-ssd/pm1743, as cited by a published test",
            GAMERS,
        ),
    ),
    Row(
        *("PM1743", (15.36,), 5, 14000, 7100, 2500, 360, 1.0),
        (f"semiconductor.samsung.com/ssd/enterprise-ssd; {STUDY}",),
    ),
    Row("PM1753", (), 5, 14800, 11000, None, None, None, (AWOF,)),
    Row("PM9A3", (), 4, 6900, 4100, 1100, 200, 1.0, (DATED_SAMSUNG,)),
    Row(
        *("PM9A3", (1.92,), 4, 6800, 2700, None, 130, 1.0, (CATALOGUE,)),
        note="random reads: 850,000 in one document, 740,000 (self-encrypting) in another",
    ),
    Row("PM9A3", (3.84,), 4, 6900, 4100, 1000, 180, 1.0, (CATALOGUE,)),
    Row("PM9A3", (7.68,), 4, 6700, 4000, 1100, 200, 1.0, (CATALOGUE,)),
    Row("PM9D3a", (), 5, 12000, 6800, 2000, 400, 1.0, (AWOF, DATED_SAMSUNG)),
    Row(
        *("BM1743", (61.44,), 4, 7200, 2000, 1600, 110, 0.26),
        ("Blocks & Files, July 2024, as quoted by itc.ua",),
        note="QLC: random writes of 4 KiB are smaller than its unit of mapping",
    ),
)

KIOXIA: Final = (
    Row(
        *("CM6-R", (), 4, 6900, 4200, 1400, None, 1.0, (HEISE_CM6,)),
        note="random writes: 170,000 with 30.72 TB; unknown for the other capacities",
    ),
    Row("CM6-R", (30.72,), 4, 6900, 4200, 1400, 170, 1.0, (HEISE_CM6,)),
    Row("CM6-V", (), 4, 6900, 4200, 1400, 350, 3.0, (HEISE_CM6,)),
    Row("CD6-R", (), 4, 6200, 4000, 1000, 85, 1.0, (HEISE_CM6,)),
    Row(
        *("CD7-R", (), 5, 6450, 5600, None, None, None),
        ("computerbase.de, November 2021: Kioxia's announcement of CD7",),
        note="made for two lanes of PCIe 5",
    ),
    Row(
        *("CM7-R", (7.68,), 5, 14000, 6750, 2700, 310, 1.0),
        ("a dealer's listing (directdial.com, KCMYXRUG7T68), as quoted in a survey of 2026",),
    ),
    Row(
        *("CM7-V", (3.2,), 5, 14000, 3500, 2700, 600, 3.0),
        (f"Kioxia's product brief eSSD-CM7-V-E3.S; {STUDY}",),
    ),
    Row(
        *("CM7-V", (6.4,), 5, 14000, 6750, 2450, 550, 3.0),
        ("a dealer's listing (scan.co.uk), as quoted in a survey of 2026",),
    ),
    Row("CD8-R", (1.92,), 4, 7200, 1550, 1000, None, 1.0, (CATALOGUE,)),
    Row("CD8-R", (3.84,), 4, 7200, 3100, 1100, None, 1.0, (CATALOGUE,)),
    Row("CD8-R", (7.68, 15.36), 4, 7200, 6000, 1250, None, 1.0, (CATALOGUE,)),
    Row(
        *("CD8P-R", (7.68,), 5, 12000, 5500, 2000, 200, 1.0),
        ("a dealer's listing (digitec.ch), as quoted in a survey of 2026",),
    ),
)

_TECH_7450: Final = "Micron's 7450 technical product specification, as quoted in a survey of 2026"
MICRON: Final = (
    Row(
        *("7450 PRO", (), 4, 6800, 5600, 1000, None, 1.0, (_TECH_7450,)),
        note="random writes: up to 400,000 in the series PRO and MAX together",
    ),
    Row(
        *("7450 PRO", (7.68,), 4, 6800, 5600, 1000, 180, 1.0),
        ("a dealer's listing (bigw.com.au), as quoted in a survey of 2026",),
    ),
    Row(
        *("9400", (), 4, 7000, 7000, 1600, None, None),
        ("computerbase.de, January 2023: Micron's announcement, all capacities, PRO and MAX",),
        note="random writes: up to 940,000 in the series PRO and MAX together",
    ),
    Row(
        *("9550 PRO", (15.36,), 5, 14000, 10000, 3000, 400, 1.0),
        (f"Micron's product brief 9550, page 3; {STUDY}",),
    ),
    Row("9550 MAX", (3.2,), 5, 14000, 10000, 3000, 540, 3.0, (STORAGEREVIEW_9550,)),
    Row("9550 MAX", (6.4,), 5, 14000, 10000, 3300, 640, 3.0, (STORAGEREVIEW_9550,)),
    Row("9550 MAX", (12.8,), 5, 14000, 10000, 3300, 820, 3.0, (STORAGEREVIEW_9550,)),
    Row("9550 MAX", (25.6,), 5, 14000, 10000, 3300, 1200, 3.0, (STORAGEREVIEW_9550,)),
    Row(
        *("7600 MAX", (6.4,), 5, 12000, 7000, 2100, 675, 3.0),
        ("storagereview.com: Micron 7600 MAX review",),
    ),
)

_INTEL_2020: Final = "ilsoftware.it and cnBeta (after AnandTech), June 2020: Intel's announcement"
OTHERS: Final = (
    Row("D7-P5500", (), 4, 7000, 4300, 1000, 130, 1.0, (_INTEL_2020,)),
    Row("D7-P5600", (), 4, 7000, 4300, 1000, 260, 3.0, (_INTEL_2020,)),
    Row(
        *("D7-PS1010", (), 5, 14500, None, 3100, 400, 1.0),
        (
            STORAGEREVIEW_PS1030,
            "storagereview.com and techatlantix.com, quoted in a survey of 2026",
        ),
        note="sequential writes: 10,000 MB/s for the family in one document, 9,300 in another",
    ),
    Row(
        *("D7-PS1030", (12.8,), 5, 14500, 10000, 2750, 800, 3.0),
        (STORAGEREVIEW_PS1030,),
    ),
    Row(
        *("SN861", (1.6,), 5, 13700, 3600, 2100, 330, 3.0),
        (f"SanDisk's data sheet SN861 U.2; {STUDY}",),
    ),
    Row(
        *("SN861", (7.68,), 5, 13700, 7500, 3300, None, 1.0),
        ("a dealer's listing (singular.com.cy), as quoted in a survey of 2026",),
    ),
    Row(
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
