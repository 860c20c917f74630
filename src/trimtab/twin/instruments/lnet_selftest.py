"""LNet selftest as the twin plays it: what the commands of one test print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from trimtab.errors import UsageError

_RPC_EACH_WAY: Final = 2
"""Messages of a transfer each way: request and data, reply and acknowledgement."""
_MESSAGE_BYTES: Final = 160
"""Of a message without data."""


@dataclass(frozen=True, slots=True)
class StatAsked:
    """What ``lst stat`` asks for.

    Attributes
    ----------
    delay_s, count
        Seconds of one interval, and how many.
    groups
        In the order in which they are printed.
    """

    delay_s: int
    count: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LnetResult:
    """What one node moves, the mean over its group, one for each interval.

    Attributes
    ----------
    access
        ``write``: from clients to servers.
    """

    bytes_per_s: tuple[float, ...]
    access: Literal["write", "read"]
    transfer_size_bytes: int = 2**20
    clients: int = 1
    servers: int = 1


def asked_of(argv: Sequence[str]) -> StatAsked:
    """Return what a command of ``lst stat`` asks for.

    Raises
    ------
    UsageError
        Another command, or an option that the twin does not play; it is named.
    """
    words = [word for word in argv if not word.startswith("LST_SESSION=") and word != "env"]
    if words[1:2] != ["stat"]:
        raise UsageError(f"lst: the twin does not play {' '.join(words[1:2]) or 'no command'!r}")
    numbers = {"--delay": 1, "--count": 1}
    groups: list[str] = []
    rest = iter(words[2:])
    for word in rest:
        if word in numbers:
            value = next(rest, "")
            if not value.isdecimal():
                raise UsageError(f"lst stat: {word} is {value!r}: no whole number")
            numbers[word] = int(value)
        elif word.startswith("-"):
            raise UsageError(f"lst stat: the twin does not play the option {word!r}")
        else:
            groups.append(word)
    return StatAsked(numbers["--delay"], numbers["--count"], tuple(groups))


def print_stat(asked: StatAsked, result: LnetResult) -> bytes:
    """Return the intervals as ``lst stat`` prints them; all nodes of a group are alike.

    Raises
    ------
    UsageError
        A group that is not called ``clients`` or ``servers``: its side is not known.
    """
    lines: list[str] = []
    for rate in result.bytes_per_s[: asked.count]:
        for group in asked.groups:
            lines += _block(group, rate, result)
    return ("\n".join(lines) + "\n").encode() if lines else b""


def print_test(asked: StatAsked, result: LnetResult, session: str = "trimtab") -> bytes:
    """Return what a whole test prints, from its session on, for those who keep it in one file."""
    groups = "".join(f"{group}@o2ib are added to session\n" for group in asked.groups)
    head = (
        f"SESSION: {session} FEATURES: 1 TIMEOUT: {60 + asked.delay_s * (asked.count + 1)}"
        f" FORCE: No\n{groups}Test was added successfully\nmeasure is running now\n"
    )
    end = "1 batch in stopping\nBatch is stopped\n"
    return head.encode() + print_stat(asked, result) + end.encode()


def _block(group: str, client_rate: float, result: LnetResult) -> list[str]:
    if group not in ("clients", "servers"):
        raise UsageError(f"lst stat: {group!r} is on no side", hint="clients or servers")
    on_client = group == "clients"
    share = 1.0 if on_client else result.clients / result.servers
    data = client_rate * share
    transfers = data / result.transfer_size_bytes
    messages = _RPC_EACH_WAY * transfers
    control = messages * _MESSAGE_BYTES
    # A client that writes sends the data, and its server receives it.
    sends = (result.access == "write") == on_client
    received, sent = (control, data) if sends else (data, control)
    return [
        f"[LNet Rates of {group}]",
        f"[R] {_figures(messages, 0, 'RPC/s')}",
        f"[W] {_figures(messages, 0, 'RPC/s')}",
        f"[LNet Bandwidth of {group}]",
        f"[R] {_figures(received / 2**20, 2, 'MiB/s')} ",
        f"[W] {_figures(sent / 2**20, 2, 'MiB/s')} ",
    ]


def _figures(value: float, decimals: int, unit: str) -> str:
    cell = f"{value:<8.{decimals}f} {unit}"
    return f"Avg: {cell} Min: {cell} Max: {cell}"
