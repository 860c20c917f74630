"""What a comparison with goldens sees, and what it does not; that every command has one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from scripts.goldens import commands, kept, pages
from scripts.goldens.facts import ROWS_MOST, SENTENCE, normal

GOLDENS = Path(__file__).with_name("goldens")
BYTES_MOST = 5 * 2**20
ANSWER = {
    "command": "status scratch",
    "exit": 0,
    "document": {
        "run": "01a1f640-bc00-7123-8456-0123456789ab",
        "status": "met",
        "mean": 1.5e9,
        "reason": "3 of at least 24 runs in the window of 48 h",
        "reason_code": "too-few-runs",
        "notes": ["two runs are too old", "not coded"],
        "notes_codes": ["runs-old", None],
        "hint": "take another look at the site file",
        "elapsed_s": 1.25,
        "rows": [{"target": f"OST{n:04x}", "value": n} for n in range(ROWS_MOST * 2)],
        "few": [1, 2, 3],
    },
}


def compared(change: Any) -> list[str]:
    """Return what differs once an answer was changed."""
    changed = copy.deepcopy(ANSWER)
    change(changed, changed["document"])
    return kept.differences({"g": normal(ANSWER)}, {"g": normal(changed)})


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda answer, _: answer.update(exit=4), "g $.exit: 0 -> 4"),
        (lambda _, d: d.update(mean=1.50001e9), "g $.document.mean: 1500000000.0 -> 1500010000.0"),
        (lambda _, d: d.update(status="missed"), 'g $.document.status: "met" -> "missed"'),
        (lambda _, d: d["few"].pop(), "g $.document.few[2]: 3 -> absent"),
        (lambda _, d: d.pop("hint"), 'g $.document.hint: "<sentence>" -> absent'),
        (lambda _, d: d.update(hint=None), 'g $.document.hint: "<sentence>" -> null'),
        (
            lambda _, d: d.update(reason_code="too-short"),
            'g $.document.reason.code: "too-few-runs" -> "too-short"',
        ),
        (
            lambda _, d: d.update(reason=d["reason"].replace("24", "25")),
            "g $.document.reason.figures[1]: 24.0 -> 25.0",
        ),
    ],
)
def test_what_changes_an_answer_is_seen_and_named(change: Any, difference: str) -> None:
    assert compared(change) == [difference]


def test_rows_of_a_long_list_are_seen() -> None:
    assert any(".rows[8].rows" in line for line in compared(lambda _, d: d["rows"].pop()))
    late = compared(lambda _, d: d["rows"][-1].update(value=-1))
    assert [line.partition(":")[0] for line in late] == ["g $.document.rows[8].digest"]


@pytest.mark.parametrize(
    "change",
    [
        lambda _, d: d.update(reason="within 48 h there are 3 runs of the 24 that are needed"),
        lambda _, d: d.update(hint="the site file says more about it"),
        lambda _, d: d.update(notes=["a pair of old runs", "has no code"]),
        lambda _, d: d.update(elapsed_s=7.0),
        lambda _, d: d.update(run="01a1f640-bc00-7fff-8fff-ffffffffffff"),
        lambda _, d: d.update(mean=1.5e9 * (1 + 1e-14)),
    ],
)
def test_other_words_and_what_is_of_a_run_alone_are_not(change: Any) -> None:
    assert compared(change) == []


def test_a_golden_that_is_gone_or_new_is_seen() -> None:
    one = {"g": normal(ANSWER)}
    assert [line[:8] for line in kept.differences(one, {})] == ['g $: {"c']
    assert kept.differences({}, one)[0].startswith("g $: absent -> ")


def test_a_page_is_its_figures_cells_and_marks() -> None:
    chart = '<svg class="drawing"><g class="mark-symbol role-mark">{}</g></svg>'
    page = (
        "<title>x</title><p>Slower by {figure} % since June</p><table><tr><td>{cell}</td></tr>"
        "</table>" + chart
    )

    def facts(figure: object = 8, cell: str = "met", marks: int = 2, words: str = "June") -> Any:
        filled = page.replace("June", words).format("<path/>" * marks, figure=figure, cell=cell)
        return pages.facts(filled)

    assert facts() == {
        "title": "x",
        "figures": [[8.0]],
        "tables": [[["met"]]],
        "charts": [{"mark-symbol": 2}],
    }
    assert facts(words="the first of June") == facts()
    for other in (facts(figure=9), facts(cell="missed"), facts(marks=3)):
        assert other != facts()


def test_goldens_are_read_as_they_were_written(tmp_path: Path) -> None:
    goldens = {"a": normal(ANSWER), "b/c": {"empty": [], "text": "x" * 200}}
    kept.write(tmp_path, goldens)
    assert kept.read(tmp_path) == goldens
    kept.write(tmp_path, {"a": 1})
    assert kept.read(tmp_path) == {"a": 1}


def test_every_command_has_a_golden_or_a_reason() -> None:
    goldens = kept.read(GOLDENS)
    assert commands.uncovered(goldens.values()) == []
    answers = [golden for golden in goldens.values() if "command" in golden]
    without = [golden for golden in answers if not golden["command"].startswith("trim ")]
    assert commands.uncovered(without) == ["`trim` has no golden: add one, or a line to LEFT_OUT"]


def test_goldens_hold_no_words_of_a_place_and_are_few() -> None:
    paths = list(GOLDENS.rglob("*.json"))
    assert sum(path.stat().st_size for path in paths) <= BYTES_MOST
    for path in paths:
        written = path.read_text()
        assert "Traceback" not in written
        assert str(Path.cwd()) not in written, path


def test_sentences_are_known_from_names() -> None:
    assert normal("the index is too old") == SENTENCE
    for name in ("OST0003", "imported (ior)", "SELECT path FROM files", "/scratch/two words", ""):
        assert normal(name) == name
