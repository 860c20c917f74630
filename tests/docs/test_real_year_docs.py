"""The page about a year of two systems: what the data give, and the arithmetic behind it."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
from tests.formats.recorded import REAL_DATA

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "benchmarks" / "reports" / "a-year-of-two-systems.md"
SCRIPT = ROOT / "scripts" / "real_year.py"
START = datetime(2017, 2, 14, tzinfo=UTC)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of the script that asks the year its own questions."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import real_year_data  # type: ignore[import-not-found]

    return real_year_data


@pytest.mark.system
@pytest.mark.timeout(1200)
def test_page_and_charts_are_what_the_data_give() -> None:
    if not (REAL_DATA / "tokio-abc").is_dir():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    made = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False)
    assert made.returncode == 0, "run scripts/real_year.py, and read the page again"


def test_every_block_is_filled() -> None:
    blocks = re.findall(
        r"<!-- year ([a-z0-9-]+) -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL
    )
    assert len(blocks) >= 9
    for name, text in blocks:
        assert text.startswith("| "), name
        assert text.count("\n") >= 3, name


def test_every_chart_is_there_small_and_drawn() -> None:
    images = re.findall(r"\]\(([./]*docs/images/[\w.-]+)\)", PAGE.read_text())
    assert len(images) == 6
    for image in images:
        path = PAGE.parent / image
        assert path.stat().st_size < 100_000, image
        root = ET.fromstring(path.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter())) > 50, image


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!https)([\w./-]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target


def series(data: ModuleType, rows: list[tuple[float, float]]) -> object:
    """Return what `rank` needs of a series: runs a day apart."""
    runs = tuple(
        data.YearRun(START + timedelta(days=day), value, 60.0, {"x": x})
        for day, (value, x) in enumerate(rows)
    )
    return type("Series", (), {"runs": runs})()


def test_two_things_that_drift_alike_are_no_relation_within_a_month(data: ModuleType) -> None:
    chance = random.Random(1)
    rows = [
        (100 - day / 6 + chance.gauss(0, 3), day / 6 + chance.gauss(0, 3)) for day in range(300)
    ]
    found = data.rank(series(data, rows), lambda run: run.telemetry["x"])
    assert found.raw < -0.9
    assert found.raw_interval.high < -0.8
    assert found.alone_interval.low < 0 < found.alone_interval.high


def test_a_relation_within_a_month_is_found(data: ModuleType) -> None:
    chance = random.Random(2)
    steps = [chance.gauss(0, 1) for _ in range(300)]
    rows = [(100 - 2 * x + chance.gauss(0, 2), x) for x in steps]
    found = data.rank(series(data, rows), lambda run: run.telemetry["x"])
    assert -0.85 < found.alone < -0.5
    assert found.alone_interval.high < -0.3


def test_too_few_or_constant_figures_have_no_rank(data: ModuleType) -> None:
    few = series(data, [(1.0 + day, float(day)) for day in range(50)])
    same = series(data, [(1.0 + day, 5.0) for day in range(300)])
    assert data.rank(few, lambda run: run.telemetry["x"]) is None
    assert data.rank(same, lambda run: run.telemetry["x"]) is None


def test_a_control_takes_out_what_happened_to_all(data: ModuleType) -> None:
    chance = random.Random(3)

    def side(level: float) -> list[float]:
        return [level * chance.gauss(1, 0.03) for _ in range(40)]

    own = data.ratio(side(0.8 * 0.9), side(1.0))
    apart = data.against(own, data.ratio(side(0.9), side(1.0)))
    assert apart.value == pytest.approx(0.8, rel=0.03)
    assert apart.interval.low < 0.8 < apart.interval.high
    wider = apart.interval.high / apart.interval.low
    assert wider > own.interval.high / own.interval.low


def test_the_best_tenth_sees_through_load_of_others(data: ModuleType) -> None:
    chance = random.Random(4)

    def side(level: float) -> list[float]:
        return [level * (1 - abs(chance.gauss(0, 0.3)) * chance.random()) for _ in range(60)]

    found = data.ratio_of_quantiles(side(0.85), side(1.0), 0.9)
    assert found.value == pytest.approx(0.85, abs=0.03)
    assert found.interval.high < 1
