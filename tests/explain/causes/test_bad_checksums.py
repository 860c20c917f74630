"""Transfers that arrived damaged: an integrity incident, whatever the speed."""

from __future__ import annotations

from tests.explain.causes.around import WELL, quiet, quiet_readings, shows, weight_of, with_log
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    SERVERS,
    event,
    gauge,
    incident,
    missing,
    reading,
    run,
    runs,
    setting,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes.bad_checksums import CAUSE
from trimtab.explain.context import Context

NAME = "checksum_errors_total"


def counted(good: float, bad: float) -> Context:
    readings = quiet_readings(but=[NAME])
    readings += gauge(NAME, 0.0, targets=[server for server in SERVERS if server != "oss2"])
    readings += gauge(NAME, good, bad, targets=["oss2"])
    return quiet(readings=readings, of=incident(Shape.INTEGRITY, effect=None))


def test_one_is_enough_whatever_the_speed() -> None:
    scene = counted(0.0, 1.0)
    piece = shows(CAUSE, scene, "checksums-counted", value=1.0, weight=2.0, targets=("oss2",))
    assert piece.at == BAD_FROM
    assert weight_of(CAUSE, scene) > 3


def test_none_where_all_are_counted_clears() -> None:
    shows(CAUSE, quiet(), "checksums-none", value=0.0, weight=-2.0)


def test_checksums_counted_earlier() -> None:
    # Old ones are no news.
    scene = counted(5.0, 5.0)
    shows(CAUSE, scene, "checksums-counted-earlier", weight=0)
    shows(CAUSE, scene, "checksums-in-time", value=0, reference=0, weight=0)
    # In good hours as well.
    readings = quiet_readings(but=[NAME])
    readings += [reading(at, "oss2", NAME, float(n)) for n, at in enumerate(HOURS)]
    shows(
        CAUSE,
        quiet(readings=readings),
        "checksums-in-time",
        Found.NEUTRAL,
        value=12.0,
        reference=47.0,
        throughout=True,
    )
    # A log that began anew.
    # A count that went down tells of no transfer: a boot, or messages that fell out of the log.
    readings = quiet_readings(but=[NAME])
    readings += [reading(at, "oss2", NAME, 9.0 if at < BAD_FROM else 2.0) for at in HOURS]
    shows(CAUSE, quiet(readings=readings), "checksums-counted-earlier", value=0.0, weight=0.0)


def test_a_log_that_does_not_reach_back() -> None:
    readings = quiet_readings(but=[NAME])
    readings += missing(NAME, "the kernel log of oss0 no longer reaches back", targets=SERVERS)
    pieces = [p for p in CAUSE.assess(quiet(readings=readings)) if p.source == NAME]
    assert [piece.found for piece in pieces] == [Found.NOT_AVAILABLE, Found.NOT_AVAILABLE]
    assert pieces[0].reason is not None
    assert "no longer reaches back" in pieces[0].reason


def test_a_message_in_the_log_book() -> None:
    text = "LustreError: BAD WRITE CHECKSUM: scratch-OST0002 from 10.0.0.7@tcp"
    log = with_log(event(EventKind.NOTE, BAD_FROM + HOUR, text))
    shows(CAUSE, quiet(events=log), "checksums-logged", Found.FOR)
    turned_on = with_log(event(EventKind.CONFIG_CHANGE, BAD_FROM + HOUR, "checksums on"))
    shows(CAUSE, quiet(events=turned_on), "checksums-not-logged", weight=0)


def test_a_run_that_read_other_data_than_it_wrote() -> None:
    facts = [*runs(WELL, WELL)]
    facts[-1] = run(HOURS[-1], status=RunStatus.FAILED,
                    problem="data read is not what was written: 3 mismatches")  # fmt: skip
    shows(CAUSE, quiet(runs=facts), "data-verified", value=1.0, reference=0.0, weight=2.0)
    shows(CAUSE, quiet(), "data-verified", weight=0)
    shows(CAUSE, quiet(runs=()), "data-verified", Found.NOT_AVAILABLE)


def test_says_whether_transfers_are_checked_at_all() -> None:
    off = quiet(settings=setting("checksums", "0", targets=["nid1"]))
    shows(CAUSE, off, "checksums-off", Found.NEUTRAL)
    on = quiet(settings=setting("checksums", "1", targets=["nid1"]))
    shows(CAUSE, on, "checksums-on", Found.NEUTRAL)
    shows(CAUSE, quiet(), "checksums-enabled", Found.NOT_AVAILABLE)
