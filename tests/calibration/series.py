"""Series whose truth is known: nothing happens in them, or one step of a known size.

Frames as `trimtab.judge` takes them: ``at`` (hourly, UTC), ``value`` (B/s; null where the run did
not finish), ``unfinished``. Everything follows from the seed. Nothing of trimtab is imported: the
examiner must not share a mistake with what it examines.

`null_cases` and `step_cases` are the tables; a case makes a series from a seed::

    for case in null_cases():
        frame = case.make(seed=1)
"""

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
YEAR_HOURS = 8760
LEVEL_BYTES_PER_S = 1.0e11
COV = 0.05
PHIS = (0.0, 0.3, 0.5, 0.7)

_DEFAULT = Path(__file__).parent.parent.parent.parent / "shared" / "data"
TOKIO = Path(os.environ.get("TRIMTAB_REAL_DATA", _DEFAULT)) / "tokio-abc"

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of series.

    Attributes
    ----------
    kind
        ``normal``, ``t3``, ``laplace``, ``dips``, ``weekly``, ``unfinished`` or ``tokio``.
    phi
        Lag-1 autocorrelation of the noise's logarithm; ``None``: as the real residuals have it.
    hours
        Runs, one an hour.
    step_at, step
        Index of the first run after the step, and by how much the level changes (-0.08 is 8 %
        down); ``None`` where nothing happens.
    """

    name: str
    kind: str
    phi: float | None
    hours: int
    step_at: int | None
    step: float | None
    _values: Callable[[int, np.random.Generator], tuple[Floats, Floats]]

    def make(self, seed: int) -> pl.DataFrame:
        """Return the series of one seed; every case has random numbers of its own."""
        name = int.from_bytes(self.name.encode(), "big") % 2**63
        values, unfinished = self._values(self.hours, np.random.default_rng([name, seed]))
        if self.step_at is not None and self.step is not None:
            values = values.copy()
            values[self.step_at :] *= 1 + self.step
        return frame(values, unfinished)

    @property
    def changed_at(self) -> datetime | None:
        """When the step happens: the time of the first run after it."""
        return None if self.step_at is None else START + timedelta(hours=self.step_at)


def frame(
    values: Floats, unfinished: Floats | None = None, *, step_s: float = 3600.0
) -> pl.DataFrame:
    """Return a series of ``values`` in B/s as a frame, ``step_s`` seconds between its runs."""
    n = len(values)
    ended = np.zeros(n, dtype=bool) if unfinished is None else unfinished.astype(bool)
    kept = [None if bad else float(value) for value, bad in zip(values, ended, strict=True)]
    times = [START + timedelta(seconds=step_s * index) for index in range(n)]
    return pl.DataFrame(
        {"at": times, "value": kept, "unfinished": ended},
        schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "unfinished": pl.Boolean},
    )


def ar1(n: int, phi: float, rng: np.random.Generator, *, innovations: str = "normal") -> Floats:
    """Return ``n`` numbers of a stationary AR(1) series with mean 0 and variance 1.

    ``innovations``: ``normal``, ``t3`` (Student's with 3 degrees of freedom) or ``laplace``.
    """
    burn = 200  # 0.7^200 is nothing: the series begins as it goes on
    drawn = {
        "normal": lambda: rng.standard_normal(n + burn),
        "t3": lambda: rng.standard_t(3, n + burn) / np.sqrt(3.0),
        "laplace": lambda: rng.laplace(0.0, np.sqrt(0.5), n + burn),
    }[innovations]()
    series = np.empty(n + burn)
    last = 0.0
    scale = np.sqrt(1 - phi * phi)
    for index, shock in enumerate(drawn):
        last = phi * last + scale * shock
        series[index] = last
    return series[burn:]


def lognormal(noise: Floats, cov: float = COV) -> Floats:
    """Return values with median `LEVEL_BYTES_PER_S` and the COV given, of noise of variance 1."""
    return LEVEL_BYTES_PER_S * np.exp(np.sqrt(np.log1p(cov * cov)) * noise)


def with_dips(values: Floats, rng: np.random.Generator, share: float = 0.03) -> Floats:
    """Return the values with a share of them down to 30 to 80 %, each by itself."""
    hit = rng.random(len(values)) < share
    return np.where(hit, values * rng.uniform(0.3, 0.8, len(values)), values)


def with_week(values: Floats, depth: float = 0.1) -> Floats:
    """Return the values with a weekly cycle: ``depth`` down on weekdays by day, as much up else."""
    hour = np.arange(len(values))
    busy = ((hour // 24) % 7 < 5) & (hour % 24 >= 8) & (hour % 24 < 20)
    return values * np.where(busy, 1 - depth, 1 + depth)


def null_cases(hours: int = YEAR_HOURS) -> list[Case]:
    """Return the kinds of series in which nothing happens: every kind at every autocorrelation.

    The real residuals come last, and are left out where the data are absent (`TOKIO`).
    """
    made = [
        Case(f"{kind}, phi {phi}", kind, phi, hours, None, None, _maker(kind, phi))
        for kind in KINDS
        for phi in PHIS
    ]
    if TOKIO.is_dir():
        made.append(Case("tokio", "tokio", None, hours, None, None, _of_real))
    return made


def step_cases(
    *,
    steps: tuple[float, ...] = (-0.08, -0.04, 0.08, 0.04),
    phis: tuple[float, ...] = (0.5,),
    kinds: tuple[str, ...] = ("normal",),
    before_hours: int = 8 * 7 * 24,
    after_hours: int = 21 * 24,
) -> list[Case]:
    """Return the kinds of series with one lasting step, ``before_hours`` after they begin.

    The step falls on a morning: an odd hour, so that no day and no week ends with it.
    """
    at, end = before_hours + 7, before_hours + 7 + after_hours
    return [
        Case(f"{kind}, phi {phi}, step {step:+.0%}", kind, phi, end, at, step, _maker(kind, phi))
        for kind in kinds
        for phi in phis
        for step in steps
    ]


KINDS = ("normal", "t3", "laplace", "dips", "weekly", "unfinished")


def _maker(kind: str, phi: float) -> Callable[[int, np.random.Generator], tuple[Floats, Floats]]:
    def make(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        innovations = kind if kind in ("t3", "laplace") else "normal"
        values = lognormal(ar1(n, phi, rng, innovations=innovations))
        unfinished = np.zeros(n)
        if kind == "dips":
            values = with_dips(values, rng)
        elif kind == "weekly":
            values = with_week(values)
        elif kind == "unfinished":
            unfinished = (rng.random(n) < 0.02).astype(float)
        return values, unfinished

    return make


# --- real residuals -----------------------------------------------------------------------------

_LEVEL_RUNS = 41
_RUNS_MINIMUM = 200


@cache
def real_runs() -> tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...]:
    """Return time (s since 1970) and speed (MiB/s) of each real probe's runs; none without data.

    One probe of one file system a row: Edison's three and Mira's, read or write, each of IOR's
    file counts by itself. Runs that moved less than half of what their probe usually moves are
    left out: they did something else (Edison's ``dbscan_read`` in August 2017).
    """
    runs: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for path in sorted(TOKIO.glob("*.csv.gz")) if TOKIO.is_dir() else ():
        for row in _rows(path):
            _keep(row, runs)
    probes = []
    for probe, kept in sorted(runs.items()):
        usual = float(np.median([gibs for _, gibs, _ in kept]))
        believed = sorted((at, speed) for at, gibs, speed in kept if gibs > usual / 2)
        if len(believed) >= _RUNS_MINIMUM:
            times, speeds = zip(*believed, strict=True)
            probes.append((probe, times, speeds))
    return tuple(probes)


@cache
def real_residuals() -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return log residuals of each real probe by time, their level removed; none without data.

    The level is a running median over 41 runs (about six weeks of one run a day), so what is left
    has the dips, the scatter and the memory of the real thing and no lasting steps.
    """
    logs = [(probe, np.log(speeds)) for probe, _, speeds in real_runs()]
    return tuple(
        (probe, tuple((values - _running_median(values)).tolist())) for probe, values in logs
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as text:
        reader = csv.reader(text)
        header = next(reader)
        for row in reader:
            # Edison's rows begin with a number that the header has no name for.
            names = header if len(header) == len(row) else ["", *header]
            yield dict(zip(names, row, strict=True))


def _keep(row: dict[str, str], runs: dict[str, list[tuple[float, float, float]]]) -> None:
    speed = row["darshan_agg_perf_by_slowest_posix"]
    system = row["_file_system"]
    if not speed or not system or float(speed) <= 0:
        return
    write = float(row["darshan_biggest_write_fs_bytes"] or 0)
    read = float(row["darshan_biggest_read_fs_bytes"] or 0)
    files = row[f"darshan_biggest_{'write' if write > read else 'read'}_api_files"]
    program = row["darshan_app"].rpartition("/")[2]
    mode = "write" if write > read else "read"
    if program == "ior":
        mode += " one file" if files in ("1", "2") else " file per process"
    probe = f"{system} {program} {mode}"
    gibs = float(row["darshan_total_gibs_posix"] or 0)
    runs[probe].append((float(row["darshan_start_time"]), gibs, float(speed)))


def _running_median(values: Floats) -> Floats:
    reach = _LEVEL_RUNS // 2
    padded = np.pad(values, reach, mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, _LEVEL_RUNS), axis=1)


def _of_real(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return a series made of blocks of one real probe's residuals, drawn at random.

    Blocks of 24 runs keep the memory of neighbours. The real runs are a day apart: taken as hours,
    they stand for a probe whose noise has this shape, not for what those systems did in an hour.
    """
    probes = real_residuals()
    residuals = np.asarray(probes[int(rng.integers(len(probes)))][1])
    block = 24
    starts = rng.integers(0, len(residuals), -(-n // block))
    places = (starts[:, None] + np.arange(block)).ravel()[:n] % len(residuals)
    return LEVEL_BYTES_PER_S * np.exp(residuals[places]), np.zeros(n)
