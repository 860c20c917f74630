"""obdfilter-survey: every OST by itself, from its own server; neither clients nor network.

What users take at that time is missing, to the fair share of their streams against the survey's
threads. Nothing averages an OST away, and no client hides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.twin.stack.job import USER_STREAM_BYTES_PER_S
from trimtab.twin.stack.sharing import Array

THREADS: Final = 64
"""Threads of a survey on one OST at its best point: an assumption, no document prints it."""


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """What a survey prints for each OST, bytes per second."""

    write_bytes_per_s: Array
    read_bytes_per_s: Array


def left_for(rate: Array, competing: Array, streams: Array | None = None) -> Array:
    """Return what one party of `THREADS` gets beside users who ask for ``competing``."""
    if streams is None:
        streams = np.ceil(competing / USER_STREAM_BYTES_PER_S)
    fair = rate * THREADS / (THREADS + streams)
    return np.maximum(rate - competing, fair)


def survey(
    per_ost_write: Array,
    per_ost_read: Array,
    competing: Array,
    competing_read: Array | None = None,
    streams: Array | None = None,
) -> SurveyResult:
    """Return what a survey of every OST measures.

    Parameters
    ----------
    per_ost_write, per_ost_read
        What each OST gives locally: `stack.ost.rates` without ``from_clients``, bytes per second.
    competing, competing_read
        What users ask of each OST meanwhile, bytes per second.
    streams
        Processes that the users' writes come from; ``None``: by `USER_STREAM_BYTES_PER_S`.
    """
    reading = np.zeros_like(per_ost_read) if competing_read is None else competing_read
    return SurveyResult(
        left_for(per_ost_write, competing, streams), left_for(per_ost_read, reading)
    )
