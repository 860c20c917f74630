"""A plan carried out here and now: the facts of this machine, the remover of the core, a journal."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.errors import RefusedError
from trimtab.launch.process import utc_now
from trimtab.loop.purging.noticing import policy_of
from trimtab.loop.purging.place import PurgePlace, prepared
from trimtab.model.identifier import new_identifier
from trimtab.purge.plan import LoadedPlan, load_plan, published_before, read_key
from trimtab.purge.policy import Policy, loosened
from trimtab.purge.policy_file import load_policy
from trimtab.purge.run import collect
from trimtab.purge.run.arming import arm, person_now, read_arming
from trimtab.purge.run.facts import index_facts, plan_facts, plan_line, terms_of
from trimtab.purge.run.listing import CandidatesListing
from trimtab.purge.run.runner import Job, Progress, Remover, RunResult, run
from trimtab.purge.run.situation import ArmedBy, PlanFacts, RootFacts, Situation, Totals
from trimtab.purge.run.state import Usage

_THREAD_BATCHES = 2


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
    """

    apply: bool = False
    policy: Path | None = None
    whole_plan: bool = False
    ends_at_s: float | None = None


def arm_plan(directory: Path, *, place: PurgePlace, now: datetime) -> ArmedBy:
    """Return who armed a plan now; it has to be published first, or nobody could have objected."""
    loaded = load_plan(directory, read_key(place.key, owner=place.owner), owner=place.owner)
    if loaded.publication is None:
        raise RefusedError(
            "the plan is not published: whoever arms it would arm what nobody has seen",
            hint="trimtab purge notify PLAN",
        )
    person = person_now()
    return arm(
        prepared(place).journals,
        loaded.plan.id,
        loaded.sha256,
        at_s=now.timestamp(),
        person=person,
        owner=place.owner,
    )


def run_plan(
    directory: Path,
    options: RunOptions,
    *,
    place: PurgePlace,
    version: str,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Return what a run of a plan came to; see `trimtab.purge.run.runner.run`."""
    key = read_key(prepared(place).key, owner=place.owner)
    loaded = load_plan(directory, key, owner=place.owner)
    before = policy_of(loaded)
    policy = before if options.policy is None else load_policy(options.policy).policy
    others = [one for one in loaded.directory.parent.iterdir() if one != loaded.directory]
    previous, _ = published_before(
        [one for one in others if (one / "plan.json").is_file()],
        loaded.plan,
        key,
        owner=place.owner,
    )
    world = Here(loaded, before, policy, previous, place, options)
    plan = loaded.plan
    job = Job(
        id=new_identifier(utc_now()),
        plan=plan_line(plan, loaded.sha256),
        horizon_s=plan.horizon.before_s,
        terms=lambda now: terms_of(
            now, apply=options.apply, whole_plan=options.whole_plan, ends_at_s=options.ends_at_s
        ),
        remover=lambda: remover_of(loaded, policy),
        codes=_codes(),
        listing=CandidatesListing(loaded.candidates, plan.candidates.files),
        surroundings=world,
        journals=place.journals,
        version=version,
        host=platform.node(),
        who=_who(),
        owner=place.owner,
    )
    return run(job, apply=options.apply, progress=progress)


class Here:
    """This machine: its clock, its mounts, and the facts that guards judge."""

    def __init__(
        self,
        loaded: LoadedPlan,
        before: Policy,
        policy: Policy,
        previous: LoadedPlan | None,
        place: PurgePlace,
        options: RunOptions,
    ) -> None:
        self.loaded, self.before, self.policy = loaded, before, policy
        self.previous, self.place, self.options = previous, place, options
        self._canary = None
        self._first_root: RootFacts | None = None

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Return after a while; signals end it."""
        time.sleep(seconds)

    def measure(self) -> tuple[Usage, int | None]:
        """Return how full the file system is; what is still being destroyed is not known here."""
        return collect.usage(self.root), None

    def situation(self) -> Situation:
        """Return the facts as they are now; the canary flies once a run."""
        top = collect.root_facts(self.root)
        return Situation(
            now_s=self.now_s(),
            policy=self.policy,
            plan=self._plan_facts(top),
            index=index_facts(self.loaded.plan),
            root=top,
            allow_list=collect.allow_list(
                Path(self.policy.guards.allow_list), owner=self.place.owner
            ),
            arming=read_arming(
                self.place.journals,
                self.loaded.plan.id,
                self.loaded.sha256,
                owner=self.place.owner,
            ),
            root_user=os.geteuid() == 0,
            kill_switch=collect.kill_switch(Path(self.policy.guards.kill_switch)),
            canary=self._flown(),
            usage=None if top.trouble else collect.usage(self.root),
            journal_trouble=collect.journal_trouble(self.place.journals, self.root),
        )

    @property
    def root(self) -> str:
        """Of the plan."""
        return self.loaded.plan.file_system.root

    def _flown(self):
        if self.options.apply and self._canary is None:
            self._canary = collect.canary(self.root)
        return self._canary

    def _plan_facts(self, top: RootFacts) -> PlanFacts:
        last = None if self.previous is None else self.previous.plan.candidates
        return plan_facts(
            self.loaded.plan,
            self.loaded.publication,
            changes=loosened(self.before, self.policy, at_s=int(self.now_s())),
            previous=None if last is None else Totals(last.files, last.allocated_bytes),
            atime_settings=top.atime_settings,
        )


def remover_of(loaded: LoadedPlan, policy: Policy) -> Remover:
    """Return the core's remover for a plan, under the policy in force.

    The rules are the plan's; exemptions that the policy in force adds come on top.
    """
    from trimtab._core import Removal, Rules

    plan = loaded.plan
    rules = plan.rules
    kept = {"path": set(rules.exempt_path_bytes), "user": set(rules.exempt_users)}
    kept |= {"group": set(rules.exempt_groups), "project": set(rules.exempt_projects)}
    for one in policy.exemptions:
        if one.is_in_force(int(time.time())):
            kept[one.kind].add(one.value)  # pyright: ignore[reportArgumentType]
    return Removal(
        str(loaded.candidates),
        plan.file_system.root,
        Rules(
            counted=list(rules.counted),
            as_of_s=int(time.time()),
            old_enough_before_s=rules.old_enough_before_s,
            minimum_size_bytes=max(rules.minimum_size_bytes, policy.minimum_size_bytes),
            exempt_paths=sorted(kept["path"]),  # pyright: ignore[reportArgumentType]
            exempt_users=sorted(kept["user"]),  # pyright: ignore[reportArgumentType]
            exempt_groups=sorted(kept["group"]),  # pyright: ignore[reportArgumentType]
            exempt_projects=sorted(kept["project"]),  # pyright: ignore[reportArgumentType]
            linked=rules.linked and policy.linked_files == "delete",
        ),
        before_s=plan.horizon.before_s,
        quarantine=f".trimtab-purge-{plan.id}",
        time_resolution_ns=plan.index.time_resolution_ns,
        threads=policy.throttle.threads,
        open_files=policy.open_files == "delete",
        lustre=plan.file_system.kind == "lustre",
    )


def _codes() -> dict[int, str]:
    from trimtab._core import REMOVAL_OUTCOMES

    return dict(REMOVAL_OUTCOMES)


def _who() -> str:
    import getpass

    person = person_now()
    login = "" if person is None else f" (login {person})"
    try:
        return f"{getpass.getuser()}{login}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}{login}"
