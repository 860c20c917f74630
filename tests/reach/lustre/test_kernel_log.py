"""What kernel logs say of clients, connections and requests: each counted once, however read."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.driver import driver_of
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.hosts import recorded
from tests.reach.lustre.cuts import cuts, whole_lines
from tests.support.narrow import present

from trimtab.base.event import Event
from trimtab.base.server_message import (
    EVICTIONS,
    MessageFamily,
    ServerMessage,
    by_hour,
    message_events,
    message_of,
)
from trimtab.base.snapshot import Snapshot, Target, TargetSnapshot
from trimtab.reach.lustre.kernel_log import (
    COUNTED,
    KernelMessage,
    by_minute,
    counts,
    parse_kernel_log,
)

REFUSED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/kernel-log-lock-refused.out"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
NID = "10.0.0.9@tcp"
UUID = "28c31e48-2a9d-465a-9204-dc01a94a9804"
REQUEST = (
    "  req@00000000bca478fd x1882395412576384/t0(0) o4->fs-OST0001-osc-ffff8881236f1000"
    "@10.0.0.2@tcp:6/4 lens 488/448 e 0 to 1 dl 1795192469 ref 2 fl Rpc:XQr/200/ffffffff rc 0/-1"
)
# As the modules of 2.17.0 print them, and with the numbers of versions before 2.16.
LINES = (
    (
        "LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) ### lock callback timer expired "
        f"after 151s: evicting client at {NID}  ns: filter-fs-OST0001_UUID lock: 00000/0x0 lrc: 3",
        MessageFamily.LOCK_TIMEOUT, "fs-OST0001", NID, 1,
    ),
    (
        f"LustreError: 138-a: fs-MDT0000: A client on nid {NID} was evicted due to a lock blocking "
        "callback time out: rc -107",
        MessageFamily.LOCK_TIMEOUT, "fs-MDT0000", NID, 1,
    ),
    (
        f"Lustre: fs-OST000a: haven't heard from client {UUID} (at {NID}) in 227 seconds. I think "
        "it's dead, and I am evicting it. exp 0000000, cur 1 deadline 2 last 3",
        MessageFamily.UNHEARD, "fs-OST000a", NID, 1,
    ),
    (
        f"Lustre: fs-OST0001: evicting {UUID} (at {NID}) by administrative request",
        MessageFamily.EVICTED_BY_HAND, "fs-OST0001", NID, 1,
    ),
    (
        f"Lustre: 92:0:(genops.c:1:x()) fs-OST0001: evicting {UUID} at adminstrative request",
        MessageFamily.EVICTED_BY_HAND, "fs-OST0001", None, 1,
    ),
    (
        "Lustre: fs-OST0001: Recovery over after 1:03, of 12 clients 10 recovered and 2 were "
        "evicted.",
        MessageFamily.NOT_RECOVERED, "fs-OST0001", None, 2,
    ),
    (
        f"Lustre: fs-OST0001: Client {UUID} (at {NID}) reconnecting",
        MessageFamily.RECONNECTING, "fs-OST0001", NID, 1,
    ),
    (
        "LustreError: 167-0: fs-OST0001-osc-MDT0000: This client was evicted by fs-OST0001; in "
        "progress operations using this service will fail.",
        MessageFamily.EVICTED_BY, "fs-OST0001", None, 1,
    ),
    (
        "Lustre: fs-OST0001-osc-ffff8881236f1000: Connection to fs-OST0001 (at 10.0.0.2@tcp) was "
        "lost; in progress operations using this service will wait for recovery to complete",
        MessageFamily.CONNECTION_LOST, "fs-OST0001", None, 1,
    ),
    *(
        (
            f"Lustre: 1342:0:(client.c:2453:ptlrpc_expire_one_request()) @@@ Request sent has {why}"
            f": [sent 1795192400/real 1795192400]{REQUEST}",
            MessageFamily.REQUEST_TIMEOUT, "fs-OST0001", None, 1,
        )
        for why in ("timed out for slow reply", "failed due to network error")
    ),
    (
        "Lustre: fs-OST0001: Slow creates, 5/128 objects created at a rate of 0/s",
        MessageFamily.SLOW_REQUEST, "fs-OST0001", None, 1,
    ),
    (
        "Lustre: 977:0:(service.c:2369:x()) @@@ Request took longer than estimated (755/24s); "
        "client may timeout  req@0",
        MessageFamily.SLOW_REQUEST, None, None, 1,
    ),
    (
        "Lustre: ll_ost_io01_003: service thread pid 4711 was inactive for 200.032 seconds. The "
        "thread might be hung, or it might only be slow and will resume later.",
        MessageFamily.THREAD_INACTIVE, None, None, 1,
    ),
    (
        f"LNetError: 1:0:(socklnd_cb.c:1:x()) A connection with 12345-{NID} (10.0.0.9:988) timed "
        "out; the network or node may be down.",
        MessageFamily.NETWORK_TIMEOUT, None, NID, 1,
    ),
    *(
        (f"LNetError: {text}", MessageFamily.NETWORK_UNREACHED, None, NID, 1)
        for text in (
            f"11e-e: Unexpected error -2 connecting to {NID} at host 10.0.0.9:988",
            f"11b-b: Connection to {NID} at host 10.0.0.9:988 was reset: is it running a compatible"
            f" version of Lustre and is {NID} one of its NIDs?",
            f"1:0:(acceptor.c:1:x()) Connection to {NID} at host 10.0.0.9:988 was refused: check "
            "that Lustre is running on that node.",
            f"1:0:(acceptor.c:1:x()) Connection to {NID} at host 10.0.0.9 was unreachable: the "
            "network or that node may be down, or Lustre may be misconfigured.",
        )
    ),
    # A client that does not give back a lock is evicted by the message after the first of these.
    (f"LustreError: 1:0:(x.c:1:x()) ### client (nid {NID}) returned error from blocking AST (req@0 "
     "x1 status -107 rc -107), evict it ns: filter-fs-OST0001_UUID", None, None, None, 0),
    ("LustreError: 358:0:(ldlm_lockd.c:251:expired_lock_main()) ### lock callback timer expired "
     f"after 0s: evicting client at {NID}  ns: filter-fs-OST0001_UUID", None, None, None, 0),
    (f"LustreError: MGS: A client on nid {NID} was evicted due to a lock blocking callback time out"
     ": rc -107", None, None, None, 0),
    ("Lustre: fs-OST0001: Recovery over after 0:02, of 2 clients 2 recovered and 0 were evicted.",
     None, None, None, 0),
    ("Lustre: fs-OST0001: Denying connection for new client, (0 recovered, 2 in progress, and 0 "
     "evicted) to recover in 4:55", None, None, None, 0),
    # The server's own call of a client, not a request to the target.
    ("Lustre: 1:0:(client.c:1:x()) @@@ Request sent has timed out for slow reply: [sent 1/real 1] "
     "req@0 x1/t0(0) o104->fs-OST0001@10.0.0.9@tcp:15/16 lens 328/224", None, None, None, 0),
    ("session[1]: This client was evicted by fs-OST0001;", None, None, None, 0),
)  # fmt: skip


@pytest.mark.parametrize(("line", "family", "target", "client", "count"), LINES)
@pytest.mark.parametrize("stamp", ["", "[  331.740350] ", "<3>[  331.740350] "])
def test_every_family(
    line: str,
    family: MessageFamily | None,
    target: str | None,
    client: str | None,
    count: int,
    stamp: str,
) -> None:
    at_s = 331.74035 if stamp else None
    wanted = () if family is None else (KernelMessage(at_s, family, count, target, client),)
    assert parse_kernel_log(f"{stamp}{line}\n").messages == wanted


def test_what_a_stopped_ost_leaves_in_the_log() -> None:
    log = parse_kernel_log(recorded("ost_down/18_dmesg"))
    totals = Counter[MessageFamily]()
    for message in log.messages:
        totals[message.family] += message.count
    # One recovery evicted two; the three skipped before it are recoveries that evicted nobody.
    assert totals == {
        MessageFamily.EVICTED_BY: 5,
        MessageFamily.NOT_RECOVERED: 2,
        MessageFamily.CONNECTION_LOST: 1 + 2,
    }
    assert counts([log, log]) == {("evictions_total", "scratch-OST0001"): 4}
    # Messages that were only counted may be about any target.
    assert {message.target for message in log.messages} == {"scratch-OST0001", None}


def test_what_a_target_that_came_back_leaves_in_the_log() -> None:
    log = parse_kernel_log(recorded("readonly_target/dmesg_full"))
    said = {(message.family, message.target, message.client) for message in log.messages}
    assert said == {
        (MessageFamily.EVICTED_BY, "scratch-OST0003", None),
        (MessageFamily.CONNECTION_LOST, "scratch-OST0003", None),
        (MessageFamily.RECONNECTING, "scratch-OST0003", "0@lo"),
    }


def test_a_lock_that_was_refused_evicts_once() -> None:
    """The MGS prints three lines for it, as any target does; it is no target of the site."""
    text = REFUSED.read_text()
    assert parse_kernel_log(text).messages == ()
    of_target = text.replace("ns: MGS", "ns: filter-scratch-OST0001_UUID")
    of_target = of_target.replace("Error: MGS:", "Error: scratch-OST0001:")
    [message] = parse_kernel_log(of_target).messages
    assert (message.family, message.client) == (MessageFamily.LOCK_TIMEOUT, "192.0.2.12@tcp")


def test_skipped_messages_count_where_the_log_has_the_message_that_they_are_like() -> None:
    unheard = LINES[2][0]
    skipped = "[  331.740380] Lustre: Skipped 9 previous similar messages"
    for between, counted in (("", 10), ("[  331.80] Lustre: something else\n", 1)):
        found = parse_kernel_log(f"[  331.740350] {unheard}\n{between}{skipped}\n").messages
        assert sum(message.count for message in found) == counted
    # In a filtered log another message was there, seconds later.
    later = skipped.replace("331", "342")
    assert len(parse_kernel_log(f"[  331.740350] {unheard}\n{later}\n").messages) == 1


def test_a_cut_log_says_no_more_than_the_whole() -> None:
    text = "".join(f"[  {60 + place}.000000] {line[0]}\n" for place, line in enumerate(LINES))
    whole = set(parse_kernel_log(text).messages)
    assert len(whole) == sum(line[4] > 0 for line in LINES)
    for cut in cuts(text):
        assert set(parse_kernel_log(whole_lines(cut)).messages) <= whole


def _events(text: str, uptime_s: float, booted: datetime) -> tuple[Event, ...]:
    at = booted + timedelta(seconds=uptime_s)
    log = parse_kernel_log(text).messages
    rows = by_minute(log, "oss1", "fs", boot="b1", uptime_s=uptime_s, at=at)
    targets = tuple(TargetSnapshot(Target(f"OST000{n}", "ost", "oss1"), ()) for n in (1, 2))
    return tuple(message_events("scratch", Snapshot(at, "lustre", True, targets, (), rows)))


@given(
    stamps=st.lists(st.integers(0, 3000), min_size=1, max_size=40),
    looks=st.lists(st.integers(60, 4000), min_size=1, max_size=8),
    steps=st.lists(st.floats(-30, 30), min_size=8, max_size=8),
    forgets=st.integers(0, 3),
)
def test_however_often_a_ring_is_read_a_message_is_counted_once(
    stamps: list[int], looks: list[int], steps: list[float], forgets: int
) -> None:
    """The clock of the reader steps by seconds, the ring loses whole minutes at its begin."""
    lines = [LINES[stamp % len(LINES)] for stamp in sorted(stamps)]
    kept: dict[str, Event] = {}
    for look, step in zip(sorted(looks), steps, strict=False):
        begin = (look // 60 - 30 * forgets) * 60 if forgets else 0
        text = "[    0.000000] Linux version 6.12.117\n" + "".join(
            f"[{stamp:5d}.000000] {line[0]}\n"
            for stamp, line in zip(sorted(stamps), lines, strict=True)
            if begin <= stamp <= look
        )
        for event in _events(text, float(look), AT + timedelta(seconds=step)):
            kept.setdefault(event.id, event)
    read = [message for event in kept.values() if (message := message_of(event)) is not None]
    assert len(read) == len(kept)
    over = max(looks[:8]) // 60 - 1
    true = sum(
        line[4] for stamp, line in zip(sorted(stamps), lines, strict=True) if stamp // 60 < over
    )
    counted = sum(message.count for message in read)
    assert counted == true if not forgets else counted <= true


def test_a_row_for_each_minute_family_and_target() -> None:
    heard = LINES[2][0].replace("OST000a", "OST0001")
    text = "".join(
        f"[  {second}.000000] {heard.replace(NID, f'10.0.0.{second}@tcp')}\n"
        for second in (*range(61, 71), 125, 190)
    )
    of_other = text + f"[   70.000000] {heard.replace('fs-', 'home-')}\n"
    events = _events(of_other + f"[   71.000000] {LINES[13][0]}\n", 250.0, AT)
    assert [event.at - AT for event in events] == [
        timedelta(seconds=61), timedelta(seconds=125), timedelta(seconds=71),
    ]  # fmt: skip
    # The last minute may not be over in the ring; one that names no target has the server's.
    of_target, of_server = ("OST0001",), ("OST0001", "OST0002")
    assert [event.targets for event in events] == [of_target, of_target, of_server]
    assert events[0].detail == (
        "10 x silent client evicted (OST0001), kernel log of oss1: 10.0.0.61@tcp, "
        "10.0.0.62@tcp, 10.0.0.63@tcp, 10.0.0.64@tcp, 10.0.0.65@tcp, 10.0.0.66@tcp, "
        "10.0.0.67@tcp, 10.0.0.68@tcp"
    )
    hours = by_hour(events)
    assert [(hour.count, hour.targets) for hour in hours] == [(11, ("OST0001",)), (1, ())]


@given(
    family=st.sampled_from(MessageFamily),
    count=st.integers(1, 10**7),
    host=st.from_regex(r"\A[a-z0-9.-]{1,20}\Z"),
    target=st.sampled_from([None, "OST0003"]),
    clients=st.lists(st.from_regex(r"\A[0-9.:a-f]{1,20}@[a-z0-9]{1,5}\Z"), max_size=8),
)
def test_an_event_keeps_all_of_a_message(
    family: MessageFamily, count: int, host: str, target: str | None, clients: list[str]
) -> None:
    message = ServerMessage(AT, host, family, count, target, tuple(clients), ("", 0))
    targets = () if target is None else (TargetSnapshot(Target(target, "ost", host), ()),)
    [event] = message_events("s", Snapshot(AT, "lustre", True, targets, (), (message,)))
    assert message_of(event) == message


def test_a_snapshot_brings_counts_of_targets_and_messages_with_their_times() -> None:
    fake = FakeLustre.pair()
    fake.server("oss1").kernel_log += [
        f"[   93.000000] Lustre: scratch-OST0001: Client {UUID} (at {NID}) reconnecting",
        f"[   94.000000] Lustre: scratch-OST0001: haven't heard from client {UUID} (at {NID}) in 9"
        " seconds. I think it's dead, and I am evicting it.",
        "[   94.000100] Lustre: Skipped 4 previous similar messages",
    ]
    fake.server("mds1").kernel_log.append(
        "[   95.000000] Lustre: 1:0:(client.c:1:x()) @@@ Request sent has timed out for slow reply:"
        " [sent 1/real 1]  req@0 x1/t0(0) o2->scratch-OST0001-osc-MDT0000@10.0.2.21@tcp:28/4"
    )
    fake.pass_time(600)
    snapshot = driver_of(fake).snapshot(AT)
    counted = [
        tuple(present(snapshot.of(target)).value(name) for name in COUNTED)
        for target in ("OST0001", "OST0000")
    ]
    assert counted == [(1, 1, 0, 1), (0, 0, 0, 0)]
    rows = {(row.host, row.family, row.target): row for row in snapshot.messages}
    evicted = rows["oss1", MessageFamily.UNHEARD, "OST0001"]
    assert (evicted.count, evicted.clients) == (1, (NID,))
    assert rows["oss1", MessageFamily.UNHEARD, None].count == 4
    assert rows["mds1", MessageFamily.REQUEST_TIMEOUT, "OST0001"].count == 1
    assert len(rows) == 4
    # A log that cannot be read counts nothing, and brings no message.
    fake.faults.append(Fault("exit", command="dmesg", code=1))
    unread = driver_of(fake).snapshot(AT)
    assert present(unread.of("OST0001")).value("evictions_total") is None
    assert not unread.messages


def test_each_count_has_families_of_its_own() -> None:
    assert set(EVICTIONS) > set(COUNTED["lock_timeouts_total"])
    assert not set(COUNTED["slow_requests_total"]) & set(EVICTIONS)
