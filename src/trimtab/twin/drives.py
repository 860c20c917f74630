"""Usable spare of drives that the seeds name. No maker publishes it: these are derived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preset:
    """What is assumed of a drive model.

    Attributes
    ----------
    spare
        Part of the raw flash that is not for data.
    reason
        Where it comes from, and how sure it is.
    """

    name: str
    spare: float
    reason: str


_ONE = (
    "15.36 TB of 16 TiB (17.59 TB) of flash, if all that is over is spare; bad blocks and the "
    "drive's own tables leave less, 7 to 12.7 %"
)
_THREE = "12.8 TB of the same 16 TiB (17.59 TB) of flash, sold for three drive writes a day"

PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset("pm1733", 0.127, _ONE),
        Preset("pm1733a", 0.127, _ONE),
        Preset("pm1735", 0.272, _THREE),
        Preset("pm1743", 0.127, _ONE),
    )
}


def preset(name: str) -> Preset:
    """Return what is assumed of a drive.

    Raises
    ------
    UsageError
        Nothing is known of it.
    """
    found = PRESETS.get(name.lower())
    if found is None:
        raise UsageError(
            f"no spare is known of the drive {name[:40]!r}",
            hint=f"{', '.join(PRESETS)}; or give --spare",
        )
    return found
