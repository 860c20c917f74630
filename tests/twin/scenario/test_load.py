"""Reading scenarios: what is refused says where it stands, why, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.support.each import for_each

from trimtab.errors import UsageError
from trimtab.twin.scenario.load import load_scenario, parse_scenario, preset_text, scenario_text
from trimtab.twin.scenario.model import Scenario

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
    "text, message, hint",
    [
        ("osts]", "f.toml:1:", "text stands in quotes"),
        (
            SMALL.replace("nodes", "node"),
            r"f.toml:14: \[clients\] node: there is no such key",
            "nodes",
        ),
        (SMALL + "[trim]\nevry = 3\n", r"f.toml:22: \[trim\] evry: there is no such key", "every"),
        (SMALL + "[trimm]\nevery = 3\n", r"f.toml:21: \[trimm\]: there is no such table", "trim"),
        (SMALL + "[trim]\nlimit = 0.7\n", "there is no such key", "a key of [gating]"),
        (SMALL + "[probe.a]\nkindd = 'ior'\n", r"\[probe.a\] kindd", "kind"),
        (
            SMALL.replace('"10TB"', '"-10TB"'),
            r"f.toml:19: \[users\] daily_writes: .* negative",
            "PB",
        ),
        (SMALL.replace('"10TB"', "10"), "10 is not text", "2.5PB"),
        (SMALL.replace('"25 GB/s"', '"-1 GB/s"'), r"\[clients\] network: .* negative", "GB/s"),
        (SMALL.replace('"25 GB/s"', '"0 GB/s"'), "network: .* more than 0", ""),
        (SMALL.replace('"25 GB/s"', '"25 GB"'), "network: '25 GB' is not a rate", "50 GB/s"),
        (SMALL.replace("nodes = 64", "nodes = 6.5"), "nodes: 6.5 is not a whole number", ""),
        (SMALL.replace("nodes = 64", "nodes = true"), "nodes: True is not a whole number", ""),
        (SMALL.replace("fullness = 0.5", "fullness = 1.5"), "is not a fraction", "75%"),
        (SMALL.replace("fullness = 0.5", "fullness = nan"), "is not a fraction", "75%"),
        (SMALL.replace("pm1733", "pm1734"), "the drive 'pm1734' is not known", "pm1733"),
        (SMALL.replace("count = 4\n", ""), r"f.toml:7: \[osts\] count: is missing", "count = 1"),
        (SMALL.replace('length = "7d"\n', ""), r"\[scenario\] length: is missing", "48h"),
        (SMALL.replace("[mdts]\ncount = 1\n", ""), r"f.toml: \[mdts\]: is missing", None),
        (SMALL.replace("Europe/Zurich", "Europe/Zuric"), "time zone", "IANA"),
        (SMALL.replace("2026-01-05", "5"), "5 is not a time", "2023-09-12"),
        (SMALL.replace("2026-01-05", '"soon"'), "'soon' is not a time", "2026"),
        (SMALL.replace('"small"', '"My Scratch"'), "is not a name", "small letters"),
        (SMALL + "[change]\nat = 2026-01-06\n", r"\[change\]: is to be a list", "[[change]]"),
        (
            SMALL + "[[change]]\nat = 2026-01-06\n",
            r"f.toml:21: \[\[change\]\] 1 set: is missing",
            None,
        ),
        (
            SMALL + "[[change]]\nat = 2026-01-06\nset = {'trim.evry' = '1d'}\n",
            r"f.toml:23: \[\[change\]\] 1 set \"trim.evry\": there is no key",
            "did you mean 'trim.every'?",
        ),
        (
            SMALL + "[[change]]\nat = 2026-01-06\nset = {'trim.every' = 3}\n",
            r"set \"trim.every\": 3 is not text",
            "48h",
        ),
        (
            SMALL + "[[fault]]\nat = 2026-01-06\nkind = 'fire'\n",
            "'fire' is none of silent-ost",
            None,
        ),
        (SMALL + "[probe.'a.b']\nkind = 'ior'\nschedule = 'every 1h'\n", "is not a name", "small"),
        (
            SMALL + "[probe.a]\nkind = 'ior'\nschedule = 'now'\n",
            r"\[probe.a\] schedule",
            "every 1h",
        ),
        (SMALL + "[assumptions]\n'trim.evry' = 'x'\n", "there is no key 'trim.evry'", "trim.every"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text, message, hint) -> None:
    error = refused(text)
    assert pytest.raises(UsageError, match=message).matches(error), error.message
    if hint is None:
        assert error.hint is None
    else:
        assert hint in (error.hint or "")


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
    assert [one.name for one in more] == ["hourly", "survey", "own"]
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
    with pytest.raises(UsageError, match="in a circle"):
        load_scenario(str(tmp_path / "a.toml"))


def test_problems_of_the_extended_are_not_put_on_a_line_of_this_one() -> None:
    error = refused('[scenario]\nname = "a"\nextends = "perlmutter"\nlength = "255d"\n')
    assert error.message.startswith("f.toml: [[fault]]: of the extended scenario: it is outside")
    assert "inherit" in (error.hint or "")


def test_a_change_of_its_own_has_its_own_number() -> None:
    text = '[scenario]\nname = "a"\nextends = "perlmutter"\n'
    text += '[[change]]\nat = 2023-08-01\nset = { "trim.every" = "6h" }\n'
    text += '[[change]]\nat = 2025-08-01\nset = { "trim.every" = "6h" }\n'
    assert refused(text).message.startswith("f.toml:8: [[change]] 2 at: it is outside")


# Names and files


def test_a_name_nobody_knows() -> None:
    with pytest.raises(UsageError, match="no scenario 'perlmuter'") as caught:
        load_scenario("perlmuter")
    assert caught.value.hint == "did you mean 'perlmutter'?"


def test_what_is_no_file(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="is not a file"):
        load_scenario(f"{tmp_path}/")
    (tmp_path / "binary.toml").write_bytes(b"a = 1\n\xff")
    with pytest.raises(UsageError, match=r"binary.toml:2: byte 0xff is not UTF-8"):
        load_scenario(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        load_scenario(tmp_path / "large.toml")


def test_text_of_a_preset_and_of_a_file(tmp_path) -> None:
    (tmp_path / "own.toml").write_text(SMALL)
    assert scenario_text(str(tmp_path / "own.toml")) == SMALL
    assert scenario_text("perlmutter") == preset_text("perlmutter")
