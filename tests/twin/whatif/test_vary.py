"""Axes as people type them, and the scenarios that they make."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.scenario_key import value_of
from trimtab.twin.whatif.variation import WORDS, Axis, combinations, parse_axis, settings_of

PERLMUTTER = load_scenario("perlmutter")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("trim=never,weekly,nightly", ("never", "weekly", "nightly")),
        ("fullness=0.6:0.95:0.05", ("0.6", "0.65", "0.7", "0.75", "0.8", "0.85", "0.9", "0.95")),
        ("fullness=60%:80%:10%", ("60%", "70%", "80%")),
        ("trim.every=1d:7d:2d", ("1d", "3d", "5d", "7d")),
        ("writes=1:3:1PB", ("1PB", "2PB", "3PB")),
        ("fullness=0.5:0.6:0.07", ("0.5", "0.57")),
        ("fullness=0.5:0.5:0.1", ("0.5",)),
        ("x=a:b:c", ("a:b:c",)),
        ("probe.hourly.schedule=every 1h, daily at 21:00", ("every 1h", "daily at 21:00")),
    ],
)
def test_axes(text, values):
    assert parse_axis(text).values == values


@pytest.mark.parametrize(
    "text",
    ["", "trim", "=1", "trim=", "trim=a,,b", "trim=a,a", "f=1:0:0.1", "f=0:1:0", "f=1d:7w:1d",
     "f=0:1000000:1", "f=" + "1," * 900 + "2"],
)  # fmt: skip
def test_what_is_no_axis(text):
    with pytest.raises(UsageError, match="--vary"):
        parse_axis(text)


@given(
    st.decimals(0, 100, places=2),
    st.decimals(Decimal("0.01"), 10, places=2),
    st.integers(0, 40),
)
def test_ranges_hold_both_ends_and_every_step_exactly(first, step, count):
    last = first + step * count
    values = parse_axis(f"x={first}:{last}:{step}").values
    slow, at = [], first
    while at <= last:
        slow.append(at)
        at += step
    assert [Decimal(one) for one in values] == slow


@pytest.mark.parametrize("name", WORDS)
def test_every_word_sets_keys_that_there_are(name):
    example = {
        "trim": "weekly", "discard": "on", "fullness": "0.8", "start-fullness": "0.5",
        "thresholds": "10/10/5", "reset": "15min", "family": "el9", "purge": "0.6",
        "gating": "80%", "drive": "pm1733-3dwpd", "spare": "0.2", "placement": "weighted",
        "wbt": "off", "writes": "2PB",
    }[name]  # fmt: skip
    (found,) = combinations(PERLMUTTER, [Axis(name, (example,))])
    assert found.scenario != PERLMUTTER
    for key in settings_of(name, example):
        value_of(found.scenario, key)


def test_words_mean_what_they_say():
    def only(name: str, text: str):
        return combinations(PERLMUTTER, [Axis(name, (text,))])[0].scenario

    assert only("trim", "never").trim.every_s is None
    assert only("trim", "weekly").trim.every_s == 7 * 86400
    assert only("trim", "36h").trim.every_s == 36 * 3600
    discard = only("trim", "discard").trim
    assert discard.discard
    assert discard.every_s is None
    allocator = only("thresholds", "25/20/5").allocator
    assert (allocator.c1, allocator.c2, allocator.c3) == (0.25, 0.20, 0.05)
    gating = only("gating", "80%").gating
    assert gating.enabled
    assert gating.limit == 0.8
    assert gating.reopen == pytest.approx(0.75)
    assert not only("gating", "off").gating.enabled
    full = only("fullness", "80%")
    assert (full.users.fullness, full.purge.target, full.purge.enabled) == (0.8, 0.8, True)
    assert not only("wbt", "off").queue.writeback_throttling


def test_what_is_varied_stays_so():
    """Perlmutter's trims become more frequent in October: not where trims are varied."""
    assert any("trim.every" in change.set for change in PERLMUTTER.changes)
    (found,) = combinations(PERLMUTTER, [Axis("trim", ("never",))])
    assert not any("trim.every" in change.set for change in found.scenario.changes)
    others = {key for change in PERLMUTTER.changes for key in change.set} - {"trim.every"}
    assert others <= {key for change in found.scenario.changes for key in change.set}


def test_the_cross_product_in_order():
    axes = [Axis("trim", ("never", "nightly")), Axis("queue.target_latency", ("1ms", "2ms"))]
    found = combinations(PERLMUTTER, axes)
    assert [one.settings for one in found] == [
        (("trim", trim), ("queue.target_latency", latency))
        for trim in ("never", "nightly")
        for latency in ("1ms", "2ms")
    ]
    assert found[1].title == "trim never, queue.target_latency 2ms"
    assert found[1].scenario.queue.target_latency_s == 0.002


def test_without_an_axis_it_is_the_scenario_itself():
    (found,) = combinations(PERLMUTTER, [])
    assert found.scenario == PERLMUTTER
    assert found.title == "as it is"


@pytest.mark.parametrize(
    ("axes", "code", "hint"),
    [
        ([Axis("trimm", ("never",))], "unknown-key", "'trim'"),
        ([Axis("allocator.c9", ("5%",))], "unknown-key", "allocator.c"),
        ([Axis("fullness", ("170%",))], "out-of-range", ""),
        ([Axis("thresholds", ("25/15",))], "malformed-value", ""),
        ([Axis("drive", ("floppy",))], "drive-unknown", "pm1733"),
        ([Axis("trim", ("never",)), Axis("trim.every", ("7d",))], "axes-overlap", ""),
        ([Axis("trim", ("never",)), Axis("trim", ("7d",))], "axes-overlap", ""),
    ],
)
def test_refusals(axes, code, hint):
    with pytest.raises(UsageError) as caught:
        combinations(PERLMUTTER, axes)
    assert caught.value.code == code
    assert hint in (caught.value.hint or "")


def test_too_many_unless_told():
    axis = parse_axis("spare=0.1:0.2:0.01")
    other = parse_axis("queue.target_latency=1ms:19ms:1ms")
    with raises(UsageError, "too-many-combinations") as caught:
        combinations(PERLMUTTER, [axis, other])
    assert "--most 209" in (caught.value.hint or "")
    assert len(combinations(PERLMUTTER, [axis, Axis("wbt", ("on", "off"))], most=22)) == 22


def test_changes_stay_within_the_scenario():
    end = PERLMUTTER.start + timedelta(seconds=PERLMUTTER.length_s)
    for one in combinations(PERLMUTTER, [Axis("trim", ("never", "nightly"))]):
        assert all(PERLMUTTER.start <= change.at <= end for change in one.scenario.changes)


def test_the_page_lists_every_word_with_the_keys_that_it_sets():
    page = (Path(__file__).resolve().parents[3] / "docs" / "whatif.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert set(rows) == set(WORDS)
    for name, text in {
        "trim": "weekly", "fullness": "0.8", "thresholds": "1/1/1", "gating": "0.8",
        "purge": "0.8", "drive": "pm1733", "spare": "0.1", "reset": "1h", "writes": "1PB",
    }.items():  # fmt: skip
        assert all(f"`{key}`" in rows[name] for key in settings_of(name, text))
