"""Drives that the seeds name, as the twin takes them: data sheets, and what is assumed beside them.

No maker publishes spare flash: it is derived. `trimtab.model.drives` has the data sheets of many
more drives, without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.errors import UsageError
from trimtab.twin.scenario.model import DriveModel


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known and assumed of a drive model.

    Attributes
    ----------
    model
        Its figures; rates are those that one server sees.
    reason
        Where the spare comes from, and how sure it is.
    sources
        Where the other figures come from.
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
        """Return the part of the raw flash that is not for data."""
        return self.model.spare


_ONE = (
    "15.36 TB of 16 TiB (17.59 TB) of flash, if all that is over is spare; bad blocks and the "
    "drive's own tables leave less, 7 to 12.7 %"
)
_THREE = "12.8 TB of the same 16 TiB (17.59 TB) of flash, sold for three drive writes a day"
_SLIDES = "source 002 (SC21): 3.5 and 3.2 GB/s, as one of two servers sees it through x2 of PCIe 4"
_FIO = "source 002: fio on 12 drives from one server, 9,600 and 1,600 kIOPS, a twelfth of it each"
_TABLE = "source 004 (HPE, E2000), table 1"
_LAUNCH = "hardwareluxx.de, 2019: Samsung's announcement of PM1733 and PM1735, U.2"
_GUESS = "no data sheet: the same hardware as the drive for one write a day, with more spare"

PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset(
            DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 800e3, 1600e3 / 12, 0.127, 1.0),
            _ONE,
            (_SLIDES, _FIO),
        ),
        Preset(
            DriveModel("pm1733a", 15.36e12, 7.5e9, 4.1e9, 1550e3, 135e3, 0.127, 1.0),
            _ONE,
            (_TABLE, "one write a day: as the PM1733, assumed"),
        ),
        Preset(
            DriveModel("pm1735", 12.8e12, 6.4e9, 3.8e9, 1450e3, 260e3, 0.272, 3.0),
            _THREE,
            (_LAUNCH, "both ports together: one server's link may be slower"),
        ),
        Preset(
            DriveModel("pm1743", 15.36e12, 14e9, 6e9, 2500e3, 300e3, 0.127, 1.0),
            _ONE,
            (_TABLE, "hardwaretimes.com and gamersinfotech.com, 2021: one write a day"),
        ),
        Preset(
            DriveModel("pm1733-3dwpd", 12.8e12, 3.5e9, 3.2e9, 800e3, 260e3, 0.272, 3.0),
            _THREE,
            (_GUESS, _SLIDES, f"random writes of the PM1735: {_LAUNCH}"),
        ),
        Preset(
            DriveModel("pm1743-3dwpd", 12.8e12, 14e9, 6e9, 2500e3, 605e3, 0.272, 3.0),
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


def preset(name: str) -> Preset:
    """Return what is known and assumed of a drive.

    Raises
    ------
    UsageError
        Nothing is known of it.
    """
    known = PRESETS.get(name.lower())
    if known is None:
        raise UsageError(
            f"no spare is known of the drive {name[:40]!r}",
            code="drive-unknown",
            hint=f"{', '.join(PRESETS)}; or give --spare",
        )
    return known
