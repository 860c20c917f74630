"""`target-silent`: a target that serves next to nothing and says nothing."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    OSTS,
    START,
    counter,
    event,
    gauge,
    incident,
    missing,
    runs,
    survey,
)
from tests.explain.causes.storage import NIGHTLY, OST_WRITE, SIZE, WELL, sound

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.storage.target_silent import CAUSE

ONE = OSTS[7]
BUSY = 0.06 * SIZE / 86400
SILENT = counter("client_bytes_written_total", BUSY, 1e3, targets=[ONE])


def test_a_target_that_fell_silent() -> None:
    of = sound(
        SILENT, surveys=survey(OST_WRITE, 2e6, slow_targets=[ONE]), runs=runs(WELL, None),
        of=incident(effect=None, unfinished=12),
    )  # fmt: skip
    assert weight_of(CAUSE, of) > 2.5
    piece = shows(CAUSE, of, "survey-silent", value=0.000132, targets=("OST0007",))
    assert (piece.found, piece.targets) == (Found.FOR, (ONE,))
    shows(CAUSE, of, "idle-while-busy", value=1.0, targets=(ONE,))
    shows(CAUSE, of, "runs-unfinished", Found.FOR, value=1.0)


@pytest.mark.parametrize(
    ("rate", "outcome"), [(0.0, Found.FOR), (1.3e9, Found.FOR), (6e9, Found.AGAINST)]
)
def test_half_speed_is_slow_and_not_silent(rate: float, outcome: Found) -> None:
    of = sound(surveys=survey(OST_WRITE, rate, slow_targets=[ONE]))
    shows(CAUSE, of, "survey-silent", outcome)


def test_survey_missing() -> None:
    # A survey that did not come back from a target.
    rows = survey(OST_WRITE)
    hung = [row for row in rows if row["at"] < BAD_FROM or row["target"] != ONE]
    shows(CAUSE, sound(surveys=hung), "survey-missing", targets=("OST0007",), weight=0.8)
    nothing = [
        {**row, "value": None} if row["at"] >= BAD_FROM and row["target"] == ONE else row
        for row in rows
    ]
    shows(
        CAUSE, sound(surveys=nothing), "survey-silent", Found.FOR, value=0.0, targets=("OST0007",)
    )
    # Silent in all surveys is older than the incident.
    rows = [{**row, "value": 1e6} if row["target"] == ONE else row for row in survey(OST_WRITE)]
    shows(
        CAUSE,
        sound(surveys=rows),
        "survey-silent",
        value=6.7e-05,
        targets=("OST0007",),
        throughout=True,
        weight=0,
    )


@pytest.mark.parametrize(("share", "outcome"), [(0.03, Found.FOR), (0.08, Found.AGAINST)])
def test_a_trickle_is_no_traffic(share: float, outcome: Found) -> None:
    """What clients retry, and what was counted before it fell silent, is some of the usual."""
    trickle = counter("client_bytes_written_total", BUSY, share * BUSY, targets=[ONE])
    shows(CAUSE, sound(trickle), "idle-while-busy", outcome)


def test_idle_while_busy() -> None:
    # A target that takes no new files is not silent.
    closed = gauge("create_enabled", True, False, targets=[ONE])
    of = sound(SILENT, closed)
    assert "OST0007" not in shows(CAUSE, of, "idle-while-busy", value=0.0).what
    # A target that never had traffic is not missed.
    unused = counter("client_bytes_written_total", 0.0, targets=[ONE])
    assert shows(CAUSE, sound(unused), "idle-while-busy", value=0.0).found is not Found.FOR


def test_many_without_traffic_are_no_single_one() -> None:
    idle = counter("client_bytes_written_total", BUSY, 0.0, targets=OSTS[:5])
    shows(CAUSE, sound(idle), "idle-many", Found.NEUTRAL)


def test_traffic_of_the_devices_does_where_that_of_clients_is_not_counted() -> None:
    device = counter("bytes_written_total", BUSY, 0.0, targets=[ONE])
    of = sound(device, but=["client_bytes_written_total"])
    assert shows(CAUSE, of, "idle-while-busy", value=1.0, targets=("OST0007",)).weight > 1


def test_a_lost_connection() -> None:
    lost = gauge("import_state", "FULL", "DISCONN", targets=[ONE])
    shows(CAUSE, sound(lost), "connection-lost", Found.FOR, value=1.0, targets=("OST0007",))
    # A silent one is connected: that it is tells little.
    assert -0.3 < shows(CAUSE, sound(), "connection-lost").weight < 0
    idle = gauge("import_state", "FULL", "IDLE", targets=[ONE])
    assert shows(CAUSE, sound(idle), "connection-lost").found is not Found.FOR
    off = gauge("import_state", "FULL", "INACTIVE", targets=[ONE])
    assert shows(CAUSE, sound(off), "connection-lost").found is not Found.FOR


def test_a_target_that_dropped_out_of_the_snapshots() -> None:
    complete = sound()
    gone = (pl.col("target") == ONE) & (pl.col("at") >= BAD_FROM)
    cut = replace(complete.telemetry, readings=complete.telemetry.readings.filter(~gone))
    shows(CAUSE, replace(complete, telemetry=cut), "snapshot-missing", Found.FOR, targets=(ONE,))


def test_another_target_being_the_fullest_is_none_dropping_out() -> None:
    complete = sound()
    is_bad = pl.col("at") >= BAD_FROM
    fullest = pl.when(is_bad).then(pl.lit(OSTS[3])).otherwise(pl.lit(ONE))
    telling = complete.telemetry.readings.filter(
        (pl.col("name") != "used_bytes")
        | pl.col("target").is_in(list(OSTS[:3]))
        | (pl.col("target") == fullest)
    )
    cut = replace(complete.telemetry, readings=telling)
    shows(CAUSE, replace(complete, telemetry=cut), "snapshot-complete", Found.NEUTRAL)


def test_errors_are_told_by_a_failure_that_is_not_silent() -> None:
    grown = gauge("errors_total", 0.0, lambda _, at: float(at >= BAD_FROM), targets=[ONE])
    shows(CAUSE, sound(grown), "errors-reported", Found.FOR, value=1.0, targets=("OST0007",))
    shows(CAUSE, sound(), "errors-reported", weight=0)


def test_runs_unfinished() -> None:
    # Runs that lost little did not wait for a silent target.
    assert shows(CAUSE, sound(of=incident(effect=0.85)), "runs-unfinished").weight < 0
    crawled = sound(of=incident(effect=0.1))
    shows(CAUSE, crawled, "runs-crawled", Found.FOR)
    # Runs that often do not end tell nothing new.
    never = {run.id: run for run in runs(None, None)}
    half = [never[run.id] if n % 2 else run for n, run in enumerate(runs(WELL, WELL))]
    of = sound(runs=half, of=incident(effect=0.5))
    shows(CAUSE, of, "runs-unfinished", Found.NEUTRAL, value=0.5)


def test_the_log_book_tells_of_it() -> None:
    failed = event(EventKind.TARGET_FAILED, BAD_FROM - HOUR, "no answer", targets=[ONE])
    of = sound(events=(*NIGHTLY, failed))
    shows(CAUSE, of, "event-logged", weight=1.2)
    noticed = event(EventKind.TARGET_FAILED, BAD_FROM + 6 * HOUR, "no answer", targets=[ONE])
    assert 0 < shows(CAUSE, sound(events=[noticed]), "event-logged-late").weight < 0.5


def test_survey_silent() -> None:
    # Surveys outside of the hours in question do not count.
    early = survey(OST_WRITE, at=[START - 40 * HOUR])
    shows(CAUSE, sound(surveys=early), "survey-silent", Found.NOT_AVAILABLE)
    # A site without surveys.
    of = sound(surveys=[], but=["client_bytes_written_total", "bytes_written_total"])
    shows(CAUSE, of, "survey-silent", Found.NOT_AVAILABLE)
    shows(CAUSE, of, "idle-while-busy", Found.NOT_AVAILABLE)


def test_a_target_that_was_lost_long_ago_does_not_hide_a_new_one() -> None:
    of = sound(
        gauge("import_state", "DISCONN", targets=OSTS[:1]),
        gauge("import_state", "FULL", "DISCONN", targets=[ONE]),
        gauge("read_only", True, targets=OSTS[:1]),
        gauge("read_only", False, True, targets=[ONE]),
    )
    shows(CAUSE, of, "connection-lost", Found.FOR, value=1.0, targets=("OST0007",))
    shows(CAUSE, of, "errors-reported", Found.FOR, value=1.0, targets=("OST0007",))


def test_errors_of_old_are_no_standing_condition_of_silence() -> None:
    old = sound(gauge("read_only", True, targets=OSTS[:1]))
    assert not any(piece.throughout for piece in CAUSE.assess(old))


def test_errors_and_flags_that_nobody_read_say_why_with_the_reason_that_is_known() -> None:
    of = sound(missing("read_only", "lctl may not be run"), but=["errors_total"])
    shows(CAUSE, of, "errors-reported", reason="name-not-available")
    shows(CAUSE, sound(but=["errors_total", "read_only"]), "errors-reported", reason="name-missing")
    devices = missing("bytes_written_total", "lctl may not be run")
    scene = sound(devices, but=["client_bytes_written_total"])
    shows(CAUSE, scene, "idle-while-busy", reason="name-not-available")
