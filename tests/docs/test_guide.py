"""The manual: its commands are understood, its links lead somewhere, what it names exists."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import click
import pytest
from scripts import maturity_page, page_blocks
from scripts.reference_pages import pages
from tests.formats.recorded import REAL_DATA
from tests.support.command import trimtab as run_trimtab
from tests.support.counts import all_in_soak
from tests.support.each import for_each
from tests.support.next_steps import read

from trimtab.base.incident import Shape
from trimtab.explain.dip import A_MONTH

ROOT = Path(__file__).resolve().parents[2]
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


def test_pages_walk_through_the_commands_that_they_are_about() -> None:
    compare, hints, install = (
        typed((ROOT / f"docs/{name}.md").read_text()) for name in ("compare", "hints", "install")
    )
    assert len(compare) + len(hints) >= 10
    assert {words[0] for words in install} >= {"init", "site", "targets", "snapshot", "watch"}


@pytest.mark.cli
def test_the_quick_start_without_a_file_system_runs(tmp_path: Path) -> None:
    for file in (ROOT / "docs/examples").iterdir():
        shutil.copy(file, tmp_path)
    page = (ROOT / "docs/quick-start.md").read_text()
    commands = typed(page.partition("## Without a file system")[2].partition("\n## ")[0])
    assert len(commands) == 8
    (tmp_path / "scratch").mkdir()
    files = ("reads.csv", "reads.html", "perlmutter.toml")
    names = {".": "scratch", **dict(zip(files, files, strict=True))}
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


def _missing(line: str) -> list[str]:
    """Return the files of a line that do not exist, alone or beside another of the line."""
    names = re.findall(r"`([\w./-]+)`", line)
    folders = ["", *names, *(str(Path(name).parent) for name in names)]
    places = [top / folder for top in (ROOT, ROOT / "src/trimtab") for folder in folders]
    files = [name for name in names if Path(name).suffix in {".py", ".rs"} or name.endswith("/")]
    return [name for name in files if not any((place / name).exists() for place in places)]


@for_each("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    lines = (ROOT / page).read_text().splitlines()
    assert not [
        f"{page}:{number}: {name}"
        for number, line in enumerate(lines, 1)
        for name in _missing(line)
    ]


SECURITY = (ROOT / "docs/security.md").read_text()


def test_each_test_that_the_page_on_security_names_is_there() -> None:
    named = set(re.findall(r"`([a-z]\w+_\w+_\w+_\w+)`", SECURITY))
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    texts += [path.read_text() for path in (ROOT / "crates").rglob("*.rs")]
    defined = (re.findall(r"^\s*(?:def|fn) (\w+)\(", text, re.M) for text in texts)
    assert len(named) > 30
    assert named - {name for names in defined for name in names} == set()


def test_each_threat_has_a_test() -> None:
    rows = [line.split("|") for line in SECURITY.splitlines() if line.startswith("| ")]
    threats = [row for row in rows if len(row) == 5 and row[1].strip() not in {"threat", "who"}]
    first = next(number for number, row in enumerate(threats) if "exchanged" in row[1])
    assert len(threats) > 30
    assert [row[1] for row in threats[first:] if "`" not in row[3]] == []


SOURCES = ROOT / "docs/sources.md"
PLACES = (
    ("src", ".py", ".toml", ".csv", ".j2"), ("crates", ".rs"), ("tests", ".py"), ("scripts", ".py"),
    ("benchmarks", ".py", ".md"), ("deploy", ".py", ".toml"), ("docs", ".md", ".toml"),
)  # fmt: skip


def test_every_citation_is_listed_in_order_and_every_source_is_cited() -> None:
    files = ((path, ends) for top, *ends in PLACES for path in (ROOT / top).rglob("*"))
    listed = re.findall(r"^\| (S[0-9]+) \|", SOURCES.read_text(), re.M)
    assert listed == [f"S{number}" for number in range(1, len(listed) + 1)]
    cited = {
        number: path
        for path, ends in files
        if path.suffix in ends and path not in {SOURCES, Path(__file__).resolve()}
        for number in re.findall(r"\bS[1-9][0-9]?\b", path.read_text())
    }
    assert {number: path for number, path in cited.items() if number not in listed} == {}
    assert sorted(set(listed) - cited.keys()) == []


BLOCKS_OF_A_PAGE = "text\n<!-- a -->\nold\nold\n<!-- end -->\n\n<!-- of b -->\n<!-- end -->\nmore\n"


def test_blocks_are_made_anew_and_the_rest_stays() -> None:
    made = page_blocks.remade(
        BLOCKS_OF_A_PAGE, {"of b": page_blocks.text_of(("1", "2")), "a": r"\1 new" "\n"}
    )
    assert made == (
        "text\n<!-- a -->\n\\1 new\n<!-- end -->\n\n<!-- of b -->\n1\n2\n<!-- end -->\nmore\n"
    )
    assert page_blocks.names_of(made) == ["a", "of b"]


@pytest.mark.parametrize(
    ("page", "names", "said"),
    [
        (BLOCKS_OF_A_PAGE, ("a",), "nothing is made for the block of b"),
        (BLOCKS_OF_A_PAGE, ("a", "of b", "c"), "the page has 0 blocks of c"),
        (BLOCKS_OF_A_PAGE + BLOCKS_OF_A_PAGE, ("a", "of b"), "the page has 2 blocks of a"),
        (
            BLOCKS_OF_A_PAGE.replace("old\n<!-- end -->", ""),
            ("a", "of b"),
            "the page has 0 blocks of of b",
        ),
    ],
    ids=["unknown", "missing", "doubled", "open"],
)
def test_a_block_that_is_not_there_once_is_told(
    page: str, names: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match=re.escape(said)):
        page_blocks.remade(page, dict.fromkeys(names, "new\n"))


def test_files_are_compared_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page_blocks, "ROOT", tmp_path)
    same, other, missing = (tmp_path / name for name in ("same.md", "other.md", "missing.md"))
    same.write_text("text\n")
    other.write_text("old\n")
    made = {same: "text\n", other: "text\n", missing: "text\n"}
    assert page_blocks.write_or_check(made, ["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "other.md",
        "missing.md",
    ]
    assert other.read_text() == "old\n"
    assert page_blocks.write_or_check(made, []) == 0
    assert page_blocks.write_or_check(made, ["--check"]) == 0


BLOCKS = re.findall(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    (ROOT / "docs/library.md").read_text(), re.M | re.S,
)  # fmt: skip


@pytest.mark.system
def test_each_block_of_the_library_prints_what_the_page_says() -> None:
    """In one namespace, as in a notebook; the logged change is the likeliest cause."""
    names: dict[str, Any] = {"__name__": "notebook"}
    printed = []
    for code, _ in BLOCKS:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "docs/library.md", "exec"), names)
        printed.append(out.getvalue())
    assert len(BLOCKS) >= 9
    shown = [(text, out) for (_, text), out in zip(BLOCKS, printed, strict=True) if text]
    assert len(shown) >= 7
    assert [out for _, out in shown] == [text for text, _ in shown]
    assert names["explanation"].causes[0].cause == "configuration-change"
    assert "checksums" in printed[-1]


QUICK_PAGES = (
    *("ladder_page", "scenario_page", "twin_questions_page", "act_effects_page"),
    "purge_case_page",
)
"""The page about a year of others judges and draws all of it; its blocks and charts are looked at
in the gate too (`tests/docs/test_worked_examples.py`)."""


@pytest.mark.system
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", all_in_soak((*QUICK_PAGES, "real_year"), gate=QUICK_PAGES))
def test_a_page_is_what_its_script_makes_of_the_data(name: str) -> None:
    if name == "real_year" and not (REAL_DATA / "tokio-abc").is_dir():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    made = subprocess.run([sys.executable, ROOT / f"scripts/{name}.py", "--check"], check=False)
    assert made.returncode == 0, f"run scripts/{name}.py, and read the page again"


def test_the_page_on_maturity_is_what_the_table_gives() -> None:
    assert maturity_page.main(["--check"]) == 0, "run scripts/maturity_page.py"
