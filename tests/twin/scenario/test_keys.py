"""Dotted keys: each setting can be read, put elsewhere by its own type, and nothing else moves."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.each import for_each
from tests.twin.scenario.scenarios import scenarios
from tests.twin.scenario.test_load import SMALL

from trimtab.base.error import UsageError
from trimtab.twin.drive_preset import PRESETS
from trimtab.twin.scenario import Scenario, ScenarioChange
from trimtab.twin.scenario_check import replace_keys, replace_running
from trimtab.twin.scenario_fact import at_the_end
from trimtab.twin.scenario_file import load_scenario, parse_scenario
from trimtab.twin.scenario_key import find_key, known_keys, read_value, value_of, with_value


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
    base = parse_scenario(SMALL, "f.toml")
    assert replace_keys(base, {"osts.drive": "pm1735"}).osts.drive == PRESETS["pm1735"].model
    assert base.osts.drive == PRESETS["pm1733"].model


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
    base = load_scenario("perlmutter")
    changed = replace_keys(base, {"gating.limit": "60%", "gating.reopen": "55%"})
    assert (changed.gating.limit, changed.gating.reopen) == (0.6, 0.55)
    small = replace_keys(base, {"osts.drive": "pm1735", "osts.capacity": "from-drives"})
    assert small.osts.drive.drive_writes_per_day == 3


def test_what_is_replaced_is_no_longer_assumed() -> None:
    base = load_scenario("perlmutter")
    assert "trim.every" in base.assumptions
    assert "trim.every" not in replace_keys(base, {"trim.every": "24h"}).assumptions


def test_a_later_change_still_happens_unless_it_is_for_good() -> None:
    base = load_scenario("perlmutter")
    once = replace_keys(base, {"trim.every": "never"})
    assert once.trim.every_s is None
    assert at_the_end(once).trim.every_s == 86400
    good = replace_keys(base, {"trim.every": "never"}, for_good=True)
    assert at_the_end(good).trim.every_s is None
    assert len(good.changes) == len(base.changes) - 1
    # Of a change that sets several keys the others stay.
    placed = replace_keys(base, {"placement.kind": "round-robin"}, for_good=True)
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
    base = parse_scenario(SMALL, "f.toml")
    one = ScenarioChange(base.start, {"trim.every": 60.0, "osts.count": 5})
    two = ScenarioChange(base.start, {"trim.every": None})
    end = at_the_end(replace(base, changes=(one, two)))
    assert (end.trim.every_s, end.osts.count) == (None, 5)


def test_a_running_file_system_changes_whatever_was_to_change_before() -> None:
    text = "[[change]]\nat = 2026-01-0%d\nset = { 'osts.count' = %d }\n"
    base = parse_scenario(SMALL + text % (6, 5) + text % (7, 6), "f.toml")
    first = replace_running(base, base.changes[0].set)
    second = replace_running(first, base.changes[1].set)
    assert (first.osts.count, second.osts.count) == (5, 6)
    assert refused(replace_running, second, {"osts.count": "5"}).code == "osts-removed"


def test_a_running_file_system_changes_what_belongs_together_at_once() -> None:
    base = parse_scenario(SMALL, "f.toml")
    both = replace_running(base, {"gating.limit": "60%", "gating.reopen": 0.5})
    assert (both.gating.limit, both.gating.reopen) == (0.6, 0.5)
    assert refused(replace_running, base, {"gating.limit": "60%"}).code == "reopen-above-limit"
    assert refused(replace_running, base, {"users.fullness": "60%"}).code == "key-fixed"
