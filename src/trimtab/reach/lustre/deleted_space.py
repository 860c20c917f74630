"""Space of deleted files that is not free yet, as the MDSs report it, and how a wait for it ends.

::

    unlink ─▶ MDT: the file is gone ─▶ its objects wait ─▶ OST destroys them ─▶ commits: space free
                                       └──────── destroys_in_flight ────────────────┘

``osp.*.destroys_in_flight`` counts it for one MDT and one OST: it includes what waits on the MDT
(``sync_changes``) and what is in progress and not committed (``sync_in_progress``), so neither is
added (``lustre/osp/lproc_osp.c``). It excludes what was pending when the MDT was mounted: until
that is processed, ``old_sync_processed`` is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import visible
from trimtab.base.site import Servers
from trimtab.base.units import enumerated
from trimtab.reach.fleet import FanOut
from trimtab.reach.lustre.lustre_target import TargetName, parse_name
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.read_table import OF_PURGE, request
from trimtab.reach.lustre.server_query import views_of

_COUNT_MAXIMUM: Final = 2**31 - 1
"""The kernel prints a signed sum as unsigned: a larger value is a negative number."""


Pair = tuple[str, str]
"""An MDT and an OST: ``("MDT0000", "OST000a")``."""


@dataclass(frozen=True, slots=True)
class DeletedSpace:
    """Objects of deleted files whose space is not free yet.

    Attributes
    ----------
    objects
        Number that each MDT still has to destroy on each OST, including zeros; ``None`` unless all
        are known. OSTs in ``held`` are not included.
    uncounted
        Pairs with further objects, from before the MDT was mounted, which nothing counts.
    held
        Pairs whose OST the MDT has deactivated (``osp.*.active=0``): nothing is destroyed there
        until it is activated.
    trash_cans
        Parameters that keep deleted files: ``mdd.scratch-MDT0000.trash_can_enable=1``.
    problems
        Why something is unknown.
    """

    objects: Mapping[Pair, int] | None
    uncounted: frozenset[Pair] = frozenset()
    held: Mapping[Pair, int] = field(default_factory=dict)
    trash_cans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Queue:
    """The destroy queue of one MDT for one OST; ``None`` for missing or invalid values."""

    active: bool | None
    objects: int | None
    old_done: bool | None

    @property
    def whole(self) -> bool:
        """Whether all values are known."""
        return None not in (self.active, self.objects, self.old_done)


def ask_deleted_space(servers: Servers, file_system: str, *, fan_out: FanOut) -> DeletedSpace:
    """Query the MDSs of a site: one round trip to each.

    Raises
    ------
    ToolError
        ssh, or the Python to run here, is missing.
    """
    if not servers.mds:
        return DeletedSpace(None, problems=("the site names no MDS",))
    question = request(OF_PURGE, deadline_s=servers.timeout_s)
    views = views_of(servers.mds, question, servers, file_system, fan_out=fan_out)
    return deleted_space([*views.values()], file_system)


def deleted_space(views: list[ServerView], file_system: str) -> DeletedSpace:
    """Combine the answers of all MDSs.

    A count is known only if every MDT mentioned anywhere has one for every OST mentioned anywhere.
    A silent MDS matters only if it is not: another may serve its MDTs.
    """
    problems = [view.why_no("parameters") for view in views if view.lacks("parameters")]
    whole = [view for view in views if not view.lacks("parameters")]
    queues: dict[Pair, _Queue] = {}
    servers: dict[str, list[str]] = {}
    for view in whole:
        for device, queue in _queues(view, file_system):
            for mdt in (device.by or "", *((device.target,) if device.kind == "mdt" else ())):
                servers.setdefault(mdt, [])
            if view.name not in (serving := servers[device.by or ""]):
                serving.append(view.name)
            if device.kind == "ost":
                queues[device.by or "", device.target] = queue
    gaps = list(_gaps(queues, servers)) or ([] if queues else [f"no MDS reports {file_system}"])
    on = {pair: queue for pair, queue in queues.items() if queue.active is not False}
    off = {pair: queue for pair, queue in queues.items() if queue.active is False}
    return DeletedSpace(
        objects=None if gaps else {pair: queue.objects or 0 for pair, queue in on.items()},
        uncounted=frozenset(pair for pair, queue in on.items() if queue.old_done is False),
        held={pair: queue.objects for pair, queue in off.items() if queue.objects},
        trash_cans=tuple(_trash_cans(whole, file_system)),
        problems=tuple(dict.fromkeys((*problems, *gaps))),
    )


def _queues(view: ServerView, file_system: str) -> Iterator[tuple[TargetName, _Queue]]:
    parameters = view.parameters
    names = (
        name.split(".")[1]
        for leaf in ("active", "destroys_in_flight", "old_sync_processed")
        for name in parameters.matching(f"osp.*.{leaf}")
    )
    for name in dict.fromkeys(names):
        device = parse_name(name)
        if device is None or device.file_system != file_system or device.device is None:
            continue
        if not (device.by or "").startswith("MDT"):
            continue
        active = parameters.number(f"osp.{name}.active")
        objects = parameters.number(f"osp.{name}.destroys_in_flight")
        old_done = parameters.number(f"osp.{name}.old_sync_processed")
        yield (
            device,
            _Queue(
                active=None if active not in (0, 1) else active == 1,
                objects=objects if objects is not None and 0 <= objects <= _COUNT_MAXIMUM else None,
                old_done=None if old_done not in (0, 1) else old_done == 1,
            ),
        )


def _gaps(queues: Mapping[Pair, _Queue], servers: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield, for every MDT, why its count for some OST is unknown."""
    osts = sorted({ost for _, ost in queues})
    for mdt, serving in sorted(servers.items()):
        if len(serving) != 1:
            both = " and ".join(serving)
            yield f"{both} both serve {mdt}" if serving else f"no MDS that answered serves {mdt}"
            continue
        known = {ost: queues[mdt, ost] for ost in osts if (mdt, ost) in queues}
        missing = [ost for ost in osts if ost not in known or not known[ost].whole]
        if missing:
            yield f"{mdt} does not report {enumerated(missing, 3)}"


def _trash_cans(views: list[ServerView], file_system: str) -> Iterator[str]:
    """Yield the trash-can switches that are not off, as printed."""
    for view in views:
        for name, value in view.parameters.matching("mdd.*.trash_can_enable").items():
            device = parse_name(name.split(".")[1])
            if device is not None and device.file_system == file_system and value.strip() != "0":
                yield f"{name}={visible(value.strip())}"


class Drain:
    """Upper bound on the objects of a first look that still exist.

    On a busy file system some objects are always being destroyed, so a wait for zero would never
    end. What matters is the objects that were pending at its start. An OST gets changes in the
    order in which they were made, so these go first; only the total count is visible::

        count     10   12    9   11    8   13    0        first look: 10 are old
        fell by         -    3    -    3    -   13
        old, at most   10    7    7    4    4    0

    Whatever the count fell by between two looks is destroyed, oldest first. Objects that come and
    go between two looks are invisible, so this errs on the safe side: it may count new objects as
    old, never the reverse.
    """

    def __init__(self) -> None:
        self._seen: dict[Pair, int] = {}
        self._old: dict[Pair, int] | None = None

    def restart(self) -> None:
        """Make the next look the first."""
        self._old = None

    @property
    def old(self) -> Mapping[Pair, int] | None:
        """Upper bound for each pair; ``None`` before the first look."""
        return self._old

    def look(self, objects: Mapping[Pair, int], uncounted: Set[Pair] = frozenset()) -> int:
        """Return how many may be left, given the current counts.

        Parameters
        ----------
        objects
            Current count of each MDT and OST.
        uncounted
            Pairs with further objects that nothing counts: at least one is old. Once they are
            counted, that is the first look at the pair.
        """
        before = self._old or {}
        self._old = {
            pair: max(1, count) if pair in uncounted else self._left(pair, count, before.get(pair))
            for pair, count in objects.items()
        }
        self._seen = {pair: count for pair, count in objects.items() if pair not in uncounted}
        return sum(self._old.values())

    def _left(self, pair: Pair, count: int, old: int | None) -> int:
        if old is None or pair not in self._seen:
            return count
        return max(0, old - max(0, self._seen[pair] - count))
