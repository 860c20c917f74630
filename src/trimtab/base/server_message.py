"""Messages of kernel logs, as snapshots bring them and the log book keeps them.

A kernel log is a ring: what it holds cannot be counted from one reading to the next. So the equal
messages of each minute are one event whose identity is the ring's own, stored only once, however
often that minute is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message
from trimtab.base.event import Event, EventKind, identifier_of

if TYPE_CHECKING:
    from trimtab.base.snapshot import Snapshot

KERNEL_LOG: Final = "kernel-log"
"""Source of these events."""
CLIENTS_MAXIMUM: Final = 8
"""Clients that a message names; of more there is a count."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MessageFamily(StrEnum):
    """What a message says; its value is in the text of stored events, so it stays.

    The first four evict a client: each eviction has exactly one of them in its server's log.
    """

    LOCK_TIMEOUT = "client evicted after a lock timeout"
    UNHEARD = "silent client evicted"
    EVICTED_BY_HAND = "client evicted by an administrator"
    NOT_RECOVERED = "client evicted in recovery"
    RECONNECTING = "client reconnected"
    EVICTED_BY = "eviction noticed by a client"
    CONNECTION_LOST = "lost connection"
    REQUEST_TIMEOUT = "request timed out"
    SLOW_REQUEST = "slow request"
    THREAD_INACTIVE = "service thread hung"
    NETWORK_TIMEOUT = "LNet connection timed out"
    NETWORK_UNREACHED = "LNet could not connect"
    NETWORK_HEALTH = "LNet interface unhealthy"
    TRANSFER_FAILED = "transfer of data failed"
    DATA_LOST = "unwritten data lost by a client"

    @property
    def code(self) -> str:
        """A stable word for it: ``lock-timeout``."""
        return self.name.lower().replace("_", "-")


EVICTIONS: Final = (
    MessageFamily.LOCK_TIMEOUT,
    MessageFamily.UNHEARD,
    MessageFamily.EVICTED_BY_HAND,
    MessageFamily.NOT_RECOVERED,
)
_DETAIL: Final = re.compile(
    r"([0-9]+) x (.+?)(?: \(([A-Z]{3}[0-9a-f]{4})\))?, kernel log of (\S+?)(?:: (.*))?"
)


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """Equal messages of one minute in the kernel log of one machine.

    Attributes
    ----------
    at
        Aware UTC; the minute's first message.
    host
        The machine in whose log they are.
    family
        What they say.
    count
        How many, including those that the kernel only counted ("Skipped 4 previous similar").
    target
        ``OST0003``; ``None``: they name none.
    clients
        NIDs of the first `CLIENTS_MAXIMUM` clients, sorted.
    minute
        Boot id of the machine, and minutes from its boot: never the same for two minutes.
    """

    at: datetime
    host: str
    family: MessageFamily
    count: int
    target: str | None = None
    clients: tuple[str, ...] = ()
    minute: tuple[str, int] = ("", 0)

    @property
    def detail(self) -> str:
        """The text of its event."""
        clients = f": {', '.join(self.clients)}" if self.clients else ""
        target = f" ({self.target})" if self.target else ""
        return f"{self.count} x {self.family}{target}, kernel log of {self.host}{clients}"


@dataclass(frozen=True, slots=True)
class MessageHour:
    """Messages of one family in one hour, in the kernel logs of all machines of a site.

    Attributes
    ----------
    at
        Time of the first one, aware UTC.
    what
        What they say.
    hosts
        The machines in whose logs they are.
    clients
        NIDs, as far as messages name them.
    """

    at: datetime
    what: Message
    count: int
    targets: tuple[str, ...]
    hosts: tuple[str, ...]
    clients: tuple[str, ...]


def by_hour(events: Iterable[Event]) -> tuple[MessageHour, ...]:
    """Return the messages that events keep, folded by hour and family, the oldest first."""
    alike: dict[tuple[datetime, MessageFamily], list[ServerMessage]] = {}
    for event in sorted(events, key=lambda event: event.at):
        if (message := message_of(event)) is not None:
            hour = event.at.replace(minute=0, second=0, microsecond=0)
            alike.setdefault((hour, message.family), []).append(message)
    return tuple(
        MessageHour(
            at=of[0].at,
            what=Message(family.code, family.value),
            count=sum(message.count for message in of),
            targets=tuple(sorted({message.target for message in of if message.target})),
            hosts=tuple(sorted({message.host for message in of})),
            clients=tuple(sorted({client for message in of for client in message.clients})),
        )
        for (_, family), of in alike.items()
    )


def message_of(event: Event) -> ServerMessage | None:
    """Return the message that an event keeps, without its minute; ``None`` if it keeps none."""
    match = _DETAIL.fullmatch(event.detail)
    if event.kind is not EventKind.SERVER_MESSAGE or match is None:
        return None
    try:
        family = MessageFamily(match[2])
    except ValueError:
        return None
    clients = tuple(match[5].split(", ")) if match[5] else ()
    return ServerMessage(event.at, match[4], family, int(match[1]), match[3], clients)


def message_events(site: str, snapshot: Snapshot) -> Iterator[Event]:
    """Yield the messages of a snapshot as events; one that names no target has its server's."""
    for message in snapshot.messages:
        boot, minute = message.minute
        served = [
            seen.target.name for seen in snapshot.targets if seen.target.server == message.host
        ]
        targets = tuple(served) if message.target is None else (message.target,)
        # The wall clock may step between two readings, the time since boot does not.
        since_boot = _EPOCH + timedelta(minutes=minute)
        words = (site, message.host, boot, message.family.name, message.target or "")
        yield Event(
            id=identifier_of(since_boot, *words),
            site=site,
            kind=EventKind.SERVER_MESSAGE,
            at=message.at,
            detail=message.detail,
            source=KERNEL_LOG,
            targets=targets,
        )
