"""The network: messages that servers lose, and what the log book has of it."""

from __future__ import annotations

from dataclasses import replace

from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    SERVERS,
    counter,
    event,
    gauge,
    incident,
    missing,
    quiet,
    shows,
    with_log,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.network import NETWORK as NET
from trimtab.explain.context import Period


def test_messages_that_servers_lose() -> None:
    name = "network_errors_total"
    flaps = counter(name, 1 / 3600, 2.0, targets=SERVERS[:1]) + counter(
        name, 1 / 3600, targets=SERVERS[1:]
    )
    piece = shows(NET, quiet(readings=flaps), "errors-in-time", Found.FOR, value=7200)
    assert 0.5 < piece.weight <= 1.2
    assert "7,200 an hour in the bad hours, 1 an hour in good hours" in piece.what
    # A few in every hour are news where there was one.
    steady = counter(name, 1 / 3600, 20 / 3600, targets=SERVERS)
    shows(NET, quiet(readings=steady), "errors-in-time", Found.FOR, value=20)
    # Many at once, as of a client that restarts, and some more are no matter; none is little
    # against: a slow link loses nothing.
    once = gauge(name, 0.0, lambda _, at: 500.0 * (at > BAD_FROM + 3 * HOUR), targets=SERVERS)
    assert shows(NET, quiet(once), "errors-in-time").found is not Found.FOR
    for rate, outcome in ((3 / 3600, Found.NEUTRAL), (1 / 3600, Found.AGAINST)):
        few = counter(name, 1 / 3600, rate, targets=SERVERS)
        piece = shows(NET, quiet(readings=few), "errors-in-time", outcome)
        assert piece.weight >= -0.2
    why = missing(name, "lctl may not be run", targets=SERVERS)
    shows(NET, quiet(why), "errors-in-time", Found.NOT_AVAILABLE, reason="name-not-available")


def test_a_link_of_a_server_and_one_of_a_client() -> None:
    server = event(EventKind.NOTE, BAD_FROM - HOUR, "link of oss3 at half width")
    shows(NET, quiet(events=with_log(server)), "network-logged", Found.FOR)
    client = event(EventKind.NOTE, BAD_FROM - HOUR, "nid001020 drained, link at half speed")
    shows(NET, quiet(events=with_log(client)), "network-not-logged", weight=0)


def test_an_entry_is_as_near_as_the_onset_is_known() -> None:
    early = with_log(event(EventKind.NOTE, BAD_FROM - 20 * HOUR, "switch exchanged"))
    shows(NET, quiet(events=early), "network-not-logged", weight=0)
    daily = replace(incident(), onset=(BAD_FROM - 24 * HOUR, BAD_FROM))
    of = quiet(events=early, of=daily)
    piece = shows(NET, of, "network-logged", Found.FOR)
    # A wide interval has an entry by chance sooner.
    sharp = quiet(events=with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "switch exchanged")))
    assert piece.weight < shows(NET, sharp, "network-logged").weight


def test_a_repair_with_which_it_ended_is_as_telling_as_an_entry_at_the_onset() -> None:
    until = BAD_FROM + 11 * HOUR
    over = incident(until=until)
    repair = with_log(event(EventKind.NOTE, until - HOUR, "cable of oss3 replaced"))
    open_ = shows(NET, quiet(events=repair), "network-logged").weight
    ended = shows(NET, quiet(events=repair, of=over), "network-logged", Found.FOR).weight
    onset = with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "cable of oss3 replaced"))
    assert ended == shows(NET, quiet(events=onset, of=over), "network-logged").weight
    # Two places for chance: less than where the onset is the only one, if it is as near.
    assert ended <= shows(NET, quiet(events=onset), "network-logged").weight
    assert open_ <= 1.3


def test_what_mended_it_is_logged_where_it_ended() -> None:
    """A repair days after the onset is near all the same: near the end, one of two places."""
    end = BAD_FROM + 5 * 24 * HOUR
    repair = with_log(event(EventKind.NOTE, end, "cable of oss3 exchanged"))
    long = (Period(BAD_FROM, end),)
    ended = replace(quiet(events=repair, of=replace(incident(), until=end)), bad=long)
    lasts = replace(quiet(events=repair, of=replace(incident(), until=None)), bad=long)
    near, far = (shows(NET, of, "network-logged", Found.FOR).weight for of in (ended, lasts))
    assert near > far + 0.2
