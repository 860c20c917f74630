"""Whatever a file can describe is written as a file that describes the same."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.twin.scenario.scenarios import scenarios

from trimtab.base.error import UsageError
from trimtab.base.toml_kind import OPERATIONS, RATE, SIZE, SIZE_OR_ZERO
from trimtab.twin.scenario import DURATION, WHOLE_SIZE
from trimtab.twin.scenario_check import problems
from trimtab.twin.scenario_file import load_scenario, parse_scenario, preset_names, to_toml


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
    text = tomllib.loads(f"x = {SIZE_OR_ZERO.write(value)}")["x"]
    assert SIZE_OR_ZERO.read(text) == value


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
