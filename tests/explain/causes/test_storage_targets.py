"""Causes that lie in single targets: full, filling, closed, away, degraded or throttled ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOME,
    HOUR,
    MDTS,
    NIGHTLY,
    OST_WRITE,
    OSTS,
    SIZE,
    SLOW,
    both,
    event,
    gauge,
    incident,
    missing,
    setting,
    shows,
    since,
    sound,
    sound_settings,
    space,
    stands,
    survey,
    weight_of,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Route
from trimtab.base.site import SiteLimits
from trimtab.explain.causes.open_targets import FEW_TARGETS_OPEN as FEW_OPEN
from trimtab.explain.causes.target_service import ARRAY_DEGRADED as ARRAY
from trimtab.explain.causes.target_service import FAILOVER
from trimtab.explain.causes.target_space import TARGET_FILLING as FILLING
from trimtab.explain.causes.target_space import TARGETS_OVER_LIMIT as OVER_LIMIT
from trimtab.explain.causes.writeback_throttling import WRITEBACK_THROTTLING as WBT

# `targets-over-limit`: fullness beyond the site's limit, in time, between targets, at all.


def test_over_limit_share() -> None:
    # Targets that went over the limit with the incident.
    of = sound(space(0.7, 0.8, targets=OSTS[:6]))
    assert weight_of(OVER_LIMIT, of) > 1.5
    shows(OVER_LIMIT, of, "over-limit-now", Found.FOR, value=0.8)
    shows(OVER_LIMIT, of, "over-limit-share", Found.FOR, targets=OSTS[:6], value=0.5, reference=0.0)
    # Over the limit in all hours is a standing condition.
    of = sound(space(0.8, targets=OSTS[:6]))
    stands(OVER_LIMIT, of, "over-limit-share")
    shows(OVER_LIMIT, of, "over-limit-now", Found.FOR, value=0.8)


def test_targets_over_the_limit_that_got_fuller_still() -> None:
    of = sound(space(0.8, 0.95, targets=OSTS[:6]))
    shows(OVER_LIMIT, of, "fullest-in-time", Found.FOR, value=0.95)


def test_over_limit_now() -> None:
    # None over the limit is against.
    assert shows(OVER_LIMIT, sound(), "over-limit-now", value=0.6).weight < -1
    # Just under the limit tells little.
    shows(OVER_LIMIT, sound(space(0.7499)), "over-limit-now", Found.NEUTRAL, value=0.7499)
    shows(OVER_LIMIT, sound(space(0.75)), "over-limit-now", Found.NEUTRAL, value=0.75)
    # The limit is the sites own.
    of = sound(space(0.7), limits=SiteLimits(fullness=0.6))
    shows(OVER_LIMIT, of, "over-limit-now", Found.FOR, value=0.7)


def test_slow_targets_that_are_the_full_ones() -> None:
    slow = survey(OST_WRITE, 6e9, slow_targets=SLOW)
    of = sound(space(0.7, 0.8, targets=SLOW), surveys=slow)
    shows(OVER_LIMIT, of, "fullness-between-targets", Found.FOR)
    other = sound(space(0.7, 0.8, targets=OSTS[6:9]), surveys=slow)
    shows(OVER_LIMIT, other, "fullness-between-targets", Found.AGAINST)


def test_one_full_target_of_many_weighs_less_than_half_of_them() -> None:
    single, half = (sound(space(0.7, 0.8, targets=OSTS[:n])) for n in (1, 6))
    assert 0 < weight_of(OVER_LIMIT, single) < weight_of(OVER_LIMIT, half)


def test_fullness_that_nobody_read() -> None:
    of = sound(missing("used_bytes", "lfs df hung"), missing("available_bytes", "lfs df hung"))
    pieces = [piece for piece in OVER_LIMIT.assess(of) if piece.route is not Route.RUNS]
    assert {piece.found for piece in pieces} == {Found.NOT_AVAILABLE}
    assert all("lfs df hung" in (piece.reason or "") for piece in pieces)


def test_nothing_speaks_for_it_while_no_target_is_over_the_limit() -> None:
    fuller = sound(space(0.4, 0.6), surveys=survey(OST_WRITE, 7e9, slow_targets=SLOW))
    assert not [piece for piece in OVER_LIMIT.assess(fuller) if piece.what.code in OVER_LIMIT.signs
                and piece.weight > 0]  # fmt: skip
    assert weight_of(OVER_LIMIT, fuller) < -1


# `target-filling`: growth of one target far beyond the others.

FIFTH = OSTS[4]


def test_one_target_that_fills() -> None:
    of = sound(space(0.6, 0.9, targets=[FIFTH]))
    assert weight_of(FILLING, of) > 2
    shows(FILLING, of, "filled-alone", Found.FOR, value=0.3, targets=(FIFTH,))


def test_it_says_more_than_that_a_target_is_over_its_limit() -> None:
    slow = survey(OST_WRITE, 5e9, slow_targets=[FIFTH])
    of = sound(space(0.6, 0.9, targets=[FIFTH]), surveys=slow)
    assert weight_of(FILLING, of) > weight_of(OVER_LIMIT, of)


def test_filled_alone() -> None:
    # All growing alike is against.
    shows(FILLING, sound(space(0.6, 0.7)), "filled-alone", Found.AGAINST)
    # Half of all growing is not one that fills.
    of = sound(space(0.6, 0.8, targets=OSTS[:5]))
    shows(FILLING, of, "filled-alone", Found.AGAINST)
    # Two points more than the others are nothing.
    for grown, outcome in ((0.019, Found.AGAINST), (0.03, Found.NEUTRAL), (0.06, Found.FOR)):
        of = sound(space(0.6, 0.6 + grown, targets=[FIFTH]))
        shows(FILLING, of, "filled-alone", outcome)


def test_noise_of_the_others_is_taken_into_account() -> None:
    def used(target: str, at: object) -> float:
        grown = 0.006 * (OSTS.index(target) % 6) ** 2  # 0 to 15 points, all of them
        return SIZE * (0.5 + (grown if at >= BAD_FROM else 0))  # pyrefly: ignore[unsupported-operation]

    of = sound(gauge("used_bytes", used), gauge("available_bytes", 0.3 * SIZE))
    assert shows(FILLING, of, "filled-alone").found is not Found.FOR


def test_a_target_that_is_slow_itself() -> None:
    full = space(0.6, 0.9, targets=[FIFTH])
    slow = survey(OST_WRITE, 5e9, slow_targets=[FIFTH])
    shows(FILLING, sound(full, surveys=slow), "full-and-slow", Found.FOR)
    others = survey(OST_WRITE, 5e9, slow_targets=SLOW)
    shows(FILLING, sound(full, surveys=others), "full-not-slow", weight=-0.7)


def test_growth_that_came_after_the_first_bad_runs() -> None:
    of = sound(gauge("used_bytes", since(8, 0.6 * SIZE, 0.9 * SIZE), targets=[FIFTH]))
    shows(FILLING, of, "onset-late", Found.AGAINST, at=BAD_FROM + 8 * HOUR)


def test_far_from_its_limit_it_matters_less() -> None:
    low, high = (
        shows(FILLING, sound(space(0.1, end, targets=[FIFTH])), "fullness-reached")
        for end in (0.4, 0.9)
    )
    assert low.found is Found.AGAINST
    assert high.found is Found.FOR


def test_two_targets_are_too_few_to_tell() -> None:
    of = sound(but=("used_bytes", "available_bytes"))
    *of_targets, of_runs = FILLING.assess(of)
    assert all(piece.found is Found.NOT_AVAILABLE for piece in of_targets)
    assert of_runs.found is Found.NEUTRAL


# `few-targets-open`: targets closed to new files, by whom, and why.

CLOSED = OSTS[:10]
CLOSING = event(
    EventKind.TARGET_CLOSED, BAD_FROM - timedelta(minutes=20), "over 75 % full",
    targets=CLOSED, source="journal",
)  # fmt: skip


def _closed(*targets: str) -> list[dict[str, object]]:
    return gauge("create_enabled", True, False, targets=targets)


def test_closed_now() -> None:
    # Most targets closed with the incident.
    of = sound(_closed(*CLOSED))
    assert weight_of(FEW_OPEN, of) > 2
    shows(FEW_OPEN, of, "closed-now", Found.FOR, value=0.833333)
    shows(FEW_OPEN, of, "closed-in-time", Found.FOR)
    # All open is against.
    shows(FEW_OPEN, sound(), "all-open", value=0.0, weight=-1.5)


@pytest.mark.parametrize(("n", "outcome"), [(1, Found.AGAINST), (3, Found.NEUTRAL), (6, Found.FOR)])
def test_a_quarter_closed_is_where_layouts_break(n: int, outcome: Found) -> None:
    shows(FEW_OPEN, sound(_closed(*OSTS[:n])), "closed-now", outcome)


def test_read_only_targets_are_closed_too() -> None:
    of = sound(gauge("read_only", False, True, targets=CLOSED))
    shows(FEW_OPEN, of, "closed-now", Found.FOR, value=0.833333)


def test_closed_in_all_hours_is_a_standing_condition() -> None:
    of = sound(gauge("create_enabled", False, targets=CLOSED))
    stands(FEW_OPEN, of, "closed-in-time")


def test_closed_after_the_first_bad_runs_did_not_make_them() -> None:
    late = gauge("create_enabled", since(8, True, False), targets=CLOSED)
    shows(FEW_OPEN, sound(late), "onset-late", weight=-0.8, at=BAD_FROM + 8 * HOUR)


def test_the_cure_that_became_the_cause_is_said_to_be_one() -> None:
    of = sound(_closed(*CLOSED), space(0.78, targets=CLOSED), events=(*NIGHTLY, CLOSING))
    shows(FEW_OPEN, of, "closing-logged", Found.FOR)
    shows(FEW_OPEN, of, "closed-by-mitigation", Found.NEUTRAL, targets=CLOSED)


def test_closed_though_they_are_not_full_is_no_mitigation() -> None:
    shows(FEW_OPEN, sound(_closed(*CLOSED)), "why-closed", value=0.0, weight=0)


def test_a_person_that_closed_them_is_no_policy() -> None:
    entry = event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR, "to be emptied", targets=CLOSED)
    shows(FEW_OPEN, sound(_closed(*CLOSED), events=[entry]), "event-logged", Found.FOR)


def test_one_mdt_that_uses_few_osts() -> None:
    apart = gauge("create_enabled", True, False, targets=CLOSED, label=MDTS[1])
    opened = gauge("create_enabled", True, targets=CLOSED)
    of = sound(opened, [row for row in apart if row["at"] >= BAD_FROM])
    shows(FEW_OPEN, of, "closed-for-one-mdt", Found.FOR, value=0.833333)
    # Half of all files are still made everywhere.
    shows(FEW_OPEN, of, "closed-in-time", value=10 / 12 / 2)


def test_what_the_open_targets_carry() -> None:
    of = sound(_closed(*CLOSED), runs=both(0.2, 1.0))
    shows(FEW_OPEN, of, "open-enough", Found.FOR, value=29999999999.999992)
    shows(FEW_OPEN, sound(), "open-enough", Found.NEUTRAL, value=180000000000.0)


def test_not_known_whether_they_are_open() -> None:
    of = sound(missing("create_enabled", "lctl: permission denied"), but=("read_only",))
    pieces = [piece for piece in FEW_OPEN.assess(of) if "create_enabled" in (piece.source or "")]
    assert pieces
    assert all("permission denied" in (piece.reason or "") for piece in pieces)


# `failover`: targets away from home, on a server that has its own as well.

AWAY = OSTS[:2]  # home oss0
CROWDED = OSTS[:4]  # with those of oss1
EVENT = event(EventKind.FAILOVER, BAD_FROM - HOUR / 4, "oss0 down", targets=AWAY)


def _served(name: str, away: Any = "oss1") -> list[dict[str, Any]]:
    return gauge("server", "oss0" if name == "bad" else away, away, targets=AWAY)


def test_away_from_home() -> None:
    # Targets that moved to another server.
    of = sound(
        _served("bad"), surveys=survey(OST_WRITE, 7e9, slow_targets=CROWDED),
        events=(*NIGHTLY, EVENT),
    )  # fmt: skip
    assert weight_of(FAILOVER, of) > 2.5
    shows(FAILOVER, of, "away-from-home", Found.FOR, value=1.0, targets=AWAY)
    shows(FAILOVER, of, "server-doubled", value=2.0)
    shows(FAILOVER, of, "slow-on-doubled", Found.FOR, targets=CROWDED)
    shows(FAILOVER, of, "event-logged", Found.FOR)
    # All at home is against.
    assert shows(FAILOVER, sound(), "away-from-home", value=0.0).weight <= -1
    # The flag alone does.
    flag = gauge("failover_active", False, True, targets=AWAY)
    of = sound(flag, but=["server"])
    shows(FAILOVER, of, "away-from-home", Found.FOR, value=1.0, targets=AWAY)
    shows(FAILOVER, of, "server-doubled", Found.NOT_AVAILABLE)
    # Without a named home the usual server is it.
    of = sound(_served("bad"), but=["failover_active"], home={})
    shows(FAILOVER, of, "away-from-home", Found.FOR, value=1.0, targets=AWAY)
    # Away in all hours is a standing condition.
    for of in (
        sound(_served("all")),
        sound(_served("all"), gauge("failover_active", True, targets=AWAY), home={}),
    ):
        stands(FAILOVER, of, "away-from-home", value=1.0, targets=AWAY)


def test_a_failover_after_the_first_bad_runs_did_not_make_them() -> None:
    late = gauge("server", since(7, "oss0", "oss1"), targets=AWAY)
    of = sound(late, events=[event(EventKind.FAILOVER, BAD_FROM + 7 * HOUR)])
    shows(FAILOVER, of, "onset-late", weight=-0.8, at=BAD_FROM + 7 * HOUR)
    shows(FAILOVER, of, "event-logged-late", Found.NEUTRAL)


def test_slow_targets_of_other_servers_are_not_its_doing() -> None:
    of = sound(_served("bad"), surveys=survey(OST_WRITE, 7e9, slow_targets=OSTS[6:9]))
    shows(FAILOVER, of, "slow-on-doubled", Found.AGAINST)


def test_one_server_of_three_targets_is_not_doubled() -> None:
    moved = gauge("server", HOME[OSTS[0]], "oss1", targets=OSTS[:1])
    shows(FAILOVER, sound(moved), "server-doubled", value=1.5)
    shows(FAILOVER, sound(moved), "server-doubled", Found.NEUTRAL)


@pytest.mark.parametrize("name", ["failover_active", "server"])
def test_servers_that_nobody_could_ask(name: str) -> None:
    rows = [row for n in ("failover_active", "server") for row in missing(n, "no route to host")]
    shows(FAILOVER, sound(rows, but=[name]), "away-from-home", Found.NOT_AVAILABLE)


# `array-degraded`: an array without a drive, or its rebuild.

SIXTH = OSTS[5]
DEGRADED = gauge("degraded", False, True, targets=[SIXTH], label="md5")
REBUILD = event(
    EventKind.REBUILD, BAD_FROM - HOUR / 2, "nvme7n1 was replaced", targets=[SIXTH],
    until=BAD_FROM + 8 * HOUR,
)  # fmt: skip


def test_degraded_in_time() -> None:
    # An array that lost a drive.
    of = sound(
        DEGRADED, surveys=survey(OST_WRITE, 6e9, slow_targets=[SIXTH]), events=(*NIGHTLY, REBUILD)
    )
    assert weight_of(ARRAY, of) > 2.5
    shows(ARRAY, of, "degraded-in-time", Found.FOR, value=1.0, targets=[SIXTH])
    shows(ARRAY, of, "degraded-between-targets", Found.FOR)
    assert "nvme7n1 was replaced" in shows(ARRAY, of, "event-logged").what
    # Whole arrays are against.
    assert shows(ARRAY, sound(), "degraded-in-time", value=0.0).weight <= -1
    # Degraded in all hours is a standing condition.
    of = sound(gauge("degraded", True, targets=[SIXTH]))
    stands(ARRAY, of, "degraded-in-time", value=1.0, targets=[SIXTH])
    assert shows(ARRAY, of, "degraded-expected").weight >= 0.3
    # Slow targets with whole arrays are not its doing.
    of = sound(DEGRADED, surveys=survey(OST_WRITE, 6e9, slow_targets=OSTS[:3]))
    shows(ARRAY, of, "degraded-between-targets", Found.AGAINST)
    shows(ARRAY, of, "slow-targets-whole", Found.AGAINST, value=3.0)


def test_a_rebuild_that_was_over_before_is_not_of_interest() -> None:
    done = event(EventKind.REBUILD, BAD_FROM - 20 * HOUR, until=BAD_FROM - 10 * HOUR)
    shows(ARRAY, sound(events=[done]), "event-not-logged", weight=0)


def test_a_rebuild_that_is_written_down_later_says_nothing() -> None:
    later = event(EventKind.REBUILD, BAD_FROM + 6 * HOUR)
    shows(ARRAY, sound(events=[later]), "event-logged-late", Found.NEUTRAL)
    # Unless it names the target that is slow: whoever wrote it came to it later.
    slow = survey(OST_WRITE, 6e9, slow_targets=[SIXTH])
    named = event(EventKind.REBUILD, BAD_FROM + 6 * HOUR, targets=[SIXTH])
    shows(ARRAY, sound(events=[named], surveys=slow), "event-logged", weight=0.8)
    other = event(EventKind.REBUILD, BAD_FROM + 6 * HOUR, targets=[OSTS[9]])
    shows(ARRAY, sound(events=[other], surveys=slow), "event-logged-late", Found.NEUTRAL)


def test_drives_that_count_media_errors() -> None:
    grown = gauge(
        "drive_media_errors_total", 3.0, lambda _, at: 4.0 + (at - BAD_FROM) / HOUR,
        targets=[SIXTH], label="nvme0n1",
    )  # fmt: skip
    piece = shows(ARRAY, sound(grown), "media-errors", Found.FOR, value=1.0, targets=[SIXTH])
    assert piece.weight <= 0.4
    # Errors of long ago are no news.
    old = gauge("drive_media_errors_total", 3.0, targets=[SIXTH], label="nvme0n1")
    shows(ARRAY, sound(old), "media-errors", Found.NEUTRAL)


def _media_errors(targets: list[str]) -> list[dict[str, Any]]:
    return gauge(
        "drive_media_errors_total", 3.0, lambda _, at: 4.0 + (at - BAD_FROM) / HOUR,
        targets=targets, label="nvme0n1",
    )  # fmt: skip


def test_a_drive_that_fails_while_its_array_is_whole() -> None:
    """It is slow and counts errors for days before it is thrown out: nothing is degraded yet."""
    slow = survey(OST_WRITE, 8e9, slow_targets=[SIXTH])
    of = sound(_media_errors([SIXTH]), surveys=slow)
    shows(ARRAY, of, "media-errors-between-targets", Found.FOR, targets=[SIXTH])
    assert weight_of(ARRAY, of) > 1
    assert not any(piece.found is Found.AGAINST for piece in ARRAY.assess(of))
    # Another target is slow besides, for another reason.
    also = survey(OST_WRITE, 8e9, slow_targets=[SIXTH, OSTS[9]])
    of = sound(_media_errors([SIXTH]), surveys=also)
    shows(ARRAY, of, "media-errors-between-targets", Found.FOR, targets=[SIXTH])


def test_media_errors_of_a_target_that_is_not_slow_are_not_it() -> None:
    slow = survey(OST_WRITE, 8e9, slow_targets=[OSTS[2]])
    of = sound(_media_errors([SIXTH]), surveys=slow)
    shows(ARRAY, of, "media-errors-between-targets", Found.NEUTRAL)
    shows(ARRAY, of, "degraded-in-time", Found.AGAINST)
    # Where many count errors, that the slow one does is chance.
    of = sound(_media_errors(list(OSTS[:9])), surveys=slow)
    shows(ARRAY, of, "media-errors-between-targets", Found.NEUTRAL)


def test_flags_that_could_not_be_read() -> None:
    of = sound(missing("degraded", "no such parameter"))
    assert shows(ARRAY, of, "degraded-between-targets").reason is not None
    assert ARRAY.assess(of)[0].found is Found.NOT_AVAILABLE
    assert "no such parameter" in (ARRAY.assess(of)[0].reason or "")


def test_an_array_that_was_always_degraded_does_not_hide_a_new_one() -> None:
    of = sound(gauge("degraded", True, targets=OSTS[9:10], label="md9"), DEGRADED)
    shows(ARRAY, of, "degraded-in-time", Found.FOR, value=1.0, targets=[SIXTH], throughout=False)
    shows(ARRAY, of, "degraded-in-time", reference=0.0)


# `writeback-throttling`: on in bad hours, on in all, or not at all.

TURNED_ON = gauge("wbt_latency_s", 0.0, 0.002, label="md0")


def test_throttled_in_time() -> None:
    # Throttling that was turned on.
    of = sound(TURNED_ON, writes=0.9, tail=4.0, of=incident(effect=0.9))
    assert weight_of(WBT, of) > 2
    shows(WBT, of, "throttled-in-time", Found.FOR, value=1.0, reference=0.0)
    shows(WBT, of, "throttled-flash", value=0.002)
    # Off in all hours clears it.
    shows(WBT, sound(), "throttled-in-time", value=0.0, weight=-1.2)
    # On in all hours is a standing condition.
    of = sound(gauge("wbt_latency_s", 0.002, label="md0"))
    stands(WBT, of, "throttled-in-time", value=1.0, reference=1.0)
    assert shows(WBT, of, "throttled-flash").weight >= 0.3
    # One device of many is enough.
    rows = [*gauge("wbt_latency_s", 0.0, label="md0"),
            *gauge("wbt_latency_s", 0.0, 0.002, label="nvme3n1")]  # fmt: skip
    shows(WBT, sound(rows), "throttled-in-time", Found.FOR, value=1.0)


def test_slow_targets_that_are_the_throttled_ones() -> None:
    slow = survey(OST_WRITE, 11e9, slow_targets=SLOW)
    some = gauge("wbt_latency_s", 0.0, 0.002, targets=SLOW, label="md0")
    shows(WBT, sound(some, surveys=slow), "throttled-between-targets", Found.FOR)
    shows(WBT, sound(surveys=slow), "throttled-between-targets", Found.AGAINST)


def test_the_queues_settings_do_where_no_reading_is_there() -> None:
    folded = setting("drives/queue/wbt_lat_usec", "0", "2000 (11), 0 (nvme3n1)")
    of = sound(but=["wbt_latency_s"], settings=[*sound_settings(), *folded])
    shows(WBT, of, "throttled-in-time", Found.FOR, value=1.0, reference=0.0)


def test_disks_are_throttled_with_good_reason() -> None:
    disks = setting("drives/queue/rotational", "1")
    shows(WBT, sound(TURNED_ON, settings=disks), "throttled-flash", weight=-0.6)


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [(0.9, Found.FOR), (0.7, Found.NEUTRAL), (0.4, Found.AGAINST), (1.1, Found.NEUTRAL)],
)
def test_a_tenth_is_what_it_costs(effect: float, outcome: Found) -> None:
    shows(WBT, sound(of=incident(effect=effect)), "loss-as-throttling", outcome)


def test_not_known_how_much_was_lost() -> None:
    shows(WBT, sound(of=incident(effect=None)), "loss-as-throttling", Found.NOT_AVAILABLE)


def test_devices_without_throttling() -> None:
    of = sound(missing("wbt_latency_s", "no underlying device has writeback throttling"))
    assert "no underlying device" in (WBT.assess(of)[0].reason or "")


def test_turned_on_later_did_not_begin_it() -> None:
    late = gauge("wbt_latency_s", since(6, 0.0, 0.002), label="md0")
    shows(WBT, sound(late), "onset-late", Found.AGAINST, at=BAD_FROM + 6 * HOUR)
