"""The armed policies of a site, each in one slot of the watch, and its scheduled purge plans.

A policy observes, decides and carries out. The watch never arms or runs a purge plan: it scans,
plans and publishes, each step in its own process. A scan takes hours: its process continues while
probes run, and the next watch resumes it if this one ends::

    DIRECTORY/2026-11-22T0300Z.index    trimtab purge scan
    DIRECTORY/2026-11-22T0300Z.plan     trimtab purge plan
                                        trimtab purge notify
    DIRECTORY/2026-11-22T0300Z.log      what they printed
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from trimtab.act.apply import ActingSurroundings, GivesWay, reason_of
from trimtab.act.decide.decision import decided
from trimtab.act.session import ActingPlace, carry_out, carrying_out, settle
from trimtab.base.action import Action, Outcome, Plan
from trimtab.base.error import TrimtabError, system_errors, visible
from trimtab.base.site import Site
from trimtab.base.units import plural
from trimtab.purge.index.manifest_file import MANIFEST
from trimtab.store.location import STORE_VARIABLE
from trimtab.store.slot import SlotState
from trimtab.watch.service import fields

if TYPE_CHECKING:
    from trimtab.act.decide.site_observed import SiteObserved
    from trimtab.reach.driver_protocol import Driver


ORDER: Final = ("tunables", "balance", "allocator", "trim")
"""Order of the policies; the slowest comes last and gives way to the next slot."""
MEASURING_S: Final = 300.0
"""Longer than a survey of a first target and of those beside it takes."""


def armed(site: Site) -> tuple[str, ...]:
    """Return the policies that the site file arms, in the order in which they are kept."""
    return tuple(policy for policy in ORDER if policy in site.policies.armed)


def plans_of(place: ActingPlace, driver: Driver) -> tuple[Plan, ...]:
    """Return what each armed policy would change now.

    Parameters
    ----------
    driver
        Observes; it changes nothing.
    """
    observed, now = place.observe(driver), place.clock()
    return tuple(decided(observed, policy, now) for policy in armed(place.site))


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """Outcome of a policy in one slot.

    Attributes
    ----------
    problem
        Why it was aborted.
    gave_way
        Whether it was not begun because another slot was due.
    """

    plan: Plan
    actions: tuple[Action, ...] = ()
    problem: str | None = None
    gave_way: bool = False

    @property
    def failed(self) -> bool:
        """Whether anything did not end as planned."""
        return self.problem is not None or any(
            action.outcome is not Outcome.DONE and not action.gave_way for action in self.actions
        )

    def __str__(self) -> str:
        """Return it in one line."""
        name, planned = self.plan.policy, len(self.plan.instructions)
        if self.plan.held:
            return f"{name}: held: {self.plan.held[0]}"
        if self.gave_way:
            left = f": {plural(planned, 'change')} left for later" if planned else ""
            return f"{name}: gave way to the slot that is due{left}"
        if not planned and self.problem is None:
            untouched = self.plan.untouched
            left = f", {len(untouched)} left alone: {untouched[0].reason}" if untouched else ""
            return f"{name}: no change is due{left}"
        outcomes = Counter(
            "gave way" if action.gave_way else str(action.outcome) for action in self.actions
        )
        parts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
        if planned > len(self.actions):
            parts.append(f"{planned - len(self.actions)} left for later")
        reasons = (reason for action in self.actions if (reason := reason_of(action)) is not None)
        first = self.problem or next(reasons, None)
        text = f"{name}: {plural(planned, 'change')}: {', '.join(parts)}"
        return text if first is None else f"{text}: {first}"


def state_of(results: Sequence[PolicyResult]) -> SlotState:
    """Return how the slot ended: missed if everything due gave way to another slot."""
    if any(result.failed for result in results):
        return SlotState.FAILED
    begun = any(result.actions for result in results)
    gave_way = any(result.gave_way for result in results)
    return SlotState.MISSED if gave_way and not begun else SlotState.DONE


@dataclass(slots=True)
class PolicyKeeper:
    """Keeps the armed policies of a site.

    Attributes
    ----------
    driver
        Observes; it changes nothing.
    """

    place: ActingPlace
    driver: Driver
    log: logging.Logger
    _settled: bool = field(default=False, init=False)

    def keep(self, gives_way: GivesWay) -> tuple[PolicyResult, ...]:
        """Carry out what is due of each armed policy, and return the outcome of each.

        The right to act is taken once there is something to change, and held for the policies that
        follow. The first time, actions of a watch that was killed are settled before anything else.

        Raises
        ------
        TrimtabError
            The site cannot be observed, another process acts on it, or the journal cannot be used.
        """
        if not self._settled:
            self._settle(gives_way)
        measuring = self.place.site.policies.tunables.armed and not gives_way(MEASURING_S)
        observed: SiteObserved | None = self.place.observe(self.driver, measuring=measuring)
        results = []
        with contextlib.ExitStack() as right:
            surroundings: ActingSurroundings | None = None
            for policy in armed(self.place.site):
                if observed is None and not gives_way(0.0):
                    observed = self._observed(surroundings, changed=True)
                plan = self._plan(observed, policy)
                if observed is None or (plan.is_due and gives_way(0.0)):
                    results.append(PolicyResult(plan, gave_way=True))
                    continue
                if plan.is_due and surroundings is None:  # decide again with the right to act
                    surroundings = right.enter_context(carrying_out(self.place, gives_way))
                    settle(self.place, surroundings)
                    observed = self._observed(surroundings)
                    plan = decided(observed, policy, self.place.clock())
                result = PolicyResult(plan)
                if plan.is_due and surroundings is not None:
                    result = self._carried_out(plan, observed, surroundings)
                    if result.actions or result.problem is not None:
                        observed = None  # it has changed
                    if result.problem is not None:
                        right.close()
                        surroundings = None
                self._tell(result)
                results.append(result)
            if observed is None:
                self.place.keep(self._reached(surroundings).snapshot(self.place.clock()))
        return tuple(results)

    def _plan(self, observed: SiteObserved | None, policy: str) -> Plan:
        """Return the plan of a policy; an empty one if there is no time to observe."""
        now = self.place.clock()
        if observed is None:
            return Plan(self.place.site.name, policy, now, None)
        return decided(observed, policy, now)

    def _settle(self, gives_way: GivesWay) -> None:
        with carrying_out(self.place, gives_way) as surroundings:
            for action in settle(self.place, surroundings):
                extra = fields(action=action.id, outcome=str(action.outcome))
                self.log.warning("an interrupted action was settled", extra=extra)
        self._settled = True

    def _reached(self, surroundings: ActingSurroundings | None) -> Driver:
        return self.driver if surroundings is None else surroundings.driver

    def _observed(
        self, surroundings: ActingSurroundings | None, *, changed: bool = False
    ) -> SiteObserved:
        """Return the site as it is now; with ``changed`` its snapshot is stored."""
        observed = self.place.observe(self._reached(surroundings))
        if changed and observed.snapshot is not None:
            self.place.keep(observed.snapshot)
        return observed

    def _carried_out(
        self, plan: Plan, observed: SiteObserved, surroundings: ActingSurroundings
    ) -> PolicyResult:
        done: list[Action] = []
        try:
            actions = carry_out(self.place, plan, observed, surroundings, done.append)
        except TrimtabError as error:  # the other policies may still be kept
            self.log.error("a plan was aborted", extra=fields(problem=error.message))
            self._settled = False
            return PolicyResult(plan, tuple(done), error.message)
        return PolicyResult(plan, actions)

    def _tell(self, result: PolicyResult) -> None:
        for action in result.actions:
            instruction = action.instruction
            extra = fields(
                action=action.id,
                target=instruction.target,
                setting=instruction.setting,
                before=instruction.before,
                value=instruction.value,
                outcome=str(action.outcome),
                why=str(instruction.reason),
            )
            level = logging.INFO if action.outcome is Outcome.DONE else logging.WARNING
            self.log.log(level, f"action {instruction.kind.value}", extra=extra)
        if result.plan.held:
            extra = fields(policy=result.plan.policy, why=str(result.plan.held[0]))
            self.log.warning("nothing is changed", extra=extra)


_END_S: Final = 30.0
"""Time for a process to end on request: a scan writes its checkpoint."""
_COMMAND: Final = (sys.executable, "-m", "trimtab.cli", "purge")
_OUTPUT_BYTES: Final = 65536
_NOT_NEEDED: Final = "nothing-needed"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One command on the way to a published plan.

    Attributes
    ----------
    done
        File that exists once it has succeeded; ``None``: it can be repeated.
    """

    words: tuple[str, ...]
    done: Path | None = None


def steps(site: Site, due_at: datetime) -> tuple[PlanStep, ...]:
    """Return the commands that make and publish the plan of a slot."""
    policy = site.policies.purge
    assert policy.policy is not None
    index, plan = (_path(site, due_at, kind) for kind in ("index", "plan"))
    where = site.source or site.name
    scan = ("scan", site.path, "--index", str(index))
    freeze = ("plan", "--index", str(index), "--policy", policy.policy, "--out", str(plan))
    freeze += ("--site", where)
    made = (PlanStep(scan, index / MANIFEST), PlanStep(freeze, plan))
    return (*made, PlanStep(("notify", str(plan)))) if policy.publish else made


def _path(site: Site, due_at: datetime, kind: str) -> Path:
    """Return where the ``index``, ``plan`` or ``log`` of a slot is."""
    directory = site.policies.purge.directory
    assert directory is not None
    return Path(directory, f"{due_at.astimezone(UTC):%Y-%m-%dT%H%MZ}.{kind}")


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """Outcome of making a plan; a plan that is not needed is no failure."""

    failed: bool = False
    detail: str | None = None


@dataclass(slots=True)
class PurgePlanning:
    """The process that works on a slot's plan, if any.

    Attributes
    ----------
    store
        URL, for the growth forecast of the plan; it may hold a password, and is not an argument.
    """

    site: Site
    store: str
    log: logging.Logger
    command: Sequence[str] = _COMMAND
    due_at: datetime | None = field(default=None, init=False)
    _left: list[PlanStep] = field(default_factory=list, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def begin(self, due_at: datetime) -> None:
        """Begin the remaining steps of a slot's plan."""
        self.due_at = due_at
        todo = steps(self.site, due_at)
        self._left = [step for step in todo if step.done is None or not step.done.exists()]

    def ended(self) -> PlanEnd | None:
        """Begin the next step when one has ended; return the outcome once all have.

        ``None``: under way.
        """
        if self.due_at is None:
            return None
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return None
            self._process, step = None, self._left.pop(0)
            if code != 0:
                problem, detail = self._problem(code)
                self._left, self.due_at = [], None
                needed = problem != _NOT_NEEDED
                return PlanEnd(failed=needed, detail=f"purge {step.words[0]}: {detail}")
        if self._left:
            self._next()
            return None
        self.due_at = None
        return PlanEnd()

    def stop(self) -> None:
        """End the process; the next watch resumes its work."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _next(self) -> None:
        words = self._left[0].words
        self.log.info(f"purge {words[0]} begins", extra=fields(words=list(words)))
        with self._output("ab") as output:
            self._process = subprocess.Popen(
                [*self.command, *words, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, STORE_VARIABLE: self.store},
                start_new_session=True,
            )

    @contextlib.contextmanager
    def _output(self, mode: str) -> Iterator[IO[bytes]]:
        assert self.due_at is not None
        path = _path(self.site, self.due_at, "log")
        with system_errors(f"cannot write {visible(str(path))}", code="log-unwritable"):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open(mode) as file:
                yield file

    def _problem(self, exit_code: int) -> tuple[str, str]:
        """Return code and text of the error with which a command ended."""
        with self._output("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
            lines = output.read().decode(errors="replace").split("\n")
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                error = json.loads(line)["error"]
                return str(error["code"]), visible(str(error["message"]))
        words = next((line for line in reversed(lines) if line), "no output")
        return "", visible(f"exit code {exit_code}: {words}")
