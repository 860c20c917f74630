"""Scenarios that cannot be: each refused with the key and the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each
from tests.twin.scenario.test_load import SMALL

from trimtab.errors import UsageError
from trimtab.twin.scenario.checks import problems
from trimtab.twin.scenario.geometry import drives_capacity_bytes
from trimtab.twin.scenario.load import load_scenario, parse_scenario, preset_names
from trimtab.twin.scenario.model import Change, Fault

CHANGE = "[[change]]\nat = 2026-01-07\nset = { %s }\n"
FAULT = "[[fault]]\nat = 2026-01-07\n%s\n"
IOR = "[probe.a]\nkind = 'ior'\nschedule = 'every 1h'\n"
SURVEY = "[probe.a]\nkind = 'obdfilter-survey'\nschedule = 'every 1h'\n"


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_possible(name) -> None:
    assert list(problems(load_scenario(name))) == []


@for_each(
    "added, where, why",
    [
        ("[osts.raid]\ndata = 10\n", "[osts.raid] drives", "10+2 with 1 spares needs 13 drives"),
        ("[osts.raid]\ndrives = 10\n", "[osts.raid] drives", "needs 11 drives and has 10"),
        ("[osts.raid]\nkind = 'raid10'\n", "[osts.raid] data", "mirrors one chunk"),
        (
            "[osts.raid]\nkind = 'raid10'\ndata = 1\nparity = 0\n",
            "[osts.raid] parity",
            "raid10 needs a copy",
        ),
        (
            "[osts.raid]\nkind = 'raid10'\ndata = 1\nparity = 2\n",
            "[osts.raid] parity",
            "one copy alone",
        ),
        ("[osts.raid]\ndrives = 2000\n", "[osts.raid] drives", "up to 1,024"),
        ("[osts.raid]\nchunk = '1KiB'\n", "[osts.raid] chunk", "4 KiB to 1 GiB"),
        (
            "[resolution]\ngroups = 2\nsuperblock_units = 4096\n",
            "[resolution] superblock_units",
            "not one superblock is spare",
        ),
        (
            "[resolution]\ngroups = 1\nsuperblock_units = 700\n",
            "[resolution] superblock_units",
            "not one superblock is spare",
        ),
        ("[gating]\nlimit = 0.7\nreopen = 0.7\n", "[gating] reopen", "close and open in turn"),
        ("[purge]\nmin_age = '8w'\nmax_age = '2w'\n", "[purge] max_age", "shorter than min_age"),
        ("[resolution]\nclasses = 5\n", "[resolution] classes", "more than the 4 OSTs"),
        ("[resolution]\nepoch = '2d'\n", "[resolution] epoch", "1 min to 24 h"),
        (IOR, "[probe.a] nodes", "measures nothing"),
        (IOR + "nodes = 65\ntasks_per_node = 1\nbytes_written = '1GB'\n", "[probe.a] nodes", "64"),
        (
            IOR + "nodes = 2\ntasks_per_node = 8\nbytes_written = '15MiB'\n",
            "[probe.a] bytes_written",
            "less than one transfer of each task",
        ),
        (SURVEY + "nodes = 3\n", "[probe.a] nodes", "runs on the servers"),
        (SURVEY + "since = 2027-01-01\n", "[probe.a] since", "not before the scenario's end"),
        (CHANGE % "", "[[change]] 1 set", "changes nothing"),
        (CHANGE % "'osts.count' = 3", '[[change]] 1 set "osts.count"', "fewer than the 4 before"),
        (CHANGE % "'users.fullness' = 0.2", '"users.fullness"', "cannot change while"),
        (CHANGE % "'osts.raid.data' = 9", '"osts.raid.data"', "cannot change while"),
        (CHANGE % "'gating.limit' = 0.6", '[[change]] 1 set "gating.limit"', "not below the limit"),
        (CHANGE.replace("2026", "2025") % "'trim.discard' = true", "[[change]] 1 at", "outside"),
        (CHANGE.replace("2026", "2027") % "'trim.discard' = true", "[[change]] 1 at", "outside"),
        (FAULT % "kind = 'silent-ost'\nosts = [4]", "[[fault]] 1 osts", "there is no OST 4"),
        (FAULT % "kind = 'silent-ost'", "[[fault]] 1 osts", "which?"),
        (FAULT % "kind = 'name-service'\nosts = [1]", "[[fault]] 1 osts", "of the whole"),
        (FAULT % "kind = 'burst'\nosts = [1]\nsize = '1 GB/s'", "[[fault]] 1 osts", "of the whole"),
        (FAULT % "kind = 'slow-drive'\nosts = [1]", "[[fault]] 1 size", "part of its speed"),
        (FAULT % "kind = 'slow-drive'\nosts = [1]\nsize = '2 GB/s'", "size", "part of its speed"),
        (FAULT % "kind = 'burst'\nsize = 0.5", "[[fault]] 1 size", "needs a rate"),
        (FAULT % "kind = 'failover'\nosts = [1]\nsize = 0.5", "[[fault]] 1 size", "has no size"),
        (
            FAULT % "kind = 'failover'\nosts = [1]\nuntil = 2026-01-07",
            "[[fault]] 1 until",
            "not after at",
        ),
        (FAULT.replace("2026", "2027") % "kind = 'failover'\nosts = [1]", "at", "outside"),
    ],
)
def test_what_cannot_be_is_refused(added, where, why) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(SMALL + added, "f.toml")
    assert where in caught.value.message
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("before", "after", "where", "why"),
    [
        ("count = 4\n", "count = 4\ncapacity = '136TB'\n", "[osts] capacity", "more than its dri"),
        ("fullness = 0.5", "fullness = 1", "[users] fullness", "more than there is"),
        ('"10TB"', '"10PB"', "[users] fullness", "writes of one epoch"),
        ("count = 10\n", "count = 10\nlifetimes = []\n", "[users] lifetimes", "add to 0"),
        (
            "count = 10\n",
            "count = 10\nlifetimes = [{share = 0.5, mean = '1d'}, {share = 0.4, mean = '2d'}]\n",
            "[users] lifetimes",
            "add to 0.9 and not to 1",
        ),
        ('"7d"', '"10m"', "[scenario] length", "shorter than one epoch"),
        ('drive = "pm1733"', "drive = {like = 'pm1733', spare = 0}", "spare", "neither of them"),
        (
            'drive = "pm1733"',
            "drive = {like = 'pm1733', spare = 0.0005}",
            "[resolution] superblock_units",
            "not one superblock is spare",
        ),
        ('drive = "pm1733"', "drive = {like = 'pm1733', spare = 1}", "spare", "neither of them"),
    ],
)
def test_what_cannot_be_at_the_start(before, after, where, why) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(SMALL.replace(before, after), "f.toml")
    assert where in caught.value.message
    assert why in caught.value.message


def test_a_fault_may_name_an_ost_that_came_before_it() -> None:
    added = "[[change]]\nat = 2026-01-0%d\nset = { 'osts.count' = 5 }\n"
    fault = FAULT % "kind = 'silent-ost'\nosts = [4]"
    assert parse_scenario(SMALL + added % 6 + fault, "f.toml").faults[0].osts == (4,)
    with pytest.raises(UsageError, match="there is no OST 4 at that time: they are 0 to 3"):
        parse_scenario(SMALL + added % 8 + fault, "f.toml")


@given(st.lists(st.integers(1, 8), max_size=5))
def test_capacity_only_grows(counts) -> None:
    base = parse_scenario(SMALL, "f.toml")
    changes = tuple(
        Change(base.start + timedelta(days=number + 1), {"osts.count": count})
        for number, count in enumerate(counts)
    )
    found = [p.location for p in problems(replace(base, changes=changes))]
    said = [4, *counts]
    shrinks = [
        ("change", str(number), "set", "osts.count")
        for number in range(len(counts))
        if said[number + 1] < said[number]
    ]
    assert found == shrinks


@given(st.floats(0.01, 2))
def test_an_ost_holds_what_its_drives_give_and_no_more(part) -> None:
    base = parse_scenario(SMALL, "f.toml")
    most = drives_capacity_bytes(base.osts)
    osts = replace(base.osts, capacity_bytes=part * most)
    users = replace(base.users, fullness=0.0, daily_writes_bytes=0.0)
    found = [p.location for p in problems(replace(base, osts=osts, users=users))]
    assert found == ([] if part <= 1 else [("osts", "capacity")])


def test_every_kind_of_fault_can_be_told() -> None:
    base = parse_scenario(SMALL, "f.toml")
    at = base.start + timedelta(days=1)
    told = (
        *(Fault(at, kind, osts=(1,)) for kind in ("silent-ost", "failover", "failed-drive")),
        *(Fault(at, "slow-drive", osts=(1,), size=0.5), Fault(at, "name-service")),
        *(Fault(at, "filling", osts=(1,), size=2e9), Fault(at, "burst", size=2e9)),
    )
    assert list(problems(replace(base, faults=told))) == []
