"""`bad-checksums`: data arrived corrupted, at whatever speed.

An integrity incident: Lustre resends such a transfer, which costs time, but what matters is that
something on the path corrupts data. NERSC saw two such incidents after enabling checksums
[S1, VI.B]. Only a server's kernel log shows it (``BAD WRITE CHECKSUM``), and that is a ring buffer:
the count is a lower bound.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import polars as pl

from trimtab.base.incident import Evidence, Route, Shape
from trimtab.explain.causes.evidence import UNSEEN, named
from trimtab.explain.causes.run_evidence import says
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.contrast import NO_BAD_RUNS, Sign
from trimtab.explain.telemetry_frame import CLIENTS, SERVERS, TARGETS, observe

_NAME: Final = "checksum_errors_total"
_KINDS: Final = (*SERVERS, *CLIENTS, *TARGETS)
_WHAT: Final = "transfers with a bad checksum"
_GREW: Final = 2.0
_GREW_BESIDE: Final = 1.2
_STOOD_BEFORE: Final = 0.0
_CAME_WITH: Final = 0.6
_NONE: Final = -2.0
"""No bad transfer although all were checked and counted: not this incident."""
_OF_RUNS: Final = 2.0
_TOLD: Final = 1.5
_MESSAGE: Final = re.compile(r"bad[ -](?:write |read )?checksum|checksum (?:error|mismatch)", re.I)
_WRONG_DATA: Final = re.compile(
    r"not what was written|incorrect data|data (?:mismatch|corruption)"
    r"|verify(?:ing)? (?:failed|bad)|verification (?:failed|error)",
    re.I,
)
"""Wording in stored runs for the code ``data-corrupt`` of `trimtab.formats`."""
_OFF: Final = frozenset({"0", "off", "false", "n"})


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against corrupted transfers."""
    return (
        _counted(context),
        _in_time(context),
        _in_log(context),
        _read_back(context),
        _checked(context),
    )


def _counted(context: Context) -> Evidence:
    sign = Sign("checksums-counted", Route.EXPECTED, _WHAT, source=_NAME, unit="errors")
    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    bad = values.filter("bad")
    if bad.is_empty():
        return sign.not_available(seen.why_not(_NAME, kinds=_KINDS))
    grown = _growth(values, bad=True)
    if grown:
        n = sum(count for count, _ in grown.values())
        first = min(at for _, at in grown.values())
        text = f"{n:.0f} {_WHAT} in the bad hours, at {named(grown)}"
        # A resent transfer slows nothing noticeably; as an integrity incident it has one of its
        # own.
        weight = _GREW if context.incident.shape is Shape.INTEGRITY else _GREW_BESIDE
        return sign.weighed(text, weight, value=n, reference=0.0, targets=sorted(grown), at=first)
    most = float(bad["value"].max() or 0.0)  # pyrefly: ignore[bad-argument-type]
    if most > 0:
        text = f"{most:.0f} {_WHAT} counted before the bad hours, none in them"
        return sign.weighed(
            text, _STOOD_BEFORE, code="checksums-counted-earlier", value=0.0, reference=0.0
        )
    machines = bad["target"].n_unique()
    text = f"no {_WHAT} in the kernel logs of {machines} machines"
    return sign.weighed(text, _NONE, code="checksums-none", value=0.0, reference=0.0)


def _in_time(context: Context) -> Evidence:
    """Return whether none were counted in good hours, so that they began with the incident."""
    seen = observe(context)
    values = seen.labelled(_NAME, kinds=_KINDS)
    sign = Sign(
        "checksums-in-time",
        Route.TIME,
        f"{_WHAT} in bad and good hours",
        source=_NAME,
        unit="errors",
    )
    for is_bad, hours in ((True, "bad"), (False, "good")):
        times = values.filter(bad=is_bad)["at"].n_unique()
        if times < 2:
            return sign.missing("too-few-counts", f"fewer than two counts in the {hours} hours")
    bad, good = (
        sum(count for count, _ in _growth(values, bad=side).values()) for side in (True, False)
    )
    text = f"{_WHAT}: {bad:.0f} in the bad hours, {good:.0f} in the good ones"
    weight = _CAME_WITH if bad and not good else 0.0
    return sign.weighed(text, weight, value=bad, reference=good, throughout=bool(bad and good))


def _growth(values: pl.DataFrame, *, bad: bool) -> dict[str, tuple[float, datetime]]:
    """Return per machine how many were counted in the bad (or good) hours, and when the first.

    A falling count means a reboot, or messages that dropped out of the log; neither is a bad
    transfer.
    """
    # Without a previous value, the number of new ones is unknown.
    more = pl.col("value").diff().over("target", "label")
    grown = (
        values.sort("at")
        .with_columns(more=more)
        .filter((pl.col("bad") == bad) & (pl.col("more") > 0))
        .group_by("target", maintain_order=True)
        .agg(pl.sum("more"), pl.first("at"))
    )
    return {target: (count, first) for target, count, first in grown.iter_rows()}


def _in_log(context: Context) -> Evidence:
    """Return whether the log book contains such a message."""
    sign = Sign("checksums-logged", Route.LOG)
    subject = f"a message about {_WHAT} in the log book"
    messages = context.entries(
        lambda event: _MESSAGE.search(event.detail) and context.is_bad(event.at)
    )
    if not messages:
        return sign.weighed(f"no {subject.removeprefix('a ')}", 0.0, code="checksums-not-logged")
    first = messages[0]
    text = f"{subject} at {first.at:%d %B %H:%M}: {first.detail[:200]}"
    return sign.weighed(text, _TOLD, first, targets=first.targets)


def _read_back(context: Context) -> Evidence:
    runs = [run for run in context.runs if context.is_bad(run.at)]
    subject = "runs that read back wrong data"
    sign = Sign("data-verified", Route.RUNS, subject, unit="runs")
    if not runs:
        return sign.not_available(NO_BAD_RUNS)
    wrong = [run for run in runs if _wrong_data(run)]
    if not wrong:
        # Few probes verify what they read.
        return sign.weighed(f"no {subject}, among those that verify", 0.0, unit=None)
    text = f"{len(wrong)} of {len(runs)} {subject}"
    return sign.weighed(text, _OF_RUNS, wrong[0], value=float(len(wrong)), reference=0.0)


def _wrong_data(run: RunFact) -> bool:
    texts = (run.problem, *run.disbelieved)
    return any(says(text, ("data-corrupt",), _WRONG_DATA) for text in texts)


def _checked(context: Context) -> Evidence:
    """Return whether transfers were checked at all: without checksums nothing is counted."""
    sign = Sign(
        "checksums-enabled", Route.EXPECTED, "whether transfers carry checksums", source="checksums"
    )
    if context.incident.shape is Shape.INTEGRITY:
        return sign.weighed(
            "the incident itself is damaged transfers", 1.0, code="data-at-risk", source=None
        )
    settings = observe(context).setting("checksums", kinds=_KINDS).filter("bad")
    if settings.is_empty():
        return sign.missing("name-missing", "no snapshot contains the setting checksums")
    values = set(settings["value"].drop_nulls().to_list())
    off = {value for value in values if value.strip().lower() in _OFF}
    code, text = "checksums-on", "transfers carry checksums"
    if off == values and values:
        code, text = "checksums-off", "transfers carry no checksums: damage goes undetected"
    elif off:
        code, text = "checksums-partly-on", "some transfers carry checksums, others none"
    return sign.weighed(text, 0.0, code=code, value=", ".join(sorted(values)))


CAUSE: Final = Cause(
    id="bad-checksums",
    title="transfers with a bad checksum",
    prior=UNSEEN,  # none of the 13 days; two in the four months after checksums were turned on
    assess=assess,
    signs=(
        "checksums-counted",
        "checksums-logged",
        "data-verified",
        "data-at-risk",
        "checksums-in-time",
    ),
    measurement=(
        "Find the nodes that the messages name, take them out of service, and move verified data "
        "(ior -W -R, or lnet_selftest with check=full) over each of their links; checksums stay on."
    ),
)
