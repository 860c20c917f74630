"""What a piece of evidence can see: the layers at which a cause would make it look different.

::

    client ── network ── server ── target ── drive
       │         │          │         │        │
       └─────────┴── runs of a probe ─┴────────┘     sees a loss at any layer
                 └ survey from clients ────────┘     own clients, not those of the probe
                            └ survey on servers ┘    neither clients nor network

Evidence that something is as ever contradicts a cause only if it would differ were the cause there:
a survey on the servers cannot clear the clients. `trimtab.explain.context.Cause.evidence` applies
this to every piece that declares itself `Against.ABSENT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, Literal, get_args

from trimtab.base.error import Message
from trimtab.base.incident import Against, Evidence, Found

Layer = Literal["client", "network", "server", "target", "drive"]
EVERYWHERE: Final[frozenset[Layer]] = frozenset(get_args(Layer))


class View(StrEnum):
    """The instrument by which a piece of evidence was observed."""

    PROBE = "runs of a probe"
    """Their status, speed and tails, writes beside reads, other probes beside this one."""
    NODES = "client nodes"
    """The nodes on which runs were, and snapshots of client machines."""
    SURVEY_ON_SERVERS = "survey of targets on their servers"
    SURVEY_OF_CLIENTS = "survey of targets from clients"
    """Clients of its own, not those of the probe."""
    SELFTEST = "LNet selftest"
    LINKS = "network counters of servers"
    """Bytes and errors of links, and transfers with a wrong checksum."""
    CONNECTIONS = "state of connections"
    SERVERS = "servers"
    """Which server serves a target, CPU time and its profiles."""
    TARGETS = "counters and space of targets"
    DRIVES = "counters of drives, trims and arrays"
    TRAFFIC = "traffic of clients"
    """Bytes and operations of clients, as servers count them."""
    SETTINGS = "settings in snapshots"
    """Sees only the kinds of machines whose settings are collected: `settings_see`."""
    LOG = "log book"
    ACCOUNTING = "accounting of the batch system"


SEES: Final[Mapping[View, frozenset[Layer]]] = {
    View.PROBE: EVERYWHERE,
    View.NODES: frozenset({"client"}),
    View.SURVEY_ON_SERVERS: frozenset({"server", "target", "drive"}),
    View.SURVEY_OF_CLIENTS: frozenset({"network", "server", "target", "drive"}),
    View.SELFTEST: frozenset({"network"}),
    View.LINKS: frozenset({"network"}),
    View.CONNECTIONS: frozenset({"network", "server", "target"}),
    View.SERVERS: frozenset({"server", "target"}),
    View.TARGETS: frozenset({"target"}),
    View.DRIVES: frozenset({"drive", "target"}),
    View.TRAFFIC: frozenset({"network", "server", "target", "drive"}),
    View.SETTINGS: frozenset(),
    View.LOG: EVERYWHERE,
    View.ACCOUNTING: EVERYWHERE,
}
"""Layers at which a cause would make this look different. What is not listed it cannot see."""

LAYER_OF_KIND: Final[Mapping[str, Layer]] = {
    "client": "client", "server": "server", "ost": "target", "mdt": "target",
    "file-system": "target",
}  # fmt: skip
"""Kind of a machine or target in `trimtab.explain.context.SETTINGS` to its layer."""
_COLLECTED: Final[frozenset[Layer]] = frozenset({"client", "server", "target"})


def settings_see(kinds: Iterable[str]) -> frozenset[Layer]:
    """Return the layers that settings of these kinds see.

    All of them once clients, servers and targets are collected: firmware of drives and switches is
    never collected, which the weight of unchanged settings allows for.

    Examples
    --------
    >>> sorted(settings_see(["ost", "server"]))
    ['server', 'target']
    >>> settings_see(["ost", "server", "client"]) == EVERYWHERE
    True
    """
    layers = frozenset(LAYER_OF_KIND[kind] for kind in kinds if kind in LAYER_OF_KIND)
    return EVERYWHERE if layers >= _COLLECTED else layers


def within_sight(piece: Evidence, layers: frozenset[Layer]) -> Evidence:
    """Return a piece as it counts for a cause that acts at these layers.

    Nothing to be seen contradicts a cause only if the look covers every layer at which it may act;
    else the piece is neutral and says what it cannot show. Other pieces stay as they are.
    """
    unseen = layers - set(piece.sees)
    if piece.against is not Against.ABSENT or piece.found is not Found.AGAINST or not unseen:
        return piece
    text = f"{piece.what}; this look does not cover: {', '.join(sorted(unseen))}"
    message = Message(piece.what.code, text)
    return replace(piece, found=Found.NEUTRAL, weight=0.0, what=message)
