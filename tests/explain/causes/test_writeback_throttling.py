"""`writeback-throttling`: on in bad hours, on in all, or not at all."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, gauge, incident, missing, setting, survey
from tests.explain.causes.storage import OST_WRITE, SLOW, sound, sound_settings

from trimtab.base.incident import Found
from trimtab.explain.causes.storage.writeback_throttling import CAUSE

TURNED_ON = gauge("wbt_latency_s", 0.0, 0.002, label="md0")


def test_throttled_in_time() -> None:
    # Throttling that was turned on.
    of = sound(TURNED_ON, writes=0.9, tail=4.0, of=incident(effect=0.9))
    assert weight_of(CAUSE, of) > 2
    shows(CAUSE, of, "throttled-in-time", Found.FOR, value=1.0, reference=0.0)
    shows(CAUSE, of, "throttled-flash", value=0.002)
    # Off in all hours clears it.
    shows(CAUSE, sound(), "throttled-in-time", value=0.0, weight=-1.2)
    # On in all hours is a standing condition.
    of = sound(gauge("wbt_latency_s", 0.002, label="md0"))
    shows(CAUSE, of, "throttled-in-time", value=1.0, reference=1.0, throughout=True, weight=0)
    assert shows(CAUSE, of, "throttled-flash").weight >= 0.3
    # One device of many is enough.
    rows = [*gauge("wbt_latency_s", 0.0, label="md0"),
            *gauge("wbt_latency_s", 0.0, 0.002, label="nvme3n1")]  # fmt: skip
    shows(CAUSE, sound(rows), "throttled-in-time", Found.FOR, value=1.0)


def test_slow_targets_that_are_the_throttled_ones() -> None:
    slow = survey(OST_WRITE, 11e9, slow_targets=SLOW)
    some = gauge("wbt_latency_s", 0.0, 0.002, targets=SLOW, label="md0")
    shows(CAUSE, sound(some, surveys=slow), "throttled-between-targets", Found.FOR)
    shows(CAUSE, sound(surveys=slow), "throttled-between-targets", Found.AGAINST)


def test_the_queues_settings_do_where_no_reading_is_there() -> None:
    folded = setting("drives/queue/wbt_lat_usec", "0", "2000 (11), 0 (nvme3n1)")
    of = sound(but=["wbt_latency_s"], settings=[*sound_settings(), *folded])
    shows(CAUSE, of, "throttled-in-time", Found.FOR, value=1.0, reference=0.0)


def test_disks_are_throttled_with_good_reason() -> None:
    disks = setting("drives/queue/rotational", "1")
    shows(CAUSE, sound(TURNED_ON, settings=disks), "throttled-flash", weight=-0.6)


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [(0.9, Found.FOR), (0.7, Found.NEUTRAL), (0.4, Found.AGAINST), (1.1, Found.NEUTRAL)],
)
def test_a_tenth_is_what_it_costs(effect: float, outcome: Found) -> None:
    shows(CAUSE, sound(of=incident(effect=effect)), "loss-as-throttling", outcome)


def test_not_known_how_much_was_lost() -> None:
    shows(CAUSE, sound(of=incident(effect=None)), "loss-as-throttling", Found.NOT_AVAILABLE)


def test_devices_without_throttling() -> None:
    of = sound(missing("wbt_latency_s", "no underlying device has writeback throttling"))
    assert "no underlying device" in (CAUSE.assess(of)[0].reason or "")


def test_turned_on_later_did_not_begin_it() -> None:
    from tests.explain.causes.contexts import HOUR

    late = gauge(
        "wbt_latency_s", 0.0, lambda _, at: 0.002 if at >= BAD_FROM + 6 * HOUR else 0.0, label="md0"
    )
    onset = shows(CAUSE, sound(late), "onset-late")
    assert (onset.found, onset.at) == (Found.AGAINST, BAD_FROM + 6 * HOUR)
