"""Which instrument has data within an incident, and what it could have seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trimtab.explain.context import Context
from trimtab.model.incident import Instrument

if TYPE_CHECKING:
    from trimtab.explain.context import RunFact


def instruments(context: Context) -> tuple[Instrument, ...]:
    """Return every probe and the survey of single targets, with what each could have noticed."""
    found = [_probe(name, runs, context) for name, runs in _by_probe(context.runs).items()]
    return (*found, _survey(context))


def _by_probe(runs: Iterable[RunFact]) -> dict[str, list[RunFact]]:
    probes: dict[str, list[RunFact]] = {}
    for run in runs:
        probes.setdefault(run.probe, []).append(run)
    return probes


def _probe(name: str, runs: list[RunFact], context: Context) -> Instrument:
    within = [run for run in runs if context.is_bad(run.at)]
    metrics = sorted({metric for run in runs for metric in run.values})
    return Instrument(
        name=name,
        metric=", ".join(metrics) or "none",
        notices_below=None,
        saw=any(run.values for run in within),
        reason=f"{len(within)} runs within the bad hours",
    )


def _survey(context: Context) -> Instrument:
    from trimtab.explain.contrasts import breadth

    seen = breadth(context)
    return Instrument(
        name="survey of single targets",
        metric="each target by itself",
        notices_below=None,
        saw=seen.surveyed,
        reason=seen.reason,
    )
