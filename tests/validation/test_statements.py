"""The table of printed figures: read strictly, each row once, each number in base units."""

from __future__ import annotations

import pytest

from trimtab.validation import statements as module
from trimtab.validation.statements import Figure, Statement, needing, statements

RECORD = {
    "needs": "time", "id": "46-fullness", "document": "000", "layer": "policy",
    "quantity": "optimal fullness", "relation": "=", "printed": "0.75", "unit": "1", "data": "",
    "note": "",
}  # fmt: skip


def test_each_group_is_part_of_the_table_in_its_order():
    groups = [needing("layers"), needing("time"), needing("nothing"), needing("runs")]
    assert [statement for group in groups for statement in group] == list(statements().values())
    assert all(groups)


def test_a_record_becomes_a_statement():
    assert module._statement(RECORD) == Statement(
        "46-fullness", "000", "policy", "optimal fullness", Figure(0.75), "1", needs="time"
    )
    words = {**RECORD, "relation": "", "printed": "about 75 %", "data": "data"}
    assert (module._statement(words).printed, module._statement(words).data) == ("about 75 %", True)


@pytest.mark.parametrize(
    "wrong", [{"relation": "~"}, {"needs": "luck"}, {"printed": "much"}, {"printed": ""}]
)
def test_a_record_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 (a bug of the table, not a user's)
        module._statement({**RECORD, **wrong})


@pytest.mark.parametrize("id", ["2-write", "36-saferet", "23-first"])
def test_documents_and_units_are_known(id):
    statement = statements()[id]
    assert statement.seed in {"000", "001", "002", "003", "004"}
    assert statement.unit in {"1", "1/s", "B/s", "B", "s", "d"}
