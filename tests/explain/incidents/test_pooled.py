"""Most probes low together: how often noise makes it, that it is found, and the year of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import found
from tests.support.counts import repetitions

from trimtab.base.incident import Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.slow_hour import POOLED_LOST, pooled
from trimtab.explain.spell import Judged, LookedSeries, Spell
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

STILL = LevelChanges((), False, 0.0, 0.05)
Change = Callable[[int, np.ndarray], None]


def key(probe: str, metric: str = "write_bandwidth") -> SeriesKey:
    return SeriesKey("s", probe, "ior", metric, "B/s", probe)


def judged(frames: Mapping[SeriesKey, pl.DataFrame]) -> Judged:
    return [(judge_series(frame, of, changes=STILL), frame) for of, frame in frames.items()]


def pooled_of(frames: Mapping[SeriesKey, pl.DataFrame]) -> list[Spell]:
    """Return what series without changes of level show together."""
    now = max((frame["at"][-1] for frame in frames.values()), default=series.START)
    return pooled(LookedSeries(judged(frames), now).together())


def probes(
    seed: int, voices: int, runs: int, *, kind: str = "normal", common: float = 0.0,
    cov: float = 0.2, step_s: float = 86400.0, change: Change = lambda voice, values: None,
) -> dict[SeriesKey, pl.DataFrame]:  # fmt: skip
    """Return probes whose noise is their own but for a share ``common`` of its variance."""
    rng = np.random.default_rng(seed)
    shared = series.ar1(runs, 0.3, rng, innovations=kind)
    frames = {}
    for voice in range(voices):
        alone = series.ar1(runs, 0.3, rng, innovations=kind)
        noise = np.sqrt(common) * shared + np.sqrt(1 - common) * alone
        values = series.lognormal(noise, cov=cov)
        change(voice, values)
        metric = "write_bandwidth" if voice % 2 else "read_bandwidth"
        frames[key(f"p{voice}", metric)] = series.frame(values, step_s=step_s)
    return frames


@pytest.mark.calibration
@pytest.mark.parametrize("voices", [3, 8])
@pytest.mark.parametrize(
    ("kind", "common", "most", "in_the_gate"),
    [
        *(("normal", 0.0, 0, 0), ("t3", 0.0, 1, 0), ("laplace", 0.0, 1, 0)),
        *(("normal", 0.5, 0, 0), ("t3", 0.5, 20, 8)),
    ],
)
@pytest.mark.parametrize("years", repetitions(gate=1, soak=5))
def test_noise_hardly_ever_makes_it(
    kind: str, common: float, most: int, in_the_gate: int, voices: int, years: int
) -> None:
    """Five years of daily runs and half a year of hourly ones: 66 months; in the gate a fifth.

    Normal noise that all have in common goes as far in all of them, and is not told for that.
    Common heavy tails (Student's t with 3 degrees of freedom, half of the variance) are 0.1 to 0.3
    a month: a shock that meets every probe is what is looked for.
    """
    spells = [
        *pooled_of(probes(1, voices, years * 365, kind=kind, common=common)),
        *pooled_of(probes(2, voices, 24 * 36 * years, kind=kind, common=common, step_s=3600.0)),
    ]
    assert len(spells) <= (most if years == 5 else in_the_gate)


def low_at(place: int, factor: float, least: int = 0) -> Change:
    def change(voice: int, values: np.ndarray) -> None:
        if voice >= least:
            values[place] *= factor

    return change


@pytest.mark.calibration
def test_a_day_on_which_all_lose_a_third_is_found_though_no_probe_shows_it() -> None:
    found = 0
    for seed in range(10):
        spells = pooled_of(probes(seed, 8, 200, change=low_at(150, 0.6)))
        found += any(spell.name == "most probes" for spell in spells)
    assert found >= 9


def test_reads_alone_are_found_and_named() -> None:
    def reads(voice: int, values: np.ndarray) -> None:
        if voice % 2 == 0:
            values[150] *= 0.3

    (spell,) = pooled_of(probes(3, 8, 200, change=reads))
    assert spell.name == "most probes that read"
    assert spell.effect == pytest.approx(0.3, rel=0.3)
    assert spell.moved == tuple(f"p{voice} read_bandwidth" for voice in (0, 2, 4, 6))
    assert (spell.shape, spell.runs, spell.until) == (Shape.DIP, 4, spell.last)


def test_it_is_one_incident_that_names_who_was_low_and_who_got_better() -> None:
    def mixed(voice: int, values: np.ndarray) -> None:
        values[150] *= 0.5 if voice < 6 else 2.5

    frames = probes(3, 8, 200, cov=0.1, change=mixed)
    end = series.START.replace(year=2027)
    (incident,) = found(frames, changes=STILL, surveys=pl.DataFrame(), now=end).incidents
    assert incident.at == series.START + (frames[key("p1")]["at"][150] - series.START)
    assert {name.split()[0] for name in incident.moved_with} >= {f"p{voice}" for voice in range(6)}
    assert [name.split()[0] for name in incident.better] == ["p6", "p7"]
    assert all(name.endswith("% higher") for name in incident.better)


def test_metrics_of_one_probe_are_one_voice() -> None:
    frames = probes(3, 2, 200, change=low_at(150, 0.4))
    same = {
        SeriesKey("s", "p0", "ior", metric, "B/s", "p0"): frames[key("p0", "read_bandwidth")]
        for metric in ("write_bandwidth", "read_bandwidth", "write_iops", "read_iops")
    }
    assert pooled_of({**frames, **same}) == []


def test_runs_that_did_not_finish_are_the_lowest() -> None:
    frames = probes(3, 4, 200)
    lost = {
        of: frame.with_columns(
            value=pl.when(pl.int_range(pl.len()) == 150).then(None).otherwise("value"),
            unfinished=pl.int_range(pl.len()) == 150,
        )
        for of, frame in frames.items()
    }
    spells = pooled_of(lost)
    assert [(spell.name, spell.unfinished, spell.effect) for spell in spells] == [
        ("most probes", 4, None)
    ]


def test_what_lost_little_is_not_told() -> None:
    """A tenth of a per cent of scatter shows a loss of 5 %, of which nobody is to be told."""
    assert pooled_of(probes(3, 8, 200, cov=0.001, change=low_at(150, 0.95))) == []
    assert pooled_of(probes(3, 8, 200, cov=0.001, change=low_at(150, 1 - POOLED_LOST - 0.01))) != []


def test_few_runs_and_few_probes_say_nothing() -> None:
    assert pooled_of({}) == []
    assert pooled_of(probes(3, 8, 20, change=low_at(15, 0.3))) == []
    assert pooled_of(probes(3, 2, 200, change=low_at(150, 0.3))) == []


def of_site(shifts: np.random.Generator | None = None) -> Iterator[list[Spell]]:
    """Yield what is told of each file system of the public year; every probe shifted by itself."""
    sites: dict[str, dict[SeriesKey, pl.DataFrame]] = {}
    for name, times, speeds in series.real_runs():
        site, program, mode = name.split(maxsplit=2)
        values = np.array(speeds)
        if shifts is not None:
            values = np.roll(values, int(shifts.integers(30, len(values) - 30)))
        at = [datetime.fromtimestamp(time, UTC) for time in times]
        frame = pl.DataFrame(
            {"at": at, "value": values, "unfinished": [False] * len(at)},
            schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "unfinished": pl.Boolean},
        )
        of = key(f"{program} {mode}", f"{mode.split()[0]}_bandwidth")
        sites.setdefault(site, {})[of] = frame
    for members in sites.values():
        yield pooled_of(members)


@pytest.mark.calibration
@pytest.mark.parametrize("rounds_by_chance", repetitions(gate=1, soak=3))
def test_the_public_year_has_far_more_of_them_than_chance(rounds_by_chance: int) -> None:
    """Four file systems, eight daily probes each: 3 of them in ten years of shifted series."""
    if not series.real_runs():
        pytest.skip("no recorded data (set TRIMTAB_REAL_DATA)")
    rounds = {(place, spell.at.date()) for place, told in enumerate(of_site()) for spell in told}
    rng = np.random.default_rng(1)
    by_chance = [len(told) for _ in range(rounds_by_chance) for told in of_site(rng)]
    assert len(rounds) >= 15
    assert sum(by_chance) <= rounds_by_chance
