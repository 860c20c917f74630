"""Decide on which MDTs to register or remove a changelog user. Pure.

An MDT records changes as soon as it has a user, and keeps records until every user has cleared
them. Users are therefore registered only on request, and on one MDT first if none has one: a
changelog problem takes an MDS down.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from trimtab.act.ledger import may_have_written
from trimtab.drivers.lustre.changelog import NEEDED, ChangelogUser, ChangelogUsers
from trimtab.drivers.lustre.writes import CHANGELOG_USER, deregister_words, register_words
from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Instruction, Plan, Untouched
from trimtab.units import format_duration

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
