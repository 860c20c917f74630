"""What kernel logs say, as evidence for causes: evictions, lost connections, slow requests.

None of it is a cause: a client is evicted because something behind it failed. How much a message
says is a judgement, not a measurement: no record of a site with known causes has kernel logs. So
each weight is modest, and that nothing was logged says nothing: a log is a ring, and may be unread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from trimtab.base.incident import Evidence, Route
from trimtab.base.server_message import EVICTIONS, MessageFamily, ServerMessage, message_of
from trimtab.base.units import enumerated
from trimtab.explain.causes.evidence import named, onset_within
from trimtab.explain.context import Context, Period, once
from trimtab.explain.contrast import Sign
from trimtab.explain.sight import View

_OF_TARGET: Final = (
    MessageFamily.LOCK_TIMEOUT,
    MessageFamily.REQUEST_TIMEOUT,
    MessageFamily.SLOW_REQUEST,
    MessageFamily.CONNECTION_LOST,
)
_OF_NETWORK: Final = (
    MessageFamily.NETWORK_TIMEOUT,
    MessageFamily.NETWORK_UNREACHED,
    MessageFamily.NETWORK_HEALTH,
    MessageFamily.TRANSFER_FAILED,
    MessageFamily.UNHEARD,
    MessageFamily.CONNECTION_LOST,
)
_OF_FAILOVER: Final = (MessageFamily.NOT_RECOVERED, MessageFamily.RECONNECTING)
_TARGET: Final = Sign("target-logged", Route.TARGETS, source="kernel-log", view=View.CONNECTIONS)
_NETWORK: Final = Sign("connections-logged", Route.TIME, source="kernel-log", view=View.CONNECTIONS)
_CLIENT: Final = Sign("client-logged", Route.RUNS, source="kernel-log", view=View.NODES)
_FAILOVER: Final = Sign("recovery-logged", Route.TIME, source="kernel-log", view=View.SERVERS)
_TARGET_MOST: Final = 0.6
_NETWORK_MOST: Final = 0.5
_CLIENT_MOST: Final = 0.4
_FAILOVER_MOST: Final = 0.4
_MORE_OFTEN: Final = 3.0
"""Times as often as in good hours: a few evictions a week are usual on a large machine."""
_ALMOST_ALL: Final = 0.7
"""Share of messages about one target, or one client, from which they are about it alone."""
_NAMED: Final = 3


def target_logged(context: Context) -> tuple[Evidence, ...]:
    """Return whether locks, requests and connections of one target failed."""
    return _more_often(context, _TARGET, _OF_TARGET, _TARGET_MOST, alone="target")


def connections_logged(context: Context) -> tuple[Evidence, ...]:
    """Return whether connections broke, and clients fell silent."""
    return _more_often(context, _NETWORK, _OF_NETWORK, _NETWORK_MOST)


def client_logged(context: Context) -> tuple[Evidence, ...]:
    """Return whether one client was evicted, and hardly any other."""
    return _more_often(context, _CLIENT, EVICTIONS, _CLIENT_MOST, alone="client")


def recovery_logged(context: Context) -> tuple[Evidence, ...]:
    """Return whether clients had to reconnect to a target that was started again."""
    return _more_often(context, _FAILOVER, _OF_FAILOVER, _FAILOVER_MOST)


@once
def _sides(context: Context) -> tuple[tuple[ServerMessage, ...], tuple[ServerMessage, ...]]:
    """Return the messages of the bad hours, from the onset on, and those of the good hours."""
    begins = context.incident.at - onset_within(context)
    bad: list[ServerMessage] = []
    good: list[ServerMessage] = []
    for event in context.messages:
        message = message_of(event)
        if message is None or event.at > context.now:
            continue
        if context.is_bad(event.at) or begins <= event.at <= context.incident.at:
            bad.append(message)
        elif context.is_good(event.at):
            good.append(message)
    return tuple(bad), tuple(good)


def _more_often(
    context: Context,
    sign: Sign,
    families: Collection[MessageFamily],
    most: float,
    *,
    alone: str | None = None,
) -> tuple[Evidence, ...]:
    """Return whether kernel logs have such messages more often than in good hours.

    Nothing if they have none in the bad hours: most sites' logs are not read.

    Parameters
    ----------
    alone
        They count only if nearly all of them are about one ``target``, or one ``client``.
    """
    bad, good = (
        [message for message in side if message.family in families] for side in _sides(context)
    )
    if not bad:
        return ()
    before = sum(message.count for message in good)
    counts = Counter[MessageFamily]()
    for message in bad:
        counts[message.family] += message.count
    hours = _hours(context.bad) + onset_within(context) / timedelta(hours=1)
    usual = (before + 0.5) / max(1.0, _hours(context.good))
    ratio = counts.total() / max(1.0, hours) / usual
    abouts = _abouts(bad, alone)
    of_many = max(abouts.values(), default=0) < _ALMOST_ALL * max(1, abouts.total())
    counts_for = context.good and ratio >= _MORE_OFTEN and not (alone and of_many)
    weight = min(most, most * math.log10(ratio)) if counts_for else 0.0
    targets = sorted({message.target for message in bad if message.target})
    return (
        sign.weighed(
            _text(bad, counts, before, targets),
            weight,
            at=min(message.at for message in bad),
            value=float(counts.total()),
            reference=float(before) if good else None,
            targets=targets,
        ),
    )


def _abouts(messages: Collection[ServerMessage], kind: str | None) -> Counter[str]:
    """Return targets, or clients, with how many messages are about each."""
    abouts = Counter[str]()
    for message in messages:
        names = message.clients if kind == "client" else filter(None, (message.target,))
        for name in names:
            abouts[name] += message.count
    return abouts


def _text(
    bad: Collection[ServerMessage],
    counts: Counter[MessageFamily],
    before: int,
    targets: Collection[str],
) -> str:
    """Return what was logged, of which targets and clients, since when and where."""
    families = "; ".join(f"{family}, {count} times" for family, count in counts.most_common(_NAMED))
    clients = sorted({client for message in bad for client in message.clients})
    of = f" ({named(targets)})" if targets else ""
    by = f", by {enumerated(clients)}" if clients else ""
    hosts = enumerated(sorted({message.host for message in bad}))
    first = min(message.at for message in bad)
    usual = f"{before} in the good hours" if before else "none in the good hours"
    return f"{families}{of} since {first:%d %B %H:%M}{by}; {usual} [kernel log of {hosts}]"


def _hours(periods: Collection[Period]) -> float:
    return sum((period.to - period.from_ for period in periods), timedelta(0)) / timedelta(hours=1)
