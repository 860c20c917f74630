"""`bad-checksums`: data arrived otherwise than they were sent, whatever the speed was.

An integrity incident: Lustre sends such a transfer again, which costs time, but what matters is
that something on the way changes data. NERSC saw two such incidents after checksums had been
turned on (seed 000, VI B). Only the kernel's log of a server shows it (``BAD WRITE CHECKSUM``), a
ring buffer: the count is a lower bound.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.explain.causes.cause import Cause
from trimtab.explain.causes.shared import UNSEEN, named
from trimtab.explain.context import Context, RunFact
from trimtab.explain.contrasts import NO_BAD_RUNS, not_available, weighed
from trimtab.explain.telemetry import CLIENTS, SERVERS, TARGETS, observe
from trimtab.message import Message
from trimtab.model.incident import Evidence, Route, Shape

if TYPE_CHECKING:
    import polars as pl

_NAME: Final = "checksum_errors_total"
_KINDS: Final = (*SERVERS, *CLIENTS, *TARGETS)
_WHAT: Final = "transfers with a bad checksum"
_GREW: Final = 2.0
_STOOD_BEFORE: Final = 0.0
_CAME_WITH: Final = 0.6
_NONE: Final = -2.0
"""No transfer was bad where all were checked and counted: there is no such incident."""
_OF_RUNS: Final = 2.0
_TOLD: Final = 1.5
_MESSAGE: Final = re.compile(r"bad[ -](?:write |read )?checksum|checksum (?:error|mismatch)", re.I)
_WRONG_DATA: Final = re.compile(
    r"not what was written|incorrect data|data (?:mismatch|corruption)"
    r"|verify(?:ing)? (?:failed|bad)|verification (?:failed|error)",
    re.I,
)
"""What the benchmarks' readers say of data that came back wrong (``trimtab.measure``)."""
_OFF: Final = frozenset({"0", "off", "false", "n"})


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against transfers that arrived damaged."""
    return (
        _counted(context),
        _in_time(context),
        _told(context),
        _read_back(context),
        _checked(context),
    )


def _counted(context: Context) -> Evidence:
    """Return whether bad transfers were counted in the bad hours."""
    import polars as pl

    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    bad = values.filter(pl.col("bad"))
    if bad.is_empty():
        why = seen.why_not(_NAME, kinds=_KINDS)
        return not_available("checksums-counted", _WHAT, Route.EXPECTED, why, source=_NAME)
    grown = _growth(values, bad=True)
    if grown:
        n = sum(count for count, _ in grown.values())
        first = min(at for _, at in grown.values())
        text = f"{n:.0f} {_WHAT} in the bad hours, at {named(grown)}"
        return weighed(
            "checksums-counted", text, Route.EXPECTED, _GREW, value=n, reference=0.0, unit="errors",
            targets=sorted(grown), at=first, source=_NAME,
        )  # fmt: skip
    most = float(bad.get_column("value").max() or 0.0)  # pyright: ignore[reportArgumentType]
    if most > 0:
        text = f"{most:.0f} {_WHAT} counted before the bad hours, none in them"
        return weighed(
            "checksums-counted-earlier",
            text,
            Route.EXPECTED,
            _STOOD_BEFORE,
            value=0.0,
            reference=0.0,
            unit="errors",
            source=_NAME,
        )
    machines = bad.get_column("target").n_unique()
    text = f"no {_WHAT} in the kernel logs of {machines} machines"
    return weighed(
        "checksums-none",
        text,
        Route.EXPECTED,
        _NONE,
        value=0.0,
        reference=0.0,
        unit="errors",
        source=_NAME,
    )


def _in_time(context: Context) -> Evidence:
    """Return whether none were counted in good hours: then they came with the incident."""
    import polars as pl

    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    subject = f"{_WHAT} in bad and good hours"
    for is_bad, which in ((True, "bad"), (False, "good")):
        times = values.filter(pl.col("bad") == is_bad).get_column("at").n_unique()
        if times < 2:
            reason = Message("too-few-counts", f"fewer than two counts in the {which} hours")
            return not_available("checksums-in-time", subject, Route.TIME, reason, source=_NAME)
    bad, good = (
        sum(count for count, _ in _growth(values, bad=which).values()) for which in (True, False)
    )
    text = f"{_WHAT}: {bad:.0f} in the bad hours, {good:.0f} in the good ones"
    weight = _CAME_WITH if bad and not good else 0.0
    return weighed(
        "checksums-in-time",
        text,
        Route.TIME,
        weight,
        value=bad,
        reference=good,
        unit="errors",
        source=_NAME,
        throughout=bool(bad and good),
    )


def _growth(values: pl.DataFrame, *, bad: bool) -> dict[str, tuple[float, datetime]]:
    """Return machine to how many were counted in the bad (the good) hours, and when the first.

    A count that goes down was set back by a boot, or messages have fallen out of the log: neither
    is a transfer that went wrong.
    """
    import polars as pl

    # Without a value before it, how many of them are new is not known.
    more = pl.col("value").diff().over("target", "label")
    grown = (
        values.sort("at")
        .with_columns(more=more)
        .filter((pl.col("bad") == bad) & (pl.col("more") > 0))
        .group_by("target", maintain_order=True)
        .agg(pl.col("more").sum(), pl.col("at").first())
    )
    return {target: (count, first) for target, count, first in grown.iter_rows()}


def _told(context: Context) -> Evidence:
    """Return whether the log book holds such a message."""
    subject = f"a message about {_WHAT} in the log book"
    messages = sorted(
        (
            event
            for event in context.events
            if _MESSAGE.search(event.detail) and context.is_bad(event.at)
        ),
        key=lambda event: event.at,
    )
    if not messages:
        return weighed("checksums-not-logged", f"no {subject.removeprefix('a ')}", Route.LOG, 0.0)
    first = messages[0]
    text = f"{subject} at {first.at:%d %B %H:%M}: {first.detail[:200]}"
    return weighed(
        "checksums-logged",
        text,
        Route.LOG,
        _TOLD,
        targets=first.targets,
        at=first.at,
        source=f"event {first.id}",
    )


def _read_back(context: Context) -> Evidence:
    """Return whether a probe read other data than it had written."""
    runs = [run for run in context.runs if context.is_bad(run.at)]
    subject = "runs that read back wrong data"
    if not runs:
        return not_available("data-verified", subject, Route.RUNS, NO_BAD_RUNS)
    wrong = [run for run in runs if _wrong_data(run)]
    if not wrong:
        # Few probes verify what they read.
        return weighed("data-verified", f"no {subject}, among those that verify", Route.RUNS, 0.0)
    return weighed(
        "data-verified",
        f"{len(wrong)} of {len(runs)} {subject}",
        Route.RUNS,
        _OF_RUNS,
        value=float(len(wrong)),
        reference=0.0,
        unit="runs",
        at=wrong[0].at,
        source=f"run {wrong[0].id}",
    )


def _wrong_data(run: RunFact) -> bool:
    return any(_WRONG_DATA.search(text) for text in (run.problem or "", *run.disbelieved))


def _checked(context: Context) -> Evidence:
    """Return whether transfers were checked at all: unchecked, none would be counted."""
    import polars as pl

    subject = "whether transfers carry checksums"
    if context.incident.shape is Shape.INTEGRITY:
        return weighed(
            "data-at-risk", "the incident itself is damaged transfers", Route.EXPECTED, 1.0
        )
    settings = observe(context).setting("checksums", kinds=_KINDS).filter(pl.col("bad"))
    if settings.is_empty():
        reason = Message("name-missing", "no snapshot contains the setting checksums")
        return not_available(
            "checksums-enabled", subject, Route.EXPECTED, reason, source="checksums"
        )
    values = set(settings.get_column("value").drop_nulls().to_list())
    off = {value for value in values if value.strip().lower() in _OFF}
    code, text = "checksums-on", "transfers carry checksums"
    if off == values and values:
        code, text = "checksums-off", "transfers carry no checksums: damage goes undetected"
    elif off:
        code, text = "checksums-partly-on", "some transfers carry checksums, others none"
    return weighed(
        code, text, Route.EXPECTED, 0.0, value=", ".join(sorted(values)), source="checksums"
    )


CAUSE: Final = Cause(
    id="bad-checksums",
    title="transfers with a bad checksum",
    prior=UNSEEN,  # none of the 13 days; two in the four months after checksums were turned on
    assess=assess,
    measurement=(
        "Find the nodes that the messages name, take them out of service, and move verified data "
        "(ior -W -R, or lnet_selftest with check=full) over each of their links; checksums stay on."
    ),
)
