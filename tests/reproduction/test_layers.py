"""Constants of the layers: what they are fitted on, and which rows are predictions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.reproduction import fit, predict
from benchmarks.reproduction.classes import FITTED_ON, NAMES, jacobian, rank, spanned
from benchmarks.reproduction.predict import layer_rows, layers, predictions
from benchmarks.reproduction.statements import Figure, Statement, error, needing
from benchmarks.reproduction.statements import row as row_of
from hypothesis import given
from hypothesis import strategies as st
from scripts import twin_model_page

from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation import hardware as raid
from trimtab.twin.simulation.hardware import FITTED, TABLE, hardware

MISSED = {
    "16-write-peak",
    "30-e1000-dual",
    "30-e1000-single",
    "38-rank",
    "38-wrf-gain",
    "39-read",
    "39-write",
    "figure-3-write",
    "mlperf-unet3d-ratio",
    "35-fpp-128mib",
    "35-node-write",
    "35-random-691",
    "35-shared-4147",
}
"""Beyond a tenth, or outside a bound; docs/twin-model.md has them too."""


def test_there_are_no_more_than_fifteen_constants_each_within_its_bounds() -> None:
    assert len(TABLE) <= 15
    for constant in TABLE:
        assert constant.low < constant.value < constant.high, constant.name
        assert constant.fitted_on


def test_no_constant_is_fitted_on_data_and_no_row_stands_twice() -> None:
    assert not any(target.id in FITTED_ON for target in needing("layers") if target.data)
    ids = [target.id for target in needing("layers") + needing("time")]
    assert len(set(ids)) == len(ids)


def test_constants_are_fitted_on_rows_named_for_it_only() -> None:
    timed = {target.id for target in (*needing("time"), *needing("nothing", "runs"))}
    for constant in TABLE:
        assert set(constant.fitted_on) <= set(FITTED_ON) | timed, constant.name


def test_the_layers_say_something_of_every_row_that_is_not_data() -> None:
    assert set(predictions()) == {target.id for target in needing("layers") if not target.data}


def test_the_committed_constants_are_what_the_fit_gives() -> None:
    fitted = fit.with_allocator(fit.fit(fit.free_constants()))
    for name in NAMES:
        assert getattr(fitted, name) == pytest.approx(getattr(FITTED, name), rel=2e-3), name


def test_everything_is_met_but_what_is_listed_as_missed() -> None:
    rows = layer_rows()
    assert {seeded.row.id for seeded in layers() if seeded.missed} == MISSED
    for r in rows:
        if r.twin and isinstance(r.printed, Figure):
            assert math.copysign(1, r.twin) == math.copysign(1, r.printed.value), r.id


def test_orders_are_right() -> None:
    said = {name: prediction.value for name, prediction in predictions().items()}
    order = ["35-shared-691", "35-shared-4147", "35-fpp-691", "35-fpp-4147"]
    assert sorted(order, key=said.__getitem__) == order
    assert said["14-read"] < said["15-read-4x32"]
    assert said["26-write"] < said["11-write"] < said["2-write"]
    assert said["37-with"] < said["37-without"]


def test_held_out_rows_follow_from_constants_and_are_no_copies() -> None:
    """Each constant moves a row that it was not fitted on."""
    before = predictions()
    held_out = before.keys() - set(FITTED_ON)
    for constant in TABLE:
        if constant.name in ("allocator_s_per_group", "process_bytes_per_s", "run_spread"):
            continue  # Of time, and of rows that are whole numbers.
        moved = predictions(replace(FITTED, **{constant.name: constant.value * 0.9}))
        assert any(moved[name].value != before[name].value for name in held_out), constant.name


def test_an_error_is_relative_and_a_bound_is_met_or_not() -> None:
    assert error(Figure(-0.14), -0.15) == pytest.approx(0.15 / 0.14 - 1)
    assert error(Figure(10, ">="), 12) == 0
    assert error(Figure(10, ">="), 9) == pytest.approx(-0.1)
    assert error(Figure(10, "<="), 9) == 0
    assert error("in words", 9) is None
    assert error(Figure(10), None) is None


def test_data_is_shown_and_never_reproduced() -> None:
    target = Statement("x", "S5", "client", "MLPerf", Figure(5), "1", data=True)
    shown = row_of(target, 5.0)
    assert (shown.row_class, shown.twin, shown.error) == ("outside", None, None)
    assert not shown.missed
    assert shown.kind == "data"
    words = row_of(replace(target, printed="a lot", data=False), 5.0, "why")
    assert (words.kind, words.twin, words.error, words.note) == ("not printed", 5.0, None, "why")
    assert row_of(replace(target, data=False), float("nan")).missed


def test_the_page_says_what_the_constants_are() -> None:
    page = twin_model_page.PAGE.read_text()
    assert twin_model_page.made(page) == page
    assert all(f"`{name}`" in page for name in NAMES)


def test_presets_of_scenarios_are_the_machines_that_rows_are_predicted_for() -> None:
    machines = {
        "perlmutter": predict.PERLMUTTER,
        "e1000-f": predict.E1000_F,
        "e2000-f": predict.E2000_F,
    }
    for name, osts in machines.items():
        scenario = load_scenario(name)
        preset = hardware(scenario.osts, scenario.server)
        ours = hardware(osts, scenario.server)
        for ceiling in (raid.array_write_bytes_per_s, raid.array_read_bytes_per_s):
            assert ceiling(preset) == pytest.approx(ceiling(ours)), name
        assert preset.network_bytes_per_s == ours.network_bytes_per_s, name
        assert preset.platform is ours.platform, name


# Which rows are predictions: by rank, and by moving the constants


GRADIENTS = jacobian(predictions)
BY_ID = {seeded.row.id: seeded.row for seeded in layers()}


def test_as_many_fitted_rows_are_independent_as_the_fit_has_constants() -> None:
    fitted = [constant for constant in TABLE if set(constant.fitted_on) & set(FITTED_ON)]
    free = [constant for constant in fitted if constant.name != "process_bytes_per_s"]
    assert rank([GRADIENTS[id] for id in FITTED_ON]) == len(free) == 12


def test_what_lies_in_the_span_of_fitted_rows_is_no_prediction() -> None:
    fitted = [GRADIENTS[id] for id in FITTED_ON]
    for id, row in BY_ID.items():
        gradient = GRADIENTS.get(id)
        if gradient is None or not gradient.any() or id in FITTED_ON:
            continue
        # The slow twin: a row that adds no rank.
        within = rank([*fitted, gradient / np.linalg.norm(gradient)]) == rank(fitted)
        if row.row_class != "bound":
            assert within == (row.row_class == "identity"), id


def test_predictions_of_the_layers_are_as_many_groups_as_they_add_rank() -> None:
    fitted = [GRADIENTS[id] for id in FITTED_ON]
    predicted = [
        row for id, row in BY_ID.items() if row.row_class == "prediction" and GRADIENTS[id].any()
    ]
    more = [GRADIENTS[row.id] for row in predicted]
    assert predicted
    assert len({row.group for row in predicted}) == rank([*fitted, *more]) - rank(fitted)


def test_a_row_that_no_constant_moves_is_no_prediction_unless_it_is_declared() -> None:
    for id, row in BY_ID.items():
        if row.twin is not None and not row.rests_on and row.row_class == "identity":
            for constant in TABLE:
                for end in (constant.low, constant.high):
                    moved = predictions(replace(FITTED, **{constant.name: max(end, 1e-12)}))
                    assert moved[id].value == pytest.approx(row.twin, rel=1e-9), (id, constant.name)
    assert {"2-read", "5-link", "41-drives"} <= {
        id for id, row in BY_ID.items() if row.row_class == "identity" and not row.rests_on
    }


def test_identities_name_the_fitted_rows_that_they_follow_from() -> None:
    assert BY_ID["12-read"].rests_on == ("26-write", "26-read")
    assert BY_ID["14-write"].rests_on == ("10-write", "39-write-iops")
    for row in BY_ID.values():
        assert set(row.rests_on) <= set(FITTED_ON), row.id


def test_bounds_in_both_directions_take_the_slower_one() -> None:
    dual = BY_ID["30-e1000-dual"]
    assert dual.twin == pytest.approx(predictions()["29-write"].value)
    assert (dual.row_class, dual.missed) == ("bound", True)


@given(
    st.lists(
        st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 3.0]), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0]), min_size=5, max_size=5),
)
def test_a_combination_is_spanned_and_what_adds_rank_is_not(rows, weights) -> None:
    matrix = np.array(rows)
    combined = np.array(weights[: len(rows)]) @ matrix
    assert spanned(combined, matrix)
    for axis in np.eye(4):
        assert spanned(axis, matrix) == (rank([*matrix, axis]) == rank(list(matrix)))


def test_constants_of_the_jacobian_are_all_there() -> None:
    assert all(len(gradient) == len(NAMES) for gradient in GRADIENTS.values())
