"""What a survey writes into the store before and after each server, and how it is found again.

Killed, Trimtab tells nobody where its results lie, and with them the numbers of its objects and of
its process group. The note that was kept before it began does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from trimtab.measure.obdfilter_survey.commands import SurveySpec
from trimtab.model.event import Event
from trimtab.model.run import Sample

PROBE_NAME: Final = "survey-server"
SOURCE: Final = "survey"
_DIRECTORY: Final = re.compile(r"/tmp/trimtab-survey-[A-Za-z0-9]{10}")


def is_directory(text: str) -> bool:
    """Return whether a text is the directory of a survey and nothing else."""
    return _DIRECTORY.fullmatch(text) is not None


def begins(server: str, directory: str) -> str:
    """Return the note that is kept before a survey begins on a server."""
    return f"{_begins(server)} results in {directory}"


def ended(server: str, outcome: str, problems: str) -> str:
    """Return the note that is kept after it; what stays names its directory."""
    return f"{_ended(server)} {outcome}; {problems or 'nothing left'}"


def results_left(events: Iterable[Event], server: str) -> str | None:
    """Return in words where the last survey of a server left its results, if it did.

    Parameters
    ----------
    events
        Of the site, the oldest first.

    Returns
    -------
    str or None
        ``None`` where the last one removed them, or none is known.
    """
    last: Event | None = None
    for event in events:
        ours = event.source == SOURCE and event.detail.startswith((_begins(server), _ended(server)))
        last = event if ours else last
    match = None if last is None else _DIRECTORY.search(last.detail)
    if last is None or match is None:
        return None
    place, at = match[0], f"{last.at:%Y-%m-%d %H:%M} UTC"
    names = " and ".join(last.targets)
    return (
        f"the one of {at} on {names} left {server}:{place}, where survey.group is the number of its"
        " process group and survey.detail names its objects"
    )


def _begins(server: str) -> str:
    return f"{PROBE_NAME} begins on {server},"


def _ended(server: str) -> str:
    return f"{PROBE_NAME} ended on {server}:"


_WRITES: Final = frozenset({"write_bandwidth", "rewrite_bandwidth"})
_READS: Final = frozenset({"read_bandwidth"})


def cost_of(
    spec: SurveySpec, samples: Iterable[Sample], *, begun: bool
) -> Mapping[str, int | None]:
    """Return the bytes that a survey moved: of each target, the whole size in every ended test.

    A test that was cut short moved more than nothing, nobody knows how much. So it is a lower
    bound where a survey did not end, and ``None`` where one had ``begun`` and no test ended.
    """
    ended = [
        sample.metric
        for sample in samples
        if sample.target is not None and sample.statistic == "total" and sample.value is not None
    ]
    unknown = None if begun else 0

    def moved(metrics: frozenset[str]) -> int | None:
        return sum(metric in metrics for metric in ended) * spec.size_bytes or unknown

    return {"bytes_written": moved(_WRITES), "bytes_read": moved(_READS)}
