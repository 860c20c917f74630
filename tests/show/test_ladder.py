"""The ladder as page, JSON and text: the same figures everywhere, nothing foreign gets through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.known import known

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
from trimtab.probe.ladder import of_file
from trimtab.probe.ladder_file import load_ladder, parse_ladder
from trimtab.probe.page_ladder import (
    computed_text,
    ladder_chart,
    ladder_document,
    rate_text,
    track_table,
)
from trimtab.show.document import render_document
from trimtab.show.encode import to_json
from trimtab.show.screen_document import print_document

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
    chart = known(ladder_chart(perlmutter, track))
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
        chart = known(ladder_chart(perlmutter, track))
        bars = chart.specification["layer"][0]["data"]["values"]
        parity = {bar["layer"]: bar["user"] for bar in bars if bar["user"] < bar["value"]}
        raw = {bar["layer"] for bar in bars} & {"drive", "data sheet"}
        assert set(parity) == (raw if track.metric == "write_bandwidth" else set())
        cells = [row.cells for row in known(track_table(perlmutter, track)).rows]
        stated = {cell.text: rate.small for cell, rate, *_ in cells if rate.small}
        assert set(stated) == set(parity)
        for layer, rate in parity.items():
            unit = 1e9 if track.unit == "B/s" else 1e3
            assert stated[layer] == f"{rate_text(rate * unit, track.unit)} without parity"


def test_the_limiting_layer_is_marked_in_chart_and_table() -> None:
    ladder = build_ladder(of_file(load_ladder(EXAMPLES / "e2000.toml")))
    marked = 0
    for track in ladder.tracks:
        rows = known(track_table(ladder, track)).rows
        table = [row.cells[0].text for row in rows if row.marked]
        bars = known(ladder_chart(ladder, track)).specification["layer"][0]["data"]["values"]
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
    assert client["layer"] == "client"
    assert client["rate"]["value"] == 27e9
    assert client["rate"]["interval"] == [26.5e9, 27.5e9]
    assert client["beneath"][0]["of"] == "ost"
    assert client["beneath"][0]["value"] == pytest.approx(27 / 31)
    assert client["of_data_sheet"]["parity_counted"] is True
    assert track["limit"]["kind"] == "cannot tell"
    assert track["largest_loss"]["layer"] == "client"
    printed = {one["printed"]["text"]: one for one in document["printed"]}
    assert printed["88.4 %"]["match"] == "given"
    assert printed["88.4 %"]["interval"][0] < 0.884 < printed["88.4 %"]["interval"][1]


def test_hostile_names_reach_neither_terminal_nor_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
    hostile = replace(ladder, name="x\x1b[31m\u202ey", notes=("\x07 bell",))
    print_document(ladder_document(hostile))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\x1b" not in render_document(ladder_document(hostile))


def test_a_rate_of_unknown_size_is_shown_as_measured(capsys: pytest.CaptureFixture[str]) -> None:
    text = '[ladder]\nname = "x"\n[[rung]]\nlayer = "client"\nwrite = "3 GB/s"\n'
    ladder = build_ladder(of_file(parse_ladder(text, "x")))
    print_document(ladder_document(ladder))
    shown = capsys.readouterr().out
    assert "(3.00 GB/s)" in shown
    assert "share of the whole unknown" in shown
    assert ladder_chart(ladder, ladder.tracks[0]) is None
    assert "(3.00 GB/s)" in render_document(ladder_document(ladder))


def test_nothing_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    empty = build_ladder(LadderInput("x", load_ladder(EXAMPLES / "perlmutter.toml").hardware, ()))
    print_document(ladder_document(empty))
    assert "No stored data for a ladder" in capsys.readouterr().out
    assert "No stored data for a ladder" in render_document(ladder_document(empty))
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
