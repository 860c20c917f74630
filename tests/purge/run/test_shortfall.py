"""Whether a run did what its plan said: what users do meanwhile is no failure of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trimtab import _core
from trimtab.purge.run.exchange import Objection, StopReason
from trimtab.purge.run.run_guard import GUARDS
from trimtab.purge.run.run_result import EXCUSED, WAITS, RunResult, shortfall

GIB = 2**30


def result(
    sizes: Mapping[str, int] | None = None,
    reason: StopReason = StopReason.EXHAUSTED,
    guards: tuple[str, ...] = (),
) -> RunResult:
    objections = tuple(Objection(guard, "why") for guard in guards)
    sizes = sizes or {}
    return RunResult(
        id="r", apply=True, reason=reason, text="why", objections=objections, files=0, bytes=0,
        freed_bytes=0, outcomes={}, before=None, after=None, rows_left=0, recovered_rows=0,
        unexplained=(), journal=Path("j"), outcome_bytes=sizes,
    )  # fmt: skip


def test_the_words_are_those_of_the_core_and_of_the_guards() -> None:
    assert set(_core.REMOVAL_OUTCOMES.values()) >= EXCUSED
    assert {guard.name for guard in GUARDS} >= WAITS


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"deleted": GIB},
        {"gone": 500 * GIB, "touched": 400 * GIB, "exempt": 90 * GIB, "deleted": 10 * GIB},
        {"gone": GIB},
        {"deleted": 95 * GIB, "failed": 5 * GIB},
        {"deleted": GIB, "capped": 100 * GIB, "not_begun": 100 * GIB},
    ],
)
def test_what_is_excused_or_hardly_anything_is_no_shortfall(sizes: Mapping[str, int]) -> None:
    assert shortfall(result(sizes)) is None


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"deleted": 80 * GIB, "failed": 20 * GIB}, "80.0 GiB of the 100 GiB"),
        ({"open_unknown": GIB, "gone": 99 * GIB}, "0 B of the 1.00 GiB"),
        ({"deleted": GIB, "denied": 2 * GIB, "failed": GIB}, "2.00 GiB are denied"),
    ],
)
def test_what_nothing_excuses_is_one(sizes: Mapping[str, int], text: str) -> None:
    short = shortfall(result(sizes))
    assert short is not None
    assert short.code == "purge-short"
    assert text in short


@pytest.mark.parametrize("reason", StopReason)
def test_how_runs_end(reason: StopReason) -> None:
    fine = {
        StopReason.TARGET, StopReason.EXHAUSTED, StopReason.FILES_CAP, StopReason.BYTES_CAP,
        StopReason.OUT_OF_TIME, StopReason.OVERTAKEN,
    }  # fmt: skip
    failed = shortfall(result({"deleted": GIB}, reason, ("mount",)))
    assert (failed is None) is (reason in fine)


def test_a_run_whose_time_has_not_come_waits() -> None:
    for guards in (("armed",), ("published", "armed"), ("caps",)):
        assert shortfall(result(reason=StopReason.REFUSED, guards=guards)) is None
    refused = shortfall(result(reason=StopReason.REFUSED, guards=("armed", "valid")))
    assert refused == "it was refused (armed: why; valid: why)"
