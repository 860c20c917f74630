"""Which targets are trimmed, in which turn, and which are left, with the reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.act.world import (
    NOW,
    TIB,
    action,
    ago,
    carried_out,
    codes,
    held_by,
    ost,
    retaken,
    seen,
    site,
    snapshot,
)
from tests.support.each import for_each

from trimtab.act.decide.trimming import Written, decide_trims, written_since
from trimtab.base.action import ActionKind, Outcome, ended_at
from trimtab.base.error import Message
from trimtab.base.site_policy import TrimPolicy, Window
from trimtab.base.snapshot import TrimPractice, not_available

DAY_S = 86400.0
YESTERDAY, LATELY = ago(DAY_S).isoformat(), ago(3600).isoformat()


def trim(target, age_s, outcome: Outcome | None = Outcome.DONE, **facts):
    return action(ActionKind.TRIM, target, age_s, outcome=outcome, policy="trim", **facts)


def trimmed(plan):
    return [(row.stage, row.target) for row in plan.instructions]


@for_each(
    "target, actions, code",
    [
        (ost(0), (), "never-trimmed"),
        (ost(0, last_trim_at=None), (), "never-trimmed"),
        (ost(0, last_trim_at="yesterday"), (), "never-trimmed"),
        (ost(0, last_trim_at=YESTERDAY), (), "time-since-trim"),
        (ost(0, last_trim_at=ago(DAY_S - 1).isoformat()), (), None),
        (ost(0), (trim("OST0000", DAY_S),), "time-since-trim"),
        (ost(0), (trim("OST0000", DAY_S - 1),), None),
        # The later of the two counts; one of the future is a wrong clock's.
        (ost(0, last_trim_at=YESTERDAY), (trim("OST0000", 3600),), None),
        (ost(0, last_trim_at=LATELY), (trim("OST0000", DAY_S),), None),
        (ost(0, last_trim_at=ago(-3600).isoformat()), (trim("OST0000", DAY_S),), "time-since-trim"),
        # Only what is known to be done counts.
        (ost(0, last_trim_at=YESTERDAY), (trim("OST0000", DAY_S / 2, Outcome.UNKNOWN),),
         "time-since-trim"),
        # A tenth of the capacity written since.
        (ost(0, bytes_written_total=30 * TIB),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), "writes-since-trim"),
        (ost(0, bytes_written_total=30 * TIB - 1),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), None),
        # A counter that went backwards began anew: what it has counted since is a lower bound.
        (ost(0, bytes_written_total=10 * TIB),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), "writes-since-trim"),
        (ost(0, bytes_written_total=10 * TIB - 1),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), None),
        (ost(0, bytes_written_total=TIB),
         (trim("OST0000", DAY_S, bytes_written_total=str(20 * TIB)),), "time-since-trim"),
        # It began anew and has passed the old value since: the uptime of the server tells.
        (ost(0, bytes_written_total=21 * TIB, server_uptime_s=1800.0),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), "writes-since-trim"),
        (ost(0, bytes_written_total=21 * TIB, server_uptime_s=7200.0),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), None),
        (ost(0, bytes_written_total=10 * TIB),
         (trim("OST0000", 3600, bytes_written_total="many"),), None),
        # The system reports the same trim a moment later, or another one since.
        (ost(0, bytes_written_total=30 * TIB, last_trim_at=ago(3590).isoformat()),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), "writes-since-trim"),
        (ost(0, bytes_written_total=30 * TIB, last_trim_at=ago(1800).isoformat()),
         (trim("OST0000", 3600, bytes_written_total=str(20 * TIB)),), None),
    ],
)  # fmt: skip
def test_due(target, actions, code):
    plan = decide_trims(seen([target], actions=actions), NOW)
    assert [row.reason.code for row in plan.instructions] == ([code] if code else [])
    assert plan.untouched == ()


@for_each("before, due", [(15 * TIB, True), (18 * TIB, False), (25 * TIB, True), (None, False)])
def test_without_a_noted_counter_the_rate_since_the_baseline_counts(before, due):
    """Trimmed 4 hours ago, the baseline is 2 hours old: twice what was written since."""
    target = ost(0, bytes_written_total=20 * TIB, last_trim_at=ago(4 * 3600).isoformat())
    baseline = snapshot([ost(0, bytes_written_total=before)], age_s=7200)
    assert bool(decide_trims(seen([target], baseline=baseline), NOW).instructions) is due


@for_each(
    "event, session, due",
    [
        # The partner's counter is of another device: what it wrote since the mount counts.
        ("failover", 10 * TIB, "at least 10.0 TiB, 10.0 % of its capacity, were written"),
        ("failover", 10 * TIB - 1, None),
        ("failover", None, None),
        # Booted since the trim, the partner has counted nothing that is older.
        ("failover to one that booted since", 9 * TIB, "at least 50.0 TiB"),
        ("reboot", 1 * TIB, "at least 50.0 TiB"),
    ],
)
def test_what_was_written_since_a_reset_is_a_lower_bound(event, session, due):
    target = ost(
        0, server="oss0" if event == "reboot" else "oss1", bytes_written_total=50 * TIB,
        session_bytes_written_total=session,
        server_uptime_s=7200.0 if event == "failover" else 1800.0,
    )  # fmt: skip
    last = trim("OST0000", 3600, bytes_written_total=str(20 * TIB))
    last = replace(last, instruction=replace(last.instruction, server="oss0"))
    reasons = [
        str(row.reason) for row in decide_trims(seen([target], actions=(last,)), NOW).instructions
    ]
    assert len(reasons) == (due is not None)
    assert all(reason.startswith(due) for reason in reasons)


HISTORY = st.lists(
    st.tuples(
        st.integers(61, 40_000), st.sampled_from(["", "", "boot 0", "boot 1", "move"]),
        st.integers(0, 9),
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=4 * settings().max_examples)
@given(HISTORY, HISTORY, st.booleans(), st.booleans())
def test_written_since_is_a_lower_bound_whatever_happened(
    earlier, later, known_uptime, known_session
):
    """A slow twin keeps every write with its time, and counts those that a counter can know of."""
    writes, moved_at, booted = [], 0, {0: 0, 1: 0}
    clock, server = 0, 0
    noted = trimmed_at = noted_by = 0

    def counter(of):
        return sum(amount for at, amount, by in writes if by == of and at >= booted[of])

    for pause_s, event, amount in [*earlier, (100, "trim", 0), *later]:
        clock += pause_s
        if event == "move":
            server, moved_at = 1 - server, clock
        elif event.startswith("boot"):
            booted[int(event[-1])] = clock
        elif event == "trim":
            noted, trimmed_at, noted_by = counter(server), clock, server
        if amount:
            writes.append((clock + 1, amount, server))
    clock += 100
    truth = sum(amount for at, amount, _ in writes if at > trimmed_at)
    target = ost(
        0, server=f"oss{server}", bytes_written_total=counter(server),
        server_uptime_s=float(clock - booted[server]) if known_uptime else None,
        session_bytes_written_total=(
            sum(amount for at, amount, _ in writes if at > max(moved_at, booted[server]))
            if known_session
            else None
        ),
    )  # fmt: skip
    last = trim("OST0000", clock - trimmed_at + 30, bytes_written_total=str(noted))
    last = replace(last, instruction=replace(last.instruction, server=f"oss{noted_by}"))
    written = written_since(seen([target], actions=(last,)), target, last, ended_at(last))
    if written is None:
        assert server != noted_by
        assert not known_session
        return
    assert written.amount_bytes <= truth
    since = max(booted[server], moved_at)
    if known_uptime and (known_session or server == noted_by):
        least = sum(amount for at, amount, _ in writes if at > max(since, trimmed_at))
        assert written.amount_bytes >= least
    if not any(event for _, event, _ in later) and known_uptime:
        assert written == Written(truth, at_least=False)


@for_each(
    "practice, code",
    [
        (TrimPractice(mount_option="discard"), "trimmed-by-mount"),
        (TrimPractice(mount_option="fstrim=256"), "trimmed-by-mount"),
        (TrimPractice(timer_active=True), "trimmed-by-schedule"),
        (TrimPractice(scheduled=("/etc/cron.daily/fstrim",)), "trimmed-by-schedule"),
        (not_available("zfs", "a ZFS target"), "practice-unknown"),
        # As drivers say that there is none: with the reason.
        (TrimPractice(reasons={"mount_option": "neither discard nor fstrim"}), None),
        (TrimPractice(timer_active=False), None),
        (TrimPractice(), None),
    ],
)
def test_not_where_something_else_trims(practice, code):
    plan = decide_trims(seen([ost(0)], practices={"OST0000": practice}), NOW)
    assert codes(plan) == ({("OST0000", None): code} if code else {})
    assert bool(plan.instructions) is (code is None)


@for_each(
    "target, code",
    [
        (ost(0, settings={"mount/options": "rw,discard"}), "trimmed-by-mount"),
        (ost(0, settings={"mount/options": "rw,fstrim=256"}), "trimmed-by-mount"),
        (ost(0, settings={"mount/options": "rw,nodiscard"}), None),
        (ost(0, discard_granularity_bytes=0), "no-discard"),
        (ost(0, degraded=True), "target-degraded"),
        (ost(0, labelled={("degraded", "md0"): True}), "target-degraded"),
        (ost(0, read_only=True), "target-read-only"),
        (ost(0, import_state="RECOVER"), "target-disconnected"),
        (ost(0, labelled={("server", None): None}), "server-unknown"),
    ],
)
def test_not_where_it_would_do_harm(target, code):
    assert codes(decide_trims(seen([target]), NOW)) == ({("OST0000", None): code} if code else {})


def test_not_while_it_is_busy():
    plan = decide_trims(
        seen([ost(0), ost(1)], busy={"OST0001": Message("purge", "a purge runs")}), NOW
    )
    assert trimmed(plan) == [(0, "OST0000")]
    assert codes(plan) == {("OST0001", None): "purge"}
    assert not decide_trims(
        seen([ost(0)], busy={"": Message("probe", "a probe")}), NOW
    ).instructions


def test_not_soon_after_it_failed():
    failed = trim("OST0000", 6 * 3600 - 1, Outcome.FAILED)
    assert codes(decide_trims(seen([ost(0)], actions=(failed,)), NOW)) == {
        ("OST0000", None): "trim-failed"
    }
    again = trim("OST0000", 6 * 3600, Outcome.FAILED)
    assert trimmed(decide_trims(seen([ost(0)], actions=(again,)), NOW)) == [(0, "OST0000")]
    # A process that was killed goes on at once.
    killed = replace(failed, facts={"interrupted": "killed"})
    assert decide_trims(seen([ost(0)], actions=(killed,)), NOW).instructions


def test_a_target_that_is_named_and_absent_is_reported():
    plan = decide_trims(seen([ost(0)], site(home={"OST0000": "oss0", "OST0001": "oss0"})), NOW)
    assert codes(plan) == {("OST0001", None): "target-absent"}


@for_each(
    "at, begins",
    [("00:30", True), ("03:59", True), ("04:00", False), ("22:29", False), ("22:30", True)],
)
def test_the_window_is_in_the_time_of_the_site(at, begins):
    """22:30 to 04:00 in Berlin, an hour before UTC in November."""
    hour, minute = map(int, at.split(":"))
    now = datetime(2026, 11, 24, hour, minute, tzinfo=UTC) - timedelta(hours=1)
    where = replace(site(trim=TrimPolicy(window=Window(1350, 240))), timezone="Europe/Berlin")
    plan = decide_trims(retaken(seen([ost(0)], where), at=now), now)
    assert bool(plan.instructions) is begins
    assert codes(plan) == ({} if begins else {("OST0000", None): "outside-window"})


def test_one_of_a_server_and_of_an_enclosure_at_a_time_in_the_order_of_need():
    def age(number, days, **changes):
        return ost(number, last_trim_at=ago(days * DAY_S).isoformat(), **changes)

    targets = [age(0, 2), age(1, 3), age(2, 4), age(3, 5), age(4, 6), age(5, 1.5)]
    assert trimmed(decide_trims(seen(targets), NOW)) == [
        (0, "OST0004"), (0, "OST0003"), (0, "OST0001"),
        (1, "OST0002"), (1, "OST0000"), (1, "OST0005"),
    ]  # fmt: skip
    where = site(trim=TrimPolicy(enclosures=(("oss0", "oss1"),)))
    assert trimmed(decide_trims(seen(targets, where), NOW)) == [
        (0, "OST0004"), (0, "OST0003"), (1, "OST0002"), (1, "OST0005"), (2, "OST0001"),
        (3, "OST0000"),
    ]  # fmt: skip
    # After a failover the partner has two more, and they wait for each other there.
    moved = [age(0, 2, server="oss1"), age(2, 4), age(3, 5)]
    plan = decide_trims(seen(moved), NOW)
    assert trimmed(plan) == [(0, "OST0003"), (1, "OST0002"), (2, "OST0000")]
    assert {row.server for row in plan.instructions} == {"oss1"}


def test_a_trim_that_may_still_run_holds_the_others():
    plan = decide_trims(seen([ost(0)], actions=(trim("OST0001", 3600, None),)), NOW)
    assert (plan.instructions, held_by(plan)) == ((), ["action-open"])


def test_the_hour_bounds_trims():
    plan = decide_trims(seen([ost(0), ost(1)], site(most_per_hour=1)), NOW)
    assert trimmed(plan) == [(0, "OST0000")]
    assert codes(plan) == {("OST0001", None): "too-many-actions"}


def test_held_means_no_instruction():
    plan = decide_trims(seen([ost(0)], snapshot=snapshot([ost(0)], age_s=601)), NOW)
    assert (plan.instructions, held_by(plan)) == ((), ["snapshot-stale"])


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.none(), st.floats(0, 9)), st.booleans()),
        min_size=1, max_size=30,
    ),
    st.randoms(),
)  # fmt: skip
def test_never_two_trims_of_a_group_in_one_turn_whatever_the_order(rows, random):
    targets = [
        ost(number, server=f"oss{server}", degraded=degraded,
            last_trim_at=None if days is None else ago(days * DAY_S).isoformat())
        for number, (server, days, degraded) in enumerate(rows)
    ]  # fmt: skip
    where = site(trim=TrimPolicy(enclosures=(("oss0", "oss1"),)))
    plan = decide_trims(seen(targets, where), NOW)
    groups = [
        (row.stage, "e" if row.server in {"oss0", "oss1"} else row.server)
        for row in plan.instructions
    ]
    assert len(groups) == len(set(groups))
    due = {t.target.name for t, row in zip(targets, rows, strict=True)
           if not row[2] and (row[1] is None or row[1] >= 1)}  # fmt: skip
    assert {row.target for row in plan.instructions} == due
    random.shuffle(targets)
    assert decide_trims(seen(targets, where), NOW) == plan
    assert decide_trims(carried_out(seen(targets, where), plan, NOW), NOW).instructions == ()
