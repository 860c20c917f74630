"""The network: LNet selftest, clients against servers, connections, what a line carries."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import (
    LOST,
    WELL,
    quiet,
    quiet_readings,
    shows,
    weight_of,
    with_log,
)
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOME,
    HOUR,
    OSTS,
    SERVERS,
    START,
    counter,
    event,
    gauge,
    incident,
    missing,
    run,
    runs,
    survey,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.explain.causes.network import CAUSE
from trimtab.explain.context import RunFact

LINE = Hardware(network=Figure(50e9, "B/s", 1e9))


def selftests(good: float, bad: float, *, kind: str = "lnet-selftest") -> tuple[RunFact, ...]:
    return tuple(
        run(START + n * 6 * HOUR, {"read_bandwidth": value, "write_bandwidth": 0.9 * value},
            kind=kind, probe="lst")
        for n in range(10)
        for value in [good if n < 8 else bad]
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["lnet-selftest", "lnet_selftest"])
def test_a_selftest_that_is_slow_convicts(kind: str) -> None:
    of = quiet(runs=(*runs(WELL, LOST), *selftests(48e9, 24e9, kind=kind)))
    piece = shows(CAUSE, of, "selftest-in-time", value=0.5)
    assert piece.weight > 1.5
    assert weight_of(CAUSE, of) > 1.4


def test_selftest_in_time() -> None:
    # One direction alone is enough.
    tests = [
        run(START + n * 6 * HOUR,
            {"read_bandwidth": 48e9, "write_bandwidth": 42e9 if n < 8 else 20e9},
            kind="lnet-selftest", probe="lst")
        for n in range(10)
    ]  # fmt: skip
    of = quiet(runs=(*runs(WELL, LOST), *tests))
    shows(CAUSE, of, "selftest-in-time", Found.FOR)
    # A selftest as ever clears.
    of = quiet(runs=(*runs(WELL, LOST), *selftests(48e9, 47.5e9)))
    assert shows(CAUSE, of, "selftest-in-time").weight < -1
    assert weight_of(CAUSE, of) < 0
    # Without a selftest.
    shows(CAUSE, quiet(), "selftest-in-time", Found.NOT_AVAILABLE)


def test_a_sum_over_many_servers_hardly_clears_any_of_them() -> None:
    """A probe waits for its slowest server: of 24 that one lost 30 % is 1 % of the sum."""
    tests = (*runs(WELL, LOST), *selftests(48e9, 47.5e9))
    home = {f"OST{n:04x}": f"oss{n}" for n in range(24)}
    assert shows(CAUSE, quiet(runs=tests), "selftest-in-time").weight < -1
    shows(CAUSE, quiet(runs=tests, home=home), "selftest-in-time", weight=-0.3)
    # Where selftests scatter more than one server is worth, few servers clear no more either.
    uneven = [
        run(START + n * 6 * HOUR, {"read_bandwidth": 48e9 * (1 + 0.1 * (-1) ** n)},
            kind="lnet-selftest", probe="lst")
        for n in range(10)
    ]  # fmt: skip
    piece = shows(CAUSE, quiet(runs=(*runs(WELL, LOST), *uneven)), "selftest-in-time")
    assert piece.weight >= -0.3


@pytest.mark.parametrize(("reached", "outcome"), [(45e9, Found.AGAINST), (15e9, Found.FOR)])
def test_a_selftest_against_the_line_rate(reached: float, outcome: Found) -> None:
    tests = [run(BAD_FROM + HOUR, {"read_bandwidth": reached}, kind="lnet-selftest", probe="lst")]
    of = quiet(runs=(*runs(WELL, LOST), *tests), hardware=LINE)
    shows(CAUSE, of, "selftest-of-line-rate", outcome)


def test_clients_against_servers() -> None:
    # Clients are slow and servers are not.
    piece = shows(CAUSE, quiet(), "clients-against-servers")
    assert 0 < piece.weight < 0.5
    # Servers that are slow as well clear.
    slow = quiet(surveys=survey(15e9, 4e9, slow_targets=OSTS[:2]))
    shows(CAUSE, slow, "servers-slow-too", Found.AGAINST)
    alike = quiet(surveys=survey(15e9, 9e9, slow_targets=OSTS))
    shows(CAUSE, alike, "clients-against-servers", Found.AGAINST)
    # A survey through the network does not tell.
    surveyed = [run(BAD_FROM + 4 * HOUR, {}, kind="ior", probe="survey")]
    rows = survey(15e9)
    for row in rows:
        if row["at"] >= BAD_FROM:
            row["run"] = surveyed[0].id
    scene = quiet(surveys=rows, runs=(*runs(WELL, LOST), *surveyed))
    shows(CAUSE, scene, "clients-against-servers", reason="survey-through-network")


def test_targets_that_lost_too_little_do_not_clear_the_network() -> None:
    """At 70 % of their usual rate they explain a probe at 70 %, and none at 20 %."""
    surveyed = survey(15e9, 10.5e9, slow_targets=OSTS[:2])
    for effect, weight in ((0.7, -1.0), (0.2, 0.0)):
        of = quiet(surveys=surveyed, of=incident(effect=effect))
        shows(CAUSE, of, "servers-slow-too", weight=weight)


def test_connections_broken() -> None:
    # Connections of several servers that break.
    of_two = [ost for ost in OSTS if HOME[ost] in ("oss0", "oss1")]
    rows = [*gauge("import_state", "FULL", targets=[o for o in OSTS if o not in of_two]),
            *gauge("import_state", "FULL", "DISCONN", targets=of_two)]  # fmt: skip
    piece = shows(CAUSE, quiet(readings=rows), "connections-broken")
    assert piece.weight > 0.9
    # One servers connections are that servers matter.
    of_one = [ost for ost in OSTS if HOME[ost] == "oss0"]
    rows = [*gauge("import_state", "FULL", targets=[o for o in OSTS if o not in of_one]),
            *gauge("import_state", "FULL", "DISCONN", targets=of_one)]  # fmt: skip
    shows(CAUSE, quiet(readings=rows), "connections-broken", Found.AGAINST)
    # Idle connections are well.
    rows = gauge("import_state", "FULL", "IDLE")
    shows(CAUSE, quiet(readings=rows), "connections-broken", Found.AGAINST)
    # Connections that nobody could see.
    readings = quiet_readings(but=["import_state"])
    readings += missing("import_state", "lctl may not be run")
    piece = shows(CAUSE, quiet(readings=readings), "connections-broken", Found.NOT_AVAILABLE)
    assert piece.reason is not None
    assert "lctl may not be run" in piece.reason


def test_a_line_that_carries_all_it_can() -> None:
    full = quiet(
        readings=counter("network_bytes_total", 1e10, 4.8e10, targets=SERVERS), hardware=LINE
    )
    shows(CAUSE, full, "network-saturated", Found.FOR)
    half = quiet(
        readings=counter("network_bytes_total", 1e10, 2e10, targets=SERVERS), hardware=LINE
    )
    shows(CAUSE, half, "network-saturated", Found.NEUTRAL, value=0.4)


def test_messages_that_servers_lose() -> None:
    name = "network_errors_total"
    flaps = counter(name, 1 / 3600, 2.0, targets=SERVERS[:1]) + counter(
        name, 1 / 3600, targets=SERVERS[1:]
    )
    piece = shows(CAUSE, quiet(readings=flaps), "errors-in-time", Found.FOR, value=7200)
    assert 0.5 < piece.weight <= 0.8
    assert "7,200 an hour in the bad hours, 1 an hour in good hours" in piece.what
    # Some more are no matter, and none is little against: a slow link loses nothing.
    for rate in (20 / 3600, 1 / 3600):
        few = counter(name, 1 / 3600, rate, targets=SERVERS)
        piece = shows(CAUSE, quiet(readings=few), "errors-in-time", Found.AGAINST)
        assert piece.weight >= -0.2
    why = missing(name, "lctl may not be run", targets=SERVERS)
    shows(CAUSE, quiet(readings=[*quiet_readings(), *why]), "errors-in-time",
          Found.NOT_AVAILABLE, reason="name-not-available")  # fmt: skip


def test_the_log_book_tells_of_a_switch() -> None:
    log = with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "switch x1000c0r3 exchanged"))
    shows(CAUSE, quiet(events=log), "network-logged", Found.FOR)
    before = with_log(event(EventKind.NOTE, BAD_FROM - 40 * HOUR, "switch exchanged"))
    shows(CAUSE, quiet(events=before), "network-not-logged", weight=0)
    other = with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "purge switched to weekly, unlinked"))
    shows(CAUSE, quiet(events=other), "network-not-logged", weight=0)


def test_an_entry_of_a_log_book_full_of_such_entries_weighs_less() -> None:
    near = event(EventKind.NOTE, BAD_FROM - HOUR, "switch x1000c0r3 exchanged")
    daily = [
        event(EventKind.NOTE, BAD_FROM - (13 + 6 * n) * HOUR, "link of a switch flapped")
        for n in range(20)
    ]
    alone = shows(CAUSE, quiet(events=with_log(near)), "network-logged", Found.FOR)
    among_many = shows(CAUSE, quiet(events=with_log(near, *daily)), "network-logged", Found.FOR)
    assert among_many.weight < alone.weight / 3
    # Of several near by the nearest is shown.
    early = event(EventKind.NOTE, BAD_FROM - 11 * HOUR, "link down")
    piece = shows(CAUSE, quiet(events=with_log(early, near)), "network-logged")
    assert "x1000c0r3" in piece.what


def test_an_incident_of_a_survey_on_the_servers() -> None:
    from dataclasses import replace

    base = incident()
    assert base.key is not None
    of = replace(base, key=replace(base.key, kind="obdfilter-survey"))
    shows(CAUSE, quiet(of=of), "survey-on-servers", Found.AGAINST)
