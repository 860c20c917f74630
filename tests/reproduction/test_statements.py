"""The table of printed figures: read strictly, each row once, each number in base units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.reproduction import statements as module
from benchmarks.reproduction.statements import Figure, Statement, needing, statements

RECORD = {
    "needs": "time", "id": "46-fullness", "document": "S1", "layer": "policy",
    "quantity": "optimal fullness", "relation": "=", "printed": "0.75", "upto": "", "unit": "1",
    "data": "", "class": "", "group": "", "note": "",
}  # fmt: skip


def test_each_group_is_part_of_the_table_in_its_order():
    groups = [needing("layers"), needing("time"), needing("nothing"), needing("runs")]
    assert [statement for group in groups for statement in group] == list(statements().values())
    assert all(groups)


def test_a_record_becomes_a_statement():
    assert module._statement(RECORD) == Statement(
        "46-fullness", "S1", "policy", "optimal fullness", Figure(0.75), "1", needs="time"
    )
    words = {**RECORD, "relation": "", "printed": "about 75 %", "data": "data"}
    assert (module._statement(words).printed, module._statement(words).data) == ("about 75 %", True)
    ranged = module._statement({**RECORD, "upto": "0.8", "class": "input", "group": "knee"})
    assert ranged.printed == Figure(0.75, upto=0.8)
    assert (ranged.declared, ranged.group) == ("input", "knee")


@pytest.mark.parametrize(
    "wrong", [{"relation": "~"}, {"needs": "luck"}, {"printed": "much"}, {"class": "luck"}]
)
def test_a_record_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 (a bug of the table, not a user's)
        module._statement({**RECORD, **wrong})


@pytest.mark.parametrize("id", ["2-write", "36-saferet", "23-first"])
def test_documents_and_units_are_known(id):
    statement = statements()[id]
    assert statement.seed in {"S1", "S2", "S3", "S4", "S5"}
    assert statement.unit in {"1", "1/s", "B/s", "B", "s", "d"}


@pytest.mark.parametrize(
    ("figure", "low", "high", "verdict"),
    [
        (Figure(10.0), 9.1, 10.9, "met"),
        (Figure(10.0), 9.1, 11.1, "open"),
        (Figure(10.0), 1.0, 100.0, "open"),  # an interval that holds everything shows nothing
        (Figure(10.0), 11.1, 12.0, "missed"),
        (Figure(-0.14), -0.15, -0.13, "met"),
        (Figure(10.0, ">="), 10.0, 90.0, "met"),
        (Figure(10.0, ">="), 9.99, 9.99, "missed"),  # a bound has no tenth
        (Figure(10.0, ">="), 9.0, 11.0, "open"),
        (Figure(0.0, "<="), 0.0, 0.0, "met"),
        (Figure(1.0, upto=2.0), 0.9, 2.2, "met"),
        (Figure(1.0, upto=2.0), 2.3, 5.0, "missed"),
    ],
)
def test_a_verdict_is_of_the_whole_interval(figure, low, high, verdict):
    assert figure.verdict(low, high) == verdict


def test_seeds_decide_and_not_their_mean():
    by_chance = module.seeded_row("24-minimum", [0.1e9, 0.42e9])
    assert by_chance.row.error == pytest.approx(0.0)
    assert (by_chance.verdict, by_chance.missed) == ("open", False)
    assert module.seeded_row("24-minimum", [0.25e9, 0.27e9]).verdict == "met"
    unscored = replace(by_chance, unscored="2 seeds")
    assert (unscored.verdict, unscored.missed) == (None, False)


def test_the_least_that_can_be_said_of_a_row_is_its_class():
    def class_of(relation: module.Relation = "=", **told):
        statement = Statement("x", "S5", "client", "", Figure(5, relation), "1")
        return module.row(statement, 5.0, **told).row_class

    assert class_of() == "prediction"
    assert class_of(computed="identity") == "identity"
    assert class_of(">=", computed="identity") == "bound"
    assert class_of(">=", computed="identity", fitted=True) == "fitted"
    words = Statement("x", "S5", "client", "MLPerf", "much", "1", data=True)
    assert module.row(words, 5.0).row_class == "outside"
    assert module.row(replace(words, declared="input"), 5.0).row_class == "input"


def test_each_line_that_is_no_row_says_why():
    for statement in statements().values():
        if statement.declared == "outside":
            assert statement.note, statement.id
