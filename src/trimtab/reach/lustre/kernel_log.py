"""Kernel logs of servers and clients: what Lustre reports nowhere else.

The texts are those of Lustre 2.17.0, recorded or from the format strings of its modules; which,
docs/maturity.md says. Versions before 2.16 print a number before some of them (``167-0: ``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.server_message import (
    CLIENTS_MAXIMUM,
    EVICTIONS,
    MessageFamily,
    ServerMessage,
)
from trimtab.reach.lustre.lustre_target import parse_name

_CHECKSUM: Final = re.compile(r"BAD (?:WRITE|READ) CHECKSUM")
_READ_ONLY: Final = re.compile(
    r"(?:LDISKFS|EXT4)-fs \(([\w!.-]{1,64})\): [Rr]emounting filesystem read-only"
)
_MOUNTED: Final = re.compile(r"(?:LDISKFS|EXT4)-fs \(([\w!.-]{1,64})\): mounted filesystem")
_ABORTED: Final = re.compile(r"Aborting journal on device ([\w!.-]{1,64}?)(?:-[0-9]+)?\.?(?:\s|\Z)")
_SKIPPED: Final = re.compile(
    r"((?:Lustre|LNet)(?:Error)?: .{0,200})Skipped ([0-9]{1,9}) previous similar message"
)
# The first second after boot: "[    0.000000]", with or without a level before it.
_BOOT: Final = re.compile(r"[^\[]{0,40}\[ *0\.0{6}\]|.{0,80}\bLinux version [0-9]")
_TIMED: Final = re.compile(r"[^\[]{0,40}\[[^\]]{1,40}\] |[0-9]{4}-[0-9]{2}-[0-9]{2}T")
_SINCE_BOOT: Final = re.compile(r"[^\[]{0,40}\[ *([0-9]{1,9}\.[0-9]{1,9})\]")
_LINE_CHARACTERS_MAXIMUM: Final = 4096

_TARGET: Final = r"(?P<target>[\w.-]{1,32}-(?:OST|MDT)[0-9a-f]{4})"
_BY: Final = rf"(?<![\w.-]){_TARGET}: "
_CLIENT: Final = r"(?P<client>[\w.:%-]{1,64}@[a-z0-9]{1,12})"
_REFUSED: Final = "was evicted due to a lock"
_FAMILIES: Final = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        (
            MessageFamily.LOCK_TIMEOUT,
            rf"lock callback timer expired after (?!0s).{{1,12}}: evicting client at {_CLIENT} "
            rf"+ns: [a-z]{{1,12}}-{_TARGET}_UUID",
        ),
        # A client that refuses to give back a lock has this message, then the one above after 0 s.
        (
            MessageFamily.LOCK_TIMEOUT,
            rf"{_BY}A client on nid {_CLIENT} {_REFUSED}",
        ),
        (
            MessageFamily.UNHEARD,
            rf"{_BY}haven't heard from client \S{{1,64}} \(at {_CLIENT}\) in ",
        ),
        (
            MessageFamily.EVICTED_BY_HAND,
            rf"{_BY}evicting \S{{1,64}} (?:\(at {_CLIENT}\) by|at) admini?strative request",
        ),
        (
            MessageFamily.NOT_RECOVERED,
            rf"{_BY}Recovery over after .{{1,60}} recovered and "
            r"(?P<count>[1-9][0-9]{0,6}) (?:was|were) evicted",
        ),
        (
            MessageFamily.RECONNECTING,
            rf"{_BY}Client \S{{1,64}} \(at {_CLIENT}\) reconnecting",
        ),
        (MessageFamily.EVICTED_BY, rf"This client was evicted by {_TARGET};"),
        (MessageFamily.CONNECTION_LOST, rf": Connection to {_TARGET} \(at \S{{1,64}}\) was lost;"),
        (
            MessageFamily.REQUEST_TIMEOUT,
            rf"Request sent has (?:timed out|failed) .{{1,200}}->{_TARGET}[-_]\S{{1,64}}@",
        ),
        (MessageFamily.SLOW_REQUEST, rf"{_BY}Slow creates, "),
        (
            MessageFamily.SLOW_REQUEST,
            r"Request took longer than estimated \(|Already past deadline \(|Dropping timed-out"
            r" request from |Slow req_in handling ",
        ),
        (MessageFamily.THREAD_INACTIVE, r"service thread pid [0-9]{1,9} was inactive for "),
        (
            MessageFamily.NETWORK_TIMEOUT,
            rf"A connection with (?:[0-9]{{1,9}}-)?{_CLIENT} \(\S{{1,64}}\) timed out; the network",
        ),
        (
            MessageFamily.NETWORK_UNREACHED,
            rf"LNetError: .{{0,80}}onnect(?:ing|ion) to {_CLIENT} at host ",
        ),
        (
            MessageFamily.NETWORK_HEALTH,
            rf"LNet: .{{0,80}}(?:local|peer) NIs in recovery \(showing [0-9]{{1,9}}\): {_CLIENT}",
        ),
        (
            MessageFamily.TRANSFER_FAILED,
            rf"{_BY}Bulk IO (?:read|write) error with \S{{1,64}} \(at {_CLIENT}\)",
        ),
        (MessageFamily.DATA_LOST, r"dirty page discard: "),
    )
)
COUNTED: Final = {
    "evictions_total": EVICTIONS,
    "reconnections_total": (MessageFamily.RECONNECTING,),
    "lock_timeouts_total": (MessageFamily.LOCK_TIMEOUT,),
    "slow_requests_total": (MessageFamily.REQUEST_TIMEOUT, MessageFamily.SLOW_REQUEST),
}
"""Telemetry name to the families that it counts."""
_TOGETHER_S: Final = 0.02
"""From a message to the count of those like it: at most 4 ms on slow, emulated processors. Counts
of other messages, which a filter had taken out between them, came 140 ms later."""
_ONE_EVICTION_S: Final = 5
"""Other locks of a client that was just evicted expire at once, however old: no further eviction.
To be evicted again it has to connect and to be waited for."""
_UNFINISHED_S: Final = 60
"""A minute is folded only when it is over by this: no later reading of the ring adds to it."""
_ROWS_MAXIMUM: Final = 200
"""Rows of one machine in a snapshot, the latest: those before were stored by earlier ones."""


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """One message of Lustre.

    Attributes
    ----------
    at_s
        Seconds since the machine's boot; ``None`` if the log has other times, or none.
    count
        More than 1 if the message counts clients, or is about earlier ones that were skipped.
    target
        As printed (``fs-OST0003``); ``None`` if it names none. The kernel skips alike messages of
        all targets and clients together, so those have neither.
    client
        NID.
    """

    at_s: float | None
    family: MessageFamily
    count: int
    target: str | None
    client: str | None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Errors found in a kernel log.

    Lustre neither counts nor reports bad checksums and targets that turned read-only: only the
    server's kernel log shows them. It is a ring buffer, so its contents are a lower bound; they
    cover everything since boot only if its first line is the kernel's first.

    Attributes
    ----------
    begins_at_boot
        Whether the ring has lost nothing since boot.
    bad_checksums
        Transfers with a wrong checksum, including those that Lustre reports as "skipped".
    read_only
        Devices that ldiskfs or ext4 made read-only, or whose journal aborted, and that were not
        remounted since, in order: they no longer write, whatever their flags claim. A filtered log
        must keep the lines "mounted filesystem".
    messages
        Evictions, lost connections, slow requests ..., in order.
    """

    begins_at_boot: bool
    bad_checksums: int
    read_only: tuple[str, ...]
    messages: tuple[KernelMessage, ...] = ()


def parse_kernel_log(text: str) -> KernelLog:
    """Parse the output of ``dmesg``, complete or filtered.

    A last line without a line feed was cut but still counts, as each line is printed once.
    """
    lines = [line[:_LINE_CHARACTERS_MAXIMUM] for line in text.split("\n") if line.strip()]
    begins_at_boot = bool(lines) and _BOOT.match(lines[0]) is not None
    if len(lines) > 1 and lines[0] == lines[1] and _TIMED.match(lines[0]):
        # A filter that always keeps the first line may print it twice.
        del lines[0]
    read_only: dict[str, None] = {}
    messages: list[KernelMessage] = []
    refused: dict[tuple[str | None, str | None], float] = {}
    bad_checksums, before = 0, ""
    for line in lines:
        if skipped := _SKIPPED.search(line):
            # Printed right after the next message of the same kind, from the same place in the
            # code.
            if skipped[1] in before and _CHECKSUM.search(before):
                bad_checksums += int(skipped[2])
            elif skipped[1] in before:
                messages += _more(before, line, int(skipped[2]))
            before = ""
            continue
        before = line
        if _CHECKSUM.search(line):
            bad_checksums += 1
        elif match := _READ_ONLY.search(line) or _ABORTED.search(line):
            read_only.setdefault(match[1])
        elif match := _MOUNTED.search(line):
            read_only.pop(match[1], None)
        else:
            of_line = _evicted_once(_message(line), line, refused)
            messages += of_line
            before = line if of_line else ""
    return KernelLog(
        begins_at_boot=begins_at_boot,
        bad_checksums=bad_checksums,
        read_only=tuple(read_only),
        messages=tuple(messages),
    )


def counts(logs: Iterable[KernelLog]) -> Mapping[tuple[str, str | None], int]:
    """Return each name of `COUNTED` and target as printed to its count in some logs."""
    named = {
        family: [name for name in COUNTED if family in COUNTED[name]] for family in MessageFamily
    }
    totals = Counter[tuple[str, str | None]]()
    for message in (message for log in logs for message in log.messages):
        for name in named[message.family]:
            totals[name, message.target] += message.count
    return totals


def _since_boot(line: str) -> float | None:
    match = _SINCE_BOOT.match(line)
    return None if match is None else float(match[1])


def _more(before: str, line: str, count: int) -> tuple[KernelMessage, ...]:
    """Return messages like the one before that were only counted: of which targets is unknown.

    In a filtered log the message that the count belongs to may be missing: it is printed with it.
    """
    for message in _message(before):
        at_s = _since_boot(line)
        together = at_s is None or message.at_s is None or at_s - message.at_s < _TOGETHER_S
        # Of recoveries the count is how many there were: most of them evicted nobody.
        if together and message.family is not MessageFamily.NOT_RECOVERED:
            return (replace(message, count=count, target=None, client=None),)
    return ()


def _evicted_once(
    messages: tuple[KernelMessage, ...],
    line: str,
    refused: dict[tuple[str | None, str | None], float],
) -> tuple[KernelMessage, ...]:
    """Return the message of a line; none if it is another lock of a client that is evicted already.

    Parameters
    ----------
    refused
        When each client was last evicted from a target since it refused a lock; it is updated.
    """
    for message in messages:
        of, at_s = (message.target, message.client), message.at_s
        if message.family is not MessageFamily.LOCK_TIMEOUT or at_s is None:
            continue
        if _REFUSED in line:
            refused[of] = at_s
        elif of in refused and at_s - refused[of] < _ONE_EVICTION_S:
            return ()
    return messages


def _message(line: str) -> tuple[KernelMessage, ...]:
    """Return the message of a line, if it is one of them."""
    if "Lustre" not in line and "LNet" not in line:
        return ()
    for family, pattern in _FAMILIES:
        if match := pattern.search(line):
            named = match.groupdict()
            count, target, client = map(named.get, ("count", "target", "client"))
            return (KernelMessage(_since_boot(line), family, int(count or 1), target, client),)
    return ()


def by_minute(
    messages: Iterable[KernelMessage],
    host: str,
    file_system: str,
    *,
    boot: str,
    uptime_s: float,
    at: datetime,
) -> tuple[ServerMessage, ...]:
    """Return the messages of each minute that is over as one row for each family and target.

    Parameters
    ----------
    file_system
        Messages that name a target of another one are left out.
    boot
        The machine's boot id.
    uptime_s
        How long it had been up at ``at``, when its log was read: times are by the clock here.
    """
    alike: dict[tuple[int, MessageFamily, str], list[KernelMessage]] = {}
    for message in messages:
        name = parse_name(message.target or "")
        ours = message.target is None or (name is not None and name.file_system == file_system)
        if ours and message.at_s is not None:
            target = "" if name is None else name.target
            alike.setdefault((int(message.at_s // 60), message.family, target), []).append(message)
    over = (uptime_s - _UNFINISHED_S) // 60
    rows = [(key, of) for key, of in alike.items() if key[0] < over]
    return tuple(
        ServerMessage(
            at=at - timedelta(seconds=uptime_s - (of[0].at_s or 0.0)),
            host=host,
            family=family,
            count=sum(message.count for message in of),
            target=target or None,
            clients=_first(message.client for message in of),
            minute=(boot, minute),
        )
        for (minute, family, target), of in rows[-_ROWS_MAXIMUM:]
    )


def _first(clients: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted(set(filter(None, clients)))[:CLIENTS_MAXIMUM])
