"""From the name of a scenario or site to a sweep, and the command that prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import polars as pl
import pytest
from tests.support.command import trimtab

from trimtab.base.error import UnreadableError, UsageError
from trimtab.show.screen_document import print_document
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.page_whatif import whatif_document
from trimtab.twin.whatif.variation import scenario_of
from trimtab.twin.whatif.whatif import WhatIf, what_if
from trimtab.twin.whatif.whatif_figure import KINDS, default_results, results_file

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
    with pytest.raises(UsageError) as caught:
        scenario_of(str(site))
    assert caught.value.code == "not-a-twin"
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
    assert note is not None
    assert "cannot be kept" in note
    assert "--results FILE" in note


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


def test_kept_lines_are_json(small, tmp_path):
    kept = tmp_path / "kept.jsonl"
    what_if(WhatIf(str(small), until_s=7200.0, workers=1, results=kept))
    (line,) = kept.read_text().splitlines()
    assert set(json.loads(line)) == {"key", "figures"}
