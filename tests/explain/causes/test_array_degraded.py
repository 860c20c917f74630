"""`array-degraded`: an array without a drive, or its rebuild."""

from __future__ import annotations

from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOUR, OSTS, event, gauge, missing, survey
from tests.explain.causes.storage import NIGHTLY, OST_WRITE, sound

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.storage.array_degraded import CAUSE

ONE = OSTS[5]
DEGRADED = gauge("degraded", False, True, targets=[ONE], label="md5")
REBUILD = event(
    EventKind.REBUILD, BAD_FROM - HOUR / 2, "nvme7n1 was replaced", targets=[ONE],
    until=BAD_FROM + 8 * HOUR,
)  # fmt: skip


def test_degraded_in_time() -> None:
    # An array that lost a drive.
    of = sound(
        DEGRADED, surveys=survey(OST_WRITE, 6e9, slow_targets=[ONE]), events=(*NIGHTLY, REBUILD)
    )
    assert weight_of(CAUSE, of) > 2.5
    shows(CAUSE, of, "degraded-in-time", Found.FOR, value=1.0, targets=("OST0005",))
    shows(CAUSE, of, "degraded-between-targets", Found.FOR)
    assert "nvme7n1 was replaced" in shows(CAUSE, of, "event-logged").what
    # Whole arrays are against.
    assert shows(CAUSE, sound(), "degraded-in-time", value=0.0).weight <= -1
    # Degraded in all hours is a standing condition.
    of = sound(gauge("degraded", True, targets=[ONE]))
    shows(CAUSE, of, "degraded-in-time", value=1.0, targets=("OST0005",), throughout=True, weight=0)
    assert shows(CAUSE, of, "degraded-expected").weight >= 0.3
    # Slow targets with whole arrays are not its doing.
    of = sound(DEGRADED, surveys=survey(OST_WRITE, 6e9, slow_targets=OSTS[:3]))
    shows(CAUSE, of, "degraded-between-targets", Found.AGAINST)
    shows(CAUSE, of, "slow-targets-whole", Found.AGAINST, value=3.0)


def test_a_rebuild_that_was_over_before_is_not_of_interest() -> None:
    done = event(EventKind.REBUILD, BAD_FROM - 20 * HOUR, until=BAD_FROM - 10 * HOUR)
    shows(CAUSE, sound(events=[done]), "event-not-logged", weight=0)


def test_a_rebuild_that_is_written_down_later_says_nothing() -> None:
    later = event(EventKind.REBUILD, BAD_FROM + 6 * HOUR)
    shows(CAUSE, sound(events=[later]), "event-logged-late", Found.NEUTRAL)


def test_drives_that_count_media_errors() -> None:
    grown = gauge(
        "drive_media_errors_total", 3.0, lambda _, at: 4.0 + (at - BAD_FROM) / HOUR,
        targets=[ONE], label="nvme0n1",
    )  # fmt: skip
    piece = shows(CAUSE, sound(grown), "media-errors", Found.FOR, value=1.0, targets=("OST0005",))
    assert piece.weight <= 0.4
    # Errors of long ago are no news.
    old = gauge("drive_media_errors_total", 3.0, targets=[ONE], label="nvme0n1")
    shows(CAUSE, sound(old), "media-errors", Found.NEUTRAL)


def test_flags_that_could_not_be_read() -> None:
    of = sound(missing("degraded", "no such parameter"))
    assert shows(CAUSE, of, "degraded-between-targets").reason is not None
    assert CAUSE.assess(of)[0].found is Found.NOT_AVAILABLE
    assert "no such parameter" in (CAUSE.assess(of)[0].reason or "")


def test_an_array_that_was_always_degraded_does_not_hide_a_new_one() -> None:
    of = sound(gauge("degraded", True, targets=OSTS[9:10], label="md9"), DEGRADED)
    shows(
        CAUSE,
        of,
        "degraded-in-time",
        Found.FOR,
        value=1.0,
        reference=0.0,
        targets=("OST0005",),
        throughout=False,
    )
