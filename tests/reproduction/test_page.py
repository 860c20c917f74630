"""Printed figures as a table, read strictly, and the committed page."""

import json
from dataclasses import replace

import pytest
from benchmarks.reproduction import page
from benchmarks.reproduction import statements as module
from benchmarks.reproduction.life import LifeRun
from benchmarks.reproduction.predict import layers
from benchmarks.reproduction.statements import Figure, Statement, error, needing, statements
from benchmarks.reproduction.table import DOCUMENTS, Terms
from tests.reproduction.lives import coarse, life

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


# The page says what the layers say now, and what was kept of the lives


KEPT = json.loads(page.KEPT.read_text())


def test_the_page_is_what_it_would_be() -> None:
    text = page.PAGE.read_text()
    assert page.made(text) == text


def test_every_row_stands_on_the_page_once() -> None:
    text = page.PAGE.read_text()
    rows = {seeded.row.id: seeded.row for seeded in page.rows_of(KEPT)}
    for id in statements():
        predictions = rows[id].row_class == "prediction"
        assert text.count(f"\n| {id} |") == 1 + predictions, id
    assert sum(line.startswith("### ") for line in text.splitlines()) == len(DOCUMENTS)


def test_kept_rows_are_those_of_whole_lives_and_printed_as_now() -> None:
    assert KEPT["seeds"] == Terms().seeds
    assert set(KEPT["version"].split("+")) - {""}
    layer_ids = {seeded.row.id for seeded in layers()}
    ids = [row["id"] for row in KEPT["rows"]]
    assert sorted(ids) == sorted(set(statements()) - layer_ids)
    for told in page.rows_of(KEPT):
        row = told.row
        if row.id in layer_ids:
            continue
        target = statements()[row.id]
        printed = (target.printed, target.unit, target.quantity)
        assert (row.printed, row.unit, row.quantity) == printed
        assert "no run came that far" not in row.note
        assert told.unscored is None, row.id
        if row.kind in ("fitted", "predicted"):
            assert row.error == error(target.printed, row.twin), row.id
            assert told.verdict is not None, row.id
        if target.declared is not None:
            assert row.row_class == target.declared, row.id


def test_rows_are_kept_as_they_are_read() -> None:
    layer_ids = {seeded.row.id for seeded in layers()}
    rows = [seeded for seeded in page.rows_of(KEPT) if seeded.row.id not in layer_ids]
    assert json.loads(json.dumps([page._kept_row(seeded) for seeded in rows])) == KEPT["rows"]


def test_the_table_of_classes_counts_each_row_then_and_now() -> None:
    lines = page._classes(KEPT["then"], page.rows_of(KEPT))
    total = [int(cell) for cell in lines[-1].split("|")[2:-1]]
    assert total[0] == len(KEPT["then"]["rows"]) == 131
    assert total[1] == len(KEPT["then"]["within"]) == 72
    assert total[2] == len(statements()) == sum(total[3:])


def test_a_table_that_was_changed_by_hand_is_noticed() -> None:
    text = page.PAGE.read_text()
    changed = text.replace("| 2-write |", "| 2-writes |", 1)
    assert changed != text
    assert page.made(changed) == text


def test_lives_that_are_kept_are_not_lived_again(tmp_path) -> None:
    runs = [LifeRun("one", coarse("eth-euler")), LifeRun("two", coarse("eth-euler"))]
    lived: list[str] = []

    def together(asked):
        for run in asked:
            lived.append(run.name)
            yield life(scenario=run.scenario)

    answer = page.kept_lives(tmp_path / "lives", together)
    first = list(answer(runs))
    assert [one.scenario for one in answer(runs)] == [one.scenario for one in first]
    assert lived == ["one", "two"]
    # Another time to simulate is another life.
    list(answer([*runs, replace(runs[0], until_s=86400.0)]))
    assert lived == ["one", "two", "one"]
