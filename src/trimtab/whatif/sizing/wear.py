"""What the writes of a day do to the drives."""

from __future__ import annotations

from typing import Final

from trimtab.twin.formulas import greedy
from trimtab.whatif.sizing.amplifying import Amplified
from trimtab.whatif.sizing.figure import Figure, Section
from trimtab.whatif.sizing.request import SizingRequest

_WARRANTY_YEARS: Final = 5.0
_SHEET: Final = "data sheet: drive writes a day over five years"


def section(request: SizingRequest, osts: int, amplified: Amplified) -> tuple[Section, list[str]]:
    """Return writes of drives and flash, and how long the drives are sold for them."""
    raid, drive = request.raid, request.drive
    drives = osts * raid.drives / raid.shared
    share = raid.data / (raid.data + raid.parity)
    each = request.gross_daily_bytes / share / drives
    host = each / drive.capacity_bytes
    flash = host * amplified.simulated
    life = drive.drive_writes_per_day * _WARRANTY_YEARS / flash
    worst = greedy(drive.spare, 256)
    figures = (
        Figure("drive_daily_bytes", "writes of a drive a day", each, "B",
               "(daily writes + probes) x (data + parity) / data / drives",
               "whole stripes: writes smaller than a stripe add reads and writes of their own"),
        Figure("host_drive_writes_per_day", "host drive writes a day", host, "DWPD",
               "drive_daily_bytes / drive capacity", "the same in the drive's capacity"),
        Figure("flash_drive_writes_per_day", "flash drive writes a day", flash, "DWPD",
               "host_drive_writes_per_day x write_amplification", "simulated amplification"),
        Figure("rated_drive_writes_per_day", "sold for", drive.drive_writes_per_day, "DWPD",
               "as given", _SHEET),
        Figure("life_years", "life, cautiously", life, "years",
               "5 x rated / flash_drive_writes_per_day",
               "if the sheet counts what the flash programs"),
        Figure("life_random_years", "life, as sheets are mostly meant", life * worst, "years",
               f"life_years x {worst:.2f}",
               "if the sheet counts writes at random to a full drive, amplified by the formula"),
        Figure("worn", "worn after the years asked", request.years / life, "1",
               "years / life_years", "cautious reading"),
    )  # fmt: skip
    short = []
    if life < request.years:
        short.append(f"the drives are sold for {life:.1f} years of this, not for {request.years:g}")
    return Section("endurance", figures), short
