"""Carry out a plan on this host."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import Problem, shape
from trimtab.base.error import TrimtabError, UsageError
from trimtab.base.event import new_identifier, utc_now
from trimtab.base.units import plural
from trimtab.purge.core_call import core_errors, require_answer
from trimtab.purge.plan.arming import who_now
from trimtab.purge.plan.deletion_plan import DeletionPlan
from trimtab.purge.plan.plan_directory import (
    LoadedPlan,
    open_candidates,
    plan_in,
    published_before,
    require_plan,
)
from trimtab.purge.policy_file import load_policy
from trimtab.purge.purge_policy import Policy
from trimtab.purge.run.next_step import plan_line, terms_of
from trimtab.purge.run.recovery import files_aside, leftovers_of_others, stranded
from trimtab.purge.run.rows import IN_QUARANTINE
from trimtab.purge.run.run_account import RunInterrupted, RunJob, RunResult, error_of
from trimtab.purge.run.runner import Sharing, run
from trimtab.purge.run.situation import CandidatesListing, RunProgress, StopReason
from trimtab.purge.run.surroundings import clear, remover_of, servers_of, set_aside, surroundings_of
from trimtab.purge.site_facts import bound_files, mount_tables
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.store.location import PurgePlace, prepared

if TYPE_CHECKING:
    from trimtab._core import Removal


_AGAIN: Final = "the same command recovers what was begun, and goes on"
_UNWATCHED: Final = (
    "files could not be watched here (fanotify): a change that moves only the ctime, such as an "
    "attribute, was not seen between the last look at a file and its removal"
)
_LEASE_S_MIN: Final = 1.0
BEFORE_ALL_TIMES_S: Final = -(2**62)
"""A cut-off that every file is too young for; used when restoring."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run.

    Attributes
    ----------
    apply
        Delete; otherwise do everything but that.
    policy
        File of the policy in force; ``None``: the plan's own, as it was.
    whole_plan
        A dry run goes through every row and does not stop at the target.
    ends_at_s
        Seconds since 1970 at which it stops; ``None``: when it is done.
    site
        Site whose servers are asked; ``None``: the site file of the plan's file system.
    shared
        Other hosts may carry the plan out at the same time, with the same place.
    lease_s
        Seconds after which another host takes over what a lost one had begun; used only if no run
        of the plan has set it yet.
    maintenance
        The maintenance in which the site is, for whose end it waits.
    """

    apply: bool = False
    policy: Path | None = None
    whole_plan: bool = False
    ends_at_s: float | None = None
    site: str | None = None
    shared: bool = False
    lease_s: float = 300.0
    maintenance: str | None = None

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
        canary=options.apply, now_s=now_s, site=servers.site(options.maintenance),
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
    """Return the quarantines of one of several simultaneous runs: for deleting and for recovery.

    Each run has its own. A run that takes over from another knows and empties them.
    """
    names = (f"{run} deletes", f"{run} recovers")
    return [f"{plan.quarantine}.{sha256(n.encode()).hexdigest()[:16]}" for n in names]


def notes_of(plan: DeletionPlan, result: RunResult) -> Iterator[str]:
    """Yield errors, what a power cut brought back, and where files wait that could not go back."""
    for number, count in sorted(result.errors.items(), key=lambda error: -error[1]):
        rows = plural(count, "row", ",")
        yield f"{rows} could not be processed: {os.strerror(number)}"
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
    """Set space aside again for the plan's next run; after the last one release it."""
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
