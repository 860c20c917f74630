"""The pages on the twin: their tables are what was measured, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
from tests.twin.test_allocator import Site

from trimtab.cli import COMMANDS
from trimtab.twin.amplification import effective_spare, greedy
from trimtab.twin.command import twin_command as twin
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.twin_run import TwinRequest, run_twin

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TWIN = (DOCS / "twin.md").read_text()
COLUMNS = [(0.25, 0.15, 0.05), (0.25, 0.25, 0.05), (0.10, 0.10, 0.05), None]


@pytest.mark.system
@pytest.mark.parametrize("name", ["twin_questions_page.py", "act_effects_page.py"])
def test_tables_are_what_was_measured(name: str) -> None:
    script = ROOT / "scripts" / name
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, f"run scripts/{name}"


@pytest.mark.system
@pytest.mark.parametrize("column", range(len(COLUMNS)))
def test_the_allocator_s_table_is_what_it_counts(column: int) -> None:
    page = (DOCS / "twin-model.md").read_text()
    (table,) = re.findall(r"\| full \| 25/15/5, the defaults.*?\n\n", page, re.DOTALL)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")[2:-2]]
    sites = [Site(COLUMNS[column], seed) for seed in (1, 2, 3)]
    for full, *cells in rows:
        counted = [site.useless(float(full.removesuffix(" %")) / 100) for site in sites]
        assert fmean(sum(one) for one in counted) == pytest.approx(float(cells[column]), abs=0.05)
        assert sum(one[place] for one in counted for place in (0, 2, 3)) == 0


def test_every_command_that_the_page_shows_is_there() -> None:
    shown = set(re.findall(r"(?:\$ |`)trimtab ([a-z]+)", TWIN))
    assert {"twin", "whatif", "size", "watch"} <= shown <= set(COMMANDS)
    assert set(re.findall(r"twin (wa|list|show|run)\b", TWIN)) == set(twin.commands)


@pytest.mark.system
def test_the_files_that_the_page_names_are_those_that_a_run_leaves(tmp_path: Path) -> None:
    wanted = TwinRequest(load_scenario("template"), tmp_path / "template", until_s=3 * 3600.0)
    run_twin(wanted, progress=lambda *_: None)
    table = TWIN[TWIN.index("| in `template/` |") : TWIN.index("`--directory` selects")]
    first = [line.split("|")[1] for line in table.splitlines()[2:] if line]
    named = {name.rstrip("/") for cell in first for name in re.findall(r"`([^`]+)`", cell)}
    left = {path.name for path in (tmp_path / "template").iterdir()}
    assert named == {name for name in left if not name.endswith(("-wal", "-shm"))}


def test_the_formula_beside_the_example() -> None:
    said = re.search(r"formula +([0-9.]+), the simulation", TWIN)
    assert said is not None
    # What the closed form gives, apart from the reserve that the command corrects for.
    assert greedy(effective_spare(0.12, 0.75), 256) == pytest.approx(float(said[1]), rel=0.002)
