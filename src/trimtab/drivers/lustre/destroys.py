"""What becomes of the space of deleted files, as the MDSs tell it.

::

    unlink ─▶ MDT: the file is gone ─▶ its objects wait ─▶ OST destroys them ─▶ commits: space free
                                       └──────── destroys_in_flight ────────────────┘

``osp.*.destroys_in_flight`` counts it for one MDT and one OST: what waits on the MDT
(``sync_changes``) and what is under way and not committed (``sync_in_progress``) are both in it,
so nothing is added to it (``lustre/osp/lproc_osp.c``). It does not count what was left when the MDT
was mounted: until that is worked off, ``old_sync_processed`` is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.drivers.lustre.asking import views_of
from trimtab.drivers.lustre.names import TargetName, parse_name
from trimtab.drivers.lustre.reads import OF_PURGE, request
from trimtab.drivers.lustre.view import ServerView
from trimtab.launch.fleet import FanOut
from trimtab.model.site import Servers
from trimtab.units import enumerated
from trimtab.visible import visible

_COUNT_MAXIMUM: Final = 2**31 - 1
"""The kernel adds two signed numbers and prints them without a sign: more is less than 0."""


Pair = tuple[str, str]
"""An MDT and an OST: ``("MDT0000", "OST000a")``."""


@dataclass(frozen=True, slots=True)
class DeletedSpace:
    """What is not free yet of the space of deleted files.

    Attributes
    ----------
    objects
        What each MDT has still to have destroyed on each OST, zeros included; ``None``: it is not
        known of all. OSTs that are ``held`` are not among them.
    uncounted
        Pairs with objects besides, from before the MDT was mounted; nothing counts them.
    held
        The same where the MDT has switched the OST off (``osp.*.active=0``): nothing is destroyed
        there before it is switched on.
    trash_cans
        Parameters that say that deleted files are kept: ``mdd.scratch-MDT0000.trash_can_enable=1``.
    problems
        Why something is not known.
    """

    objects: Mapping[Pair, int] | None
    uncounted: frozenset[Pair] = frozenset()
    held: Mapping[Pair, int] = field(default_factory=dict)
    trash_cans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Queue:
    """What one MDT has for one OST; ``None`` is what was not printed, or is no such value."""

    active: bool | None
    objects: int | None
    old_done: bool | None

    @property
    def whole(self) -> bool:
        """Whether all of it is known."""
        return None not in (self.active, self.objects, self.old_done)


def ask_deleted_space(servers: Servers, file_system: str, *, fan_out: FanOut) -> DeletedSpace:
    """Return what the MDSs of a site say now: one round trip to each.

    Raises
    ------
    ToolError
        There is no ssh, or no such Python here.
    """
    if not servers.mds:
        return DeletedSpace(None, problems=("the site names no MDS",))
    question = request(OF_PURGE, deadline_s=servers.timeout_s)
    views = views_of(servers.mds, question, servers, file_system, fan_out=fan_out)
    return deleted_space([*views.values()], file_system)


def deleted_space(views: list[ServerView], file_system: str) -> DeletedSpace:
    """Return what is said by the answers of all MDSs.

    A count is known only if every MDT that anybody speaks of has one for every OST that anybody
    speaks of. That an MDS did not answer matters only then: another may serve its MDTs.
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
    """Yield for every MDT why it is not known what it has for every OST."""
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
    """Yield the switches of trash cans that are not off; what they say is taken as it is."""
    for view in views:
        for name, value in view.parameters.matching("mdd.*.trash_can_enable").items():
            device = parse_name(name.split(".")[1])
            if device is not None and device.file_system == file_system and value.strip() != "0":
                yield f"{name}={visible(value.strip())}"
