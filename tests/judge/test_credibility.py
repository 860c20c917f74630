"""Every rule at its boundary, and what must not be accused."""

import dataclasses
from typing import Any

import pytest
from tests.support.each import for_each
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.judge.credibility import RULES, RepetitionFacts, is_from_memory, reason_not_to_believe

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

NO_DURATION = {"asked_duration_s": None}
UNFLUSHED = {"direct": False, "flushed": False}

BELIEVED = {
    "write": (WRITE, {}),
    "read": (READ, {}),
    "direct read, nothing seen beneath": (UNSEEN, {}),
    "stopped a hundredth early": (WRITE, {"elapsed_s": 9.9}),
    "flush took long": (WRITE, {"elapsed_s": 90.0}),
    "no duration asked, 5 s": (WRITE, {**NO_DURATION, "elapsed_s": 4.95}),
    "tasks not said": (WRITE, {"tasks": None}),
    "other programs, parity, journal": (WRITE, {"device_bytes": 30 * GIB}),
    "read-ahead": (READ, {"device_bytes": 11 * GIB}),
    "a few pages cached": (READ, {"device_bytes": 9 * GIB}),
    "compressed": (WRITE, {"device_bytes": 3 * GIB, "shrinks_data": True}),
    "compressed, over the bus": (READ, {"link_bytes_per_s": 5e8, "shrinks_data": True}),
    "at the speed of the bus": (READ, {"link_bytes_per_s": GIB / 1.01}),
    "direct writing without flush": (WRITE, {"flushed": False}),
    "buffered writing, flushed": (WRITE, {"direct": False}),
    "buffered, not flushed, yet there": (WRITE, UNFLUSHED),
    "buffered reading that the device saw": (BUFFERED, {"device": "sda", "device_bytes": 10 * GIB}),
    "caches dropped, read once": (BUFFERED, {"caches_dropped": True, "file_bytes": 10 * GIB}),
    "twice the memory": (BUFFERED, {"file_bytes": 128 * GIB}),
    "loop, flushed write": (LOOP, {"access": "write", "flushed": True}),
    "loop, larger than memory": (LOOP, {"file_bytes": 128 * GIB}),
    "loop, dropped and read once": (LOOP, {"caches_dropped": True, "file_bytes": 10 * GIB}),
}

NOT_BELIEVED: dict[str, tuple[RepetitionFacts, dict[str, Any], str, list[float]]] = {
    "time not said": (WRITE, {"elapsed_s": None}, "time-not-reported", []),
    "bytes not said": (WRITE, {"bytes_moved": None}, "bytes-not-reported", []),
    "nothing moved": (WRITE, {"bytes_moved": 0}, "nothing-moved", []),
    "a task missing": (WRITE, {"tasks": 3}, "tasks-differ", [3, 4]),
    "a task too many": (WRITE, {"tasks": 5}, "tasks-differ", [5, 4]),
    "ended early": (WRITE, {"elapsed_s": 9.89}, "stopped-early", [9.9, 10]),
    "asked too little": (WRITE, {"asked_duration_s": 2.0, "elapsed_s": 2.0}, "too-short", [2, 5]),
    "no duration asked": (WRITE, {**NO_DURATION, "elapsed_s": 4.94}, "too-short", [4.9, 5]),
    "no time at all": (WRITE, {"elapsed_s": 0.0}, "stopped-early", [0, 10]),
    "in memory": (WRITE, {**UNFLUSHED, "device_bytes": None}, "not-flushed", []),
    "in memory, compressed": (WRITE, {**UNFLUSHED, "shrinks_data": True}, "not-flushed", []),
    "device wrote less": (
        WRITE,
        {"direct": False, "device_bytes": 8 * GIB},
        "device-moved-less",
        [10, 8, 80],
    ),
    "device read less": (
        READ,
        {"device_bytes": 9 * GIB - 1, "device": None},
        "device-moved-less",
        [10, 9, 90],
    ),
    "device read nothing": (READ, {"device_bytes": 0}, "device-moved-less", [10, 0, 0]),
    "over the bus": (READ, {"link_bytes_per_s": 1e9}, "faster-than-bus", [1.07, 1.0]),
    "loop in memory": (LOOP, {}, "loop-cached", [4]),
    "loop, dropped, gone over twice": (LOOP, {"caches_dropped": True}, "loop-cached", [4]),
    "loop, memory unknown": (LOOP, {"memory_bytes": None}, "loop-cached", [4]),
    "loop, write not flushed": (
        LOOP,
        {"access": "write", "flushed": False},
        "loop-not-flushed",
        [],
    ),
    "read back": (BUFFERED, {}, "read-back-from-memory", [4]),
    "read back, not twice the memory": (
        BUFFERED,
        {"file_bytes": 128 * GIB - 1},
        "read-back-from-memory",
        [128],
    ),
    "dropped, gone over twice": (BUFFERED, {"caches_dropped": True}, "reread-from-memory", [4]),
    "read back, compressed": (
        BUFFERED,
        {"device_bytes": 10 * GIB, "shrinks_data": True},
        "read-back-from-memory",
        [4],
    ),
}
CACHED = {"device-moved-less", "faster-than-bus", "loop-cached"} | {
    "read-back-from-memory",
    "reread-from-memory",
}


@for_each("facts, changes", BELIEVED.values(), ids=BELIEVED)
def test_believed(facts, changes):
    assert reason_not_to_believe(dataclasses.replace(facts, **changes)) is None


@for_each("facts, changes, code, figures", NOT_BELIEVED.values(), ids=NOT_BELIEVED)
def test_not_believed(facts, changes, code, figures):
    reason = present(reason_not_to_believe(dataclasses.replace(facts, **changes)))
    assert (reason.code, numbers(reason.replace("nvme0n1", ""))) == (code, figures)
    for text in (reason, str(reason)):  # a stored sentence has no code
        assert is_from_memory(text) == (code in CACHED)


def test_every_rule_has_objected_to_something():
    cases = [dataclasses.replace(facts, **changes) for facts, changes, *_ in NOT_BELIEVED.values()]
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
