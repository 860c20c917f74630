"""A file system sized: how many drives, what they take, how long they last, what fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trimtab.errors import UsageError
from trimtab.twin.scenario.geometry import drives_capacity_bytes
from trimtab.twin.scenario.model import Osts
from trimtab.whatif.sizing import metadata, speed, trimming, wear
from trimtab.whatif.sizing.amplifying import FINE, Amplified, Case, Miniature, amplify
from trimtab.whatif.sizing.asked import (
    DAY_S,
    MOST_OSTS,
    YEAR_DAYS,
    Asked,
    TrimWord,
    check,
    check_load,
)
from trimtab.whatif.sizing.figure import Figure, Section
from trimtab.whatif.sizing.peer import Comparison, cases_of, peer_of

Progress = Callable[[str, float], None]
_CURVE: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ASSUMPTIONS: Final = (
    "It is a simulation: try on one real target before anything rests on it.",
    "Usable is what df shows; of the drives the RAID takes its part, ldiskfs's own tables less "
    "than 2 % more (665 TB / 5 = 133 TB of 135.2 TB at Perlmutter), which is not taken off.",
    "Writes and data are spread evenly over OSTs, and over the drives of one.",
    "Files are log-normal (median 256 KiB, sigma 2.2), come and go at random, eight at a time; "
    "ldiskfs allocates with thresholds 25/15/5 and no pointer reset.",
    "Drives clean what holds least, hot and cold data are not told apart; one drive stands for all "
    "of an OST. Usable spare is assumed: no maker publishes it.",
    "Of the simulated amplification about a tenth hangs on how small the miniature is; the "
    "standard error beside it is of chance alone.",
    "One OST a server with 32 cores and 50 GB/s; collection within seconds, throttling, slow "
    "drives, rebuilds and other load are not in the bandwidth.",
)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What was found.

    Attributes
    ----------
    amplified
        Of each trim schedule at the fullness that it is sized for.
    curve
        With the schedule asked for, at several fullnesses.
    shortfalls
        What was asked for and cannot be had, each in one sentence.
    """

    asked: Asked
    osts: int
    fullness: float
    amplified: Mapping[TrimWord, Amplified]
    curve: tuple[Amplified, ...]
    comparison: Comparison
    sections: tuple[Section, ...]
    shortfalls: tuple[str, ...]
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def figure(self, name: str) -> Figure:
        """Return a figure by its name."""
        return next(one for part in self.sections for one in part.figures if one.name == name)


@dataclass(frozen=True, slots=True)
class _Simulated:
    amplified: Mapping[TrimWord, Amplified]
    periods: tuple[Amplified, ...]
    curve: tuple[Amplified, ...]
    comparison: Comparison


def size(
    asked: Asked,
    progress: Progress = lambda text, fraction: None,
    *,
    miniature: Miniature = FINE,
) -> Sizing:
    """Return drives, endurance, bandwidth, trims, horizon and metadata for what is asked.

    Raises
    ------
    UsageError
        There can be no such file system; it names the option and the reason.
    """
    check(asked)
    ost_bytes = drives_capacity_bytes(Osts(1, asked.drive, asked.raid))
    osts, why = _osts_for_capacity(asked, ost_bytes)
    simulated = _simulate(asked, osts, ost_bytes, progress, miniature)
    wanted = asked.write_bytes_per_s
    if wanted is not None and asked.osts is None:
        wa = simulated.amplified[asked.trim].simulated
        needed = math.ceil(wanted / speed.ost_write_bytes_per_s(asked, wa, from_clients=True))
        _check_osts(needed, "--write-bandwidth", ost_bytes)
        if needed > osts:
            # More OSTs are written more slowly: trims come after fewer writes, never after more.
            osts, why = needed, "--write-bandwidth"
            simulated = _simulate(asked, osts, ost_bytes, progress, miniature)
    own = simulated.amplified[asked.trim]
    built = _built(asked, osts, ost_bytes, why, own)
    held, short_held = _held(asked, osts, ost_bytes)
    endurance, short_wear = wear.section(asked, osts, own)
    bandwidth, short_speed = speed.section(asked, osts, own, simulated.curve)
    inodes, short_inodes = metadata.section(asked, osts, ost_bytes)
    daily = asked.gross_daily_bytes / (osts * ost_bytes)
    trims = trimming.section(asked, daily, simulated.amplified["never"], simulated.periods)
    return Sizing(
        asked=asked,
        osts=osts,
        fullness=own.case.fullness,
        amplified=simulated.amplified,
        curve=simulated.curve,
        comparison=simulated.comparison,
        sections=(built, held, endurance, bandwidth, trims, inodes),
        shortfalls=(*short_held, *short_wear, *short_speed, *short_inodes),
    )


def _osts_for_capacity(asked: Asked, ost_bytes: float) -> tuple[int, str]:
    """Return how many OSTs hold what is asked, and which option asks for most."""
    if asked.osts is not None:
        return asked.osts, "--osts"
    if asked.capacity_bytes is not None:
        needs = {"--capacity": asked.capacity_bytes}
    else:
        needs = {}
        if asked.retention_s is not None:
            stored = asked.net_daily_bytes * asked.retention_s / DAY_S
            needs["--retention"] = stored / asked.limit
        if asked.growth_bytes_per_year is not None:
            needs["--growth"] = asked.growth_bytes_per_year * asked.years / asked.limit
    why = max(needs, key=lambda option: needs[option])
    osts = math.ceil(needs[why] / ost_bytes * (1 - 1e-12))
    _check_osts(osts, why, ost_bytes)
    return osts, why


def _check_osts(osts: int, why: str, ost_bytes: float) -> None:
    if osts > MOST_OSTS:
        raise UsageError(
            f"{why}: it takes {osts:,} OSTs of {ost_bytes / 1e12:.0f} TB",
            hint=f"at most {MOST_OSTS:,}; is a unit wrong?",
        )


def _operating_fullness(asked: Asked, capacity: float) -> float:
    """Return how full it will be: the limit, or less where retention keeps it emptier."""
    if asked.retention_s is None:
        return asked.limit
    stored = asked.net_daily_bytes * asked.retention_s / DAY_S
    return min(asked.limit, max(0.05, stored / capacity))


def _simulate(
    asked: Asked, osts: int, ost_bytes: float, progress: Progress, miniature: Miniature
) -> _Simulated:
    capacity = osts * ost_bytes
    check_load(asked, capacity)
    daily, spare = asked.gross_daily_bytes / capacity, asked.drive.spare
    fullness = _operating_fullness(asked, capacity)
    words = {word: trimming.case_of(word, spare, fullness, daily) for word in trimming.WORDS}
    own = words[asked.trim]
    periods = [Case(spare, fullness, period) for period in trimming.PERIODS]
    curve = [replace(own, fullness=one) for one in _CURVE]
    peer = peer_of(asked.drive, fullness)
    others = cases_of(peer, own)
    cases = [*words.values(), *periods, *curve, *(others or ())]
    told = amplify(
        cases,
        probe_share=asked.daily_probe_writes_bytes / asked.gross_daily_bytes,
        miniature=replace(miniature, seed=asked.seed),
        progress=progress,
    )
    by_case = dict(zip(cases, told, strict=True))
    amplified: dict[TrimWord, Amplified] = {word: by_case[words[word]] for word in trimming.WORDS}
    return _Simulated(
        amplified,
        tuple(by_case[one] for one in periods),
        tuple(by_case[one] for one in curve),
        Comparison(
            peer,
            by_case[words["never"]],
            by_case[own],
            by_case[others[0]] if others else None,
            by_case[others[1]] if others else None,
        ),
    )


def _built(asked: Asked, osts: int, ost_bytes: float, why: str, own: Amplified) -> Section:
    raid, drive = asked.raid, asked.drive
    drives = osts * raid.drives / raid.shared
    spare = drive.spare
    layout = f"{raid.data}+{raid.parity}+{raid.spares} over {raid.drives}"
    figures = (
        Figure("osts", "OSTs", float(osts), "", f"{why} asks for most", "an OST is never a part"),
        Figure("drives", "drives of OSTs", drives, "", "osts x drives of one", layout),
        Figure("raw_bytes", "raw capacity", drives * drive.capacity_bytes, "B",
               "drives x drive capacity", drive.name),
        Figure("ost_bytes", "capacity of an OST", ost_bytes, "B",
               "(drives - spares) x drive capacity x data / (data + parity)", layout),
        Figure("usable_bytes", "usable capacity", osts * ost_bytes, "B", "osts x ost_bytes",
               "as df shows it"),
        Figure("stored_bytes", "data at the limit", osts * ost_bytes * asked.limit, "B",
               "usable_bytes x fullness limit", "--fullness"),
        Figure("spare", "usable spare of the flash", spare, "1", "as given or assumed",
               "raw less sold size; bad blocks and tables leave less"),
        Figure("over_provisioning", "over-provisioning", spare / (1 - spare), "1",
               "spare / (1 - spare)", "the same, as a part of the capacity"),
        Figure("effective_spare", "spare with all that is free trimmed",
               1 - own.case.fullness * (1 - spare), "1", "1 - fullness x (1 - spare)",
               "Frankie et al. 2012: what was trimmed is as good as spare"),
        Figure("write_amplification", f"write amplification, trim {asked.trim}", own.simulated, "",
               f"simulated at {own.case.fullness:.0%}; formulas give {own.trimmed:.2f} (all free "
               f"trimmed) and {own.untrimmed:.2f} (nothing)",
               "miniature OST: ldiskfs's allocator over a page-mapped drive"),
    )  # fmt: skip
    return Section("built of", figures)


def _held(asked: Asked, osts: int, ost_bytes: float) -> tuple[Section, list[str]]:
    """Return how long data stays, and whether that is long enough."""
    usable = osts * ost_bytes
    net = asked.net_daily_bytes
    horizon_s = usable * asked.limit / net * DAY_S
    rewrite_s = usable / asked.gross_daily_bytes * DAY_S
    figures = (
        Figure("net_daily_bytes", "what a day adds to the data", net, "B",
               "daily writes x kept" if asked.growth_bytes_per_year is None
               else f"growth / {YEAR_DAYS}", "what owners delete themselves is left out"),
        Figure("purge_horizon_s", "purge horizon", horizon_s, "s",
               "usable_bytes x fullness limit / net_daily_bytes",
               "older data has to go, or it fills beyond the limit"),
        Figure("ost_write_s", "time to write an OST over once", rewrite_s, "s",
               "usable_bytes / (daily writes + probes)", "spread evenly"),
        Figure("five_ost_writes_s", "five times", 5 * rewrite_s, "s", "5 x ost_write_s",
               "after which untrimmed drives of a young Perlmutter had lost a tenth (SC21)"),
    )  # fmt: skip
    short = []
    if asked.retention_s is not None and horizon_s < asked.retention_s * (1 - 1e-9):
        short.append(
            f"data can stay {horizon_s / DAY_S:,.0f} days, not the {asked.retention_s / DAY_S:,.0f}"
            f" asked for, before it is {asked.limit:.0%} full"
        )
    grown = asked.growth_bytes_per_year
    if grown is not None and grown * asked.years > usable * asked.limit:
        short.append(
            f"it grows beyond the limit after {usable * asked.limit / grown:.1f} years, not "
            f"{asked.years:g}"
        )
    return Section("how long data stays", figures), short
