"""Scenarios that cannot be: each refused with the key and the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each
from tests.twin.scenario.test_load import SMALL

from trimtab.base.error import UsageError
from trimtab.base.toml_problem import ConfigError
from trimtab.twin.scenario import Fault, ScenarioChange, drives_capacity_bytes
from trimtab.twin.scenario_check import problems
from trimtab.twin.scenario_file import load_scenario, parse_scenario, preset_names

CHANGE = "[[change]]\nat = 2026-01-07\nset = { %s }\n"
FAULT = "[[fault]]\nat = 2026-01-07\n%s\n"
IOR = "[probe.a]\nkind = 'ior'\nschedule = 'every 1h'\n"
SURVEY = "[probe.a]\nkind = 'obdfilter-survey'\nschedule = 'every 1h'\n"


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_possible(name) -> None:
    assert list(problems(load_scenario(name))) == []


def refused(text: str) -> tuple[str, str]:
    """Return the key that a file is refused for, and the code."""
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text, "f.toml")
    return ".".join(caught.value.problems[0].location), caught.value.code


@for_each(
    "added, where, code",
    [
        ("[osts.raid]\ndata = 10\n", "osts.raid.drives", "too-few-drives"),
        ("[osts.raid]\ndrives = 10\n", "osts.raid.drives", "too-few-drives"),
        ("[osts.raid]\nkind = 'raid10'\n", "osts.raid.data", "mirror-data"),
        (
            "[osts.raid]\nkind = 'raid10'\ndata = 1\nparity = 0\n",
            "osts.raid.parity",
            "mirror-copies",
        ),
        (
            "[osts.raid]\nkind = 'raid10'\ndata = 1\nparity = 2\n",
            "osts.raid.parity",
            "mirror-copies",
        ),
        ("[osts.raid]\ndrives = 2000\n", "osts.raid.drives", "out-of-range"),
        ("[osts.raid]\nchunk = '1KiB'\n", "osts.raid.chunk", "out-of-range"),
        (
            "[resolution]\ngroups = 2\nsuperblock_units = 4096\n",
            "resolution.superblock_units",
            "superblock-too-large",
        ),
        (
            "[resolution]\ngroups = 1\nsuperblock_units = 700\n",
            "resolution.superblock_units",
            "superblock-too-large",
        ),
        ("[gating]\nlimit = 0.7\nreopen = 0.7\n", "gating.reopen", "reopen-above-limit"),
        ("[purge]\nmin_age = '8w'\nmax_age = '2w'\n", "purge.max_age", "ages-exclude"),
        ("[resolution]\nclasses = 5\n", "resolution.classes", "too-many-classes"),
        ("[resolution]\nepoch = '2d'\n", "resolution.epoch", "out-of-range"),
        (IOR, "probe.a.nodes", "probe-empty"),
        (
            IOR + "nodes = 65\ntasks_per_node = 1\nbytes_written = '1GB'\n",
            "probe.a.nodes",
            "too-many-nodes",
        ),
        (
            IOR + "nodes = 2\ntasks_per_node = 8\nbytes_written = '15MiB'\n",
            "probe.a.bytes_written",
            "probe-too-small",
        ),
        (SURVEY + "nodes = 3\n", "probe.a.nodes", "key-not-applicable"),
        (SURVEY + "since = 2027-01-01\n", "probe.a.since", "outside-scenario"),
        (CHANGE % "", "change.0.set", "change-empty"),
        (CHANGE % "'osts.count' = 3", "change.0.set.osts.count", "osts-removed"),
        (CHANGE % "'users.fullness' = 0.2", "change.0.set.users.fullness", "key-fixed"),
        (CHANGE % "'osts.raid.data' = 9", "change.0.set.osts.raid.data", "key-fixed"),
        (CHANGE % "'gating.limit' = 0.6", "change.0.set.gating.limit", "reopen-above-limit"),
        (
            CHANGE.replace("2026", "2025") % "'trim.discard' = true",
            "change.0.at",
            "outside-scenario",
        ),
        (
            CHANGE.replace("2026", "2027") % "'trim.discard' = true",
            "change.0.at",
            "outside-scenario",
        ),
        (FAULT % "kind = 'silent-ost'\nosts = [4]", "fault.0.osts", "ost-unknown"),
        (FAULT % "kind = 'silent-ost'", "fault.0.osts", "osts-missing"),
        (FAULT % "kind = 'name-service'\nosts = [1]", "fault.0.osts", "key-not-applicable"),
        (
            FAULT % "kind = 'burst'\nosts = [1]\nsize = '1 GB/s'",
            "fault.0.osts",
            "key-not-applicable",
        ),
        (FAULT % "kind = 'slow-drive'\nosts = [1]", "fault.0.size", "fraction-needed"),
        (
            FAULT % "kind = 'slow-drive'\nosts = [1]\nsize = '2 GB/s'",
            "fault.0.size",
            "fraction-needed",
        ),
        (FAULT % "kind = 'burst'\nsize = 0.5", "fault.0.size", "rate-needed"),
        (FAULT % "kind = 'failover'\nosts = [1]\nsize = 0.5", "fault.0.size", "key-not-applicable"),
        (
            FAULT % "kind = 'failover'\nosts = [1]\nuntil = 2026-01-07",
            "fault.0.until",
            "end-before-start",
        ),
        (
            FAULT.replace("2026", "2027") % "kind = 'failover'\nosts = [1]",
            "fault.0.at",
            "outside-scenario",
        ),
    ],
)
def test_what_cannot_be_is_refused(added, where, code) -> None:
    assert refused(SMALL + added) == (where, code)


@for_each(
    "old, new, where, code",
    [
        ("count = 4\n", "count = 4\ncapacity = '136TB'\n", "osts.capacity", "capacity-too-large"),
        ("fullness = 0.5", "fullness = 1", "users.fullness", "too-full"),
        ('"10TB"', '"10PB"', "users.fullness", "too-full"),
        ("count = 10\n", "count = 10\nlifetimes = []\n", "users.lifetimes", "shares-not-whole"),
        (
            "count = 10\n",
            "count = 10\nlifetimes = [{share = 0.5, mean = '1d'}, {share = 0.4, mean = '2d'}]\n",
            "users.lifetimes",
            "shares-not-whole",
        ),
        ('"7d"', '"10m"', "scenario.length", "length-too-short"),
        (
            'drive = "pm1733"',
            "drive = {like = 'pm1733', spare = 0}",
            "osts.drive.spare",
            "out-of-range",
        ),
        (
            'drive = "pm1733"',
            "drive = {like = 'pm1733', spare = 0.0002}",
            "resolution.superblock_units",
            "superblock-too-large",
        ),
        (
            'drive = "pm1733"',
            "drive = {like = 'pm1733', spare = 1}",
            "osts.drive.spare",
            "out-of-range",
        ),
    ],
)
def test_what_cannot_be_at_the_start(old, new, where, code) -> None:
    assert refused(SMALL.replace(old, new)) == (where, code)


def test_a_fault_may_name_an_ost_that_came_before_it() -> None:
    added = "[[change]]\nat = 2026-01-0%d\nset = { 'osts.count' = 5 }\n"
    fault = FAULT % "kind = 'silent-ost'\nosts = [4]"
    assert parse_scenario(SMALL + added % 6 + fault, "f.toml").faults[0].osts == (4,)
    with pytest.raises(UsageError, match="there is no OST 4 at that time, only 0 to 3"):
        parse_scenario(SMALL + added % 8 + fault, "f.toml")


@given(st.lists(st.integers(1, 8), max_size=5))
def test_capacity_only_grows(counts) -> None:
    base = parse_scenario(SMALL, "f.toml")
    changes = tuple(
        ScenarioChange(base.start + timedelta(days=number + 1), {"osts.count": count})
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
