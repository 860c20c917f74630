"""The page of a judgement: the figures of [S1], hostile names made harmless, nothing loaded."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from tests.judge.frames import series
from tests.judge.targets import fields
from tests.support.known import known

from trimtab.base.series import ChangeStatus, SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.judge import series_chart
from trimtab.judge.page import judge_document
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.straggler import target_tails
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


def rows_of(specification: dict[str, object]) -> list[dict[str, object]]:
    """Return every row of data in a specification."""
    text = json.dumps(specification)
    datasets = json.loads(text).get("datasets", {})
    found = [row for rows in datasets.values() for row in rows]
    found += json.loads(text).get("data", {}).get("values", [])
    for layer in json.loads(text).get("layer", []):
        found += layer.get("data", {}).get("values", [])
    return found


def test_days_have_their_mean_and_deviation(judged: SeriesJudgement) -> None:
    chart = known(series_chart.panel_chart(judged, "x"))
    means = [row for row in rows_of(chart.specification) if "mean" in row and "high" in row]
    days = {row["at"]: row for row in means}
    assert len(days) == len(judged.days)
    first = days[int(FIRST.timestamp() * 1000)]
    assert first["mean"] == pytest.approx((judged.days[0].mean or 0) / 1e9)
    deviation = judged.days[0].standard_deviation or 0
    assert first["high"] == pytest.approx(((judged.days[0].mean or 0) + deviation) / 1e9)


def test_the_cov_stands_beside_its_goal(judged: SeriesJudgement) -> None:
    chart = known(series_chart.cov_chart(judged, "x"))
    rows = rows_of(chart.specification)
    assert {"goal": 8.0} in rows
    assert len([row for row in rows if "cov" in row]) <= series_chart.POINTS_MAX


def test_both_sides_of_a_change_are_shares(frame: pl.DataFrame, judged: SeriesJudgement) -> None:
    (change,) = [one for one in judged.changes if one.status is ChangeStatus.CONFIRMED]
    chart = known(series_chart.before_after_chart(frame, change, judged, "x"))
    rows = [row for row in rows_of(chart.specification) if "share" in row]
    for side in (0, 1):
        shares = {
            row["from"]: row["share"] for row in rows if row["side"] == side
        }  # a layer may hold its rows twice
        assert sum(map(float, map(str, shares.values()))) == pytest.approx(100)
    assert "240 before and 240 after" in chart.caption


def test_surveys_show_the_slowest_and_two_months(surveys: pl.DataFrame) -> None:
    chart = known(series_chart.survey_chart(surveys, "write_bandwidth", "B/s", "x"))
    rows = [row for row in rows_of(chart.specification) if "minimum" in row]
    assert len({row["at"] for row in rows}) == 60
    months = known(series_chart.months_chart(surveys, "write_bandwidth", "B/s", "x"))
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


@pytest.mark.parametrize("metric", ["GB/s", "Gb/s", "ms", "kIOPS", "MiB/s of OST0003"])
def test_a_name_of_others_is_not_changed(metric: str, frame: pl.DataFrame) -> None:
    """A small letter more or less is a factor of eight, or of a thousand."""
    judged = judge_series(frame, SeriesKey("scratch", "hourly", "file", metric, ""))
    page = render_document(
        judge_document(SiteJudgement("scratch", None, None, (judged,)), {judged.key: frame})
    )
    assert f"<h2>{metric} of hourly</h2>" in page
    chart = known(series_chart.panel_chart(judged, "x"))
    assert chart.title == f"hourly {metric}"


def test_a_metric_of_ours_begins_a_heading(judged: SeriesJudgement, frame: pl.DataFrame) -> None:
    page = render_document(
        judge_document(SiteJudgement("scratch", None, None, (judged,)), {judged.key: frame})
    )
    assert "<h2>Write bandwidth of hourly (ior)" in page
