"""Register or remove the changelog users of MDTs: planned, shown, journalled, read back.

An MDT records changes as soon as it has a user, and keeps records until every user has cleared
them. Users are therefore registered only on request, and on one MDT first if none has one: a
changelog problem takes an MDS down. `decide` makes the plan and is pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.act.session import ActingPlace, apply_and_log, carrying_out, settle
from trimtab.act.visit import refuse_another
from trimtab.base.action import Action, ActionKind, Instruction, Plan, Untouched, may_have_written
from trimtab.base.error import Message, ToolError, UsageError, visible
from trimtab.base.toml_problem import did_you_mean
from trimtab.base.units import format_duration
from trimtab.reach.fleet import fan_out
from trimtab.reach.lustre.changelog import (
    NEEDED,
    ChangelogUser,
    ChangelogUsers,
    ask_users_by_server,
)
from trimtab.reach.lustre.lustre_client import lustre_name
from trimtab.reach.lustre.write_table import CHANGELOG_USER, deregister_words, register_words
from trimtab.site.lookup import acting_site, clock_of, know_site, open_store

if TYPE_CHECKING:
    from trimtab.base.site import Site
    from trimtab.store.store import Store


POLICY: Final = "changelogs"

REGISTERING: Final = (
    Message(
        "changelog-hangs-mds",
        "A registered changelog user once hung an MDS for good: Lustre 2.17.57, built for Linux "
        "6.12 with fortified string functions, stopped at the first rename it recorded (strscpy in "
        "mdd_changelog_ns_store; its journal stalled, and only a restart helped). Rename a file "
        "while watching the server's console (dmesg --follow), with its failover ready. If clients "
        "hang: restart the MDS, deregister, and scan instead",
    ),
    Message(
        "changelog-fills-mdt",
        "From now on the MDT keeps every record until it is cleared, and a full MDT cannot even "
        "delete. Follow at least daily; when following ends: --deregister",
    ),
    Message(
        "changelog-user-lost",
        "A crash within seconds of registering may lose the user: check after a crash",
    ),
)
DEREGISTERING: Final = (
    Message(
        "index-unfollowable",
        "A followed index cannot continue without its user: it then needs a new user and --rescan",
    ),
)


def decide(
    site: str,
    file_system: str,
    servers: Mapping[str, Mapping[str, ChangelogUsers] | None],
    mdts: Collection[str],
    now: datetime,
    *,
    registered: bool,
    ledger: Iterable[Action] = (),
) -> Plan:
    """Return the plan that registers or removes the changelog user of MDTs.

    Parameters
    ----------
    servers
        MDSs, each with the changelog users of its MDTs; ``None`` if it did not answer.
    mdts
        Only these; if empty, all, but only the first while none has a user.
    ledger
        Registrations of this site; only users that one of them may have registered are removed.
    """
    ours = {
        (action.instruction.target, action.found) for action in ledger if may_have_written(action)
    }
    instructions: list[Instruction] = []
    untouched = [
        Untouched(server, Message("server-silent", "no answer: its MDTs are unknown"))
        for server, served in servers.items()
        if served is None
    ]
    served = sorted(_served(servers))
    for mdt, server, users in served:
        if mdts and mdt not in mdts:
            continue
        if registered:
            answer = _registering(file_system, mdt, server, users)
        else:
            answer = _deregistering(file_system, mdt, server, users, ours)
        if isinstance(answer, Message):
            untouched.append(Untouched(mdt, answer))
        else:
            instructions.append(answer)
    for mdt in sorted(set(mdts) - {mdt for mdt, _, _ in served}):
        untouched.append(Untouched(mdt, Message("target-absent", "no responding MDS serves it")))
    alone = registered and not mdts and not any(users.of(CHANGELOG_USER) for *_, users in served)
    if alone:
        for later in instructions[1:]:
            text = f"repeat the command once {instructions[0].target} has run with its user"
            untouched.append(Untouched(later.target, Message("first-target-alone", text)))
        del instructions[1:]
    return Plan(site, POLICY, now, None, tuple(instructions), tuple(untouched))


def _served(
    servers: Mapping[str, Mapping[str, ChangelogUsers] | None],
) -> Iterator[tuple[str, str, ChangelogUsers]]:
    for server, served in servers.items():
        for mdt, users in (served or {}).items():
            yield mdt, server, users


def _registering(
    file_system: str, mdt: str, server: str, users: ChangelogUsers
) -> Instruction | Message:
    """Return the registration of one MDT's user, or why nothing is done."""
    named = users.of(CHANGELOG_USER)
    if len(named) > 1:
        return _ambiguous(named)
    if named:
        return _reused(named[0], users)
    reason = Message("changelog-user-missing", f"it has no changelog user named {CHANGELOG_USER}")
    words = register_words({"fs": file_system, "mdt": mdt})
    return Instruction(
        ActionKind.REGISTER, mdt, reason, server, before="", stage=int(mdt[3:], 16),
        value=shlex.join(words),
    )  # fmt: skip


def _deregistering(
    file_system: str,
    mdt: str,
    server: str,
    users: ChangelogUsers,
    ours: Collection[tuple[str, str | None]],
) -> Instruction | Message:
    """Return the removal of one MDT's user, or why nothing is done."""
    named = users.of(CHANGELOG_USER)
    if len(named) > 1:
        return _ambiguous(named)
    if not named:
        return Message("not-in-force", f"it has no changelog user named {CHANGELOG_USER}")
    command = shlex.join(deregister_words({"fs": file_system, "mdt": mdt}))
    # None: the outcome of a registration was never known.
    if not {(mdt, named[0].name), (mdt, None)}.intersection(ours):
        return Message(
            "changelog-user-foreign",
            f"this store did not register {named[0].name}: name the store that did with --store; "
            f"if the user is not in use, remove it on {server}: {command}",
        )
    reason = Message("changelog-user-unwanted", _progress(named[0], users))
    return Instruction(
        ActionKind.DEREGISTER, mdt, reason, server, before=named[0].name, value=command
    )


def _ambiguous(named: Collection[ChangelogUser]) -> Message:
    names = ", ".join(user.name for user in named)
    return Message("changelog-user-ambiguous", f"it has {names}: remove one with lctl")


def _reused(user: ChangelogUser, users: ChangelogUsers) -> Message:
    """Return why an MDT keeps its user; a user that cannot be followed with is reported."""
    missing = sorted(NEEDED - users.mask)
    if missing:
        return Message(
            "changelog-mask-short",
            f"it has {user.name}, but record types {', '.join(missing)} are not enabled: "
            "--deregister, then --register",
        )
    return Message("registered-already", _progress(user, users))


def _progress(user: ChangelogUser, users: ChangelogUsers) -> str:
    behind = max(0, users.index - user.index)
    idle = format_duration(float(user.idle_s))
    return f"{user.name} cleared up to {user.index}, {behind:,} records pending, idle for {idle}"


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
    """Carry out the plan, one MDT after another, and read the result back.

    Parameters
    ----------
    expected
        `trimtab.base.action.Plan.id` that a person has seen.

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
        place = ActingPlace(site, store, clock_of(site))
        with carrying_out(place) as surroundings:
            settled = settle(place, surroundings)
            plan = _plan(site, store, mdts, registered=registered)
            hint = "the changelog users have changed since: see the plan again"
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
            f"no MDS of {visible(site.name)} reports its changelog users",
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
