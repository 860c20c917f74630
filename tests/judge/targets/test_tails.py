"""Everything that surveys of single targets say of one metric."""

import numpy as np
import polars as pl
import pytest
from tests.judge.targets.fields import field, frame
from tests.support.known import known
from tests.support.sentences import numbers

from trimtab.judge.straggler import target_tails


def test_months_are_the_sites_own():
    values = field(70, 20)
    found = target_tails(frame(values), "write_bandwidth", timezone="Europe/Zurich")
    # Surveys at 00:00 UTC from 1 March on; in New York the first is still of February.
    assert [month.surveys for month in found.by_month] == [31, 30, 9]
    west = target_tails(frame(values), "write_bandwidth", timezone="America/New_York")
    assert [month.surveys for month in west.by_month] == [1, 31, 30, 8]
    assert known(found.overall).surveys == 70
    assert (found.surveys, found.targets, found.unit) == (70, 20, "B/s")
    assert (found.reason.code, numbers(found.reason)) == ("no-straggler", [70, 20])


def test_a_straggler_is_named_with_its_server():
    values = field(30, 40)
    values[:, 7] *= 0.7
    found = target_tails(frame(values), "write_bandwidth", stripe_count=8)
    assert [(one.target, one.server) for one in found.stragglers] == [("OST0007", "oss3")]
    assert (found.reason.code, numbers(found.reason)) == ("stragglers", [1, 30, 40])
    assert known(found.overall).of_targets == 8


def test_why_nothing_can_be_said():
    values = field(30, 4)
    assert target_tails(frame(values), "read_bandwidth").reason.code == "not-measured"
    alone = target_tails(frame(values[:, :1]), "write_bandwidth")
    assert (alone.reason.code, numbers(alone.reason)) == ("one-target", [30])
    few = target_tails(frame(values[:5]), "write_bandwidth")
    assert (few.reason.code, numbers(few.reason)) == ("too-few-surveys", [5, 4, 10])
    assert few.overall is not None
    empty = target_tails(frame(np.empty((0, 0))), "write_bandwidth")
    assert (empty.overall, empty.by_month, empty.stragglers) == (None, (), ())


def test_times_are_refused():
    with pytest.raises(ValueError, match="is a time"):
        target_tails(frame(field(3, 3)), "elapsed")


def test_the_order_of_rows_and_the_unit_of_the_clock_do_not_matter():
    values = field(15, 10)
    plain = target_tails(frame(values), "write_bandwidth")
    mixed = frame(values).sample(fraction=1.0, shuffle=True, seed=3)
    assert target_tails(mixed, "write_bandwidth") == plain
    coarse = mixed.with_columns(pl.col("at").cast(pl.Datetime("ms", "UTC")))
    assert target_tails(coarse, "write_bandwidth") == plain
