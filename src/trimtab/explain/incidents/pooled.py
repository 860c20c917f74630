"""Times at which most probes were slow together, although no series shows a change by itself.

Each probe is one voice, whatever it measures. A run is compared with its own series: the share of
runs that are as low. The probability that most voices are low in one round by chance is then a
matter of counting, whatever their tails; shared noise makes it far more likely, and the scatter of
the rounds' medians reveals that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from trimtab.base.incident import Shape
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.explain.incidents.spell import (
    Residuals,
    SeriesPart,
    Spell,
    apart,
    carried,
    grouped,
    name_of,
)
from trimtab.judge.array import scatter
from trimtab.judge.quantile import binomials_above
from trimtab.judge.spread import usual_gap_s

VOICES: Final = 3
"""Fewest low voices in a round, and they must be more than half of those that ran."""
SHARES: Final = (0.1, 0.05, 0.02, 0.01)
"""A voice is low in a round if at most this share of its rounds are as low."""
A_MONTH: Final = 0.05
"""Chance rate per 30 days at which one share and one group of independent voices are low."""
LOST: Final = 0.15
"""Smallest median loss of the low voices: that of all targets alike (`slow_surveys`)."""
TOGETHER: Final = 6.0
"""Robust standard deviations of the rounds' medians by which the median of the voices is low.

At 4.5, shared noise with tails as heavy as Student's t with 3 degrees of freedom gives one a month;
at 6, one in three to ten months (tests/explain/incidents/test_pooled.py).
"""
_RUNS_LEAST: Final = 24
"""Fewest runs, and rounds, to know how often one is low."""
_CUT: Final = 8.0
"""Standard deviations at which a run is clipped: an unfinished one weighs as much."""
_HOUR_S: Final = 3600.0
_MONTH_S: Final = 30 * 86400.0
_GROUPS: Final[dict[str, str | None]] = {
    "probes": None,
    "probes that write": "write",
    "probes that read": "read",
}


@dataclass(frozen=True, slots=True)
class _Series:
    """One series of a probe with its residuals."""

    key: SeriesKey
    runs: Residuals

    @property
    def scaled(self) -> Any:
        """Residuals in standard deviations of the series; an unfinished run is at the bottom."""
        scaled = np.clip(self.runs.residuals / self.runs.scale, -_CUT, _CUT)
        return np.where(self.runs.unfinished, -_CUT, scaled)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The rounds of several voices: one row per round, one column per voice.

    Attributes
    ----------
    names
        Series names of each voice.
    first, last
        Earliest and latest run of each round, seconds since 1970.
    width_s
        Distance of rounds.
    scaled, logs
        Residuals, NaN if a voice did not run; ``logs`` also if it did not finish.
    runs, unfinished
        Counts per round.
    """

    names: tuple[tuple[str, ...], ...]
    first: Any
    last: Any
    width_s: float
    scaled: Any
    logs: Any
    runs: Any
    unfinished: Any


def pooled(looks: Sequence[Sequence[SeriesPart]]) -> list[Spell]:
    """Return the spells in which most probes, or most that write or read, were low together.

    Parameters
    ----------
    looks
        Every series in each look, by time. All metrics of one probe are one voice.
    """
    return carried((parts[0].look, _in_one_look(parts)) for parts in looks)


def _in_one_look(parts: Sequence[SeriesPart]) -> Iterator[Spell]:
    probes = _probes(parts)
    for name, access in _GROUPS.items():
        voices = [
            [series for series in probe if access in (None, _access(series.key))]
            for probe in probes
        ]
        voices = [voice for voice in voices if voice]
        if len(voices) >= VOICES and not (access and len(voices) == len(probes)):
            yield from _spells(name, _rounds(voices))


def _probes(parts: Sequence[SeriesPart]) -> list[list[_Series]]:
    """Return the series of each probe, one per access: bandwidth before other metrics."""
    probes: dict[tuple[str, str, str], dict[str, _Series]] = {}
    for part in sorted(parts, key=lambda part: "bandwidth" not in part.key.metric):
        key = part.key
        if key.target is None and part.frame.height >= _RUNS_LEAST:
            series = probes.setdefault((key.probe, key.kind, key.comparability), {})
            if _access(key) not in series:
                series[_access(key)] = _Series(key, part.runs)
    return [list(series.values()) for series in probes.values()]


def _access(key: SeriesKey) -> str:
    return key.metric.split("_")[0]


def _rounds(voices: Sequence[Sequence[_Series]]) -> _Rounds:
    """Return the runs of the voices by round.

    A round is as long as the distance of the median voice's runs, at least an hour, and rounds are
    split where the fewest runs begin.
    """
    times = [np.concatenate([series.runs.times for series in voice]) for voice in voices]
    spacings = [usual_gap_s(np.sort(part).tolist()) for part in times if np.ptp(part) > 0]
    width_s = max(_HOUR_S, float(np.median(spacings or [0.0])))
    everything = np.concatenate(times)
    phases = np.unique(everything % width_s)
    gaps = np.diff(np.append(phases, phases[0] + width_s))
    widest = int(np.argmax(gaps))
    offset_s = phases[widest] + gaps[widest] / 2
    numbers = np.floor((everything - offset_s) / width_s)
    rounds, place = np.unique(numbers, return_inverse=True)
    columns = np.repeat(np.arange(len(voices)), [len(part) for part in times])
    shape = (len(rounds), len(voices))
    first, last = np.full(len(rounds), np.inf), np.full(len(rounds), -np.inf)
    np.minimum.at(first, place, everything)
    np.maximum.at(last, place, everything)
    every = [series for voice in voices for series in voice]
    scaled, logs, unfinished = (
        np.concatenate(parts)
        for parts in (
            [series.scaled for series in every],
            [series.runs.residuals for series in every],
            [series.runs.unfinished for series in every],
        )
    )
    return _Rounds(
        names=tuple(tuple(name_of(series.key) for series in voice) for voice in voices),
        first=first,
        last=last,
        width_s=width_s,
        scaled=_means((place, columns), scaled, shape),
        logs=_means((place, columns), logs, shape),
        runs=np.bincount(place, minlength=len(rounds)),
        unfinished=np.bincount(place, weights=unfinished, minlength=len(rounds)).astype(np.int64),
    )


def _means(cells: tuple[Any, Any], values: Any, shape: tuple[int, int]) -> Any:
    """Return the mean of the values in each cell, NaN for empty cells."""
    known = np.isfinite(values)
    index = np.ravel_multi_index((cells[0][known], cells[1][known]), shape)
    counts = np.bincount(index, minlength=math.prod(shape)).reshape(shape)
    sums = np.bincount(index, weights=values[known], minlength=math.prod(shape)).reshape(shape)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _spells(name: str, rounds: _Rounds) -> Iterator[Spell]:
    """Yield the rounds in which most voices were low together, joined into spells."""
    shares = _shares(rounds.scaled)
    ran = np.isfinite(shares).sum(axis=1)
    enough = ran >= max(VOICES, math.ceil(len(rounds.names) / 2))
    if enough.sum() < _RUNS_LEAST:
        return
    middle = np.full(len(ran), np.nan)
    middle[enough] = np.nanmedian(rounds.scaled[enough], axis=1)
    usual = np.median(middle[enough])
    scale = max(0.1, scatter(middle[enough]))
    depth = np.nan_to_num((usual - middle) / scale, nan=0.0)
    low = np.zeros(shares.shape, dtype=bool)
    for share in SHARES:
        as_low = np.nan_to_num(shares, nan=1.0) <= share
        count = as_low.sum(axis=1)
        chance = binomials_above(count - 1, ran, share) * _MONTH_S / rounds.width_s
        most = (count >= VOICES) & (2 * count > ran) & (chance <= A_MONTH)
        low |= as_low & (most & enough & (depth >= TOGETHER))[:, None]
    together = np.flatnonzero(low.any(axis=1)).tolist()
    lost = [index for index in together if _lost(rounds.logs[index, low[index]])]
    at = [datetime.fromtimestamp(time, UTC) for time in rounds.first]
    for members in grouped(lost, at.__getitem__, apart(at)):
        yield _spell(name, rounds, low, members, float(depth[members].max()))


def _shares(scaled: Any) -> Any:
    """Return for each run the share of its voice's runs that are as low; NaN if it did not run."""
    shares = np.full(scaled.shape, np.nan)
    for column in range(scaled.shape[1]):
        known = np.isfinite(scaled[:, column])
        values = scaled[known, column]
        shares[known, column] = np.searchsorted(np.sort(values), values, side="right") / len(values)
    return shares


def _lost(logs: Any) -> bool:
    """Return whether the low voices lost enough, counting those that finished if any did."""
    finished = logs[np.isfinite(logs)]
    return not len(finished) or float(np.median(finished)) <= math.log(1 - LOST)


def _spell(name: str, rounds: _Rounds, low: Any, members: Sequence[int], depth: float) -> Spell:
    index = list(members)
    logs = rounds.logs[index][low[index]]
    finished = logs[np.isfinite(logs)]
    effect = math.exp(float(np.median(finished))) if len(finished) else None
    size = "none finished" if effect is None else f"at {effect * 100:.0f} % of the usual"
    is_low, ran = low[index].any(axis=0), np.isfinite(rounds.scaled[index]).any(axis=0)
    begin, end = (
        datetime.fromtimestamp(float(edge), UTC)
        for edge in (rounds.first[index].min(), rounds.last[index].max())
    )
    goes_on = index[-1] == len(rounds.first) - 1
    return Spell(
        shape=Shape.DIP,
        key=None,
        name=f"most {name}",
        at=begin,
        until=None if goes_on else end,
        last=end,
        detected_at=datetime.fromtimestamp(float(rounds.last[index[0]]), UTC),
        certainty=ChangeStatus.CONFIRMED,
        depth=depth,
        what=f"low together, {is_low.sum()} of {ran.sum()} that ran, {size}",
        effect=effect,
        runs=int(rounds.runs[index].sum()),
        unfinished=int(rounds.unfinished[index].sum()),
        moved=tuple(
            name
            for names, low_too in zip(rounds.names, is_low, strict=True)
            if low_too
            for name in names
        ),
    )
