"""The pages of a judgement and of a ladder: their figures, hostile names made harmless."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.judge.frames import series
from tests.judge.targets import fields
from tests.show.conftest import rows_of
from tests.support.narrow import present
from tests.support.screens import Lines

from trimtab.answers import series_chart
from trimtab.base.encode import to_json
from trimtab.base.series import ChangeStatus, SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.base.site_hardware import parse_figure
from trimtab.judge.efficiency_ladder import (
    LEVEL_NAMES,
    CheckedClaim,
    Claim,
    Ladder,
    LadderInput,
    Match,
)
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.judge.page import judge_document
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.straggler import target_tails
from trimtab.probe.ladder import of_file
from trimtab.probe.page_comparison import (
    computed_text,
    ladder_chart,
    ladder_document,
    rate_text,
    track_table,
)
from trimtab.probe.question_file import load_ladder, parse_ladder
from trimtab.show.document import render_document

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
KEY = SeriesKey("scratch", "hourly", "ior", "write_bandwidth", "B/s")
OSTS = 24


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    chance = random.Random(3)
    values = [6.7e11 * chance.gauss(1, 0.04) * (0.83 if hour > 600 else 1) for hour in range(1000)]
    return series(values, unfinished={100})


@pytest.fixture(scope="module")
def judged(frame: pl.DataFrame) -> SeriesJudgement:
    return judge_series(frame, KEY)


@pytest.fixture(scope="module")
def surveys() -> pl.DataFrame:
    chance = random.Random(5)
    means = [15 if day < 31 else 20 for day in range(60)]
    return fields.frame(
        np.array([[1e9 * chance.gauss(mean, 1) for _ in range(OSTS)] for mean in means])
    )


def test_days_have_their_mean_and_deviation(judged: SeriesJudgement) -> None:
    chart = present(series_chart.panel_chart(judged, "x"))
    means = [row for row in rows_of(chart.specification) if "mean" in row and "high" in row]
    days = {row["at"]: row for row in means}
    assert len(days) == len(judged.days)
    drawn, day = days[int(FIRST.timestamp() * 1000)], judged.days[0]
    mean, deviation = present(day.mean), present(day.standard_deviation)
    assert (drawn["mean"], drawn["high"]) == pytest.approx((mean / 1e9, (mean + deviation) / 1e9))


def test_the_cov_stands_beside_its_goal(judged: SeriesJudgement) -> None:
    chart = present(series_chart.cov_chart(judged, "x"))
    rows = rows_of(chart.specification)
    assert {"goal": 8.0} in rows
    assert len([row for row in rows if "cov" in row]) <= series_chart.POINTS_MAX


def test_both_sides_of_a_change_are_shares(frame: pl.DataFrame, judged: SeriesJudgement) -> None:
    (change,) = [one for one in judged.changes if one.status is ChangeStatus.CONFIRMED]
    chart = present(series_chart.before_after_chart(frame, change, judged, "x"))
    rows = [row for row in rows_of(chart.specification) if "share" in row]
    for side in (0, 1):
        # A layer may hold its rows twice.
        shares = {row["from"]: row["share"] for row in rows if row["side"] == side}
        assert sum(shares.values()) == pytest.approx(100)
    assert "240 before and 240 after" in chart.caption


def test_surveys_show_the_slowest_and_two_months(surveys: pl.DataFrame) -> None:
    chart = present(series_chart.survey_chart(surveys, "write_bandwidth", "B/s", "x"))
    rows = [row for row in rows_of(chart.specification) if "minimum" in row]
    assert len({row["at"] for row in rows}) == 60
    months = present(series_chart.months_chart(surveys, "write_bandwidth", "B/s", "x"))
    assert "2026-03 and 2026-04" in months.title
    march = surveys.filter(pl.col("at") < datetime(2026, 4, 1, tzinfo=UTC))
    assert series_chart.months_chart(march, "write_bandwidth", "B/s", "x") is None


def test_what_is_not_there_is_not_drawn(judged: SeriesJudgement, surveys: pl.DataFrame) -> None:
    empty = replace(judged, days=(), rolling=())
    assert series_chart.panel_chart(empty, "x") is None
    assert series_chart.cov_chart(empty, "x") is None
    assert series_chart.survey_chart(surveys, "read_bandwidth", "B/s", "x") is None


@pytest.mark.system
def test_the_page_shows_names_and_runs_nothing(
    frame: pl.DataFrame, judged: SeriesJudgement, surveys: pl.DataFrame
) -> None:
    name = "<script>alert(1)</script>"
    hostile = replace(judged, key=replace(KEY, probe=name), asked={"path": name})
    tails = target_tails(surveys, "write_bandwidth")
    judgement = SiteJudgement(name, FIRST, FIRST, (hostile,), (tails,), notes=(name,))
    html = render_document(judge_document(judgement, {hostile.key: frame}, surveys))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 3
    assert html.count('class="drawing"') == 5
    assert "style=" not in html
    assert html == render_document(judge_document(judgement, {hostile.key: frame}, surveys))
    assert "confirmed" in html


def test_a_page_of_nothing_is_a_page() -> None:
    html = render_document(judge_document(SiteJudgement("none", None, None, ()), {}))
    assert "none" in html


def page_of(judged: SeriesJudgement, frame: pl.DataFrame) -> str:
    """Return the page of a site with one series."""
    site = SiteJudgement("scratch", None, None, (judged,))
    return render_document(judge_document(site, {judged.key: frame}))


@pytest.mark.parametrize("metric", ["GB/s", "Gb/s", "ms", "kIOPS", "MiB/s of OST0003"])
def test_a_name_of_others_is_not_changed(metric: str, frame: pl.DataFrame) -> None:
    """A small letter more or less is a factor of eight, or of a thousand."""
    judged = judge_series(frame, SeriesKey("scratch", "hourly", "file", metric, ""))
    assert f"<h2>{metric} of hourly</h2>" in page_of(judged, frame)
    chart = present(series_chart.panel_chart(judged, "x"))
    assert chart.title == f"hourly {metric}"


def test_a_metric_of_ours_begins_a_heading(judged: SeriesJudgement, frame: pl.DataFrame) -> None:
    assert "<h2>Write bandwidth of hourly (ior)" in page_of(judged, frame)


EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def perlmutter() -> Ladder:
    return build_ladder(of_file(load_ladder(EXAMPLES / "perlmutter.toml")))


def test_the_page_stands_alone_and_is_the_same_each_time(perlmutter: Ladder) -> None:
    page = render_document(ladder_document(perlmutter))
    assert page == render_document(ladder_document(perlmutter))
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    for text in ("Write bandwidth", "27.0 GB/s", "87.1 % of OST", "drive limited", "88.4 %"):
        assert text in page


def test_every_known_rate_is_a_bar(perlmutter: Ladder) -> None:
    track = perlmutter.tracks[0]
    chart = present(ladder_chart(perlmutter, track))
    whole, user = (
        layer["data"]["values"]
        for layer in chart.specification["layer"]
        if layer["mark"]["type"] == "bar"
    )
    assert whole == user
    assert {bar["layer"]: round(bar["value"], 1) for bar in whole} == {
        "client": 27.0,
        "network": 42.0,
        "line rate": 50.0,
        "OST": 31.0,
        "drive": 38.0,
        "data sheet": 38.4,
    }


def test_parity_is_the_same_in_chart_and_table(perlmutter: Ladder) -> None:
    for track in perlmutter.tracks:
        chart = present(ladder_chart(perlmutter, track))
        bars = chart.specification["layer"][0]["data"]["values"]
        parity = {bar["layer"]: bar["user"] for bar in bars if bar["user"] < bar["value"]}
        raw = {bar["layer"] for bar in bars} & {"drive", "data sheet"}
        assert set(parity) == (raw if track.metric == "write_bandwidth" else set())
        cells = [row.cells for row in present(track_table(perlmutter, track)).rows]
        stated = {cell.text: rate.small for cell, rate, *_ in cells if rate.small}
        assert set(stated) == set(parity)
        for layer, rate in parity.items():
            unit = 1e9 if track.unit == "B/s" else 1e3
            assert stated[layer] == f"{rate_text(rate * unit, track.unit)} without parity"


def test_the_limiting_layer_is_marked_in_chart_and_table() -> None:
    ladder = build_ladder(of_file(load_ladder(EXAMPLES / "e2000.toml")))
    marked = 0
    for track in ladder.tracks:
        rows = present(track_table(ladder, track)).rows
        table = [row.cells[0].text for row in rows if row.marked]
        bars = present(ladder_chart(ladder, track)).specification["layer"][0]["data"]["values"]
        limit = [] if track.limit.layer is None else [LEVEL_NAMES[track.limit.layer]]
        assert table == limit
        assert [bar["layer"] for bar in bars if bar["limits"]] == [
            f"{one} (limit)" for one in limit
        ]
        marked += len(limit)
    assert marked


def test_the_document_has_the_same_figures(perlmutter: Ladder) -> None:
    document = json.loads(to_json(perlmutter))
    track = document["tracks"][0]
    client = track["rungs"][-1]
    assert (client["layer"], client["rate"]["value"]) == ("client", 27e9)
    assert client["rate"]["interval"] == [26.5e9, 27.5e9]
    beneath = client["beneath"][0]
    assert (beneath["of"], beneath["value"]) == ("ost", pytest.approx(27 / 31))
    assert client["of_data_sheet"]["parity_counted"] is True
    assert (track["limit"]["kind"], track["largest_loss"]["layer"]) == ("cannot tell", "client")
    (printed,) = (one for one in document["printed"] if one["printed"]["text"] == "88.4 %")
    assert printed["match"] == "given"
    assert printed["interval"][0] < 0.884 < printed["interval"][1]


def test_hostile_names_reach_neither_terminal_nor_page(on_screen: Lines) -> None:
    text = (
        '[ladder]\nname = "x<script>y"\nsource = "a<b>"\n'
        '[hardware]\nosts = 1\ndrive = "<i>drive"\ndrive_write = "3 GB/s"\ndrives = 2\n'
        'parity = "8+2"\n'
        '[[rung]]\nlayer = "ost"\nwrite = "3 GB/s"\ntool = "<img src=x>"\n'
        '[[printed]]\nwhat = "<b>what"\nvalue = "88.4 %"\n'
    )
    ladder = build_ladder(of_file(parse_ladder(text, "x")))
    page = render_document(ladder_document(ladder))
    for tag in ("<script>y", "<img", "<i>drive", "<b>what", "a<b>"):
        assert tag not in page
    hostile = ladder_document(replace(ladder, name="x\x1b[31m\u202ey", notes=("\x07 bell",)))
    assert set("".join(on_screen(hostile))).isdisjoint("\x1b\x07\u202e")
    assert "\x1b" not in render_document(hostile)


def test_a_rate_of_unknown_size_is_shown_as_measured(on_screen: Lines) -> None:
    text = '[ladder]\nname = "x"\n[[rung]]\nlayer = "client"\nwrite = "3 GB/s"\n'
    ladder = build_ladder(of_file(parse_ladder(text, "x")))
    shown = "\n".join(on_screen(ladder_document(ladder)))
    assert "(3.00 GB/s)" in shown
    assert "share of the whole unknown" in shown
    assert ladder_chart(ladder, ladder.tracks[0]) is None
    assert "(3.00 GB/s)" in render_document(ladder_document(ladder))


def test_nothing_at_all(on_screen: Lines) -> None:
    empty = build_ladder(LadderInput("x", load_ladder(EXAMPLES / "perlmutter.toml").hardware, ()))
    document = ladder_document(empty)
    for shown in ("\n".join(on_screen(document)), render_document(document)):
        assert "No stored data for a ladder" in shown
    assert json.loads(to_json(empty))["tracks"] == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (38e9, "B/s", "38.0 GB/s"),
        (149471 * 2**20, "B/s", "157 GB/s"),
        (1.6e6, "1/s", "1,600 kIOPS"),
        (29e3, "1/s", "29 kIOPS"),
        (12.0, "1/s", "12 IOPS"),
    ],
)
def test_rates_are_printed_in_decimal_units(value: float, unit: str, text: str) -> None:
    assert rate_text(value, unit) == text


@pytest.mark.parametrize(
    ("printed", "value", "low", "high", "texts"),
    [
        ("88.4 %", 0.8882, 0.8604, 0.9167, ("88.82 %", "86.04 .. 91.67")),
        ("88.4%", 0.8882, 0.8604, 0.9167, ("88.82 %", "86.04 .. 91.67")),
        (
            "6971 MiB/s",
            6961.2 * 2**20,
            6961.2 * 2**20,
            6961.2 * 2**20,
            ("6,961.2 MiB/s", "6,961.2"),
        ),
        ("50 +- 5 %", 0.465, 0.46, 0.47, ("46.5 %", "46.0 .. 47.0")),
        ("40 to 50 %", 0.512, 0.49, 0.53, ("51.2 %", "49.0 .. 53.0")),
        ("0 %", 0.1, 0.1, 0.2, ("10.0 %", "10.0 .. 20.0")),
    ],
)
def test_what_the_inputs_give_is_told_in_the_unit_that_was_printed(
    printed: str, value: float, low: float, high: float, texts: tuple[str, str]
) -> None:
    claim = Claim("x", parse_figure(printed), "a")
    assert computed_text(CheckedClaim(claim, Match.GIVEN, value, low, high)) == texts
