"""A change of configuration: from the log book, from the settings, by its shape."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    END,
    HOUR,
    LOST,
    OSTS,
    SERVERS,
    START,
    WELL,
    context,
    event,
    gauge,
    incident,
    quiet,
    runs,
    setting,
    shows,
    survey,
    weight_of,
    with_log,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import NAMED, Found, Shape
from trimtab.base.verdict import Interval
from trimtab.explain.causes.configuration_change import CONFIGURATION_CHANGE, STATES
from trimtab.explain.context import Context
from trimtab.explain.explanation import explain

CHANGE = EventKind.CONFIG_CHANGE
ELSEWHERE = (
    *setting("lustre_version", "2.15.3", targets=SERVERS),
    *setting("obdfilter/read_cache_enable", "1"),
)
"""Settings of servers and targets beside those of a client: then all kinds are collected."""


def changed(hours_before: float, detail: str = "checksums on", *more: object) -> Context:
    log = with_log(event(CHANGE, BAD_FROM - hours_before * HOUR, detail), *more)  # type: ignore[arg-type]
    return quiet(events=log, of=incident(effect=0.82))


@pytest.mark.parametrize(("hours", "least", "most"), [
    (0.3, 1.5, 2.0), (2.9, 1.5, 2.0), (8.0, 0.3, 1.4), (30.0, -0.3, 0.5),
])  # fmt: skip
def test_the_nearer_an_entry_the_more_it_weighs(hours: float, least: float, most: float) -> None:
    piece = shows(CONFIGURATION_CHANGE, changed(hours), "change-logged")
    assert least <= piece.weight <= most
    assert piece.at == BAD_FROM - hours * HOUR


def test_change_logged() -> None:
    # One of many changes weighs less than the only one.
    daily = [event(CHANGE, START - n * 8 * HOUR, "OSTs tuned") for n in range(20)]
    many = shows(CONFIGURATION_CHANGE, changed(1.0, "OSTs tuned", *daily), "change-logged")
    assert (
        0
        <= many.weight
        < shows(CONFIGURATION_CHANGE, changed(1.0, "OSTs tuned"), "change-logged").weight - 0.4
    )
    # An entry hours after it had begun may have been written down later, or be another change: it
    # supports, and names nothing.
    for later in (-5.0, -10.0):
        of = changed(later)
        assert 0 < shows(CONFIGURATION_CHANGE, of, "change-logged").weight <= 0.8
        named = {cause.cause for cause in explain(of).causes if cause.confidence >= NAMED}
        assert "configuration-change" not in named
    # A change soon after the told beginning may be it.
    # The beginning of a small step is known to some hours only: the runs before it count.
    late = BAD_FROM + 4 * HOUR
    still_well = [
        run if not BAD_FROM <= run.at < late else
        next(fact for fact in runs(WELL, WELL) if fact.at == run.at)
        for run in runs(WELL, 0.85 * WELL)
    ]  # fmt: skip
    of = quiet(runs=still_well, events=with_log(event(CHANGE, late, "kernel")),
               of=incident(effect=0.85))  # fmt: skip
    assert shows(CONFIGURATION_CHANGE, of, "change-logged").weight >= 0
    # Capacity that was added is a change.
    log = with_log(event(EventKind.CAPACITY_ADDED, BAD_FROM - HOUR, "24 OSTs", targets=[]))
    shows(CONFIGURATION_CHANGE, quiet(events=log), "change-logged", Found.FOR)
    # No entry is against where somebody keeps a log book. One that was imported makes none.
    notes = [event(EventKind.NOTE, START - n * 24 * HOUR, "inspected") for n in range(5)]
    shows(CONFIGURATION_CHANGE, quiet(events=with_log(*notes)), "change-not-logged", Found.AGAINST)
    shows(CONFIGURATION_CHANGE, quiet(events=[notes[0]]), "change-logged", reason="log-not-kept")
    shows(CONFIGURATION_CHANGE, quiet(events=[]), "change-logged", reason="log-empty")


def test_setting_changed() -> None:
    # A setting that nobody wrote down.
    of = quiet(settings=setting("kernel_release", "5.14.0-162", "5.14.0-284", targets=SERVERS))
    piece = shows(CONFIGURATION_CHANGE, of, "setting-changed", targets=tuple(sorted(SERVERS)))
    assert (piece.reference, piece.value) == ("5.14.0-162", "5.14.0-284")
    assert piece.source == "setting kernel_release"
    assert piece.weight > 1.2
    assert piece.at == BAD_FROM
    assert weight_of(CONFIGURATION_CHANGE, of) > 1.5
    # A setting beside the entry counts little more.
    settings = setting("checksums", "0", "1", targets=["nid1"])
    both = quiet(
        settings=settings, events=with_log(event(CHANGE, BAD_FROM - HOUR / 2, "checksums on"))
    )
    piece = shows(CONFIGURATION_CHANGE, both, "setting-changed")
    assert (piece.source, piece.reference, piece.value) == ("setting checksums", "0", "1")
    assert 0 < piece.weight < 0.5


def test_settings_that_move_by_themselves_are_no_changes() -> None:
    for name in (
        "brw_stats/io_time", "ldiskfs/md0/mb_last_group", "ldiskfs/md0/discard_stats",
        "obdfilter/degraded", "osp/max_create_count", "failover/servers",
        "ldiskfs/md0/lifetime_discard_ops",
        "server", "hostname", "nids", "health_check", "drives/queue/wbt_lat_usec",
    ):  # fmt: skip
        assert STATES.match(name), name
    for name in (
        "checksums", "lustre_version", "kernel_release", "ldiskfs/md0/mb_c2_threshold",
        "mount_options", "lod/qos_threshold_rr", "osp/reserved_mb_low",
    ):  # fmt: skip
        assert not STATES.match(name), name
    moving = setting("ldiskfs/md0/mb_last_group", "1", "900")
    still = setting("checksums", "1", targets=["nid1"])
    shows(
        CONFIGURATION_CHANGE,
        quiet(settings=[*moving, *still, *ELSEWHERE]),
        "setting-unchanged",
        Found.AGAINST,
    )


def test_settings_of_clients_that_nobody_collects_are_not_known() -> None:
    of = quiet(settings=setting("lustre_version", "2.15.3", targets=SERVERS))
    shows(CONFIGURATION_CHANGE, of, "setting-changed", reason="client-settings-unknown")


def test_a_setting_that_changed_within_the_uncertainty_of_the_onset_supports() -> None:
    # 4 % less in noise of 5 %: its beginning is known to a day. It was placed 8 h early.
    noisy = [
        replace(run, values={name: value * (1.05 if number % 3 else 0.95)
                             for name, value in run.values.items()})
        for number, run in enumerate(runs(WELL, 0.96 * WELL))
    ]  # fmt: skip
    rows = setting("checksums", "0", targets=["nid1"])
    for row in rows:
        row["value"] = "0" if row["at"] < BAD_FROM + 8 * HOUR else "1"
    small = quiet(settings=rows, runs=noisy, of=incident(effect=0.96))
    assert shows(CONFIGURATION_CHANGE, small, "setting-changed").weight > 0.5
    # A loss of half is placed within hours: then it is another change.
    sharp = quiet(settings=[*rows, *ELSEWHERE], runs=runs(WELL, WELL / 2), of=incident(effect=0.5))
    shows(CONFIGURATION_CHANGE, sharp, "setting-unchanged", Found.AGAINST)


def test_an_entry_about_something_else_is_weak() -> None:
    weights = [
        shows(CONFIGURATION_CHANGE, changed(0.5, detail), "change-logged").weight
        for detail in ("monitoring agent updated", "Grafana moved to another host",
                       "BIOS update on compute nodes", "monitoring of Lustre checksums turned on")
    ]  # fmt: skip
    assert max(weights[:2]) <= 0.2
    assert min(weights[2:]) > 1.2


def test_no_target_is_new_where_a_table_holds_the_extremes_alone() -> None:
    used = [
        row for row in gauge("capacity_bytes", 1e14)
        if row["target"] in (OSTS[row["at"].hour % 5], OSTS[5 + row["at"].hour % 6])
    ]  # fmt: skip
    shows(CONFIGURATION_CHANGE, quiet(readings=used), "targets-added", reason="targets-vary")


def test_settings_known_on_one_side_only() -> None:
    later = [at for at in (BAD_FROM, BAD_FROM + HOUR)]
    of = quiet(settings=setting("checksums", "0", "1", hours=later))
    shows(CONFIGURATION_CHANGE, of, "setting-changed", Found.NOT_AVAILABLE)


def test_a_setting_that_changed_days_before_is_not_it() -> None:
    rows = setting("checksums", "0", targets=["nid1"])
    for row in rows:
        row["value"] = "0" if row["at"] < START + 10 * HOUR else "1"
    assert (
        shows(CONFIGURATION_CHANGE, quiet(settings=[*rows, *ELSEWHERE]), "setting-unchanged").weight
        < 0
    )
    # Firmware and clients may have been changed where targets alone are collected.
    of_targets = quiet(settings=ELSEWHERE, events=with_log(
        event(CHANGE, BAD_FROM - HOUR, "OSS kernel updated")))  # fmt: skip
    shows(CONFIGURATION_CHANGE, of_targets, "setting-unchanged", Found.AGAINST)


@pytest.mark.parametrize(("shape", "outcome"), [
    (Shape.STEP, Found.FOR), (Shape.DIP, Found.AGAINST), (Shape.DRIFT, Found.AGAINST),
    (Shape.UNSTEADY, Found.AGAINST), (Shape.STANDING, Found.NEUTRAL),
])  # fmt: skip
def test_a_change_makes_a_step(shape: Shape, outcome: Found) -> None:
    pieces = CONFIGURATION_CHANGE.assess(quiet(of=incident(shape)))
    assert pieces[-1].found is outcome


def test_few_slow_targets_speak_against_a_change_of_all() -> None:
    of = quiet(surveys=survey(15e9, 4e9, slow_targets=OSTS[:2]))
    shows(CONFIGURATION_CHANGE, of, "some-targets-slow", Found.AGAINST)


def test_the_slow_targets_are_those_that_were_changed() -> None:
    log = with_log(event(CHANGE, BAD_FROM - HOUR, "firmware", targets=OSTS[:2]))
    slow = survey(15e9, 4e9, slow_targets=OSTS[:2])
    shows(CONFIGURATION_CHANGE, quiet(surveys=slow, events=log), "slow-among-changed", Found.FOR)
    other = survey(15e9, 4e9, slow_targets=OSTS[5:8])
    shows(
        CONFIGURATION_CHANGE, quiet(surveys=other, events=log), "slow-among-changed", Found.AGAINST
    )


def test_what_is_changed_on_clients_leaves_a_survey_on_the_servers_as_it_was() -> None:
    settings = setting("checksums", "0", "1", targets=["nid1"])
    assert shows(CONFIGURATION_CHANGE, quiet(settings=settings), "targets-alike").weight > 0
    down = survey(15e9, 10e9, slow_targets=OSTS)
    shows(
        CONFIGURATION_CHANGE,
        quiet(settings=settings, surveys=down),
        "changed-on-clients",
        Found.AGAINST,
    )


def test_a_level_that_came_back_by_itself() -> None:
    ended = incident(until=END - 3 * HOUR)
    collected = [*setting("checksums", "1", targets=["nid1"]), *ELSEWHERE]
    known = quiet(of=ended, settings=collected)
    shows(CONFIGURATION_CHANGE, known, "recovered-unchanged", Found.AGAINST, weight=-0.8)
    # Where nobody looked at clients and no log book is kept, it may have been taken back.
    reason = "no-settings"
    shows(CONFIGURATION_CHANGE, quiet(of=ended), "recovered-unchanged", reason=reason)
    notes = [event(EventKind.NOTE, START - n * 24 * HOUR, "inspected") for n in range(5)]
    kept = quiet(of=ended, events=with_log(*notes))
    shows(CONFIGURATION_CHANGE, kept, "recovered-unchanged", Found.AGAINST, weight=-0.4)
    log = with_log(event(CHANGE, END - 3 * HOUR, "taken back"))
    shows(
        CONFIGURATION_CHANGE,
        quiet(of=incident(until=END - 3 * HOUR), events=log),
        "reversal-logged",
        Found.FOR,
    )


def test_snapshots_that_did_not_show_a_change_do_not_show_its_reversal() -> None:
    collected = [*setting("checksums", "1", targets=["nid1"]), *ELSEWHERE]
    log = with_log(event(CHANGE, BAD_FROM - HOUR, "huge pages on compute nodes"))
    of = quiet(of=incident(until=END - 3 * HOUR), settings=collected, events=log)
    shows(CONFIGURATION_CHANGE, of, "recovered-unchanged", Found.NOT_AVAILABLE)
    notes = [event(EventKind.NOTE, START - n * 24 * HOUR, "inspected") for n in range(5)]
    kept = quiet(of=incident(until=END - 3 * HOUR), settings=collected, events=[*log, *notes])
    shows(CONFIGURATION_CHANGE, kept, "recovered-unchanged", Found.AGAINST, weight=-0.4)


def test_what_is_written_down_late_is_taken_back_late() -> None:
    until = END - 10 * HOUR
    log = with_log(event(CHANGE, until + 9 * HOUR, "checksums off again"))
    of = quiet(of=incident(until=until), events=log)
    shows(CONFIGURATION_CHANGE, of, "reversal-logged", Found.FOR)


def test_throttling_is_no_second_cause_beside_itself() -> None:
    throttled = [*setting("drives/queue/wbt_lat_usec", "0", "2000"), *ELSEWHERE,
                 *setting("checksums", "1", targets=["nid1"])]  # fmt: skip
    shows(CONFIGURATION_CHANGE, quiet(settings=throttled), "setting-unchanged", Found.AGAINST)


def test_a_level_that_came_back_with_the_old_value() -> None:
    rows = setting("qos_threshold_rr", "17", "50", targets=["MDT0000"])
    for row in rows:
        if row["at"] > END - 4 * HOUR:
            row["value"] = "17"
    of = quiet(settings=rows, of=incident(until=END - 4 * HOUR))
    shows(
        CONFIGURATION_CHANGE, of, "setting-reverted", Found.FOR, source="setting qos_threshold_rr"
    )


def test_the_effect_is_as_large_as_the_known_one() -> None:
    shows(CONFIGURATION_CHANGE, changed(1.0), "known-effect", value=0.82, weight=0.2)
    much = quiet(
        events=with_log(event(CHANGE, BAD_FROM - HOUR, "SafeRet BIOS")), of=incident(effect=0.3)
    )
    shows(CONFIGURATION_CHANGE, much, "known-effect", Found.NEUTRAL)


def test_a_wide_interval_holds_the_known_effect() -> None:
    from dataclasses import replace

    of = replace(incident(effect=0.7), effect_interval=Interval(0.6, 0.8))
    log = with_log(event(CHANGE, BAD_FROM - HOUR, "checksums on"))
    assert shows(CONFIGURATION_CHANGE, quiet(events=log, of=of), "known-effect").weight > 0


def test_names_what_the_seed_saw() -> None:
    """Checksums on at 02:40, writes 17 % down from 03:00, every OST alike, nothing else changed."""
    of = quiet(
        events=with_log(event(CHANGE, BAD_FROM - timedelta(minutes=20), "checksums on")),
        settings=setting("checksums", "0", "1", targets=["nid1"]),
        runs=runs(673e9, 554e9), of=incident(effect=0.823),
    )  # fmt: skip
    assert weight_of(CONFIGURATION_CHANGE, of) > 2.5
    assert LOST < WELL


def test_an_old_entry_does_not_hide_a_setting_that_changed_just_then() -> None:
    settings = setting("kernel_release", "5.14.0-162", "5.14.0-284", targets=SERVERS)
    of = quiet(settings=settings, events=with_log(event(CHANGE, BAD_FROM - 40 * HOUR, "quota")))
    assert shows(CONFIGURATION_CHANGE, of, "setting-changed").weight > 1
    assert weight_of(CONFIGURATION_CHANGE, of) > 1.5


def test_a_survey_through_a_client_feels_what_is_changed_on_clients() -> None:
    from tests.explain.causes.contexts import run

    surveyed = run(BAD_FROM + 4 * HOUR, {}, kind="ior", probe="survey")
    rows = survey(15e9)
    for row in rows:
        if row["at"] >= BAD_FROM:
            row["value"] *= 0.85
            row["run"] = surveyed.id
    settings = setting("checksums", "0", "1", targets=["nid1"])
    of = quiet(settings=settings, surveys=rows, runs=(*runs(WELL, LOST), surveyed))
    shows(CONFIGURATION_CHANGE, of, "targets-alike", Found.FOR)


def test_targets_that_were_added_tell_of_a_change_that_nobody_wrote_down() -> None:
    size = gauge("capacity_bytes", 133e12)
    added = gauge("capacity_bytes", None, 133e12, targets=("OST0020", "OST0021"))
    scene = context(readings=[*size, *added])
    piece = shows(
        CONFIGURATION_CHANGE,
        scene,
        "targets-added",
        value=2.0,
        targets=("OST0020", "OST0021"),
        weight=1.5,
    )
    assert piece.at == BAD_FROM
    shows(CONFIGURATION_CHANGE, context(readings=size), "targets-unchanged")


def test_a_setting_of_one_server_concerns_the_targets_that_it_serves() -> None:
    governors = [
        *setting("cpu_governor", "performance", "powersave", targets=SERVERS[:1]),
        *setting("cpu_governor", "performance", targets=SERVERS[1:]),
    ]
    own = quiet(settings=governors, surveys=survey(15e9, 4e9, slow_targets=OSTS[:2]))
    shows(CONFIGURATION_CHANGE, own, "slow-among-changed", Found.FOR, value=1.0)
    other = quiet(settings=governors, surveys=survey(15e9, 4e9, slow_targets=OSTS[4:6]))
    shows(CONFIGURATION_CHANGE, other, "slow-among-changed", value=0.0)


@pytest.mark.parametrize(("hours", "code"), [
    (-4, "setting-reverted"), (3, "setting-reverted"), (40, "recovered-unchanged"),
])  # fmt: skip
def test_a_reversal_between_two_snapshots_around_the_end(hours: float, code: str) -> None:
    """Snapshots twelve hours apart: the one that shows the reversal may be later than the end."""
    rows = [
        row | {"at": START + 12 * n * HOUR, "value": "1" if 4 <= n < 8 else "0"}
        for n in range(13)
        for row in setting("checksums", "0", targets=["nid1"], hours=[START])
    ]
    of = incident(until=START + 96 * HOUR - hours * HOUR)
    shows(CONFIGURATION_CHANGE, quiet(settings=rows, of=of), code)


# From an inventory


def looked(detail: str, *more: str, hours: float = 24.0, targets: tuple[str, ...] = ()) -> Context:
    """Return the context of changes that an inventory noticed between two looks."""
    since = BAD_FROM - hours / 2 * HOUR
    until = since + hours * HOUR
    entries = (
        event(CHANGE, since, text, targets=targets, until=until, source="inventory")
        for text in (detail, *more)
    )
    return quiet(events=tuple(entries), of=incident(effect=0.82))


def test_a_change_that_an_inventory_noticed_is_found() -> None:
    of = looked("drive/firmware of A F1 -> F2 on the servers oss[1-2]")
    piece = shows(CONFIGURATION_CHANGE, of, "change-logged")
    assert piece.weight > 0.3
    assert "firmware of A F1 -> F2" in piece.what


def test_the_longer_between_two_looks_the_less_a_change_weighs() -> None:
    weights = [
        shows(
            CONFIGURATION_CHANGE, looked("kernel/release 1 -> 2", hours=hours), "change-logged"
        ).weight
        for hours in (2.0, 24.0, 240.0)
    ]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > weights[1] > weights[2]


def test_changes_of_one_look_are_no_rivals_of_one_another() -> None:
    texts = [f"kernel/release 1 -> 2 on the servers {name}" for name in ("oss[1-2]", "mds1")]
    alone = shows(CONFIGURATION_CHANGE, looked(texts[0]), "change-logged")
    both = shows(CONFIGURATION_CHANGE, looked(*texts), "change-logged")
    assert both.weight == alone.weight


def test_entries_of_an_inventory_do_not_show_that_a_log_book_is_kept() -> None:
    past = [
        event(CHANGE, START - n * 24 * HOUR, "kernel/release 1 -> 2", source="inventory")
        for n in range(3, 12)
    ]
    piece = shows(CONFIGURATION_CHANGE, quiet(events=tuple(past)), "change-logged")
    assert piece.reason is not None
    assert piece.weight == 0.0
