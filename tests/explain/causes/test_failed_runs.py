"""Errors of failed runs as evidence: a full file system, a quota, a lost connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    OSTS,
    WELL,
    Row,
    context,
    counter,
    gauge,
    incident,
    run,
    runs,
    shows,
    space,
)
from tests.support.each import for_each

from trimtab.base.failure import Failure, failure_of
from trimtab.base.incident import NAMED, Explanation, Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes import TABLE
from trimtab.explain.causes.failed_runs import QUOTA_REACHED
from trimtab.explain.causes.network import BAD_CHECKSUMS, NETWORK
from trimtab.explain.causes.target_service import ARRAY_DEGRADED, TARGET_SILENT
from trimtab.explain.causes.target_space import TARGET_FILLING, TARGETS_OVER_LIMIT
from trimtab.explain.causes.void_run import LAUNCH_FAILURE
from trimtab.explain.context import Context, Period, RunFact
from trimtab.explain.explanation import explain
from trimtab.explain.page import cause_text

FULL = "ior write: No space left on device"
LOST = incident(Shape.DIP, effect=None, until=BAD_FROM + 2 * HOUR)
SHORT = Period(BAD_FROM, BAD_FROM + 2.5 * HOUR)


def failing(problem: str, hours: Sequence[int] = (0, 1, 2), *, each: int = 1) -> list[RunFact]:
    """Return runs that are well, apart from some that failed in these bad hours."""
    facts = [fact for fact in runs(WELL, WELL) if fact.at < BAD_FROM]
    for hour in range(12):
        at = BAD_FROM + hour * HOUR
        if hour not in hours:
            facts.append(run(at, {"write_bandwidth": WELL}))
            continue
        facts += [
            replace(
                run(at + timedelta(minutes=n), status=RunStatus.FAILED, problem=problem),
                failure=failure_of(problem),
            )
            for n in range(each)
        ]
    return facts


def full_site(*more: list[Row], problem: str = FULL) -> Context:
    """Return three hours in which probes fail, and a file system that filled up."""
    return context(
        [row for rows in (space(0.62, 0.992), *more) for row in rows],
        runs=failing(problem), of=LOST, bad=(SHORT,),
    )  # fmt: skip


def first(of: Context) -> Explanation:
    result = explain(of)
    assert result.likeliest is not None, [
        (each.cause, each.confidence) for each in (*result.causes, *result.cleared)
    ]
    return result


def test_a_full_file_system_is_named_and_what_filled_it() -> None:
    """Jobs write 70 times as much, every target fills, three probes find no space left."""
    of = full_site(counter("client_bytes_written_total", 1e9, 70e9))
    result = first(of)
    assert result.likeliest is not None
    assert result.likeliest.cause == "targets-over-limit"
    assert result.likeliest.confidence >= NAMED
    assert [cause.cause for cause in result.chain] == ["targets-over-limit", "competing-load"]
    assert result.chain_text == "targets over the fullness limit, because of load of other jobs"
    assert cause_text(result).endswith("), because of load of other jobs")


def test_no_space_left_is_enough_where_nobody_took_snapshots() -> None:
    of = context(runs=failing(FULL), of=LOST, bad=(SHORT,))
    assert first(of).chain_text == "targets over the fullness limit"


def test_no_space_left_beside_room_on_every_target_may_be_inodes() -> None:
    def weight(full: float) -> float:
        of = context(space(0.5, full), runs=failing(FULL), of=LOST, bad=(SHORT,))
        return shows(TARGETS_OVER_LIMIT, of, "runs-without-space", Found.FOR).weight

    assert weight(0.6) == pytest.approx(weight(0.99) / 2, abs=0.01)


def test_a_quota_is_not_a_full_file_system() -> None:
    quota = "write failed: Disk quota exceeded"
    of = context(space(0.5), runs=failing(quota), of=LOST, bad=(SHORT,))
    assert first(of).chain_text == QUOTA_REACHED.title
    shows(TARGETS_OVER_LIMIT, of, "runs-without-space", Found.NEUTRAL)
    shows(QUOTA_REACHED, full_site(), "runs-lost-to-quota", Found.AGAINST)


@for_each(
    "case",
    [
        (TARGET_FILLING, "runs-without-space", FULL),
        (TARGET_SILENT, "runs-with-io-error", "write: Input/output error"),
        (ARRAY_DEGRADED, "runs-with-io-error", "write: Input/output error"),
        (TARGET_SILENT, "runs-not-connected", "open: Transport endpoint is not connected"),
        (NETWORK, "runs-not-connected", "stat: Stale file handle"),
    ],
)
def test_an_error_supports_the_causes_that_make_it(case: tuple[object, str, str]) -> None:
    cause, code, problem = case
    of = context(runs=failing(problem), of=LOST, bad=(SHORT,))
    piece = shows(cause, of, code, Found.FOR)  # type: ignore[arg-type]
    assert 0 < piece.weight < 1
    # Neither of them is named by it alone: several causes make this error.
    assert explain(of).unexplained or code == "runs-without-space"
    usual = context(runs=[*failing(problem, hours=()), *_before(problem)], of=LOST, bad=(SHORT,))
    assert shows(cause, usual, code).weight <= 0  # type: ignore[arg-type]


def _before(problem: str) -> list[RunFact]:
    facts = failing(problem)
    return [replace(fact, at=fact.at - 24 * HOUR) for fact in facts if fact.failure is not None]


def test_errors_that_come_in_good_hours_as_well_weigh_less() -> None:
    of = context(runs=failing(FULL), of=LOST, bad=(SHORT,))
    beside = context(runs=[*failing(FULL), *_before(FULL) * 5], of=LOST, bad=(SHORT,))
    alone, usual = (
        shows(TARGETS_OVER_LIMIT, each, "runs-without-space").weight for each in (of, beside)
    )
    assert usual < alone - 0.3


def test_a_run_that_was_well_reports_nothing() -> None:
    odd = [replace(fact, failure=Failure.NO_SPACE) for fact in runs(WELL, WELL)]
    of = context(runs=odd, of=LOST, bad=(SHORT,))
    shows(TARGETS_OVER_LIMIT, of, "runs-without-space", Found.NEUTRAL)


def test_wrong_data_are_seen_by_the_number_of_their_error() -> None:
    of = context(runs=failing("fio: error=84"), of=LOST, bad=(SHORT,))
    shows(BAD_CHECKSUMS, of, "data-verified", Found.FOR)


def test_runs_that_failed_are_counted_as_the_incident_counts_them() -> None:
    """``0 of 56 runs failed`` stood beside ``3 runs failed``."""
    piece = shows(LAUNCH_FAILURE, full_site(), "runs-not-started", Found.AGAINST, value=1.0)
    assert piece.what.startswith("3 of 3 runs failed or did not start")
    assert "0 of them before they measured" in piece.what


def test_both_figures_of_fullness_say_which_they_are() -> None:
    filling = gauge("used_bytes", 0.62 * 133e12, lambda _, at:
                    (0.992 if at >= BAD_FROM + 2 * HOUR else 0.62) * 133e12)  # fmt: skip
    rows = [row for row in space(0.62) if row["name"] != "used_bytes"]
    rows = [row for row in rows if row["name"] != "available_bytes"]
    rows += gauge("available_bytes", 0.38 * 133e12, lambda _, at:
                  (0.008 if at >= BAD_FROM + 2 * HOUR else 0.38) * 133e12)  # fmt: skip
    of = context([*rows, *filling], runs=failing(FULL), of=LOST, bad=(SHORT,))
    now = shows(TARGETS_OVER_LIMIT, of, "over-limit-now")
    assert f"{len(OSTS)} of {len(OSTS)} targets" in now.what
    assert "at some time in the bad hours" in now.what
    (typical,) = [
        piece
        for piece in TARGETS_OVER_LIMIT.evidence(of)
        if piece.what.code in ("over-limit-share", "fullest-in-time")
    ]
    assert "in the median six hours of the bad hours" in typical.what
    assert typical.quantity != now.quantity


def test_no_cause_brings_itself_about() -> None:
    links = {each.id: each.brings_about for each in TABLE}

    def after(start: str, seen: frozenset[str] = frozenset()) -> set[str]:
        return {
            found
            for other in links[start]
            if other not in seen
            for found in {other} | after(other, seen | {other})
        }

    assert all(name not in after(name) for name in links)


@pytest.mark.parametrize(("problem", "named"), [
    ("ssh: Could not resolve hostname nid0007", True), ("no answer from the launcher", False),
])  # fmt: skip
def test_runs_that_hang_while_names_do_not_resolve_are_explained(problem: str, named: bool) -> None:
    """Three runs never begin, two that had begun hang: one outage of the name service."""
    facts = [fact for fact in runs(WELL, WELL) if fact.at < BAD_FROM]
    for hour in range(5):
        at, begun = BAD_FROM + hour * HOUR, hour in (1, 3)
        status = RunStatus.UNFINISHED if begun else RunStatus.NOT_STARTED
        text = "ended by its deadline" if begun else problem
        facts.append(replace(run(at, status=status, problem=text), failure=failure_of(text)))
    of = context(
        runs=facts, of=incident(Shape.DIP, effect=None, until=BAD_FROM + 4 * HOUR),
        bad=(Period(BAD_FROM, BAD_FROM + 4.5 * HOUR),),
    )  # fmt: skip
    result = explain(of)
    assert (result.likeliest is not None and result.likeliest.cause == "launch-failure") == named
