"""Figures on pages are what code and data give."""

from __future__ import annotations

import json
import math
import random
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from benchmarks.purge_case import case, walk
from benchmarks.purge_case.places import planned_of
from click.testing import CliRunner
from tests.judge.frames import hour, series
from tests.support.each import for_each
from tests.support.narrow import present
from tests.twin.test_allocator import Site

from trimtab.cli import COMMANDS, trimtab
from trimtab.judge import lower_tail, straggler
from trimtab.judge.comparison import CompareTerms, compare_summaries
from trimtab.judge.effect_size import StripedProbe, busy_targets, probe_limit, survey_limit
from trimtab.judge.efficiency_ladder import Ladder, LimitKind, Match, Track
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.judge.lower_tail import expected_minimum
from trimtab.judge.series_analysis import HALF_OF_VARIANCE, dispersion
from trimtab.judge.spread import OCCASIONS_MINIMUM
from trimtab.probe.compare_side import published, published_file
from trimtab.probe.ladder import of_file
from trimtab.probe.question_file import load_ladder
from trimtab.twin.amplification import effective_spare, greedy
from trimtab.twin.command import twin_command as twin
from trimtab.twin.scenario_file import load_scenario, parse_scenario
from trimtab.twin.scenario_key import known_keys
from trimtab.twin.twin_run import TwinRequest, run_twin

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {
    name: re.sub(r"\\\n\s*", "", (DOCS / f"{name}.md").read_text())
    for name in ("compare", "hints", "judge", "scenarios", "twin")
}
YEAR = ROOT / "benchmarks/reports/a-year-of-two-systems.md"


@pytest.mark.parametrize("name", ["compare", "hints"])
def test_an_example_prints_what_the_page_shows(name: str) -> None:
    """Every line beneath a command of a block, apart from spaces."""
    found = re.findall(r"^\$ trimtab (.*?)\n((?:(?!```).*\n)+)```", PAGES[name], re.M)
    assert found
    for line, shown in found:
        ended = CliRunner().invoke(trimtab, shlex.split(line))
        assert ended.exit_code == 0, ended.output
        printed = {" ".join(one.split()) for one in ended.output.splitlines()}
        assert {" ".join(one.split()) for one in shown.splitlines()} <= printed


def test_the_figures_of_the_worked_example() -> None:
    sides = [published(text) for text in ("673320±31779/240 MB/s", "554012±37846/240 MB/s")]
    wide = compare_summaries(*sides, autocorrelation=0.5, terms=CompareTerms())
    interval = present(wide.ratio_interval)
    low, high = ((end - 1) * 100 for end in (interval.low, interval.high))
    factor = busy_targets(2048, 298) / busy_targets(2048, 274)
    for words in (f"{low:.1f} to\n{high:.1f} %", f"{factor:.3f}", f"{298 / 274:.3f}"):
        assert words in PAGES["compare"]


def test_the_file_of_published_results_is_read(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGES["compare"], re.DOTALL)
    path = tmp_path / "published.toml"
    path.write_text(block)
    (one,) = present(published_file(str(path)))
    assert (one.mean, one.n, one.window_s) == (673_320e6, 240, 240 * 3600.0)


def test_the_page_on_judging_has_the_figures_of_the_functions() -> None:
    step = dispersion(series([1.0] * 24 + [0.92] * 24), changes=[hour(24)])
    seeds = StripedProbe(
        bytes_moved=125e12, targets=274, bandwidth_bytes_per_s=673.32e9, cov=31_779 / 673_320
    )
    one, day = (probe_limit(seeds, runs=n).notices_below_bytes_per_s for n in (1, 24))
    assert one < day < 1.2 * one
    crawling = [0.0] * 2740 + [1.0] * (274_000 - 2740)
    page = " ".join(PAGES["judge"].split())
    for words in (
        f"is a COV of {100 * present(step.cov):.1f} %",
        f"below {one / 1e9:.1f} GB/s in one run",
        f"at 260 MB/s takes {125e12 / 274 / 260e6 / 60:.0f} minutes",
        f"({250e12 / 298 / 260e6 / 60:.0f} for all 250 TB written and read, on 298 OSTs)",
        f"sees a loss of {100 * survey_limit(17e9, 0.08).detectable:.0f} % in one night",
        f"meets one with {100 * (1 - expected_minimum(crawling, 274)):.0f} %",
        f"more than {HALF_OF_VARIANCE:.2f} times the MAD-CV",
        f"fewer than {OCCASIONS_MINIMUM} runs, or no spread at all",
        f"Fewer than {lower_tail.SURVEYS_MINIMUM} surveys have no interval",
        f"fewer than {straggler.SURVEYS_MINIMUM} surveys name none",
    ):
        assert words in page, words


def example(name: str) -> Ladder:
    return build_ladder(of_file(load_ladder(DOCS / f"examples/{name}.toml")))


def track(name: str, metric: str) -> Track:
    return next(one for one in example(name).tracks if one.metric == metric)


def steps_of(name: str, metric: str) -> dict[str, Any]:
    """Return the steps of a track by their layer."""
    return {step.rung.layer: step for step in track(name, metric).steps}


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


def test_the_efficiencies_of_the_sources_by_hand() -> None:
    slide = steps_of("perlmutter", "write_bandwidth")
    writes, reads = (steps_of("e2000", f"{access}_bandwidth") for access in ("write", "read"))
    client = {one.of: one.value for one in slide["client"].beneath}
    assert client == {"ost": pytest.approx(27 / 31), "network": pytest.approx(27 / 42)}
    network = next(one for one in reads["client"].beneath if one.of == "network")
    written = 149471 * 1024**2 * 10 / 8
    for value, expected in (
        (slide["ost"].beneath[0].value, 31 * 10 / 8 / 38),
        (slide["network"].beneath[0].value, 42 / 50),
        (slide["client"].of_data_sheet.value, 27 * 10 / 8 / (12 * 3.2)),
        (writes["ost"].beneath[0].value, written / (32 * 6000e6)),
        (reads["ost"].beneath[0].value, 328355 * 1024**2 / (32 * 14000e6)),
        (network.value, 200e9 / (2 * 99033e6)),
    ):
        assert value == pytest.approx(expected)


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
    claims = example("e2000-2-osts").claims
    (found,) = (one for one in claims if one.claim.printed.text == "6971 MiB/s")
    assert found.value == pytest.approx(222759 / 32 * 1024**2)


def test_every_key_stands_in_a_table() -> None:
    said = set()
    for section in PAGES["scenarios"].split("<!-- made: ")[1:]:
        name, _, rest = section.partition(" -->")
        keys = re.findall(r"^\| `([a-z_0-9]+)` \|", rest.partition("<!-- end -->")[0], re.MULTILINE)
        said |= {f"{name}.{key}" for key in keys}
    assert set(known_keys()) - said == set()


def test_the_example_is_a_scenario() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGES["scenarios"], re.DOTALL)
    scenario = parse_scenario(example, "mine.toml")
    drive = scenario.osts.drive
    assert (scenario.osts.count, drive.name, drive.capacity_bytes) == (40, "ours", 7.68e12)
    assert drive.write_bytes_per_s == 6e9
    assert [probe.name for probe in scenario.probes] == ["hourly", "survey"]
    assert scenario.probes[0].bytes_written == 20e12
    assert (len(scenario.changes), len(scenario.faults)) == (1, 1)


def test_the_library_s_example_does_what_it_says() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGES["scenarios"], re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)  # the page's own text
    written = parse_scenario(str(names["text"]), "perlmutter")
    assert written == names["never"]
    assert all("trim.every" not in change.set for change in written.changes)


COLUMNS = [(0.25, 0.15, 0.05), (0.25, 0.25, 0.05), (0.10, 0.10, 0.05), None]


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
    shown = set(re.findall(r"(?:\$ |`)trimtab ([a-z]+)", PAGES["twin"]))
    assert {"twin", "whatif", "size", "watch"} <= shown <= set(COMMANDS)
    assert set(re.findall(r"twin (wa|list|show|run)\b", PAGES["twin"])) == set(twin.commands)


@pytest.mark.system
def test_the_files_that_the_page_names_are_those_that_a_run_leaves(tmp_path: Path) -> None:
    wanted = TwinRequest(load_scenario("template"), tmp_path / "template", until_s=3 * 3600.0)
    run_twin(wanted, progress=lambda *_: None)
    table = PAGES["twin"][
        PAGES["twin"].index("| in `template/` |") : PAGES["twin"].index("`--directory` selects")
    ]
    first = [line.split("|")[1] for line in table.splitlines()[2:] if line]
    named = {name.rstrip("/") for cell in first for name in re.findall(r"`([^`]+)`", cell)}
    left = {path.name for path in (tmp_path / "template").iterdir()}
    assert named == {name for name in left if not name.endswith(("-wal", "-shm"))}


def test_the_formula_beside_the_example() -> None:
    said = present(re.search(r"formula +([0-9.]+), the simulation", PAGES["twin"]))
    # What the closed form gives, apart from the reserve that the command corrects for.
    assert greedy(effective_spare(0.12, 0.75), 256) == pytest.approx(float(said[1]), rel=0.002)


RESULT = json.loads((ROOT / "benchmarks" / "results" / "purge_case.json").read_text())
DAY_S = 86_400
STEPS = 400


def older(mix: case.Mix, days: float) -> float:
    """Return the share of a mix that was last used longer ago, added up in small steps.

    What is kept for ``kept`` days on the average was written e^(-age / kept) of it longer ago than
    an age, cut off at the oldest; what was read again was read at any time since, all as likely.
    """

    def written(kept: float, age: float) -> float:
        end = math.exp(-mix.oldest_days / kept)
        return max(0.0, (math.exp(-age / kept) - end) / (1 - end))

    def used(kept: float) -> float:
        parts = ((step + 0.5) / STEPS for step in range(STEPS))
        again = sum(written(kept, days / part) for part in parts) / STEPS
        return (1 - mix.reread_share) * written(kept, days) + mix.reread_share * again

    both = zip(mix.standing, mix.kept_days, strict=True)
    return sum(share * used(kept) for share, kept in both)


@pytest.mark.parametrize("place", [None, *range(len(case.MIXES))])
def test_files_by_age_are_those_of_their_mix(place: int | None) -> None:
    """``None``: the case that was walked, of the first mix."""
    mix, mixes = case.MIXES[place or 0], RESULT["mixes"]["mixes"]
    found = RESULT["case"]["horizons"]["horizon"] if place is None else mixes[place]
    assert place is None or found["name"] == mix.name
    within = 0.01 if place is None else 0.02
    for step in found["steps"]:
        expected = older(mix, step["age_s"] / DAY_S)
        assert step["freed"]["files"] / found["files"] == pytest.approx(expected, abs=within)


def test_it_was_walked_at_the_size_that_the_page_is_about() -> None:
    walked = RESULT["case"]
    assert walked["index"]["rows"] == 100_000_000
    assert walked["capacity_bytes"] == 36 * 10**15
    horizon = walked["horizons"]["horizon"]
    assert horizon["needed"]["target"] == 0.75
    assert horizon["rules"]["minimum_age_s"] == 8 * 7 * DAY_S
    assert horizon["rules"]["reads_count"]
    assert not horizon["needed"]["doubts"]


def test_a_horizon_is_the_least_that_suffices() -> None:
    for one in (RESULT["case"]["horizons"]["horizon"], *RESULT["mixes"]["mixes"]):
        needed = one["needed"]
        if needed["status"] != "reached":
            continue
        freed, required = needed["freed"]["allocated_bytes"], needed["required_bytes"]
        assert required <= freed
        # The curve at the next older age of the table is not enough.
        before = [step for step in one["steps"] if step["age_s"] > needed["age_s"] + 3600]
        assert all(step["freed"]["allocated_bytes"] < required for step in before)


def test_what_the_text_says_of_other_habits_and_of_targets_holds() -> None:
    of = {one["name"]: one["needed"] for one in RESULT["mixes"]["mixes"]}
    usual = of["the case"]["age_s"]
    assert of["tidy users"]["age_s"] < 0.5 * usual
    assert 1.7 * usual < of["a second archive"]["age_s"] < 2 * usual
    assert of["young"]["age_s"] < 365 * DAY_S
    assert of["read again"]["age_s"] < usual
    files = [one["freed"]["files"] for one in of.values()]
    assert max(files) < 1.15 * min(files)
    targets = RESULT["case"]["horizons"]["targets"]
    needed, published = ([one[k]["status"] for one in targets] for k in ("needed", "published"))
    assert needed[-1] == "out_of_reach"
    assert needed.count("out_of_reach") < published.count("out_of_reach")
    assert published[0] == "reached"


def test_lists_and_plan_name_the_same_files() -> None:
    walked: dict[str, Any] = RESULT["case"]
    published = walked["horizons"]["horizon"]["published"]["freed"]
    assert walked["plan"]["files"] == published["files"] == walked["notices"]["files"]
    assert walked["plan"]["users"] == walked["notices"]["lists"]


def test_the_shares_of_what_is_there() -> None:
    mix = case.Mix("m", "", shares=(0.5, 0.5), kept_days=(1.0, 9.0))
    assert mix.standing == pytest.approx((0.1, 0.9))
    assert older(mix, 0.0) == pytest.approx(1.0)
    assert older(mix, mix.oldest_days) == 0.0


def test_the_walk_reads_the_documents_that_the_commands_print_now() -> None:
    golden = ROOT / "tests" / "goldens" / "purge"
    horizon = json.loads((golden / "horizon.json").read_text())["document"]
    found, before = walk.summary(horizon), RESULT["case"]["horizons"]["horizon"]
    assert before.keys() == found.keys()
    for name in ("needed", "published"):
        assert before[name].keys() <= found[name].keys()
    # From 2029-07-30 13:00 to 2029-12-26 12:00.
    assert found["needed"]["age_s"] == 149 * DAY_S - 3600
    for step, printed in zip(found["steps"], horizon["steps"], strict=True):
        assert before["steps"][0].keys() <= step.keys()
        assert step["age_s"] == printed["age_s"]
    plan = json.loads((golden / "plan.json").read_text())["document"]
    assert planned_of(plan).keys() == RESULT["small"]["planned"].keys()


START = datetime(2017, 2, 14, tzinfo=UTC)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of the script that asks the year its own questions."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import real_year_data  # type: ignore[import-not-found]

    return real_year_data


def test_every_block_of_the_year_is_filled() -> None:
    blocks = re.findall(
        r"<!-- year ([a-z0-9-]+) -->\n(.*?)<!-- end -->", YEAR.read_text(), re.DOTALL
    )
    assert len(blocks) >= 9
    for name, text in blocks:
        assert text.startswith("| "), name
        assert text.count("\n") >= 3, name


def test_every_chart_of_the_year_is_there_small_and_drawn() -> None:
    images = re.findall(r"\]\(([./]*docs/images/[\w.-]+)\)", YEAR.read_text())
    assert len(images) == 6
    for image in images:
        path = YEAR.parent / image
        assert path.stat().st_size < 100_000, image
        root = ET.fromstring(path.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter())) > 50, image


def rank(data: ModuleType, rows: list[tuple[float, float]]) -> Any:
    """Return how the values of runs a day apart go with their telemetry."""
    runs = tuple(
        data.YearRun(START + timedelta(days=day), value, 60.0, {"x": x})
        for day, (value, x) in enumerate(rows)
    )
    return data.rank(SimpleNamespace(runs=runs), lambda run: run.telemetry["x"])


def test_two_things_that_drift_alike_are_no_relation_within_a_month(data: ModuleType) -> None:
    chance = random.Random(1)
    rows = [
        (100 - day / 6 + chance.gauss(0, 3), day / 6 + chance.gauss(0, 3)) for day in range(300)
    ]
    found = rank(data, rows)
    assert found.raw < -0.9
    assert found.raw_interval.high < -0.8
    assert found.alone_interval.low < 0 < found.alone_interval.high


def test_a_relation_within_a_month_is_found(data: ModuleType) -> None:
    chance = random.Random(2)
    steps = [chance.gauss(0, 1) for _ in range(300)]
    rows = [(100 - 2 * x + chance.gauss(0, 2), x) for x in steps]
    found = rank(data, rows)
    assert -0.85 < found.alone < -0.5
    assert found.alone_interval.high < -0.3


def test_too_few_or_constant_figures_have_no_rank(data: ModuleType) -> None:
    assert rank(data, [(1.0 + day, float(day)) for day in range(50)]) is None
    assert rank(data, [(1.0 + day, 5.0) for day in range(300)]) is None


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
