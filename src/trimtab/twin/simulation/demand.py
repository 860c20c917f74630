"""Users' demand: the volume per epoch, and the concurrent jobs at a moment."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, tzinfo

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Users
from trimtab.twin.simulation.streams import stream

_BUSIEST_HOUR = 15.0
"""Assumed: local time of the daily peak of writes."""
MEMORY_S = 6 * 3600.0
"""Assumed: correlation time of load; jobs run for hours."""
_BLOCK = 256


def rhythm(at: datetime, zone: tzinfo, users: Users) -> float:
    """Return the factor of the hour and weekday on the mean write rate; 1 over a week."""
    local = at.astimezone(zone)
    hour = local.hour + local.minute / 60.0
    day = 1.0 + users.rhythm * math.cos((hour - _BUSIEST_HOUR) * math.pi / 12.0)
    weekend = local.weekday() >= 5
    week = (1.0 - users.rhythm if weekend else 1.0) / (1.0 - users.rhythm * 2.0 / 7.0)
    return day * week


def mean_rhythm(at: datetime, seconds: float, zone: tzinfo, users: Users) -> float:
    """Return the mean of `rhythm` over an epoch, hour by hour.

    Otherwise an epoch of a day would use only the rate of its first hour, at night.
    """
    parts = max(1, math.ceil(seconds / 3600.0))
    step = timedelta(seconds=seconds / parts)
    return math.fsum(rhythm(at + part * step, zone, users) for part in range(parts)) / parts


class Demand:
    """Users' load by epoch.

    Parameters
    ----------
    seed
        Seed of the scenario.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._level = float(stream(seed, "demand", "start").standard_normal())
        self._draws = np.zeros(0)

    def step(self, epoch: int, at: datetime, zone: tzinfo, users: Users, seconds: float) -> float:
        """Return the load of this epoch relative to the weekly mean; call in order of epochs.

        Log-normal around the rhythm, with ``users.burstiness`` as its coefficient of variation and
        autocorrelation between epochs.
        """
        place = epoch % _BLOCK
        if place == 0:
            self._draws = stream(self.seed, "demand", epoch // _BLOCK).standard_normal(_BLOCK)
        keep = math.exp(-seconds / MEMORY_S)
        self._level = keep * self._level + math.sqrt(1.0 - keep**2) * float(self._draws[place])
        variance = math.log1p(users.burstiness**2)
        burst = math.exp(math.sqrt(variance) * self._level - variance / 2.0)
        return mean_rhythm(at, seconds, zone, users) * burst


def competing(rate: Array, users: Users, draws: np.random.Generator) -> Array:
    """Return the momentary demand of users' jobs on each real OST, in bytes/s.

    Jobs write in bursts: an OST with the mean ``rate`` has a Poisson number of writers, each with a
    log-normal rate around ``users.job_rate_bytes_per_s``, so that the mean over time is ``rate``. A
    job with files on all OSTs is slowed by the few OSTs with several writers.

    Parameters
    ----------
    rate
        Mean over the epoch, bytes/s of each real OST.
    """
    mean, sigma = users.job_rate_bytes_per_s, users.job_rate_sigma
    writers = draws.poisson(rate / mean)
    (some,) = writers.nonzero()
    busy = np.repeat(some, writers[some])
    each = draws.lognormal(math.log(mean) - sigma**2 / 2, sigma, len(busy))
    return np.asarray(np.bincount(busy, each, minlength=len(rate)), np.float64)


def unevenness(written: Array, weight: Array, users: Users, draws: np.random.Generator) -> Array:
    """Return factors of OSTs' deviations from their share, because file sizes differ.

    Bytes on an OST are a sum of so many log-normal files: the coefficient of variation is
    sqrt(exp(sigma^2) / files).

    Parameters
    ----------
    written
        Bytes on one OST of each column.
    """
    files = np.maximum(written / users.file_mean_bytes * weight, 1e-9)
    shape = np.minimum(files / math.exp(users.size_sigma**2), 1e15)
    return np.where(written > 0.0, draws.standard_gamma(shape) / shape, 0.0)
