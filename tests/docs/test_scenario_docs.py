"""The page on scenarios: its tables are the schema's, and what it shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.twin.scenario_file import parse_scenario
from trimtab.twin.scenario_key import known_keys

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.system
def test_the_page_is_what_the_schema_gives() -> None:
    script = ROOT / "scripts" / "scenario_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/scenario_page.py"


def test_every_key_stands_in_a_table() -> None:
    said = set()
    for section in PAGE.split("<!-- made: ")[1:]:
        name, _, rest = section.partition(" -->")
        keys = re.findall(r"^\| `([a-z_0-9]+)` \|", rest.partition("<!-- end -->")[0], re.MULTILINE)
        said |= {f"{name}.{key}" for key in keys}
    assert set(known_keys()) - said == set()


def test_the_example_is_a_scenario() -> None:
    (example,) = blocks("toml")
    scenario = parse_scenario(example, "mine.toml")
    assert scenario.osts.count == 40
    assert (scenario.osts.drive.name, scenario.osts.drive.capacity_bytes) == ("ours", 7.68e12)
    assert scenario.osts.drive.write_bytes_per_s == 6e9
    assert [probe.name for probe in scenario.probes] == ["hourly", "survey"]
    assert scenario.probes[0].bytes_written == 20e12
    assert (len(scenario.changes), len(scenario.faults)) == (1, 1)


def test_the_library_s_example_does_what_it_says() -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)  # the page's own text
    written = parse_scenario(str(names["text"]), "perlmutter")
    assert written == names["never"]
    assert all("trim.every" not in change.set for change in written.changes)
