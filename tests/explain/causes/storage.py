"""A site whose storage is sound in every reading, for tests to break in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import polars as pl
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOME,
    HOUR,
    MDTS,
    OSTS,
    READINGS,
    SETTINGS,
    START,
    Row,
    context,
    counter,
    event,
    frame,
    gauge,
    runs,
    setting,
    space,
    survey,
)

from trimtab.base.event import Event, EventKind
from trimtab.explain.context import Context, RunFact, Telemetry

SIZE: Final = 133e12
DAY: Final = 86400.0
WELL: Final = 600e9
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
