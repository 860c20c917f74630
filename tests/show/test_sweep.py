"""The page and the document of a sweep: self-contained, hostile words escaped, holes shown."""

from __future__ import annotations

import json

from tests.support.documents import misfits

from trimtab.judge.sweep_analysis import analyse_sweep
from trimtab.judge.sweep_result import MeasuredPoint, SweepDocument, SweepPoint
from trimtab.probe.page_sweep import heat_chart, sweep_document
from trimtab.show.document import render_document
from trimtab.show.encode import to_json

HOSTILE = "</td><script>alert(1)</script>"


def points() -> list[MeasuredPoint]:
    """Bandwidth doubles up to 8 nodes and stays; one point was not measured."""
    found = []
    for nodes in (1, 2, 4, 8, 16, 32):
        for size in ("64KiB", "1MiB", HOSTILE):
            rate = 1e9 * min(nodes, 8) * (1.0 if size == "1MiB" else 0.5)
            values = tuple(rate * (1 + 0.01 * step) for step in (-1, 0, 1))
            missing = nodes == 32 and size == HOSTILE
            found.append(
                MeasuredPoint(
                    {"nodes": nodes, "size": size},
                    {"write_bandwidth": (None,) * 3 if missing else values},
                )
            )
    return found


def test_the_page_loads_nothing_and_believes_no_word() -> None:
    page = render_document(sweep_document(f"a {HOSTILE}", "scratch", analyse_sweep(points())))
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert page.count('class="drawing"') == 2
    assert "8.00 GB/s" in page
    assert page == render_document(
        sweep_document(f"a {HOSTILE}", "scratch", analyse_sweep(points()))
    )


def test_a_hole_in_the_map_is_a_dash() -> None:
    (one,) = analyse_sweep(points()).maps
    chart = heat_chart(one)
    rows = chart.specification["data"]["values"]
    holes = [row for row in rows if row["shown"] == "-"]
    assert [(row["row"], row["column"]) for row in holes] in (
        [("32", HOSTILE)],
        [(HOSTILE, "32")],
    )
    assert all(0 <= row["of_best"] <= 1 for row in rows)


def test_the_document_is_of_its_schema() -> None:
    document = SweepDocument(
        "store",
        "s",
        "try",
        points=(SweepPoint({"nodes": 1}, 0),),
        waiting=({"nps": 4},),
        failures=("nodes 2: broken",),
        doubts=(),
        analysis=analyse_sweep(points()),
    )
    value = json.loads(to_json(document))
    assert misfits(value, "sweep") == []
    assert value["best"][0]["best"]["size"] == "1MiB"
    (curve,) = value["scaling"]
    assert curve["shape"] == "knee"
    assert 6 < curve["knee"] < 10
    assert value["waiting"] == [{"nps": 4}]
