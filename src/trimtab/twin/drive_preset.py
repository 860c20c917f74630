"""The drives of [S3] and [S5] in the twin: data sheets and assumptions.

Figures come from `trimtab.base.data_sheet`, which has many more drives but no spare flash: no
vendor publishes it, so it is derived here. Rates are those that one server gets from a dual-port
drive; random operations are the data sheet's, limited by that rate in the layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.base.data_sheet import data_sheet
from trimtab.base.error import UsageError
from trimtab.base.toml_problem import did_you_mean
from trimtab.twin.scenario import DriveModel


@dataclass(frozen=True, slots=True)
class Preset:
    """Figures and assumptions for a drive model.

    Attributes
    ----------
    model
        Its figures; rates are those that one server gets.
    reason
        Origin of the spare, and how certain it is.
    sources
        Sources of the other figures.
    """

    model: DriveModel
    reason: str
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.model.name

    @property
    def spare(self) -> float:
        """Return the fraction of the raw flash that is not for data."""
        return self.model.spare


_SPARE_OF_ONE: Final = 0.127
_SPARE_OF_THREE: Final = 0.272
_HALF: Final = {"read_bytes_per_s": 3.5e9, "write_bytes_per_s": 3.2e9}
"""Rates of a PM1733 for one of two servers."""
_OF_SHEET: Final = (
    *("read_bytes_per_s", "write_bytes_per_s", "read_iops", "write_iops"),
    "drive_writes_per_day",
)
_ONE = (
    "15.36 TB of 16 TiB (17.59 TB) of flash, if all that is over is spare; bad blocks and the "
    "drive's own tables leave less, 7 to 12.7 %"
)
_THREE = "12.8 TB of the same 16 TiB (17.59 TB) of flash, sold for three drive writes a day"
_SLIDES = "source S3 (SC21): 3.5 and 3.2 GB/s, as one of two servers sees it through x2 of PCIe 4"
_TABLE = "source S5 (HPE, E2000), table 1"
_LAUNCH = "hardwareluxx.de, 2019: Samsung's announcement of PM1733 and PM1735, U.2"
_GUESS = "no data sheet: the same hardware as the drive for one write a day, with more spare"


def _drive(
    name: str, series: str, capacity_bytes: float, spare: float, **other: float
) -> DriveModel:
    """Return a drive with the figures of its series' data sheet, overridden by those given."""
    sheet = data_sheet(series)
    figures = {field: getattr(sheet, field) for field in _OF_SHEET} | other
    return DriveModel(name, capacity_bytes, spare=spare, **figures)


PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset(
            _drive("pm1733", "PM1733", 15.36e12, _SPARE_OF_ONE, **_HALF, write_iops=135e3),
            _ONE,
            (_SLIDES, _LAUNCH, f"random writes: none known of it, the PM1733a's: {_TABLE}"),
        ),
        Preset(
            _drive("pm1733a", "PM1733a", 15.36e12, _SPARE_OF_ONE, drive_writes_per_day=1.0),
            _ONE,
            (_TABLE, "one write a day: as the PM1733, assumed"),
        ),
        Preset(
            _drive("pm1735", "PM1735", 12.8e12, _SPARE_OF_THREE),
            _THREE,
            (_LAUNCH, "both ports together: one server's link may be slower"),
        ),
        Preset(
            _drive("pm1743", "PM1743", 15.36e12, _SPARE_OF_ONE),
            _ONE,
            (_TABLE, "hardwaretimes.com and gamersinfotech.com, 2021: one write a day"),
        ),
        Preset(
            _drive("pm1733-3dwpd", "PM1735", 12.8e12, _SPARE_OF_THREE, **_HALF),
            _THREE,
            (_GUESS, _SLIDES, f"random operations of the PM1735: {_LAUNCH}"),
        ),
        Preset(
            _drive(
                *("pm1743-3dwpd", "PM1743", 12.8e12, _SPARE_OF_THREE),
                write_iops=605e3,
                drive_writes_per_day=3.0,
            ),
            _THREE,
            (
                _GUESS,
                _TABLE,
                "random writes: 300 kIOPS times 4.12 / 2.04, the write amplifications of uniform "
                "random writes with either spare",
            ),
        ),
    )
}
"""All figures of these drives in the twin; data sheets are in `trimtab.base.data_sheet`."""


def preset(name: str) -> Preset:
    """Return the preset of a drive.

    Raises
    ------
    UsageError
        The drive is unknown.
    """
    known = PRESETS.get(name.lower())
    if known is None:
        raise UsageError(
            f"the spare of the drive {name[:40]!r} is unknown",
            code="drive-unknown",
            hint=did_you_mean(name, PRESETS) or f"{', '.join(PRESETS)}; or give --spare",
        )
    return known
