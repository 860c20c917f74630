"""Every rule at its boundary, and what must not be accused."""

import dataclasses

import pytest
from tests.support.each import for_each

from trimtab.judge.credibility import RULES, RepetitionFacts, reason_not_to_believe

GIB = 2**30
WRITE = RepetitionFacts(
    access="write",
    direct=True,
    elapsed_s=10.0,
    bytes_moved=10 * GIB,
    file_bytes=4 * GIB,
    asked_duration_s=10.0,
    asked_tasks=4,
    tasks=4,
    flushed=True,
    memory_bytes=64 * GIB,
    device="nvme0n1",
    device_bytes=10 * GIB,
    link_bytes_per_s=8e9,
)
READ = dataclasses.replace(WRITE, access="read", flushed=False)
UNSEEN = dataclasses.replace(READ, device=None, device_bytes=None, link_bytes_per_s=None)
BUFFERED = dataclasses.replace(UNSEEN, direct=False)
LOOP = dataclasses.replace(READ, device="loop0", loop_through_page_cache=True)

BELIEVED = {
    "write": (WRITE, {}),
    "read": (READ, {}),
    "direct read, nothing seen beneath": (UNSEEN, {}),
    "stopped a hundredth early": (WRITE, {"elapsed_s": 9.9}),
    "flush took long": (WRITE, {"elapsed_s": 90.0}),
    "no duration asked, 5 s": (WRITE, {"asked_duration_s": None, "elapsed_s": 4.95}),
    "all that was asked": (WRITE, {"asked_bytes": 10 * GIB}),
    "more than was asked": (WRITE, {"asked_bytes": 9 * GIB}),
    "tasks not said": (WRITE, {"tasks": None}),
    "other programs, parity, journal": (WRITE, {"device_bytes": 30 * GIB}),
    "read-ahead": (READ, {"device_bytes": 11 * GIB}),
    "a few pages cached": (READ, {"device_bytes": 9 * GIB}),
    "compressed": (WRITE, {"device_bytes": 3 * GIB, "shrinks_data": True}),
    "compressed, over the bus": (READ, {"link_bytes_per_s": 5e8, "shrinks_data": True}),
    "at the speed of the bus": (READ, {"link_bytes_per_s": GIB / 1.01}),
    "direct writing without flush": (WRITE, {"flushed": False}),
    "buffered writing, flushed": (WRITE, {"direct": False}),
    "buffered, not flushed, yet there": (WRITE, {"direct": False, "flushed": False}),
    "buffered reading that the device saw": (
        BUFFERED,
        {"device": "sda", "device_bytes": 10 * GIB},
    ),
    "caches dropped, read once": (BUFFERED, {"caches_dropped": True, "file_bytes": 10 * GIB}),
    "another node wrote, read once": (
        BUFFERED,
        {"written_elsewhere": True, "file_bytes": 10 * GIB},
    ),
    "twice the memory": (BUFFERED, {"file_bytes": 128 * GIB}),
    "loop, flushed write": (LOOP, {"access": "write", "flushed": True}),
    "loop, larger than memory": (LOOP, {"file_bytes": 128 * GIB}),
    "loop, dropped and read once": (LOOP, {"caches_dropped": True, "file_bytes": 10 * GIB}),
}

NOT_BELIEVED = {
    "time not said": (WRITE, {"elapsed_s": None}, "does not say how long"),
    "bytes not said": (WRITE, {"bytes_moved": None}, "does not say how much"),
    "nothing moved": (WRITE, {"bytes_moved": 0}, "it moved nothing"),
    "less than asked": (
        WRITE,
        {"asked_bytes": 10 * GIB + 1},
        "it moved 10.0 GiB; 10.0 GiB were asked for",
    ),
    "a task missing": (WRITE, {"tasks": 3}, "it ran with 3 tasks; 4 were asked for"),
    "a task too many": (WRITE, {"tasks": 5}, "it ran with 5 tasks; 4 were asked for"),
    "ended early": (WRITE, {"elapsed_s": 9.89}, "it ran 9.9 s; 10.0 s were asked for"),
    "asked for too little": (
        WRITE,
        {"asked_duration_s": 2.0, "elapsed_s": 2.0},
        "it ran 2.0 s, too short to measure a steady state: at least 5.0 s",
    ),
    "no duration asked": (WRITE, {"asked_duration_s": None, "elapsed_s": 4.94}, "too short"),
    "no time at all": (WRITE, {"elapsed_s": 0.0}, "it ran 0.0 s"),
    "in memory": (
        WRITE,
        {"direct": False, "flushed": False, "device_bytes": None},
        "does not include the flush",
    ),
    "in memory, compressed": (
        WRITE,
        {"direct": False, "flushed": False, "shrinks_data": True},
        "does not include the flush",
    ),
    "device wrote less": (
        WRITE,
        {"direct": False, "device_bytes": 8 * GIB},
        "cached: of 10.0 GiB only 8.00 GiB (80 %) reached nvme0n1",
    ),
    "device read less": (
        READ,
        {"device_bytes": 9 * GIB - 1, "device": None},
        "cached: of 10.0 GiB only 9.00 GiB (90 %) were read from the device beneath",
    ),
    "device read nothing": (READ, {"device_bytes": 0}, "(0 %) were read from nvme0n1"),
    "over the bus": (
        READ,
        {"link_bytes_per_s": 1e9},
        "cached: 1.07 GB/s is more than the bus to the drives carries (1.00 GB/s)",
    ),
    "loop in memory": (LOOP, {}, "reads its backing file through this node's memory"),
    "loop, dropped, gone over twice": (LOOP, {"caches_dropped": True}, "backing file"),
    "loop, memory unknown": (LOOP, {"memory_bytes": None}, "backing file"),
    "loop, write not flushed": (
        LOOP,
        {"access": "write", "flushed": False},
        "the flush is not timed",
    ),
    "read back": (BUFFERED, {}, "reads back what it has written without O_DIRECT"),
    "read back, just under twice the memory": (
        BUFFERED,
        {"file_bytes": 128 * GIB - 1},
        "reads back what it has written",
    ),
    "dropped, gone over twice": (BUFFERED, {"caches_dropped": True}, "reads again what it has"),
    "another node wrote, gone over twice": (
        BUFFERED,
        {"written_elsewhere": True},
        "reads again what it has read",
    ),
    "read back, compressed": (
        BUFFERED,
        {"device_bytes": 10 * GIB, "shrinks_data": True},
        "reads back",
    ),
}


@for_each("facts, changes", BELIEVED.values(), ids=BELIEVED)
def test_believed(facts, changes):
    assert reason_not_to_believe(dataclasses.replace(facts, **changes)) is None


@for_each("facts, changes, said", NOT_BELIEVED.values(), ids=NOT_BELIEVED)
def test_not_believed(facts, changes, said):
    reason = reason_not_to_believe(dataclasses.replace(facts, **changes))
    assert reason is not None
    assert said in reason


def test_every_rule_has_objected_to_something():
    cases = [dataclasses.replace(facts, **changes) for facts, changes, _ in NOT_BELIEVED.values()]
    idle = [rule.__name__ for rule in RULES if not any(rule(facts) for facts in cases)]
    assert not idle


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_breaks_on_what_is_not_known(rule):
    unknown = RepetitionFacts("read", True, None, None, 0)
    rule(unknown)
    rule(dataclasses.replace(unknown, access="write", elapsed_s=0.0, bytes_moved=0))


@pytest.mark.parametrize(
    ("name", "value"), [("device_bytes", -1), ("elapsed_s", float("nan")), ("bytes_moved", -5)]
)
def test_impossible_facts_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        dataclasses.replace(READ, **{name: value})
