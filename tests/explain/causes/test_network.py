"""What the log book has of the network: whose link it is, and how near the onset it was."""

from __future__ import annotations

from dataclasses import replace

from tests.explain.causes.contexts import BAD_FROM, HOUR, event, incident, quiet, shows, with_log

from trimtab.base.event import EventKind
from trimtab.base.incident import Found
from trimtab.explain.causes.network import NETWORK as NET


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
