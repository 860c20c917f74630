"""The tables of the page about a year of two systems, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from real_year_data import (
    CONTROL,
    SITES,
    One,
    Rank,
    Year,
    YearRun,
    against,
    rank,
    ratio,
    ratio_of_quantiles,
)

from trimtab.base.run import RunStatus
from trimtab.base.series import Noise
from trimtab.base.units import format_value
from trimtab.base.verdict import Interval, VerdictStatus
from trimtab.judge.spread import cov, mad_cv

EDISON: Final = tuple(site for site in SITES if site.startswith("edison"))
BESIDE: Final = timedelta(days=60)
DIP: Final = 0.6
"""Of the median: a run below that is a dip."""
Stretch = tuple[datetime, datetime]
TOGETHER: Final = timedelta(minutes=45)
"""All probes of a file system run within that."""
_WINDOW_OF_RUNS: Final = 7
_BANDS: Final = ((0.0, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01))
_BREAK: Final = timedelta(days=14)
"""Nobody measured for longer: what happened then cannot be told from what is at its edge."""
_APART: Final = timedelta(days=7)
_AROUND: Final = timedelta(days=45)
_RUNS_MINIMUM: Final = 12
_BEST: Final = 0.9
_NOISE: Final = {
    Noise.FEW_BAD_EVENTS: "a few bad events",
    Noise.ALWAYS_NOISY: "always noisy",
    Noise.STEPS: "changes of level",
    Noise.CANNOT_TELL: "cannot tell",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction in per cent without the sign, ``-`` where there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def effect(value: float | None) -> str:
    """Return a ratio as a change in per cent, ``-`` where there is none."""
    return "-" if value is None else f"{100 * (value - 1):+.0f} %"


def effect_interval(interval: Interval | None) -> str:
    """Return the interval of a ratio as changes in per cent."""
    if interval is None:
        return "-"
    return f"{100 * (interval.low - 1):+.0f} to {100 * (interval.high - 1):+.0f} %"


def runs(year: Year) -> str:
    """Return what became of the rows of each file system."""
    head = (
        "file system",
        "rows",
        "judged",
        "another workload",
        "did not finish",
        "no figures",
        "first",
        "last",
    )
    rows = []
    for site in SITES:
        count = Counter(run.status for run in year.runs[site])
        times = [run.at for run in year.runs[site]]
        rows.append(
            (
                site,
                f"{len(year.runs[site]):,}",
                f"{count[RunStatus.OK]:,}",
                *(
                    str(count[status])
                    for status in (
                        RunStatus.INVALID_WORKLOAD,
                        RunStatus.UNFINISHED,
                        RunStatus.FAILED,
                    )
                ),
                *(f"{at:%Y-%m-%d}" for at in (times[0], times[-1])),
            )
        )
    return table(head, rows)


def verdicts(year: Year) -> str:
    """Return the year's figures of every series."""
    head = (
        "file system",
        "probe",
        "runs",
        "median",
        "COV, 95 %",
        "within levels",
        "MAD-CV",
        "COV / MAD-CV",
        "4 weeks: met / missed / cannot tell",
        "7 runs within 8 %",
        "made of",
    )
    return table(head, (_verdict(one) for one in year.series))


def _verdict(one: One) -> tuple[str, ...]:
    spread = one.judgement.overall
    count = Counter(at.status for at in one.judgement.rolling)
    interval = spread.cov_interval
    around = (
        "" if interval is None else f" ({percent(interval.low, 0)} to {percent(interval.high, 0)})"
    )
    return (
        one.site,
        one.probe,
        str(spread.n),
        format_value(one.median, "B/s"),
        f"{percent(spread.cov)}{around}",
        percent(spread.cov_within_regimes),
        percent(spread.mad_cv),
        "-" if spread.cov_over_mad_cv is None else f"{spread.cov_over_mad_cv:.1f}",
        " / ".join(
            str(count[status])
            for status in (VerdictStatus.MET, VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL)
        ),
        f"{percent(_quiet(one), 0)} %",
        _NOISE[spread.noise],
    )


def _quiet(one: One) -> float:
    """Return the share of stretches of seven runs whose COV is at most 8 %."""
    values = [run.value or 0.0 for run in one.runs]
    windows = [
        cov(values[start : start + _WINDOW_OF_RUNS])
        for start in range(len(values) - _WINDOW_OF_RUNS + 1)
    ]
    return sum(k is not None and k <= 0.08 for k in windows) / len(windows)


def changes(year: Year) -> str:
    """Return every change of level."""
    head = (
        "file system",
        "probe",
        "first run after",
        "change",
        "95 %",
        "from",
        "to",
        "status",
        "told",
    )
    rows = [
        (
            one.site,
            one.probe,
            f"{change.at:%Y-%m-%d}",
            effect(change.effect),
            effect_interval(change.effect_interval),
            format_value(change.before, "B/s"),
            format_value(change.after, "B/s"),
            change.status.value,
            f"{change.confirmed_at or change.detected_at:%Y-%m-%d}",
        )
        for one in year.series
        for change in one.judgement.changes
    ]
    return table(head, sorted(rows, key=lambda row: (row[0], row[2], row[1])))


def july(year: Year) -> str:
    """Return each probe of Edison before and after the break of July 2017."""
    head = ("probe", *(f"{site}, 95 %" for site in EDISON))
    rows = []
    for first in year.at(EDISON[0]):
        cells = []
        for site in EDISON:
            one = year.of(site, first.probe)
            ended, began = _longest_break(one)
            before, after = one.values(ended - BESIDE, ended), one.values(began, began + BESIDE)
            found = ratio(after, before)
            levels = " to ".join(format_value(median(side), "B/s") for side in (before, after))
            change = "-" if found is None else f"{effect(found.value)}"
            around = "-" if found is None else effect_interval(found.interval)
            cells.append(f"{levels}: {change} ({around})")
        rows.append((first.probe, *cells))
    return table(head, rows)


def _longest_break(one: One) -> Stretch:
    """Return the last run before the longest time without one, and the first after it."""
    times = [run.at for run in one.runs]
    return max(pairwise(times), key=lambda pair: pair[1] - pair[0])


def fullness(year: Year) -> str:
    """Return write bandwidth against the fullest OST."""
    head = (
        "file system",
        "probe",
        "runs",
        "fullest OST",
        "under 70 %",
        "70 to 80 %",
        "80 to 90 %",
        "over 90 %",
        "rank correlation, 95 %",
        "within a month, 95 %",
    )
    rows = []
    for one in (one for site in EDISON for one in year.at(site) if one.writes):
        found = rank(one, lambda run: run.telemetry.get("fullest_target_fraction"))
        known = [
            (run.telemetry["fullest_target_fraction"], run.value)
            for run in one.runs
            if run.value is not None and "fullest_target_fraction" in run.telemetry
        ]
        shares = [share for share, _ in known]
        rows.append(
            (
                one.site,
                one.probe,
                str(len(known)),
                f"{percent(min(shares), 0)} to {percent(max(shares), 0)} %",
                *(
                    _band([value for share, value in known if low <= share < high])
                    for low, high in _BANDS
                ),
                *_ranks(found),
            )
        )
    return table(head, rows)


def episodes(year: Year) -> str:
    """Return each stretch with an OST over 90 %, against other runs of the weeks around it."""
    head = ("file system", "from", "to", "runs", "median", "other runs within 45 d", "ratio")
    rows = []
    for site in EDISON:
        one, stretches = year.of(site, "ior-fpp-write"), list[list[YearRun]]()
        full = [run for run in one.runs if run.telemetry.get("fullest_target_fraction", 0.0) >= 0.9]
        for run in full:
            if not stretches or run.at - stretches[-1][-1].at > _APART:
                stretches.append([])
            stretches[-1].append(run)
        for found in stretches:
            first, last = found[0].at, found[-1].at
            apart = [
                run.value
                for run in one.runs
                if run.value is not None
                and run not in full
                and first - _AROUND <= run.at <= last + _AROUND
            ]
            own = [run.value for run in found if run.value is not None]
            rows.append(
                (
                    site,
                    f"{first:%Y-%m-%d}",
                    f"{last:%Y-%m-%d}",
                    str(len(own)),
                    format_value(median(own), "B/s"),
                    f"{format_value(median(apart), 'B/s')} ({len(apart)})",
                    f"{median(own) / median(apart):.2f}",
                )
            )
    return table(head, rows)


def _band(values: Sequence[float]) -> str:
    return f"{format_value(median(values), 'B/s')} ({len(values)})" if values else "-"


def _ranks(found: Rank | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    pairs = ((found.raw, found.raw_interval), (found.alone, found.alone_interval))
    first, second = (
        f"{value:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})" for value, interval in pairs
    )
    return first, second


def _rate(name: str) -> Callable[[YearRun], float | None]:
    """Return an amount over the run as a rate: a slow run lasts longer, and meets more."""

    def of(run: YearRun) -> float | None:
        amount = run.telemetry.get(name)
        return None if amount is None or not run.walltime_s else amount / run.walltime_s

    return of


def _plain(name: str) -> Callable[[YearRun], float | None]:
    return lambda run: run.telemetry.get(name)


FIGURES: Final[Mapping[str, Callable[[YearRun], float | None]]] = {
    "fullest OST": _plain("fullest_target_fraction"),
    "mean fullness": _plain("mean_fullness_fraction"),
    "bytes that others read, a second": _rate("other_bytes_read"),
    "bytes that others wrote, a second": _rate("other_bytes_written"),
    "metadata operations, a second": _rate("metadata_operations"),
    "CPU of the MDS, mean": _plain("mds_cpu_mean_fraction"),
    "jobs on the machine": _plain("concurrent_jobs"),
    "how far apart the job's nodes are": _plain("job_radius_mean"),
}


def moves(year: Year) -> str:
    """Return which figures of the moment go with bandwidth on Edison."""
    head = (
        "figure of the moment",
        "writes: median (lowest to highest)",
        "lower / higher / neither",
        "reads: median (lowest to highest)",
        "lower / higher / neither",
    )
    rows = []
    for name, of in FIGURES.items():
        cells = []
        for writes in (True, False):
            found = [
                one_rank
                for site in EDISON
                for one in year.at(site)
                if one.writes is writes and (one_rank := rank(one, of)) is not None
            ]
            alone = [one.alone for one in found]
            lower = sum(one.alone_interval.high < 0 for one in found)
            higher = sum(one.alone_interval.low > 0 for one in found)
            cells += [
                f"{median(alone):+.2f} ({min(alone):+.2f} to {max(alone):+.2f})",
                f"{lower} / {higher} / {len(found) - lower - higher}",
            ]
        rows.append((name, *cells))
    return table(head, rows)


def failovers(year: Year) -> str:
    """Return what was slower or faster while a server stood in for another.

    Each edge is held against the same days of the file system without failovers. Left out are
    edges with fewer than `_RUNS_MINIMUM` runs on a side, or beside a `_BREAK`.
    """
    head = (
        "file system",
        "edge",
        "probe",
        "runs with, without",
        "median, with over without, 95 %",
        f"against {CONTROL}, 95 %",
        "best tenth, with over without, 95 %",
        f"against {CONTROL}, 95 %",
    )
    rows = [
        (site, f"{word} {at:%Y-%m-%d}", one.probe, *_compared(year, one, with_, without))
        for site in EDISON
        for word, at, with_, without in edges(year, site)
        for one in year.at(site)
    ]
    return table(head, rows)


def edges(year: Year, site: str) -> Iterator[tuple[str, datetime, Stretch, Stretch]]:
    """Yield each begin and end of a failover with the stretch on either side, with it first."""
    times = sorted(run.at for one in year.at(site) for run in one.runs)
    for event in year.events[site]:
        began, ended, moment = event.at, event.until, timedelta(seconds=1)
        for word, at, with_, without in (
            ("began", began, (began, min(began + BESIDE, ended)), (began - BESIDE, began - moment)),
            ("ended", ended, (max(began, ended - BESIDE), ended), (ended + moment, ended + BESIDE)),
        ):
            whole = [
                one
                for one in times
                if min(with_[0], without[0]) <= one <= max(with_[1], without[1])
            ]
            enough = all(
                min(len(one.values(*with_)), len(one.values(*without))) >= _RUNS_MINIMUM
                for one in year.at(site)
            )
            broken_off = any(later - one > _BREAK for one, later in pairwise(whole))
            if enough and not broken_off:
                yield word, at, with_, without


def _compared(year: Year, one: One, with_: Stretch, without: Stretch) -> tuple[str, ...]:
    own = ratio(one.values(*with_), one.values(*without))
    same = year.of(CONTROL, one.probe)
    apart = against(own, ratio(same.values(*with_), same.values(*without)))
    best, best_of_control = (
        ratio_of_quantiles(each.values(*with_), each.values(*without), _BEST)
        for each in (one, same)
    )
    if own is None:
        raise AssertionError("an edge has runs on both sides")
    return (
        f"{own.n[0]}, {own.n[1]}",
        *(
            "-" if found is None else f"{effect(found.value)} ({effect_interval(found.interval)})"
            for found in (own, apart, best, against(best, best_of_control))
        ),
    )


def broken(year: Year) -> str:
    """Return what the broken probe would have looked like to somebody who did not notice."""
    head = (
        "file system",
        "runs that moved 22.5 MiB",
        "from",
        "to",
        "printed",
        "usual",
        "COV as judged",
        "COV with them",
    )
    rows = []
    for site in EDISON:
        one = year.of(site, "dbscan_read")
        odd = [run for run in one.left_out if "22.5 MiB" in (run.problem or "")]
        printed = [run.value or 0.0 for run in odd]
        times = [run.at for run in odd]
        rows.append(
            (
                site,
                str(len(odd)),
                f"{times[0]:%Y-%m-%d}",
                f"{times[-1]:%Y-%m-%d}",
                f"{format_value(min(printed), 'B/s')} to {format_value(max(printed), 'B/s')}",
                format_value(one.median, "B/s"),
                f"{percent(one.judgement.overall.cov)} %",
                f"{percent(cov([*one.values(), *printed]))} %",
            )
        )
    return table(head, rows)


def dips(year: Year) -> str:
    """Return what a COV is made of: runs far below the median against all others."""
    head = (
        "file system",
        "probe",
        "COV",
        "MAD-CV",
        f"runs under {percent(DIP, 0)} % of the median",
        "of these together with another probe",
        "COV without them",
    )
    rows = []
    for site in ("mira-fs1", "edison-scratch2"):
        low = {
            one.probe: [run for run in one.runs if (run.value or 0.0) < DIP * one.median]
            for one in year.at(site)
        }
        for one in year.at(site):
            others = [run.at for probe, found in low.items() if probe != one.probe for run in found]
            together = sum(
                any(abs(at - run.at) <= TOGETHER for at in others) for run in low[one.probe]
            )
            rest = [value for value in one.values() if value >= DIP * one.median]
            rows.append(
                (
                    site,
                    one.probe,
                    percent(one.judgement.overall.cov),
                    percent(mad_cv(one.values())),
                    f"{len(low[one.probe])} of {len(one.runs)}",
                    str(together),
                    percent(cov(rest)),
                )
            )
    return table(head, rows)


def unfinished(year: Year) -> str:
    """Return the runs that did less in far more time."""
    head = ("file system", "probe", "when", "what")
    rows = [
        (site, run.probe, f"{run.at:%Y-%m-%d %H:%M}", run.problem or "")
        for site in SITES
        for run in year.runs[site]
        if run.status is RunStatus.UNFINISHED
    ]
    return table(head, rows)


TABLES: Final[Mapping[str, Callable[[Year], str]]] = {
    "runs": runs,
    "verdicts": verdicts,
    "changes": changes,
    "july": july,
    "fullness": fullness,
    "episodes": episodes,
    "moves": moves,
    "failovers": failovers,
    "broken": broken,
    "dips": dips,
    "unfinished": unfinished,
}
