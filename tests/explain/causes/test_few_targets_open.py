"""`few-targets-open`: targets closed to new files, by whom, and why."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOUR, MDTS, OSTS, event, gauge, missing, space
from tests.explain.causes.storage import NIGHTLY, both, sound

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.storage.few_targets_open import CAUSE

CLOSED = OSTS[:10]
CLOSING = event(
    EventKind.TARGET_CLOSED, BAD_FROM - timedelta(minutes=20), "over 75 % full",
    targets=CLOSED, source="journal",
)  # fmt: skip


def _closed(*targets: str) -> list[dict[str, object]]:
    return gauge("create_enabled", True, False, targets=targets)


def test_closed_now() -> None:
    # Most targets closed with the incident.
    of = sound(_closed(*CLOSED))
    assert weight_of(CAUSE, of) > 2
    shows(CAUSE, of, "closed-now", Found.FOR, value=0.833333)
    shows(CAUSE, of, "closed-in-time", Found.FOR)
    # All open is against.
    shows(CAUSE, sound(), "all-open", value=0.0, weight=-1.5)


@pytest.mark.parametrize(("n", "outcome"), [(1, Found.AGAINST), (3, Found.NEUTRAL), (6, Found.FOR)])
def test_a_quarter_closed_is_where_layouts_break(n: int, outcome: Found) -> None:
    shows(CAUSE, sound(_closed(*OSTS[:n])), "closed-now", outcome)


def test_read_only_targets_are_closed_too() -> None:
    of = sound(gauge("read_only", False, True, targets=CLOSED))
    shows(CAUSE, of, "closed-now", Found.FOR, value=0.833333)


def test_closed_in_all_hours_is_a_standing_condition() -> None:
    of = sound(gauge("create_enabled", False, targets=CLOSED))
    shows(CAUSE, of, "closed-in-time", throughout=True, weight=0)


def test_closed_after_the_first_bad_runs_did_not_make_them() -> None:
    late = gauge("create_enabled", True, lambda _, at: at < BAD_FROM + 8 * HOUR, targets=CLOSED)
    onset = shows(CAUSE, sound(late), "onset-late")
    assert (onset.weight, onset.at) == (-0.8, BAD_FROM + 8 * HOUR)


def test_the_cure_that_became_the_cause_is_said_to_be_one() -> None:
    of = sound(_closed(*CLOSED), space(0.78, targets=CLOSED), events=(*NIGHTLY, CLOSING))
    shows(CAUSE, of, "closing-logged", Found.FOR)
    shows(CAUSE, of, "closed-by-mitigation", Found.NEUTRAL, targets=CLOSED)


def test_closed_though_they_are_not_full_is_no_mitigation() -> None:
    of = sound(_closed(*CLOSED))
    shows(CAUSE, of, "why-closed", value=0.0, weight=0)


def test_a_person_that_closed_them_is_no_policy() -> None:
    entry = event(EventKind.TARGET_CLOSED, BAD_FROM - HOUR, "to be emptied", targets=CLOSED)
    shows(CAUSE, sound(_closed(*CLOSED), events=[entry]), "event-logged", Found.FOR)


def test_one_mdt_that_uses_few_osts() -> None:
    apart = gauge("create_enabled", True, False, targets=CLOSED, label=MDTS[1])
    opened = gauge("create_enabled", True, targets=CLOSED)
    of = sound(opened, [row for row in apart if row["at"] >= BAD_FROM])
    shows(CAUSE, of, "closed-for-one-mdt", Found.FOR, value=0.833333)
    # Half of all files are still made everywhere.
    shows(CAUSE, of, "closed-in-time", value=10 / 12 / 2)


def test_what_the_open_targets_carry() -> None:
    of = sound(_closed(*CLOSED), runs=both(0.2, 1.0))
    shows(CAUSE, of, "open-enough", Found.FOR, value=29999999999.999992)
    shows(CAUSE, sound(), "open-enough", Found.NEUTRAL, value=180000000000.0)


def test_not_known_whether_they_are_open() -> None:
    of = sound(missing("create_enabled", "lctl: permission denied"), but=("read_only",))
    pieces = [piece for piece in CAUSE.assess(of) if "create_enabled" in (piece.source or "")]
    assert pieces
    assert all("permission denied" in (piece.reason or "") for piece in pieces)
