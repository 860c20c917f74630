"""Which rows of the layers are predictions: by rank, and by moving the constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.reproduction.classes import FITTED_ON, NAMES, jacobian, rank, spanned
from benchmarks.reproduction.predict import layers, predictions
from hypothesis import given
from hypothesis import strategies as st

from trimtab.twin.simulation.fitted_constant import FITTED, TABLE

GRADIENTS = jacobian(predictions)
BY_ID = {seeded.row.id: seeded.row for seeded in layers()}


def test_as_many_fitted_rows_are_independent_as_the_fit_has_constants() -> None:
    free = [
        constant
        for constant in TABLE
        if set(constant.fitted_on) & set(FITTED_ON) and constant.name != "process_bytes_per_s"
    ]
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
