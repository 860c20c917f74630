"""Everything that is asked of an index before a purge: what has to go, what to list, from whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from trimtab.errors import UsageError
from trimtab.purge.horizon.curve import AgeCurve
from trimtab.purge.horizon.forecast import Growth
from trimtab.purge.horizon.horizon import (
    AGES_DAYS,
    DAY_S,
    Horizon,
    HorizonStatus,
    OwnedBy,
    Step,
    find_horizon,
    owners,
    publication_bytes,
    steps,
)
from trimtab.purge.horizon.tally import (
    TallyLike,
    curve_of,
    ost_curves,
    project_days,
    user_days,
)
from trimtab.purge.horizon.targets import OstHorizons, find_ost_horizons
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.policy import Policy
from trimtab.purge.rules import HOUR_S, RulesInForce, moment
from trimtab.units import format_bytes, format_percent, plural


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy comes to on one index.

    Attributes
    ----------
    as_of_s
        When the metadata were taken; ages are as of then.
    needed
        The horizon of now: what a run deletes at least.
    published
        The horizon of the lists: what a run may delete at most, since use grows until then.
    growth
        What use is expected to grow by; ``None`` where nobody looked.
    osts
        With ``target_ost``: what each OST needs.
    steps
        What horizons of other ages would do, none younger than the minimum age.
    users, projects
        From whom the published horizon takes what.
    future_files
        Files with times beyond the scan's end, which count as its end.
    words
        Sentences, for people.
    """

    as_of_s: int
    needed: Horizon
    published: Horizon
    growth: Growth | None
    osts: OstHorizons | None
    steps: tuple[Step, ...]
    users: tuple[OwnedBy, ...]
    projects: tuple[OwnedBy, ...]
    future_files: int = 0
    words: tuple[str, ...] = ()


def answer(
    policy: Policy,
    rules: RulesInForce,
    tally: TallyLike,
    usage: Usage,
    *,
    ost_usages: Mapping[int, Usage] | None = None,
    growth: Growth | None = None,
) -> Answer:
    """Return what a policy comes to on the tally of an index.

    Parameters
    ----------
    tally
        Counted by ``rules.core()``; with users, and with projects and OSTs where asked for.
    ost_usages
        Of each OST; needed for a policy with ``target_ost``.
    growth
        Over ``policy.horizon_ahead_s`` (`forecast_growth`).

    Raises
    ------
    UsageError
        The policy is one of OSTs and their use or the layout of files is not known.
    """
    curve = curve_of(tally)
    youngest_hour = rules.old_enough_before_s // HOUR_S
    osts = None
    if policy.target_ost is not None:
        osts = find_ost_horizons(
            _layout(tally, curve),
            _known(ost_usages),
            policy.target_ost,
            whole=curve,
            usage=usage,
            youngest_hour=youngest_hour,
        )
    target = _target(policy, usage, osts)
    find = partial(
        find_horizon, curve, usage, target, youngest_hour=youngest_hour, kept=tally.kept()
    )
    # By the OSTs' own cut-off: their overall target is rounded.
    exactly = None if osts is None or osts.target is None else osts.freed.allocated_bytes
    needed = find(required_bytes=exactly)
    more = 0 if growth is None else growth.high_bytes or 0
    listed = publication_bytes(usage, target, growth_bytes=more, factor=policy.publish_factor)
    published = find(required_bytes=max(listed, needed.required_bytes))
    cut_off = published.cut_off_hour
    ages_days = [days for days in AGES_DAYS if days * DAY_S >= rules.minimum_age_s]
    found = Answer(
        as_of_s=rules.as_of_s,
        needed=needed,
        published=published,
        growth=growth,
        osts=osts,
        steps=steps(curve, usage, as_of_s=rules.as_of_s, ages_days=ages_days),
        users=() if cut_off is None else owners(user_days(tally), cut_off),
        projects=() if cut_off is None else owners(project_days(tally), cut_off),
        future_files=tally.future_files,
    )
    return replace(found, words=tuple(_words(found, policy, rules, tally)))


def _known(ost_usages: Mapping[int, Usage] | None) -> Mapping[int, Usage]:
    if not ost_usages:
        raise UsageError(
            "the policy has a target of OSTs, and how full each of them is is not known",
            hint="--site SITE, of a Lustre whose OSTs all answer; or take target, of the whole",
        )
    return ost_usages


def _layout(tally: TallyLike, curve: AgeCurve) -> Mapping[int, AgeCurve]:
    curves = ost_curves(tally)
    if not curves and curve.total.files:
        raise UsageError(
            "the policy has a target of OSTs, and the index does not tell where files lie",
            hint="trimtab purge scan --with layout",
        )
    return curves


def _target(policy: Policy, usage: Usage, osts: OstHorizons | None) -> float:
    """Return the fullness of the whole to come to.

    Where no OST needs anything now it is the one at which the fullest OST would reach its limit,
    as skewed as they are: the lists are made for that.
    """
    if osts is None:
        if policy.target is None:
            raise UsageError("the policy has no target", hint='[policy] target = "70%"')
        return policy.target
    if osts.target is not None:
        return osts.target
    fullest = max(
        (one.usage.fullness for one in osts.osts if one.status is HorizonStatus.MET_ALREADY),
        default=0.0,
    )
    if fullest == 0:
        return osts.limit
    return min(osts.limit, int(osts.limit * usage.fullness / fullest * 10_000) / 10_000)


def _words(found: Answer, policy: Policy, rules: RulesInForce, tally: TallyLike) -> Iterator[str]:
    yield from rules.words
    if found.osts is not None:
        yield from found.osts.words(found.as_of_s)
    yield from found.needed.words(found.as_of_s)
    if found.growth is not None:
        yield found.growth.words
    if found.published.required_bytes:
        yield from _published(found, policy)
    if found.future_files:
        latest = tally.latest_future_s
        until = "" if latest is None else f", the latest {moment(latest)}"
        yield (
            f"{plural(found.future_files, 'file', ',')} with times after the scan{until}: they "
            "count as its end, or they would live for ever."
        )


def _published(found: Answer, policy: Policy) -> Iterator[str]:
    published = found.published
    assert published.cut_off_s is not None
    grown = (
        "as use is now"
        if found.growth is None or found.growth.high_bytes is None
        else "if use grows as far as the upper end of the forecast"
    )
    yield (
        f"Lists name what was last used before {moment(published.cut_off_s)}: "
        f"{format_bytes(published.freed.allocated_bytes)}, for {policy.publish_factor:g} times "
        f"what {format_percent(published.target, 2)} asks for {grown}."
    )
    if published.status is HorizonStatus.OUT_OF_REACH:
        yield "That is all that may be deleted, and less than that."
