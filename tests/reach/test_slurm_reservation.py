"""Reservations of Slurm as it prints them, torn and made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.error import ToolError
from trimtab.base.maintenance_window import LONGEST
from trimtab.reach.process import ProcessResult
from trimtab.reach.slurm_client import Client
from trimtab.reach.slurm_reservation import planned_by_slurm, windows_in

RECORDED = Path(__file__).parents[1] / "fixtures/slurm_reservation/22.05.8"
SHOWN = (RECORDED / "show.out").read_text()


def test_only_a_maintenance_of_all_nodes_is_a_window() -> None:
    (window,) = windows_in(SHOWN, "scratch")
    assert (window.why, window.source) == ("reservation firmware", "slurm")
    assert window.at == datetime.fromtimestamp(1796071407, UTC)
    assert window.until - window.at == timedelta(hours=2)
    assert [each.id for each in windows_in(SHOWN, "scratch")] == [window.id]
    moved = SHOWN.replace("EndTime=1796078607", "EndTime=1796078608", 1)
    assert next(windows_in(moved, "scratch")).id != window.id


def test_without_reservations_there_is_none() -> None:
    assert [*windows_in((RECORDED / "none.out").read_text(), "scratch")] == []
    assert [*windows_in("", "scratch")] == []


@pytest.mark.parametrize(
    "text",
    [
        (RECORDED / "show_local.out").read_text(),
        SHOWN[:-1],
        "slurm_load_reservations error: Unable to contact slurm controller\n",
        SHOWN.replace("1796071407", "9" * 30, 1),
        SHOWN.replace("StartTime=", "Start=", 1),
    ],
)
def test_what_is_no_reservation_with_seconds_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="no reservation as expected"):
        list(windows_in(text, "scratch"))


@given(st.integers(0, len(SHOWN)), st.text(max_size=20))
def test_a_torn_or_altered_answer_gives_no_other_window(place: int, word: str) -> None:
    whole = {(each.at, each.until) for each in windows_in(SHOWN, "scratch")}
    try:
        found = {(each.at, each.until) for each in windows_in(SHOWN[:place], "scratch")}
    except ToolError:
        found = set()
    assert found <= whole
    try:
        windows = [*windows_in(SHOWN[:place] + word + SHOWN[place:], "scratch")]
    except ToolError:
        return
    assert all(each.at < each.until <= each.at + LONGEST for each in windows)


def test_a_controller_that_is_silent_is_told() -> None:
    def run(argv: tuple[str, ...], **_: object) -> ProcessResult:
        assert argv == ("scontrol", "--oneliner", "show", "reservation")
        error = b"slurm_load_reservations error"
        return ProcessResult(argv, b"", error, 1, None, datetime.now(UTC), 0.1, 9.0)

    with pytest.raises(ToolError, match="slurm_load_reservations error"):
        planned_by_slurm(Client({"scontrol": "scontrol"}, run), "scratch")
