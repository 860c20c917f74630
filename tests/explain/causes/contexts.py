"""Made-up contexts for the tests of causes: a small site, 48 good hours, then 12 bad ones.

A test says what was different in the bad hours, and nothing else::

    context(readings=[*gauge("used_bytes", 60.0, 80.0, targets=["OST0002"]), ...])

Snapshots are taken every hour. All frames have the columns that `Telemetry` and `Context` promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, cast

import polars as pl
import pytest

from trimtab.base.error import code_of
from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Evidence, Found, Incident, IncidentState, Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.base.site import SiteLimits
from trimtab.base.site_hardware import Hardware
from trimtab.explain.context import (
    JOBS,
    READINGS,
    SETTINGS,
    Cause,
    Context,
    CpuProfile,
    Period,
    RunFact,
    Telemetry,
)
from trimtab.explain.context import SURVEYS as SURVEY_COLUMNS

HOUR: Final = timedelta(hours=1)
START: Final = datetime(2024, 2, 14, tzinfo=UTC)
GOOD_HOURS: Final = 48
BAD_HOURS: Final = 12
BAD_FROM: Final = START + GOOD_HOURS * HOUR
"""The first bad hour."""
END: Final = BAD_FROM + (BAD_HOURS - 1) * HOUR
"""The last bad hour: the record goes on up to it."""
HOURS: Final = tuple(START + n * HOUR for n in range(GOOD_HOURS + BAD_HOURS))
GOOD: Final = Period(START, BAD_FROM - HOUR)
BAD: Final = Period(BAD_FROM, END)

OSTS: Final = tuple(f"OST{n:04x}" for n in range(12))
MDTS: Final = ("MDT0000", "MDT0001")
HOME: Final = {
    **{ost: f"oss{n // 2}" for n, ost in enumerate(OSTS)},
    **{mdt: f"mds{n}" for n, mdt in enumerate(MDTS)},
}
"""Two OSTs a server."""
SERVERS: Final = tuple(dict.fromkeys(HOME.values()))

Row = dict[str, Any]
Value = float | int | bool | str | None
By = Value | Callable[[str, datetime], Value]
"""A value, or a function of target and time."""

SURVEYS: Final = {**SURVEY_COLUMNS, "server": pl.String}
_SAME: Final[Any] = object()


def kind_of(target: str) -> str:
    """Return the kind that a reading of a target or a machine has."""
    if target.startswith("OST"):
        return "ost"
    if target.startswith("MDT"):
        return "mdt"
    return "client" if target.startswith("nid") else "server"


def reading(
    at: datetime, target: str, name: str, value: Value, *, label: str | None = None,
    reason: str | None = None,
) -> Row:  # fmt: skip
    """Return one row of ``Telemetry.readings``; ``None`` needs a reason."""
    is_text = isinstance(value, str)
    return {
        "at": at,
        "target": target,
        "kind": kind_of(target),
        "server": HOME.get(target),
        "name": name,
        "label": label,
        "number": None if is_text or value is None else float(value),
        "text": value if is_text else None,
        "reason": reason if value is not None or reason else "nobody looked",
    }


def since(hours: float, before: Value = False, then: Value = True) -> By:
    """Return a value that changes so long after the first bad hour."""
    return lambda _, at: then if at >= BAD_FROM + hours * HOUR else before


def gauge(
    name: str, good: By, bad: Any = _SAME, *, targets: Iterable[str] = OSTS,
    label: str | None = None, hours: Sequence[datetime] = HOURS,
) -> list[Row]:  # fmt: skip
    """Return a reading of every target at every hour: ``good``, then ``bad`` (by default alike)."""
    rows = []
    for target in targets:
        for at in hours:
            value: Any = good if at < BAD_FROM or bad is _SAME else bad
            shown = value(target, at) if callable(value) else value
            rows.append(reading(at, target, name, cast("Value", shown), label=label))
    return rows


def counter(
    name: str, good_per_s: float, bad_per_s: float | None = None, *,
    targets: Iterable[str] = OSTS, label: str | None = None, start: float = 1e6,
    hours: Sequence[datetime] = HOURS,
) -> list[Row]:  # fmt: skip
    """Return a counter that grows at one rate in the good hours and at another in the bad ones."""
    rows, bad = [], good_per_s if bad_per_s is None else bad_per_s
    for target in targets:
        total = start
        for n, at in enumerate(hours):
            if n:
                rate = bad if at >= BAD_FROM else good_per_s
                total += rate * (at - hours[n - 1]).total_seconds()
            rows.append(reading(at, target, name, total, label=label))
    return rows


def missing(
    name: str, reason: str, *, targets: Iterable[str] = OSTS, hours: Sequence[datetime] = HOURS
) -> list[Row]:
    """Return readings without a value, and why."""
    return [reading(at, target, name, None, reason=reason) for target in targets for at in hours]


def setting(
    name: str, good: str, bad: str | None = None, *, targets: Iterable[str] = OSTS,
    hours: Sequence[datetime] = HOURS,
) -> list[Row]:  # fmt: skip
    """Return a setting of every target at every hour."""
    return [
        {
            "at": at,
            "target": target,
            "kind": kind_of(target),
            "name": name,
            "value": good if at < BAD_FROM or bad is None else bad,
        }
        for target in targets
        for at in hours
    ]


def space(
    good: float, bad: float | None = None, *, targets: Iterable[str] = OSTS,
    capacity_bytes: float = 133e12, hours: Sequence[datetime] = HOURS,
) -> list[Row]:  # fmt: skip
    """Return capacity, used and available bytes of targets that are so full."""
    targets = tuple(targets)
    end = good if bad is None else bad
    return [
        *gauge("capacity_bytes", capacity_bytes, targets=targets, hours=hours),
        *gauge("used_bytes", good * capacity_bytes, end * capacity_bytes, targets=targets,
               hours=hours),
        *gauge("available_bytes", (1 - good) * capacity_bytes, (1 - end) * capacity_bytes,
               targets=targets, hours=hours),
    ]  # fmt: skip


def survey(
    value: float, slow: float | None = None, *, slow_targets: Iterable[str] = (),
    metric: str = "write_bandwidth", at: Sequence[datetime] | None = None,
    targets: Iterable[str] = OSTS,
) -> list[Row]:  # fmt: skip
    """Return surveys of every target, one in the middle of the good hours and one of the bad.

    ``slow_targets`` reach ``slow`` in the bad hours. Targets differ by a few per cent.
    """
    rows, slow_targets, targets = [], set(slow_targets), tuple(targets)
    times = at or (START + 20 * HOUR, START + 44 * HOUR, BAD_FROM + 4 * HOUR)
    for n, time in enumerate(times):
        for index, target in enumerate(targets):
            is_slow = time >= BAD_FROM and target in slow_targets and slow is not None
            base = slow if is_slow and slow is not None else value
            rows.append({
                "at": time,
                "run": f"survey{n}",
                "target": target,
                "server": HOME.get(target),
                "metric": metric,
                "value": base * (1 + 0.01 * ((index * 7 + n) % 5 - 2)),
            })  # fmt: skip
    return rows


def run(
    at: datetime, values: dict[str, float] | None = None, *, status: RunStatus = RunStatus.OK,
    probe: str = "write-hourly", kind: str = "ior", minutes: float = 20, **more: Any,
) -> RunFact:  # fmt: skip
    """Return one run of a probe."""
    return RunFact(
        id=f"{probe}-{at:%m%dT%H%M}",
        at=at,
        until=at + timedelta(minutes=minutes),
        probe=probe,
        kind=kind,
        series=probe,
        status=status,
        values={} if values is None else values,
        **more,
    )


def runs(
    good: float | None, bad: float | None, *, metric: str = "write_bandwidth",
    good_tail: float | None = None, bad_tail: float | None = None,
    tail: str = "write_latency:p99", **more: Any,
) -> tuple[RunFact, ...]:  # fmt: skip
    """Return an hourly run for each hour; where the level is ``None`` those did not finish."""
    facts = []
    for n, at in enumerate(HOURS):
        is_bad = at >= BAD_FROM
        level = bad if is_bad else good
        of_tail = bad_tail if is_bad else good_tail
        tails = {} if of_tail is None else {tail: of_tail * (1 + 0.02 * (n % 3 - 1))}
        if level is None:
            facts.append(run(at, status=RunStatus.UNFINISHED, problem="ended by its deadline",
                             minutes=60, tails=tails, **more))  # fmt: skip
        else:
            facts.append(run(at, {metric: level * (1 + 0.01 * (n % 5 - 2))}, tails=tails, **more))
    return tuple(facts)


def event(
    kind: EventKind, at: datetime, detail: str = "", *, targets: Iterable[str] = (),
    until: datetime | None = None, source: str = "person",
) -> Event:  # fmt: skip
    """Return an entry of the log book."""
    return Event(
        id=f"{kind}-{at:%m%dT%H%M}",
        site="scratch",
        kind=kind,
        at=at,
        detail=detail,
        source=source,
        until=until,
        targets=tuple(targets),
    )


def incident(
    shape: Shape = Shape.STEP, *, effect: float | None = 0.7, at: datetime = BAD_FROM,
    until: datetime | None = None, metric: str = "write_bandwidth",
    targets: Iterable[str] = (), unfinished: int = 0, moved_with: Iterable[str] = (),
    unmoved: Iterable[str] = (),
) -> Incident:  # fmt: skip
    """Return an incident that began with the bad hours."""
    return Incident(
        id="scratch-1",
        site="scratch",
        key=SeriesKey("scratch", "write-hourly", "ior", metric, "B/s"),
        shape=shape,
        state=IncidentState.OPEN if until is None else IncidentState.ENDED,
        certainty=ChangeStatus.CONFIRMED,
        at=at,
        until=until,
        detected_at=at + 6 * HOUR,
        effect=effect,
        effect_interval=None,
        runs=BAD_HOURS,
        unfinished=unfinished,
        summary="writes are down",
        moved_with=tuple(moved_with),
        unmoved=tuple(unmoved),
        targets=tuple(targets),
    )


def context(
    readings: Iterable[Row] = (), settings: Iterable[Row] = (), surveys: Iterable[Row] = (), *,
    runs: Iterable[RunFact] = (), events: Iterable[Event] = (), of: Incident | None = None,
    bad: Sequence[Period] = (BAD,), good: Sequence[Period] = (GOOD,),
    record_from: datetime = START - 30 * 24 * HOUR, now: datetime = END,
    profiles: Iterable[CpuProfile] = (), limits: SiteLimits | None = None,
    jobs: pl.DataFrame | None = None,
    hardware: Hardware | None = None, home: dict[str, str] | None = None,
) -> Context:  # fmt: skip
    """Return a context of what is given; everything else is not known."""
    return Context(
        incident=incident() if of is None else of,
        bad=tuple(bad),
        good=tuple(good),
        record_from=record_from,
        now=now,
        telemetry=Telemetry(frame(readings, READINGS), frame(settings, SETTINGS)),
        surveys=frame(surveys, SURVEYS),
        runs=tuple(runs),
        events=tuple(events),
        limits=SiteLimits() if limits is None else limits,
        hardware=Hardware() if hardware is None else hardware,
        home=HOME if home is None else home,
        profiles=tuple(profiles),
        jobs=pl.DataFrame(schema=JOBS) if jobs is None else jobs,
    )


def frame(rows: Iterable[Row], schema: dict[str, Any]) -> pl.DataFrame:
    """Return rows as a frame of a schema, sorted by time."""
    return pl.DataFrame(list(rows), schema=schema, orient="row").sort("at")


# What tests of the causes around storage share: a quiet site, evidence found by its words.

WELL: Final = 600e9
LOST: Final = 420e9
TRIM: Final = event(EventKind.TRIM, START - timedelta(days=5), "weekly trim")
"""So that the log book is one that somebody writes."""


def quiet_readings() -> list[Row]:
    """Return telemetry in which nothing ever changes."""
    return [
        *counter("client_bytes_written_total", 1e9),
        *counter("client_bytes_read_total", 1e9),
        *counter("metadata_operations_total", 1e4, targets=MDTS),
        *gauge("concurrent_jobs", 200.0),
        *gauge("server_cpu_fraction", 0.3, targets=SERVERS),
        *gauge("checksum_errors_total", 0.0, targets=SERVERS),
        *gauge("import_state", "FULL"),
    ]


def quiet(*more: Iterable[Row], but: Iterable[str] = (), **other: Any) -> Context:
    """Return a step of writes with nothing to show why; ``other`` replaces parts of it.

    ``more`` are readings to add; the quiet ones of their names, and of ``but``, are left out.
    """
    added = [row for rows in more for row in rows]
    left_out = {*but, *(row["name"] for row in added)}
    usual = [row for row in quiet_readings() if row["name"] not in left_out]
    parts: dict[str, Any] = {
        "readings": usual + added,
        "settings": setting("lustre_version", "2.15.3", targets=SERVERS),
        "surveys": survey(15e9),
        "runs": runs(WELL, LOST),
        "events": [TRIM],
    }
    return context(**(parts | other))


def shows(
    cause: Cause,
    of: Context,
    code: str,
    outcome: Found | None = None,
    *,
    value: Any = None,
    reference: Any = None,
    weight: Any = None,
    targets: Iterable[str] | None = None,
    throughout: bool | None = None,
    at: datetime | None = None,
    source: str | None = None,
    says: str = "",
    reason: str | None = None,
    why: str = "",
) -> Evidence:
    """Return the one piece of evidence with this code; what is given must be so.

    ``says`` is in its text, ``reason`` is the code and ``why`` in the text of why it is missing.
    """
    pieces = [piece for piece in cause.evidence(of) if piece.what.code == code]
    assert len(pieces) == 1, [(piece.what.code, piece.what) for piece in cause.evidence(of)]
    (piece,) = pieces
    assert outcome in (None, piece.found), piece
    assert throughout in (None, piece.throughout), piece
    figures = ((piece.value, value), (piece.reference, reference), (piece.weight, weight))
    for figure, expected in figures:
        near = pytest.approx(expected, abs=1e-6) if isinstance(expected, int | float) else expected
        assert expected is None or figure == near, piece
    assert targets is None or piece.targets == tuple(targets)
    assert at in (None, piece.at), piece
    assert source in (None, piece.source), piece
    assert says in piece.what, piece
    assert reason in (None, code_of(piece.reason)), piece
    assert why in (piece.reason or ""), piece
    return piece


def stands(cause: Cause, of: Context, code: str, **figures: Any) -> None:
    """Require evidence that was there in all hours: it explains nothing that began."""
    shows(cause, of, code, Found.NEUTRAL, throughout=True, weight=0, **figures)


def weight_of(cause: Cause, of: Context) -> float:
    """Return the plain sum of all weights: what all evidence leans to."""
    return sum(piece.weight for piece in cause.evidence(of))


def outcomes(cause: Cause, of: Context) -> list[Found]:
    """Return what came of each thing that was looked for."""
    return [piece.found for piece in cause.evidence(of)]


def with_log(*events: Event) -> list[Event]:
    """Return a log book with these entries beside what it always holds."""
    return [TRIM, *events]


# A site whose storage is sound in every reading, for tests to break in one place.

SIZE: Final = 133e12
DAY: Final = 86400.0

OST_WRITE: Final = 15e9
SLOW: Final = OSTS[:3]
FAST: Final = OSTS[3:]
NIGHTLY: Final = tuple(
    event(EventKind.TRIM, START + timedelta(days=day, hours=2), "nightly", source="journal")
    for day in range(-6, 2)
)


def hourly(value: float) -> Callable[[str, datetime], float]:
    """Return a figure of the last hour, which no two hours have alike."""
    return lambda _, at: value + (0.01 if at.hour % 2 else -0.01)


def sound_readings() -> list[Row]:
    """Return telemetry in which nothing is wrong and nothing changes."""
    return [
        *space(0.6),
        *gauge("create_enabled", True, targets=(*OSTS, *MDTS)),
        *gauge("read_only", False),
        *gauge("errors_total", 0.0),
        *gauge("import_state", "FULL"),
        *gauge("server", lambda target, _: HOME[target]),
        *gauge("failover_active", False),
        *gauge("degraded", False),
        *gauge("drive_media_errors_total", 0.0, label="nvme0n1"),
        *gauge("drive_write_amplification", hourly(1.5), label="nvme0n1"),
        *gauge("wbt_latency_s", 0.0, label="md0"),
        *counter("bytes_written_total", 0.07 * SIZE / DAY, start=40 * SIZE),
        *counter("client_bytes_written_total", 0.06 * SIZE / DAY),
        *gauge("allocator_family", "loops-by-number"),
        *allocator(0.0),
        *gauge("server_cpu_fraction", 0.3),
    ]


def sound_settings() -> list[Row]:
    """Return settings as they should be."""
    return [
        *setting("ldiskfs/md0/mb_c1_threshold", "25"),
        *setting("ldiskfs/md0/mb_c2_threshold", "25"),
        *setting("ldiskfs/md0/mb_c3_threshold", "5"),
        *setting("mount/options", "rw,errors=remount-ro,nodiscard"),
        *setting("drives/queue/rotational", "0"),
    ]


def allocator(
    good: float, bad: float | None = None, *, targets: Iterable[str] = OSTS, per_s: float = 1e4
) -> list[Row]:
    """Return the allocator's counters at so many useless loops a request."""
    targets = tuple(targets)
    end = good if bad is None else bad
    return [
        *counter("allocator_requests_total", per_s, targets=targets),
        *counter("allocator_useless_loops_total", per_s * good, per_s * end, targets=targets,
                 label="cr1"),
        *counter("allocator_groups_considered_total", per_s * (0.3 + 1e3 * good),
                 per_s * (0.3 + 1e3 * end), targets=targets, label="cr1"),
    ]  # fmt: skip


def sound(
    *more: Iterable[Row], but: Iterable[str] = (), writes: float = 0.7, reads: float = 1.0,
    tail: float = 1.4, **other: Any,
) -> Context:  # fmt: skip
    """Return a step of writes on a sound site.

    Parameters
    ----------
    more
        Readings to add; the sound ones of the same names are left out.
    but
        Names to leave out besides.
    writes, reads, tail
        Of the bad runs, as a share of the good ones.
    """
    parts: dict[str, Any] = {
        "settings": (),
        "surveys": survey(OST_WRITE),
        "runs": both(writes, reads, tail),
        "events": NIGHTLY,
    }
    made = context([row for rows in more for row in rows], **(parts | other))
    added = made.telemetry.readings
    base = _frames()[0].filter(~pl.col("name").is_in(list(but)))
    rest = base.join(added.select("name", "target").unique(), on=["name", "target"], how="anti")
    settings = made.telemetry.settings if "settings" in other else _frames()[1]
    return replace(made, telemetry=Telemetry(pl.concat([rest, added]).sort("at"), settings))


@cache
def _frames() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the sound readings and settings, made once: rows to frames is what takes long."""
    return frame(sound_readings(), READINGS), frame(sound_settings(), SETTINGS)


def both(writes: float, reads: float, tail: float = 1.4) -> tuple[RunFact, ...]:
    """Return runs that write and read, with the tail of their write latency."""
    plain = runs(WELL, WELL * writes, good_tail=0.1, bad_tail=0.1 * tail)
    facts = []
    for fact in plain:
        share = reads if fact.at >= BAD_FROM else 1.0
        median = 0.01 * (1.05 if fact.at >= BAD_FROM else 1.0)
        facts.append(
            replace(
                fact,
                values={**fact.values, "read_bandwidth": 800e9 * share},
                tails={**fact.tails, "write_latency:p50": median},
            )
        )
    return tuple(facts)


def trim(hours_after: float, **more: Any) -> Event:
    """Return a trim of the whole so long after the first bad hour."""
    return event(EventKind.TRIM, BAD_FROM + hours_after * HOUR, "by hand", **more)
