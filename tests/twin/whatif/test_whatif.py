"""What-if: from axes as people type them to scenarios, a sweep and the command."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from statistics import fmean, median

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.narrow import present

from trimtab.base.error import UnreadableError, UsageError
from trimtab.show.screen_document import print_document
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.scenario_key import value_of
from trimtab.twin.whatif.page import whatif_document
from trimtab.twin.whatif.whatif_figure import KINDS, default_results, results_file
from trimtab.twin.whatif.whatif_request import (
    WORDS,
    Axis,
    combinations,
    parse_axis,
    scenario_of,
    settings_of,
)
from trimtab.twin.whatif.whatif_sweep import WhatIf, what_if

SMALL = """
[scenario]
name = "small"
extends = "template"
length = "2d"
inherit = ["probes"]
[resolution]
classes = 1
groups = 1
superblock_units = 8
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def site_file(directory: Path, driver: str, scenario: str) -> Path:
    path = directory / "site.toml"
    path.write_text(
        f'[site]\nname = "site"\ndriver = "{driver}"\npath = "{directory}"\n{scenario}\n'
    )
    return path


def test_presets_files_and_sites_name_scenarios(tmp_path, small):
    assert scenario_of("perlmutter")[0] == load_scenario("perlmutter")
    assert scenario_of(str(small))[0].name == "small"
    site = site_file(tmp_path, "twin", 'scenario = "small.toml"')
    assert scenario_of(str(site))[0].name == "small"


def test_a_real_site_is_refused_with_a_way_on(tmp_path):
    site = site_file(tmp_path, "local", "")
    with raises(UsageError, "not-a-twin") as caught:
        scenario_of(str(site))
    assert "twin show template" in (caught.value.hint or "")


@pytest.mark.system
@pytest.mark.parametrize("name", ["nowhere.toml", "/no/such/site", "no-such-preset"])
def test_nothing_of_that_name(name):
    with pytest.raises(UsageError):
        scenario_of(name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"until_s": 3 * 86400.0}, "--until"),
        ({"seeds": 0}, "--seeds"),
        ({"vary": ("trim",)}, "--vary"),
        ({"vary": ("trim=never,nightly",), "most": 1}, "2 combinations"),
        ({"classes": 0}, "resolution.classes"),
    ],
)
def test_refusals_come_before_anything_runs(small, changed, message):
    def never(scenario, until_s):
        raise AssertionError

    with pytest.raises(UsageError, match=message):
        what_if(replace(WhatIf(str(small)), **changed), model=never)


@pytest.mark.system
def test_the_same_with_any_number_of_workers(small):
    asked = WhatIf(str(small), ("trim=never,nightly",), seeds=2, until_s=2 * 86400.0, workers=1)
    alone, together = (what_if(replace(asked, workers=n))[1] for n in (1, 3))
    assert alone == together
    assert alone.rows[0].figure("write_amplification").n == 2


@pytest.mark.cli
def test_the_command_prints_and_takes_up_what_was_done(small, tmp_path):
    kept = tmp_path / "kept.jsonl"
    arguments = ("whatif", small, "--vary", "trim=never,nightly", "--until", "0.01mo",
                 "--seeds", 2, "--workers", 1, "--results", kept)  # fmt: skip
    first = trimtab(*arguments, store=tmp_path / "t.db")
    assert first.code == 0, first.stderr
    assert "trim never" in first.stdout
    assert "simulation" in first.stdout
    assert "taken up" not in first.stdout
    table = tmp_path / "runs.parquet"
    again = trimtab(*arguments, "--json", "--runs", table, store=tmp_path / "t.db")
    assert again.code == 0, again.stderr
    assert again.document["until_s"] == pytest.approx(0.01 * 365.25 / 12 * 86400)
    assert len(kept.read_text().splitlines()) == 4
    combination = again.document["combinations"][1]
    assert combination["settings"] == {"trim": "nightly"}
    figures = {one["name"]: one for one in combination["figures"]}
    assert figures["fullness"]["n"] == 2
    assert figures["fullness"]["difference"] is not None
    check_runs(pl.read_parquet(table), again.document["combinations"], seeds=2)
    missing = trimtab(*arguments, "--runs", tmp_path / "no" / "x", store=tmp_path / "t.db")
    assert missing.code == 2
    assert "does not exist" in missing.stderr


def check_runs(runs: pl.DataFrame, combinations: list[dict], *, seeds: int) -> None:
    """Check that a table of runs comes to the combinations of the document, to the last bit."""
    kinds = [kind.name for kind in KINDS]
    assert runs.columns == ["combination", "setting.trim", "seed", "until_s", *kinds]
    assert set(runs.select(kinds).dtypes) == {pl.Float64}
    assert runs.height == seeds * len(combinations)
    for number, combination in enumerate(combinations):
        rows = runs.filter(pl.col("combination") == number)
        assert rows["setting.trim"].unique().to_list() == [combination["settings"]["trim"]]
        assert rows["seed"].is_sorted()
        assert rows["seed"].n_unique() == seeds
        for figure in combination["figures"]:
            values = rows[figure["name"]].drop_nulls().to_list()
            assert len(values) == figure["n"]
            assert (median(values) if values else None) == figure["median"]
            assert (fmean(values) if values else None) == figure["mean"]
    assert runs["fullness"].n_unique() > 1


@pytest.mark.cli
def test_refusals_of_the_command(small, tmp_path):
    store = tmp_path / "t.db"
    wrong = trimtab("whatif", small, "--vary", "trimm=never", store=store)
    assert wrong.code == 2
    assert "did you mean" in wrong.stderr
    assert trimtab("whatif", small, "--again", "--results", "x", store=store).code == 2


def test_no_setting_of_integrity_is_ever_recommended(small, capsys):
    asked = WhatIf(str(small), ("clients.checksums=on,off",), until_s=7200.0, workers=1)
    scenario, swept = what_if(asked)
    print_document(whatif_document(scenario.name, swept))
    text = capsys.readouterr().out
    assert "never recommended off" in text
    assert "recommended:" not in text


def test_the_cache_is_the_users():
    assert default_results({"XDG_CACHE_HOME": "relative"}).parts[-3:] == (
        ".cache", "trimtab", "whatif.jsonl",
    )  # fmt: skip


NOWHERE = "/proc/none"
"""No directory can be made there, not by root either."""


@pytest.mark.parametrize("home", [NOWHERE, "/dev/null"])
def test_without_a_writable_home_figures_are_not_kept_and_that_is_said(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    file, note = results_file(None)
    assert file is None
    assert "cannot be kept" in present(note)
    assert "--results FILE" in present(note)


def test_a_named_place_that_cannot_be_written_is_an_error_before_anything_is_simulated():
    with pytest.raises(UnreadableError) as refused:
        results_file(f"{NOWHERE}/figures.jsonl")
    assert "--results" in (refused.value.hint or "")


@pytest.mark.cli
def test_the_command_works_without_a_writable_home(small, tmp_path):
    words = ("whatif", small, "--until", "2h", "--seeds", 1, "--workers", 1, "--brief")
    ended = trimtab(*words, store=tmp_path / "t.db", HOME=NOWHERE, XDG_CACHE_HOME="")
    assert ended.code == 0, ended.stderr
    assert "note: the figures of runs cannot be kept" in ended.stderr
    assert "Traceback" not in ended.stderr


# Axes


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
    st.decimals(0, 100, places=2), st.decimals(Decimal("0.01"), 10, places=2), st.integers(0, 40)
)
def test_ranges_hold_both_ends_and_every_step_exactly(first, step, count):
    last = first + step * count
    values = parse_axis(f"x={first}:{last}:{step}").values
    slow, at = [], first
    while at <= last:
        slow.append(at)
        at += step
    assert [Decimal(one) for one in values] == slow


EXAMPLES = {
    "trim": "weekly", "discard": "on", "fullness": "0.8", "start-fullness": "0.5",
    "thresholds": "10/10/5", "reset": "15min", "family": "el9", "purge": "0.6",
    "gating": "80%", "drive": "pm1733-3dwpd", "spare": "0.2", "placement": "weighted",
    "wbt": "off", "writes": "2PB",
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_every_word_sets_keys_that_there_are(name):
    example = EXAMPLES[name]
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
    assert (discard.discard, discard.every_s) == (True, None)
    allocator = only("thresholds", "25/20/5").allocator
    assert (allocator.c1, allocator.c2, allocator.c3) == (0.25, 0.20, 0.05)
    gating = only("gating", "80%").gating
    assert (gating.enabled, gating.limit, gating.reopen) == (True, 0.8, pytest.approx(0.75))
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
    assert (found.scenario, found.title) == (PERLMUTTER, "as it is")


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
    with raises(UsageError, code) as caught:
        combinations(PERLMUTTER, axes)
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
    for name, text in EXAMPLES.items():
        assert all(f"`{key}`" in rows[name] for key in settings_of(name, text))
