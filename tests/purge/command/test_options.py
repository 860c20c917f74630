"""Help, docs and wrong use of every step of a purge."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.support.narrow import instance

from trimtab.base.error import TrimtabError, UsageError
from trimtab.purge.command import COMMANDS, purge_command
from trimtab.show.command_group import loaded

DOCS = Path(__file__).resolve().parents[3] / "docs"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(purge_command, [*map(str, arguments)])


def failed(*arguments: object) -> TrimtabError:
    """Return the error by which a command ends."""
    return instance(TrimtabError, invoke(*arguments).exception)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_step_has_help_and_is_documented(name):
    step: click.Command = loaded(COMMANDS[name][0])
    assert step.name == name
    assert step.help
    for option in step.params:
        assert option.param_type_name == "argument" or option.help, f"{name} {option.name}"  # type: ignore[attr-defined]
    shown = invoke(name, "--help")
    assert (shown.exit_code, "--json" in shown.output) == (0, True)
    pages = "\n".join(page.read_text() for page in DOCS.glob("purge*.md"))
    assert f"trimtab purge {name} " in pages


def test_the_group_lists_its_steps_in_the_order_of_a_purge():
    shown = invoke("--help").output.partition("Commands:")[2]
    places = [shown.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert invoke("horizont").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan",),
        ("scan", "/", "--index", "x", "--with", "everything"),
        ("scan", "/", "--index", "x", "--threads", "257"),
        ("horizon", "--index", "x"),
        ("horizon", "--index", "x", "--target", "170%"),
        ("horizon", "--index", "x", "--target", "70%", "--target-ost", "75%"),
        ("horizon", "--index", "x", "--target", "70%", "--target-pool", "flash=75%"),
        ("horizon", "--index", "x", "--target-ost", "70%", "--target-pool", "flash=75%"),
        ("horizon", "--index", "x", "--target-pool", "flash"),
        ("horizon", "--index", "x", "--target-pool", "=75%"),
        ("horizon", "--index", "x", "--target-pool", "flash=much"),
        ("horizon", "--index", "x", "--target-pool", "flash=1.5"),
        ("horizon", "--index", "x", "--target-pool", "a=75%", "--target-pool", "a=80%"),
        ("horizon", "--index", "x", "--target", "70%", "--used", "1GB"),
        ("horizon", "--index", "x", "--target", "70%", "--forecast", "0"),
        ("query", "--index", "x"),
        ("query", "--index", "x", "--by", "colour"),
        ("query", "--index", "x", "--by", "user", "SELECT 1"),
        ("query", "--index", "x", "--by", "user", "--top", "0"),
        ("evasion",),
        ("evasion", "--index", "x", "--files", "0"),
        ("policy",),
        ("policy", "x", "--target", "70%"),
        ("policy", "--root", "/scratch", "--target", "70%", "--target-ost", "75%"),
        ("policy", "--root", "/scratch", "--target", "70%", "--target-pool", "flash=75%"),
        ("policy", "--root", "/scratch", "--target-pool", "no/pool=75%"),
        ("policy", "x", "--target-pool", "flash=75%"),
        ("report", "--since", "yesterday"),
        ("report", "--timezone", "Middle/Earth"),
        ("run", "x", "--within", "soon"),
        ("import", "x", "--index", "y", "--root", "/z", "--format", "guess"),
        ("replay", "--index", "x"),
    ],
    ids=" ".join,
)
def test_wrong_use(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = invoke(*arguments)
    if isinstance(ended.exception, TrimtabError):
        assert ended.exception.exit_code == 2
        assert ended.exception.message
    else:
        assert ended.exit_code == 2, ended.output
    assert list(tmp_path.iterdir()) == []


def test_a_relative_root_of_a_policy_is_seen_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert f'root = "{tmp_path}/scratch"' in invoke("policy", "--root", "scratch").output
    assert f'root = "{tmp_path}"' in invoke("policy", "--root", ".", "--name", "x").output


def test_a_policy_is_written_once_and_checked(tmp_path):
    file = tmp_path / "policy.toml"
    assert invoke("policy", "--root", "/my/Scratch 2", file).exit_code == 0
    assert 'name = "scratch-2"' in file.read_text()
    assert "is good" in invoke("policy", file).output
    assert failed("policy", "--root", "/scratch", file).exit_code == 2
    printed = invoke("policy", "--root", "/scratch", "--target-ost", "75%").output
    assert 'target_ost = "75%"' in printed
    pools = ("--target-pool", "flash=75%", "--target-pool", "disk=0.9")
    printed = invoke("policy", "--root", "/scratch", *pools).output
    assert 'target_pool = { disk = "90%", flash = "75%" }' in printed
    assert '# target = "70%"' in printed
    file.write_text(file.read_text().replace("[age]", "[aeg]"))
    assert "aeg" in failed("policy", file).message


def test_a_place_without_a_key_is_answered(tmp_path):
    for step in ("run", "arm", "notify"):
        error = failed(step, tmp_path / "plan", "--place", tmp_path / "place")
        assert error.exit_code in (4, 5)


def test_a_report_of_nothing(tmp_path):
    ended = invoke("report", "--place", tmp_path / "place")
    assert (ended.exit_code, "No purge runs" in ended.output) == (0, True)


@pytest.mark.parametrize(
    ("asked", "used"),
    [((), "tcp://scheduler:8786"), (("--dask", "local:2"), "local:2"), (("--dask", "none"), None)],
)
@pytest.mark.parametrize("step", ["horizon", "plan"])
def test_the_workers_of_a_site_read_its_index(step, asked, used, tmp_path, monkeypatch):
    """The command line comes first."""
    site, policy = tmp_path / "s.toml", tmp_path / "p.toml"
    site.write_text(
        f'[site]\nname = "s"\ndriver = "local"\npath = "{tmp_path}"\n'
        '[dask]\nscheduler = "tcp://scheduler:8786"\n'
    )
    policy.write_text(f'[policy]\nname = "p"\nroot = "{tmp_path}"\ntarget = 0.7\n')
    asked_for = []

    def caught(question, *_, **__):
        asked_for.append(question)
        raise UsageError("enough", code="enough")

    monkeypatch.setattr("trimtab.purge.horizon.horizon_question.ask_horizon", caught)
    monkeypatch.setattr("trimtab.purge.plan.plan_making.make_plan", caught)
    words = [step, "--index", "x", "--site", site, "--policy", policy, *asked]
    result = invoke(*words, *(["--out", tmp_path / "plan"] if step == "plan" else []))
    assert getattr(result.exception, "code", None) == "enough"
    assert asked_for[0].dask == used


def test_none_means_no_workers_where_no_site_is_named(monkeypatch):
    asked_for = []

    def caught(*_, dask, **__):
        asked_for.append(dask)
        raise UsageError("enough", code="enough")

    monkeypatch.setattr("trimtab.purge.index.dask_pieces.holdings", caught)
    for value in ("none", "local"):
        invoke("query", "--index", "x", "--by", "user", "--dask", value)
    assert asked_for == [None, "local"]
