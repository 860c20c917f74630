"""Reading scenarios: what is refused says where it stands, why, and what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.error import UsageError
from trimtab.base.toml_problem import ConfigError, Problem
from trimtab.twin.scenario import Fault, Scenario, ScenarioChange, drives_capacity_bytes
from trimtab.twin.scenario_check import problems
from trimtab.twin.scenario_file import (
    load_scenario,
    parse_scenario,
    preset_text,
    scenario_text,
)

SMALL = """[scenario]
name = "small"
title = "Small"
start = 2026-01-05
length = "7d"
timezone = "Europe/Zurich"
[osts]
count = 4
drive = "pm1733"
[mdts]
count = 1
[server]
[clients]
nodes = 64
network = "25 GB/s"
[users]
count = 10
fullness = 0.5
daily_writes = "10TB"
daily_reads = "20TB"
"""


CHANGE = "[[change]]\nat = 2026-01-07\nset = { %s }\n"
FAULT = "[[fault]]\nat = 2026-01-07\n%s\n"
ONE_GB_S = "size = '1 GB/s'"
SLOW_DRIVE = "kind = 'slow-drive'\nosts = [1]"
FAILOVER = "kind = 'failover'\nosts = [1]"
EARLY, LATE = (CHANGE.replace("2026", year) for year in ("2025", "2027"))
IOR = "[probe.a]\nkind = 'ior'\nschedule = 'every 1h'\n"
SURVEY = "[probe.a]\nkind = 'obdfilter-survey'\nschedule = 'every 1h'\n"
MIRROR = "[osts.raid]\nkind = 'raid10'\ndata = 1\n"


def small(old: str, new: str) -> str:
    """Return the small scenario with a part of it replaced."""
    assert old in SMALL
    return SMALL.replace(old, new)


PERLMUTTER = load_scenario("perlmutter")
BASE = parse_scenario(SMALL, "f.toml")


def read(text: str) -> Scenario:
    return parse_scenario(text, "f.toml")


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(text)
    return caught.value


def test_few_keys_are_enough() -> None:
    scenario = read(SMALL)
    assert scenario.start == datetime(2026, 1, 4, 23, tzinfo=UTC)
    assert (scenario.end, scenario.osts.raid.drives) == (datetime(2026, 1, 11, 23, tzinfo=UTC), 12)
    assert (scenario.trim.every_s, scenario.users.daily_writes_bytes) == (None, 10e12)
    assert scenario.source == "f.toml"
    assert scenario.resolution.classes is None  # never more columns by default than OSTs


def test_many_osts_get_classes_by_default() -> None:
    assert read(SMALL.replace("count = 4", "count = 100")).resolution.classes == 16


def test_changes_and_faults_are_in_the_order_of_time() -> None:
    scenario = read(
        SMALL
        + """
[[change]]
at = 2026-01-07
set = { trim.every = "24h", "allocator.reset" = "15m" }
[[change]]
at = "2026-01-06T12:00:00Z"
set = { "osts.count" = 6, "clients.checksums" = true, "trim.every" = "never" }
[[fault]]
at = 2026-01-08T06:00:00
kind = "silent-ost"
osts = [5]
"""
    )
    later, first = scenario.changes[1], scenario.changes[0]
    assert first.at == datetime(2026, 1, 6, 12, tzinfo=UTC)
    assert first.set == {"osts.count": 6, "clients.checksums": True, "trim.every": None}
    assert later.set == {"trim.every": 86400.0, "allocator.reset": 900.0}
    assert scenario.faults[0].at == datetime(2026, 1, 8, 5, tzinfo=UTC)


def test_a_drive_is_a_name_or_a_table_or_both() -> None:
    named = read(SMALL).osts.drive
    table = 'like = "pm1735"\nname = "ours"\nspare = 0.2\nwrite_iops = "1 kIOPS"\n'
    other = read(SMALL.replace('drive = "pm1733"', f"[osts.drive]\n{table}")).osts.drive
    assert (named.name, named.spare, named.capacity_bytes) == ("pm1733", 0.127, 15.36e12)
    assert (other.name, other.spare, other.capacity_bytes) == ("ours", 0.2, 12.8e12)
    assert (other.write_iops, other.read_iops) == (1000.0, 1450e3)


@for_each(
    "text, place, code, hint",
    [
        ("osts]", "1 ", "not-toml", "text must be quoted"),
        (small("nodes", "node"), "14 clients.node", "unknown-key", "nodes"),
        (SMALL + "[trim]\nevry = 3\n", "22 trim.evry", "unknown-key", "every"),
        (SMALL + "[trimm]\nevery = 3\n", "21 trimm", "unknown-table", "trim"),
        (SMALL + "[trim]\nlimit = 0.7\n", "22 trim.limit", "unknown-key", "a key of [gating]"),
        (SMALL + "[probe.a]\nkindd = 'ior'\n", "22 probe.a.kindd", "unknown-key", "kind"),
        (small('"10TB"', '"-10TB"'), "19 users.daily_writes", "out-of-range", "PB"),
        (small('"10TB"', "10"), "19 users.daily_writes", "wrong-type", "2.5PB"),
        (small('"25 GB/s"', '"-1 GB/s"'), "15 clients.network", "out-of-range", "GB/s"),
        (small('"25 GB/s"', '"0 GB/s"'), "15 clients.network", "out-of-range", ""),
        (small('"25 GB/s"', '"25 GB"'), "15 clients.network", "malformed-value", "50 GB/s"),
        (small("nodes = 64", "nodes = 6.5"), "14 clients.nodes", "wrong-type", ""),
        (small("nodes = 64", "nodes = true"), "14 clients.nodes", "wrong-type", ""),
        (small("0.5", "1.5"), "18 users.fullness", "out-of-range", "75%"),
        (small("0.5", "nan"), "18 users.fullness", "out-of-range", "75%"),
        (small("pm1733", "pm1734"), "9 osts.drive", "drive-unknown", "pm1733"),
        (small("count = 4\n", ""), "7 osts.count", "missing-key", "count = 1"),
        (small('length = "7d"\n', ""), "1 scenario.length", "missing-key", "48h"),
        (small("[mdts]\ncount = 1\n", ""), "mdts", "missing-table", ""),
        (small("Zurich", "Zuric"), "6 scenario.timezone", "malformed-value", "IANA"),
        (small("2026-01-05", "5"), "4 scenario.start", "wrong-type", "2023-09-12"),
        (small("2026-01-05", '"soon"'), "4 scenario.start", "malformed-value", "2026"),
        (small('"small"', '"My Scratch"'), "2 scenario.name", "name-invalid", "lower-case letters"),
        (SMALL + "[change]\nat = 2026-01-06\n", "21 change", "wrong-type", "[[change]]"),
        (SMALL + "[[change]]\nat = 2026-01-06\n", "21 change.0.set", "missing-key", ""),
        (
            SMALL + CHANGE % "'trim.evry' = '1d'",
            "23 change.0.set.trim.evry",
            "unknown-key",
            "did you mean 'trim.every'?",
        ),
        (SMALL + CHANGE % "'trim.every' = 3", "23 change.0.set.trim.every", "wrong-type", "48h"),
        (SMALL + FAULT % "kind = 'fire'", "23 fault.0.kind", "unknown-value", ""),
        (SMALL + IOR.replace("a]", "'a.b']"), "21 probe.a.b", "name-invalid", "lower-case"),
        (
            SMALL + IOR.replace("every 1h", "x"),
            "23 probe.a.schedule",
            "malformed-value",
            "every 1h",
        ),
        (
            SMALL + "[assumptions]\n'trim.evry' = 'x'\n",
            "22 assumptions.trim.evry",
            "unknown-key",
            "trim.every",
        ),
    ],
)
def test_each_problem_names_its_line_key_and_code(text, place, code, hint) -> None:
    error = refused(text)
    line = error.message.partition(": ")[0].split(":")[1:2]
    problem = error.problems[0] if isinstance(error, ConfigError) else Problem((), "", error.hint)
    assert (" ".join((*line, ".".join(problem.location))), error.code) == (place, code)
    assert hint in (problem.hint or "")


def test_several_problems_are_told_together() -> None:
    text = SMALL.replace("nodes = 64", "nodes = 0").replace("fullness = 0.5", "fullness = 7")
    assert "nodes" in refused(text).message
    assert "fullness" in refused(text).message


# Building on another


def test_extending_a_preset_keeps_what_is_not_said() -> None:
    own = read('[scenario]\nname = "ours"\nextends = "perlmutter"\n[osts]\ncount = 290\n')
    assert (own.osts.count, own.osts.drive) == (290, PERLMUTTER.osts.drive)
    assert own.osts.capacity_bytes == PERLMUTTER.osts.capacity_bytes
    kept = (PERLMUTTER.start, PERLMUTTER.changes, PERLMUTTER.probes)
    assert (own.start, own.changes, own.probes) == kept
    assert (own.name, own.title) == ("ours", PERLMUTTER.title)


def test_lists_are_added_to_or_left_out() -> None:
    head = '[scenario]\nname = "ours"\nextends = "perlmutter"\n'
    change = '[[change]]\nat = 2023-08-01\nset = { "trim.every" = "6h" }\n'
    assert len(read(head + change).changes) == len(PERLMUTTER.changes) + 1
    alone = read(head + 'inherit = ["probes"]\n' + change)
    assert (len(alone.changes), alone.faults, alone.probes) == (1, (), PERLMUTTER.probes)
    probe = '[probe.hourly]\nbytes_written = "250TB"\n[probe.own]\nkind = "obdfilter-survey"\n'
    more = read(head + probe + 'schedule = "daily at 03:00"\n').probes
    assert [probe.name for probe in more] == ["hourly", "survey", "own"]
    assert (more[0].bytes_written, more[0].nodes) == (250e12, 32)


def test_what_is_said_anew_is_no_longer_assumed() -> None:
    own = read('[scenario]\nname = "a"\nextends = "perlmutter"\n[users]\nfullness = 0.6\n')
    assert "users.fullness" not in own.assumptions
    assert "users.skew" in own.assumptions


def test_extending_a_file_beside_it(tmp_path) -> None:
    (tmp_path / "base.toml").write_text(SMALL)
    (tmp_path / "own.toml").write_text('[scenario]\nname = "own"\nextends = "./base.toml"\n')
    own = load_scenario(tmp_path / "own.toml")
    assert (own.name, own.osts.count, own.source) == ("own", 4, str(tmp_path / "own.toml"))


def test_a_circle_is_refused(tmp_path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        text = f'[scenario]\nname = "{one}"\nextends = "{other}.toml"\n'
        (tmp_path / f"{one}.toml").write_text(text)
    with raises(UsageError, "extends-circle"):
        load_scenario(str(tmp_path / "a.toml"))


def test_problems_of_the_extended_are_not_put_on_a_line_of_this_one() -> None:
    error = refused('[scenario]\nname = "a"\nextends = "perlmutter"\nlength = "255d"\n')
    assert error.message.startswith("f.toml: [[fault]]: ")
    assert error.code == "outside-scenario"
    assert "inherit" in (error.hint or "")


def test_a_change_of_its_own_has_its_own_number() -> None:
    text = '[scenario]\nname = "a"\nextends = "perlmutter"\n'
    text += '[[change]]\nat = 2023-08-01\nset = { "trim.every" = "6h" }\n'
    text += '[[change]]\nat = 2025-08-01\nset = { "trim.every" = "6h" }\n'
    error = refused(text)
    assert error.message.startswith("f.toml:8: [[change]] 2 at: ")
    assert error.code == "outside-scenario"


# Names and files


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with raises(UsageError, "scenario-unknown") as caught:
        load_scenario("perlmuter")
    assert caught.value.hint == "did you mean 'perlmutter'?"


def test_unreadable_files_are_refused(tmp_path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"a = 1\n\xff")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    for name, code in (
        ("none.toml", "file-missing"),
        ("", "file-not-regular"),
        ("binary.toml", "file-not-utf8"),
        ("large.toml", "file-too-large"),
    ):
        with raises(UsageError, code):
            load_scenario(f"{tmp_path}/{name}")


def test_text_of_a_preset_and_of_a_file(tmp_path) -> None:
    (tmp_path / "own.toml").write_text(SMALL)
    assert scenario_text(str(tmp_path / "own.toml")) == SMALL
    assert scenario_text("perlmutter") == preset_text("perlmutter")


# Scenarios that cannot be


def refused_for(text: str) -> tuple[str, str]:
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
        (MIRROR + "parity = 0\n", "osts.raid.parity", "mirror-copies"),
        (MIRROR + "parity = 2\n", "osts.raid.parity", "mirror-copies"),
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
        (EARLY % "'trim.discard' = true", "change.0.at", "outside-scenario"),
        (LATE % "'trim.discard' = true", "change.0.at", "outside-scenario"),
        (FAULT % "kind = 'silent-ost'\nosts = [4]", "fault.0.osts", "ost-unknown"),
        (FAULT % "kind = 'silent-ost'", "fault.0.osts", "osts-missing"),
        (FAULT % "kind = 'name-service'\nosts = [1]", "fault.0.osts", "key-not-applicable"),
        (FAULT % f"kind = 'burst'\nosts = [1]\n{ONE_GB_S}", "fault.0.osts", "key-not-applicable"),
        (FAULT % SLOW_DRIVE, "fault.0.size", "fraction-needed"),
        (FAULT % f"{SLOW_DRIVE}\n{ONE_GB_S}", "fault.0.size", "fraction-needed"),
        (FAULT % "kind = 'burst'\nsize = 0.5", "fault.0.size", "rate-needed"),
        (FAULT % f"{FAILOVER}\nsize = 0.5", "fault.0.size", "key-not-applicable"),
        (FAULT % f"{FAILOVER}\nuntil = 2026-01-07", "fault.0.until", "end-before-start"),
        (FAULT.replace("2026", "2027") % FAILOVER, "fault.0.at", "outside-scenario"),
    ],
)
def test_what_cannot_be_is_refused(added, where, code) -> None:
    assert refused_for(SMALL + added) == (where, code)


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
        ('"pm1733"', "{like = 'pm1733', spare = 0}", "osts.drive.spare", "out-of-range"),
        (
            '"pm1733"',
            "{like = 'pm1733', spare = 0.0002}",
            "resolution.superblock_units",
            "superblock-too-large",
        ),
        ('"pm1733"', "{like = 'pm1733', spare = 1}", "osts.drive.spare", "out-of-range"),
    ],
)
def test_what_cannot_be_at_the_start(old, new, where, code) -> None:
    assert refused_for(SMALL.replace(old, new)) == (where, code)


def test_a_fault_may_name_an_ost_that_came_before_it() -> None:
    added = "[[change]]\nat = 2026-01-0%d\nset = { 'osts.count' = 5 }\n"
    fault = FAULT % "kind = 'silent-ost'\nosts = [4]"
    assert parse_scenario(SMALL + added % 6 + fault, "f.toml").faults[0].osts == (4,)
    with pytest.raises(UsageError, match="there is no OST 4 at that time, only 0 to 3"):
        parse_scenario(SMALL + added % 8 + fault, "f.toml")


@given(st.lists(st.integers(1, 8), max_size=5))
def test_capacity_only_grows(counts) -> None:
    changes = tuple(
        ScenarioChange(BASE.start + timedelta(days=number + 1), {"osts.count": count})
        for number, count in enumerate(counts)
    )
    found = [p.location for p in problems(replace(BASE, changes=changes))]
    said = [4, *counts]
    falls = [place for place, (a, b) in enumerate(pairwise(said)) if b < a]
    shrinks = [("change", str(place), "set", "osts.count") for place in falls]
    assert found == shrinks


@given(st.floats(0.01, 2))
def test_an_ost_holds_what_its_drives_give_and_no_more(part) -> None:
    osts = replace(BASE.osts, capacity_bytes=part * drives_capacity_bytes(BASE.osts))
    users = replace(BASE.users, fullness=0.0, daily_writes_bytes=0.0)
    found = [p.location for p in problems(replace(BASE, osts=osts, users=users))]
    assert found == ([] if part <= 1 else [("osts", "capacity")])


def test_every_kind_of_fault_can_be_told() -> None:
    at = BASE.start + timedelta(days=1)
    told = (
        *(Fault(at, kind, osts=(1,)) for kind in ("silent-ost", "failover", "failed-drive")),
        *(Fault(at, "slow-drive", osts=(1,), size=0.5), Fault(at, "name-service")),
        *(Fault(at, "filling", osts=(1,), size=2e9), Fault(at, "burst", size=2e9)),
    )
    assert list(problems(replace(BASE, faults=told))) == []
