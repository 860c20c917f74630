"""``trimtab twin list`` and ``trimtab twin show``, as a person and as a program sees them."""

import json
from pathlib import Path

import pytest
from tests.support.command import trimtab
from tests.support.documents import misfits
from tests.twin.scenario.test_load import SMALL

from trimtab.twin.scenario_file import load_scenario, parse_scenario, preset_names, preset_text

pytestmark = pytest.mark.cli

ROOT = Path(__file__).parents[3]


def test_the_list_names_every_preset(tmp_path) -> None:
    ended = trimtab("twin", "list", "--json", store=tmp_path / "t.db")
    assert ended.code == 0, ended.stderr
    assert [one["name"] for one in ended.document["scenarios"]] == list(preset_names())
    assert misfits(ended.document, "twin-list") == []
    text = trimtab("twin", "list", store=tmp_path / "t.db").stdout
    assert all(name in text for name in preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_shown_in_words_and_as_a_document(name, tmp_path) -> None:
    scenario = load_scenario(name)
    text = trimtab("twin", "show", name, "--all", store=tmp_path / "t.db").stdout
    for word in ("Built of", "At the start", scenario.osts.drive.name, "Assumed"):
        assert word in text
    joined = " ".join(text.split())
    assert all(word in joined for why in scenario.assumptions.values() for word in why.split())
    ended = trimtab("twin", "show", name, "--json", store=tmp_path / "t.db")
    assert misfits(ended.document, "twin-show") == []
    settings = {one["key"]: one for one in ended.document["settings"]}
    assert settings["osts.count"]["value"] == scenario.osts.count
    assert settings["osts.drive.write"]["unit"] == "B/s"
    assert len(ended.document["changes"]) == len(scenario.changes)
    assert len(ended.document["faults"]) == len(scenario.faults)


def test_assumptions_stand_beside_what_they_are_of(tmp_path) -> None:
    ended = trimtab("twin", "show", "perlmutter", "--json", store=tmp_path / "t.db")
    settings = {one["key"]: one for one in ended.document["settings"]}
    assert "not printed" in settings["trim.every"]["assumed"]
    assert settings["osts.count"]["assumed"] is None
    assert ended.document["start"] == "2023-07-01T07:00:00Z"
    assert ended.document["capacity_at_end_bytes"] == 298 * 133e12


def test_its_file_can_be_copied(tmp_path) -> None:
    ended = trimtab("twin", "show", "template", "--toml", store=tmp_path / "t.db")
    assert ended.stdout == preset_text("template")
    own = tmp_path / "own.toml"
    own.write_text(ended.stdout.replace("count = 8 ", "count = 9 "))
    shown = trimtab("twin", "show", own, "--json", store=tmp_path / "t.db")
    assert shown.document["source"] == str(own)
    assert shown.document["capacity_bytes"] == pytest.approx(9 * 135.168e12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("perlmuter",), "did you mean 'perlmutter'?"),
        (("./none.toml",), "there is no file ./none.toml"),
        (("template", "--toml", "--json"), "exclude each other"),
        ((), "SCENARIO"),
    ],
)
def test_wrong_use(arguments, message, tmp_path) -> None:
    ended = trimtab("twin", "show", *arguments, store=tmp_path / "t.db")
    assert ended.code == 2
    assert message in ended.stderr + json.dumps(ended.stdout)
    assert "Traceback" not in ended.stderr


def test_a_file_that_is_wrong_names_the_line(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SMALL + "[trim]\nevry = '1d'\n")
    ended = trimtab("twin", "show", path, store=tmp_path / "t.db")
    assert ended.code == 2
    assert f"{path}:22: [trim] evry: there is no such key" in ended.stderr
    assert "did you mean 'every'?" in ended.stderr


def test_control_characters_of_a_title_reach_no_terminal(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SMALL.replace('"Small"', '"Small \\u202e[31m"'))
    assert parse_scenario(path.read_text(), "x").title == "Small \u202e[31m"
    ended = trimtab("twin", "show", path, store=tmp_path / "t.db")
    assert ended.code == 0
    assert "\u202e" not in ended.stdout
