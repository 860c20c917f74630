"""Registers the changelog user of MDTs and removes it: planned, shown, journalled, read back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.config.problems import did_you_mean
from trimtab.drivers.lustre.changelogs import ask_users_by_server
from trimtab.drivers.lustre.placement import lustre_name
from trimtab.errors import ToolError, UsageError
from trimtab.launch.fleet import fan_out
from trimtab.loop.acting.session import Place, apply_and_log, carrying_out, settle
from trimtab.loop.acting.visit import refuse_another
from trimtab.loop.sites import acting_site, clock_of, know_site
from trimtab.loop.stores import open_store
from trimtab.model.action import Action, ActionKind, Plan
from trimtab.purge.follow.registering import DEREGISTERING, REGISTERING, decide
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.site import Site
    from trimtab.record.store import Store


@dataclass(frozen=True, slots=True)
class RegistrationDocument:
    """``trimtab purge follow --register | --deregister --json``: changelog users of MDTs.

    Attributes
    ----------
    dangers
        What the operator must know before applying it; empty if there is nothing to do.
    settled, actions
        As those of a plan; ``actions`` is empty without ``--yes``.
    """

    store: str
    applied: bool
    plan: Plan
    dangers: tuple[str, ...]
    settled: tuple[Action, ...]
    actions: tuple[Action, ...]


def plan_registration(
    where: str, store_url: str | None, mdts: Collection[str], *, registered: bool
) -> RegistrationDocument:
    """Return what would be done; nothing is changed.

    Parameters
    ----------
    mdts
        Only these; empty: all.

    Raises
    ------
    UsageError
        The site is no Lustre with an MDS.
    ToolError
        No MDS answers.
    DataError
        One says something else.
    """
    site = _site(where)
    with open_store(store_url, site, create=True) as store:
        plan = _plan(site, store, mdts, registered=registered)
        return _document(store, plan, registered=registered)


def carry_out_registration(
    where: str, store_url: str | None, mdts: Collection[str], *, registered: bool, expected: str
) -> RegistrationDocument:
    """Do what was planned, one MDT after another, and read it back.

    Parameters
    ----------
    expected
        `Plan.id` that a person has seen.

    Raises
    ------
    RefusedError
        Another process acts on the site, or the plan is another by now.
    ToolError, DataError, UnreadableError
        The servers, the store or the journal cannot be used.
    """
    site = _site(where)
    with open_store(store_url, site, create=True) as store:
        know_site(store, site)
        place = Place(site, store, clock_of(site))
        with carrying_out(place) as surroundings:
            settled = settle(place, surroundings)
            plan = _plan(site, store, mdts, registered=registered)
            hint = "somebody changed changelog users meanwhile: see the plan again"
            refuse_another(plan, expected, hint)
            actions = apply_and_log(place, plan, surroundings)
        return _document(store, plan, settled, actions, applied=True, registered=registered)


def _site(where: str) -> Site:
    site = acting_site(where)
    if site.driver != "lustre" or not site.servers.mds:
        raise UsageError(
            f"the site {visible(site.name)} names no MDS of a Lustre",
            code="site-without-mds",
            hint="[servers] mds = [...] in the site file: changelog users are registered there",
        )
    return site


def _plan(site: Site, store: Store, mdts: Collection[str], *, registered: bool) -> Plan:
    file_system = lustre_name(site)
    answers = ask_users_by_server(site.servers, file_system, fan_out=fan_out)
    if not any(answers.values()):
        raise ToolError(
            f"no MDS of {visible(site.name)} tells who reads changelogs",
            code="server-unreachable",
            hint="they are parameters of root: deploy/sudoers.d/trimtab, and sudo = true",
        )
    known = sorted(mdt for served in answers.values() for mdt in served or ())
    for mdt in mdts:
        if mdt not in known and None not in answers.values():
            raise UsageError(
                f"there is no MDT {visible(mdt[:80])!r}", code="target-unknown",
                hint=did_you_mean(mdt, known) or f"known: {', '.join(known[:12])}",
            )  # fmt: skip
    now = clock_of(site)()
    ledger = store.actions(site.name, kinds=(ActionKind.REGISTER,))
    return decide(site.name, file_system, answers, mdts, now, registered=registered, ledger=ledger)


def _document(
    store: Store,
    plan: Plan,
    settled: tuple[Action, ...] = (),
    actions: tuple[Action, ...] = (),
    *,
    applied: bool = False,
    registered: bool,
) -> RegistrationDocument:
    dangers = (REGISTERING if registered else DEREGISTERING) if plan.instructions else ()
    place = str(store.location)
    return RegistrationDocument(place, applied, plan, (*map(str, dangers),), settled, actions)
