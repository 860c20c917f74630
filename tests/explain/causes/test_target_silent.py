"""`target-silent`: a target that serves next to nothing and says nothing."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from tests.explain.causes.around import own, told
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    OSTS,
    START,
    counter,
    event,
    gauge,
    incident,
    runs,
    survey,
)
from tests.explain.causes.storage import NIGHTLY, OST_WRITE, SIZE, WELL, sound

from trimtab.explain.causes.target_silent import CAUSE
from trimtab.model.event import EventKind
from trimtab.model.incident import Found

ONE = OSTS[7]
BUSY = 0.06 * SIZE / 86400
SILENT = counter("client_bytes_written_total", BUSY, 1e3, targets=[ONE])


def test_a_target_that_fell_silent() -> None:
    of = sound(
        SILENT, surveys=survey(OST_WRITE, 2e6, slow_targets=[ONE]), runs=runs(WELL, None),
        of=incident(effect=None, unfinished=12),
    )  # fmt: skip
    assert own(CAUSE, of) > 2.5
    piece = told(CAUSE, of, "OST0007 served under 10 % of the median target")
    assert (piece.found, piece.targets) == (Found.FOR, (ONE,))
    assert told(
        CAUSE, of, "without traffic while the others are busy (OST0007): 100.0 %"
    ).targets == (ONE,)
    assert told(CAUSE, of, "100 % of the bad runs did not end").found is Found.FOR


@pytest.mark.parametrize(
    ("rate", "found"), [(0.0, Found.FOR), (1.3e9, Found.FOR), (6e9, Found.AGAINST)]
)
def test_half_speed_is_slow_and_not_silent(rate: float, found: Found) -> None:
    of = sound(surveys=survey(OST_WRITE, rate, slow_targets=[ONE]))
    assert told(CAUSE, of, "median").found is found


def test_a_survey_that_did_not_come_back_from_a_target() -> None:
    rows = survey(OST_WRITE)
    hung = [row for row in rows if row["at"] < BAD_FROM or row["target"] != ONE]
    assert told(CAUSE, sound(surveys=hung), "OST0007 is missing from the surveys").weight == 0.8
    nothing = [
        {**row, "value": None} if row["at"] >= BAD_FROM and row["target"] == ONE else row
        for row in rows
    ]
    assert told(CAUSE, sound(surveys=nothing), "OST0007 served under").found is Found.FOR


def test_silent_in_all_surveys_is_older_than_the_incident() -> None:
    rows = [{**row, "value": 1e6} if row["target"] == ONE else row for row in survey(OST_WRITE)]
    piece = told(CAUSE, sound(surveys=rows), "OST0007 served under")
    assert piece.throughout
    assert piece.weight == 0


def test_a_target_that_takes_no_new_files_is_not_silent() -> None:
    closed = gauge("create_enabled", True, False, targets=[ONE])
    of = sound(SILENT, closed)
    assert "OST0007" not in told(CAUSE, of, "busy: 0.0 % in the bad hours").what


def test_a_target_that_never_had_traffic_is_not_missed() -> None:
    unused = counter("client_bytes_written_total", 0.0, targets=[ONE])
    assert told(CAUSE, sound(unused), "busy: 0.0 % in the bad hours").found is not Found.FOR


def test_many_without_traffic_are_no_single_one() -> None:
    idle = counter("client_bytes_written_total", BUSY, 0.0, targets=OSTS[:5])
    assert told(CAUSE, sound(idle), "no single one").found is Found.NEUTRAL


def test_traffic_of_the_devices_does_where_that_of_clients_is_not_counted() -> None:
    device = counter("bytes_written_total", BUSY, 0.0, targets=[ONE])
    of = sound(device, but=["client_bytes_written_total"])
    assert (
        told(CAUSE, of, "without traffic while the others are busy (OST0007): 100.0 %").weight > 1
    )


def test_a_lost_connection() -> None:
    lost = gauge("import_state", "FULL", "DISCONN", targets=[ONE])
    assert told(CAUSE, sound(lost), "connection is lost (OST0007)").found is Found.FOR
    # A silent one is connected: that it is tells little.
    assert -0.3 < told(CAUSE, sound(), "connection is lost").weight < 0
    idle = gauge("import_state", "FULL", "IDLE", targets=[ONE])
    assert told(CAUSE, sound(idle), "connection is lost").found is not Found.FOR
    off = gauge("import_state", "FULL", "INACTIVE", targets=[ONE])
    assert told(CAUSE, sound(off), "connection is lost").found is not Found.FOR


def test_a_target_that_dropped_out_of_the_snapshots() -> None:
    whole = sound()
    gone = (pl.col("target") == ONE) & (pl.col("at") >= BAD_FROM)
    cut = replace(whole.telemetry, readings=whole.telemetry.readings.filter(~gone))
    piece = told(CAUSE, replace(whole, telemetry=cut), "in no snapshot of the bad hours")
    assert piece.targets == (ONE,)
    assert piece.found is Found.FOR


def test_another_target_being_the_fullest_is_none_dropping_out() -> None:
    whole = sound()
    is_bad = pl.col("at") >= BAD_FROM
    fullest = pl.when(is_bad).then(pl.lit(OSTS[3])).otherwise(pl.lit(ONE))
    telling = whole.telemetry.readings.filter(
        (pl.col("name") != "used_bytes")
        | pl.col("target").is_in(list(OSTS[:3]))
        | (pl.col("target") == fullest)
    )
    cut = replace(whole.telemetry, readings=telling)
    piece = told(CAUSE, replace(whole, telemetry=cut), "no snapshot of the bad hours tells of")
    assert piece.found is Found.NEUTRAL


def test_errors_are_told_by_a_failure_that_is_not_silent() -> None:
    grown = gauge("errors_total", 0.0, lambda _, at: float(at >= BAD_FROM), targets=[ONE])
    assert told(CAUSE, sound(grown), "gone read-only (OST0007)").found is Found.FOR
    assert told(CAUSE, sound(), "gone read-only: none").weight == 0


def test_runs_that_lost_little_did_not_wait_for_a_silent_target() -> None:
    assert told(CAUSE, sound(of=incident(effect=0.85)), "of the bad runs did not end").weight < 0
    crawled = sound(of=incident(effect=0.1))
    assert told(CAUSE, crawled, "all of the bad runs ended, and crawled").found is Found.FOR


def test_runs_that_often_do_not_end_tell_nothing_new() -> None:
    never = {one.id: one for one in runs(None, None)}
    half = [never[one.id] if n % 2 else one for n, one in enumerate(runs(WELL, WELL))]
    of = sound(runs=half, of=incident(effect=0.5))
    assert told(CAUSE, of, "50 % of the bad runs did not end").found is Found.NEUTRAL


def test_the_log_book_tells_of_it() -> None:
    failed = event(EventKind.TARGET_FAILED, BAD_FROM - HOUR, "no answer", targets=[ONE])
    of = sound(events=(*NIGHTLY, failed))
    assert told(CAUSE, of, "a failed target at").weight == pytest.approx(1.2)
    noticed = event(EventKind.TARGET_FAILED, BAD_FROM + 6 * HOUR, "no answer", targets=[ONE])
    assert 0 < told(CAUSE, sound(events=[noticed]), "after the first bad runs").weight < 0.5


def test_surveys_outside_of_the_hours_in_question_do_not_count() -> None:
    early = survey(OST_WRITE, at=[START - 40 * HOUR])
    assert told(CAUSE, sound(surveys=early), "in a survey").found is Found.NOT_AVAILABLE


def test_a_site_without_surveys() -> None:
    of = sound(surveys=[], but=["client_bytes_written_total", "bytes_written_total"])
    assert told(CAUSE, of, "in a survey").found is Found.NOT_AVAILABLE
    assert told(CAUSE, of, "while the others are busy").found is Found.NOT_AVAILABLE


def test_a_target_that_was_lost_long_ago_does_not_hide_a_new_one() -> None:
    of = sound(
        gauge("import_state", "DISCONN", targets=OSTS[:1]),
        gauge("import_state", "FULL", "DISCONN", targets=[ONE]),
        gauge("read_only", True, targets=OSTS[:1]),
        gauge("read_only", False, True, targets=[ONE]),
    )
    assert told(CAUSE, of, "connection is lost (OST0007)").found is Found.FOR
    assert told(CAUSE, of, "gone read-only (OST0007)").found is Found.FOR


def test_errors_of_old_are_no_standing_condition_of_silence() -> None:
    old = sound(gauge("read_only", True, targets=OSTS[:1]))
    assert not any(piece.throughout for piece in CAUSE.assess(old))
