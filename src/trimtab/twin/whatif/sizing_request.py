"""The input of a sizing, and its checks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from trimtab.base.error import UsageError
from trimtab.base.site import LIMITS
from trimtab.base.units import parse_fraction
from trimtab.twin.drive_preset import preset
from trimtab.twin.scenario import (
    Allocator,
    AllocatorFamily,
    DriveModel,
    Osts,
    Raid,
    Scenario,
    Server,
    ServerGeneration,
)
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.variation import settings_of

TrimWord = Literal["never", "weekly", "nightly", "discard"]
YEAR_DAYS: Final = 365.25
_MOST_BYTES: Final = 1e21
MOST_OSTS: Final = 100_000
_MOST_DAILY: Final = 20.0
"""Capacities per day: more is a stream, not a file system."""


@dataclass(frozen=True, slots=True)
class SizingRequest:
    """Needs and choices.

    Attributes
    ----------
    daily_writes_bytes, daily_probe_writes_bytes
        Of users; and of benchmarks, which delete their files immediately.
    osts, capacity_bytes
        Number of OSTs, or capacity as `df` shows it; both ``None``: from ``retention_s`` or
        ``growth_bytes_per_year``.
    kept_share
        Fraction of the daily writes that owners do not delete themselves.
    retention_s
        How long the remaining data must stay.
    growth_bytes_per_year
        Growth of the stored data; replaces ``kept_share``.
    limit
        Fullness limit.
    write_bytes_per_s
        Requested for the whole; ``None``: no requirement.
    mean_file_bytes, files
        Either one gives the number of inodes.
    stripe_count
        Objects per file.
    years
        Required years of life and growth.
    generation
        Generation of the servers.
    family, thresholds
        Of the block allocator: mb_c1, c2 and c3_threshold as free fractions, only for ``classic``.
    """

    daily_writes_bytes: float
    drive: DriveModel
    raid: Raid = field(default_factory=Raid)
    daily_probe_writes_bytes: float = 0.0
    osts: int | None = None
    capacity_bytes: float | None = None
    kept_share: float = 1.0
    retention_s: float | None = None
    growth_bytes_per_year: float | None = None
    limit: float = LIMITS.fullness
    trim: TrimWord = "nightly"
    write_bytes_per_s: float | None = None
    mean_file_bytes: float | None = None
    files: float | None = None
    stripe_count: int = 1
    years: float = 5.0
    seed: int = 1
    generation: ServerGeneration = "e1000"
    family: AllocatorFamily = "classic"
    thresholds: tuple[float, float, float] = (0.25, 0.15, 0.05)

    @property
    def scenario(self) -> Scenario:
        """One of its OSTs on its own server, as a scenario of the twin."""
        template = load_scenario("template")
        c1, c2, c3 = self.thresholds
        return replace(
            template,
            osts=Osts(1, self.drive, self.raid),
            server=Server(generation=self.generation),
            allocator=Allocator(self.family, c1, c2, c3),
        )

    @property
    def net_daily_bytes(self) -> float:
        """Bytes that a day adds to the stored data, before any purge."""
        if self.growth_bytes_per_year is not None:
            return self.growth_bytes_per_year / YEAR_DAYS
        return self.daily_writes_bytes * self.kept_share

    @property
    def gross_daily_bytes(self) -> float:
        """Bytes written per day, including benchmarks."""
        return self.daily_writes_bytes + self.daily_probe_writes_bytes


def sizing_request(
    *,
    drive: str | None,
    drive_capacity: float | None,
    drive_write: float | None,
    spare: float | None,
    dwpd: float | None,
    raid: str,
    drives_per_ost: int,
    thresholds: str,
    **needs: Any,
) -> SizingRequest:
    """Return the request of the options of ``trimtab size``.

    Parameters
    ----------
    drive
        A known drive; the figures that are given replace its own.
    raid, thresholds
        As in ``8+2+1``, and free percentages as in ``25/15/5``.
    needs
        Other fields of `SizingRequest`.

    Raises
    ------
    UsageError
        A text has another form, or there is no such drive.
    """
    base = preset(drive or "pm1733").model
    figures = {
        "capacity_bytes": drive_capacity,
        "write_bytes_per_s": drive_write,
        "spare": spare,
        "drive_writes_per_day": dwpd,
    }
    changed: Any = {key: value for key, value in figures.items() if value is not None}
    if changed:
        base = replace(base, name=f"{base.name}, changed", **changed)
    c1, c2, c3 = (parse_fraction(part) for part in settings_of("thresholds", thresholds).values())
    layout = _parse_raid(raid, drives_per_ost)
    return SizingRequest(drive=base, raid=layout, thresholds=(c1, c2, c3), **needs)


def _parse_raid(text: str, drives: int) -> Raid:
    parts = text.split("+")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise UsageError(
            f"--raid: {text[:40]!r} is not DATA+PARITY+SPARES",
            code="raid-malformed",
            hint="8+2+1; without spares 8+2",
        )
    data, parity, spares = (*map(int, parts), *([0] * (3 - len(parts))))
    return Raid(drives=drives, data=data, parity=parity, spares=spares)


def check(request: SizingRequest) -> None:
    """Refuse impossible requests.

    Raises
    ------
    UsageError
        With the option and the reason.
    """
    _check_amounts(request)
    _check_raid(request.raid)
    _check_drive(request.drive)
    if request.osts is not None and request.capacity_bytes is not None:
        raise _excluding("--osts", "--capacity")
    if request.osts is not None and not 1 <= request.osts <= MOST_OSTS:
        raise UsageError(f"--osts: {request.osts} must be 1 to {MOST_OSTS}", code="out-of-range")
    sized = (
        request.osts,
        request.capacity_bytes,
        request.retention_s,
        request.growth_bytes_per_year,
    )
    if all(amount is None for amount in sized):
        raise UsageError(
            "the size is not specified",
            code="size-missing",
            hint="give --capacity, --osts, --retention or --growth",
        )
    if request.files is not None and request.mean_file_bytes is not None:
        raise _excluding("--files", "--mean-file")
    if request.growth_bytes_per_year is not None and request.kept_share != 1.0:
        raise _excluding("--growth", "--kept")
    if request.net_daily_bytes > request.daily_writes_bytes * (1 + 1e-9):
        raise UsageError("--growth exceeds the --daily-writes of a year", code="options-contradict")


def _excluding(option: str, other: str) -> UsageError:
    return UsageError(
        f"{option} and {other} exclude each other",
        code="options-contradict",
        hint="use one of them",
    )


def _check_amounts(request: SizingRequest) -> None:
    amounts = {
        "--daily-writes": request.daily_writes_bytes,
        "--capacity": request.capacity_bytes,
        "--retention": request.retention_s,
        "--growth": request.growth_bytes_per_year,
        "--write-bandwidth": request.write_bytes_per_s,
        "--mean-file": request.mean_file_bytes,
        "--files": request.files,
        "--years": request.years,
        "--kept": request.kept_share,
    }
    for option, value in amounts.items():
        if value is not None and not (math.isfinite(value) and 0 < value <= _MOST_BYTES):
            raise UsageError(
                f"{option}: {value:g} must be greater than 0 and plausible", code="out-of-range"
            )
    if not 0 <= request.daily_probe_writes_bytes <= _MOST_BYTES:
        raise UsageError("--daily-probe-writes: must be 0 or more", code="out-of-range")
    if not 0.1 <= request.limit <= 0.98:
        raise UsageError(
            f"--fullness: {request.limit:g} must be 10 to 98 %",
            code="out-of-range",
            hint="without free blocks nothing can be written",
        )
    if request.years > 30:
        raise UsageError(f"--years: no drive lasts {request.years:g} years", code="out-of-range")
    if request.stripe_count < 1:
        raise UsageError("--stripe-count: must be 1 or more", code="out-of-range")


def _check_raid(raid: Raid) -> None:
    if raid.data < 1 or raid.parity < 0 or raid.spares < 0:
        raise UsageError(
            "--raid: must be DATA+PARITY+SPARES, with data 1 or more",
            code="malformed-value",
            hint="8+2+1",
        )
    if raid.drives - raid.spares < raid.data + raid.parity:
        raise UsageError(
            f"--drives-per-ost: {raid.drives} drives with {raid.spares} spares do not hold a "
            f"stripe "
            f"of {raid.data}+{raid.parity}",
            code="too-few-drives",
            hint=f"{raid.data + raid.parity + raid.spares} or more",
        )


def _check_drive(drive: DriveModel) -> None:
    if not 0 < drive.spare < 1:
        raise UsageError(
            f"--spare: {drive.spare:g} must be above 0 and below 1",
            code="out-of-range",
        )
    if drive.spare > 0.6 or drive.spare < 0.01:
        raise UsageError(f"--spare: {drive.spare:g}: drives have 1 to 60 %", code="out-of-range")
    if not 1e9 <= drive.capacity_bytes <= 1e16:
        raise UsageError(
            f"--drive-capacity: no drive has {drive.capacity_bytes:g} bytes", code="out-of-range"
        )
    for option, value, most in (
        ("--dwpd", drive.drive_writes_per_day, 1000.0),
        ("--drive-write", drive.write_bytes_per_s, 1e12),
    ):
        # NaN fails every comparison.
        if not 0 < value <= most:
            raise UsageError(
                f"{option}: {value:g} must be greater than 0, up to {most:g}", code="out-of-range"
            )


def check_load(request: SizingRequest, capacity_bytes: float) -> None:
    """Refuse too many writes for the capacity.

    Raises
    ------
    UsageError
        A day would overwrite it more often than can be simulated.
    """
    daily = request.gross_daily_bytes / capacity_bytes
    if daily > _MOST_DAILY:
        raise UsageError(
            f"--daily-writes: a day would write the whole capacity {daily:.0f} times",
            code="out-of-range",
            hint=f"at most {_MOST_DAILY:g} times; is a unit wrong?",
        )
