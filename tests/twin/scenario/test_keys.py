"""Dotted keys and files: each setting is read, replaced and written by its own type."""

import tomllib
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each
from tests.twin.scenario.scenarios import scenarios
from tests.twin.scenario.test_load import SMALL

from trimtab.base.error import UsageError
from trimtab.base.toml_kind import OPERATIONS, RATE, SIZE, SIZE_OR_ZERO
from trimtab.twin.scenario import DURATION, WHOLE_SIZE, Scenario, ScenarioChange
from trimtab.twin.scenario_check import problems, replace_keys, replace_running
from trimtab.twin.scenario_fact import at_the_end
from trimtab.twin.scenario_file import load_scenario, parse_scenario, preset_names, to_toml
from trimtab.twin.scenario_key import (
    PRESETS,
    find_key,
    known_keys,
    read_value,
    value_of,
    with_value,
)

PERLMUTTER = load_scenario("perlmutter")
BASE = parse_scenario(SMALL, "f.toml")


def flat(value: Any, above: str = "") -> dict[str, Any]:
    """Return every leaf of nested dictionaries and lists by its path."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return {above: value}
    return {k: v for name, item in items for k, v in flat(item, f"{above}/{name}").items()}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("trim.every", "never", None),
        ("trim.every", "24h", 86400.0),
        ("allocator.c2", "25%", 0.25),
        ("allocator.c2", "0.25", 0.25),
        ("allocator.family", "el9", "el9"),
        ("clients.checksums", "true", True),
        ("osts.count", "300", 300),
        ("osts.capacity", "from-drives", None),
        ("osts.drive.spare", "0.2", 0.2),
        ("users.skew", "1.5", 1.5),
        ("users.quota_bytes", "none", None),
        ("resolution.classes", "all", None),
        ("resolution.classes", "8", 8),
        ("gating.most_closed", "all", None),
        ("scenario.seed", "7", 7),
        ("scenario.length", "300d", 300 * 86400.0),
        ("scenario.timezone", "UTC", "UTC"),
        ("probe.hourly.bytes_written", "250TB", 250e12),
        ("probe.survey.schedule", "daily at 03:00", "daily at 03:00"),
    ],
)
def test_text_is_read_by_the_key_s_own_type(name, text, value) -> None:
    base = replace(load_scenario("perlmutter"), changes=(), faults=())
    changed = replace_keys(base, {name: text})
    assert value_of(changed, name) == value
    assert type(value_of(changed, name)) is type(value)
    if value is not None:
        assert replace_keys(base, {name: value}) == changed


def test_a_drive_is_replaced_whole() -> None:
    assert replace_keys(BASE, {"osts.drive": "pm1735"}).osts.drive == PRESETS["pm1735"].model
    assert BASE.osts.drive == PRESETS["pm1733"].model


@pytest.mark.calibration
@settings(max_examples=30, deadline=None)
@given(scenarios(), st.sampled_from(sorted(known_keys())), st.data())
def test_one_key_changes_one_value(scenario: Scenario, name: str, data: st.DataObject) -> None:
    other = data.draw(scenarios())
    key = find_key(name)
    value = value_of(other, name)
    changed = with_value(scenario, key, value)
    assert value_of(changed, name) == value
    before, after = flat(asdict(scenario)), flat(asdict(changed))
    path = "/" + "/".join(key.path)
    assert {k for k in before | after if before.get(k) != after.get(k)} <= {
        k for k in before | after if k == path or k.startswith(f"{path}/")
    }


@pytest.mark.calibration
@settings(max_examples=30, deadline=None)
@given(scenarios(), st.sampled_from(sorted(set(known_keys()) - {"osts.drive"})))
def test_a_value_reads_back_from_its_own_text(scenario: Scenario, name: str) -> None:
    import tomllib

    key = find_key(name)
    value = value_of(scenario, name)
    in_file = tomllib.loads(f"x = {key.kind.write(value)}")["x"]
    assert read_value(key, in_file) == value
    assert read_value(key, str(in_file).lower() if isinstance(in_file, bool) else str(in_file)) == (
        value
    )


def refused(replace_, scenario: Scenario, values: dict[str, object]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        replace_(scenario, values)
    return caught.value


@for_each(
    "name, text, code",
    [
        ("trim.evry", "24h", "unknown-key"),
        ("probe.daily.nodes", "3", "unknown-key"),
        ("trim.every", "soon", "malformed-value"),
        ("osts.count", "-3", "out-of-range"),
        ("gating.limit", "60%", "reopen-above-limit"),
        ("osts.count", "300", "osts-removed"),
    ],
)
def test_what_is_replaced_is_checked(name, text, code) -> None:
    assert refused(replace_keys, load_scenario("perlmutter"), {name: text}).code == code


def test_the_nearest_key_is_suggested() -> None:
    error = refused(replace_keys, load_scenario("perlmutter"), {"trim.evry": "24h"})
    assert "'trim.every'" in str(error.hint)


def test_keys_that_need_one_another_are_replaced_together() -> None:
    changed = replace_keys(PERLMUTTER, {"gating.limit": "60%", "gating.reopen": "55%"})
    assert (changed.gating.limit, changed.gating.reopen) == (0.6, 0.55)
    small = replace_keys(PERLMUTTER, {"osts.drive": "pm1735", "osts.capacity": "from-drives"})
    assert small.osts.drive.drive_writes_per_day == 3


def test_what_is_replaced_is_no_longer_assumed() -> None:
    assert "trim.every" in PERLMUTTER.assumptions
    assert "trim.every" not in replace_keys(PERLMUTTER, {"trim.every": "24h"}).assumptions


def test_a_later_change_still_happens_unless_it_is_for_good() -> None:
    once = replace_keys(PERLMUTTER, {"trim.every": "never"})
    assert once.trim.every_s is None
    assert at_the_end(once).trim.every_s == 86400
    good = replace_keys(PERLMUTTER, {"trim.every": "never"}, for_good=True)
    assert at_the_end(good).trim.every_s is None
    assert len(good.changes) == len(PERLMUTTER.changes) - 1
    # Of a change that sets several keys the others stay.
    placed = replace_keys(PERLMUTTER, {"placement.kind": "round-robin"}, for_good=True)
    end = at_the_end(placed).placement
    assert (end.kind, end.qos_threshold_rr) == ("round-robin", 0.05)


def test_every_change_of_a_preset_is_of_a_key_that_may_change() -> None:
    keys = [key for key in known_keys().values() if key.changes]
    assert {key.location[0] for key in keys} == {
        *("osts", "clients", "allocator", "queue", "trim", "placement", "users"),
        *("purge", "gating"),
    }
    assert not find_key("osts.drive.spare").changes
    assert find_key("osts.count").changes


def test_changes_are_applied_one_after_the_other() -> None:
    one = ScenarioChange(BASE.start, {"trim.every": 60.0, "osts.count": 5})
    two = ScenarioChange(BASE.start, {"trim.every": None})
    end = at_the_end(replace(BASE, changes=(one, two)))
    assert (end.trim.every_s, end.osts.count) == (None, 5)


def test_a_running_file_system_changes_whatever_was_to_change_before() -> None:
    text = "[[change]]\nat = 2026-01-0%d\nset = { 'osts.count' = %d }\n"
    base = parse_scenario(SMALL + text % (6, 5) + text % (7, 6), "f.toml")
    first = replace_running(base, base.changes[0].set)
    second = replace_running(first, base.changes[1].set)
    assert (first.osts.count, second.osts.count) == (5, 6)
    assert refused(replace_running, second, {"osts.count": "5"}).code == "osts-removed"


def test_a_running_file_system_changes_what_belongs_together_at_once() -> None:
    both = replace_running(BASE, {"gating.limit": "60%", "gating.reopen": 0.5})
    assert (both.gating.limit, both.gating.reopen) == (0.6, 0.5)
    assert refused(replace_running, BASE, {"gating.limit": "60%"}).code == "reopen-above-limit"
    assert refused(replace_running, BASE, {"users.fullness": "60%"}).code == "key-fixed"


# Whatever a file can describe is written as a file that describes the same


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_reads_back(name) -> None:
    scenario = load_scenario(name)
    assert parse_scenario(to_toml(scenario), name) == scenario


@pytest.mark.calibration
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(scenarios())
def test_every_scenario_reads_back(scenario) -> None:
    assert list(problems(scenario)) == []
    assert scenario.source is not None
    assert parse_scenario(to_toml(scenario), scenario.source) == scenario


@given(
    st.sampled_from([DURATION, RATE, OPERATIONS]),
    st.floats(1e-9, 1e9) | st.integers(1, 10**9).map(float),
)
def test_quantities_are_written_to_the_last_bit(kind, value) -> None:
    text = kind.write(value)
    assert kind.read(tomllib.loads(f"x = {text}")["x"]) == value


@given(st.integers(0, 10**21).map(float))
def test_sizes_are_written_to_the_last_byte(value) -> None:
    assert SIZE_OR_ZERO.read(tomllib.loads(f"x = {SIZE_OR_ZERO.write(value)}")["x"]) == value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (DURATION, 86400.0 * 275, "275d"),
        (DURATION, 0.002, "2ms"),
        (DURATION, 5400.0, "90m"),
        (SIZE, 133e12, "133TB"),
        (SIZE, 30.0 * 2**40, "30TiB"),
        (SIZE, 135.168e12, "135.168TB"),
        (WHOLE_SIZE, 131072, "128KiB"),
        (RATE, 100e9, "100 GB/s"),
        (RATE, 7.0 * 2**30, "7 GiB/s"),
        (OPERATIONS, 135e3, "135 kIOPS"),
    ],
)
def test_quantities_are_written_as_people_do(kind, value, text) -> None:
    assert kind.write(value) == f'"{text}"'
    assert kind.read(text) == value


def test_part_of_a_byte_is_refused() -> None:
    with raises(UsageError, "value-inexact"):
        SIZE.write(1.5)


def test_an_hour_that_comes_twice_keeps_its_offset() -> None:
    template = load_scenario("template")
    for hour in (0, 1):  # 02:30 of summer time, then 02:30 of winter time, in Zurich
        start = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
        moved = replace(
            template, start=start, timezone="Europe/Zurich", changes=(), faults=(), source="x"
        )
        text = to_toml(moved)
        assert parse_scenario(text, "x").start == start
        assert ("start = 2026-10-25T02:30:00\n" in text.replace("  ", "\n")) == (hour == 0)


def test_a_file_says_what_it_is_for() -> None:
    text = to_toml(load_scenario("perlmutter"))
    keys = [line for line in text.splitlines() if " = " in line and not line.startswith(("#", '"'))]
    table = text.partition("[probe.hourly]")[0]
    told = [line for line in table.splitlines() if line.startswith("every = ")]
    assert all("# " in line for line in told)
    assert len(keys) > 60
