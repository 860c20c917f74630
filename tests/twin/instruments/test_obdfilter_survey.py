"""obdfilter-survey: summary and detail as recorded, and read back."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.instruments.masks import FIXTURES, squeezed

from trimtab.base.run import RunStatus
from trimtab.formats.obdfilter_output import objects_left, read_detail, read_summary
from trimtab.formats.obdfilter_survey import SurveySpec, results
from trimtab.twin.instrument.probe_output import SurveyCommand, SurveyResult, print_survey

MIB = 2**20
BEGAN = datetime(2026, 11, 20, 16, 36, 22)


def recorded(name: str, end: str) -> str:
    return (FIXTURES / "obdfilter_survey" / "2.17" / f"{name}.{end}").read_text()


def test_a_short_one_has_the_lines_of_the_recorded_one():
    spec = SurveySpec(32 * MIB, objects=2, threads=4, tests=("write", "read"))
    asked = SurveyCommand(spec, ("scratch-OST0000", "scratch-OST0003"))
    rates = {"write": np.array([476.9, 487.2]) * MIB, "read": np.array([820.6, 891.4]) * MIB}
    printed, summary, detail = print_survey(asked, SurveyResult(BEGAN, rates, host="lustre1"))
    assert squeezed(summary.decode()) == squeezed(recorded("two-targets", "summary"))
    assert squeezed(printed.decode()) == squeezed(recorded("two-targets", "out"))
    blocks = squeezed(detail.decode())
    real = squeezed(recorded("two-targets", "detail"))
    # Ids of objects and devices go by what was there before.
    assert [line for line in blocks if "x#" not in line and "#x" not in line] == [
        line for line in real if "x#" not in line and "#x" not in line
    ]
    assert len(blocks) == len(real)


def test_a_long_one_has_a_line_for_each_whole_second():
    text = recorded("long", "detail")
    spec = SurveySpec(1600 * MIB, objects=1, threads=1, tests=("write", "rewrite", "read"))
    asked = SurveyCommand(spec, ("scratch-OST0001",))
    took = {"write": 4.081836, "rewrite": 1.599775, "read": 1.204589}
    rates = {name: np.array([1600 * MIB / took_s]) for name, took_s in took.items()}
    _, summary, detail = print_survey(asked, SurveyResult(BEGAN, rates, host="lustre1"))
    first = text[: text.index("\n=======================> ost", 10) + 1]
    assert len(detail.decode().splitlines()) == len(first.splitlines())
    assert squeezed(summary.decode())[1] == squeezed(recorded("long", "summary"))[1]


@given(
    rates=st.lists(st.tuples(st.floats(1e7, 6e10), st.floats(1e7, 6e10)), min_size=1, max_size=12),
    gib=st.integers(1, 128),
)
@settings(max_examples=40, deadline=None)
def test_its_parser_gives_back_the_rates(rates, gib):
    spec = SurveySpec(gib * 2**30, tests=("write", "read"))
    names = tuple(f"oss{n:04d}:scratch-OST{n:04x}" for n in range(len(rates)))
    given_rates = {
        test: np.array([one[place] for one in rates]) for place, test in enumerate(spec.tests)
    }
    _, summary, detail = print_survey(SurveyCommand(spec, names), SurveyResult(BEGAN, given_rates))
    (found,) = results(read_summary(summary.decode()), read_detail(detail.decode()))
    assert found.status is RunStatus.OK, found.problem
    assert not found.warnings or "two seconds" in found.warnings[0]
    assert objects_left(detail.decode()) == ()
    assert all(one.believed for one in found.samples), [one.reason for one in found.samples]
    for test in spec.tests:
        own = [
            one
            for one in found.samples
            if one.metric == f"{test}_bandwidth" and one.target is not None
        ]
        assert [one.target for one in own] == [f"OST{n:04x}" for n in range(len(rates))]
        values = np.array([one.value for one in own])
        assert np.allclose(values, given_rates[test], rtol=0, atol=0.51e-6 * MIB)


def test_a_target_that_does_not_answer_is_missing_and_the_others_stand():
    spec = SurveySpec(2**34, tests=("write", "read"))
    names = tuple(f"scratch-OST{n:04x}" for n in range(3))
    rates = {test: np.array([15e9, np.nan, 16e9]) for test in spec.tests}
    _, summary, detail = print_survey(SurveyCommand(spec, names), SurveyResult(BEGAN, rates))
    (found,) = results(read_summary(summary.decode()), read_detail(detail.decode()))
    assert found.status is RunStatus.PARTIAL
    by_target = {one.target: one for one in found.samples if one.metric == "write_bandwidth"}
    assert by_target["OST0000"].value == pytest.approx(15e9, rel=1e-6)
    assert by_target["OST0001"].value is None
    assert by_target["OST0001"].reason
    assert not by_target[None].believed
