"""What surveyed single targets: on the servers, or through the network from a client."""

from __future__ import annotations

from typing import Final

from trimtab.explain.context import Context

ON_SERVERS: Final = "obdfilter-survey"


def kinds_of_surveys(context: Context) -> tuple[str, ...]:
    """Return which benchmarks surveyed single targets in the bad hours, where that is known."""
    frame = context.surveys
    if "run" not in frame.columns or "at" not in frame.columns:
        return ()
    kinds = {run.id: run.kind for run in context.runs}
    surveyed = {run for at, run in frame.select("at", "run").rows() if at and context.is_bad(at)}
    return tuple(sorted({kinds[run] for run in surveyed if run in kinds}))


def on_servers(context: Context) -> bool:
    """Return whether a survey of the bad hours ran on the servers; true where no kind is known."""
    kinds = kinds_of_surveys(context)
    return not kinds or ON_SERVERS in kinds
