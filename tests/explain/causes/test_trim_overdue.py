"""`trim-overdue`: the dose since the last trim, and whether a trim cured it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import (
    BAD,
    BAD_FROM,
    END,
    GOOD,
    HOUR,
    HOURS,
    OSTS,
    START,
    counter,
    event,
    gauge,
    incident,
    missing,
    reading,
    setting,
    survey,
)
from tests.explain.causes.storage import (
    DAY,
    NIGHTLY,
    OST_WRITE,
    SIZE,
    SLOW,
    WELL,
    both,
    sound,
    trim,
)

from trimtab.base.error import Message, code_of
from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.explain.causes.storage import garbage_collection
from trimtab.explain.causes.storage.trim_overdue import CAUSE
from trimtab.explain.context import Context, Period

DRIFT = incident(Shape.DRIFT, effect=0.9)


def _trimmed(days_before: float) -> list[Any]:
    return [event(EventKind.TRIM, BAD_FROM - timedelta(days=days_before), "by hand")]


def _dose(of: Context) -> Any:
    return shows(CAUSE, of, "trim-dose")


@pytest.mark.parametrize(
    ("days", "outcome"),
    [(0.5, Found.AGAINST), (4, Found.AGAINST), (10, Found.FOR), (70, Found.FOR)],
)
def test_the_dose_since_the_last_trim(days: float, outcome: Found) -> None:
    piece = _dose(sound(events=_trimmed(days)))
    assert piece.found is outcome
    assert piece.value == pytest.approx(0.07 * (days + 11 / 24), rel=0.01)


def test_five_full_writes_weigh_more_than_one() -> None:
    weights = [_dose(sound(events=_trimmed(days))).weight for days in (8, 15, 70)]
    assert weights == sorted(weights)
    assert weights[-1] == pytest.approx(1.0, abs=0.01)


def test_overdue_trims_in_a_drift_that_a_trim_ends() -> None:
    of = sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        events=[*_trimmed(13), trim(12.5)], writes=0.88, now=END + 24 * HOUR,
        of=incident(Shape.DRIFT, effect=0.88, until=END),
    )  # fmt: skip
    assert weight_of(CAUSE, of) > 2
    shows(CAUSE, of, "trim-recovery", Found.FOR, value=1.0)


def test_trim_dose_in_time() -> None:
    # A dose that was as large before is a standing condition.
    piece = _dose(sound(events=_trimmed(70)))
    assert piece.throughout
    shows(CAUSE, sound(events=_trimmed(70)), "trim-dose-in-time", throughout=True)
    # A dose that grew with the incident.
    heavy = counter("bytes_written_total", 1.0 * SIZE / DAY)
    of = sound(heavy, events=_trimmed(2.0), of=DRIFT)
    shows(CAUSE, of, "trim-dose-in-time", Found.FOR)
    assert not _dose(of).throughout


def test_a_trim_just_before_the_first_bad_run_clears_it() -> None:
    piece = shows(CAUSE, sound(events=_trimmed(0.25)), "trimmed-recently")
    assert piece.at == BAD_FROM - 6 * HOUR
    assert (piece.found, piece.weight) == (Found.AGAINST, -1.0)


def test_never_trimmed_counts_all_that_was_written_since_attached() -> None:
    of = sound(gauge("bytes_discarded_total", SIZE), events=[])
    piece = _dose(of)
    assert piece.at is None
    assert piece.value == pytest.approx(40.2, abs=0.1)
    assert piece.throughout


def test_never_trimmed_but_young_is_overdue_before_long() -> None:
    young = counter("bytes_written_total", 0.07 * SIZE / DAY, start=0.0)
    piece = _dose(sound(young, gauge("bytes_discarded_total", SIZE), events=[]))
    assert piece.weight == pytest.approx(0.35)


def test_discards_that_grow_are_trims_that_nobody_wrote_down() -> None:
    late = START + 40 * HOUR
    rows = [
        reading(at, target, "bytes_discarded_total", (9.05 if at >= late else 9.0) * SIZE)
        for target in OSTS
        for at in HOURS
    ]
    assert _dose(sound(rows, events=[])).value == pytest.approx(0.07 * 19.5 / 24, rel=0.01)


def test_the_timers_own_word() -> None:
    ran = gauge("last_trim_at", (BAD_FROM - 5 * HOUR).isoformat())
    assert _dose(sound(ran, events=[])).value == pytest.approx(0.07 * 16 / 24, rel=0.01)
    nonsense = gauge("last_trim_at", "n/a")
    assert dose_reason(sound(nonsense, events=[]))


def dose_reason(of: Context) -> Message:
    reason = shows(CAUSE, of, "trim-dose").reason
    assert reason is not None
    return reason


def test_where_nothing_would_show_a_trim_nothing_is_said() -> None:
    assert dose_reason(sound(events=[])).code == "trims-unknown"


def test_what_clients_wrote_does_where_the_devices_do_not_count() -> None:
    of = sound(but=["bytes_written_total"], events=_trimmed(10))
    assert _dose(of).value == pytest.approx(0.06 * (10 + 11 / 24), rel=0.01)


def test_no_counters_no_dose() -> None:
    rows = missing("bytes_written_total", "no underlying block device is visible")
    of = sound(rows, but=["client_bytes_written_total"])
    assert "no underlying block device" in dose_reason(of)


def test_slow_targets_that_were_left_out_of_the_trims() -> None:
    slow = survey(OST_WRITE, 9e9, slow_targets=SLOW)
    partly = [event(EventKind.TRIM, BAD_FROM - timedelta(days=40), "all"),
              *(event(EventKind.TRIM, BAD_FROM - timedelta(days=day), "some", targets=OSTS[3:])
                for day in range(1, 12))]  # fmt: skip
    of = sound(surveys=slow, events=partly)
    shows(CAUSE, of, "trim-dose-between-targets", Found.FOR)
    shows(CAUSE, sound(surveys=slow), "trim-dose-between-targets", Found.AGAINST)


def test_trims_that_stayed_away() -> None:
    early = [event(EventKind.TRIM, BAD_FROM - timedelta(days=day), "") for day in range(8, 14)]
    shows(CAUSE, sound(events=early), "trims-missed", Found.FOR)
    shows(CAUSE, sound(), "trims-missed", Found.AGAINST)
    assert shows(CAUSE, sound(events=early[:2]), "trims-missed").reason is not None


@pytest.mark.parametrize(
    ("options", "weight"),
    [("rw,discard", -1.0), ("rw,fstrim=256", -1.0), ("rw,nodiscard", 0.0), ("rw,nofstrim", 0.0)],
)
def test_mount_options_that_trim(options: str, weight: float) -> None:
    of = sound(settings=setting("mount/options", options))
    shows(CAUSE, of, "trims-by-mount-option", weight=weight)


def test_erased_blocks_run_out_by_degrees() -> None:
    weights = [
        shows(CAUSE, sound(of=incident(shape)), "shape-of-decline").weight
        for shape in (Shape.DRIFT, Shape.STEP, Shape.DIP)
    ]
    assert weights == [0.5, -0.2, -1.3]


# What trims did


def test_trim_recovery() -> None:
    # A trim that did not help.
    shows(CAUSE, sound(events=[*NIGHTLY, trim(4)]), "trim-recovery", Found.AGAINST)
    # Many trims that did not help weigh more than one.
    single = shows(CAUSE, sound(events=[trim(4)]), "trim-recovery").weight
    many = shows(
        CAUSE, sound(events=[trim(3), trim(5), trim(7)]), "trim-recovery", value=0.0
    ).weight
    assert many < single < 0


def test_a_trim_after_which_the_runs_are_well() -> None:
    from dataclasses import replace

    bad = Period(BAD_FROM, BAD_FROM + 6 * HOUR)
    after = Period(BAD_FROM + 7 * HOUR, END)
    well = tuple(
        replace(run, values={"write_bandwidth": WELL}) if run.at >= after.from_ else run
        for run in both(0.8, 1.0)
    )
    of = sound(events=[trim(6.5)], runs=well, bad=(bad,), good=(GOOD, after))
    shows(CAUSE, of, "trim-recovery", Found.FOR, value=1.0)


def test_no_trim_and_no_runs_near_one() -> None:
    untrimmed = shows(CAUSE, sound(), "trim-recovery").reason
    assert code_of(untrimmed) == "no-trim"
    at_once = shows(CAUSE, sound(events=[trim(0.5)]), "trim-recovery").reason
    assert code_of(at_once) == "too-few-runs"


@pytest.mark.parametrize(("after", "outcome"), [(15e9, Found.FOR), (9e9, Found.AGAINST)])
def test_the_experiment_on_one_target(after: float, outcome: Found) -> None:
    trimmed = OSTS[0]
    first = survey(OST_WRITE, 9e9, slow_targets=[trimmed], at=[BAD_FROM + 2 * HOUR])
    again = survey(OST_WRITE, after, slow_targets=[trimmed], at=[BAD_FROM + 8 * HOUR])
    of = sound(surveys=[*first, *[{**row, "run": "again"} for row in again]],
               events=[trim(5, targets=[trimmed])], bad=(BAD,))  # fmt: skip
    shows(CAUSE, of, "trim-recovery", outcome)


def test_a_target_that_had_lost_nothing_shows_nothing() -> None:
    two = [survey(OST_WRITE, at=[BAD_FROM + hour * HOUR]) for hour in (2, 8)]
    of = sound(surveys=[*two[0], *[{**row, "run": "again"} for row in two[1]]],
               events=[trim(5, targets=[OSTS[0]])])  # fmt: skip
    shows(CAUSE, of, "trim-recovery", Found.NOT_AVAILABLE)


def test_nothing_after_the_incident_makes_a_trim_overdue() -> None:
    """Trims were nightly up to a dip of two hours, and stopped a week after it."""
    dip = incident(Shape.DIP, until=BAD_FROM + 2 * HOUR)
    nightly = [event(EventKind.TRIM, BAD_FROM - timedelta(hours=4 + 24 * n)) for n in range(8)]
    of = sound(events=nightly, of=dip)
    later = replace(of, now=BAD_FROM + timedelta(days=200))
    piece = shows(CAUSE, later, "trims-missed", Found.AGAINST)
    assert piece.value == 6 * 3600
    assert shows(CAUSE, of, "trims-missed").weight == piece.weight


def test_a_trim_that_journal_and_timer_both_tell_of_is_one() -> None:
    """A nightly trim stood in the log book at 02:12 and in the timer at 02:00: every 24 hours."""
    shown = gauge(
        "last_trim_at", "",
        lambda _, at: (at.replace(hour=2) - timedelta(days=at.hour < 2)).isoformat(),
    )  # fmt: skip
    logged = [event(EventKind.TRIM, START + timedelta(days=n, hours=2.2)) for n in range(-6, 2)]
    of = sound(shown, events=logged)
    assert shows(CAUSE, of, "trims-missed").reference == 24 * 3600


def test_disks_need_no_trim_and_collect_no_garbage() -> None:
    disks = setting("queue/rotational", "1")
    for cause in (CAUSE, garbage_collection.CAUSE):
        (piece,) = cause.assess(sound(settings=disks))
        assert piece.weight <= -1.5
