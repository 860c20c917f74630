"""The guide: its commands are understood, quick start and notebooks run, its reference holds."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import click
import pytest
from scripts.reference_pages import pages
from tests.support.command import trimtab as run_trimtab
from tests.support.next_steps import read

from trimtab.base.incident import Shape
from trimtab.explain.incidents.dip import A_MONTH

ROOT = Path(__file__).parents[2]
MADE = ROOT / "docs/commands.md"
"""Made from the commands: usage lines, not words to type."""
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {MADE})
BLOCK = re.compile(r"^ *```[a-z]*\n(.*?)^ *```$", re.M | re.S)
TYPED = re.compile(r"^(?:\$ |root# )?(trimtab [a-z-].*)$", re.M)
SHELL = re.compile(r"[|><;&]")
"""Ends what trimtab is to understand of a line."""
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
LEFT_OUT = re.compile(r"\$\(|\.\.\.| …|--completion")
NOTEBOOKS = {
    "csv-file": "18 August 2026: x 0.82, confirmed",
    "site-record": "x 0.75",
    "slow-targets": "['OST0012']\na job over 8 OSTs loses 13% to its slowest",
}


def typed(text: str) -> list[list[str]]:
    """Return the words of every command of a page that is typed as it stands."""
    lines = []
    for block in BLOCK.findall(text):
        for line in TYPED.findall(block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            if not LEFT_OUT.search(" ".join(words)):
                end = next((n for n, word in enumerate(words) if SHELL.match(word)), None)
                lines.append(words[1:end])
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_understood(page: Path) -> None:
    for words in typed(page.read_text()):
        with contextlib.suppress(click.exceptions.Exit):  # of --version and --help
            read(words)


@pytest.mark.cli
def test_the_quick_start_without_a_file_system_runs(tmp_path: Path) -> None:
    for file in (ROOT / "docs/examples").iterdir():
        shutil.copy(file, tmp_path)
    page = (ROOT / "docs/quick-start.md").read_text()
    commands = typed(page.partition("## Without a file system")[2].partition("\n## ")[0])
    assert len(commands) == 8
    (tmp_path / "scratch").mkdir()
    names = {
        ".": "scratch",
        **{name: name for name in ("reads.csv", "reads.html", "perlmutter.toml")},
    }
    printed = []
    for words in commands:
        placed = [tmp_path / names[word] if word in names else word for word in words]
        ended = run_trimtab(*placed, store=tmp_path / "t.db")
        assert ended.code == 0, (words, ended.stderr)
        printed.append(ended.stdout)
    assert "-18 % since 2026-08-18" in printed[0]
    assert (tmp_path / "reads.html").exists()


@pytest.mark.system
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run(name: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(ROOT / f"docs/notebooks/{name}.py"))
    assert NOTEBOOKS[name] in printed.getvalue()


def test_the_reference_is_what_the_code_says() -> None:
    for path, text in pages().items():
        assert path.read_text() == text, f"run scripts/reference_pages.py: {path.name} differs"


def test_the_recipe_for_reframe_reads_the_document_of_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReFrame is not here: its decorators are."""
    reframe, utility = types.ModuleType("reframe"), types.ModuleType("reframe.utility.sanity")
    sanity = {"evaluate": lambda value: value, "assert_eq": lambda a, b: a == b}
    vars(utility).update(sanity)
    vars(reframe).update(simple_test=lambda test: test, RunOnlyRegressionTest=object)
    for name, module in (("reframe", reframe), ("reframe.utility.sanity", utility)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "reframe.utility", types.ModuleType("reframe.utility"))
    reframe.utility = sys.modules["reframe.utility"]  # type: ignore[attr-defined]
    reframe.utility.sanity = utility  # type: ignore[attr-defined]
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/peers.md").read_text(), re.M | re.S
    )
    names: dict[str, Any] = {
        "sanity_function": lambda method: method,
        "performance_function": lambda unit: lambda method: method,
    }
    exec(compile(code, "peers.md", "exec"), names)
    test = names["ScratchBandwidth"]()
    test.stagedir, test.stdout = str(tmp_path), "out"
    values = [{"metric": "write_bandwidth", "value": value} for value in (1e9, None, 2e9)]
    document = {"runs": [{"status": "ok", "samples": values}]}
    (tmp_path / "out").write_text(json.dumps(document))
    assert test.ran()
    assert test.write_bandwidth() == 2e9


def test_every_page_has_its_place() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (*PAGES, MADE):
        if page.is_relative_to(ROOT / "docs"):
            assert f": {page.relative_to(ROOT / 'docs')}\n" in navigation
    named = re.findall(r": (\S+\.md)$", navigation, re.M)
    assert [page for page in named if not (ROOT / "docs" / page).is_file()] == []
    assert len(named) <= 60, "a page more: is it a section of one that readers already look for?"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as MkDocs makes them."""
    titles = HEADING.findall(BLOCK.sub("", page.read_text()))
    words = (re.sub(r"[^\w\s-]", "", LINK.sub("", title)).strip().lower() for title in titles)
    return {re.sub(r"[\s-]+", "-", title) for title in words}


@pytest.mark.parametrize("page", [*PAGES, MADE], ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_page_and_to_a_section_of_it(page: Path) -> None:
    for target, section in LINK.findall(BLOCK.sub("", page.read_text())):
        led = page.parent / target if target else page
        assert led.exists(), target
        assert not section or led.suffix != ".md" or section in anchors(led), (target, section)


def test_the_readme_is_one_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 40
    assert sum(line.startswith("![") for line in lines) == 1


def test_pages_agree_on_the_shapes_of_incidents_and_how_often_chance_makes_one() -> None:
    incidents, explaining = (
        (ROOT / f"docs/{name}.md").read_text() for name in ("incidents", "explaining")
    )
    section = incidents.partition("## What an incident is")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", section, re.M) == list(Shape)
    assert "one of eight shapes" in explaining
    assert len(Shape) == 8
    for page in (incidents, explaining):
        assert f"{1 / A_MONTH:.0f} months" in page
        assert "fewer than 0.3 a month" in " ".join(page.split())


def test_reports_of_measurements_are_out_of_the_manual_and_their_links_lead_somewhere() -> None:
    reports = sorted((ROOT / "benchmarks/reports").glob("*.md"))
    assert len(reports) == 12
    for report in reports:
        assert not (ROOT / "docs" / report.name).exists()
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", report.read_text()):
            assert (report.parent / target).exists(), (report.name, target)


def test_the_readme_has_both_commands_and_what_must_be_there_first() -> None:
    readme = (ROOT / "README.md").read_text()
    for words in ("\nmake run", "\nmake test", "apt-get install", "dnf install", ".venv/bin"):
        assert words in readme, words
    assert "pip install 'trimtab" not in readme, "the name is on no public index"
    assert "docs/maturity.md" in readme
