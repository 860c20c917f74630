"""Targets that fall silent; ten broken sites, each explained by its own cause."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import polars as pl
import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    DAY,
    END,
    FAST,
    HOUR,
    HOURS,
    NIGHTLY,
    OST_WRITE,
    OSTS,
    SIZE,
    SLOW,
    START,
    WELL,
    allocator,
    counter,
    event,
    gauge,
    incident,
    missing,
    reading,
    run,
    runs,
    setting,
    shows,
    sound,
    sound_settings,
    space,
    stands,
    survey,
    trim,
    weight_of,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes.target_service import TARGET_SILENT as SILENCE
from trimtab.explain.context import Period
from trimtab.explain.explanation import explain
from trimtab.explain.site_explanation import standing_conditions

# `target-silent`: a target that serves next to nothing and says nothing.

EIGHTH = OSTS[7]
BUSY = 0.06 * SIZE / 86400
SILENT = counter("client_bytes_written_total", BUSY, 1e3, targets=[EIGHTH])


def test_a_target_that_fell_silent() -> None:
    of = sound(
        SILENT, surveys=survey(OST_WRITE, 2e6, slow_targets=[EIGHTH]), runs=runs(WELL, None),
        of=incident(effect=None, unfinished=12),
    )  # fmt: skip
    assert weight_of(SILENCE, of) > 2.5
    piece = shows(SILENCE, of, "survey-silent", value=0.000132, targets=[EIGHTH])
    assert (piece.found, piece.targets) == (Found.FOR, (EIGHTH,))
    shows(SILENCE, of, "idle-while-busy", value=1.0, targets=(EIGHTH,))
    shows(SILENCE, of, "runs-unfinished", Found.FOR, value=1.0)


@pytest.mark.parametrize(
    ("rate", "outcome"), [(0.0, Found.FOR), (1.3e9, Found.FOR), (6e9, Found.AGAINST)]
)
def test_half_speed_is_slow_and_not_silent(rate: float, outcome: Found) -> None:
    of = sound(surveys=survey(OST_WRITE, rate, slow_targets=[EIGHTH]))
    shows(SILENCE, of, "survey-silent", outcome)


def test_survey_missing() -> None:
    # A survey that did not come back from a target.
    rows = survey(OST_WRITE)
    hung = [row for row in rows if row["at"] < BAD_FROM or row["target"] != EIGHTH]
    shows(SILENCE, sound(surveys=hung), "survey-missing", targets=[EIGHTH], weight=0.8)
    nothing = [
        {**row, "value": None} if row["at"] >= BAD_FROM and row["target"] == EIGHTH else row
        for row in rows
    ]
    shows(SILENCE, sound(surveys=nothing), "survey-silent", Found.FOR, value=0.0, targets=[EIGHTH])
    # Silent in all surveys is older than the incident.
    rows = [{**row, "value": 1e6} if row["target"] == EIGHTH else row for row in survey(OST_WRITE)]
    always = sound(surveys=rows)
    stands(SILENCE, always, "survey-silent", value=6.7e-05, targets=[EIGHTH])


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.03, Found.FOR), (0.2, Found.FOR), (0.6, Found.AGAINST)]
)
def test_a_trickle_is_no_traffic(share: float, outcome: Found) -> None:
    """What clients retry, and what was counted before it fell silent, is some of the usual."""
    trickle = counter("client_bytes_written_total", BUSY, share * BUSY, targets=[EIGHTH])
    shows(SILENCE, sound(trickle), "idle-while-busy", outcome)


PROBED: Final = 4 * BUSY
"""What the probe writes to each target, four times as much as the users."""


def _written_by_probes(status: RunStatus = RunStatus.OK, moved: float | None = None) -> Any:
    whole = PROBED * len(OSTS) * 3600
    return [
        run(
            at, {} if at >= BAD_FROM and status is not RunStatus.OK else {"write_bandwidth": WELL},
            minutes=60, status=status if at >= BAD_FROM else RunStatus.OK,
            bytes_written=whole if at < BAD_FROM or status is RunStatus.OK else moved,
        )
        for at in HOURS
    ]  # fmt: skip


def test_what_probes_write_to_a_target_is_not_the_traffic_of_others() -> None:
    crawls = [
        *counter("client_bytes_written_total", BUSY + PROBED, targets=OSTS[:7] + OSTS[8:]),
        *counter("client_bytes_written_total", BUSY + PROBED, 0.1 * BUSY + PROBED,
                 targets=[EIGHTH]),
    ]  # fmt: skip
    of = sound(crawls, runs=_written_by_probes())
    shows(SILENCE, of, "idle-while-busy", Found.FOR, value=1.0, targets=(EIGHTH,))
    # Runs that did not end wrote nobody knows how much: that may hide an idle target.
    of = sound(crawls, runs=_written_by_probes(RunStatus.UNFINISHED))
    shows(SILENCE, of, "idle-while-busy", Found.NOT_AVAILABLE, reason="own-bytes-unknown")


def test_snapshots_further_apart_than_the_bad_hours_do_not_clear_a_target() -> None:
    rare = [row for row in sound().telemetry.readings.iter_rows(named=True)
            if row["at"].hour % 8 == 2]  # fmt: skip
    short = Period(BAD_FROM + 3 * HOUR, BAD_FROM + 9 * HOUR)
    piece = shows(SILENCE, replace(sound(rare), bad=(short,)), "idle-while-busy")
    assert (piece.found, piece.value) == (Found.NEUTRAL, 0.0)


def test_a_target_that_comes_and_goes_is_idle_now_and_then() -> None:
    away = {BAD_FROM + hours * HOUR for hours in (2, 3)}
    total = dict.fromkeys([EIGHTH], 1e6)
    rows = []
    for at in HOURS:
        total[EIGHTH] += 3600 * (1e3 if at in away else BUSY)
        rows.append(reading(at, EIGHTH, "client_bytes_written_total", total[EIGHTH]))
    piece = shows(SILENCE, sound(rows), "idle-while-busy", targets=(EIGHTH,))
    assert piece.weight >= 0


def test_an_hour_without_traffic_is_not_a_target_without() -> None:
    """Where many have one such hour, one that has them all the time is the silent one."""
    rows = []
    for number, target in enumerate(OSTS):
        total, pause = 1e6, BAD_FROM + 4 * HOUR
        for at in HOURS:
            idle = at >= BAD_FROM if target == EIGHTH else at == pause and number < 5
            total += 3600 * (1e3 if idle else BUSY)
            rows.append(reading(at, target, "client_bytes_written_total", total))
    few = [row for row in rows if row["target"] != EIGHTH]
    shows(SILENCE, sound(rows), "idle-while-busy", Found.FOR, targets=(EIGHTH,))
    shows(SILENCE, sound(few), "idle-many", weight=0)


def test_a_target_that_answers_and_crawls() -> None:
    """At an eighth of its neighbours, in a survey, it has as good as failed; at a third not."""
    of = sound(surveys=survey(OST_WRITE, OST_WRITE / 8, slow_targets=[EIGHTH]))
    shows(SILENCE, of, "survey-crawled", Found.FOR, targets=[EIGHTH])
    of = sound(surveys=survey(OST_WRITE, OST_WRITE / 3, slow_targets=[EIGHTH]))
    shows(SILENCE, of, "survey-silent", Found.AGAINST)


def test_a_target_that_turns_read_only_is_named() -> None:
    failed = sound(
        gauge("read_only", False, True, targets=[EIGHTH]), runs=runs(WELL, None),
        of=incident(effect=None), surveys=survey(OST_WRITE, at=[START + 20 * HOUR]),
    )  # fmt: skip
    assert shows(SILENCE, failed, "errors-reported", Found.FOR).weight > 1
    first = explain(failed).causes[0]
    assert first.cause == "target-silent"
    # Errors that a target counts and survives weigh less, and many read-only ones are a policy.
    counted = gauge("errors_total", 0.0, lambda _, at: float(at >= BAD_FROM), targets=[EIGHTH])
    assert 0 < shows(SILENCE, sound(counted), "errors-reported").weight < 0.8
    policy = gauge("read_only", False, True, targets=OSTS[:6])
    shows(SILENCE, sound(policy), "errors-reported", Found.NEUTRAL)


def test_idle_while_busy() -> None:
    # A target that takes no new files is not silent.
    closed = gauge("create_enabled", True, False, targets=[EIGHTH])
    of = sound(SILENT, closed)
    assert "OST0007" not in shows(SILENCE, of, "idle-while-busy", value=0.0).what
    # A target that never had traffic is not missed.
    unused = counter("client_bytes_written_total", 0.0, targets=[EIGHTH])
    assert shows(SILENCE, sound(unused), "idle-while-busy", value=0.0).found is not Found.FOR


def test_many_without_traffic_are_no_single_one() -> None:
    idle = counter("client_bytes_written_total", BUSY, 0.0, targets=OSTS[:5])
    shows(SILENCE, sound(idle), "idle-many", Found.NEUTRAL)


def test_traffic_of_the_devices_does_where_that_of_clients_is_not_counted() -> None:
    device = counter("bytes_written_total", BUSY, 0.0, targets=[EIGHTH])
    of = sound(device, but=["client_bytes_written_total"])
    assert shows(SILENCE, of, "idle-while-busy", value=1.0, targets=[EIGHTH]).weight > 1


def test_a_lost_connection() -> None:
    lost = gauge("import_state", "FULL", "DISCONN", targets=[EIGHTH])
    shows(SILENCE, sound(lost), "connection-lost", Found.FOR, value=1.0, targets=[EIGHTH])
    # A silent one is connected: that it is tells little.
    assert -0.3 < shows(SILENCE, sound(), "connection-lost").weight < 0
    idle = gauge("import_state", "FULL", "IDLE", targets=[EIGHTH])
    assert shows(SILENCE, sound(idle), "connection-lost").found is not Found.FOR
    off = gauge("import_state", "FULL", "INACTIVE", targets=[EIGHTH])
    assert shows(SILENCE, sound(off), "connection-lost").found is not Found.FOR


def test_a_target_that_dropped_out_of_the_snapshots() -> None:
    complete = sound()
    gone = (pl.col("target") == EIGHTH) & (pl.col("at") >= BAD_FROM)
    cut = replace(complete.telemetry, readings=complete.telemetry.readings.filter(~gone))
    shows(
        SILENCE, replace(complete, telemetry=cut), "snapshot-missing", Found.FOR, targets=(EIGHTH,)
    )


def test_another_target_being_the_fullest_is_none_dropping_out() -> None:
    complete = sound()
    is_bad = pl.col("at") >= BAD_FROM
    fullest = pl.when(is_bad).then(pl.lit(OSTS[3])).otherwise(pl.lit(EIGHTH))
    telling = complete.telemetry.readings.filter(
        (pl.col("name") != "used_bytes")
        | pl.col("target").is_in(list(OSTS[:3]))
        | (pl.col("target") == fullest)
    )
    cut = replace(complete.telemetry, readings=telling)
    shows(SILENCE, replace(complete, telemetry=cut), "snapshot-complete", Found.NEUTRAL)


def test_errors_are_told_by_a_failure_that_is_not_silent() -> None:
    grown = gauge("errors_total", 0.0, lambda _, at: float(at >= BAD_FROM), targets=[EIGHTH])
    shows(SILENCE, sound(grown), "errors-reported", Found.FOR, value=1.0, targets=[EIGHTH])
    shows(SILENCE, sound(), "errors-reported", weight=0)


def test_runs_unfinished() -> None:
    # Runs that lost little did not wait for a silent target.
    assert shows(SILENCE, sound(of=incident(effect=0.85)), "runs-unfinished").weight < 0
    crawled = sound(of=incident(effect=0.1))
    shows(SILENCE, crawled, "runs-crawled", Found.FOR)
    # Runs that often do not end tell nothing new.
    never = {run.id: run for run in runs(None, None)}
    half = [never[run.id] if n % 2 else run for n, run in enumerate(runs(WELL, WELL))]
    of = sound(runs=half, of=incident(effect=0.5))
    shows(SILENCE, of, "runs-unfinished", Found.NEUTRAL, value=0.5)


def test_the_log_book_tells_of_it() -> None:
    failed = event(EventKind.TARGET_FAILED, BAD_FROM - HOUR, "no answer", targets=[EIGHTH])
    shows(SILENCE, sound(events=(*NIGHTLY, failed)), "event-logged", weight=1.2)
    noticed = event(EventKind.TARGET_FAILED, BAD_FROM + 6 * HOUR, "no answer", targets=[EIGHTH])
    assert 0 < shows(SILENCE, sound(events=[noticed]), "event-logged-late").weight < 0.5


def test_survey_silent() -> None:
    # Surveys outside of the hours in question do not count.
    early = survey(OST_WRITE, at=[START - 40 * HOUR])
    shows(SILENCE, sound(surveys=early), "survey-silent", Found.NOT_AVAILABLE)
    # A site without surveys.
    of = sound(surveys=[], but=["client_bytes_written_total", "bytes_written_total"])
    shows(SILENCE, of, "survey-silent", Found.NOT_AVAILABLE)
    shows(SILENCE, of, "idle-while-busy", Found.NOT_AVAILABLE)


def test_a_target_that_was_lost_long_ago_does_not_hide_a_new_one() -> None:
    of = sound(
        gauge("import_state", "DISCONN", targets=OSTS[:1]),
        gauge("import_state", "FULL", "DISCONN", targets=[EIGHTH]),
        gauge("read_only", True, targets=OSTS[:1]),
        gauge("read_only", False, True, targets=[EIGHTH]),
    )
    shows(SILENCE, of, "connection-lost", Found.FOR, value=1.0, targets=[EIGHTH])
    shows(SILENCE, of, "errors-reported", Found.FOR, value=1.0, targets=[EIGHTH])


def test_errors_of_old_are_no_standing_condition_of_silence() -> None:
    old = sound(gauge("read_only", True, targets=OSTS[:1]))
    assert not any(piece.throughout for piece in SILENCE.assess(old))


def test_errors_and_flags_that_nobody_read_say_why_with_the_reason_that_is_known() -> None:
    of = sound(missing("read_only", "lctl may not be run"), but=["errors_total"])
    shows(SILENCE, of, "errors-reported", reason="name-not-available")
    shows(
        SILENCE, sound(but=["errors_total", "read_only"]), "errors-reported", reason="name-missing"
    )
    devices = missing("bytes_written_total", "lctl may not be run")
    scene = sound(devices, but=["client_bytes_written_total"])
    shows(SILENCE, scene, "idle-while-busy", reason="name-not-available")


# Ten broken sites, each explained by its own cause; ten sites that were always broken.

FIFTH = OSTS[4:5]
_CLOSED = OSTS[:10]


def _slow(targets: tuple[str, ...], rate: float = 8e9) -> list[dict[str, object]]:
    return survey(OST_WRITE, rate, slow_targets=targets)


def _defaults() -> list[dict[str, object]]:
    remaining = [row for row in sound_settings() if "mb_c2" not in row["name"]]
    return [*remaining, *setting("ldiskfs/md0/mb_c2_threshold", "15")]


BROKEN = {
    "targets-over-limit": lambda: sound(
        space(0.7, 0.79, targets=OSTS[:6]), surveys=_slow(OSTS[:6])
    ),
    "target-filling": lambda: sound(space(0.6, 0.93, targets=FIFTH), surveys=_slow(FIFTH)),
    "few-targets-open": lambda: sound(
        gauge("create_enabled", True, False, targets=_CLOSED), writes=0.6, reads=0.6,
        events=[*NIGHTLY, event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR / 2, "over 75 % full",
                                targets=_CLOSED, source="journal")],
    ),
    "target-silent": lambda: sound(
        counter("client_bytes_written_total", 0.06 * SIZE / DAY, 0.0, targets=FIFTH),
        surveys=_slow(FIFTH, 1e6), runs=runs(WELL, None), of=incident(effect=None, unfinished=12),
    ),
    "failover": lambda: sound(
        gauge("server", "oss0", "oss1", targets=OSTS[:2]), surveys=_slow(OSTS[:4]), reads=0.7
    ),
    "array-degraded": lambda: sound(
        gauge("degraded", False, True, targets=FIFTH), surveys=_slow(FIFTH), reads=0.7
    ),
    "trim-overdue": lambda: sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        events=[*(event(EventKind.TRIM, BAD_FROM - timedelta(days=day)) for day in (11, 12, 13)),
                trim(12.5)],
        writes=0.88, now=END + 24 * HOUR, of=incident(Shape.DRIFT, effect=0.88, until=END),
    ),
    "garbage-collection": lambda: sound(
        space(0.73, 0.74),
        gauge("drive_write_amplification", 1.6, 3.1, label="nvme0n1"), tail=9.0,
    ),
    "writeback-throttling": lambda: sound(
        gauge("wbt_latency_s", 0.0, 0.002, label="md0"), writes=0.9, tail=3.0,
        of=incident(effect=0.9),
    ),
    "allocator-loops": lambda: sound(
        space(0.74, 0.76, targets=SLOW), allocator(0.0, 0.06, targets=SLOW),
        allocator(0.0, targets=FAST), gauge("server_cpu_fraction", 0.3, 0.85, targets=SLOW),
        surveys=_slow(SLOW), settings=_defaults(),
    ),
}  # fmt: skip
STANDING = {
    "targets-over-limit": lambda: sound(space(0.85), good=()),
    "few-targets-open": lambda: sound(
        gauge("create_enabled", False, targets=_CLOSED), good=()
    ),
    "failover": lambda: sound(gauge("server", "oss1", targets=OSTS[:2]), good=()),
    "array-degraded": lambda: sound(gauge("degraded", True, targets=FIFTH), good=()),
    "trim-overdue": lambda: sound(gauge("bytes_discarded_total", SIZE), events=[], good=()),
    "garbage-collection": lambda: sound(
        space(0.75), gauge("drive_write_amplification", 3.4, label="nvme0n1"), good=()
    ),
    "writeback-throttling": lambda: sound(
        gauge("wbt_latency_s", 0.002, label="md0"), good=()
    ),
    "allocator-loops": lambda: sound(
        space(0.8), allocator(0.05), settings=_defaults(), good=()
    ),
}  # fmt: skip


@pytest.mark.calibration
@pytest.mark.parametrize("cause", BROKEN)
def test_what_was_broken_is_named_first(cause: str) -> None:
    explained = explain(BROKEN[cause]())
    assert not explained.unexplained
    assert explained.causes[0].cause == cause


def test_a_sound_site_is_unexplained() -> None:
    explained = explain(sound(writes=0.8, reads=0.8))
    storage = {cause.cause for cause in explained.causes if cause.confidence >= 0.5} & set(BROKEN)
    assert not storage


def test_full_targets_that_were_closed_are_the_reason_of_the_closing() -> None:
    of = sound(
        space(0.7, 0.8, targets=_CLOSED), gauge("create_enabled", True, False, targets=_CLOSED),
        writes=0.5, reads=0.6,
        events=[*NIGHTLY, event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR / 2, "over 75 % full",
                                targets=_CLOSED, source="journal")],
    )  # fmt: skip
    first = explain(of).causes[0]
    assert (first.cause, first.because_of) == ("few-targets-open", "targets-over-limit")


@pytest.mark.calibration
@pytest.mark.parametrize("cause", STANDING)
def test_what_was_wrong_in_all_hours_is_a_standing_condition(cause: str) -> None:
    of = STANDING[cause]()
    assert cause in [standing_condition.cause for standing_condition in standing_conditions(of, of)]


def test_drives_that_collect_for_want_of_a_trim_say_so() -> None:
    of = sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        gauge("drive_write_amplification", 1.5, 3.1, label="nvme0n1"),
        space(0.74), tail=9.0, writes=0.8, now=END + 24 * HOUR,
        events=[*(event(EventKind.TRIM, BAD_FROM - timedelta(days=day)) for day in (9, 10, 11)),
                trim(12.5)],
        of=incident(Shape.DRIFT, effect=0.8, until=END),
    )  # fmt: skip
    first, second = explain(of).causes[:2]
    assert (first.cause, first.because_of) == ("garbage-collection", "trim-overdue")
    assert second.cause == "trim-overdue"


def test_a_sound_site_has_no_standing_condition_of_storage() -> None:
    of = sound(good=(), writes=1.0)
    assert not {
        standing_condition.cause for standing_condition in standing_conditions(of, of)
    } & set(BROKEN)
