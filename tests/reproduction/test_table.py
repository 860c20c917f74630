"""The table is whole: every row of the list once, data never reproduced."""

from collections import Counter
from dataclasses import replace

import pytest
from benchmarks.reproduction import aging
from benchmarks.reproduction.page import headline
from benchmarks.reproduction.predict import layers
from benchmarks.reproduction.seconds import part_of_time, window
from benchmarks.reproduction.statements import AIM, CLASSES, Figure, RowClass, SeededRow, statements
from benchmarks.reproduction.table import SEEDS, Reproduction, Terms, reproduce, summary_of
from tests.support.narrow import present

from trimtab.reach.worker_process import one_by_one, side_by_side
from trimtab.twin.scenario_file import load_scenario

pytestmark = pytest.mark.calibration

SHORT = Terms(seeds=1, until_s=4 * 86400.0, classes=1)
ROWS = range(1, 51)
UNNUMBERED = {
    *("figure", "mlperf", "mdtest", "cori", "partitions", "corruptions", "gateways", "mdt"),
    *("fstrim", "old", "disk", "zfs", "smt", "wrf"),
}


@pytest.fixture(scope="module")
def short() -> Reproduction:
    with side_by_side(2, hint="") as together:
        return reproduce(SHORT, together)


@pytest.fixture(scope="module")
def by_id(short: Reproduction) -> dict[str, SeededRow]:
    return {one.row.id: one for one in short.rows}


def test_every_row_of_the_list_is_there_and_no_row_twice(short) -> None:
    ids = [one.row.id for one in short.rows]
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert set(ids) == set(statements())
    numbers = {id.split("-")[0] for id in ids}
    assert numbers == {str(number) for number in ROWS} | UNNUMBERED


def test_layers_are_the_layers_own_rows(by_id) -> None:
    for seeded in layers():
        assert by_id[seeded.row.id] == seeded
    assert by_id["2-write"].row.row_class == "identity"


def test_what_is_not_printed_has_no_error_and_what_is_data_no_number(short) -> None:
    for one in short.rows:
        if not isinstance(one.row.printed, Figure):
            assert one.row.error is None, one.row.id
            assert one.row.kind in ("not printed", "data"), one.row.id
        if one.row.kind == "data":
            assert one.row.twin is None, one.row.id


def test_what_a_short_run_does_not_reach_is_not_said(short, by_id) -> None:
    for id in ("23-last", "43-days", "47-horizon", "8-wear", "33-runs"):
        assert by_id[id].row.twin is None
        assert "no run came that far" in by_id[id].row.note
    summary = summary_of(short.rows)
    kinds = Counter(one.row.kind for one in short.rows)
    assert summary.rows == sum(kinds.values()) == len(short.rows)
    assert (summary.data, summary.not_printed) == (kinds["data"], kinds["not printed"])
    assert summary.silent > 5


def test_each_row_has_one_class_and_only_predictions_are_the_headline(short) -> None:
    summary = summary_of(short.rows)
    assert [count.row_class for count in summary.classes] == list(CLASSES)
    assert sum(count.rows for count in summary.classes) == summary.rows
    predictions = summary.of("prediction")
    assert 0 < predictions.rows < summary.rows / 4
    text = headline(summary)
    assert text.startswith(f"{predictions.rows} predictions of {summary.rows} rows")
    for number in (summary.within, summary.missed):
        assert f" {number} " not in text.partition("independent;")[2]


def test_only_all_osts_whole_and_enough_seeds_are_scored(short) -> None:
    layer_ids = {seeded.row.id for seeded in layers()}
    assert Terms().unscored is None
    assert Terms(seeds=SEEDS - 1).unscored == "9 seeds: an interval takes 10"
    assert "16 columns" in (Terms(classes=16).unscored or "")
    assert Terms(until_s=86400.0).unscored is not None
    for one in short.rows:
        if one.row.id not in layer_ids and one.row.kind != "data":
            assert (one.verdict, one.missed) == (None, False), one.row.id
    assert "not scored" in headline(summary_of(short.rows))


def test_rows_of_one_group_are_one_and_fitted_groups_are_none() -> None:
    def prediction(id: str, group: str, row_class: RowClass = "prediction") -> SeededRow:
        row = layers()[10].row
        return SeededRow(
            replace(row, id=id, group=group, row_class=row_class, printed=Figure(1.0), twin=1.0)
        )

    rows = [prediction("a", "x"), prediction("b", "x"), prediction("c", "y"), prediction("d", "z")]
    assert summary_of(rows).independent == 3
    assert summary_of([*rows, prediction("e", "z", "fitted")]).independent == 2
    silent = replace(rows[2], row=replace(rows[2].row, twin=None))
    assert summary_of([*rows[:2], silent]).independent == 1


def test_the_knee_moves_with_its_threshold(by_id) -> None:
    """A knee at 75 % is the threshold that was typed in: at another one nothing costs there."""
    runs = {run.name: run for run in aging.knee_runs(load_scenario("perlmutter"))}
    lost = {}
    for c1 in (0.25, 0.15):
        run = runs[f"knee {c1} 0.15 {aging.AS_WRITTEN} 0.8"]
        sample = aging.point(run.answer(), 0.8, 10.0, 20.0)
        lost[c1] = 1 - sample.delivered / sample.drives
    assert lost[0.25] > 0.5
    assert lost[0.15] < 0.05
    assert [by_id[id].row.row_class for id in ("19-knee", "46-fullness")] == ["input"] * 2


def test_processes_change_no_figure() -> None:
    terms = replace(SHORT, documents=("eth21",), until_s=2 * 86400.0, seeds=2)
    with side_by_side(2, hint="") as together:
        assert reproduce(terms, together).rows == reproduce(terms, one_by_one).rows


def test_seconds_of_an_array_say_who_waits(by_id) -> None:
    assert present(by_id["7-latency"].row.twin) > 10
    own = load_scenario("perlmutter")
    on, off = (window(own, 1.8, throttled=throttled) for throttled in (True, False))
    assert on.write_bytes_per_s < off.write_bytes_per_s
    assert part_of_time(on, "starved_quiet") > part_of_time(off, "starved_quiet")
    assert f"{part_of_time(window(own, 1.0), 'starved_quiet'):.0%}" == "0%"


def test_known_tensions_are_told(short) -> None:
    titles = {(one.document, one.title) for one in short.tensions}
    assert len(titles) == len(short.tensions) == 4
    text = " ".join(one.text for one in short.tensions)
    for figure in ("3 PB", "6 PB", "93.4%", "98.2%", "29.9"):
        assert figure in text
    verdicts = {one.title: one.verdict for one in short.tensions}
    assert verdicts["Nearly empty, and a quarter of the speed"] == "not simulated"
    assert verdicts["The probe writes more than users do"] == "arithmetic"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_nine_months_meet_what_the_table_says_they_meet() -> None:
    """Three lives of nine months."""
    with side_by_side(2, hint="") as together:
        found = reproduce(Terms(documents=("nersc24",), seeds=3), together)
    by_id = {one.row.id: one.row for one in found.rows}
    for id in ("23-first", "19-knee", "17-throttling", "36-240h", "37-240h-ratio", "46-fullness"):
        assert abs(present(by_id[id].error)) < AIM, id
    # Signs and orders, whatever the size.
    assert present(by_id["23-ratio"].twin) > 0.15
    assert present(by_id["25-median"].twin) > 0.15
    assert by_id["25-tail"].twin == 0.0
