"""The pages about the ladder: computed from the data, and the data those of the sources."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.each import for_each

from trimtab.judge.efficiency_ladder import Ladder, LimitKind, Match, Track
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.probe.ladder import of_file
from trimtab.probe.ladder_file import load_ladder

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = [ROOT / "docs" / name for name in ("ladder.md", "bring-up.md")]


def example(name: str) -> Ladder:
    return build_ladder(of_file(load_ladder(EXAMPLES / f"{name}.toml")))


def track(name: str, metric: str) -> Track:
    return next(one for one in example(name).tracks if one.metric == metric)


@pytest.mark.system
def test_the_page_is_what_the_data_give() -> None:
    script = ROOT / "scripts" / "ladder_page.py"
    made = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert made.returncode == 0, "run scripts/ladder_page.py"


@pytest.mark.parametrize(
    ("name", "metric", "kind", "layer"),
    [
        ("perlmutter", "read_bandwidth", LimitKind.DRIVES, "drive"),
        ("perlmutter", "write_bandwidth", LimitKind.CANNOT_TELL, None),
        ("e2000", "write_bandwidth", LimitKind.DRIVES, "data_sheet"),
        ("e2000", "read_bandwidth", LimitKind.NETWORK, "network"),
        ("e2000-2-osts", "read_bandwidth", LimitKind.DRIVES, "data_sheet"),
        ("e2000-4-osts-16-drives", "write_bandwidth", LimitKind.DRIVES, "data_sheet"),
    ],
)
def test_what_limits(name: str, metric: str, kind: LimitKind, layer: str | None) -> None:
    limit = track(name, metric).limit
    assert (limit.kind, limit.layer) == (kind, layer), limit.reason


def test_the_efficiencies_of_the_slide_by_hand() -> None:
    steps = {step.rung.layer: step for step in track("perlmutter", "write_bandwidth").steps}
    client = {one.of: one.value for one in steps["client"].beneath}
    assert client == {"ost": pytest.approx(27 / 31), "network": pytest.approx(27 / 42)}
    assert steps["ost"].beneath[0].value == pytest.approx(31 * 10 / 8 / 38)
    assert steps["network"].beneath[0].value == pytest.approx(42 / 50)
    assert steps["client"].of_data_sheet is not None
    assert steps["client"].of_data_sheet.value == pytest.approx(27 * 10 / 8 / (12 * 3.2))


def test_the_efficiencies_of_table_3_by_hand() -> None:
    steps = {step.rung.layer: step for step in track("e2000", "write_bandwidth").steps}
    written = 149471 * 1024**2 * 10 / 8
    assert steps["ost"].beneath[0].value == pytest.approx(written / (32 * 6000e6))
    reads = {step.rung.layer: step for step in track("e2000", "read_bandwidth").steps}
    assert reads["ost"].beneath[0].value == pytest.approx(328355 * 1024**2 / (32 * 14000e6))
    network = next(one for one in reads["client"].beneath if one.of == "network")
    assert network.value == pytest.approx(200e9 / (2 * 99033e6))


GIVEN, NOT_GIVEN, NO_INPUTS = Match.GIVEN, Match.NOT_GIVEN, Match.NO_INPUTS


@for_each(
    "name, printed, matches",
    [
        ("perlmutter", "92.6 %", [GIVEN, NOT_GIVEN]),
        ("perlmutter", "99.9 %", [GIVEN, GIVEN]),
        ("perlmutter", "3.0 GB/s", [NOT_GIVEN]),
        ("perlmutter", "3.5 GB/s", [GIVEN]),
        ("perlmutter", "84.8 %", [GIVEN]),
        ("perlmutter", "97.0 %", [GIVEN]),
        ("perlmutter", "88.4 %", [GIVEN]),
        ("perlmutter", "97.2 %", [GIVEN]),
        ("perlmutter", "5.33 %", [NOT_GIVEN, Match.ASSUMED]),
        ("perlmutter", "15.1 %", [Match.GIVEN_IF_ROUNDED]),
        ("e2000-2-osts", "5815 MiB/s", [GIVEN]),
        ("e2000-2-osts", "6971 MiB/s", [NOT_GIVEN]),
        ("e2000-4-osts-16-drives", "5864 MiB/s", [GIVEN]),
        ("e2000-4-osts-16-drives", "7004 MiB/s", [GIVEN]),
        ("e2000", "5839 MiB/s", [GIVEN]),
        ("e2000", "10261 MiB/s", [GIVEN]),
        ("e2000", "75 %", [Match.GIVEN_IF_ROUNDED]),
        ("e2000", "150 GB/s", [GIVEN]),
        ("e2000", "15 %", [NO_INPUTS]),
        ("e2000", "29 %", [NO_INPUTS]),
        ("e2000", "130 %", [NO_INPUTS]),
    ],
)
def test_which_printed_values_follow(name: str, printed: str, matches: list[Match]) -> None:
    claims = [one for one in example(name).claims if one.claim.printed.text == printed]
    assert [one.match for one in claims] == matches


def test_a_value_that_is_not_given_says_what_the_inputs_give() -> None:
    (found,) = (
        one for one in example("e2000-2-osts").claims if one.claim.printed.text == "6971 MiB/s"
    )
    assert found.value == pytest.approx(222759 / 32 * 1024**2)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page.read_text()):
        if target.startswith("benchmarks/") or target in ELSEWHERE:
            continue  # pages of other parts, checked where the site is built
        assert (page.parent / target).exists(), target


ELSEWHERE = {"survey.md", "sweep.md", "slurm.md", "hints.md", "import.md"}
