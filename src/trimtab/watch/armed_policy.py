"""The armed policies of a site, each in one slot of the watch: observe, decide, carry out."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trimtab.act.apply import ActingSurroundings, GivesWay, reason_of
from trimtab.act.decide.decision import decided
from trimtab.act.session import ActingPlace, carry_out, carrying_out, settle
from trimtab.base.action import Action, Outcome, Plan
from trimtab.base.error import TrimtabError
from trimtab.base.site import Site
from trimtab.base.units import plural
from trimtab.store.slot import SlotState
from trimtab.watch.log import fields

if TYPE_CHECKING:
    from trimtab.act.decide.site_observed import SiteObserved
    from trimtab.reach.driver_protocol import Driver

ORDER: Final = ("tunables", "balance", "allocator", "trim")
"""What takes longest comes last: it gives way to the next slot."""
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
    """What came of a policy in one slot.

    Attributes
    ----------
    problem
        Why it was broken off.
    gave_way
        Whether nothing of it was begun since another slot was due.
    """

    plan: Plan
    actions: tuple[Action, ...] = ()
    problem: str | None = None
    gave_way: bool = False

    @property
    def failed(self) -> bool:
        """Whether something did not end as the plan says."""
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
    """Return how the slot ended: missed where all that was due gave way to another slot."""
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
        """Carry out what is due of each armed policy, and return what came of each.

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
        """Return the plan of a policy; an empty one where there is no time to look."""
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
        """Return the site as it is now; with ``changed`` its snapshot is kept."""
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
            self.log.error("a plan was broken off", extra=fields(problem=error.message))
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
