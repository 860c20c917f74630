"""Kernel logs of a Lustre 2.17.0 whose clients were evicted: what they say, counted by hand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.reach.hosts import recorded

from trimtab.base.server_message import EVICTIONS, MessageFamily
from trimtab.reach.lustre.kernel_log import parse_kernel_log
from trimtab.reach.lustre.read_table import KERNEL_LOG_LINES

FOLDER = Path(__file__).parents[2] / "fixtures/lustre/2.17.0"
SERVER, OTHER_SERVER = "192.0.2.11@tcp", "192.0.2.12@tcp"
FIRST, SECOND = "192.0.2.21@tcp", "192.0.2.22@tcp"
Said = tuple[int, MessageFamily, str | None, str | None]
# Counted in the files by hand; without a target: counted by the kernel ("Skipped N previous").
BY_HAND: dict[str, tuple[Said, ...]] = {
    "client-cut-oss1": (
        (1, MessageFamily.UNHEARD, "scratch-MDT0000", SECOND),
        (1, MessageFamily.UNHEARD, "scratch-OST0000", SECOND),
    ),
    "client-cut-oss2": (
        (1, MessageFamily.UNHEARD, "scratch-MDT0001", SECOND),
        (1, MessageFamily.UNHEARD, "scratch-OST0002", SECOND),
    ),
    "client-cut-client2": (
        *(
            (1, MessageFamily.EVICTED_BY, f"scratch-{target}", None)
            for target in ("MDT0000", "MDT0001", "OST0000", "OST0002")
        ),
        *(
            (1, MessageFamily.REQUEST_TIMEOUT, f"scratch-{target}", None)
            for target in ("MDT0000", "MDT0001", "OST0000", "OST0002")
        ),
        (1 + 2, MessageFamily.REQUEST_TIMEOUT, None, None),
        *(
            (1, MessageFamily.CONNECTION_LOST, f"scratch-{target}", None)
            for target in ("MDT0001", "OST0000", "OST0002")
        ),
        (1, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.NETWORK_UNREACHED, None, SERVER),
        (4, MessageFamily.NETWORK_UNREACHED, None, SECOND),
        (1 + 2 + 2 + 2, MessageFamily.NETWORK_UNREACHED, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, SERVER),
        (1, MessageFamily.NETWORK_HEALTH, None, SECOND),
        (2, MessageFamily.DATA_LOST, None, None),
    ),
    "cancels-lost-oss1": (
        (1, MessageFamily.LOCK_TIMEOUT, "scratch-OST0000", SECOND),
        (1, MessageFamily.EVICTED_BY_HAND, "scratch-OST0001", SECOND),
        (1, MessageFamily.EVICTED_BY_HAND, "scratch-MDT0000", None),
        (5, MessageFamily.RECONNECTING, "scratch-OST0000", SECOND),
        (2, MessageFamily.RECONNECTING, "scratch-MDT0000", FIRST),
        (4 * 1 + 2 + 3, MessageFamily.RECONNECTING, None, None),
    ),
    "cancels-lost-client": (
        (7, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0000", None),
        (4 * 1 + 2, MessageFamily.REQUEST_TIMEOUT, None, None),
        (7, MessageFamily.CONNECTION_LOST, "scratch-MDT0000", None),
        (1, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "cancels-lost-client2": (
        (1, MessageFamily.EVICTED_BY, "scratch-OST0000", None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0001", None),
        (1, MessageFamily.EVICTED_BY, "scratch-MDT0000", None),
        (4, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0000", None),
        (1, MessageFamily.REQUEST_TIMEOUT, None, None),
        (5, MessageFamily.CONNECTION_LOST, "scratch-OST0000", None),
        (1 + 2, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "server-paused-oss1": (
        (1, MessageFamily.UNHEARD, "scratch-MDT0000", OTHER_SERVER),
        (1, MessageFamily.UNHEARD, "scratch-OST0000", OTHER_SERVER),
        (1, MessageFamily.UNHEARD, None, None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0001", None),
        (4, MessageFamily.REQUEST_TIMEOUT, None, None),
        (3, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0002", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0003", None),
        (1, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, SERVER),
    ),
    "server-paused-oss2": (
        (1, MessageFamily.UNHEARD, "scratch-MDT0001", FIRST),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0000", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0000", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
        (2, MessageFamily.CONNECTION_LOST, None, None),
        *((1, MessageFamily.RECONNECTING, "scratch-OST0002", of) for of in (SERVER, FIRST, SECOND)),
        (3 + 1, MessageFamily.RECONNECTING, None, None),
    ),
    "server-paused-client": (
        (1, MessageFamily.EVICTED_BY, "scratch-MDT0001", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0001", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0002", None),
        (3 + 2, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
        (2, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "server-paused-client2": (
        (1, MessageFamily.EVICTED_BY, "scratch-MDT0001", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0001", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0003", None),
        (4 + 2, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
        (4, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "server-cut-oss1": (
        (1, MessageFamily.UNHEARD, "scratch-OST0000", OTHER_SERVER),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0001", None),
        (5, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
    ),
    "server-cut-oss2": (
        (1, MessageFamily.UNHEARD, "scratch-MDT0001", SECOND),
        (1, MessageFamily.UNHEARD, "scratch-OST0002", SERVER),
        (4 + 1, MessageFamily.UNHEARD, None, None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0000", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0001", None),
        (3, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0000", None),
        (1, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.RECONNECTING, "scratch-OST0002", SECOND),
        (1, MessageFamily.RECONNECTING, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, OTHER_SERVER),
        (1, MessageFamily.TRANSFER_FAILED, "scratch-OST0003", FIRST),
        (1, MessageFamily.TRANSFER_FAILED, "scratch-OST0002", SECOND),
    ),
    "server-cut-client": (
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0002", None),
        (1, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0002", None),
        (2, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, FIRST),
    ),
    "server-cut-client2": (
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0001", None),
        (2, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, SECOND),
    ),
    "ost-stopped-oss1": (
        (1, MessageFamily.UNHEARD, "scratch-OST0000", SECOND),
        (1, MessageFamily.UNHEARD, None, None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0002", None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0003", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0003", None),
        (4, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "ost-stopped-oss2": (
        (1, MessageFamily.NOT_RECOVERED, "scratch-OST0003", None),
        (1, MessageFamily.UNHEARD, "scratch-MDT0001", SECOND),
        (3, MessageFamily.UNHEARD, None, None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0000", None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0001", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-MDT0000", None),
        (1, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0000", None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0003", None),
        (2 + 2, MessageFamily.CONNECTION_LOST, None, None),
        (1, MessageFamily.RECONNECTING, "scratch-MDT0001", SECOND),
        (3, MessageFamily.RECONNECTING, None, None),
        (1, MessageFamily.NETWORK_HEALTH, None, SERVER),
    ),
    "ost-stopped-client": (
        (1, MessageFamily.CONNECTION_LOST, "scratch-OST0003", None),
        (2, MessageFamily.CONNECTION_LOST, None, None),
    ),
    "ost-stopped-client2": (
        (2, MessageFamily.EVICTED_BY, "scratch-MDT0001", None),
        (2, MessageFamily.EVICTED_BY, "scratch-OST0003", None),
        (1, MessageFamily.EVICTED_BY, "scratch-OST0000", None),
        (1, MessageFamily.REQUEST_TIMEOUT, "scratch-OST0003", None),
        (8, MessageFamily.REQUEST_TIMEOUT, None, None),
        (1, MessageFamily.CONNECTION_LOST, "scratch-MDT0000", None),
        (3, MessageFamily.CONNECTION_LOST, None, None),
        (2, MessageFamily.NETWORK_HEALTH, None, SERVER),
        (2, MessageFamily.NETWORK_HEALTH, None, SECOND),
        (1, MessageFamily.NETWORK_UNREACHED, None, SERVER),
        (5, MessageFamily.NETWORK_UNREACHED, None, SECOND),
        (2 + 1 + 2 + 2 + 2 + 5, MessageFamily.NETWORK_UNREACHED, None, None),
    ),
}
LOGS = {name: (FOLDER / f"kernel-log-{name}.out").read_text() for name in BY_HAND}
# Lines that are none of the families, and why.
OTHERS = re.compile(
    # A server's own call of a client; the MGS, which is no target.
    r" o104->(?:scratch-\w+|MGS)@192\.|Connection to MGS |MGS: |->MGC|ns: MGS "
    # What ends well.
    r"|Connection restored to |Received new (?:MDS|LWP) connection |server umount .* complete"
    r"|Will be in recovery|waiting for the first client|Imperative Recovery|identity_upcall_store"
    # A target that is stopped on purpose: its state is asked for otherwise.
    r"|Failing over|[Nn]ot available for connect|Is it stuck\?|Device 19 not setup"
    # What the line before or after says more exactly.
    r"|operation \w+ to node \S+ failed: rc = -|_bulk_callback\(\)|network error on bulk"
    r"|Completing partial receive|ll_md_setattr\(\)|mdc close failed"
    r"|Evicted from |evict stale exports|disconnect(?:ing)? .*stale client|ldlm_resource_complain"
    # The fault that was asked for.
    r"|cfs_fail_loc="
)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_each_line_says_what_it_says(name: str) -> None:
    said = Counter[tuple[MessageFamily, str | None, str | None]]()
    for message in parse_kernel_log(LOGS[name]).messages:
        said[message.family, message.target, message.client] += message.count
    assert said == {(family, *of): count for count, family, *of in BY_HAND[name]}
    for line in LOGS[name].splitlines():
        kinds = parse_kernel_log(line).messages, OTHERS.search(line), "Skipped " in line
        assert sum(map(bool, kinds)) == 1, line


def _evictions(*names: str) -> Counter[str | None]:
    messages = [message for name in names for message in parse_kernel_log(LOGS[name]).messages]
    return Counter(message.target for message in messages if message.family in EVICTIONS)


@pytest.mark.parametrize("event", ["client-cut", "cancels-lost"])
def test_servers_count_the_evictions_that_the_client_was_told(event: str) -> None:
    told = [
        message.target
        for message in parse_kernel_log(LOGS[f"{event}-client2"]).messages
        if message.family is MessageFamily.EVICTED_BY
    ]
    servers = [name for name in LOGS if name.startswith(f"{event}-oss")]
    assert _evictions(*servers) == Counter(told)


@pytest.mark.parametrize("name", [*sorted(LOGS), "ost_down/18_dmesg", "readonly_target/dmesg_full"])
def test_what_is_filtered_on_a_server_says_the_same(name: str) -> None:
    """A count of skipped messages is not taken for one of another message that was sent back."""
    text = LOGS.get(name) or recorded(name)
    kept = [line for line in text.splitlines() if re.search(KERNEL_LOG_LINES, line)]
    messages = parse_kernel_log("\n".join(kept)).messages
    assert messages == parse_kernel_log(text).messages


def test_other_locks_of_a_client_that_was_evicted_are_no_further_eviction() -> None:
    """It was the MGS that printed this; a target does the same, with its own name."""
    lines = [line for line in LOGS["ost-stopped-oss1"].splitlines() if "MGS" in line]
    text = "\n".join(lines).replace("ns: MGS", "ns: filter-scratch-OST0001_UUID")
    text = text.replace("Error: MGS:", "Error: scratch-OST0001:")
    assert "expired after 11s" in text
    text += "\n[ 8390.901400] LustreError: 358:0:(ldlm_lockd.c:251:expired_lock_main()) Skipped 3 "
    text += "previous similar messages\n"
    said = [(message.family, message.count) for message in parse_kernel_log(text).messages]
    assert said == [(MessageFamily.LOCK_TIMEOUT, 1)]
