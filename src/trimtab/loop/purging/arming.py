"""A plan armed: a person says that it may be carried out, and since when that holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from trimtab.errors import RefusedError
from trimtab.loop.event_log import place_of
from trimtab.loop.purging.approval import require_approval
from trimtab.loop.purging.place import PurgePlace, prepared
from trimtab.loop.sites import site_file
from trimtab.loop.stores import open_store
from trimtab.purge.plan.key import read_key
from trimtab.purge.plan.load import LoadedPlan, plan_in
from trimtab.purge.policy import Arming
from trimtab.purge.run.arming import arm, person_now, read_arming
from trimtab.purge.run.situation import ArmedBy
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class PurgeArmDocument:
    """Who armed a plan, and from when that counts; null: a second person is missing.

    Attributes
    ----------
    by
        Whoever did so now.
    everybody
        All who did, the first first.
    arming
        What the policy asks for.
    """

    loaded: LoadedPlan
    by: ArmedBy
    everybody: tuple[ArmedBy, ...]
    arming: Arming

    @property
    def at(self) -> datetime:
        """When it was armed now."""
        return datetime.fromtimestamp(self.by.at_s, UTC)

    @property
    def not_before(self) -> datetime:
        """When its notice period ends."""
        assert self.loaded.publication is not None
        return self.loaded.publication.not_before

    @property
    def people(self) -> int:
        """How many people that are known did."""
        return len({armed.person for armed in self.everybody if armed.person is not None})

    @property
    def effective_at(self) -> datetime | None:
        """Whole second from which on it counts; ``None``: a second person is missing."""
        if self.arming.kind == "delay":
            at_s = min(armed.at_s for armed in self.everybody) + self.arming.delay_s
        elif self.people > 1:
            at_s = self.by.at_s
        else:
            return None
        return datetime.fromtimestamp(int(at_s), UTC)


shape(
    PurgeArmDocument,
    omit=["by", "everybody", "arming"],
    inline={"loaded": ("plan",)},
    derive={
        "at": "at",
        "person": "by.person",
        "name": "by.name",
        "kind": (str, attrgetter("arming.kind")),
        "people": "people",
        "effective_at": "effective_at",
        "not_before": "not_before",
        "expires_at": "loaded.plan.expires_at",
    },
)


def approval_on(
    where: str, store_url: str | None, place: PurgePlace, now: datetime
) -> Callable[[LoadedPlan], object]:
    """Return what raises unless an admin approved a plan on the dashboard of a site."""

    def check(loaded: LoadedPlan) -> object:
        loaded_site = site_file(where)
        site = None if loaded_site is None else loaded_site.site
        with open_store(store_url, site) as store:
            name = place_of(store, where).name
            key = read_key(place.key, owner=place.owner)
            return require_approval(store.events(site=name), loaded, key, site=name, now=now)

    return check


def arm_plan(
    directory: Path,
    *,
    place: PurgePlace,
    now: datetime,
    person: int | None = None,
    check: Callable[[LoadedPlan], object] | None = None,
) -> PurgeArmDocument:
    """Return that a plan is armed from now on; it has to be published first.

    Parameters
    ----------
    person
        Who does so; ``None``: whoever's login led to this process.
    check
        Raises where it may not be armed.

    Raises
    ------
    RefusedError
        Nobody has seen the plan yet, it expired, or it is not what was signed.
    """
    loaded, _ = plan_in(directory, place.key, owner=place.owner)
    if loaded.publication is None:
        raise RefusedError(
            "the plan is not published: whoever arms it would arm what nobody has seen",
            code="plan-unpublished",
            hint="trimtab purge notify PLAN",
        )
    if now >= loaded.plan.expires_at:
        raise RefusedError(
            f"the plan expired at {loaded.plan.expires_at:%Y-%m-%d %H:%M} UTC",
            code="plan-expired",
            hint="scan, and make a new one",
        )
    if check is not None:
        check(loaded)
    journals = prepared(place).journals
    bound = (journals, loaded.plan.id, loaded.sha256)
    by = arm(
        *bound,
        at_s=now.timestamp(),
        person=person_now() if person is None else person,
        owner=place.owner,
    )
    facts = read_arming(*bound, owner=place.owner)
    if facts.trouble is not None:
        raise RefusedError(facts.trouble)
    return PurgeArmDocument(loaded, by, facts.armed_by, loaded.policy.arming)
