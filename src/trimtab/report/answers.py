"""Answers in one sentence: the beginning of a screen or page. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from trimtab.config.targets import fold_names
from trimtab.judge.level import effect_text, size_of
from trimtab.model.action import ActionKind, Instruction, Outcome
from trimtab.model.grouping import grouped
from trimtab.model.incident import NOTABLE, IncidentState
from trimtab.report.text import joined_sentences, key_label
from trimtab.units import enumerated, format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.action import Action, Plan
    from trimtab.model.finding import Finding
    from trimtab.model.incident import Explanation, SpeedAt
    from trimtab.model.target import SiteState, TargetState

_NAMED: Final = 3


def short_summary(summary: str) -> str:
    """Return an incident's summary with only its first series, and the number of others.

    Examples
    --------
    >>> short_summary("since 2026-03-08 02:05 UTC: a write 17 % lower; b read 18 % lower; 3 more")
    'since 2026-03-08 02:05 UTC: a write 17 % lower, with 4 others'
    """
    first, *others = visible(summary).split("; ")
    count = len(others)
    if others and (more := others[-1].removesuffix(" more")).isdecimal():
        count += int(more) - 1
    return f"{first}, with {count} other{'s' * (count != 1)}" if others else first


def explain_answer(
    about: Explanation, explanations: Sequence[Explanation], speeds: Sequence[SpeedAt]
) -> str:
    """Return the speed of the runs at a moment, and the likeliest cause.

    Parameters
    ----------
    about
        The moment.
    explanations
        Explanations of the incidents that include it.
    speeds
        Per series, largest difference first.
    """
    if explanations:
        incident = min(explanations, key=rank)
        reason = f"{incident.incident.state.value.capitalize()} incident, {cause_text(incident)}"
    else:
        reason = "In no incident"
    first = f"{visible(about.incident.summary)}: {_speeds_answer(speeds)}"
    return joined_sentences(first, reason)


def _speeds_answer(speeds: Sequence[SpeedAt]) -> str:
    known = [speed for speed in speeds if speed.ratio is not None]
    if not known:
        return "no run with a usual level to compare it with"
    notable = [speed for speed in known if abs((speed.ratio or 0.0) - 1) >= NOTABLE]
    if not notable:
        return f"{len(known)} series as fast as usual"
    speed = notable[0]
    answer = (
        f"{key_label(speed.key)} {effect_text(speed.ratio)} "
        f"from usual ({format_value(speed.value or 0.0, speed.key.unit)}, usually "
        f"{format_value(speed.usual, speed.key.unit)})"
    )
    if len(notable) > 1:
        answer += f"; {len(notable) - 1} more of {len(known)} series differ"
    usual = len(known) - len(notable)
    return f"{answer}; {usual} as usual" if usual else answer


def rank(explanation: Explanation) -> tuple[int, float, float]:
    """Return the sort key of an incident: open ones first, then by the size of their effect."""
    incident = explanation.incident
    return (
        list(IncidentState).index(incident.state),
        -size_of(incident.effect),
        -incident.at.timestamp(),
    )


def cause_text(explanation: Explanation) -> str:
    """Return the likeliest cause with its probability, or that it is unknown."""
    cause = explanation.likeliest
    if cause is None:
        return "cause unknown"
    return f"{visible(cause.title)} ({format_percent(cause.confidence, 0)})"


def target_answer(state: SiteState, target_state: TargetState) -> str:
    """Return what is wrong with one target of a site, if anything."""
    target = target_state.seen.target
    where = visible(target.server or "an unknown server")
    words = "; ".join(visible(trouble.text) for trouble in target_state.troubles) or "no trouble"
    return joined_sentences(
        f"{visible(target_state.name)} of {visible(state.site)}, on {where}: {words}"
    )


_WORDS: Final = {
    ActionKind.SET: ("set", "set", "{changed} of {targets}"),
    ActionKind.TRIM: ("trim", "trimmed", "{targets}"),
    ActionKind.CLOSE: ("close", "closed", "{targets} to new files"),
    ActionKind.OPEN: ("open", "opened", "{targets} to new files"),
    ActionKind.RESET_ALLOCATOR: ("reset", "reset", "the allocator of {targets}"),
    ActionKind.MIGRATE: ("move", "moved", "{changed} off {targets}"),
    ActionKind.REGISTER: ("register", "registered", "a changelog user on {targets}"),
    ActionKind.DEREGISTER: ("remove", "removed", "the changelog user of {targets}"),
}
"""For each kind of change: verb, past tense, and object."""
_FOLDED_MOST: Final = 40
"""Maximum characters of a set of targets in an answer; a longer one is counted."""


def plan_answer(
    plan: Plan, actions: Sequence[Action] = (), troubles: Sequence[Finding] = ()
) -> str:
    """Return what a plan would change or, once applied, what it changed and what failed.

    Parameters
    ----------
    actions
        Completed actions; empty if the plan was only shown.
    troubles
        Troubles of the site, worst first: a policy that changes nothing leaves them as they are.
    """
    site = visible(plan.site)
    left = f"{plural(len(plan.untouched), 'difference', ',')} left alone" if plan.untouched else ""
    if actions:
        return f"{site}: {_applied(plan, actions)}{f'; {left}' if left else ''}."
    if plan.held:
        wish = f"; it {_kinds(plan.instructions)}" if plan.instructions else ""
        return f"{site}: nothing may be changed now: {visible(str(plan.held[0]))}{wish}."
    if not plan.instructions and troubles:
        rest = f", and {plural(len(troubles) - 1, 'more trouble')}" if troubles[1:] else ""
        return (
            f"{site}: no change by {plan.policy}; still in trouble: "
            f"{visible(troubles[0].title)}{rest}{f'; {left}' if left else ''}."
        )
    if not plan.instructions:
        return f"{site}: nothing to change{f', {left}' if left else ''}."
    return f"{site}: {_kinds(plan.instructions)}{f'; {left}' if left else ''}."


def _applied(plan: Plan, actions: Sequence[Action]) -> str:
    done = [action.instruction for action in actions if action.outcome is Outcome.DONE]
    failed = [action for action in actions if action.outcome is not Outcome.DONE]
    parts = [_kinds(done, are_done=True)] if done else []
    if failed:
        first = failed[0]
        word = outcome_text(first)
        why = f" ({visible(first.detail)})" if first.detail else ""
        parts.append(
            f"{len(failed):,} of {plural(len(actions), 'change', ',')} not done, the first: "
            f"{visible(first.instruction.target)} {word}{why}"
        )
    if (rest := len(plan.instructions) - len(actions)) > 0:
        parts.append(f"{rest:,} not begun")
    return "; ".join(parts)


def _kinds(instructions: Sequence[Instruction], *, are_done: bool = False) -> str:
    """Return what instructions would do, or did, grouped by kind."""
    texts = []
    for kind, entries in grouped(instructions, attrgetter("kind")).items():
        planned, done, objects = _WORDS[kind]
        targets = _target_names([entry.target for entry in entries])
        verb = done if are_done else f"would {planned}"
        texts.append(f"{verb} {objects.format(changed=_changed(entries), targets=targets)}")
    return "; ".join(texts)


def _changed(entries: Sequence[Instruction]) -> str:
    """Return the settings of instructions, a few by their short names, or the number of files."""
    settings = dict.fromkeys(
        (entry.setting or "").rpartition("/")[2] for entry in entries if entry.setting
    )
    if not settings:
        return plural(len(entries), "file", ",")
    return visible(enumerated(settings, _NAMED))


def _target_names(names: Sequence[str]) -> str:
    """Return a few targets by name, more of them folded, and very many as a number."""
    folded = visible(fold_names(names))
    count = len(dict.fromkeys(names))
    return folded if len(folded) <= _FOLDED_MOST else plural(count, "target", ",")


def actions_answer(site: str, actions: Sequence[Action]) -> str:
    """Return the number of changes to a site, the number that failed, and the last one.

    Parameters
    ----------
    actions
        Oldest first.
    """
    if not actions:
        return f"{visible(site)}: nothing has been changed."
    outcomes = Counter(map(outcome_text, actions))
    each = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
    last = actions[-1]
    if last.outcome is Outcome.DONE:
        words = _kinds([last.instruction], are_done=True)
    else:
        kind = last.instruction.kind.value.replace("-", " ")
        words = f"{kind} of {visible(last.instruction.target)} {outcome_text(last)}"
    count = plural(len(actions), "change", ",")
    at = f"{last.at.astimezone():%Y-%m-%d %H:%M}"
    return f"{visible(site)}: {count}, {each}; the last on {at}: {words}."


def outcome_text(action: Action) -> str:
    """Return the outcome of an action as text."""
    return "begun" if action.outcome is None else action.outcome.value.replace("-", " ")
