"""Pools of ZFS beneath targets: ``zpool get -H -p all`` and ``zpool status``.

Both print every pool of a server, and need no root since ZFS 0.7. ``zpool status`` abbreviates its
counts (``1.88K``), which are read as printed. Nothing here has been run on ZFS: the forms are those
of zpool-get(8), zpool-status(8) and zpoolprops(7) of 2.1, and of outputs of 0.7 to 2.2 in public
reports (openzfs/zfs, issues 7537, 8715, 12090 and 13879).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from trimtab.base.snapshot import NotAvailable, Reading, not_available
from trimtab.reach.lustre.lustre_view import ServerView

_STATES: Final = "ONLINE|DEGRADED|FAULTED|OFFLINE|UNAVAIL|REMOVED"
_DEVICE: Final = re.compile(
    rf"(\s+)(\S.{{0,200}}?) +(?:{_STATES})"
    r"((?: +[0-9]{1,9}(?:\.[0-9]{1,3})?[KMGTPE]?){3})(?:\s|$)"
)
_UNITS: Final = {unit: 1000**power for power, unit in enumerate("KMGTPE", start=1)}
_T = TypeVar("_T")
_DATA_ERRORS: Final = re.compile(r"errors: (?:(No known)|([0-9]{1,12})) data errors")


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool in ``zpool status``.

    Attributes
    ----------
    is_resilvering
        Whether it copies data onto a replaced device.
    data_errors
        Files or blocks that it could not repair; ``None`` if it does not say.
    errors
        Device to its failed reads, failed writes and wrong checksums together.
    """

    is_resilvering: bool
    data_errors: int | None
    errors: Mapping[str, int]


def parse_properties(text: str) -> dict[str, dict[str, str]]:
    r"""Return pool to its properties by name; a last line without a line feed is left out.

    Examples
    --------
    >>> parse_properties("ost0pool\tcapacity\t45\t-\nost0pool\thealth\tONLINE\t-\n")
    {'ost0pool': {'capacity': '45', 'health': 'ONLINE'}}
    """
    pools: dict[str, dict[str, str]] = {}
    for line in text.split("\n")[:-1]:
        words = line.split("\t")
        if len(words) == 4:
            pools.setdefault(words[0], {})[words[1]] = words[2]
    return pools


def parse_status(text: str) -> dict[str, PoolStatus]:
    """Return each pool whose text is complete: it ends with its errors."""
    pools: dict[str, PoolStatus] = {}
    for part in re.split(r"(?m)^ {1,4}pool: ", text)[1:]:
        name, _, rest = part.partition("\n")
        begin = rest.find("\nerrors: ")
        if begin < 0 or "\n" not in rest[begin + 1 :]:
            continue
        match = _DATA_ERRORS.match(rest, begin + 1)
        data_errors = None if match is None else 0 if match[1] else int(match[2])
        is_resilvering = "resilver in progress" in rest[:begin]
        pools[name.strip()] = PoolStatus(is_resilvering, data_errors, dict(_devices(rest[:begin])))
    return pools


def _devices(text: str) -> Iterator[tuple[str, int]]:
    """Yield the devices of a pool with their errors: rows of its tree with none below them."""
    rows = [match for line in text.split("\n") if (match := _DEVICE.match(line)) is not None]
    depths = [len(match[1].expandtabs()) for match in rows]
    for match, depth, below in zip(rows, depths, [*depths[1:], 0], strict=True):
        # The pool itself is the first row, and has none below it only if its tree was cut.
        if below <= depth and match is not rows[0]:
            yield match[2], sum(_count(word) for word in match[3].split())


def _count(word: str) -> int:
    unit = _UNITS.get(word[-1], 1)
    return round(float(word.rstrip("KMGTPE")) * unit)


def pool_of(dataset: str) -> str:
    """Return the pool of a dataset: ``ost0pool`` of ``ost0pool/ost0``."""
    return dataset.partition("/")[0]


def properties_of(server: ServerView, dataset: str) -> Mapping[str, str] | NotAvailable:
    """Return the properties of the pool that a target is in, or why they are unknown."""
    return _of_pool(server, dataset, "pool-properties", parse_properties)


def pool_readings(server: ServerView, dataset: str) -> Iterator[Reading]:
    """Yield the readings of the pool beneath a target; its devices as those of its drives."""
    pool = pool_of(dataset)
    properties = properties_of(server, dataset)
    status = _of_pool(server, dataset, "pool-status", parse_status)
    source = f"zpool get on {server.name}: {pool}"
    for name, word in (
        ("pool_fragmentation_fraction", "fragmentation"),
        ("pool_capacity_fraction", "capacity"),
    ):
        yield Reading.of(name, _fraction(properties, word), f"{source} {word}")
    yield Reading.of("pool_autotrim", _flag(properties, "autotrim"), f"{source} autotrim")
    health = _word(properties, "health")
    where = f"zpool status on {server.name}: {pool}"
    if isinstance(status, PoolStatus) and status.is_resilvering:
        yield Reading("degraded", True, f"{where}: resilver in progress", label=pool)
    elif isinstance(health, NotAvailable):
        yield Reading("degraded", reason=health.reason, label=pool)
    else:
        yield Reading("degraded", health != "ONLINE", f"{source} health {health}", label=pool)
    if isinstance(status, NotAvailable):
        yield Reading("errors_total", reason=status.reason)
        yield Reading("drive_media_errors_total", reason=status.reason)
        return
    unknown = not_available("errors-unlisted", f"{where} does not say how many data errors it has")
    data_errors = unknown if status.data_errors is None else status.data_errors
    yield Reading.of("errors_total", data_errors, f"{where}: data errors")
    for device, count in status.errors.items():
        yield Reading("drive_media_errors_total", count, f"{where} {device}", label=device)


def why_not_writing(server: ServerView, dataset: str) -> str | None:
    """Return why the pool beneath a target takes no writes; ``None`` if nothing says so."""
    properties = properties_of(server, dataset)
    if isinstance(properties, NotAvailable):
        return None
    words = f"zpool get on {server.name}: {pool_of(dataset)}"
    if properties.get("health") == "SUSPENDED":
        return f"{words} health SUSPENDED"
    return f"{words} readonly on" if properties.get("readonly") == "on" else None


def _of_pool(
    server: ServerView, dataset: str, key: str, parse: Callable[[str], Mapping[str, _T]]
) -> _T | NotAvailable:
    """Return what a command says of the pool of a dataset."""
    answer = server.answer.command(key)
    if answer is None or not answer.complete or answer.exit_code != 0:
        return NotAvailable(server.why_no(key))
    pool = parse(answer.stdout).get(pool_of(dataset))
    if pool is None:
        text = f"{' '.join(answer.argv[:2])} on {server.name} has no pool {pool_of(dataset)}"
        return not_available("pool-not-listed", text)
    return pool


def _word(properties: Mapping[str, str] | NotAvailable, name: str) -> str | NotAvailable:
    if isinstance(properties, NotAvailable):
        return properties
    value = properties.get(name, "-")
    why = f"this version of ZFS has no value of {name} for the pool"
    return not_available("pool-property-unknown", why) if value == "-" else value


def _fraction(properties: Mapping[str, str] | NotAvailable, name: str) -> float | NotAvailable:
    """Return a percentage as a fraction."""
    word = _word(properties, name)
    if isinstance(word, NotAvailable):
        return word
    digits = word.removesuffix("%")
    if not digits.isdecimal() or int(digits) > 100:
        return not_available("pool-property-unknown", f"{name} is {word[:40]!r}, not a percentage")
    return int(digits) / 100


def _flag(properties: Mapping[str, str] | NotAvailable, name: str) -> bool | NotAvailable:
    word = _word(properties, name)
    if isinstance(word, NotAvailable) or word in ("on", "off"):
        return word if isinstance(word, NotAvailable) else word == "on"
    return not_available("pool-property-unknown", f"{name} is {word[:40]!r}, neither on nor off")
