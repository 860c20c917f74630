"""The sections of a sizing: bandwidth, endurance, metadata and trims, with their formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, get_args

import numpy as np

from trimtab.base.units import DAY_S
from trimtab.twin.amplification import greedy
from trimtab.twin.simulation.fault import conditions
from trimtab.twin.simulation.ost_rate import OstTerms, StackRates, throttling
from trimtab.twin.whatif.ost_amplification import Amplified, Case
from trimtab.twin.whatif.whatif_request import SizingRequest, TrimWord


@dataclass(frozen=True, slots=True)
class SizingFigure:
    """One number of a sizing.

    Attributes
    ----------
    value
        In base SI; ``None`` with a ``reason``.
    unit
        ``B``, ``B/s``, ``s``, ``1`` for a fraction, ``years``, or empty for a count.
    formula
        Formula with the names of other figures, or ``simulated``.
    """

    name: str
    title: str
    value: float | None
    unit: str
    formula: str
    source: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SizingSection:
    """Figures that belong together."""

    title: str
    figures: tuple[SizingFigure, ...]


# Bandwidth of OSTs, and the fullness up to which it is sufficient

_STACK = (
    "the twin's layers: minimum of drives x write x data/(data+parity) x RAID x throttling / write "
    "amplification, and of cores over a request's work with the allocator's searches"
)
_RATES: Final = StackRates()


def ost_write_bytes_per_s(
    request: SizingRequest, amplification: float, walks: float = 0.0, *, from_clients: bool
) -> float:
    """Return one OST's write rate: alone, as in obdfilter-survey, or through clients.

    Parameters
    ----------
    walks
        Block groups searched in useless loops per request, as a fraction of all groups.
    """
    scenario, amplifications = request.scenario, np.array([amplification])
    terms = OstTerms(
        amplifications,
        np.array([walks]),
        throttling(scenario, amplifications),
        np.zeros(1, np.int64),
        conditions((), scenario.start, scenario.start, 1),
    )
    return float(_RATES.osts(scenario, terms, from_clients=from_clients).write[0])


def _through_clients(request: SizingRequest, point: Amplified) -> float:
    return ost_write_bytes_per_s(request, point.simulated, point.walks, from_clients=True)


def fullest(curve: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """Return the highest fullness at which a rate that falls with it is sufficient.

    Parameters
    ----------
    curve
        Fullness and rate, fullness rising.

    Returns
    -------
    float or None
        Interpolated linearly; the last fullness if all rates are sufficient, ``None`` if not even
        the first is.

    Examples
    --------
    >>> round(fullest([(0.5, 20.0), (0.7, 10.0), (0.9, 6.0)], 12.0), 3)
    0.66
    """
    if curve[0][1] < wanted:
        return None
    for (before, high), (after, low) in pairwise(curve):
        if low < wanted:
            return before + (after - before) * (high - wanted) / (high - low)
    return curve[-1][0]


def bandwidth_section(
    request: SizingRequest, osts: int, amplified: Amplified, curve: Sequence[Amplified]
) -> tuple[SizingSection, list[str]]:
    """Return bandwidth and the fullness that it allows, and shortfalls."""
    wa, walks = amplified.simulated, amplified.walks
    fresh = ost_write_bytes_per_s(request, 1.0, from_clients=False)
    alone = ost_write_bytes_per_s(request, wa, walks, from_clients=False)
    through = _through_clients(request, amplified)
    whole = osts * through
    points = [(point.case.fullness, osts * _through_clients(request, point)) for point in curve]
    wanted, limit, why = request.write_bytes_per_s, None, None
    if wanted is None:
        why = "no --write-bandwidth to compare with"
    elif (limit := fullest(points, wanted)) is None:
        why = f"even {points[0][0]:.0%} full it writes less than requested"
    needed = request.gross_daily_bytes / DAY_S
    figures = (
        SizingFigure("ost_write_fresh_bytes_per_s", "write of a fresh OST", fresh, "B/s",
               "write amplification 1", _STACK),
        SizingFigure("ost_write_bytes_per_s", "write of an OST alone", alone, "B/s",
               "at write_amplification, as in obdfilter-survey", _STACK),
        SizingFigure("write_bytes_per_s", "write of all, through clients", whole, "B/s",
               "osts x OST behind network and clients, enough clients and no other load", _STACK),
        SizingFigure("mean_write_bytes_per_s", "what a day's writes need", needed, "B/s",
               "(daily writes + probes) / 86,400 s", "a mean: bursts need many times this"),
        SizingFigure("fullness_for_bandwidth", "fullness that the requested write allows", limit,
               "1",
               "where write_bytes_per_s falls to it, interpolated between simulated points",
               f"simulated at {points[0][0]:.0%} to {points[-1][0]:.0%}", why),
    )  # fmt: skip
    short = []
    if wanted is not None and whole < wanted:
        short.append(
            f"{osts} OSTs write {whole / 1e9:,.0f} GB/s, not the requested {wanted / 1e9:,.0f} GB/s"
        )
    if whole < needed:
        short.append(
            f"daily writes need {needed / 1e9:,.0f} GB/s all day, more than all OSTs can write"
        )
    return SizingSection("bandwidth", figures), short


# Safe fullness: where the first mechanism starts to cost, minus a margin

_LOSS: Final = 0.05
"""Fraction of the drives' writes that useless loops may cost."""
_SPREAD: Final = 0.02
"""Standard deviation of fullness over OSTs, as `fullness_spread` of a scenario's users."""
SAFE_MARGIN: Final = 2 * _SPREAD


def safe_section(
    request: SizingRequest,
    amplified: Amplified,
    curve: Sequence[Amplified],
    *,
    of_bandwidth: float | None,
    life_years: float,
) -> tuple[SizingSection, list[str]]:
    """Return the fullness that is safe for every mechanism, and whether the request exceeds it.

    Parameters
    ----------
    of_bandwidth
        Fullness that the requested write allows; ``None`` if nothing is requested or possible.
    life_years
        Life at the sized fullness, in years.
    """
    free = [ost_write_bytes_per_s(request, point.simulated, from_clients=True) for point in curve]
    losses = [
        1 - _through_clients(request, point) / rate for point, rate in zip(curve, free, strict=True)
    ]
    years = [life_years * amplified.simulated / point.simulated for point in curve]

    def onset(values: Sequence[float], least: float) -> float:
        at = [(point.case.fullness, value) for point, value in zip(curve, values, strict=True)]
        return fullest(at, least) or 0.0

    onsets = {
        "the allocator's useless loops": onset([1 - loss for loss in losses], 1 - _LOSS),
        "endurance": onset(years, request.years),
        "free space": curve[-1].case.fullness,
    }
    if request.write_bytes_per_s is not None:
        onsets["the requested write bandwidth"] = of_bandwidth or 0.0
    worst = min(onsets, key=lambda mechanism: onsets[mechanism])
    safe = max(onsets[worst] - SAFE_MARGIN, 0.0)
    figures = (
        SizingFigure("safe_fullness", "safe fullness", safe, "1",
               f"{onsets[worst]:.1%}, where {worst} would start to cost, minus the margin",
               f"the worst of: {', '.join(onsets)}"),
        SizingFigure("safe_margin", "margin in it", SAFE_MARGIN, "1",
               f"2 x {_SPREAD:.0%}, by which the fullest of OSTs exceed their mean",
               "assumed; a file system whose OSTs differ more needs more"),
        SizingFigure("fullness_for_allocator", "fullness where useless loops start to cost",
               onsets["the allocator's useless loops"], "1",
               f"where they cost {_LOSS:.0%} of the drives' writes",
               f"simulated, {request.family}, interpolated between simulated points"),
        SizingFigure("fullness_for_endurance", "fullness that endurance allows",
               onsets["endurance"], "1", "where life_years falls to the requested years",
               "simulated amplification"),
    )  # fmt: skip
    short = []
    if amplified.case.fullness > safe:
        short.append(
            f"{amplified.case.fullness:.0%} full is not safe: {worst} would start to cost at "
            f"{onsets[worst]:.1%}, {safe:.1%} with a margin for OSTs fuller than the mean"
        )
    return SizingSection("safe fullness", figures), short


# Endurance: wear of the drives by daily writes

_WARRANTY_YEARS: Final = 5.0
_SHEET: Final = "data sheet: drive writes a day over five years"


def endurance_section(
    request: SizingRequest, osts: int, amplified: Amplified
) -> tuple[SizingSection, list[str]]:
    """Return writes of drives and flash, and the drives' rated life at that load."""
    raid, drive = request.raid, request.drive
    drives = osts * raid.drives / raid.shared
    each = request.gross_daily_bytes / raid.data_share / drives
    host = each / drive.capacity_bytes
    flash = host * amplified.simulated
    life = drive.drive_writes_per_day * _WARRANTY_YEARS / flash
    worst = greedy(drive.spare, 256)
    figures = (
        SizingFigure("drive_daily_bytes", "writes of a drive a day", each, "B",
               "(daily writes + probes) x (data + parity) / data / drives",
               "whole stripes: writes smaller than a stripe add reads and writes"),
        SizingFigure("host_drive_writes_per_day", "host drive writes a day", host, "DWPD",
               "drive_daily_bytes / drive capacity", "the same in the drive's capacity"),
        SizingFigure("flash_drive_writes_per_day", "flash drive writes a day", flash, "DWPD",
               "host_drive_writes_per_day x write_amplification", "simulated amplification"),
        SizingFigure("rated_drive_writes_per_day", "sold for", drive.drive_writes_per_day, "DWPD",
               "as given", _SHEET),
        SizingFigure("life_years", "life, cautiously", life, "years",
               "5 x rated / flash_drive_writes_per_day",
               "if the data sheet counts flash writes"),
        SizingFigure("life_random_years", "life, as data sheets usually mean it", life * worst,
               "years",
               f"life_years x {worst:.2f}",
               "if the data sheet counts random writes to a full drive, amplified by the formula"),
        SizingFigure("worn", "worn after the requested years", request.years / life, "1",
               "years / life_years", "cautious reading"),
    )  # fmt: skip
    short = []
    if life < request.years:
        short.append(
            f"the drives are rated for {life:.1f} years of this load, not for {request.years:g}"
        )
    return SizingSection("endurance", figures), short


# Metadata: inodes on MDTs and OSTs, as mkfs.lustre lays ldiskfs out

_MKFS: Final = "mkfs.lustre's defaults (lustre/utils/mount_utils_ldiskfs.c)"
_STRIPES_PLAIN: Final = 16
_STRIPES_MOST: Final = 59
"""With more stripes a layout needs a separate block."""
_INODES_OF_AN_MDT: Final = 4e9
_OST_RATIOS: Final = ((16 * 2**40, 2**20), (4 * 2**40, 2**19), (2**40, 2**18))


def bytes_per_inode(stripe_count: int) -> int | None:
    """Return an MDT's bytes per inode; ``None`` for too many stripes.

    Examples
    --------
    >>> bytes_per_inode(1), bytes_per_inode(32), bytes_per_inode(100)
    (2560, 3584, None)
    """
    if stripe_count > _STRIPES_MOST:
        return None
    return (1024 if stripe_count <= _STRIPES_PLAIN else 2048) + 1536


def ost_bytes_per_inode(ost_bytes: float) -> int:
    """Return an OST's bytes per object.

    Examples
    --------
    >>> ost_bytes_per_inode(135e12), ost_bytes_per_inode(2e12)
    (1048576, 262144)
    """
    return next((ratio for over, ratio in _OST_RATIOS if ost_bytes > over), 69905)


def metadata_section(
    request: SizingRequest, osts: int, ost_bytes: float
) -> tuple[SizingSection, list[str]]:
    """Return the files' needs for inodes, and shortfalls."""
    stored = osts * ost_bytes * request.limit
    files = _files(request, stored)
    if files.value is None:
        return SizingSection("metadata", (files,)), []
    inodes = files.value / request.limit
    each = bytes_per_inode(request.stripe_count)
    mdt = None if each is None else inodes * each
    objects = files.value * request.stripe_count / osts
    ratio = ost_bytes_per_inode(ost_bytes)
    room = ost_bytes / ratio
    figures = (
        files,
        SizingFigure("inodes", "inodes of all MDTs", inodes, "", "files / fullness limit",
               "directories and links come on top; with the same margin as data"),
        SizingFigure("mdt_bytes", "MDTs, after mirroring", mdt, "B",
               f"inodes x {each} B (inode and 1.5 KiB), no data on MDTs",
               _MKFS, None if mdt is not None else f"unknown for more than {_STRIPES_MOST} "
                   f"stripes"),
        SizingFigure("mdts", "minimum number of MDTs", float(-(-inodes // _INODES_OF_AN_MDT)), "",
               "inodes / 4e9, rounded up", "ldiskfs numbers inodes with 32 bits"),
        SizingFigure("ost_objects", "objects of an OST", objects, "",
               "files x stripe_count / osts", "spread evenly"),
        SizingFigure("ost_inodes", "inodes of an OST", room, "", f"ost_bytes / {ratio} B", _MKFS),
    )  # fmt: skip
    short = []
    if objects > room:
        short.append(
            f"an OST has {room:.3g} inodes for {objects:.3g} objects: format it with more "
            f"(mkfs.lustre --mkfsoptions=-i), or use larger files"
        )
    return SizingSection("metadata", figures), short


def _files(request: SizingRequest, stored: float) -> SizingFigure:
    title = "files"
    if request.files is not None:
        return SizingFigure("files", title, request.files, "", "as requested", "--files")
    if request.mean_file_bytes is None:
        why = "unknown without --files or --mean-file"
        return SizingFigure("files", title, None, "", "", "", why)
    return SizingFigure(
        "files",
        title,
        stored / request.mean_file_bytes,
        "",
        "stored_bytes / mean file",
        "--mean-file",
    )


# Trims: the benefit of each schedule, and where it ends

WORDS: Final[tuple[TrimWord, ...]] = get_args(TrimWord)
_DAYS: Final = {"weekly": 7.0, "nightly": 1.0}
PERIODS: Final = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
"""Capacities of writes between two trims."""


def case_of(word: TrimWord, request: SizingRequest, fullness: float, daily: float) -> Case:
    """Convert a schedule to capacities of writes.

    Parameters
    ----------
    daily
        Capacities written per day.
    """
    return Case(
        request.drive.spare,
        fullness,
        trim_every=_DAYS[word] * daily if word in _DAYS else None,
        discard=word == "discard",
        family=request.family,
        thresholds=request.thresholds,
    )


def longest_useful(never: float, trimmed: Sequence[tuple[float, float]]) -> float | None:
    """Return the period that keeps half of the shortest period's benefit.

    Parameters
    ----------
    never
        Write amplification without trims.
    trimmed
        Period and write amplification, by increasing period.

    Returns
    -------
    float or None
        Interpolated linearly over the logarithm of the period; ``None`` if the longest keeps more
        than half, or if trimming has no benefit.

    Examples
    --------
    >>> round(longest_useful(2.0, [(0.01, 1.5), (0.1, 1.7), (1.0, 1.8)]), 3)
    0.316
    """
    half = (never - trimmed[0][1]) / 2
    if half <= 0:
        return None
    for (short, better), (long, worse) in pairwise(trimmed):
        if never - worse < half:
            part = (never - half - better) / (worse - better)
            return math.exp(math.log(short) + part * (math.log(long) - math.log(short)))
    return None


def trim_section(
    request: SizingRequest, daily: float, never: Amplified, trimmed: Sequence[Amplified]
) -> SizingSection:
    """Return the maximum useful time between trims."""
    points = [(point.case.trim_every or math.inf, point.simulated) for point in trimmed]
    period = longest_useful(never.simulated, points)
    gain = never.simulated - points[0][1]
    why = None
    if period is None:
        why = (
            "trimming changes nothing here"
            if gain <= 0
            else f"one trim in {points[-1][0]:g} capacities still keeps more than half of the "
            f"benefit"
        )
    figures = (
        SizingFigure("daily_capacities", "capacities written per day", daily, "",
               "(daily writes + probes) / usable_bytes", "spread evenly over OSTs"),
        SizingFigure("trim_gain", "maximum reduction of amplification by trims", gain, "",
               "never - a trim every 1/64 of a capacity", "simulated, at this fullness"),
        SizingFigure("trim_period_capacities", "longer time between trims loses half of that",
               period, "",
               "simulated at 1/64 to 1 capacity of writes between trims",
               "a next-fit allocator, which writes all addresses in turn, needs 0.5 or less", why),
        SizingFigure("trim_period_s", "the same in time", None if period is None
               else period / daily * DAY_S, "s", "trim_period_capacities / daily_capacities",
               "at this rate of writes", why),
    )  # fmt: skip
    return SizingSection("trim", figures)
