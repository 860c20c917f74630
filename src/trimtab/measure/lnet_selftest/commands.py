"""The commands of an LNet selftest, in the one order that is safe. Pure.

A session is ended only when its batch has stopped: ended with a running batch, the work queue of
the console waits for ever, and every later ``lctl`` and ``lnetctl`` of the node with it, until
that is booted again (seen with Lustre 2.17). So stopping comes first, always, and what it prints
decides whether the session may be ended (`stopped`).

Source: lnet/utils/lst.c (``jt_lst_stop_batch``, ``jt_lst_query_batch``), Lustre manual, LNet
Self-Test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from trimtab.errors import UsageError

LnetAccess = Literal["write", "read", "ping"]

_NID: Final = re.compile(r"[0-9A-Za-z.:\[\],/*-]{1,120}@[a-z0-9]{1,16}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,30}")
_DISTRIBUTE: Final = re.compile(r"[1-9]\d{0,5}:[1-9]\d{0,5}")
_BRACKET: Final = re.compile(r"\[([\d,/-]{1,100})\]")
_PART: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5})(?:/(\d{1,5}))?)?")
_LARGEST_BYTES: Final = 2**20
"""LNET_MTU: the most that one transfer carries."""


@dataclass(frozen=True, slots=True)
class LnetTest:
    """One test between two groups of nodes.

    Attributes
    ----------
    clients, servers
        LNet names of the nodes: ``10.0.2.15@tcp``, ``10.0.2.[15-18]@o2ib``.
    access
        ``write`` and ``read`` move data as clients of Lustre do; ``ping`` only asks.
    size_bytes
        Of one transfer.
    check
        What of the data is compared: ``simple`` (begin and end of each page), ``full``, or nothing.
    concurrency
        Transfers of one client that are under way at the same time.
    distribute
        How many clients ask how many servers: ``1:1``; every client asks every server otherwise.
    """

    clients: tuple[str, ...]
    servers: tuple[str, ...]
    access: LnetAccess = "write"
    size_bytes: int = 2**20
    check: Literal["simple", "full"] | None = "simple"
    concurrency: int = 8
    distribute: str | None = "1:1"


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands of one test, to be run one after another on one node.

    Attributes
    ----------
    prepare
        Up to the start of the batch. One that fails ends the preparation.
    measure
        Prints the intervals.
    stop
        To be run whatever came before, once the batch may be running: it waits until the batch has
        stopped on all nodes.
    query
        Says whether it has.
    errors
        Prints what failed or came wrong.
    end
        To be run only when `stopped` says so.
    """

    prepare: tuple[tuple[str, ...], ...]
    measure: tuple[str, ...]
    stop: tuple[str, ...]
    query: tuple[str, ...]
    errors: tuple[str, ...]
    end: tuple[str, ...]


def sequence(
    test: LnetTest,
    *,
    key: int,
    delay_s: int = 5,
    count: int = 12,
    session: str = "trimtab",
    program: str = "lst",
) -> Commands:
    """Return the commands of a test.

    Parameters
    ----------
    key
        Of the session, not 0: every command of it carries the same, in its environment.
    delay_s, count
        Seconds of one interval and how many of them are measured.

    Raises
    ------
    UsageError
        A node's name is none, or a number is out of its bounds.
    """
    _check(test, session, key, min(delay_s, count))

    def lst(*words: str) -> tuple[str, ...]:
        return ("env", f"LST_SESSION={key}", program, *words)

    # A node that loses the console gives the session up after this time.
    timeout_s = 60 + delay_s * (count + 1)
    groups = ("clients", "servers")
    return Commands(
        prepare=(
            lst("new_session", "--timeout", str(timeout_s), session),
            lst("add_group", "servers", *test.servers),
            lst("add_group", "clients", *test.clients),
            lst("add_batch", "measure"),
            lst("add_test", "--batch", "measure", *_test(test)),
            lst("run", "measure"),
        ),
        measure=lst("stat", "--delay", str(delay_s), "--count", str(count), *groups),
        stop=lst("stop", "measure"),
        query=lst("query", "measure"),
        errors=lst("show_error", *groups),
        end=lst("end_session"),
    )


def stopped(stop_output: str, query_output: str) -> bool:
    """Return whether a batch is proved to have stopped, so that its session may be ended.

    Both say so, or the query says that it is idle everywhere: exit codes are not asked.
    """
    lines = [line.strip() for line in query_output.splitlines()]
    states = [line for line in lines if line.startswith("measure ")]
    if not states or any(not line.endswith("is stopped") for line in states):
        return False
    return any(line.strip() == "Batch is stopped" for line in stop_output.splitlines())


def count_of_nids(nid: str) -> int | None:
    """Return how many nodes a name with ranges stands for, ``None`` where that is not plain.

    Examples
    --------
    >>> count_of_nids("10.0.2.[15-18,30]@o2ib")
    5
    >>> count_of_nids("10.0.2.15@tcp")
    1
    """
    if _NID.fullmatch(nid) is None or "*" in nid:
        return None
    counts = [_count(bracket) for bracket in _BRACKET.findall(nid)]
    rest = _BRACKET.sub("", nid)
    if None in counts or "[" in rest or "]" in rest or "," in rest:
        return None
    return prod(count for count in counts if count is not None)


def _count(bracket: str) -> int | None:
    total = 0
    for part in bracket.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if step == 0 or last < first:
            return None
        total += (last - first) // step + 1
    return total


def _test(test: LnetTest) -> tuple[str, ...]:
    words = ["--concurrency", str(test.concurrency)]
    if test.distribute is not None:
        words += ["--distribute", test.distribute]
    words += ["--from", "clients", "--to", "servers"]
    if test.access == "ping":
        return (*words, "ping")
    words += ["brw", test.access]
    if test.check is not None:
        words.append(f"check={test.check}")
    return (*words, f"size={test.size_bytes}")


def _check(test: LnetTest, session: str, key: int, least: int) -> None:
    _check_nids(test.clients, "client")
    _check_nids(test.servers, "server")
    if _NAME.fullmatch(session) is None:
        raise UsageError(f"{session!r} is not a valid session name", code="session-invalid")
    if test.distribute is not None and _DISTRIBUTE.fullmatch(test.distribute) is None:
        raise UsageError(
            f"{test.distribute!r} is not a distribution such as 1:1", code="distribution-invalid"
        )
    if not 1 <= test.size_bytes <= _LARGEST_BYTES:
        problem = f"a transfer of {test.size_bytes} bytes: LNet takes 1 byte to 1 MiB"
        raise UsageError(problem, code="transfer-size-invalid")
    if min(key, test.concurrency, least) < 1:
        problem = "key, concurrency, delay and count must be at least 1"
        raise UsageError(problem, code="test-parameters-invalid")


def _check_nids(nids: Sequence[str], noun: str) -> None:
    if not nids:
        raise UsageError(f"no {noun} named", code="nids-missing")
    for nid in nids:
        if _NID.fullmatch(nid) is None:
            problem = f"{nid!r} is not an LNet name of a {noun}"
            raise UsageError(problem, code="nid-invalid", hint="as 10.0.2.15@tcp")
