"""Reading scenarios: what is refused says where it stands, why, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.error import UsageError
from trimtab.base.toml_problem import ConfigError, Problem
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario, parse_scenario, preset_text, scenario_text

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


def read(text: str) -> Scenario:
    return parse_scenario(text, "f.toml")


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(text)
    return caught.value


def test_few_keys_are_enough() -> None:
    scenario = read(SMALL)
    assert scenario.start == datetime(2026, 1, 4, 23, tzinfo=UTC)
    assert scenario.end == datetime(2026, 1, 11, 23, tzinfo=UTC)
    assert scenario.osts.raid.drives == 12
    assert scenario.trim.every_s is None
    assert scenario.users.daily_writes_bytes == 10e12
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
        (SMALL.replace("nodes", "node"), "14 clients.node", "unknown-key", "nodes"),
        (SMALL + "[trim]\nevry = 3\n", "22 trim.evry", "unknown-key", "every"),
        (SMALL + "[trimm]\nevery = 3\n", "21 trimm", "unknown-table", "trim"),
        (SMALL + "[trim]\nlimit = 0.7\n", "22 trim.limit", "unknown-key", "a key of [gating]"),
        (SMALL + "[probe.a]\nkindd = 'ior'\n", "22 probe.a.kindd", "unknown-key", "kind"),
        (SMALL.replace('"10TB"', '"-10TB"'), "19 users.daily_writes", "out-of-range", "PB"),
        (SMALL.replace('"10TB"', "10"), "19 users.daily_writes", "wrong-type", "2.5PB"),
        (SMALL.replace('"25 GB/s"', '"-1 GB/s"'), "15 clients.network", "out-of-range", "GB/s"),
        (SMALL.replace('"25 GB/s"', '"0 GB/s"'), "15 clients.network", "out-of-range", ""),
        (SMALL.replace('"25 GB/s"', '"25 GB"'), "15 clients.network", "malformed-value", "50 GB/s"),
        (SMALL.replace("nodes = 64", "nodes = 6.5"), "14 clients.nodes", "wrong-type", ""),
        (SMALL.replace("nodes = 64", "nodes = true"), "14 clients.nodes", "wrong-type", ""),
        (
            SMALL.replace("fullness = 0.5", "fullness = 1.5"),
            "18 users.fullness",
            "out-of-range",
            "75%",
        ),
        (
            SMALL.replace("fullness = 0.5", "fullness = nan"),
            "18 users.fullness",
            "out-of-range",
            "75%",
        ),
        (SMALL.replace("pm1733", "pm1734"), "9 osts.drive", "drive-unknown", "pm1733"),
        (SMALL.replace("count = 4\n", ""), "7 osts.count", "missing-key", "count = 1"),
        (SMALL.replace('length = "7d"\n', ""), "1 scenario.length", "missing-key", "48h"),
        (SMALL.replace("[mdts]\ncount = 1\n", ""), "mdts", "missing-table", ""),
        (
            SMALL.replace("Europe/Zurich", "Europe/Zuric"),
            "6 scenario.timezone",
            "malformed-value",
            "IANA",
        ),
        (SMALL.replace("2026-01-05", "5"), "4 scenario.start", "wrong-type", "2023-09-12"),
        (SMALL.replace("2026-01-05", '"soon"'), "4 scenario.start", "malformed-value", "2026"),
        (
            SMALL.replace('"small"', '"My Scratch"'),
            "2 scenario.name",
            "name-invalid",
            "lower-case letters",
        ),
        (SMALL + "[change]\nat = 2026-01-06\n", "21 change", "wrong-type", "[[change]]"),
        (SMALL + "[[change]]\nat = 2026-01-06\n", "21 change.0.set", "missing-key", ""),
        (
            SMALL + "[[change]]\nat = 2026-01-06\nset = {'trim.evry' = '1d'}\n",
            "23 change.0.set.trim.evry",
            "unknown-key",
            "did you mean 'trim.every'?",
        ),
        (
            SMALL + "[[change]]\nat = 2026-01-06\nset = {'trim.every' = 3}\n",
            "23 change.0.set.trim.every",
            "wrong-type",
            "48h",
        ),
        (
            SMALL + "[[fault]]\nat = 2026-01-06\nkind = 'fire'\n",
            "23 fault.0.kind",
            "unknown-value",
            "",
        ),
        (
            SMALL + "[probe.'a.b']\nkind = 'ior'\nschedule = 'every 1h'\n",
            "21 probe.a.b",
            "name-invalid",
            "lower-case",
        ),
        (
            SMALL + "[probe.a]\nkind = 'ior'\nschedule = 'now'\n",
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
    base = load_scenario("perlmutter")
    own = read('[scenario]\nname = "ours"\nextends = "perlmutter"\n[osts]\ncount = 290\n')
    assert own.osts.count == 290
    assert own.osts.drive == base.osts.drive
    assert own.osts.capacity_bytes == base.osts.capacity_bytes
    assert (own.start, own.changes, own.probes) == (base.start, base.changes, base.probes)
    assert (own.name, own.title) == ("ours", base.title)


def test_lists_are_added_to_or_left_out() -> None:
    base = load_scenario("perlmutter")
    head = '[scenario]\nname = "ours"\nextends = "perlmutter"\n'
    change = '[[change]]\nat = 2023-08-01\nset = { "trim.every" = "6h" }\n'
    assert len(read(head + change).changes) == len(base.changes) + 1
    alone = read(head + 'inherit = ["probes"]\n' + change)
    assert len(alone.changes) == 1
    assert alone.faults == ()
    assert alone.probes == base.probes
    probe = '[probe.hourly]\nbytes_written = "250TB"\n[probe.own]\nkind = "obdfilter-survey"\n'
    more = read(head + probe + 'schedule = "daily at 03:00"\n').probes
    assert [probe.name for probe in more] == ["hourly", "survey", "own"]
    assert more[0].bytes_written == 250e12
    assert more[0].nodes == 32


def test_what_is_said_anew_is_no_longer_assumed() -> None:
    own = read('[scenario]\nname = "a"\nextends = "perlmutter"\n[users]\nfullness = 0.6\n')
    assert "users.fullness" not in own.assumptions
    assert "users.skew" in own.assumptions


def test_extending_a_file_beside_it(tmp_path) -> None:
    (tmp_path / "base.toml").write_text(SMALL)
    (tmp_path / "own.toml").write_text('[scenario]\nname = "own"\nextends = "./base.toml"\n')
    own = load_scenario(tmp_path / "own.toml")
    assert (own.name, own.osts.count) == ("own", 4)
    assert own.source == str(tmp_path / "own.toml")


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
    with pytest.raises(UsageError) as caught:
        load_scenario("perlmuter")
    assert (caught.value.code, caught.value.hint) == (
        "scenario-unknown",
        "did you mean 'perlmutter'?",
    )


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
