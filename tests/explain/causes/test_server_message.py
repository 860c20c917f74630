"""Kernel logs as evidence: more often than in good hours, about one target, one client, or all."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

from tests.explain.causes.contexts import BAD, GOOD, HOUR, OSTS, context, event
from tests.support.each import for_each

from trimtab.base.encode import dumps
from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Evidence, Found
from trimtab.base.server_message import KERNEL_LOG, MessageFamily, ServerMessage
from trimtab.explain.causes import TABLE
from trimtab.explain.context import Context
from trimtab.explain.explanation import explain
from trimtab.explain.page import incident_sections
from trimtab.explain.page_web_incident import _time_line

NID, OTHER = "10.0.0.9@tcp", "10.0.0.8@tcp"
CODES = {
    "target-silent": "target-logged",
    "network": "connections-logged",
    "client-node": "client-logged",
    "failover": "recovery-logged",
}


def _said(
    family: MessageFamily, at: datetime, count: int = 1, target: str = OSTS[3], *clients: str
) -> Event:
    message = ServerMessage(at, "oss1", family, count, target, clients)
    return event(EventKind.SERVER_MESSAGE, at, message.detail, targets=[target], source=KERNEL_LOG)


def _with(*messages: Event) -> Context:
    return replace(context(), messages=messages)


def _evidence(id_: str, of: Context) -> list[Evidence]:
    [cause] = (cause for cause in TABLE if cause.id == id_)
    return [piece for piece in cause.assess(of) if piece.what.code == CODES[id_]]


@for_each("id_", CODES)
def test_no_message_says_nothing(id_: str) -> None:
    assert _evidence(id_, _with()) == []
    # Nor does one of good hours alone, or after what is known.
    heard = MessageFamily.LOCK_TIMEOUT
    late = context().now + HOUR
    assert _evidence(id_, _with(_said(heard, GOOD.from_ + HOUR, 9), _said(heard, late, 9))) == []


@for_each(
    "id_, family, weight",
    [
        ("target-silent", MessageFamily.REQUEST_TIMEOUT, 0.6),
        ("network", MessageFamily.CONNECTION_LOST, 0.5),
        ("client-node", MessageFamily.UNHEARD, 0.4),
        ("failover", MessageFamily.NOT_RECOVERED, 0.4),
    ],
)
def test_what_begins_with_the_bad_hours_supports(
    id_: str, family: MessageFamily, weight: float
) -> None:
    at = BAD.from_ + timedelta(minutes=2)
    [piece] = _evidence(id_, _with(_said(family, at, 90, OSTS[3], NID)))
    assert (piece.found, piece.weight, piece.at) == (Found.FOR, weight, at)
    assert piece.targets == (OSTS[3],)
    assert f"{family}, 90 times ({OSTS[3]})" in piece.what
    assert "none in the good hours [kernel log of oss1]" in piece.what
    [alone] = _evidence(id_, replace(_with(_said(family, at, 90, OSTS[3], NID)), good=()))
    assert alone.found is Found.NEUTRAL
    # As often in every hour: usual here.
    hours = (GOOD.to - GOOD.from_) // HOUR
    often = [_said(family, GOOD.from_ + HOUR * n, 90, OSTS[3], NID) for n in range(hours)]
    bad = [_said(family, BAD.from_ + HOUR * n, 90) for n in range((BAD.to - BAD.from_) // HOUR)]
    [usual] = _evidence(id_, _with(*often, *bad))
    assert usual.found is Found.NEUTRAL


def test_a_target_is_silent_only_if_the_messages_are_about_it() -> None:
    at = BAD.from_ + HOUR
    family = MessageFamily.REQUEST_TIMEOUT
    messages = [_said(family, at, 30, target) for target in OSTS[:4]]
    [piece] = _evidence("target-silent", _with(*messages))
    assert piece.found is Found.NEUTRAL
    [piece] = _evidence("target-silent", _with(*messages[1:], _said(family, at, 900, OSTS[0])))
    assert piece.found is Found.FOR


def test_a_client_is_bad_only_if_hardly_any_other_is_evicted() -> None:
    at = BAD.from_ + HOUR
    family = MessageFamily.UNHEARD
    alone = [_said(family, at, 1, target, NID) for target in OSTS]
    [piece] = _evidence("client-node", _with(*alone))
    assert piece.found is Found.FOR
    both = [_said(family, at, 1, target, OTHER) for target in OSTS]
    [piece] = _evidence("client-node", _with(*alone, *both))
    assert piece.found is Found.NEUTRAL


def test_an_explanation_lists_messages_by_hour_on_the_time_axis_of_the_incident() -> None:
    family = MessageFamily.LOCK_TIMEOUT
    at = BAD.from_ + timedelta(minutes=10)
    of = _with(
        _said(family, BAD.from_ - timedelta(days=2), 7),
        *(_said(family, at + timedelta(minutes=n), 2, OSTS[n], NID) for n in (0, 1)),
        _said(family, at + HOUR, 1),
    )
    explanation = explain(of)
    assert [(hour.at, hour.count, hour.targets) for hour in explanation.messages] == [
        (at, 4, OSTS[:2]), (at + HOUR, 1, OSTS[3:4]),
    ]  # fmt: skip
    folds = dict(next(incident_sections(explanation)).folds)
    assert "client evicted after a lock timeout" in str(folds["kernel logs"])
    document = json.loads(dumps(explanation))
    rows = _time_line(explanation.incident, document, [])
    assert rows == sorted(rows, key=lambda row: row[0])
    told = f"{family}, 4 times ({OSTS[0]}, {OSTS[1]}), by {NID}"
    assert (at, "kernel log of oss1", told) in rows
