"""Size a file system: number of drives, their load and life, and the capacity.

The drive is also compared with the same flash sold with another spare, at equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trimtab.base.encode import mapped, shape
from trimtab.base.error import UsageError
from trimtab.base.units import DAY_S
from trimtab.twin.scenario import DriveModel, Osts, drives_capacity_bytes
from trimtab.twin.whatif.ost_amplification import (
    Amplified,
    Case,
    MiniatureSize,
    Probing,
    amplify,
    fine,
)
from trimtab.twin.whatif.sizing_figure import (
    PERIODS,
    WORDS,
    SizingFigure,
    SizingSection,
    bandwidth_section,
    case_of,
    endurance_section,
    metadata_section,
    ost_write_bytes_per_s,
    safe_section,
    trim_section,
)
from trimtab.twin.whatif.whatif_request import (
    MOST_OSTS,
    YEAR_DAYS,
    SizingRequest,
    TrimWord,
    check,
    check_load,
)

_LITTLE: Final = (0.127, "1 DWPD")
_MUCH: Final = (0.272, "3 DWPD")
_BETWEEN: Final = 0.2
_FULLEST: Final = 0.97


@dataclass(frozen=True, slots=True)
class Peer:
    """The other drive.

    Attributes
    ----------
    fullness
        Fullness with the same bytes.
    """

    name: str
    spare: float
    capacity_bytes: float
    fullness: float

    @property
    def is_possible(self) -> bool:
        """Whether the bytes fit, with space for writes."""
        return self.fullness <= _FULLEST


@dataclass(frozen=True, slots=True)
class DriveComparison:
    """Both drives, never trimmed and trimmed as requested."""

    peer: Peer
    own_never: Amplified
    own_trimmed: Amplified
    peer_never: Amplified | None
    peer_trimmed: Amplified | None


def peer_of(drive: DriveModel, fullness: float) -> Peer:
    """Return the same flash with the other spare.

    Notes
    -----
    15.36 TB with 12.7 % spare is 17.6 TB of flash; with 27.2 % spare it is sold as 12.8 TB. Data
    that fills 75 % of the former fills 90 % of the latter.
    """
    spare, name = _MUCH if drive.spare < _BETWEEN else _LITTLE
    capacity = drive.capacity_bytes / (1 - drive.spare) * (1 - spare)
    return Peer(name, spare, capacity, fullness * drive.capacity_bytes / capacity)


def cases_of(peer: Peer, trimmed: Case) -> tuple[Case, Case] | None:
    """Return the other drive's cases, never trimmed and trimmed; ``None`` if it is too small."""
    if not peer.is_possible:
        return None
    alike = replace(trimmed, spare=peer.spare, fullness=peer.fullness)
    return replace(alike, trim_every=None, discard=False), alike


Progress = Callable[[str, float], None]
_RUNS_A_DAY: Final = 24
"""Runs per day assumed by `--daily-probe-writes`."""
_CURVE: Final = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
ASSUMPTIONS: Final = (
    "This is a simulation: confirm on one real target before relying on it.",
    "Usable is what df shows, after RAID; ldiskfs's own tables take less than 2 % more (665 TB / 5 "
    "= 133 TB of 135.2 TB at Perlmutter), which is not deducted.",
    "Writes and data are spread evenly over OSTs, and over the drives of an OST.",
    "File sizes are log-normal (median 256 KiB, sigma 2.2); files are created and deleted at "
    "random, eight at a time; ldiskfs allocates with --family and --thresholds and without pointer "
    "resets.",
    "Drives clean the superblock with the least data and do not separate hot and cold data; one "
    "drive represents all of an OST. Usable spare is assumed: no vendor publishes it.",
    "The size of the miniature causes an error of at most 3 % in the simulated amplification; the "
    "standard error covers only chance.",
    "One OST per server with 32 cores and 50 GB/s, of --server's generation; the bandwidth "
    "excludes slow drives, rebuilds and other load.",
)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The result of a sizing.

    Attributes
    ----------
    amplified
        Result of each trim schedule at the sized fullness.
    curve
        Results of the requested schedule at several fullnesses.
    shortfalls
        Requirements that cannot be met, each in one sentence.
    """

    request: SizingRequest
    osts: int
    fullness: float
    amplified: Mapping[TrimWord, Amplified]
    curve: tuple[Amplified, ...]
    comparison: DriveComparison
    sections: tuple[SizingSection, ...]
    shortfalls: tuple[str, ...]
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def figure(self, name: str) -> SizingFigure:
        """Return a figure by its name."""
        return next(
            figure for part in self.sections for figure in part.figures if figure.name == name
        )


@dataclass(frozen=True, slots=True)
class _Simulated:
    amplified: Mapping[TrimWord, Amplified]
    periods: tuple[Amplified, ...]
    curve: tuple[Amplified, ...]
    comparison: DriveComparison


def size(
    request: SizingRequest,
    progress: Progress = lambda text, fraction: None,
    *,
    miniature: MiniatureSize | None = None,
) -> Sizing:
    """Return drives, endurance, bandwidth, trims, horizon and metadata for a request.

    Raises
    ------
    UsageError
        The request is impossible; with the option and the reason.
    """
    check(request)
    ost_bytes = drives_capacity_bytes(Osts(1, request.drive, request.raid))
    osts, why = _osts_for_capacity(request, ost_bytes)
    simulated = _simulate(request, osts, ost_bytes, progress, miniature)
    wanted = request.write_bytes_per_s
    if wanted is not None and request.osts is None:
        point = simulated.amplified[request.trim]
        each = ost_write_bytes_per_s(request, point.simulated, point.walks, from_clients=True)
        needed = math.ceil(wanted / each)
        _check_osts(needed, "--write-bandwidth", ost_bytes)
        if needed > osts:
            # More OSTs get fewer writes each: trims come after fewer writes, never after more.
            osts, why = needed, "--write-bandwidth"
            simulated = _simulate(request, osts, ost_bytes, progress, miniature)
    chosen = simulated.amplified[request.trim]
    built = _built(request, osts, ost_bytes, why, chosen)
    held, short_held = _held(request, osts, ost_bytes)
    endurance, short_wear = endurance_section(request, osts, chosen)
    bandwidth, short_speed = bandwidth_section(request, osts, chosen, simulated.curve)
    ends = {figure.name: figure.value for figure in (*bandwidth.figures, *endurance.figures)}
    safe, short_safe = safe_section(
        request,
        chosen,
        simulated.curve,
        of_bandwidth=ends["fullness_for_bandwidth"],
        life_years=ends["life_years"] or 0.0,
    )
    inodes, short_inodes = metadata_section(request, osts, ost_bytes)
    daily = request.gross_daily_bytes / (osts * ost_bytes)
    trims = trim_section(request, daily, simulated.amplified["never"], simulated.periods)
    return Sizing(
        request=request,
        osts=osts,
        fullness=chosen.case.fullness,
        amplified=simulated.amplified,
        curve=simulated.curve,
        comparison=simulated.comparison,
        sections=(built, safe, held, endurance, bandwidth, trims, inodes),
        shortfalls=(*short_safe, *short_held, *short_wear, *short_speed, *short_inodes),
    )


def _osts_for_capacity(request: SizingRequest, ost_bytes: float) -> tuple[int, str]:
    """Return the required number of OSTs, and the option that requires most."""
    if request.osts is not None:
        return request.osts, "--osts"
    if request.capacity_bytes is not None:
        needs = {"--capacity": request.capacity_bytes}
    else:
        needs = {}
        if request.retention_s is not None:
            stored = request.net_daily_bytes * request.retention_s / DAY_S
            needs["--retention"] = stored / request.limit
        if request.growth_bytes_per_year is not None:
            needs["--growth"] = request.growth_bytes_per_year * request.years / request.limit
    why = max(needs, key=lambda option: needs[option])
    osts = math.ceil(needs[why] / ost_bytes * (1 - 1e-12))
    _check_osts(osts, why, ost_bytes)
    return osts, why


def _check_osts(osts: int, why: str, ost_bytes: float) -> None:
    if osts > MOST_OSTS:
        raise UsageError(
            f"{why}: needs {osts:,} OSTs of {ost_bytes / 1e12:.0f} TB",
            code="size-too-large",
            hint=f"at most {MOST_OSTS:,}; is a unit wrong?",
        )


def _operating_fullness(request: SizingRequest, capacity: float) -> float:
    """Return the operating fullness: the limit, or less if retention needs less."""
    if request.retention_s is None:
        return request.limit
    stored = request.net_daily_bytes * request.retention_s / DAY_S
    return min(request.limit, max(0.05, stored / capacity))


def _simulate(
    request: SizingRequest,
    osts: int,
    ost_bytes: float,
    progress: Progress,
    miniature: MiniatureSize | None,
) -> _Simulated:
    capacity = osts * ost_bytes
    check_load(request, capacity)
    daily = request.gross_daily_bytes / capacity
    fullness = _operating_fullness(request, capacity)
    words = {word: case_of(word, request, fullness, daily) for word in WORDS}
    chosen = words[request.trim]
    periods = [replace(words["never"], trim_every=period) for period in PERIODS]
    curve = [replace(chosen, fullness=fullness) for fullness in _CURVE]
    peer = peer_of(request.drive, fullness)
    others = cases_of(peer, chosen)
    cases = [*words.values(), *periods, *curve, *(others or ())]
    probing = _probing(request, capacity)
    simulated = amplify(
        cases,
        probing=probing,
        miniature=replace(miniature or fine(probing), seed=request.seed),
        progress=progress,
    )
    by_case = dict(zip(cases, simulated, strict=True))
    amplified: dict[TrimWord, Amplified] = {word: by_case[words[word]] for word in WORDS}
    return _Simulated(
        amplified,
        tuple(by_case[period] for period in periods),
        tuple(by_case[case] for case in curve),
        DriveComparison(
            peer,
            by_case[words["never"]],
            by_case[chosen],
            by_case[others[0]] if others else None,
            by_case[others[1]] if others else None,
        ),
    )


def _probing(request: SizingRequest, capacity: float) -> Probing | None:
    """Return hourly benchmarks, like a site's probes."""
    probes = request.daily_probe_writes_bytes
    if probes <= 0:
        return None
    return Probing(probes / request.gross_daily_bytes, probes / _RUNS_A_DAY / capacity)


def _built(
    request: SizingRequest, osts: int, ost_bytes: float, why: str, chosen: Amplified
) -> SizingSection:
    raid, drive = request.raid, request.drive
    drives = osts * raid.drives / raid.shared
    spare = drive.spare
    layout = f"{raid.data}+{raid.parity}+{raid.spares} over {raid.drives}"
    figures = (
        SizingFigure("osts", "OSTs", float(osts), "", f"{why} requires most",
                     "rounded up to whole OSTs"),
        SizingFigure("drives", "drives of OSTs", drives, "", "osts x drives of one", layout),
        SizingFigure("raw_bytes", "raw capacity", drives * drive.capacity_bytes, "B",
               "drives x drive capacity", drive.name),
        SizingFigure("ost_bytes", "capacity of an OST", ost_bytes, "B",
               "(drives - spares) x drive capacity x data / (data + parity)", layout),
        SizingFigure("usable_bytes", "usable capacity", osts * ost_bytes, "B", "osts x ost_bytes",
               "as df shows it"),
        SizingFigure("stored_bytes", "data at the limit", osts * ost_bytes * request.limit, "B",
               "usable_bytes x fullness limit", "--fullness"),
        SizingFigure("spare", "usable spare of the flash", spare, "1", "as given or assumed",
               "raw minus sold size; bad blocks and tables leave less"),
        SizingFigure("over_provisioning", "over-provisioning", spare / (1 - spare), "1",
               "spare / (1 - spare)", "the same, as a fraction of the capacity"),
        SizingFigure("effective_spare", "spare with all free space trimmed",
               1 - chosen.case.fullness * (1 - spare), "1", "1 - fullness x (1 - spare)",
               "Frankie et al. 2012: trimmed space counts as spare"),
        SizingFigure("write_amplification", f"write amplification, trim {request.trim}",
               chosen.simulated, "",
               f"simulated at {chosen.case.fullness:.0%}; formulas give {chosen.trimmed:.2f} "
               f"(all free trimmed) and {chosen.untrimmed:.2f} (nothing)",
               "miniature OST: ldiskfs's allocator over a page-mapped drive"),
    )  # fmt: skip
    return SizingSection("built of", figures)


def _held(request: SizingRequest, osts: int, ost_bytes: float) -> tuple[SizingSection, list[str]]:
    """Return how long data can stay, and whether that is sufficient."""
    usable = osts * ost_bytes
    net = request.net_daily_bytes
    horizon_s = usable * request.limit / net * DAY_S
    rewrite_s = usable / request.gross_daily_bytes * DAY_S
    figures = (
        SizingFigure("net_daily_bytes", "data added per day", net, "B",
               "daily writes x kept" if request.growth_bytes_per_year is None
               else f"growth / {YEAR_DAYS}", "without what owners delete themselves"),
        SizingFigure("purge_horizon_s", "purge horizon", horizon_s, "s",
               "usable_bytes x fullness limit / net_daily_bytes",
               "older data must be deleted to stay within the limit"),
        SizingFigure("ost_write_s", "time to write an OST over once", rewrite_s, "s",
               "usable_bytes / (daily writes + probes)", "spread evenly"),
        SizingFigure("five_ost_writes_s", "five times", 5 * rewrite_s, "s", "5 x ost_write_s",
               "after which untrimmed drives of a young Perlmutter had lost a tenth (SC21)"),
    )  # fmt: skip
    short = []
    if request.retention_s is not None and horizon_s < request.retention_s * (1 - 1e-9):
        short.append(
            f"data can stay {horizon_s / DAY_S:,.0f} days, not the requested "
            f"{request.retention_s / DAY_S:,.0f}, before it is {request.limit:.0%} full"
        )
    grown = request.growth_bytes_per_year
    if grown is not None and grown * request.years > usable * request.limit:
        short.append(
            f"it grows beyond the limit after {usable * request.limit / grown:.1f} years, not "
            f"{request.years:g}"
        )
    return SizingSection("how long data stays", figures), short


shape(
    Sizing,
    omit=["request", "amplified", "sections"],
    derive={
        "drive": "request.drive.name",
        "trim": mapped("request.trim", str, str),
        "seed": "request.seed",
        "figures": (
            tuple[SizingFigure, ...],
            lambda sizing: [figure for section in sizing.sections for figure in section.figures],
        ),
        "schedules": "amplified",
    },
)
