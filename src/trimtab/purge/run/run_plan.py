"""Carry out a plan on this host, and write the outcome into the site's log book."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Interrupted, RefusedError, ToolError, TrimtabError, UsageError
from trimtab.base.event import JOURNAL, EventKind, new_identifier, utc_now
from trimtab.base.units import format_bytes, plural
from trimtab.base.visible import visible
from trimtab.purge.core_call import core_errors, require_answer
from trimtab.purge.plan.arming import who_now
from trimtab.purge.plan.deletion_plan import DeletionPlan
from trimtab.purge.plan.plan_directory import (
    PLAN_FILE,
    LoadedPlan,
    open_candidates,
    plan_in,
    published_before,
    require_plan,
)
from trimtab.purge.policy_file import load_policy
from trimtab.purge.purge_policy import Policy
from trimtab.purge.run.exchange import CandidatesListing, RunProgress, StopReason
from trimtab.purge.run.lustre_servers import servers_of
from trimtab.purge.run.next_step import plan_line, terms_of
from trimtab.purge.run.recovery import files_aside, leftovers_of_others, stranded
from trimtab.purge.run.rows import IN_QUARANTINE
from trimtab.purge.run.run_account import RunJob
from trimtab.purge.run.run_result import RunInterrupted, RunResult, shortfall, waits
from trimtab.purge.run.runner import Sharing, run
from trimtab.purge.run.surroundings import clear, remover_of, set_aside, surroundings_of
from trimtab.purge.site_facts import bound_files, mount_tables
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.show.encode import Problem, shape
from trimtab.site.lookup import open_store, site_file, site_with_path, where_of
from trimtab.site.place import add_event
from trimtab.store.chain import RUN_RUNNING
from trimtab.store.purge_place import PurgePlace, prepared

if TYPE_CHECKING:
    from trimtab._core import Removal


_AGAIN: Final = "the same command recovers what was begun, and goes on"
GOES_ON: Final = "what was deleted is in the journal: the same command goes on with the rest"
"""What an interruption of a run leaves."""
_UNWATCHED: Final = (
    "files could not be watched here (fanotify): a change that moves only the ctime, such as an "
    "attribute, was not seen between the last look at a file and its removal"
)
_LEASE_S_MIN: Final = 1.0
BEFORE_ALL_TIMES_S: Final = -(2**62)
"""A cut-off that every file is too young for: what a restorer goes by."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is asked of one run.

    Attributes
    ----------
    apply
        Delete; else everything is done but that.
    policy
        File of the policy in force; ``None``: the plan's own, as it was.
    whole_plan
        A dry run goes through every row and does not stop at the target.
    ends_at_s
        Seconds since 1970 at which it stops; ``None``: when it is done.
    site
        Whose servers are asked; ``None``: those of the site file that is of the plan's file system.
    shared
        Other hosts may carry the plan out at once, with the same place.
    lease_s
        After so long another host takes over what a lost one had begun, if no run has said yet.
    """

    apply: bool = False
    policy: Path | None = None
    whole_plan: bool = False
    ends_at_s: float | None = None
    site: str | None = None
    shared: bool = False
    lease_s: float = 300.0

    def __post_init__(self) -> None:
        if self.shared and not self.apply:
            raise UsageError(
                "a dry run deletes nothing and needs no other host", code="options-conflict"
            )
        if self.lease_s < _LEASE_S_MIN:
            raise UsageError(
                f"a lease of {self.lease_s:g} s is shorter than a batch", code="value-out-of-range"
            )


@dataclass(frozen=True, slots=True)
class PurgeRunDocument:
    """The result of a run; for a dry run, what the result would have been.

    ``files`` and ``bytes`` are those of the plan, ``freed_bytes`` those actually freed.
    ``outcomes`` are rows of the plan. ``unexplained`` are files moved aside by an interrupted run
    that match no row: they are left there for a person to check.

    Attributes
    ----------
    notes
        What a person should look at, a sentence each.
    """

    loaded: LoadedPlan
    result: RunResult
    notes: tuple[str, ...]

    @property
    def error(self) -> Problem | None:
        """Why it did not do what was asked."""
        return error_of(self.result)


shape(
    PurgeRunDocument,
    inline={"loaded": ("plan", "root", "rows"), "result": ()},
    derive={"error": "error"},
)


def run_plan(
    directory: Path,
    options: RunOptions,
    *,
    place: PurgePlace,
    version: str,
    fan_out: FanOut = reach,
    progress: Callable[[RunProgress], None] | None = None,
) -> PurgeRunDocument:
    """Return the result of `trimtab.purge.run.runner.run`, also of one that a signal ended.

    Raises
    ------
    RefusedError
        The plan is not what was signed, or another run has the journals; for guards, `error_of`.
    UsageError
        The named site is not there, or is another file system's.
    NoAnswer
        The file system hangs.
    """
    from trimtab._core import REMOVAL_OUTCOMES

    require_plan(directory)
    key_file = prepared(place).key
    loaded, key = plan_in(directory, key_file, owner=place.owner, candidates=False)
    with core_errors("the run"):
        candidates = open_candidates(loaded, owner=place.owner)
    plan, run_id, now_s = loaded.plan, new_identifier(utc_now()), int(time.time())
    policy = loaded.policy if options.policy is None else load_policy(options.policy).policy
    require_answer(policy.root, "the run")
    servers = servers_of(plan.file_system, options.site, fan_out=fan_out)
    previous, _ = published_before(loaded, key, owner=place.owner)
    world = surroundings_of(
        loaded, previous, policy, journals=place.journals, owner=place.owner,
        canary=options.apply, now_s=now_s, site=servers.site(),
        leftovers=partial(leftovers_of_others, loaded, place),
    )  # fmt: skip
    asides = _quarantines(plan, run_id) if options.shared else [plan.quarantine] * 2

    def remover(aside: str, before_s: int | None = None) -> Removal:
        # By the descriptor of the root that the guards looked at: its path may lead elsewhere.
        in_use = bound_files(plan.file_system.root, mount_tables())
        return remover_of(
            loaded, candidates, policy, now_s=now_s, before_s=before_s, root=world.root,
            in_use=in_use, quarantine=aside,
        )  # fmt: skip

    terms = partial(
        terms_of, apply=options.apply, whole_plan=options.whole_plan, ends_at_s=options.ends_at_s
    )
    job = RunJob(
        id=run_id,
        plan=plan_line(plan, loaded.sha256),
        horizon_s=plan.horizon.before_s,
        terms=terms,
        remover=partial(remover, asides[0]),
        restorer=partial(remover, asides[1], BEFORE_ALL_TIMES_S),
        codes=dict(REMOVAL_OUTCOMES),
        listing=CandidatesListing(candidates, plan.candidates.files),
        surroundings=world,
        journals=place.journals,
        version=version,
        host=platform.node(),
        who=who_now(),
        owner=place.owner,
    )
    with contextlib.closing(world), core_errors("the run", hint=_AGAIN):
        result = _carried_out(job, options, plan, progress)
        _keep_room(loaded, policy, world.root, result)
    return PurgeRunDocument(loaded, result, (*notes_of(plan, result), *servers.sentences()))


def _carried_out(
    job: RunJob,
    options: RunOptions,
    plan: DeletionPlan,
    progress: Callable[[RunProgress], None] | None,
) -> RunResult:
    try:
        shared = Sharing(partial(_quarantines, plan), options.lease_s)
        sharing = shared if options.shared else None
        return run(job, apply=options.apply, sharing=sharing, progress=progress)
    except RunInterrupted as error:
        return error.result


def _quarantines(plan: DeletionPlan, run: str) -> list[str]:
    """Return where one of several runs at once has files aside: as it deletes, and recovers.

    Each has its own, and who takes over from it knows which: it empties and removes what is in it.
    """
    names = (f"{run} deletes", f"{run} recovers")
    return [f"{plan.quarantine}.{sha256(n.encode()).hexdigest()[:16]}" for n in names]


def notes_of(plan: DeletionPlan, result: RunResult) -> Iterator[str]:
    """Yield errors, what a power cut brought back, and where files wait that could not go back."""
    for number, count in sorted(result.errors.items(), key=lambda error: -error[1]):
        rows = plural(count, "row", ",")
        yield f"{rows} could not be dealt with: {os.strerror(number)}"
    if result.unwatched:
        yield _UNWATCHED
    if result.undone_rows:
        yield (
            f"{plural(result.undone_rows, 'file', ',')} that an earlier run had deleted exist "
            "again: the file system lost the deletion in a power cut or crash"
        )
    if result.outcomes.get(IN_QUARANTINE):
        yield from stranded(files_aside(plan.file_system.root), plan.quarantine)


def _keep_room(loaded: LoadedPlan, policy: Policy, root: int | None, result: RunResult) -> None:
    """Set aside again what a run used up, for the next of its plan; after the last it goes."""
    plan, throttle = loaded.plan, policy.throttle
    ended = result.reason not in (StopReason.REFUSED, StopReason.INTERRUPTED)
    used_room = result.apply and ended
    if not used_room or root is None or plan.file_system.kind == "lustre":
        return
    if result.rows_left == 0:
        clear(root, plan.quarantine)
        return
    with contextlib.suppress(TrimtabError, OSError):
        set_aside(root, plan.quarantine, threads=throttle.threads, rows=throttle.batch_files)


def error_of(result: RunResult) -> Problem | None:
    """Return why a run did not do what was asked; ``None`` where it did as far as it may.

    A cap that is reached and a plan without more files are how runs end.
    """
    match result.reason:
        case StopReason.REFUSED:
            return result.refusal()
        case StopReason.INTERRUPTED:
            return Interrupted(result.text, GOES_ON)
        case StopReason.OBJECTION:
            hint = result.objections[0].hint if result.objections else None
            return RefusedError(
                f"the run was stopped: {result.text}", code="run-stopped", hint=hint
            )
        case (
            StopReason.NOT_SETTLED
            | StopReason.NOT_FREED
            | StopReason.TROUBLES
            | StopReason.OVERTAKEN
        ):
            return ToolError(f"the run was stopped: {result.text}", code="run-stopped")
        case _:
            return None


_DETAIL_MAXIMUM: Final = 1000


def run_logged(
    directory: Path,
    options: RunOptions,
    *,
    store_url: str | None,
    place: PurgePlace,
    version: str,
    progress: Callable[[RunProgress], None] | None = None,
) -> PurgeRunDocument:
    """Carry a plan out as `run_plan`, and write into the site's log book what it came to.

    The site is the one that the options name, else the one site file of this host that has the
    root. A dry run is no entry. It all stands in the run's journal whatever becomes of the log
    book, so a trouble with that is a note of the run and not raised.
    """
    began = utc_now()
    try:
        ran = run_plan(directory, options, place=place, version=version, progress=progress)
    except (TrimtabError, Interrupted) as error:
        entries = [(EventKind.PURGE_FAILED, f"it ended with an error: {error.message}")]
        if options.apply and error.code != RUN_RUNNING:
            _log(options.site or _site_of(_root_in(directory)), store_url, entries, began=began)
        raise
    if not options.apply:
        return ran
    where = options.site or _site_of(ran.loaded.plan.file_system.root)
    trouble = _log(where, store_url, _entries(ran), began=began)
    return ran if trouble is None else replace(ran, notes=(*ran.notes, trouble))


def _entries(ran: PurgeRunDocument) -> list[tuple[EventKind, str]]:
    """Return what is to be written of a run.

    One that found nothing to delete is an entry too: only so can its absence be noticed. One that
    was refused because its time has not come is none.
    """
    result, by = ran.result, f"by plan {ran.loaded.plan.id}"
    failure, entries = shortfall(result), []
    if result.files or failure is None:
        files, freed = plural(result.files, "file", ","), format_bytes(result.freed_bytes)
        entries.append((EventKind.PURGE, f"{files}, {freed} freed, {by}"))
    if failure is not None:
        entries.append((EventKind.PURGE_FAILED, f"{failure}, {by}"))
    return [] if waits(result) else entries


def _site_of(root: str | None) -> str | None:
    site = None if root is None else site_with_path(root, drivers=("local", "lustre"))
    return None if site is None else where_of(site)


def _root_in(directory: Path) -> str | None:
    """Return the root of a plan that may be damaged: nothing rests on it but who is told."""
    try:
        return str(json.loads((directory / PLAN_FILE).read_bytes())["file_system"]["root"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log(
    where: str | None,
    store_url: str | None,
    entries: list[tuple[EventKind, str]],
    *,
    began: datetime,
) -> str | None:
    if where is None or not entries:
        return None
    ended = utc_now()
    try:
        site = site_file(where)
        with open_store(store_url, site.site if site else None, create=True) as store:
            for kind, detail in entries:
                add_event(
                    store,
                    where,
                    kind=kind.value,
                    detail=visible(detail)[:_DETAIL_MAXIMUM],
                    now=ended,
                    at=began.isoformat(),
                    until=ended.isoformat(),
                    source=JOURNAL,
                )
    except TrimtabError as error:
        return f"the run stands in its journal and not in the site's log book: {error.message}"
    return None
