"""`failover`: targets away from home, on a server that has its own as well."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOME, HOUR, OSTS, event, gauge, missing, survey
from tests.explain.causes.storage import NIGHTLY, OST_WRITE, sound

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.storage.failover import CAUSE

AWAY = OSTS[:2]  # home oss0
CROWDED = OSTS[:4]  # with those of oss1
EVENT = event(EventKind.FAILOVER, BAD_FROM - HOUR / 4, "oss0 down", targets=AWAY)


def _served(name: str, away: Any = "oss1") -> list[dict[str, Any]]:
    return gauge("server", "oss0" if name == "bad" else away, away, targets=AWAY)


def test_away_from_home() -> None:
    # Targets that moved to another server.
    of = sound(
        _served("bad"), surveys=survey(OST_WRITE, 7e9, slow_targets=CROWDED),
        events=(*NIGHTLY, EVENT),
    )  # fmt: skip
    assert weight_of(CAUSE, of) > 2.5
    time = shows(CAUSE, of, "away-from-home", value=1.0, targets=("OST0000", "OST0001"))
    assert (time.found, time.targets) == (Found.FOR, AWAY)
    shows(CAUSE, of, "server-doubled", value=2.0)
    shows(CAUSE, of, "slow-on-doubled", Found.FOR, targets=CROWDED)
    shows(CAUSE, of, "event-logged", Found.FOR)
    # All at home is against.
    assert shows(CAUSE, sound(), "away-from-home", value=0.0).weight <= -1
    # The flag alone does.
    flag = gauge("failover_active", False, True, targets=AWAY)
    of = sound(flag, but=["server"])
    shows(CAUSE, of, "away-from-home", Found.FOR, value=1.0, targets=("OST0000", "OST0001"))
    shows(CAUSE, of, "server-doubled", Found.NOT_AVAILABLE)
    # Without a named home the usual server is it.
    of = sound(_served("bad"), but=["failover_active"], home={})
    shows(CAUSE, of, "away-from-home", Found.FOR, value=1.0, targets=("OST0000", "OST0001"))
    # Away in all hours is a standing condition.
    for of in (
        sound(_served("all")),
        sound(_served("all"), gauge("failover_active", True, targets=AWAY), home={}),
    ):
        shows(
            CAUSE,
            of,
            "away-from-home",
            value=1.0,
            targets=("OST0000", "OST0001"),
            throughout=True,
            weight=0,
        )


def test_a_failover_after_the_first_bad_runs_did_not_make_them() -> None:
    late = gauge(
        "server", "oss0", lambda _, at: "oss1" if at >= BAD_FROM + 7 * HOUR else "oss0",
        targets=AWAY,
    )  # fmt: skip
    entry = event(EventKind.FAILOVER, BAD_FROM + 7 * HOUR)
    of = sound(late, events=[entry])
    onset = shows(CAUSE, of, "onset-late")
    assert (onset.weight, onset.at) == (-0.8, BAD_FROM + 7 * HOUR)
    shows(CAUSE, of, "event-logged-late", Found.NEUTRAL)


def test_slow_targets_of_other_servers_are_not_its_doing() -> None:
    of = sound(_served("bad"), surveys=survey(OST_WRITE, 7e9, slow_targets=OSTS[6:9]))
    shows(CAUSE, of, "slow-on-doubled", Found.AGAINST)


def test_one_server_of_three_targets_is_not_doubled() -> None:
    moved = gauge("server", HOME[OSTS[0]], "oss1", targets=OSTS[:1])
    shows(CAUSE, sound(moved), "server-doubled", value=1.5)
    shows(CAUSE, sound(moved), "server-doubled", Found.NEUTRAL)


@pytest.mark.parametrize("name", ["failover_active", "server"])
def test_servers_that_nobody_could_ask(name: str) -> None:
    rows = [row for n in ("failover_active", "server") for row in missing(n, "no route to host")]
    shows(CAUSE, sound(rows, but=[name]), "away-from-home", Found.NOT_AVAILABLE)
