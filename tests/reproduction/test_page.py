"""The committed page says what the layers say now, and what was kept of the lives."""

from __future__ import annotations

import json
from dataclasses import replace

from benchmarks.reproduction import page
from benchmarks.reproduction.life import LifeRun
from benchmarks.reproduction.predict import layers
from benchmarks.reproduction.statements import error, statements
from benchmarks.reproduction.table import DOCUMENTS, Terms
from tests.reproduction.lives import coarse, life

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
        assert (row.printed, row.unit, row.quantity) == (
            target.printed,
            target.unit,
            target.quantity,
        )
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
    again = json.loads(json.dumps([page._kept_row(seeded) for seeded in rows]))
    assert again == KEPT["rows"]


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
